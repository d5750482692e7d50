//! The last few things that happened, for the message of a run that stops.

use alloc::vec::Vec;

/// Keeps the last `N` items pushed (`N` a power of two), at the cost of one store each.
#[derive(Clone, Debug)]
pub struct Ring<T, const N: usize> {
    items: [T; N],
    pushed: usize,
}

impl<T: Copy + Default, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self {
            items: [T::default(); N],
            pushed: 0,
        }
    }
}

impl<T: Copy + Default, const N: usize> Ring<T, N> {
    /// Remembers `item`, forgetting the oldest of `N`.
    #[inline]
    pub fn push(&mut self, item: T) {
        self.items[self.pushed & (N - 1)] = item;
        self.pushed += 1;
    }

    /// The items still remembered, oldest first.
    pub fn recent(&self) -> Vec<T> {
        let kept = self.pushed.min(N);
        (self.pushed - kept..self.pushed)
            .map(|i| self.items[i & (N - 1)])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_in_order() {
        let mut ring = Ring::<u8, 4>::default();
        (0..6).for_each(|i| ring.push(i));
        assert_eq!(ring.recent(), [2, 3, 4, 5]);
    }
}
