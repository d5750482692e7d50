//! Blocks in memory: dirty blocks, and, within a bound, clean ones that were used before.
//!
//! *Promises.* An LRU cache. Dirty blocks are kept until they are marked clean or forgotten; clean
//! ones are evicted. *Knows nothing of* what the blocks hold: it only distinguishes owners.

use crate::sum::Sum;
use alloc::{boxed::Box, vec::Vec};
use core::ops::{Deref, DerefMut};
use nandlab_block::OwnedCache;
use nandlab_vfs::Time;

/// What kind of metadata a block holds: at a power cut the kinds arrive in the order that
/// [`commit`](crate::commit) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Block and inode bitmaps.
    Bitmap,
    /// Blocks of block pointers.
    Pointers,
    /// Blocks of inodes or attributes.
    Inode,
    /// Blocks of directory entries.
    Directory,
    /// Superblock and group descriptors: counts.
    Counts,
    /// Contents that a journal takes as it takes metadata.
    Contents,
}

/// Whose a dirty block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Contents of an inode.
    File(u32),
    /// The block holds metadata of the volume.
    Meta(Class),
}

impl nandlab_block::Owner for Owner {
    fn is_contents(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// What a commit must know of a dirty block.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    /// On the medium nothing leads to it yet, or to some of what it holds.
    fresh: bool,
    /// Of block pointers, the version on the medium.
    before: Option<Box<[u8]>>,
    /// The checksum that the block holds.
    pub sum: Option<Sum>,
}

/// The cache of the volume's blocks.
#[derive(Debug)]
pub(crate) struct Cache(OwnedCache<Owner, Time, Mark>);

impl Deref for Cache {
    type Target = OwnedCache<Owner, Time, Mark>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Cache {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// The owners of contents, from the first to the last.
const CONTENTS: [Owner; 2] = [Owner::File(0), Owner::File(u32::MAX)];
/// The owners of metadata.
const METADATA: [Owner; 2] = [Owner::Meta(Class::Bitmap), Owner::Meta(Class::Contents)];

impl Cache {
    /// Keeps up to `blocks` clean blocks.
    pub fn new(blocks: usize) -> Self {
        Self(OwnedCache::new(blocks))
    }

    /// The block to be changed, dirty from now on; none if it is not here.
    pub fn edit(&mut self, block: u32, owner: Owner, now: Time) -> Option<&mut [u8]> {
        self.0.edit(block, owner, now, |data| Mark {
            fresh: false,
            before: (owner == Owner::Meta(Class::Pointers)).then(|| data.into()),
            sum: None,
        })
    }

    /// Replaces the block; it is dirty, since now unless it was already. A block is `fresh` until
    /// it is marked clean.
    pub fn replace(&mut self, block: u32, owner: Owner, now: Time, data: Box<[u8]>, fresh: bool) {
        if let Some(mark) = self.0.replace(block, owner, now, data) {
            mark.fresh |= fresh;
        }
    }

    /// A dirty block now holds something to which nothing on the medium leads.
    pub fn freshen(&mut self, block: u32) {
        if let Some(mark) = self.mark_mut(block) {
            mark.fresh = true;
        }
    }

    /// A dirty block of block pointers as the medium has it, and as it is; none if the medium has
    /// none.
    pub fn pointers(&self, block: u32) -> Option<(&[u8], &[u8])> {
        let (now, mark) = self.dirty(block)?;
        Some((mark.before.as_deref()?, now))
    }

    /// Whether a dirty block holds something to which nothing on the medium leads.
    pub fn is_fresh(&self, block: u32) -> bool {
        self.dirty(block).is_some_and(|(_, mark)| mark.fresh)
    }

    /// Waiting contents of all files that something on the medium may lead to once metadata is
    /// written, in the order of their places.
    pub fn fresh_contents(&self) -> Vec<u32> {
        let contents = self.of_owners(CONTENTS[0], CONTENTS[1]);
        let mut fresh: Vec<u32> = contents.filter(|block| self.is_fresh(*block)).collect();
        fresh.sort_unstable();
        fresh
    }

    /// All dirty metadata, in order.
    pub fn metadata(&self) -> Vec<u32> {
        let mut blocks: Vec<u32> = self.of_owners(METADATA[0], METADATA[1]).collect();
        blocks.sort_unstable();
        blocks
    }

    /// How many dirty blocks hold metadata.
    pub fn dirty_metadata(&self) -> usize {
        self.dirty_count() - self.dirty_contents()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Owner = Owner::File(5);
    const META: Owner = Owner::Meta(Class::Inode);

    fn block(byte: u8) -> Box<[u8]> {
        Box::new([byte; 4])
    }

    #[test]
    fn dirty_data_stays_and_clean_data_is_bounded() {
        let mut cache = Cache::new(16);
        cache.replace(1000, A, Time::new(1), block(7), false);
        for n in 0..100 {
            cache.keep(n, block(n as u8));
        }
        assert!(cache.clean() <= 16);
        let found = [1000, 99, 3].map(|n| cache.get(n).map(|data| data[0]));
        assert_eq!(found, [Some(7), Some(99), None]);
        cache.mark_clean(1000);
        assert_eq!(
            (cache.dirty_count(), cache.dirty_contents(), cache.get(1000)),
            (0, 0, Some(&[7; 4][..]))
        );
    }

    #[test]
    fn a_block_that_changes_hands_is_its_new_owners_only() {
        let mut cache = Cache::new(16);
        cache.replace(3, META, Time::new(1), block(1), true);
        cache.replace(3, A, Time::new(2), block(2), false);
        assert_eq!(
            (cache.of(META), cache.of(A), cache.dirty_contents()),
            (Vec::new(), [3].to_vec(), 1)
        );
        assert!(!cache.is_fresh(3) && cache.since() == Some(Time::new(2)));
    }

    #[test]
    fn the_oldest_contents_come_first_and_metadata_not_at_all() {
        let mut cache = Cache::new(16);
        for (n, since) in [(30, 3), (10, 1), (20, 2), (40, 4)] {
            cache.replace(n, A, Time::new(since), block(0), n == 20);
        }
        cache.replace(5, META, Time::new(0), block(0), true);
        cache.edit(10, A, Time::new(9)).unwrap()[0] = 1;
        assert_eq!(cache.oldest_contents(1, Time::MIN), [10]);
        assert_eq!(cache.oldest_contents(0, Time::new(3)), [10, 20, 30]);
        assert_eq!(cache.fresh_contents(), [20]);
        assert_eq!(
            (cache.dirty_count(), cache.dirty_contents(), cache.since()),
            (5, 4, Some(Time::new(0)))
        );
    }
}
