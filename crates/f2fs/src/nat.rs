//! The node address table: where each node lies. Changes wait here until a checkpoint.
//!
//! *Promises.* A number that was given back is not given out before a checkpoint knows that. *Knows
//! nothing of* what nodes hold.

use crate::{
    F2fs, F2fsError,
    cache::Cache,
    format::{BLOCK, FIRST_NID, NAT_ENTRIES, NULL, SEGMENT, bit, set_bit},
    summary::{NAT_JOURNAL, NatEntry},
};
use alloc::{collections::BTreeMap, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, Time};

/// What has changed since the last checkpoint, and the journal of that one.
#[derive(Debug)]
pub(crate) struct Nat {
    pub changed: BTreeMap<u32, NatEntry>,
    pub journal: BTreeMap<u32, NatEntry>,
    blocks: Cache<u32>,
    /// Nodes that the last checkpoint does not have.
    pub fresh: alloc::collections::BTreeSet<u32>,
}

impl Nat {
    pub fn new(cache_blocks: u64) -> Self {
        Self {
            changed: BTreeMap::new(),
            journal: BTreeMap::new(),
            blocks: Cache::new(cache_blocks),
            fresh: Default::default(),
        }
    }
}

impl<D: BlockDevice> F2fs<D> {
    /// Where the copy of a block of the table lies that is not `other`.
    pub(crate) fn nat_addr(&self, block: u32, other: bool) -> u32 {
        let second = bit(&self.checkpoint.nat_map, block as usize) != other;
        self.layout.nat + 2 * block - block % SEGMENT + if second { SEGMENT } else { 0 }
    }

    pub(crate) fn nat_entry(&mut self, nid: u32) -> Result<NatEntry, F2fsError> {
        if nid < FIRST_NID || nid >= self.layout.nids() {
            return Err(F2fsError::Node {
                nid,
                field: "number",
                found: nid.into(),
                expected: "a number of the node address table",
            });
        }
        if let Some(entry) = self
            .nat
            .changed
            .get(&nid)
            .or_else(|| self.nat.journal.get(&nid))
        {
            return Ok(*entry);
        }
        let block = nid / NAT_ENTRIES;
        let at = (nid % NAT_ENTRIES) as usize * NatEntry::BYTES;
        if let Some(bytes) = self.nat.blocks.get(block) {
            return Ok(NatEntry::get(bytes, at));
        }
        let bytes = self.disk.read(self.nat_addr(block, false))?;
        let entry = NatEntry::get(&bytes, at);
        self.nat.blocks.keep(block, bytes);
        Ok(entry)
    }

    /// A node has moved, come or gone.
    pub(crate) fn set_nat(&mut self, nid: u32, ino: u32, addr: u32) -> Result<(), F2fsError> {
        let mut entry = self.nat_entry(nid)?;
        if entry.addr == NULL && addr != NULL {
            self.nat.fresh.insert(nid);
        }
        if addr == NULL {
            entry.version = entry.version.wrapping_add(1);
        }
        entry.ino = if addr == NULL { 0 } else { ino };
        entry.addr = addr;
        self.nat.changed.insert(nid, entry);
        Ok(())
    }

    /// A number that no node has.
    pub(crate) fn free_nid(&mut self) -> Result<u32, F2fsError> {
        let from = self
            .checkpoint
            .next_nid
            .clamp(FIRST_NID + 1, self.layout.nids() - 1);
        let end = self.layout.nids();
        for nid in (from..end).chain(FIRST_NID + 1..from) {
            if !self.nat.changed.contains_key(&nid) && self.nat_entry(nid)?.addr == NULL {
                self.checkpoint.next_nid = if nid + 1 < end {
                    nid + 1
                } else {
                    FIRST_NID + 1
                };
                return Ok(nid);
            }
        }
        Err(Errno::NoSpace.into())
    }

    /// Writes what changed: into the journal what fits, by blocks with the fewest changes first,
    /// the rest into the table's other copies.
    pub(crate) fn flush_nat(&mut self) -> Result<(), F2fsError> {
        let mut changes = core::mem::take(&mut self.nat.journal);
        changes.extend(core::mem::take(&mut self.nat.changed));
        self.nat.fresh.clear();
        if changes.len() <= NAT_JOURNAL {
            self.nat.journal = changes;
            return Ok(());
        }
        let mut blocks: BTreeMap<u32, Vec<(u32, NatEntry)>> = BTreeMap::new();
        changes.into_iter().for_each(|(nid, entry)| {
            blocks
                .entry(nid / NAT_ENTRIES)
                .or_default()
                .push((nid, entry))
        });
        let mut blocks: Vec<_> = blocks.into_iter().collect();
        blocks.sort_by_key(|(block, entries)| (entries.len(), *block));
        for (block, entries) in blocks {
            if self.nat.journal.len() + entries.len() <= NAT_JOURNAL {
                self.nat.journal.extend(entries);
            } else {
                self.write_nat_block(block, &entries)?;
            }
        }
        Ok(())
    }

    fn write_nat_block(
        &mut self,
        block: u32,
        entries: &[(u32, NatEntry)],
    ) -> Result<(), F2fsError> {
        let mut bytes = self.disk.read(self.nat_addr(block, false))?;
        for (nid, entry) in entries {
            entry.put(&mut bytes, (nid % NAT_ENTRIES) as usize * NatEntry::BYTES);
        }
        self.disk.write(self.nat_addr(block, true), &bytes)?;
        let second = bit(&self.checkpoint.nat_map, block as usize);
        set_bit(&mut self.checkpoint.nat_map, block as usize, !second);
        self.nat.blocks.forget(block);
        self.nat.blocks.keep(block, bytes);
        Ok(())
    }

    /// All numbers with a node, by their entries; for checks.
    pub(crate) fn all_nodes(
        &mut self,
        each: &mut dyn FnMut(u32, NatEntry),
    ) -> Result<(), F2fsError> {
        let mut later = self.nat.journal.clone();
        later.extend(self.nat.changed.iter().map(|(nid, entry)| (*nid, *entry)));
        for block in 0..self.layout.nat_blocks() {
            let bytes = self.disk.read(self.nat_addr(block, false))?;
            let first = block * NAT_ENTRIES;
            let mut changed = later.range(first..first + NAT_ENTRIES).peekable();
            // Most of the table is empty.
            if changed.peek().is_none() && bytes[..] == [0; BLOCK] {
                continue;
            }
            for nid in first..first + NAT_ENTRIES {
                let on_disk = || NatEntry::get(&bytes, (nid - first) as usize * NatEntry::BYTES);
                let entry = changed
                    .next_if(|(changed, _)| **changed == nid)
                    .map_or_else(on_disk, |(_, entry)| *entry);
                if entry.addr != NULL && nid >= FIRST_NID {
                    each(nid, entry);
                }
            }
        }
        Ok(())
    }

    /// The present time, for what begins to wait now.
    pub(crate) fn time(&self) -> Time {
        self.now
    }
}
