//! The hashes by which indexed directories are ordered (Linux `fs/ext4/hash.c`, RFC 1320 for the
//! rounds of MD4, Wheeler and Needham for TEA).
//!
//! *Promises* the numbers that Linux computes, for names as signed and unsigned bytes. *Knows
//! nothing of* directories.

/// What the hash of no name is: the end of a listing in Linux.
const END: u32 = 0xFFFF_FFFE;

/// The hash of a name by version (0 legacy, 1 half MD4, 2 TEA; 3 to 5 the same for unsigned bytes);
/// its lowest bit is 0. None for an unknown version.
pub(crate) fn hash(name: &[u8], version: u8, seed: [u32; 4]) -> Option<u32> {
    let signed = version < 3;
    let state = if seed == [0; 4] {
        [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476]
    } else {
        seed
    };
    let raw = match version % 3 {
        _ if version > 5 => return None,
        0 => legacy(name, signed),
        1 => name
            .chunks(32)
            .zip(rests(name, 32))
            .fold(state, |s, (part, rest)| {
                half_md4(s, words::<8>(part, rest, signed))
            })[1],
        _ => name
            .chunks(16)
            .zip(rests(name, 16))
            .fold(state, |s, (part, rest)| {
                tea(s, words::<4>(part, rest, signed))
            })[0],
    };
    let even = raw & !1;
    Some(if even == END { END - 2 } else { even })
}

/// How much of a name is left where each chunk begins.
fn rests(name: &[u8], chunk: usize) -> impl Iterator<Item = usize> {
    (0..name.len()).step_by(chunk).map(|at| name.len() - at)
}

fn widen(byte: u8, signed: bool) -> u32 {
    if signed {
        byte as i8 as u32
    } else {
        u32::from(byte)
    }
}

/// The words of a chunk; what lies behind it is filled with the length that was left.
fn words<const N: usize>(part: &[u8], rest: usize, signed: bool) -> [u32; N] {
    let pad = (rest as u32 & 0xFF) * 0x0101_0101;
    let mut words = [pad; N];
    for (word, bytes) in words.iter_mut().zip(part.chunks(4)) {
        *word = bytes.iter().fold(pad, |word, byte| {
            widen(*byte, signed).wrapping_add(word << 8)
        });
    }
    words
}

fn legacy(name: &[u8], signed: bool) -> u32 {
    let mut now = 0x12A3_FE2Du32;
    let mut before = 0x37AB_E8F9u32;
    for byte in name {
        let mixed = before.wrapping_add(now ^ widen(*byte, signed).wrapping_mul(7_152_373));
        let next = if mixed & 0x8000_0000 != 0 {
            mixed.wrapping_sub(0x7FFF_FFFF)
        } else {
            mixed
        };
        (before, now) = (now, next);
    }
    now << 1
}

/// MD4 with eight words and eight steps a round.
fn half_md4(state: [u32; 4], x: [u32; 8]) -> [u32; 4] {
    type Mix = fn(u32, u32, u32) -> u32;
    let rounds: [(Mix, u32, [usize; 8], [u32; 4]); 3] = [
        (
            |x, y, z| z ^ x & (y ^ z),
            0,
            [0, 1, 2, 3, 4, 5, 6, 7],
            [3, 7, 11, 19],
        ),
        (
            |x, y, z| (x & y).wrapping_add((x ^ y) & z),
            0x5A82_7999,
            [1, 3, 5, 7, 0, 2, 4, 6],
            [3, 5, 9, 13],
        ),
        (
            |x, y, z| x ^ y ^ z,
            0x6ED9_EBA1,
            [3, 7, 2, 6, 1, 5, 0, 4],
            [3, 9, 11, 15],
        ),
    ];
    let mut s = state;
    for (mix, constant, order, turns) in rounds {
        for (step, index) in order.into_iter().enumerate() {
            // The four words take turns: a, d, c, b.
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| (i + 4 - step % 4) % 4);
            let sum = s[a]
                .wrapping_add(mix(s[b], s[c], s[d]))
                .wrapping_add(x[index])
                .wrapping_add(constant);
            s[a] = sum.rotate_left(turns[step % 4]);
        }
    }
    core::array::from_fn(|i| state[i].wrapping_add(s[i]))
}

fn tea(state: [u32; 4], key: [u32; 4]) -> [u32; 4] {
    let [mut x, mut y] = [state[0], state[1]];
    let mut sum = 0u32;
    let mix = |v: u32, sum: u32, a: u32, b: u32| {
        (v << 4).wrapping_add(a) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(b)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        x = x.wrapping_add(mix(y, sum, key[0], key[1]));
        y = y.wrapping_add(mix(x, sum, key[2], key[3]));
    }
    [
        state[0].wrapping_add(x),
        state[1].wrapping_add(y),
        state[2],
        state[3],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee, as words; the numbers are those of e2fsprogs'
    /// `dx_hash`.
    const SEED: [u32; 4] = [0xAAAA_AAAA, 0xCCCC_BBBB, 0xEEEE_DDDD, 0xEEEE_EEEE];

    #[test]
    fn names_have_the_hashes_of_e2fsprogs() {
        let long = b"a rather long name, to fill more than thirty-two bytes of a directory";
        let known: [(&[u8], [u32; 3]); 4] = [
            (b"a", [0xE74B_53E2, 0x5CBB_4BB6, 0x65A2_1A36]),
            (b"hello.txt", [0x65A0_5776, 0x714D_2A7A, 0x9D45_8570]),
            (long, [0xAB50_D286, 0x43B1_EDCE, 0x29AC_5AB4]),
            ("größer".as_bytes(), [0x14C4_8C06, 0x77C9_2E04, 0xBFBD_1C80]),
        ];
        for (name, hashes) in known {
            for (version, expected) in (0..).zip(hashes) {
                assert_eq!(
                    hash(name, version, SEED),
                    Some(expected),
                    "{name:?} {version}"
                );
                assert_eq!(
                    hash(name, version + 3, SEED) == Some(expected),
                    name.is_ascii(),
                    "unsigned {name:?} {version}"
                );
            }
        }
        assert_eq!(hash(b"hello.txt", 1, [0; 4]), Some(0xA26E_1D86));
        assert_eq!(hash(b"a", 6, SEED), None);
    }
}
