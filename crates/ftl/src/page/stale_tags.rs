//! The owners of flash pages whose tag names another logical page. A remap leaves a page where it
//! is, with its old tag.
//!
//! A page keeps its stale tag until it is moved. Then it is read and programmed anew, since a copy
//! inside the array keeps the tag.
//!
//! *Memory.* None before the first remap; from then on 4 bytes a flash page.

use super::format::{LOST, REMAPPED, REMAPPED_PAGES_MAX};
use alloc::{vec, vec::Vec};

#[derive(Debug)]
pub(super) struct StaleTags {
    pages: u32,
    /// Logical page plus one of each flash page that was given away; 0: the tag says it.
    owners: Vec<u32>,
}

impl StaleTags {
    /// An array of this many pages, all of them with right tags.
    pub fn new(pages: u32) -> Self {
        Self {
            pages,
            owners: Vec::new(),
        }
    }

    /// Whether entries on flash have space for the flag.
    pub fn offered(&self) -> bool {
        self.pages <= REMAPPED_PAGES_MAX
    }

    /// The page is now that of `lpn`, whatever its tag says.
    pub fn set(&mut self, page: u32, lpn: u32) {
        if self.owners.is_empty() {
            self.owners = vec![0; self.pages as usize];
        }
        self.owners[page as usize] = lpn + 1;
    }

    /// Whether any page was ever given away.
    #[inline]
    pub fn any(&self) -> bool {
        !self.owners.is_empty()
    }

    /// The logical page of a page whose tag names another one.
    #[inline]
    pub fn owner(&self, page: u32) -> Option<u32> {
        self.owners.get(page as usize)?.checked_sub(1)
    }

    /// A copy has the same stale tag; returns the owner. Only a seeded bug may copy: see
    /// [`SeededBug::RemapNameKept`](super::SeededBug::RemapNameKept).
    #[inline]
    pub fn carry(&mut self, from: u32, to: u32) -> Option<u32> {
        let owner = self.owner(from)?;
        self.set(to, owner);
        Some(owner)
    }

    /// Of the pages that `bits` stands for, counted from `first`, those whose tag names another
    /// logical page.
    #[inline]
    pub fn among(&self, first: u32, bits: u64) -> u64 {
        if self.owners.is_empty() {
            return 0;
        }
        let mut rest = bits;
        let mut found = 0;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            found |= u64::from(self.owners[(first + bit) as usize] != 0) << bit;
        }
        found
    }

    /// The pages from `first` on will be erased.
    pub fn forget(&mut self, first: u32, pages: u32) {
        if !self.owners.is_empty() {
            self.owners[first as usize..(first + pages) as usize].fill(0);
        }
    }

    /// An entry of the map as it is written to flash.
    #[inline]
    pub fn flag(&self, entry: u32) -> u32 {
        if self.owners.is_empty()
            || entry == 0
            || entry == LOST
            || self.owners[entry as usize - 1] == 0
        {
            entry
        } else {
            entry | REMAPPED
        }
    }

    /// An entry read from flash without its flag, and whether it had it.
    pub fn strip(&self, entry: u32) -> (u32, bool) {
        if self.offered() && entry != LOST {
            (entry & !REMAPPED, entry & REMAPPED != 0)
        } else {
            (entry, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_entries_follow_what_pages_were_given_away() {
        let mut tags = StaleTags::new(128);
        assert_eq!(
            (tags.among(64, u64::MAX), tags.flag(71), tags.owner(70)),
            (0, 71, None)
        );
        tags.set(70, 0);
        tags.set(127, 5);
        assert_eq!(
            (tags.owner(70), tags.owner(127), tags.owner(71)),
            (Some(0), Some(5), None)
        );
        assert_eq!(tags.among(64, !(1 << 63)), 1 << 6);
        assert_eq!(
            [0, 70, 71, LOST].map(|entry| tags.flag(entry)),
            [0, 70, 71 | REMAPPED, LOST]
        );
        assert_eq!(
            [71 | REMAPPED, 71, LOST].map(|entry| tags.strip(entry)),
            [(71, true), (71, false), (LOST, false)]
        );
        tags.forget(64, 32);
        assert_eq!(tags.among(64, u64::MAX), 1 << 63);
    }

    #[test]
    fn a_page_number_that_needs_the_bit_of_the_flag_keeps_it() {
        let tags = StaleTags::new(REMAPPED_PAGES_MAX + 1);
        assert!(!tags.offered() && StaleTags::new(REMAPPED_PAGES_MAX).offered());
        assert_eq!(tags.strip(REMAPPED | 5), (REMAPPED | 5, false));
    }
}
