//! The log blocks in use, and what their pages name.

use alloc::{vec, vec::Vec};

/// Name of a page that cannot be read.
pub(super) const NO_LPN: u32 = u32::MAX;

/// A log block with the pages in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub block: u32,
    /// The page that is written next.
    pub next: u32,
    /// Pages that hold a newest version.
    pub live: u32,
    /// Pages may still be appended.
    pub open: bool,
    /// Its pages so far are those of one logical block, each in its place.
    pub in_order: bool,
}

#[derive(Debug)]
pub(super) struct Logs {
    pages: u32,
    slots: Vec<Log>,
    /// Logical page that each page of each slot names, newest version or not.
    lpns: Vec<u32>,
    unused: Vec<u32>,
}

impl Logs {
    pub fn new(pages: u32) -> Self {
        Self {
            pages,
            slots: Vec::new(),
            lpns: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Log blocks in use.
    pub fn in_use(&self) -> u32 {
        (self.slots.len() - self.unused.len()) as u32
    }

    /// Slots that have ever been in use.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Takes a block into use as a log; gives its slot.
    pub fn add(&mut self, block: u32) -> u32 {
        let log = Log {
            block,
            next: 0,
            live: 0,
            open: true,
            in_order: true,
        };
        if let Some(slot) = self.unused.pop() {
            self.slots[slot as usize] = log;
            return slot;
        }
        self.slots.push(log);
        self.lpns.extend(vec![NO_LPN; self.pages as usize]);
        self.slots.len() as u32 - 1
    }

    pub fn remove(&mut self, slot: u32) {
        self.unused.push(slot);
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &Log {
        &self.slots[slot as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut Log {
        &mut self.slots[slot as usize]
    }

    #[inline]
    pub fn lpn(&self, slot: u32, index: u32) -> u32 {
        self.lpns[(slot * self.pages + index) as usize]
    }

    /// The page written next names `lpn`; `off` is its place within its logical block.
    #[inline]
    pub fn push(&mut self, slot: u32, lpn: u32, off: u32) {
        let log = &mut self.slots[slot as usize];
        let first = slot * self.pages;
        let ordered = lpn != NO_LPN
            && off == log.next
            && (log.next == 0 || lpn == self.lpns[first as usize].wrapping_add(log.next));
        log.in_order &= ordered;
        self.lpns[(first + log.next) as usize] = lpn;
        log.next += 1;
    }

    /// A logical page that the log names, if any page of it could be read.
    pub fn any_lpn(&self, slot: u32) -> Option<u32> {
        (0..self.get(slot).next)
            .map(|i| self.lpn(slot, i))
            .find(|&lpn| lpn != NO_LPN)
    }
}
