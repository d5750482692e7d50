//! A store for the pages of a very large chip, of which a run writes little: headers and tables.
//!
//! *Promises.* What was written reads back. A page takes as many bytes as it has before its last
//! byte that is not the same to its end, so that payload of one byte repeated takes none. *Knows
//! nothing of* rules and times.

use crate::PageStore;
use alloc::{boxed::Box, collections::BTreeMap};
use nandlab_mtd::Page;

/// Bytes that are compared at a time.
const STEP: usize = 64;

/// Bytes of a page up to where it is one byte repeated, and that byte.
#[derive(Clone, Debug)]
struct Kept {
    head: Box<[u8]>,
    rest: u8,
}

/// Programmed pages by their number.
#[derive(Clone, Debug, Default)]
pub struct SparseStore(BTreeMap<u32, Kept>);

impl PageStore for SparseStore {
    /// One that was not written is all ones.
    fn read(&mut self, page: Page, data: &mut [u8]) -> Result<(), &'static str> {
        let (head, rest): (&[u8], u8) = self
            .0
            .get(&page.0)
            .map_or((&[], 0xFF), |kept| (&kept.head, kept.rest));
        let length = head.len().min(data.len());
        data[..length].copy_from_slice(&head[..length]);
        data[length..].fill(rest);
        Ok(())
    }

    fn write(&mut self, page: Page, data: &[u8]) -> Result<(), &'static str> {
        let rest = data.last().copied().unwrap_or(0xFF);
        let repeated = data.rchunks_exact(STEP);
        let repeated = repeated.take_while(|step| **step == [rest; STEP]).count();
        let length = data[..data.len() - repeated * STEP]
            .iter()
            .rposition(|&byte| byte != rest)
            .map_or(0, |last| last + 1);
        self.0.insert(
            page.0,
            Kept {
                head: data[..length].into(),
                rest,
            },
        );
        Ok(())
    }

    fn forget(&mut self, first: Page, count: u32) -> Result<(), &'static str> {
        let end = first.0.saturating_add(count);
        while let Some((&page, _)) = self.0.range(first.0..end).next() {
            self.0.remove(&page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_repeated_bytes_take_no_room() {
        let mut pages = SparseStore::default();
        let mut page = [7; 2048];
        pages.write(Page(3), &page).unwrap();
        assert_eq!(pages.0[&3].head.len(), 0);
        page[..100].fill(9);
        pages.write(Page(4), &page).unwrap();
        assert_eq!(pages.0[&4].head.len(), 100);
        let mut seen = [0; 2048];
        for (number, expected) in [(2, [0xFF; 2048]), (3, [7; 2048]), (4, page)] {
            pages.read(Page(number), &mut seen).unwrap();
            assert_eq!(seen, expected);
        }
        pages.forget(Page(0), 5).unwrap();
        pages.read(Page(4), &mut seen).unwrap();
        assert_eq!((seen, pages.0.len()), ([0xFF; 2048], 0));
    }
}
