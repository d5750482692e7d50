//! Free blocks in the order of their wear, with nothing to allocate for a block that comes or goes.

use alloc::collections::VecDeque;

/// Erase counts and blocks, ascending. Blocks come back with the largest counts, so that few others
/// move.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(VecDeque<(u32, u32)>);

impl Pool {
    /// A block comes in.
    pub fn insert(&mut self, erases: u32, block: u32) {
        let at = self.0.partition_point(|free| *free < (erases, block));
        self.0.insert(at, (erases, block));
    }

    /// The least worn block goes out.
    pub fn take_least(&mut self) -> Option<u32> {
        self.0.pop_front().map(|(_, block)| block)
    }

    /// The most worn block goes out.
    pub fn take_most(&mut self) -> Option<u32> {
        self.0.pop_back().map(|(_, block)| block)
    }

    /// Free blocks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The largest erase count.
    pub fn most(&self) -> Option<u32> {
        self.0.back().map(|&(erases, _)| erases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_by_wear_whatever_order_they_come_in() {
        let mut pool = Pool::default();
        [(3, 9), (1, 4), (2, 2), (1, 3), (9, 0), (2, 7)]
            .iter()
            .for_each(|&(erases, block)| pool.insert(erases, block));
        assert_eq!((pool.most(), pool.take_most()), (Some(9), Some(0)));
        let rest: [Option<u32>; 6] = core::array::from_fn(|_| pool.take_least());
        assert_eq!(rest, [Some(3), Some(4), Some(2), Some(7), Some(9), None]);
    }
}
