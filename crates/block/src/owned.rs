//! Numbered blocks in memory, where each dirty block belongs to somebody.
//!
//! *Promises.* Those of [`Cache`]. The dirty blocks of an owner are found without a search.
//! *Knows nothing of* devices or of what blocks hold.

use crate::{Cache, table::Groups};
use alloc::{boxed::Box, vec::Vec};
use nandlab_sim::prefetch;

/// Bytes of a line of the processor's cache.
const LINE: usize = 64;
/// Bytes of a block that are copied at once. The lines of the next block are asked for in between.
const PART: usize = 16 * LINE;
/// Blocks that a read finds before it copies them. So many uses fill a generation of a cache once
/// at most, so that all of them stay.
const RUN: usize = 8;

/// An owner of dirty blocks.
pub trait Owner: Ord + Copy {
    /// Whether its blocks hold contents of files rather than metadata.
    fn is_contents(&self) -> bool;
}

/// The mark of a block that has an owner.
#[derive(Clone, Debug)]
struct Owned<O, M> {
    owner: O,
    mark: M,
}

/// Numbered blocks, dirty ones with an owner `O` and a mark `M` of the file system.
#[derive(Clone, Debug)]
pub struct OwnedCache<O, T, M> {
    blocks: Cache<u32, T, Box<[u8]>, Owned<O, M>>,
    by_owner: Groups<O>,
    /// Dirty blocks of contents.
    contents: usize,
}

impl<O: Owner, T: Ord + Copy, M: Default> OwnedCache<O, T, M> {
    /// A cache that keeps up to `clean` clean blocks.
    pub fn new(clean: usize) -> Self {
        Self {
            blocks: Cache::new(clean),
            by_owner: Groups::new(),
            contents: 0,
        }
    }

    /// Whether a block is here.
    pub fn has(&self, block: u32) -> bool {
        self.blocks.has(block)
    }

    /// See [`Cache::turn`].
    pub fn turn(&self) -> u64 {
        self.blocks.turn()
    }

    /// A block's bytes, if they are here.
    pub fn get(&mut self, block: u32) -> Option<&[u8]> {
        self.blocks.get(block).map(|data| &**data)
    }

    /// Keeps a clean block.
    pub fn keep(&mut self, block: u32, data: Box<[u8]>) {
        self.blocks.keep(block, data);
    }

    /// A block to be changed, dirty from now on; `None` if it is not here. If it was clean, it
    /// belongs to `owner` and gets its mark from `mark`.
    pub fn edit(
        &mut self,
        block: u32,
        owner: O,
        now: T,
        mark: impl FnOnce(&[u8]) -> M,
    ) -> Option<&mut [u8]> {
        let mut is_new = false;
        let edited = self.blocks.edit(block, now, |data| {
            is_new = true;
            let mark = mark(data);
            Owned { owner, mark }
        });
        let (data, _) = edited?;
        if is_new {
            self.by_owner.insert(owner, block.into());
            self.contents += usize::from(owner.is_contents());
        }
        Some(data)
    }

