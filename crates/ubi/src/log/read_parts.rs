//! Attaching by an incremental commit: its index, and the leaves of what the log speaks of. All
//! others are read when they are asked for.
//!
//! A block that the log speaks of may have held a logical block, or hold one now; for each of those
//! the block that the commit has for it may be the one that counts. So these three leaves are read
//! for each entry of the log, which are as many as the log can have, however large the device. The
//! blocks that hold the volume table are among them.

use super::format::{Entry, Role};
use super::leaves::{Index, blocks_per_leaf, leaf_counts};
use super::read::{count_supers, sort};
use super::tree::{Tree, layout_lebs, read_blocks, read_lebs};
use super::{Log, Supers, chain};
use crate::UbiError;
use crate::attach::Found;
use crate::flash::Flash;
use crate::options::SeededBug;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use nandlab_mtd::{Mtd, MtdError};

/// What was read of the tables.
struct Read {
    tree: Tree,
    blocks: BTreeMap<u32, Entry>,
    lebs: BTreeMap<(u32, u32), Option<u32>>,
    /// Leaves that were hard to read, or that the log outdates.
    changed: BTreeSet<u32>,
    hurt: bool,
}

/// What index and log say; none if the index or a leaf is lost.
pub(super) fn read<M: Mtd>(
    flash: &mut Flash<M>,
    log: &mut Log,
    replayed: Vec<(u32, Entry)>,
) -> Result<Option<Found>, UbiError> {
    let shape = flash.shape;
    let Some((index, mut hurt)) = read_index(flash, log)? else {
        return Ok(None);
    };
    if index.leaves.is_empty() {
        return Ok(None);
    }
    hurt |= log.hurt;
    let mut all = Read {
        tree: Tree::sleeping(index.lines, index.leaves),
        blocks: BTreeMap::new(),
        lebs: BTreeMap::new(),
        changed: BTreeSet::new(),
        hurt,
    };
    let Some(touched) = all.touched(flash, log, &replayed)? else {
        return Ok(None);
    };
    let mut found = Found {
        max_sqnum: log.current.sqnum,
        image_seq: log.current.image_seq,
        ..Found::default()
    };
    let stale = flash.seeded_bug == Some(SeededBug::StaleLeaves);
    for (peb, entry) in replayed {
        found.max_sqnum = found.max_sqnum.max(entry.vid.sqnum);
        if !stale || !all.blocks.contains_key(&peb) {
            all.blocks.insert(peb, entry);
        }
    }
    for peb in 0..shape.pebs {
        if flash.is_bad(peb)? {
            found.bad += 1;
        } else if let Some(entry) = all.blocks.get(&peb) {
            sort(flash, log, &mut found, peb, entry)?;
        }
    }
    count_supers(log, &mut found);
    let preserved = index.preserved.saturating_sub(log.preserved.len() as u32);
    found.asleep = preserved;
    let mapped = all
        .lebs
        .into_iter()
        .filter(|(leb, _)| !touched.contains(leb));
    found.mapped = mapped
        .filter_map(|((volume, lnum), peb)| Some((volume, lnum, peb?)))
        .collect();
    let blocks = leaf_counts(&shape, 0)[0];
    found.changed = all
        .changed
        .iter()
        .copied()
        .filter(|leaf| *leaf < blocks)
        .collect();
    all.tree.changed = all
        .changed
        .iter()
        .copied()
        .filter(|leaf| *leaf >= blocks)
        .collect();
    log.hurt = all.hurt;
    log.tree = Some(all.tree);
    Ok(Some(found))
}

