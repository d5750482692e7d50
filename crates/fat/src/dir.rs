//! Directories: slots, and the entries that they make up.
//!
//! *Promises.* A long name counts only if its slots are whole and belong to their entry; otherwise
//! the short name does. The first empty slot ends a directory. New entries take the first run of
//! free slots that is long enough. *Knows nothing of* what entries are linked to, except that a
//! directory may need one more cluster.

use crate::{
    Fat, FatError, SeededBug,
    format::{self, DIR_SLOTS_MAX, SLOT, Slot, SlotKind, slot_kind},
    name::{self, Alias, Short},
    node::Node,
    removed::Removed,
};
use alloc::{collections::BTreeSet, vec, vec::Vec};
use nandlab_block::{BlockDevice, BlockError};
use nandlab_vfs::{Errno, Ino};

/// An entry in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub dir: Ino,
    /// Its slots, from the first of the long name to its own.
    pub first: u32,
    pub last: u32,
    /// Where its own slot lies, as a byte of the volume.
    pub place: u64,
    pub slot: Slot,
    pub name: Vec<u16>,
}

impl Found {
    pub fn is_directory(&self) -> bool {
        self.slot[11] & format::attr::DIRECTORY != 0
    }
}

pub(crate) fn short_of(slot: &Slot) -> Short {
    core::array::from_fn(|at| slot[at])
}

/// A long name, coming together slot by slot.
#[derive(Debug, Default)]
pub(crate) struct LongName {
    units: Vec<u16>,
    /// Slots still to come; none while there is no name.
    left: Option<u8>,
    sum: u8,
    first: u32,
}

impl LongName {
    /// Takes a slot; gives false for one that belongs to nothing.
    pub fn take(&mut self, slot: &Slot, index: u32) -> bool {
        let number = slot[0] & 0x3F;
        if slot[0] & 0x40 != 0 && (1..=20).contains(&number) {
            *self = Self {
                units: vec![0; usize::from(number) * name::SLOT_UNITS],
                left: Some(number),
                sum: slot[13],
                first: index,
            };
        } else if number == 0 || self.left != Some(number) || slot[13] != self.sum {
            self.left = None;
            return false;
        }
        self.left = Some(number - 1);
        for (unit, at) in self.units[usize::from(number - 1) * name::SLOT_UNITS..]
            .iter_mut()
            .zip(name::unit_places())
        {
            *unit = format::le16(slot, at);
        }
        true
    }

    /// Whether slots were taken that no entry has claimed.
    pub fn is_pending(&self) -> bool {
        self.left.is_some()
    }

    /// The first slot of the name, if there is one.
    pub fn first_slot(&self) -> u32 {
        self.first
    }

    /// The name for an entry of this short name, and its first slot. The next name begins.
    pub fn finish(&mut self, short: &Short) -> Option<(Vec<u16>, u32)> {
        let left = self.left.take();
        let mut units = core::mem::take(&mut self.units);
        units.truncate(
            units
                .iter()
                .position(|unit| *unit == 0)
                .unwrap_or(units.len()),
        );
        let dots = units.iter().all(|unit| *unit == u16::from(b'.'));
        let valid = (1..=name::UNITS_MAX).contains(&units.len())
            && !units.contains(&u16::from(b'/'))
            && !dots;
        (left == Some(0) && valid && self.sum == name::checksum(short))
            .then_some((units, self.first))
    }
}

