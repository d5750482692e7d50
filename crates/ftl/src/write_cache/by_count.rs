//! Groups by their number of dirty pages; the fullest is found in O(1), amortised over the changes.

use nandlab_sim::Lists;

#[derive(Debug)]
pub(super) struct ByCount {
    lists: Lists,
    /// No list above this one has members.
    highest: u32,
}

impl ByCount {
    /// For `groups` groups of up to `most` dirty pages.
    pub fn new(most: u32, groups: u32) -> Self {
        Self {
            lists: Lists::new(most + 1, groups),
            highest: 0,
        }
    }

    /// Puts a group, wherever it was, behind all others with as many pages.
    #[inline]
    pub fn put(&mut self, group: u32, dirty: u32) {
        self.lists.push_back(dirty, group);
        self.highest = self.highest.max(dirty);
    }

    /// Takes a group out, if it is in.
    #[inline]
    pub fn remove(&mut self, group: u32) {
        self.lists.remove(group);
    }

    /// Of the groups with the most pages the one put first.
    pub fn fullest(&mut self) -> Option<u32> {
        loop {
            match self.lists.front(self.highest) {
                Some(group) => return Some(group),
                None => self.highest = self.highest.checked_sub(1)?,
            }
        }
    }
}
