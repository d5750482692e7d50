//! See `nandlab_fuzz::ubifs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nandlab_fuzz::ubifs::run(input));
