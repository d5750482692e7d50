//! A seeded bijection of `0..n`, for any n: popular ranks come to lie apart, and none is lost or
//! doubled.

use nandlab_sim::mix;

const ROUNDS: usize = 3;

/// A permutation of `0..n`. On the smallest power of two not below n it is a chain of steps, each
/// invertible there: multiply by an odd number, add, fold the upper half into the lower; results
/// from n up are sent round again, which ends below n because the chain is a permutation, after
/// fewer than two rounds on average.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [(u64, u64); ROUNDS],
}

impl Scatter {
    /// A permutation of `0..n`, `n` from 1 to 2^63.
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        let bits = u64::BITS - (n - 1).leading_zeros();
        let key = |round: usize| {
            (
                mix(seed, 2 * round as u64) | 1,
                mix(seed, 2 * round as u64 + 1),
            )
        };
        Self {
            n,
            mask: (1 << bits) - 1,
            shift: bits.div_ceil(2).max(1),
            keys: core::array::from_fn(key),
        }
    }

    /// Where `rank`, below n, goes.
    #[inline]
    pub(crate) fn place(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            for (factor, addend) in self.keys {
                x = x.wrapping_mul(factor).wrapping_add(addend) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn every_place_is_taken_once() {
        for n in (1..200).chain([1000, 4096, 4097, 65_535, 100_003]) {
            for seed in 0..3 {
                let scatter = Scatter::new(n, seed);
                let mut taken = vec![false; n as usize];
                (0..n).for_each(|rank| {
                    assert!(
                        !core::mem::replace(&mut taken[scatter.place(rank) as usize], true),
                        "n {n} seed {seed}"
                    )
                });
            }
        }
    }

    #[test]
    fn neighbours_come_to_lie_apart() {
        let scatter = Scatter::new(1 << 20, 5);
        // The hundred hottest ranks, by thirds of the space; and no two of them next to each other.
        let mut places: alloc::vec::Vec<u64> = (0..100).map(|rank| scatter.place(rank)).collect();
        places.sort_unstable();
        let third = |i: u64| places.iter().filter(|&&p| (p * 3) >> 20 == i).count();
        assert!((0..3).all(|i| (15..52).contains(&third(i))), "{places:?}");
        assert!(places.windows(2).all(|w| w[1] - w[0] > 1), "{places:?}");
    }

    #[test]
    fn seeds_differ() {
        let places = |seed| {
            (0..20)
                .map(|rank| Scatter::new(1 << 40, seed).place(rank))
                .collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(places(1), places(1));
        assert_ne!(places(1), places(2));
    }
}
