//! The two tables of incremental commits in memory, leaf by leaf: which leaves have been read,
//! where the others are, which have changed.
//!
//! *Promises.* A leaf is read when something on it is asked for, or when there is time. What is not
//! known yet is *asleep*: nothing is done to a block, and nothing is said of a logical block,
//! before the leaves that have it are awake. So an attach reads an index and a few leaves, however
//! large the device is.

use super::format::{Entry, Role, Super};
use super::leaves::{
    Line, Place, blocks_per_leaf, index_bytes, leaf_counts, lebs_per_leaf, parse_blocks, parse_lebs,
};
use crate::attach::Found;
use crate::cost::{list_bytes, tree_bytes};
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::Flash;
use crate::format::{FieldError, LAYOUT_LEBS, LAYOUT_VOLUME, VOLUMES_MAX, VolumeKind};
use crate::volume::Volume;
use crate::wear::State;
use crate::{Shape, Ubi};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Mtd, MtdError};

/// Free blocks that are known, if there are so many.
const FREE_KNOWN: u32 = 24;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The volumes whose logical blocks the table has, one after the other.
    pub lines: Vec<Line>,
    /// Where each leaf is; empty before the first commit.
    pub places: Vec<Place>,
    pub asleep: Vec<bool>,
    /// How many of the blocks are not read yet.
    sleeping: u32,
    /// Leaves of logical blocks that have changed. Those of physical blocks are
    /// [`crate::wear::Wear::changed`].
    pub changed: BTreeSet<u32>,
    /// The next page of the copies; none: it is not known to be erased.
    pub next: Option<u32>,
    /// Where to look for the next leaf to be read.
    cursor: u32,
}

/// Leaves of a device, if all its blocks are mapped.
fn most_leaves(shape: &Shape) -> usize {
    leaf_counts(shape, shape.pebs)
        .map(|count| count as usize)
        .iter()
        .sum()
}

/// Pages of an index.
pub(super) fn index_pages(shape: &Shape, leaves: usize, lines: usize) -> u32 {
    index_bytes(leaves, lines).div_ceil(shape.page as usize) as u32
}

/// Erase blocks of one copy of all leaves and an index.
pub(super) fn whole_blocks(shape: &Shape) -> u32 {
    let leaves = most_leaves(shape);
    (leaves as u32 + index_pages(shape, leaves, VOLUMES_MAX as usize + 1))
        .div_ceil(shape.leb_bytes / shape.page)
}

/// Erase blocks that a copy may grow to before it is written anew.
pub(super) fn most_blocks(shape: &Shape) -> u32 {
    let whole = whole_blocks(shape);
    whole + whole.max(2)
}

/// The volumes as an index has them.
pub(super) fn lines(volumes: &BTreeMap<u32, Volume>, leb_bytes: u32) -> Vec<Line> {
    let layout = volumes.iter().filter(|(id, _)| **id == LAYOUT_VOLUME);
    layout
        .chain(volumes.iter().filter(|(id, _)| **id != LAYOUT_VOLUME))
        .map(|(id, volume)| line(*id, volume, leb_bytes))
        .collect()
}

fn line(id: u32, volume: &Volume, leb_bytes: u32) -> Line {
    let total = volume
        .update
        .as_ref()
        .map(|update| update.total.div_ceil(volume.leb_bytes(leb_bytes).into()) as u32);
    let fixed = volume.record.kind == VolumeKind::Static;
    Line {
        id,
        kind: volume.record.kind,
        reserved: volume.map.len() as u32,
        data_pad: volume.record.data_pad,
        used_ebs: if fixed {
            total.unwrap_or(volume.used_ebs)
        } else {
            0
        },
        last_bytes: if fixed { volume.last_bytes } else { 0 },
        corrupted: fixed && volume.corrupted,
    }
}

impl Tree {
    /// Of volumes that are all known.
    pub fn awake(shape: &Shape, lines: Vec<Line>) -> Self {
        let mut tree = Self {
            lines,
            ..Self::default()
        };
        tree.asleep = vec![false; tree.leaves(shape) as usize];
        tree
    }

    /// As an index has it, with all leaves asleep.
    pub fn sleeping(lines: Vec<Line>, places: Vec<Place>) -> Self {
        let sleeping = places.len() as u32;
        Self {
            asleep: vec![true; places.len()],
            lines,
            places,
            sleeping,
            ..Self::default()
        }
    }

    /// Whether there are leaves that have not been read.
    pub fn sleeps(&self) -> bool {
        self.sleeping > 0
    }

    pub fn lebs(&self) -> u32 {
        self.lines.iter().map(|line| line.reserved).sum()
    }

