//! Writing dirty data to the medium, in the order that the [crate](crate#power-loss) promises; with
//! a journal see `journaled`.

use crate::{
    Ext, ExtError, SeededBug,
    cache::{Class, Owner},
    format::{le32, put32, sb},
    node::Life,
    pending::Pending,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{Sync, Time};

impl<D: BlockDevice> Ext<D> {
    /// Makes one inode durable.
    pub(crate) fn sync_inode(&mut self, number: u32, what: Sync) -> Result<(), ExtError> {
        self.delayed.end_replacement(number);
        if !self.has_bug(SeededBug::DelayedForgotten) {
            self.write_back_file(number)?;
        }
        let contents = self.store.cache.of(Owner::File(number));
        self.store.write(&contents)?;
        let commits = what == Sync::All || self.changed.contains(&number);
        if commits && !self.has_bug(SeededBug::FsyncContents) {
            return match self.fast_commit()? {
                true => Ok(()),
                false => self.commit(),
            };
        }
        self.store.barrier()
    }

    /// Makes everything durable; nothing is dirty afterwards.
    pub(crate) fn sync_all(&mut self) -> Result<(), ExtError> {
        self.write_back_all()?;
        self.put_counts()?;
        while self.store.cache.dirty_count() > 0 || self.is_releasing() {
            let contents = self.store.cache.oldest_contents(usize::MAX, Time::MAX);
            self.store.write(&contents)?;
            self.commit()?;
            self.put_counts()?;
        }
        self.store.barrier()
    }

    /// Commits until nothing more becomes free by it.
    pub(crate) fn commit_all_releases(&mut self) -> Result<(), ExtError> {
        while self.is_releasing() {
            self.commit()?;
        }
        Ok(())
    }

    /// The superblock's counts, which may be behind the groups' until the volume is synced.
    fn put_counts(&mut self) -> Result<(), ExtError> {
        // With a journal they are brought up to date when it is closed, as Linux has it.
        if self.is_journaled() {
            Ok(())
        } else {
            self.put_counts_now()
        }
    }

    pub(crate) fn put_counts_now(&mut self) -> Result<(), ExtError> {
        let counts = [
            (sb::FREE_BLOCKS, self.free_blocks),
            (sb::FREE_INODES, self.free_inodes),
        ];
        let bytes = self.store.superblock()?;
        if counts.iter().any(|(at, count)| le32(bytes, *at) != *count) {
            let bytes = self.store.superblock_mut()?;
            counts
                .iter()
                .for_each(|(at, count)| put32(bytes, *at, *count));
        }
        Ok(())
    }

    /// Writes all dirty metadata to the medium, with the contents to which it leads.
    /// Everything written is durable afterwards.
    pub(crate) fn commit(&mut self) -> Result<(), ExtError> {
        if self.is_journaled() {
            self.commit_through_journal()?;
            return self.committed();
        }
        self.seal()?;
        if !self.has_bug(SeededBug::ContentsLate) {
            self.write_fresh_contents()?;
        }
        self.write_new()?;
        self.pause()?;
        self.write_more_pointers()?;
        self.pause()?;
        let inodes = self.store.cache.of(Owner::Meta(Class::Inode));
        self.store.write(&inodes)?;
        self.pause()?;
        let fewer = self.store.cache.of(Owner::Meta(Class::Pointers));
        self.store.write(&fewer)?;
        let names = self.store.cache.of(Owner::Meta(Class::Directory));
        if self.has_bug(SeededBug::NamesUnordered) {
            self.order.clear();
        }
        for group in self.order.groups(&names) {
            self.store.write(&group)?;
            self.pause()?;
        }
        self.pause()?;
        let bitmaps = self.store.cache.of(Owner::Meta(Class::Bitmap));
        self.store.write(&bitmaps)?;
        self.zero_cut()?;
        self.write_fresh_contents()?;
        self.store.barrier()?;
        self.committed()
    }

    /// Contents that must be on the medium before something leads to them.
    fn write_fresh_contents(&mut self) -> Result<(), ExtError> {
        let contents = self.store.cache.fresh_contents();
        self.store.write(&contents)
    }

    /// What nothing on the medium leads to yet, bitmaps in which it is taken, as is all that was
    /// before, and counts.
    fn write_new(&mut self) -> Result<(), ExtError> {
        let kinds = [Class::Pointers, Class::Inode, Class::Directory];
        let mut new: Vec<u32> = kinds
            .into_iter()
            .flat_map(|class| self.store.cache.of(Owner::Meta(class)))
            .collect();
        new.retain(|block| self.store.cache.is_fresh(*block));
        // Counts are only as good as a check makes them: no step is theirs alone.
        new.extend(self.store.cache.of(Owner::Meta(Class::Counts)));
        let first = match self.has_bug(SeededBug::BitmapsLate) {
            true => Vec::new(),
            false => self.store.cache.of(Owner::Meta(Class::Bitmap)),
        };
        for bitmap in first {
            match self.held.union(bitmap, self.store.block(bitmap)?) {
                Some(union) => self.store.write_image(bitmap, &union)?,
                None => new.push(bitmap),
            }
        }
        new.sort_unstable();
        self.store.write(&new)
    }

    /// Blocks of block pointers on the medium in which what was taken is added; what was given back
    /// stays until no length covers it.
    fn write_more_pointers(&mut self) -> Result<(), ExtError> {
        let mut whole = Vec::new();
        for block in self.store.cache.of(Owner::Meta(Class::Pointers)) {
            let Some((before, now)) = self.store.cache.pointers(block) else {
                continue;
            };
            let both = with_removed(before, now);
            if both == now {
                whole.push(block);
            } else if both != before {
                self.store.write_image(block, &both)?;
            }
        }
        self.store.write(&whole)
    }

    fn pause(&mut self) -> Result<(), ExtError> {
        if self.options.barriers {
            self.store.barrier()
        } else {
            Ok(())
        }
    }

    /// On the medium nothing leads any more to what was given back.
    fn committed(&mut self) -> Result<(), ExtError> {
        let held = core::mem::take(&mut self.held);
        if self.options.discard {
            held.freed
                .iter()
                .try_for_each(|(first, count)| self.store.discard(*first, *count))?;
        }
        self.order.clear();
        self.changed.clear();
        self.zero_cut()?;
        for (number, fewer) in core::mem::take(&mut self.fewer) {
            let mut inode = self.inode(number)?;
            inode.links = inode.links.saturating_sub(fewer);
            self.put_inode(number, &inode)?;
        }
        for number in self.nodes.in_life(Life::Leaving) {
            self.left(number)?;
        }
        self.pending = Pending::new(self.options.fast_commit);
        Ok(())
    }

    /// The lengths of files that were cut short are on the medium: zeros behind them.
    fn zero_cut(&mut self) -> Result<(), ExtError> {
        for number in core::mem::take(&mut self.cut) {
            let inode = self.inode(number)?;
            if inode.links > 0 && inode.has_blocks(&self.store.layout) {
                self.zero_tail(number, &inode)?;
            }
        }
        Ok(())
    }

    /// Asks that one block of names reaches the medium before another; commits if the opposite was
    /// asked for before.
    pub(crate) fn ordered(&mut self, first: u32, then: u32) -> Result<(), ExtError> {
        if !self.is_journaled() && first != then && !self.order.ask(first, then) {
            self.commit()?;
            self.order.ask(first, then);
        }
        Ok(())
    }

    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.store.cache.dirty_count() as u64 * u64::from(self.store.layout.block)
    }

    /// Writes the oldest dirty data; returns by how many bytes the dirty data shrank.
    pub(crate) fn write_oldest(&mut self, bytes: u64, until: Time) -> Result<u64, ExtError> {
        if self.is_journaled() {
            return self.write_oldest_journaled(bytes, until);
        }
        let before = self.dirty_bytes();
        let blocks = bytes
            .div_ceil(u64::from(self.store.layout.block))
            .min(usize::MAX as u64) as usize;
        let contents: Vec<u32> = self.store.cache.oldest_contents(blocks, until);
        self.store.write(&contents)?;
        let overdue = self.store.cache.since().is_some_and(|since| since <= until);
        if before.saturating_sub(self.dirty_bytes()) < bytes || overdue {
            self.sync_all()?;
        }
        Ok(before.saturating_sub(self.dirty_bytes()))
    }
}

/// Block pointers, falling back to the old ones where cleared.
fn with_removed(before: &[u8], now: &[u8]) -> Vec<u8> {
    let pairs = before.chunks_exact(4).zip(now.chunks_exact(4));
    pairs
        .flat_map(|(before, now)| if *now == [0; 4] { before } else { now })
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_pointers_stay_beside_new_ones() {
        assert_eq!(
            with_removed(
                &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
                &[0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]
            ),
            [1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]
        );
    }
}
