//! Which page each slot holds, and where it is on its way to the flash.
//!
//! ```text
//! free -> dirty -> written back -> free
//!           ^            |
//!           +- it failed-+
//! ```
//!
//! A page that was written back is kept until the layer below has made it durable.

use alloc::{vec, vec::Vec};
use nandlab_sim::Index;
use nandlab_sim::Lists;

const FREE: u32 = 0;
const WRITTEN: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// Newer than what is below.
    Dirty,
    /// Below too, but perhaps not durable there.
    Written,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub page: u32,
    pub state: State,
    /// The page reads as zeros, whatever the slot holds.
    pub discarded: bool,
}

#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    by_page: Index<u32>,
    lists: Lists,
    dirty: u32,
}

impl Slots {
    pub fn new(count: u32) -> Self {
        let mut lists = Lists::new(2, count);
        (0..count).for_each(|slot| lists.push_back(FREE, slot));
        let slots = vec![
            Slot {
                page: 0,
                state: State::Free,
                discarded: false
            };
            count as usize
        ];
        Self {
            slots,
            by_page: Index::new(count),
            lists,
            dirty: 0,
        }
    }

    pub fn dirty(&self) -> u32 {
        self.dirty
    }

    #[inline]
    pub fn find(&self, page: u32) -> Option<(u32, Slot)> {
        self.by_page
            .get(page)
            .map(|slot| (slot, self.slots[slot as usize]))
    }

    #[inline]
    pub fn is_dirty(&self, page: u32) -> bool {
        self.find(page)
            .is_some_and(|(_, slot)| slot.state == State::Dirty)
    }

    pub fn free(&self) -> Option<u32> {
        self.lists.front(FREE)
    }

    pub fn written(&self) -> Option<u32> {
        self.lists.front(WRITTEN)
    }

    /// A free slot takes a new version of a page; gives the slot of the old version, which is free
    /// from now on.
    #[inline]
    pub fn fill(&mut self, slot: u32, page: u32, discarded: bool) -> Option<u32> {
        self.lists.remove(slot);
        self.slots[slot as usize] = Slot {
            page,
            state: State::Dirty,
            discarded,
        };
        self.dirty += 1;
        let old = self.by_page.insert(page, slot);
        if let Some(old) = old {
            self.vacate(old);
        }
        old
    }

    /// The page of a slot is below.
    pub fn set_written(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        self.dirty -= u32::from(entry.state == State::Dirty);
        entry.state = State::Written;
        self.lists.push_back(WRITTEN, slot);
    }

    /// The page of a slot may not be below after all; whether that is news.
    pub fn set_dirty(&mut self, slot: u32) -> bool {
        let entry = &mut self.slots[slot as usize];
        if entry.state != State::Written {
            return false;
        }
        entry.state = State::Dirty;
        self.dirty += 1;
        self.lists.remove(slot);
        true
    }

    pub fn set_discarded(&mut self, slot: u32) {
        self.slots[slot as usize].discarded = true;
    }

    /// A slot's page is not needed here any more.
    pub fn release(&mut self, slot: u32) {
        self.by_page.remove(self.slots[slot as usize].page);
        self.vacate(slot);
    }

    fn vacate(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        self.dirty -= u32::from(entry.state == State::Dirty);
        entry.state = State::Free;
        self.lists.push_back(FREE, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_goes_its_way_and_the_newest_version_is_found() {
        let mut slots = Slots::new(3);
        assert_eq!(
            (slots.free(), slots.fill(0, 7, false), slots.free()),
            (Some(0), None, Some(1))
        );
        assert_eq!((slots.fill(1, 7, false), slots.dirty()), (Some(0), 1));
        assert_eq!(slots.find(7).map(|(slot, _)| slot), Some(1));
        slots.set_written(1);
        assert_eq!(
            (slots.dirty(), slots.written(), slots.is_dirty(7)),
            (0, Some(1), false)
        );
        assert_eq!(
            (
                slots.set_dirty(1),
                slots.set_dirty(1),
                slots.dirty(),
                slots.written()
            ),
            (true, false, 1, None)
        );
        slots.set_written(1);
        assert_eq!(
            (slots.fill(2, 7, true), slots.dirty(), slots.written()),
            (Some(1), 1, None)
        );
        slots.set_written(2);
        slots.release(2);
        assert!(slots.find(7).is_none());
        assert_eq!(
            (slots.free(), slots.written(), slots.dirty()),
            (Some(0), None, 0)
        );
    }
}
