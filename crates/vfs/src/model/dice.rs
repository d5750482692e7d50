//! Random choices, a function of the seed.

use nandlab_sim::mix;

/// A stream of choices.
#[derive(Clone, Debug)]
pub(super) struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self { seed, thrown: 0 }
    }

    pub fn word(&mut self) -> u64 {
        self.thrown += 1;
        mix(self.seed, self.thrown)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word().checked_rem(bound).unwrap_or(0)
    }

    /// True once in `n` times.
    pub fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them, if there are any.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len() as u64) as usize)
    }
}
