//! Physical erase blocks by what they are good for next. Pure bookkeeping: knows neither flash nor
//! volumes.
//!
//! *Promises* Linux's choices (`drivers/mtd/ubi/wl.c`): a block that gets a logical one is of
//! middling wear, and protected from being moved until ten further blocks have been erased;
//! contents that never change sit on little worn blocks, and are moved to a worn one when the
//! counters differ by the threshold; blocks with bit flips move first. Blocks are erased in the
//! order in which they were given up: otherwise an old version of a logical block might outlive a
//! newer one.

use crate::cost::{list_bytes, tree_bytes};
use alloc::{
    collections::{BTreeSet, VecDeque},
    vec,
    vec::Vec,
};

/// Erases for which a block is protected (`UBI_PROT_QUEUE_LEN`).
const PROTECTION: usize = 10;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Erased, with a counter.
    Free,
    /// Holds a logical block.
    Used,
    /// Holds one that must be moved.
    Scrub,
    /// Holds one, and is not to be moved yet.
    Protected,
    /// Waits to be erased.
    Queued,
    /// Holds one that can be neither read nor moved.
    Stuck,
    /// None of this module's business.
    Held,
    /// The block's header was not read yet.
    Asleep,
    /// The block is marked bad.
    Bad,
}

/// An erase that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub peb: u32,
    pub torture: bool,
}

/// The blocks of a device.
#[derive(Clone, Debug)]
pub(crate) struct Wear {
    ec: Vec<u32>,
    state: Vec<State>,
    free: BTreeSet<(u32, u32)>,
    used: BTreeSet<(u32, u32)>,
    scrub: BTreeSet<(u32, u32)>,
    /// The front is the oldest slot.
    protected: VecDeque<Vec<u32>>,
    erase: VecDeque<Job>,
    threshold: u32,
    /// Free blocks that may have torn pages.
    doubtful: BTreeSet<u32>,
    /// Blocks with numbers below this are for the memory alone.
    zone: u32,
    /// The free ones among them.
    zone_free: BTreeSet<(u32, u32)>,
    tracker: Option<Tracker>,
}

/// What has changed, by groups of blocks with neighbouring numbers.
#[derive(Clone, Debug)]
struct Tracker {
    group: u32,
    changed: BTreeSet<u32>,
}

impl Wear {
    pub fn new(pebs: u32, threshold: u32) -> Self {
        Self {
            ec: vec![0; pebs as usize],
            state: vec![State::Held; pebs as usize],
            free: BTreeSet::new(),
            used: BTreeSet::new(),
            scrub: BTreeSet::new(),
            protected: (0..PROTECTION).map(|_| Vec::new()).collect(),
            erase: VecDeque::new(),
            threshold: threshold.max(1),
            doubtful: BTreeSet::new(),
            zone: 0,
            zone_free: BTreeSet::new(),
            tracker: None,
        }
    }

    /// Keeps the first blocks for the memory; all blocks must still be held.
    pub fn set_zone(&mut self, end: u32) {
        self.zone = end;
    }

    /// From now on tells which groups of so many blocks change: become free, used, queued, held or
    /// bad, or get another counter or contents.
    pub fn track(&mut self, group: u32, changed: BTreeSet<u32>) {
        self.tracker = Some(Tracker {
            group: group.max(1),
            changed,
        });
    }

    /// Groups that have changed.
    pub fn changed(&self) -> impl Iterator<Item = u32> {
        self.tracker
            .iter()
            .flat_map(|tracker| tracker.changed.iter().copied())
    }

    pub fn forget_changes(&mut self) {
        self.tracker
            .iter_mut()
            .for_each(|tracker| tracker.changed.clear());
    }

    /// What is said of a block changes.
    pub fn note(&mut self, peb: u32) {
        if let Some(tracker) = &mut self.tracker {
            tracker.changed.insert(peb / tracker.group);
        }
    }

    /// Learns what a block was when it was committed: nothing has changed.
    pub fn wake(&mut self, peb: u32, ec: u32, state: State) {
        let tracker = self.tracker.take();
        self.set_ec(peb, ec);
        if state == State::Queued {
            self.queue(peb, false)
        } else {
            self.set(peb, state)
        }
        self.tracker = tracker;
    }

    pub fn ec(&self, peb: u32) -> u32 {
        self.ec[peb as usize]
    }

    pub fn state(&self, peb: u32) -> State {
        self.state[peb as usize]
    }

    pub fn pebs(&self) -> u32 {
        self.ec.len() as u32
    }

