//! Delayed allocation: contents of files that wait in memory for their blocks (Linux's `delalloc`).
//!
//! *Promises.* A page that waits has its space reserved, with the nodes of a tree that it may need.
//! A file with pages here has two lengths: the one that callers see, and the one on the medium.
//! [`oldest`](Delayed::oldest) takes no search. *Knows nothing of* trees, bitmaps or devices.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec,
};
use nandlab_vfs::Time;

/// Nodes that a file reserves beside one for each few pages: a new path from the root.
const NODES_MIN: u32 = 12;

/// How much space the pages of a file need at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Extents that the root takes without a node.
    pub room: u32,
    /// Extents that a node is sure to take.
    pub each: u32,
}

impl Space {
    /// Blocks that so many pages need at most.
    pub fn needed(self, pages: u32) -> u32 {
        let nodes = match pages <= self.room {
            true => 0,
            false => pages / self.each.max(1) + NODES_MIN,
        };
        pages.saturating_add(nodes)
    }
}

/// A file with contents that wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Whole blocks, by their index in the file.
    pages: BTreeMap<u32, Box<[u8]>>,
    /// The length that callers see.
    pub size: u64,
    /// The length that covers blocks.
    pub size_on_disk: u64,
    since: Time,
    space: Space,
}

impl Waiting {
    /// The first page, and how many follow each other from there.
    pub fn first_run(&self) -> Option<(u32, u32)> {
        let first = *self.pages.keys().next()?;
        let run = (first..=u32::MAX)
            .zip(self.pages.keys())
            .take_while(|(expected, index)| expected == *index);
        Some((first, run.count() as u32))
    }

    pub fn take_page(&mut self, index: u32) -> Option<Box<[u8]>> {
        self.pages.remove(&index)
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    fn needed(&self) -> u32 {
        self.space.needed(self.pages.len() as u32)
    }
}

/// All contents that wait.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    files: BTreeMap<u32, Waiting>,
    by_age: BTreeSet<(Time, u32)>,
    pages: u32,
    reserved: u32,
    /// Files cut to nothing: what replaces their contents takes its blocks at once.
    replaced: BTreeSet<u32>,
}

impl Delayed {
    pub fn has(&self, file: u32) -> bool {
        self.files.contains_key(&file)
    }

    /// All pages that wait.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The pages of a file.
    pub fn pages_of(&self, file: u32) -> u32 {
        let pages = self.files.get(&file).map(|waiting| waiting.pages.len());
        pages.unwrap_or(0) as u32
    }

    /// Blocks that nothing else may take.
    pub fn reserved(&self) -> u32 {
        self.reserved
    }

    /// The length that callers see.
    pub fn size(&self, file: u32) -> Option<u64> {
        self.files.get(&file).map(|waiting| waiting.size)
    }

    /// Sets the length that callers see; returns the one on the medium.
    pub fn set_size(&mut self, file: u32, size: u64) -> Option<u64> {
        let waiting = self.files.get_mut(&file)?;
        waiting.size = size;
        Some(waiting.size_on_disk)
    }

    /// The file that has waited longest, and since when.
    pub fn oldest(&self) -> Option<(Time, u32)> {
        self.by_age.first().copied()
    }

    /// Any file that waits.
    pub fn any(&self) -> Option<u32> {
        self.files.keys().next().copied()
    }

    /// A page of a file that waits.
    pub fn page(&self, file: u32, index: u32) -> Option<&[u8]> {
        let page = self.files.get(&file)?.pages.get(&index)?;
        Some(page)
    }

    /// Blocks from `index` on before the next page that waits.
    pub fn gap(&self, file: u32, index: u32) -> u32 {
        let pages = self.files.get(&file).map(|waiting| &waiting.pages);
        let next = pages.and_then(|pages| pages.range(index..).next());
        next.map_or(u32::MAX, |(next, _)| next - index)
    }

    /// Blocks to reserve before `count` blocks from `index` on may wait.
    pub fn missing(&self, file: u32, index: u32, count: u32, space: Space) -> u32 {
        let Some(waiting) = self.files.get(&file) else {
            return space.needed(count);
        };
        let end = index.saturating_add(count);
        let known = waiting.pages.range(index..end).count() as u32;
        let pages = waiting.pages.len() as u32 + count - known;
        waiting.space.needed(pages).saturating_sub(waiting.needed())
    }

    /// A file may have pages from now on; `size` is its length so far.
    pub fn begin(&mut self, file: u32, size: u64, space: Space, now: Time) {
        if self.has(file) {
            return;
        }
        let waiting = Waiting {
            pages: BTreeMap::new(),
            size,
            size_on_disk: size,
            since: now,
            space,
        };
        self.put(file, waiting);
    }

    /// Changes part of a page of `size` bytes of a file that has begun; a new page is zeros.
    pub fn write(&mut self, file: u32, index: u32, size: usize, at: usize, data: &[u8]) {
        let Some(waiting) = self.files.get_mut(&file) else {
            return;
        };
        let before = (waiting.pages.len() as u32, waiting.needed());
        if data.len() == size {
            waiting.pages.insert(index, data.into());
        } else {
            let zeros = || vec![0; size].into();
            let page = waiting.pages.entry(index).or_insert_with(zeros);
            page[at..at + data.len()].copy_from_slice(data);
        }
        self.pages += waiting.pages.len() as u32 - before.0;
        self.reserved += waiting.needed() - before.1;
    }

