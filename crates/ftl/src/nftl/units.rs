//! The tables in memory: the chain of units of each virtual unit, and what is known of each unit.

use super::options::Allocation;
use alloc::{vec, vec::Vec};

/// Stands for no unit in a table.
const NIL: u16 = 0xffff;
/// In the table of next units: the unit is free.
const FREE: u16 = 0xfffe;
/// In the table of next units: the unit is not this layer's to use.
const RESERVED: u16 = 0xfffc;

/// Free units that Linux keeps.
pub(super) const LINUX_LOW_WATER: u32 = 2;
/// The most free units that are kept on top of those.
pub(super) const STAND_INS: u32 = 2;

/// What must be minded of a unit; see `Guard` for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits(u8);

/// One trait of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Found on the medium: what looks erased in it may be torn. A free unit must be erased first.
    Found = 1,
    /// The program of its first page may be torn, or the page is lost: it takes no link.
    Unlinkable = 2,
    /// A program failed in it.
    Failing = 4,
    /// Its first page holds a copy of what the unit before holds.
    Backed = 8,
}

impl Traits {
    pub fn has(self, guard: Guard) -> bool {
        self.0 & guard as u8 != 0
    }

    /// Nothing must be programmed in the unit but its link.
    pub fn is_closed(self) -> bool {
        self.0 & (Guard::Found as u8 | Guard::Unlinkable as u8 | Guard::Failing as u8) != 0
    }

    /// The next unit cannot be linked to this one.
    pub fn is_final(self) -> bool {
        self.0 & (Guard::Unlinkable as u8 | Guard::Failing as u8) != 0
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    /// Sectors of which it has the newest contents.
    pub live: u64,
    /// Sectors that are known to be unreadable or undefined, and do not count.
    pub void: u64,
    pub erases: u32,
    pub traits: Traits,
}

#[derive(Debug)]
pub(super) struct Units {
    /// The first unit of each chain (Linux's `EUNtable`).
    heads: Vec<u16>,
    lengths: Vec<u16>,
    /// The next unit in the chain (Linux's `ReplUnitTable`).
    next: Vec<u16>,
    units: Vec<Unit>,
    free: u32,
    good: u32,
    /// The free unit taken last.
    last_free: u16,
    first: u16,
}

impl Units {
    /// `chains` empty ones; all units are reserved at first, of which `good` will be in service.
    pub fn new(chains: u16, units: u16, first: u16, good: u32) -> Self {
        Self {
            heads: vec![NIL; chains.into()],
            lengths: vec![0; chains.into()],
            next: vec![RESERVED; units.into()],
            units: vec![Unit::default(); units.into()],
            free: 0,
            good,
            last_free: first,
            first,
        }
    }

    pub fn chains(&self) -> u16 {
        self.heads.len() as u16
    }

    pub fn count(&self) -> u16 {
        self.units.len() as u16
    }

    pub fn unit(&self, unit: u16) -> &Unit {
        &self.units[unit as usize]
    }

    pub fn unit_mut(&mut self, unit: u16) -> &mut Unit {
        &mut self.units[unit as usize]
    }

    pub fn add(&mut self, unit: u16, guard: Guard) {
        self.units[unit as usize].traits.0 |= guard as u8;
    }

    /// The first unit of a chain.
    #[inline]
    pub fn head(&self, chain: u16) -> Option<u16> {
        let head = self.heads[chain as usize];
        (head != NIL).then_some(head)
    }

    /// The next unit of a chain.
    #[inline]
    pub fn next(&self, unit: u16) -> Option<u16> {
        let next = self.next[unit as usize];
        (next != NIL).then_some(next)
    }

    /// Units of a chain.
    pub fn length(&self, chain: u16) -> u16 {
        self.lengths[chain as usize]
    }

    pub fn chain(&self, chain: u16) -> impl Iterator<Item = u16> + '_ {
        core::iter::successors(self.head(chain), |&unit| self.next(unit))
    }

    pub fn free(&self) -> u32 {
        self.free
    }

    /// Free units below which a chain is folded before another unit is taken: two, as in Linux, and
    /// up to two that stand in for a fold's target that fails.
    pub fn low_water(&self) -> u32 {
        LINUX_LOW_WATER
            + self
                .good
                .saturating_sub(self.chains() as u32 + LINUX_LOW_WATER)
                .min(STAND_INS)
    }

    /// A unit that is in no chain and not free is out of service.
    pub fn retire(&mut self, unit: u16) {
        *self.unit_mut(unit) = Unit {
            erases: self.unit(unit).erases,
            ..Unit::default()
        };
        self.good = self.good.saturating_sub(1);
    }

    pub fn is_free(&self, unit: u16) -> bool {
        self.next[unit as usize] == FREE
    }

    /// Takes a free unit.
    pub fn take(&mut self, allocation: Allocation) -> Option<u16> {
        let unit = match allocation {
            Allocation::RoundRobin => {
                let count = self.count();
                let first = self.first;
                let last = self.last_free;
                (last..count).chain(first..last).find(|&u| self.is_free(u))
            }
            Allocation::LeastWorn => self.free_units().min_by_key(|&u| self.unit(u).erases),
        }?;
        Some(self.take_unit(unit))
    }

