//! See `nandlab_fuzz::image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nandlab_fuzz::image::run(input));