/// Where a new entry may go.
struct Survey {
    /// All short names of the directory.
    shorts: BTreeSet<Short>,
    /// The first slot of a free run that is long enough, or the one from which the directory must
    /// grow.
    first: u32,
    /// The first slot that was never used.
    end: u32,
}

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// Where a slot lies, as a byte of the volume; none beyond the end of the directory.
    pub(crate) fn slot_place(&mut self, dir: Ino, index: u32) -> Result<Option<u64>, FatError> {
        let layout = self.store.layout;
        let at = u64::from(index) * SLOT as u64;
        if dir == Ino::ROOT && layout.root_cluster == 0 {
            let start = u64::from(layout.root_start) * u64::from(layout.sector);
            return Ok((index < layout.root_slots).then_some(start + at));
        }
        if index >= DIR_SLOTS_MAX {
            return Ok(None);
        }
        let bytes = u64::from(layout.cluster_bytes());
        let cluster = self.cluster_at(dir, (at / bytes) as u32)?;
        Ok(cluster.map(|(cluster, _)| {
            u64::from(layout.cluster_sector(cluster)) * u64::from(layout.sector) + at % bytes
        }))
    }

    /// The next entry from slot `from` on, which moves behind it.
    pub(crate) fn next_entry(
        &mut self,
        dir: Ino,
        from: &mut u32,
    ) -> Result<Option<Found>, FatError> {
        let mut long = LongName::default();
        while let Some(place) = self.slot_place(dir, *from)? {
            let slot = self.store.slot(place)?;
            let index = *from;
            match slot_kind(&slot) {
                SlotKind::End => return Ok(None),
                SlotKind::LongName => drop(long.take(&slot, index)),
                SlotKind::Deleted | SlotKind::Label | SlotKind::Dot => long = LongName::default(),
                SlotKind::Entry => {
                    *from += 1;
                    let short = short_of(&slot);
                    let (name, first) = long
                        .finish(&short)
                        .unwrap_or_else(|| (name::show(&short, slot[12]), index));
                    return Ok(Some(Found {
                        dir,
                        first,
                        last: index,
                        place,
                        slot,
                        name,
                    }));
                }
            }
            *from += 1;
        }
        Ok(None)
    }

    /// The same, going on behind sectors that cannot be had: the first such error is kept.
    pub(crate) fn next_around(
        &mut self,
        dir: Ino,
        from: &mut u32,
        failure: &mut Option<FatError>,
    ) -> Result<Option<Found>, FatError> {
        let slots = self.store.layout.sector / SLOT as u32;
        loop {
            match self.next_entry(dir, from) {
                Err(error @ FatError::Device(_))
                    if error != FatError::Device(BlockError::PowerCut) && *from < DIR_SLOTS_MAX =>
                {
                    failure.get_or_insert(error);
                    *from = (*from / slots + 1) * slots;
                }
                outcome => return outcome,
            }
        }
    }

    /// The entry of this name, long or short, in whatever case.
    pub(crate) fn find(&mut self, dir: Ino, units: &[u16]) -> Result<Option<Found>, FatError> {
        let wanted = name::fold(units);
        let mut from = 0;
        let mut failure = None;
        while let Some(found) = self.next_around(dir, &mut from, &mut failure)? {
            if name::fold(&found.name) == wanted
                || name::fold(&name::show(&short_of(&found.slot), 0)) == wanted
            {
                return Ok(Some(found));
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// The inode of an entry.
    pub(crate) fn node_of(&mut self, found: &Found) -> Result<Ino, FatError> {
        if let Some(ino) = self.nodes.at(found.place) {
            return Ok(ino);
        }
        let node = Node::from_slot(
            &found.slot,
            found.place,
            self.store.layout.bits,
            self.options.utc_offset_minutes,
        );
        let ino = self.nodes.insert(node);
        if found.is_directory() {
            let counted = self.count_subdirs(ino);
            if counted.is_err() {
                self.nodes.drop_unused(ino);
            }
            counted?;
        }
        Ok(ino)
    }

    /// Counts the directories in a directory; who only reads counts those that can be had.
    pub(crate) fn count_subdirs(&mut self, dir: Ino) -> Result<(), FatError> {
        let mut from = 0;
        let mut subdirs = 0;
        let mut failure = None;
        while let Some(found) = self.next_around(dir, &mut from, &mut failure)? {
            subdirs += u32::from(found.is_directory());
        }
        if let Some(node) = self.nodes.get_mut(dir) {
            node.subdirs = subdirs;
        }
        failure
            .filter(|_| !self.options.read_only)
            .map_or(Ok(()), Err)
    }

    pub(crate) fn is_empty_dir(&mut self, dir: Ino) -> Result<bool, FatError> {
        Ok(self.next_entry(dir, &mut 0)?.is_none())
    }

    /// Looks for `need` free slots in a row.
    fn survey(&mut self, dir: Ino, need: u32) -> Result<Survey, FatError> {
        let mut shorts = BTreeSet::new();
        let mut free = 0;
        let mut first = None;
        let mut end = None;
        let mut index = 0;
        while let Some(place) = self.slot_place(dir, index)? {
            let slot = self.store.slot(place)?;
            let kind = if end.is_some() {
                SlotKind::End
            } else {
                slot_kind(&slot)
            };
            match kind {
                SlotKind::End | SlotKind::Deleted => free += 1,
                _ => free = 0,
            }
            if kind == SlotKind::Entry {
                shorts.insert(short_of(&slot));
            }
            if kind == SlotKind::End {
                end.get_or_insert(index);
            }
            index += 1;
            if free == need {
                first.get_or_insert(index - need);
            }
            if first.is_some() && end.is_some() {
                break;
            }
        }
        Ok(Survey {
            shorts,
            first: first.unwrap_or(index - free),
            end: end.unwrap_or(index),
        })
    }

    /// Makes an entry: `slot` without its name. Gives its first slot, its last, and the place of
    /// the last.
    ///
    /// `instead` is the entry that it will take the place of: their short names may be the same.
    pub(crate) fn add_entry(
        &mut self,
        dir: Ino,
        units: &[u16],
        slot: &Slot,
        instead: Option<&Found>,
    ) -> Result<Found, FatError> {
        let alias = match self.same_alias(dir, units)? {
            Some(alias) => alias,
            None => self.new_alias(dir, units, instead)?,
        };
        let slots = entry_slots(units, &alias, slot);
        let need = slots.len() as u32;
        let Survey { first, end, .. } = self.survey(dir, need)?;
        while self.slot_place(dir, first + need - 1)?.is_none() {
            self.grow_dir(dir, first + need)?;
        }
        let place = self.put_slots(dir, first, &slots)?;
        if first + need > end {
            self.end_at(dir, first + need)?;
        }
        let slot = slots[slots.len() - 1];
        Ok(Found {
            dir,
            first,
            last: first + need - 1,
            place,
            slot,
            name: units.into(),
        })
    }

    /// Writes the slots of an entry. Returns the place of the last.
    fn put_slots(&mut self, dir: Ino, first: u32, slots: &[Slot]) -> Result<u64, FatError> {
        let mut place = 0;
        for (index, slot) in (first..).zip(slots) {
            place = self.slot_place(dir, index)?.ok_or(Errno::NoSpace)?;
            self.store.put_slot(place, slot)?;
        }
        Ok(place)
    }

    /// A short name that no other entry of the directory has, and none that the medium may have
    /// there still.
    fn new_alias(
        &mut self,
        dir: Ino,
        units: &[u16],
        instead: Option<&Found>,
    ) -> Result<Alias, FatError> {
        // As many slots as the name may need: with the short name known it may be one only.
        let most = units.len().div_ceil(name::SLOT_UNITS) as u32 + 1;
        let shorts = self.survey(dir, most)?.shorts;
        let start = self.dir_start(dir);
        let kept = instead.map(|found| short_of(&found.slot));
        let taken = |short: &Short| shorts.contains(short) || self.removed.has_short(start, short);
        Ok(name::alias(units, |short| {
            taken(short) && kept.as_ref() != Some(short)
        })?)
    }

    /// The short name of an entry that was taken away, if a new one of its name takes the very
    /// slots: then the medium never has both. Any other of the name is taken off the medium first.
    fn same_alias(&mut self, dir: Ino, units: &[u16]) -> Result<Option<Alias>, FatError> {
        let (same, slots, first) = match self.removed.named(self.dir_start(dir), units)[..] {
            [] => return Ok(None),
            [entry] if entry.name == units => (
                name::alias(units, |short| *short != entry.short).ok(),
                entry.slots,
                entry.first,
            ),
            _ => (None, 0, 0),
        };
        let fits = |alias: &Alias| entry_slots(units, alias, &[0; SLOT]).len() as u32 == slots;
        if let Some(alias) = same.filter(fits)
            && self.survey(dir, slots)?.first == first
        {
            return Ok(Some(alias));
        }
        self.commit()?;
        Ok(None)
    }

    /// The first cluster of a directory, which identifies it; 0 for a root that has none.
    fn dir_start(&self, dir: Ino) -> u32 {
        self.nodes.get(dir).map_or(0, |node| node.start)
    }

    /// Whatever lies behind the last entry must not come to life.
    fn end_at(&mut self, dir: Ino, index: u32) -> Result<(), FatError> {
        if let Some(place) = self.slot_place(dir, index)?
            && self.store.slot(place)?[0] != 0
        {
            self.store.put_slot(place, &[0; SLOT])?;
        }
        Ok(())
    }

    /// Adds a cluster to a directory, which needs `slots`.
    fn grow_dir(&mut self, dir: Ino, slots: u32) -> Result<(), FatError> {
        let fixed = dir == Ino::ROOT && self.store.layout.root_cluster == 0;
        if fixed || slots > DIR_SLOTS_MAX {
            return Err(Errno::NoSpace.into());
        }
        let cluster = self.allocate()?;
        self.zero_cluster(cluster);
        self.append(dir, cluster)
    }

    /// Fills a cluster that a directory gets with empty slots.
    pub(crate) fn zero_cluster(&mut self, cluster: u32) {
        let first = self.store.layout.cluster_sector(cluster);
        for sector in first..first + self.store.layout.cluster_sectors {
            self.store.zero_metadata(sector);
        }
    }

    /// Takes an entry away.
    pub(crate) fn remove_entry(&mut self, found: &Found) -> Result<(), FatError> {
        for index in found.first..=found.last {
            let Some(place) = self.slot_place(found.dir, index)? else {
                break;
            };
            let mut slot = self.store.slot(place)?;
            slot[0] = 0xE5;
            self.store.put_slot(place, &slot)?;
        }
        if self.has_bug(SeededBug::NamesAgain) {
            return Ok(());
        }
        let first = found.first;
        let slots = found.last - found.first + 1;
        let start = self.dir_start(found.dir);
        self.removed.add(
            start,
            Removed {
                first,
                slots,
                short: short_of(&found.slot),
                name: found.name.clone(),
            },
        );
        Ok(())
    }
}

fn entry_slots(units: &[u16], alias: &Alias, slot: &Slot) -> Vec<Slot> {
    let mut slots = if alias.long {
        name::long_slots(units, &alias.short)
    } else {
        vec![]
    };
    let mut own = *slot;
    own[..11].copy_from_slice(&alias.short);
    own[12] = alias.case;
    slots.push(own);
    slots
}