    pub fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    fn tree(&mut self, peb: u32, state: State) -> Option<&mut BTreeSet<(u32, u32)>> {
        match state {
            State::Free if peb < self.zone => Some(&mut self.zone_free),
            State::Free => Some(&mut self.free),
            State::Used => Some(&mut self.used),
            State::Scrub => Some(&mut self.scrub),
            State::Protected
            | State::Queued
            | State::Stuck
            | State::Held
            | State::Asleep
            | State::Bad => None,
        }
    }

    /// Gives a block another role; for those that wait for an erase see [`Wear::queue`].
    pub fn set(&mut self, peb: u32, state: State) {
        let old = self.state(peb);
        let key = (self.ec(peb), peb);
        if role(old) != role(state) {
            self.note(peb);
        }
        if let Some(tree) = self.tree(peb, old) {
            tree.remove(&key);
        } else if old == State::Protected {
            self.protected
                .iter_mut()
                .for_each(|slot| slot.retain(|&other| other != peb));
        }
        self.state[peb as usize] = state;
        if let Some(tree) = self.tree(peb, state) {
            tree.insert(key);
        } else if state == State::Protected
            && let Some(slot) = self.protected.back_mut()
        {
            slot.push(peb);
        }
    }

    pub fn set_ec(&mut self, peb: u32, ec: u32) {
        let state = self.state(peb);
        let tracker = self.tracker.take();
        self.set(peb, State::Held);
        let old = core::mem::replace(&mut self.ec[peb as usize], ec);
        self.set(peb, state);
        self.tracker = tracker;
        if old != ec {
            self.note(peb);
        }
    }

    /// The block is to be erased after all that were queued before.
    pub fn queue(&mut self, peb: u32, torture: bool) {
        self.set(peb, State::Queued);
        self.erase.push_back(Job { peb, torture });
    }

    /// The next erase; the block is held.
    pub fn next_erase(&mut self) -> Option<Job> {
        let job = self.erase.pop_front()?;
        self.state[job.peb as usize] = State::Held;
        Some(job)
    }

    /// Takes a block out of the queue.
    pub fn unqueue(&mut self, peb: u32) {
        self.erase.retain(|job| job.peb != peb);
        self.state[peb as usize] = State::Held;
    }

    pub fn erases_due(&self) -> usize {
        self.erase.len()
    }

    /// Blocks that are queued for an erase, in their order.
    pub fn queued(&self) -> impl Iterator<Item = u32> {
        self.erase.iter().map(|job| job.peb)
    }

    /// A block has been erased and has its counter.
    pub fn sure(&mut self, peb: u32, ec: u32) {
        self.set_ec(peb, ec);
        if self.doubtful.remove(&peb) {
            self.note(peb);
        }
    }

    /// A block has been erased and has its counter: it is free, and the oldest protected ones are
    /// not protected any more.
    pub fn erased(&mut self, peb: u32, ec: u32) {
        self.sure(peb, ec);
        self.set(peb, State::Free);
        let old = self.protected.pop_front().unwrap_or_default();
        self.protected.push_back(Vec::new());
        for peb in old {
            self.state[peb as usize] = State::Held;
            self.set(peb, State::Used);
        }
    }

    /// The most worn free block whose counter is less than `spread` above the least.
    fn worn_within(&self, spread: u32) -> Option<u32> {
        let (least, _) = self.free.first()?;
        self.free
            .range(..(least.saturating_add(spread), 0))
            .next_back()
            .map(|&(_, peb)| peb)
    }

    /// A free block of middling wear (`find_mean_wl_entry`; Linux takes the root of its tree, here
    /// it is the block nearest the middle of the counters).
    pub fn middling(&self) -> Option<u32> {
        let &(least, _) = self.free.first()?;
        let &(most, _) = self.free.last()?;
        if most - least < self.threshold.saturating_mul(2) {
            self.free
                .range((least + (most - least) / 2, 0)..)
                .next()
                .map(|&(_, peb)| peb)
        } else {
            self.worn_within(self.threshold)
        }
    }

    /// A free block for contents that do not change.
    pub fn worn(&self) -> Option<u32> {
        self.worn_within(self.threshold.saturating_mul(2))
    }

    /// The least worn free block, for the memory: one of the zone too, while more than so many are
    /// left there.
    pub fn least(&self, reserve: usize) -> Option<u32> {
        let zone = self
            .zone_free
            .first()
            .filter(|_| self.zone_free.len() > reserve);
        [self.free.first(), zone]
            .into_iter()
            .flatten()
            .min()
            .map(|&(_, peb)| peb)
    }

    /// The least worn free block of the zone.
    pub fn least_of_zone(&self) -> Option<u32> {
        self.zone_free.first().map(|&(_, peb)| peb)
    }