    pub fn leaves(&self, shape: &Shape) -> u32 {
        leaf_counts(shape, self.lebs()).iter().sum()
    }

    /// Whether the table has space for exactly these volumes.
    pub fn fits(&self, volumes: &BTreeMap<u32, Volume>) -> bool {
        let sizes = |line: &Line| (line.id, line.reserved);
        self.lines.len() == volumes.len()
            && lines(volumes, u32::MAX)
                .iter()
                .map(sizes)
                .eq(self.lines.iter().map(sizes))
    }

    /// The leaf of a logical block; none if the table does not have it.
    pub fn leaf_of_leb(&self, shape: &Shape, volume: u32, lnum: u32) -> Option<u32> {
        let mut base = 0;
        for line in &self.lines {
            if line.id == volume && lnum < line.reserved {
                return Some(leaf_counts(shape, 0)[0] + (base + lnum) / lebs_per_leaf(shape.page));
            }
            base += line.reserved;
        }
        None
    }

    /// The first entry of a leaf, and how many it has: physical blocks, or places among the logical
    /// ones.
    pub fn range(&self, shape: &Shape, leaf: u32) -> (u32, u32) {
        let blocks = leaf_counts(shape, 0)[0];
        let (number, per_leaf, all) = if leaf < blocks {
            (leaf, blocks_per_leaf(shape.page), shape.pebs)
        } else {
            (leaf - blocks, lebs_per_leaf(shape.page), self.lebs())
        };
        let first = number * per_leaf;
        (first, all.saturating_sub(first).min(per_leaf))
    }

    /// The logical blocks of a leaf.
    pub fn lebs_of(&self, shape: &Shape, leaf: u32) -> impl Iterator<Item = (u32, u32)> {
        let (first, count) = self.range(shape, leaf);
        let all = self
            .lines
            .iter()
            .flat_map(|line| (0..line.reserved).map(move |lnum| (line.id, lnum)));
        all.skip(first as usize).take(count as usize)
    }

    pub fn is_asleep(&self, leaf: u32) -> bool {
        self.sleeping > 0 && self.asleep.get(leaf as usize) == Some(&true)
    }

    pub fn set_awake(&mut self, leaf: u32) {
        if core::mem::take(&mut self.asleep[leaf as usize]) {
            self.sleeping -= 1;
        }
    }

    /// The next leaf that sleeps, of physical blocks with a free one among them if so wanted.
    fn next_asleep(&mut self, blocks: u32, with_free: bool) -> Option<u32> {
        let count = self.asleep.len() as u32;
        let fits = |leaf: &u32| {
            self.asleep[*leaf as usize]
                && (!with_free || *leaf < blocks && self.places[*leaf as usize].free > 0)
        };
        let found = (self.cursor..count).chain(0..self.cursor).find(fits)?;
        self.cursor = found;
        Some(found)
    }

    pub fn memory(&self) -> u64 {
        list_bytes(&self.lines)
            + list_bytes(&self.places)
            + list_bytes(&self.asleep)
            + tree_bytes(self.changed.len(), 4)
    }
}

/// A page of either copy of a commit; the second if the first is damaged. None if both are. And
/// whether it was hard to read.
pub(super) fn read_page<M: Mtd, T>(
    flash: &mut Flash<M>,
    present: &[u32],
    at: u32,
    parse: impl Fn(&[u8], &Shape) -> Result<T, FieldError>,
) -> Result<Option<(T, bool)>, MtdError> {
    let shape = flash.shape;
    let per_block = shape.leb_bytes / shape.page;
    let mut bytes = vec![0; shape.page as usize];
    for (i, copy) in present.chunks(present.len().div_ceil(2).max(1)).enumerate() {
        let Some(&peb) = copy.get((at / per_block) as usize) else {
            return Ok(None);
        };
        let seen = flash.read_data(peb, at % per_block * shape.page, &mut bytes)?;
        flash.cost.crc_bytes += u64::from(shape.page);
        if let Ok(parsed) = parse(&bytes, &shape) {
            return Ok(Some((parsed, seen.flips || i > 0)));
        }
    }
    Ok(None)
}

/// A leaf of physical blocks.
pub(super) fn read_blocks<M: Mtd>(
    flash: &mut Flash<M>,
    current: &Super,
    tree: &Tree,
    leaf: u32,
) -> Result<Option<(Vec<Entry>, bool)>, MtdError> {
    let (_, count) = tree.range(&flash.shape, leaf);
    flash.cost.records += u64::from(count);
    read_page(
        flash,
        &current.present,
        tree.places[leaf as usize].at,
        |bytes, shape| parse_blocks(bytes, leaf, count, &tree.lines, shape),
    )
}

/// Which physical blocks logical ones have.
type Places = Vec<Option<u32>>;

