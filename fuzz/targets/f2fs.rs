//! See `nandlab_fuzz::f2fs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nandlab_fuzz::f2fs::run(input));