    /// The least worn free block with a number below `end`.
    pub fn below(&self, end: u32) -> Option<u32> {
        self.free
            .iter()
            .find(|(_, peb)| *peb < end)
            .map(|&(_, peb)| peb)
    }

    /// The least worn used block with a number below `end`, if its counter is the threshold below
    /// `ec`.
    pub fn used_below(&self, end: u32, ec: u32) -> Option<u32> {
        let mut young = self
            .used
            .iter()
            .take_while(|(other, _)| other.saturating_add(self.threshold) <= ec);
        young.find(|(_, peb)| *peb < end).map(|&(_, peb)| peb)
    }

    /// A block whose contents must be moved because of bit flips.
    pub fn to_scrub(&self) -> Option<u32> {
        self.scrub.first().map(|&(_, peb)| peb)
    }

    /// The block whose contents are to be moved to one with that counter, so that it wears too.
    pub fn to_level(&self, target_ec: u32) -> Option<u32> {
        let &(ec, peb) = self.used.first()?;
        (target_ec >= ec.saturating_add(self.threshold)).then_some(peb)
    }

    /// A free block is to be erased before it is used.
    pub fn doubt(&mut self, peb: u32) {
        if self.doubtful.insert(peb) {
            self.note(peb);
        }
    }

    pub fn is_doubtful(&self, peb: u32) -> bool {
        self.doubtful.contains(&peb)
    }

    /// Every block of a role with its counter.
    pub fn all(&self, state: State) -> impl Iterator<Item = (u32, u32)> {
        (0..self.pebs())
            .filter(move |&peb| self.state(peb) == state)
            .map(|peb| (peb, self.ec(peb)))
    }

    pub fn memory(&self) -> u64 {
        let trees = self.free.len() + self.used.len() + self.scrub.len() + self.zone_free.len();
        let queued = self.erase.capacity() * size_of::<Job>();
        list_bytes(&self.ec)
            + list_bytes(&self.state)
            + tree_bytes(trees, 8)
            + tree_bytes(self.doubtful.len(), 4)
            + queued as u64
    }

    /// Counters of all blocks that are known and not bad: least, sum, most, number.
    pub fn counters(&self) -> (u32, u64, u32, u32) {
        let known = |state: &State| !matches!(state, State::Bad | State::Asleep);
        let good = self
            .state
            .iter()
            .zip(&self.ec)
            .filter(|(state, _)| known(state))
            .map(|(_, ec)| *ec);
        good.fold((u32::MAX, 0, 0, 0), |(least, sum, most, n), ec| {
            (least.min(ec), sum + u64::from(ec), most.max(ec), n + 1)
        })
    }
}

/// What a commit says of such a block.
fn role(state: State) -> State {
    match state {
        State::Scrub | State::Protected | State::Stuck => State::Used,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wear(ecs: &[u32], threshold: u32) -> Wear {
        let mut wear = Wear::new(ecs.len() as u32, threshold);
        for (peb, ec) in (0..).zip(ecs) {
            wear.set_ec(peb, *ec);
            wear.set(peb, State::Free);
        }
        wear
    }

    #[test]
    fn blocks_of_middling_wear_are_taken_and_worn_ones_for_what_stays() {
        let w = wear(&[0, 5, 10], 8);
        assert_eq!((w.middling(), w.worn()), (Some(1), Some(2)));
        // Too far apart: neither the most worn block nor one that is the threshold above the least.
        let w = wear(&[0, 7, 8, 15, 40], 8);
        assert_eq!(
            (w.middling(), w.worn(), w.below(1)),
            (Some(1), Some(3), Some(0))
        );
        assert_eq!(Wear::new(3, 8).middling(), None);
    }

    #[test]
    fn a_block_is_protected_for_ten_erases() {
        let mut w = wear(&[0; 12], 4);
        w.set(0, State::Protected);
        for peb in 1..=10 {
            assert_eq!((w.state(0), w.to_level(100)), (State::Protected, None));
            w.queue(peb, false);
            assert_eq!(
                w.next_erase(),
                Some(Job {
                    peb,
                    torture: false
                })
            );
            w.erased(peb, 1);
        }
        assert_eq!(
            (w.state(0), w.to_level(4), w.to_level(3)),
            (State::Used, Some(0), None)
        );
    }

    #[test]
    fn erases_keep_their_order() {
        let mut w = wear(&[0; 4], 4);
        for peb in [2, 0, 3] {
            w.queue(peb, peb == 0);
        }
        assert_eq!(w.queued().collect::<Vec<_>>(), [2, 0, 3]);
        assert_eq!((w.free_count(), w.erases_due()), (1, 3));
    }
}
