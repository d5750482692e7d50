//! See `nandlab_fuzz::ext`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nandlab_fuzz::ext::run(input));