    /// Reads whole blocks of `size` bytes from `first` on. Those that are not here come from
    /// `read`, neighbours at once, and are kept if `keep` says so.
    pub fn read_through<E>(
        &mut self,
        first: u32,
        size: usize,
        buf: &mut [u8],
        keep: bool,
        mut read: impl FnMut(u32, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = buf.len() / size;
        let block = |at: usize| first + at as u32;
        let mut at = 0;
        while at < count {
            let most = count.min(at + RUN);
            let here = (at..most).take_while(|at| self.blocks.get(block(*at)).is_some());
            let end = at + here.count();
            self.copy(block(at), size, &mut buf[at * size..end * size]);
            at = end;
            let gone = (at..count).take_while(|at| !self.has(block(*at)));
            let end = at + gone.count();
            if at == end {
                continue;
            }
            let part = &mut buf[at * size..end * size];
            read(block(at), part)?;
            for (block, data) in (block(at)..).zip(part.chunks_exact(size)).filter(|_| keep) {
                self.keep(block, data.into());
            }
            at = end;
        }
        Ok(())
    }

    /// Copies present blocks of `size` bytes, while the processor gets the next one and finds the
    /// one behind that: neighbours lie anywhere in memory.
    fn copy(&self, first: u32, size: usize, to: &mut [u8]) {
        let bytes = |block: u32, ahead| {
            let data = self.blocks.peek(block.saturating_add(ahead));
            data.map_or(&[][..], |data| data)
        };
        let mut known = [0, 1].map(|ahead| bytes(first, ahead));
        for (block, to) in (first..).zip(to.chunks_exact_mut(size)) {
            let [from, next] = known;
            let later = bytes(block, 2);
            prefetch(later, 0);
            let parts = from.chunks(PART).zip(to.chunks_mut(PART));
            for ((from, to), at) in parts.zip((0..).step_by(PART)) {
                let lines = (at..at + PART).step_by(LINE);
                lines.for_each(|at| prefetch(next, at));
                to.copy_from_slice(from);
            }
            known = [next, later];
        }
    }

    /// Puts the bytes of blocks that are here into `bytes`, one behind the other, in place of what
    /// was there.
    pub fn gather(&mut self, blocks: &[u32], bytes: &mut Vec<u8>) {
        bytes.clear();
        for block in blocks {
            bytes.extend_from_slice(self.get(*block).unwrap_or_default());
        }
    }

    /// Replaces a block and gives its mark. If the block was dirty and the same owner's, it keeps
    /// its time and its mark.
    pub fn replace(&mut self, block: u32, owner: O, now: T, data: Box<[u8]>) -> Option<&mut M> {
        let is_same = matches!(self.blocks.dirty(block), Some((_, old)) if old.owner == owner);
        if !is_same {
            self.forget(block);
            self.by_owner.insert(owner, block.into());
            self.contents += usize::from(owner.is_contents());
            let mark = M::default();
            self.blocks.put(block, data, now, Owned { owner, mark });
            return self.mark_mut(block);
        }
        let (old, owned) = self.blocks.dirty_mut(block)?;
        *old = data;
        Some(&mut owned.mark)
    }

    /// A block is no longer its owner's.
    fn disown(&mut self, block: u32, owned: Option<Owned<O, M>>) {
        if let Some(Owned { owner, .. }) = owned {
            self.contents -= usize::from(owner.is_contents());
            self.by_owner.remove(owner, block.into());
        }
    }

    /// A dirty block has been written: it is clean now.
    pub fn mark_clean(&mut self, block: u32) {
        let owned = self.blocks.mark_clean(block);
        self.disown(block, owned);
    }

    /// Forgets a block, dirty or not.
    pub fn forget(&mut self, block: u32) {
        let owned = self.blocks.forget(block);
        self.disown(block, owned);
    }

    /// Forgets `count` blocks, dirty or not.
    pub fn forget_run(&mut self, from: u32, count: u32) {
        let blocks = self.blocks.keys(from..from.saturating_add(count));
        blocks.into_iter().for_each(|block| self.forget(block));
    }

    /// The bytes and the mark of a dirty block.
    pub fn dirty(&self, block: u32) -> Option<(&[u8], &M)> {
        let (data, owned) = self.blocks.dirty(block)?;
        Some((data, &owned.mark))
    }

    /// The mark of a dirty block, to be changed.
    pub fn mark_mut(&mut self, block: u32) -> Option<&mut M> {
        Some(&mut self.blocks.dirty_mut(block)?.1.mark)
    }

    /// The dirty blocks of all owners from one to another, by owner and then in order.
    pub fn of_owners(&self, first: O, last: O) -> impl Iterator<Item = u32> {
        let blocks = self.by_owner.range((first, 0), (last, u32::MAX.into()));
        blocks.map(|(_, block)| block as u32)
    }

    /// The dirty blocks of an owner, in order.
    pub fn of(&self, owner: O) -> Vec<u32> {
        self.of_owners(owner, owner).collect()
    }

    fn contents_by_age(&self) -> impl Iterator<Item = (T, u32)> {
        self.blocks.by_age().filter(|(_, block)| {
            let dirty = self.blocks.dirty(*block);
            dirty.is_some_and(|(_, owned)| owned.owner.is_contents())
        })
    }

    /// Dirty contents of files, the oldest first: up to `blocks`, and all that have been dirty
    /// since `until` or longer; in the order of their places.
    pub fn oldest_contents(&self, blocks: usize, until: T) -> Vec<u32> {
        let mut chosen: Vec<u32> = self
            .contents_by_age()
            .enumerate()
            .take_while(|(index, (since, _))| *index < blocks || *since <= until)
            .map(|(_, (_, block))| block)
            .collect();
        chosen.sort_unstable();
        chosen
    }

    /// The number of dirty blocks.
    pub fn dirty_count(&self) -> usize {
        self.blocks.count()
    }

    /// The number of dirty blocks that hold contents of files.
    pub fn dirty_contents(&self) -> usize {
        self.contents
    }

    /// Since when the oldest block is dirty.
    pub fn since(&self) -> Option<T> {
        self.blocks.by_age().next().map(|(since, _)| since)
    }

    /// Since when the oldest contents are dirty.
    pub fn contents_since(&self) -> Option<T> {
        self.contents_by_age().next().map(|(since, _)| since)
    }

    /// The number of clean blocks.
    pub fn clean(&self) -> usize {
        self.blocks.clean()
    }
}

/// Splits sorted block numbers into runs of neighbours, each of at most `most` blocks.
pub fn runs(blocks: &[u32], most: usize) -> impl Iterator<Item = &[u32]> {
    let mut rest = blocks;
    core::iter::from_fn(move || {
        let first = *rest.first()?;
        let neighbours = rest.iter().zip(first..=u32::MAX).take(most.max(1));
        let count = neighbours
            .take_while(|(block, next)| **block == *next)
            .count();
        let (run, behind) = rest.split_at(count);
        rest = behind;
        Some(run)
    })
}

/// Splits `data`, which starts at the block `first`, into whole blocks of `size` bytes and the
/// rest. `last` takes the rest and zeros up to a whole block. Each part comes with its first block.
pub fn padded<'a>(
    first: u32,
    data: &'a [u8],
    size: usize,
    last: &'a mut Vec<u8>,
) -> impl Iterator<Item = (u32, &'a [u8])> {
    let (whole, rest) = data.split_at(data.len() / size * size);
    last.clear();
    last.extend_from_slice(rest);
    last.resize(if rest.is_empty() { 0 } else { size }, 0);
    let behind = first + (whole.len() / size) as u32;
    let parts = [(first, whole), (behind, &last[..])];
    parts.into_iter().filter(|(_, part)| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum By {
        File,
        Metadata,
    }

    impl Owner for By {
        fn is_contents(&self) -> bool {
            *self == Self::File
        }
    }

    fn block(byte: u8) -> Box<[u8]> {
        Box::new([byte; 4])
    }

    #[test]
    fn the_clock_of_a_block_starts_anew_with_its_owner() {
        let mut cache = OwnedCache::<_, _, ()>::new(16);
        cache.replace(3, By::File, 1, block(1));
        cache.replace(3, By::File, 2, block(2));
        assert_eq!((cache.since(), cache.of(By::File)), (Some(1), [3].into()));
        cache.replace(3, By::Metadata, 2, block(3));
        assert_eq!((cache.since(), cache.of(By::File)), (Some(2), [].into()));
        cache.forget_run(0, 4);
        assert_eq!((cache.dirty_count(), cache.since()), (0, None));
    }

    #[test]
    fn a_read_takes_what_is_here_and_the_rest_in_runs() {
        let mut cache = OwnedCache::<By, u8, ()>::new(16);
        cache.keep(2, block(9));
        let mut buf = [0; 16];
        let mut runs = Vec::new();
        let mut read = |cache: &mut OwnedCache<_, _, _>, keep| {
            cache.read_through::<()>(1, 4, &mut buf, keep, |first, part| {
                runs.push((first, part.len()));
                part.fill(first as u8);
                Ok(())
            })
        };
        read(&mut cache, false).unwrap();
        read(&mut cache, true).unwrap();
        read(&mut cache, true).unwrap();
        assert_eq!(runs, [(1, 4), (3, 8), (1, 4), (3, 8)]);
        assert_eq!(
            buf,
            *b"\x01\x01\x01\x01\x09\x09\x09\x09\x03\x03\x03\x03\x03\x03\x03\x03"
        );
        let mut bytes = [7].to_vec();
        cache.gather(&[2, 3], &mut bytes);
        assert_eq!(bytes, [9, 9, 9, 9, 3, 3, 3, 3]);
    }

    #[test]
    fn a_long_read_from_a_small_cache_gets_every_block() {
        for round in 0..200 {
            let mut cache = OwnedCache::<By, u8, ()>::new(16);
            let chosen = (0..60).filter(|at| !nandlab_sim::mix(round, *at).is_multiple_of(3));
            for at in chosen {
                match nandlab_sim::mix(round, at + 99) % 2 {
                    0 => cache.keep(at as u32, block(at as u8)),
                    _ => _ = cache.replace(at as u32, By::File, 1, block(at as u8)),
                }
            }
            let mut buf = [0xFF; 60 * 4];
            let read = |first: u32, part: &mut [u8]| {
                for (number, block) in (first as u8..).zip(part.chunks_exact_mut(4)) {
                    block.fill(number);
                }
                Ok::<(), ()>(())
            };
            cache.read_through(0, 4, &mut buf, true, read).unwrap();
            let numbers = buf.chunks_exact(4).zip(0..);
            numbers.for_each(|(found, number)| assert_eq!(found, [number; 4], "{round}"));
        }
    }

    #[test]
    fn the_last_block_is_padded() {
        let parts = |data| {
            let mut last = alloc::vec![9; 5];
            let parts = padded(7, data, 2, &mut last);
            let parts: Vec<_> = parts.map(|(block, part)| (block, part.to_vec())).collect();
            parts
        };
        assert_eq!(parts(b""), []);
        assert_eq!(parts(b"a"), [(7, b"a\0"[..].into())]);
        assert_eq!(parts(b"abcd"), [(7, b"abcd"[..].into())]);
        let split = [(7, b"abcd"[..].into()), (9, b"e\0"[..].into())];
        assert_eq!(parts(b"abcde"), split);
    }

    #[test]
    fn runs_are_neighbours_and_bounded() {
        let all: Vec<&[u32]> = runs(&[1, 2, 3, 4, 7, 9, 10], 3).collect();
        assert_eq!(all, [&[1, 2, 3][..], &[4], &[7], &[9, 10]]);
        let end: Vec<&[u32]> = runs(&[u32::MAX - 1, u32::MAX], 9).collect();
        assert_eq!(end, [&[u32::MAX - 1, u32::MAX]]);
    }
}
