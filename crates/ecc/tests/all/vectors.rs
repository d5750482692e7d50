//! Parity bytes are those of the kernel. The BCH vectors came from Python's `bchlib`, which is the
//! kernel's `lib/bch.c`, masked as `ecc-sw-bch.c` does; the Hamming vectors from the function
//! `ecc_sw_hamming_calculate` of Linux 6.1.

use nandlab_ecc::Codec;

/// The bytes that all vectors are about.
fn bytes(count: usize) -> Vec<u8> {
    let mut state = 12345_u32;
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_103_515_245).wrapping_add(12345) & 0x7FFF_FFFF;
        (*state >> 16) as u8
    };
    (0..count).map(|_| next(&mut state)).collect()
}

fn parity(name: &str, from: usize) -> String {
    let codec = Codec::new(name.parse().unwrap()).unwrap();
    let step = codec.code().step();
    let mut parity = vec![0; codec.code().parity()];
    codec.encode(&bytes(from + step)[from..], &mut parity);
    parity.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn hamming_parity_is_the_kernels_in_both_orders() {
    assert_eq!(parity("hamming", 0), "5a65a7");
    assert_eq!(parity("hamming", 256), "a96667");
    assert_eq!(parity("hamming-smc", 0), "655aa7");
    assert_eq!(parity("hamming-512", 0), "0cfc3c");
    assert_eq!(parity("hamming-512-smc", 0), "fc0c3c");
}

#[test]
fn bch_parity_is_the_kernels_in_every_field() {
    for (name, expected) in [
        ("bch-1", "75cf"),
        ("bch-4", "879c9b847dd8ef"),
        ("bch-8", "a2a4e1addbbd46472a7d572bdb"),
        (
            "bch-24",
            "bc59762e4cb195b050a9b2951ba00ff69b936d5301041de3518bf7aac12f3081f7d0d4c5e91bba",
        ),
        ("bch-1-1024", "8f5b"),
        ("bch-4-1024", "8b883604f66315"),
        ("bch-8-1024", "42a712528dbc514a8e9c41045d1a"),
        (
            "bch-24-1024",
            "880e861ef003ec7c86b6e24036f6dc6fb7ce07be11d3dbccfe107074fa50a9c680f11edd19737efce07e",
        ),
        ("bch-1-2048", "bd5b"),
        ("bch-4-2048", "90289d3e4edcb01f"),
        ("bch-8-2048", "a999b760952f73d7b13cee53ce6cf7"),
        (
            "bch-60-2048",
            "730e9f9146b48a7ad1e0d9a18f8d35bd2794a1e947a440685eb2d32aa23bb0da666dd97e5ac30cd67d3f\
             e1bba8542db669768fb669230eba519cdc10b9bc6a66104b36362a1bed6fdde288f32d00feea81ff0d4a\
             aba4742537b30ff3597e24742efffab52a35bde92816d649cf475c61ef",
        ),
    ] {
        assert_eq!(parity(name, 0), expected, "{name}");
    }
}