/// A leaf of logical blocks.
pub(super) fn read_lebs<M: Mtd>(
    flash: &mut Flash<M>,
    current: &Super,
    tree: &Tree,
    leaf: u32,
) -> Result<Option<(Places, bool)>, MtdError> {
    let (_, count) = tree.range(&flash.shape, leaf);
    flash.cost.records += u64::from(count);
    read_page(
        flash,
        &current.present,
        tree.places[leaf as usize].at,
        |bytes, shape| parse_lebs(bytes, leaf, count, shape),
    )
}

impl<M: Mtd> Ubi<M> {
    /// All blocks whose leaves have not been read sleep; all others are still held.
    pub(crate) fn sleep(&mut self) {
        let Kept::Log(log) = &self.kept else { return };
        let Some(tree) = &log.tree else { return };
        for leaf in 0..leaf_counts(&self.flash.shape, 0)[0] {
            let (first, count) = tree.range(&self.flash.shape, leaf);
            if tree.is_asleep(leaf) {
                (first..first + count).for_each(|peb| self.wear.set(peb, State::Asleep));
            }
        }
    }

    /// What the index says of volumes.
    pub(crate) fn take_lines(&mut self, found: &mut Found) -> Result<(), UbiError> {
        let Kept::Log(log) = &self.kept else {
            return Ok(());
        };
        for line in log.tree.iter().flat_map(|tree| &tree.lines) {
            let Some(volume) = self.volumes.get_mut(&line.id) else {
                continue;
            };
            if (line.kind, line.data_pad) != (volume.record.kind, volume.record.data_pad) {
                let expected = "of the type and padding that the table says";
                return Err(UbiError::Medium {
                    what: "volume of an index",
                    found: line.id.into(),
                    expected,
                });
            }
            if line.kind == VolumeKind::Static {
                (volume.last_bytes, volume.corrupted) = (line.last_bytes, line.corrupted);
                volume.used_ebs = found
                    .volumes
                    .get(&line.id)
                    .map_or(line.used_ebs, |found| found.used_ebs);
            }
        }
        for (id, lnum, peb) in core::mem::take(&mut found.mapped) {
            if let Some(place) = self
                .volumes
                .get_mut(&id)
                .and_then(|volume| volume.map.get_mut(lnum as usize))
            {
                *place = Some(peb);
            }
        }
        Ok(())
    }

    /// From now on it is known what an incremental commit has to say.
    pub(crate) fn take_changes(&mut self, found: &mut Found) {
        if self.tree().is_some() {
            self.wear.track(
                blocks_per_leaf(self.flash.shape.page),
                core::mem::take(&mut found.changed),
            );
        }
    }

    fn tree(&mut self) -> Option<&mut Tree> {
        match &mut self.kept {
            Kept::Log(log) => log.tree.as_mut(),
            Kept::Scan | Kept::Fastmap(_) => None,
        }
    }

    /// Makes sure that it is known where a logical block is.
    pub(crate) fn wake_leb(&mut self, volume: u32, lnum: u32) -> Result<(), UbiError> {
        let shape = self.flash.shape;
        let Some(tree) = self.tree().filter(|tree| tree.sleeps()) else {
            return Ok(());
        };
        let leaf = tree
            .leaf_of_leb(&shape, volume, lnum)
            .filter(|leaf| tree.is_asleep(*leaf));
        leaf.map_or(Ok(()), |leaf| self.wake_leaf(leaf))
    }

    /// Makes sure that it is known what a physical block is.
    pub(crate) fn wake_block(&mut self, peb: u32) -> Result<(), UbiError> {
        let leaf = peb / blocks_per_leaf(self.flash.shape.page).max(1);
        match self.tree() {
            Some(tree) if tree.is_asleep(leaf) => self.wake_leaf(leaf),
            _ => Ok(()),
        }
    }

    /// Reads a leaf more; false: all are awake.
    pub(crate) fn wake_next(&mut self) -> Result<bool, UbiError> {
        let next = self
            .tree()
            .filter(|tree| tree.sleeps())
            .and_then(|tree| tree.next_asleep(0, false));
        next.map_or(Ok(false), |leaf| self.wake_leaf(leaf).map(|()| true))
    }

    pub(crate) fn wake_all(&mut self) -> Result<(), UbiError> {
        while self.wake_next()? {}
        Ok(())
    }

    /// Reads a leaf with free blocks if few are known.
    pub(crate) fn wake_free(&mut self) -> Result<(), UbiError> {
        let few = self.wear.free_count() < FREE_KNOWN;
        let blocks = leaf_counts(&self.flash.shape, 0)[0];
        let Some(tree) = self.tree().filter(|tree| few && tree.sleeps()) else {
            return Ok(());
        };
        tree.next_asleep(blocks, true)
            .map_or(Ok(()), |leaf| self.wake_leaf(leaf))
    }

