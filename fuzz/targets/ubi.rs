//! See `nandlab_fuzz::ubi`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nandlab_fuzz::ubi::run(input));