    /// Takes a file out, with its reservation.
    pub fn take(&mut self, file: u32) -> Option<Waiting> {
        let waiting = self.files.remove(&file)?;
        self.by_age.remove(&(waiting.since, file));
        self.pages -= waiting.pages.len() as u32;
        self.reserved -= waiting.needed();
        Some(waiting)
    }

    /// Puts a file back.
    pub fn put(&mut self, file: u32, waiting: Waiting) {
        self.pages += waiting.pages.len() as u32;
        self.reserved += waiting.needed();
        self.by_age.insert((waiting.since, file));
        self.files.insert(file, waiting);
    }

    /// Drops what lies behind a new length, in pages of `block` bytes. A file without pages leaves.
    pub fn cut(&mut self, file: u32, size: u64, block: u32) {
        let Some(mut waiting) = self.take(file) else {
            return;
        };
        let end = u32::try_from(size.div_ceil(block.into())).unwrap_or(u32::MAX);
        _ = waiting.pages.split_off(&end);
        let at = (size % u64::from(block)) as usize;
        let last = waiting.pages.last_entry();
        if let Some(mut last) = last.filter(|last| at > 0 && *last.key() == end - 1) {
            last.get_mut()[at..].fill(0);
        }
        waiting.size = waiting.size.min(size);
        if !waiting.is_empty() {
            self.put(file, waiting);
        }
    }

    /// The inode has lost its contents: none of them wait.
    pub fn forget(&mut self, file: u32) {
        _ = self.take(file);
        self.replaced.remove(&file);
    }

    /// The file lost all its contents.
    pub fn replace(&mut self, file: u32) {
        self.replaced.insert(file);
    }

    pub fn is_replaced(&self, file: u32) -> bool {
        self.replaced.contains(&file)
    }

    /// The new contents of a file are complete.
    pub fn end_replacement(&mut self, file: u32) {
        self.replaced.remove(&file);
    }

    /// All files have their new contents.
    pub fn end_replacements(&mut self) {
        self.replaced.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SPACE: Space = Space { room: 4, each: 20 };

    fn filled(pages: &[u32]) -> Delayed {
        let mut delayed = Delayed::default();
        delayed.begin(7, 10, SPACE, Time::new(3));
        let write = |index: &u32| delayed.write(7, *index, 4, 1, b"ab");
        pages.iter().for_each(write);
        delayed
    }

    #[test]
    fn a_file_reserves_its_pages_and_the_nodes_they_may_need() {
        assert_eq!(filled(&[0, 1, 1]).reserved(), 2);
        let pages: Vec<u32> = (0..40).collect();
        let mut delayed = filled(&pages);
        assert_eq!((delayed.pages(), delayed.reserved()), (40, 40 + 2 + 12));
        assert_eq!(delayed.missing(7, 38, 3, SPACE), 1);
        assert_eq!(delayed.missing(8, 0, 4, SPACE), 4);
        delayed.forget(7);
        assert_eq!((delayed.pages(), delayed.reserved()), (0, 0));
        assert_eq!(delayed.oldest(), None);
    }

    #[test]
    fn a_new_page_is_zeros_around_what_is_written() {
        let delayed = filled(&[2]);
        assert_eq!(delayed.page(7, 2), Some(&b"\0ab\0"[..]));
        assert_eq!((delayed.gap(7, 0), delayed.gap(7, 2)), (2, 0));
        assert_eq!((delayed.gap(7, 3), delayed.gap(8, 0)), (u32::MAX, u32::MAX));
    }

    #[test]
    fn a_shorter_length_drops_pages_and_zeros_the_end_of_the_last() {
        let mut delayed = filled(&[0, 1, 2]);
        delayed.set_size(7, 12);
        delayed.cut(7, 6, 4);
        assert_eq!(delayed.page(7, 1), Some(&b"\0a\0\0"[..]));
        assert_eq!((delayed.pages(), delayed.size(7)), (2, Some(6)));
        delayed.cut(7, 0, 4);
        assert!(!delayed.has(7) && delayed.reserved() == 0);
    }

    #[test]
    fn the_oldest_file_comes_first_and_keeps_its_age() {
        let mut delayed = filled(&[0]);
        delayed.begin(9, 0, SPACE, Time::new(1));
        delayed.begin(9, 0, SPACE, Time::new(5));
        assert_eq!(delayed.oldest(), Some((Time::new(1), 9)));
        let waiting = delayed.take(9).unwrap();
        assert_eq!(delayed.oldest(), Some((Time::new(3), 7)));
        delayed.put(9, waiting);
        assert_eq!(delayed.oldest(), Some((Time::new(1), 9)));
    }

    #[test]
    fn the_first_run_ends_at_a_gap() {
        let mut delayed = filled(&[3, 4, 6]);
        let mut waiting = delayed.take(7).unwrap();
        assert_eq!(waiting.first_run(), Some((3, 2)));
        waiting.take_page(3).unwrap();
        waiting.take_page(4).unwrap();
        assert_eq!(waiting.first_run(), Some((6, 1)));
    }
}