    /// Takes the free unit that was erased most often.
    pub fn take_most_worn(&mut self) -> Option<u16> {
        let unit = self.free_units().max_by_key(|&u| self.unit(u).erases)?;
        Some(self.take_unit(unit))
    }

    fn free_units(&self) -> impl Iterator<Item = u16> + '_ {
        (self.first..self.count()).filter(|&u| self.is_free(u))
    }

    fn take_unit(&mut self, unit: u16) -> u16 {
        self.last_free = unit;
        self.free -= 1;
        self.next[unit as usize] = RESERVED;
        unit
    }

    /// A unit goes (back) to the free ones.
    pub fn release(&mut self, unit: u16) {
        self.next[unit as usize] = FREE;
        self.free += 1;
    }

    /// Begins the search for a free unit at the last one, as Linux does when it mounts.
    pub fn seek_last_free(&mut self) {
        self.last_free = self.free_units().last().unwrap_or(self.first);
    }

    /// A unit that was taken becomes the last of a chain.
    pub fn append(&mut self, chain: u16, unit: u16) {
        match self.chain(chain).last() {
            Some(last) => self.next[last as usize] = unit,
            None => self.heads[chain as usize] = unit,
        }
        self.next[unit as usize] = NIL;
        self.lengths[chain as usize] += 1;
    }

    /// A chain is from now on its last unit, or one that was taken. Gives the former first one; its
    /// successors lead to the last.
    pub fn replace(&mut self, chain: u16, unit: u16) -> Option<u16> {
        let former = self.head(chain);
        self.heads[chain as usize] = unit;
        self.lengths[chain as usize] = 1;
        self.next[unit as usize] = NIL;
        former
    }

    /// Forgets a unit that has left its chain; gives the one that followed.
    pub fn leave(&mut self, unit: u16) -> Option<u16> {
        let next = self.next(unit);
        self.next[unit as usize] = RESERVED;
        next
    }

    /// The newest contents of a sector are in `unit` (none: it is zeros).
    #[inline]
    pub fn place_newest(&mut self, chain: u16, sector: u32, unit: Option<u16>) {
        let mut at = self.head(chain);
        while let Some(u) = at {
            self.units[u as usize].live &= !(1 << sector);
            at = self.next(u);
        }
        if let Some(unit) = unit {
            self.units[unit as usize].live |= 1 << sector;
        }
    }

    /// The longest chain, the first of several; none if no chain has two units.
    pub fn longest(&self) -> Option<u16> {
        let most = self
            .lengths
            .iter()
            .copied()
            .max()
            .filter(|&most| most >= 2)?;
        self.lengths
            .iter()
            .position(|&length| length == most)
            .map(|chain| chain as u16)
    }

    /// The chain of the least worn unit in use, and by how much the most worn unit of all exceeds
    /// it.
    pub fn coldest(&self) -> Option<(u16, u32)> {
        let units = (0..self.chains())
            .flat_map(|chain| self.chain(chain).map(move |u| (self.unit(u).erases, chain)));
        let (least, chain) = units.min()?;
        let most = (0..self.count())
            .filter(|&u| self.next[u as usize] != RESERVED)
            .map(|u| self.unit(u).erases)
            .max()?;
        Some((chain, most - least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Units {
        let mut units = Units::new(3, 8, 2, 6);
        (2..8).for_each(|u| units.release(u));
        units
    }

    #[test]
    fn free_units_are_taken_in_turn_from_the_last_one_on() {
        let mut units = table();
        units.seek_last_free();
        let taken: Vec<_> = (0..4)
            .map(|_| units.take(Allocation::RoundRobin).unwrap())
            .collect();
        assert_eq!(
            (taken, units.free(), units.low_water()),
            (vec![7, 2, 3, 4], 2, 3)
        );
        units.release(2);
        let taken: Vec<_> = core::iter::from_fn(|| units.take(Allocation::RoundRobin)).collect();
        assert_eq!(taken, [5, 6, 2]);
    }

    #[test]
    fn the_least_or_most_worn_may_be_taken_instead() {
        let mut units = table();
        (2..8).for_each(|u| units.unit_mut(u).erases = [0, 0, 5, 3, 9, 3, 7, 8][u as usize]);
        assert_eq!(
            (units.take(Allocation::LeastWorn), units.take_most_worn()),
            (Some(3), Some(4))
        );
    }

    #[test]
    fn a_chain_grows_at_its_end_and_is_replaced_by_one_unit() {
        let mut units = table();
        for unit in [4, 2, 5] {
            units.append(1, unit);
        }
        units.append(2, 7);
        assert_eq!(
            (
                units.chain(1).collect::<Vec<_>>(),
                units.length(1),
                units.longest()
            ),
            (vec![4, 2, 5], 3, Some(1))
        );
        units.place_newest(1, 9, Some(2));
        units.place_newest(1, 9, Some(5));
        assert_eq!([4, 2, 5].map(|u| units.unit(u).live), [0, 0, 1 << 9]);
        let former = units.replace(1, 5).unwrap();
        assert_eq!(
            (former, units.leave(4), units.leave(2)),
            (4, Some(2), Some(5))
        );
        assert_eq!(
            (units.chain(1).collect::<Vec<_>>(), units.longest()),
            (vec![5], None)
        );
    }
}
