//! See `nandlab_fuzz::fat`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nandlab_fuzz::fat::run(input));
