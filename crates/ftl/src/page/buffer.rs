//! The blocks of the SLC cache: which blocks are its own, which of them are free, and the order in
//! which the others were filled.
//!
//! *Knows nothing of* pages, maps and the flash.

use crate::pool::Pool;
use alloc::{collections::VecDeque, vec, vec::Vec};

#[derive(Debug)]
pub(crate) struct Buffer {
    /// Whether each block belongs to it.
    member: Vec<bool>,
    size: u32,
    /// Free blocks of each plane, by wear.
    free: Vec<Pool>,
    /// Filled blocks, the one to be folded first in front.
    filled: VecDeque<u32>,
}

impl Buffer {
    /// No block yet, of so many on `units` planes.
    pub fn new(blocks: usize, units: u32) -> Self {
        Self {
            member: vec![false; blocks],
            size: 0,
            free: vec![Pool::default(); units as usize],
            filled: VecDeque::new(),
        }
    }

    /// Its blocks in service.
    pub fn size(&self) -> u32 {
        self.size
    }

    pub fn owns(&self, block: u32) -> bool {
        self.member[block as usize]
    }

    pub fn join(&mut self, block: u32) {
        self.member[block as usize] = true;
        self.size += 1;
    }

    /// A block that is in no list goes out of service.
    pub fn leave(&mut self, block: u32) {
        if core::mem::take(&mut self.member[block as usize]) {
            self.size -= 1;
        }
    }

    fn unit(&self, block: u32) -> usize {
        block as usize % self.free.len()
    }

    /// A block is empty.
    pub fn put(&mut self, block: u32, erases: u32) {
        let unit = self.unit(block);
        self.free[unit].insert(erases, block);
    }

    pub fn free(&self) -> usize {
        self.free.iter().map(Pool::len).sum()
    }

    /// The least worn free block of a plane, or of the plane with the most.
    pub fn take(&mut self, unit: u32) -> Option<u32> {
        let own = unit as usize % self.free.len();
        let fullest = (0..self.free.len()).max_by_key(|&unit| self.free[unit].len())?;
        let unit = [own, fullest][usize::from(self.free[own].len() == 0)];
        self.free[unit].take_least()
    }

    /// A block takes no more pages.
    pub fn close(&mut self, block: u32) {
        self.filled.push_back(block);
    }

    /// A filled block is to be folded before all others.
    pub fn hurry(&mut self, block: u32) {
        if let Some(at) = self.filled.iter().position(|&filled| filled == block) {
            self.filled.remove(at);
            self.filled.push_front(block);
        }
    }

    /// Filled blocks, in the order of folds.
    pub fn filled(&self) -> impl Iterator<Item = u32> + '_ {
        self.filled.iter().copied()
    }

    /// The block to be folded next.
    pub fn next(&mut self) -> Option<u32> {
        self.filled.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_blocks_come_from_their_plane_and_else_from_the_fullest() {
        let mut buffer = Buffer::new(8, 2);
        for (block, erases) in [(0, 7), (2, 3), (4, 5), (1, 1)] {
            buffer.join(block);
            buffer.put(block, erases);
        }
        let taken: [Option<u32>; 5] = core::array::from_fn(|_| buffer.take(1));
        assert_eq!(taken, [Some(1), Some(2), Some(4), Some(0), None]);
        buffer.leave(4);
        buffer.leave(4);
        assert_eq!(
            (buffer.size(), buffer.owns(4), buffer.owns(0)),
            (3, false, true)
        );
    }

    #[test]
    fn the_oldest_block_is_folded_first_unless_another_hurries() {
        let mut buffer = Buffer::new(8, 1);
        [3, 1, 5].into_iter().for_each(|block| buffer.close(block));
        buffer.hurry(5);
        buffer.hurry(6);
        assert!(buffer.filled().eq([5, 3, 1]));
        let folded: [Option<u32>; 4] = core::array::from_fn(|_| buffer.next());
        assert_eq!(folded, [Some(5), Some(3), Some(1), None]);
    }
}