    fn wake_leaf(&mut self, leaf: u32) -> Result<(), UbiError> {
        let Kept::Log(log) = &mut self.kept else {
            return Ok(());
        };
        let Some(tree) = &mut log.tree else {
            return Ok(());
        };
        let shape = self.flash.shape;
        let (first, _) = tree.range(&shape, leaf);
        let hurt = if leaf < leaf_counts(&shape, 0)[0] {
            let Some((entries, hurt)) = read_blocks(&mut self.flash, &log.current, tree, leaf)?
            else {
                return self.lose_leaf();
            };
            tree.set_awake(leaf);
            (first..)
                .zip(&entries)
                .for_each(|(peb, entry)| self.wake_entry(peb, entry));
            if hurt {
                self.wear.note(first);
            }
            hurt
        } else {
            let Some((pebs, hurt)) = read_lebs(&mut self.flash, &log.current, tree, leaf)? else {
                return self.lose_leaf();
            };
            for ((id, lnum), peb) in tree.lebs_of(&shape, leaf).zip(pebs) {
                if let Some(place) = self
                    .volumes
                    .get_mut(&id)
                    .and_then(|volume| volume.map.get_mut(lnum as usize))
                {
                    *place = peb;
                }
            }
            tree.set_awake(leaf);
            if hurt {
                tree.changed.insert(leaf);
            }
            hurt
        };
        self.log()?.hurt |= hurt;
        Ok(())
    }

    /// A block is what its entry says.
    fn wake_entry(&mut self, peb: u32, entry: &Entry) {
        let Kept::Log(log) = &mut self.kept else {
            return;
        };
        if self.wear.state(peb) != State::Asleep {
            return;
        }
        let vid = &entry.vid;
        let state = match entry.role {
            _ if log.owns(peb) => State::Held,
            Role::Free => State::Free,
            Role::Mapped
                if self
                    .volumes
                    .get(&vid.volume)
                    .is_some_and(|volume| volume.map.len() > vid.lnum as usize) =>
            {
                log.headers[peb as usize] = Some(*vid);
                State::Used
            }
            Role::Mapped | Role::Dirty | Role::Bad | Role::Memory => State::Queued,
            Role::Preserved => {
                log.preserved.push(peb);
                State::Held
            }
        };
        self.wear.wake(peb, entry.ec, state);
    }

    /// Both copies of a leaf are gone. With headers the next attach scans; nothing is written
    /// before.
    fn lose_leaf(&mut self) -> Result<(), UbiError> {
        const WHY: &str = "both copies of a part of the commit are lost";
        if self.flash.shape.has_headers() && self.read_only.is_none() {
            for peb in super::chain_of(&self.log()?.supers) {
                self.flash.erase(peb).map_err(|error| self.stop(error))?;
            }
            self.sync()?;
        }
        self.read_only = Some(WHY);
        Err(UbiError::ReadOnly(WHY))
    }

    /// Where a logical block is has changed.
    pub(crate) fn set_place(
        &mut self,
        id: u32,
        lnum: u32,
        peb: Option<u32>,
    ) -> Result<(), UbiError> {
        let volume = self.volumes.get_mut(&id).ok_or(UbiError::NoVolume(id))?;
        let place = volume.map.get_mut(lnum as usize).ok_or(UbiError::Internal(
            "a logical block behind the volume's end",
        ))?;
        *place = peb;
        if let Some(unsure) = volume.unsure.get_mut(lnum as usize) {
            *unsure = false;
        }
        let shape = self.flash.shape;
        if let Some(tree) = self.tree()
            && let Some(leaf) = tree.leaf_of_leb(&shape, id, lnum)
        {
            tree.changed.insert(leaf);
        }
        Ok(())
    }

    /// What is known of a block that a table names for a logical one must agree.
    pub(crate) fn check_place(&mut self, id: u32, lnum: u32, peb: u32) -> Result<(), UbiError> {
        self.wake_block(peb)?;
        let Kept::Log(log) = &self.kept else {
            return Ok(());
        };
        if log.tree.is_none()
            || log
                .vid(peb)
                .is_some_and(|vid| (vid.volume, vid.lnum) == (id, lnum))
        {
            return Ok(());
        }
        self.read_only = Some("the tables of the commit contradict each other");
        Err(UbiError::Lost { volume: id, lnum })
    }
}

/// The layout volume's logical blocks.
pub(super) fn layout_lebs() -> impl Iterator<Item = (u32, u32)> {
    (0..LAYOUT_LEBS).map(|lnum| (LAYOUT_VOLUME, lnum))
}