/// From one of the two copies.
fn read_index<M: Mtd>(flash: &mut Flash<M>, log: &Log) -> Result<Option<(Index, bool)>, MtdError> {
    let shape = flash.shape;
    let current = &log.current;
    let page = shape.page as usize;
    let per_block = shape.leb_bytes / shape.page;
    let mut hurt = false;
    for copy in current
        .present
        .chunks(current.present.len().div_ceil(2).max(1))
    {
        let mut bytes = Vec::new();
        let mut end = page;
        let mut at = current.index;
        while bytes.len() < end
            && let Some(&peb) = copy.get((at / per_block) as usize)
        {
            let start = bytes.len();
            bytes.resize(start + page, 0);
            let seen = flash.read_data(peb, at % per_block * shape.page, &mut bytes[start..])?;
            hurt |= seen.flips;
            if start == 0 {
                end = Index::length(&bytes, &shape).unwrap_or(page);
            }
            at += 1;
        }
        flash.cost.crc_bytes += end as u64;
        if bytes.len() >= end
            && !bytes.is_empty()
            && let Ok(index) = Index::parse(&bytes, current.commit, &shape)
        {
            return Ok(Some((index, hurt)));
        }
        hurt = true;
    }
    Ok(None)
}

impl Read {
    /// Reads the leaves that the attach needs, and gives the logical blocks of which the commit has
    /// not the last word. None: a leaf is lost.
    fn touched<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        log: &Log,
        replayed: &[(u32, Entry)],
    ) -> Result<Option<BTreeSet<(u32, u32)>>, UbiError> {
        // What UBIL took for itself since the commit may have held something then, too.
        let own = [
            &log.current.blocks[..],
            &log.current.spare,
            &log.current.future,
        ]
        .concat();
        let mut named: BTreeSet<u32> = replayed.iter().map(|&(peb, _)| peb).chain(own).collect();
        if matches!(log.supers, Supers::Chain(_)) {
            named.extend(0..chain::ZONE.min(flash.shape.pebs));
        }
        for &peb in &named {
            if !self.wake_block(flash, log, peb, true)? {
                return Ok(None);
            }
        }
        let mapped = |entry: &Entry| {
            (entry.role == Role::Mapped).then_some((entry.vid.volume, entry.vid.lnum))
        };
        let before = named
            .iter()
            .filter_map(|peb| self.blocks.get(peb))
            .filter_map(mapped);
        let outdated: BTreeSet<(u32, u32)> = before
            .chain(replayed.iter().filter_map(|(_, entry)| mapped(entry)))
            .collect();
        let touched: BTreeSet<(u32, u32)> = outdated.iter().copied().chain(layout_lebs()).collect();
        for &(volume, lnum) in &touched {
            let Some(leaf) = self.tree.leaf_of_leb(&flash.shape, volume, lnum) else {
                continue;
            };
            let changes = outdated.contains(&(volume, lnum));
            if changes {
                self.changed.insert(leaf);
            }
            if !self.wake_lebs(flash, log, leaf)? {
                return Ok(None);
            }
            // It holds the logical block still, or is to be erased.
            let committed = self.lebs.get(&(volume, lnum)).copied().flatten();
            if let Some(peb) = committed
                && !self.wake_block(flash, log, peb, changes)?
            {
                return Ok(None);
            }
        }
        Ok(Some(touched))
    }

    fn wake_block<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        log: &Log,
        peb: u32,
        changes: bool,
    ) -> Result<bool, MtdError> {
        let leaf = peb / blocks_per_leaf(flash.shape.page);
        if changes {
            self.changed.insert(leaf);
        }
        if !self.tree.is_asleep(leaf) {
            return Ok(true);
        }
        let Some((entries, hurt)) = read_blocks(flash, &log.current, &self.tree, leaf)? else {
            return Ok(false);
        };
        let (first, _) = self.tree.range(&flash.shape, leaf);
        self.blocks.extend((first..).zip(entries));
        self.note(leaf, hurt);
        Ok(true)
    }

    fn wake_lebs<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        log: &Log,
        leaf: u32,
    ) -> Result<bool, MtdError> {
        if !self.tree.is_asleep(leaf) {
            return Ok(true);
        }
        let Some((pebs, hurt)) = read_lebs(flash, &log.current, &self.tree, leaf)? else {
            return Ok(false);
        };
        let lebs: Vec<_> = self.tree.lebs_of(&flash.shape, leaf).zip(pebs).collect();
        self.lebs.extend(lebs);
        self.note(leaf, hurt);
        Ok(true)
    }

    fn note(&mut self, leaf: u32, hurt: bool) {
        self.tree.set_awake(leaf);
        self.hurt |= hurt;
        if hurt {
            self.changed.insert(leaf);
        }
    }
}
