//! All compressors on all sorts of data.

use super::*;
use alloc::vec;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (nandlab_sim::mix(seed, at) >> 20) as u8)
        .collect()
}

/// Kinds of pages: zeros, text, steps, noise, mixtures, one byte.
fn samples() -> Vec<Vec<u8>> {
    let text = b"the quick brown fox jumps over the lazy dog, and the dog does not mind; "
        .repeat(60)[..4096]
        .to_vec();
    let mut mixed = noise(1, 4096);
    mixed[500..2500].copy_from_slice(&text[..2000]);
    mixed[3000..3900].fill(9);
    let mut all = vec![
        vec![0; 4096],
        text,
        (0..4096u32).map(|at| (at / 7) as u8).collect(),
        noise(2, 4096),
        mixed,
        vec![5],
    ];
    for len in [
        2, 3, 4, 5, 12, 13, 17, 18, 19, 20, 100, 238, 239, 256, 273, 274, 300, 1000,
    ] {
        all.push(noise(3, len));
        all.push(vec![7; len]);
        all.push(b"ab".repeat(len)[..len].to_vec());
    }
    all
}

#[test]
fn what_is_compressed_comes_back_and_is_never_longer() {
    let mut packer = Packer::default();
    let one = |lzo, zlib, rtime| Compression {
        choice: Choice::Priority,
        lzo,
        zlib,
        rtime,
    };
    let ways = [
        Compression::NONE,
        Compression::CLASSIC,
        Compression::LINUX,
        one(true, false, false),
        one(false, true, false),
        one(false, false, true),
    ];
    let by_size = Compression {
        choice: Choice::Size,
        ..Compression::LINUX
    };
    let favour = Compression {
        choice: Choice::FavourLzo,
        ..Compression::LINUX
    };
    for how in ways.into_iter().chain([by_size, favour]) {
        for source in samples() {
            for room in [source.len(), source.len() / 2 + 1, 130.min(source.len())] {
                let packed = packer.pack(how, &source, room);
                let compr = packed.compr;
                let taken = packed.taken;
                let data = packed.data.to_vec();
                assert!(
                    data.len() <= room && taken <= source.len() && taken > 0,
                    "{how:?} {compr} {} of {room}",
                    data.len()
                );
                let mut back = vec![0xEE; taken];
                packer
                    .unpack(compr, &data, &mut back)
                    .unwrap_or_else(|error| panic!("{how:?} {compr} {}: {error}", source.len()));
                assert_eq!(back, source[..taken], "{how:?} {compr}");
            }
        }
    }
}

#[test]
fn thorough_lzo_is_shorter_and_comes_back() {
    let only = Compression {
        choice: Choice::Priority,
        lzo: true,
        zlib: false,
        rtime: false,
    };
    let mut quick = Packer::default();
    let mut thorough = Packer::thorough();
    let mut longer = 0;
    let mut shorter = 0;
    // Twice, so that the tables hold what other sources left there; with words of all lengths at
    // all distances.
    for round in 0..2 {
        let words: Vec<u8> = (0..9000u64)
            .map(|at| {
                b"node erase clean inode lzo"
                    [(nandlab_sim::mix(at / (1 + at % 9), round) % 26) as usize]
            })
            .collect();
        for source in samples().into_iter().chain([
            words.clone(),
            words[..4096].to_vec(),
            [vec![0; 40_000], words].concat(),
        ]) {
            longer += quick.pack(only, &source, source.len()).data.len();
            let packed = thorough.pack(only, &source, source.len());
            let compr = packed.compr;
            let data = packed.data.to_vec();
            shorter += data.len();
            let mut back = vec![0xEE; source.len()];
            thorough
                .unpack(compr, &data, &mut back)
                .unwrap_or_else(|error| panic!("{} bytes: {error}", source.len()));
            assert_eq!(back, source);
        }
    }
    assert!(shorter < longer, "{shorter} {longer}");
}

#[test]
fn the_choices_are_the_kernels() {
    let mut packer = Packer::default();
    let text = &samples()[1];
    let chosen = |packer: &mut Packer, how| packer.pack(how, text, 4096).compr;
    assert_eq!(chosen(&mut packer, Compression::LINUX), LZO);
    assert_eq!(chosen(&mut packer, Compression::CLASSIC), ZLIB);
    assert_eq!(
        chosen(
            &mut packer,
            Compression {
                zlib: false,
                ..Compression::CLASSIC
            }
        ),
        RTIME
    );
    for source in samples().iter().filter(|source| source.len() > 200) {
        let mut len = |how| packer.pack(how, source, source.len()).data.len();
        let shortest = len(Compression {
            choice: Choice::Size,
            ..Compression::LINUX
        });
        assert!(shortest <= len(Compression::LINUX) && shortest <= len(Compression::CLASSIC));
    }
    assert_eq!(chosen(&mut packer, Compression::NONE), NONE);
    assert_eq!(
        packer.pack(Compression::LINUX, &noise(5, 4096), 4096).compr,
        NONE
    );
    // Linux's zlib needs 43 bytes for a page of zeros.
    let zeros = packer.pack(Compression::CLASSIC, &[0; 4096], 4096);
    assert!(
        (30..=48).contains(&zeros.data.len()),
        "{}",
        zeros.data.len()
    );
}

#[test]
fn damaged_data_give_an_error_or_something_but_never_a_panic() {
    let mut packer = Packer::default();
    for compr in 0..=255u8 {
        for seed in 0..200 {
            let data = noise(seed, (seed % 90) as usize);
            _ = packer.unpack(compr, &data, &mut vec![0; (seed * 31 % 5000) as usize]);
        }
    }
    assert_eq!(
        packer.unpack(9, b"", &mut [0]),
        Err(Undecodable::Unknown(9))
    );
    assert_eq!(
        packer.unpack(NONE, b"", &mut [0]),
        Err(Undecodable::Damaged("plain"))
    );
    assert_eq!(
        packer.unpack(RTIME, &[1, 200], &mut [0; 5]),
        Err(Undecodable::Damaged("rtime"))
    );
}

#[test]
fn every_flip_of_a_bit_in_compressed_data_is_survived() {
    let mut packer = Packer::default();
    for how in [
        Compression::LINUX,
        Compression::CLASSIC,
        Compression {
            zlib: false,
            ..Compression::CLASSIC
        },
    ] {
        let source = &samples()[4];
        let packed = packer.pack(how, source, 4096);
        let compr = packed.compr;
        let data = packed.data.to_vec();
        for bit in 0..data.len() * 8 {
            let mut data = data.clone();
            data[bit / 8] ^= 1 << (bit % 8);
            _ = packer.unpack(compr, &data, &mut [0; 4096]);
        }
    }
}
