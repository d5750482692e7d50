//! Stateless randomness: what happens to a page is a function of the seed and of what was done to
//! it, never of how many numbers somebody else drew before. So a replayed operation log meets the
//! same faults.

/// Mixes two words into one (SplitMix64's finaliser over their combination).
#[inline]
pub const fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(0x6a09_e667_f3bc_c909);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Whether an event of probability `p` happens, given a mixed word.
#[inline]
pub fn chance(word: u64, p: f64) -> bool {
    // The upper 53 bits as a fraction in [0, 1).
    ((word >> 11) as f64) < p * (1u64 << 53) as f64
}
