//! See `nandlab_fuzz::jffs2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nandlab_fuzz::jffs2::run(input));
