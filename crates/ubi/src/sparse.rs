//! Pages of a device of which little is written: for chips so large that only headers and tables can be kept.
//!
//! *Promises.* What was written reads back. A page takes as many bytes as it has before its last byte that is not the same to its end, so that
//! payload of one byte repeated takes none. *Knows nothing of* chips; whoever models one calls it.

use alloc::{boxed::Box, collections::BTreeMap};

/// Bytes of a page up to where it is one byte repeated, and that byte.
#[derive(Clone, Debug)]
struct Kept {
    head: Box<[u8]>,
    rest: u8,
}

/// Pages by number.
#[derive(Clone, Debug, Default)]
pub struct Pages(BTreeMap<u32, Kept>);

impl Pages {
    /// Reads a page; one that was not written is all ones.
    pub fn read(&self, page: u32, data: &mut [u8]) {
        let (head, rest): (&[u8], u8) = self.0.get(&page).map_or((&[], 0xFF), |kept| (&kept.head, kept.rest));
        let length = head.len().min(data.len());
        data[..length].copy_from_slice(&head[..length]);
        data[length..].fill(rest);
    }

    /// Stores a page.
    pub fn write(&mut self, page: u32, data: &[u8]) {
        let rest = data.last().copied().unwrap_or(0xFF);
        let length = data.iter().rposition(|&byte| byte != rest).map_or(0, |last| last + 1);
        self.0.insert(page, Kept { head: data[..length].into(), rest });
    }

    /// Forgets `count` pages from `first`.
    pub fn forget(&mut self, first: u32, count: u32) {
        let end = first.saturating_add(count);
        while let Some((&page, _)) = self.0.range(first..end).next() {
            self.0.remove(&page);
        }
    }

    /// Bytes of memory that it takes, tree nodes taken to be two thirds full.
    pub fn memory(&self) -> u64 {
        let heads: usize = self.0.values().map(|kept| kept.head.len()).sum();
        heads as u64 + crate::cost::tree_bytes(self.0.len(), size_of::<(u32, Kept)>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_repeated_bytes_take_no_room() {
        let mut pages = Pages::default();
        let mut page = [7; 2048];
        pages.write(3, &page);
        assert_eq!(pages.0[&3].head.len(), 0);
        page[..100].fill(9);
        pages.write(4, &page);
        assert_eq!(pages.0[&4].head.len(), 100);
        let mut seen = [0; 2048];
        for (number, expected) in [(2, [0xFF; 2048]), (3, [7; 2048]), (4, page)] {
            pages.read(number, &mut seen);
            assert_eq!(seen, expected);
        }
        pages.forget(0, 5);
        pages.read(4, &mut seen);
        assert_eq!((seen, pages.memory()), ([0xFF; 2048], 0));
    }
}
