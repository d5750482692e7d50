//! Patches that repair a volume: bytes that follow from others and say something else.
//!
//! *Promises.* Nothing is written. The caller writes the patches to the device when this mount is
//! over, and asks again, since one may show the next. Only what can be derived is derived: bitmaps,
//! counts, links, types, the indexes of directories (which go), names that lead nowhere. Bitmaps
//! stay as they are while two inodes claim one block. *Knows nothing of* contents.

use crate::{
    Ext, ExtError,
    cache::Class,
    check::Walk,
    finding::{Finding, Place},
    format::{ROOT, STATE_CLEAN, desc, flags, incompat, le32, put16, sb},
    groups::Map,
    strict::ZERO,
    sum::{Sum, Sums},
};
use alloc::{format, vec, vec::Vec};
use nandlab_block::{BlockDevice, Patch};
use nandlab_vfs::{Call, Caller, Errno, Gated as _, NewNode, Time};

/// The directory for files that lost their names.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// True if a block may have another owner than the walk found. A length that should be 0 may be a
/// wrong mode: the blocks of such an inode stay.
fn in_doubt(walk: &Walk) -> bool {
    let doubtful = |finding: &Finding| {
        matches!(
            finding,
            Finding::Unreadable { .. }
                | Finding::Stray { .. }
                | Finding::CrossLink { .. }
                | Finding::Overlap { .. }
                | Finding::Field {
                    field: "length",
                    expected: 0,
                    ..
                }
        )
    };
    walk.report.more > 0 || walk.report.findings.iter().any(doubtful)
}

impl<D: BlockDevice> Ext<D> {
    /// The patches for a check's findings, as far as they can be derived.
    pub fn repair(&mut self) -> Result<Vec<Patch>, ExtError> {
        let verify = core::mem::replace(&mut self.store.verify, false);
        let outcome = self.derive();
        self.store.verify = verify;
        outcome
    }

    fn derive(&mut self) -> Result<Vec<Patch>, ExtError> {
        let mut walk = self.walk()?;
        if !walk.has_root() {
            return Ok(Vec::new());
        }
        let mut patches = Vec::new();
        let mut sums = Vec::new();
        for finding in core::mem::take(&mut walk.report.findings) {
            if let Some(patch) = self.patch(&finding)? {
                sums.extend(self.sum_of_finding(&finding, patch.at)?);
                patches.push(patch);
            }
            if let Finding::Sum { group, .. } = finding {
                self.unsealed.groups.insert(group);
            }
            walk.report.findings.push(finding);
        }
        // What the inode of bad blocks holds is not walked.
        let bad = self.inode(1)?.block.iter().any(|block| *block != 0);
        if !in_doubt(&walk) && !bad && self.store.layout.cluster == 1 {
            self.repair_bitmaps(&walk, &mut patches)?;
        }
        if patches.is_empty() && walk.report.findings == [Finding::InUse] {
            patches.push(Patch {
                at: 1024 + sb::STATE as u64,
                bytes: STATE_CLEAN.to_le_bytes().to_vec(),
            });
        }
        match self.store.layout.sums {
            Sums::None => Ok(patches),
            Sums::Groups | Sums::All => self.sealed(patches, &sums),
        }
    }

    /// The block that the patch for a finding changes, if that holds a checksum, with its kind.
    fn sum_of_finding(
        &mut self,
        finding: &Finding,
        at: u64,
    ) -> Result<Option<(u32, Sum)>, ExtError> {
        let block = (at / u64::from(self.store.layout.block)) as u32;
        let sum = match finding {
            Finding::Dangling { dir, .. }
            | Finding::Type { dir, .. }
            | Finding::Dots { dir, .. } => self.dir_sum(*dir)?,
            Finding::Count {
                place: Place::Block(_),
                ..
            } => self.attribute_sum(),
            _ => None,
        };
        Ok(sum.map(|sum| (block, sum)))
    }

    /// Patches with the checksums of what they change: whole blocks. Nothing stays dirty.
    fn sealed(&mut self, patches: Vec<Patch>, sums: &[(u32, Sum)]) -> Result<Vec<Patch>, ExtError> {
        let layout = self.store.layout;
        let size = layout.size() as u64;
        for patch in patches {
            let block = (patch.at / size) as u32;
            let at = (patch.at % size) as usize;
            self.note_change(block, at)?;
            self.store.edit(block, Class::Counts)?[at..at + patch.bytes.len()]
                .copy_from_slice(&patch.bytes);
        }
        for (block, sum) in sums {
            if let Some(mark) = self.store.cache.mark_mut(*block) {
                mark.sum = Some(*sum);
            }
        }
        self.seal()?;
        self.take_dirty()
    }

    /// All dirty metadata as patches; this mount forgets it.
    fn take_dirty(&mut self) -> Result<Vec<Patch>, ExtError> {
        self.end_names();
        let mut taken = Vec::new();
        for block in self.store.cache.metadata() {
            let at = self.at(block, 0);
            let bytes = self.store.block(block)?.to_vec();
            taken.push(Patch { at, bytes });
            self.store.cache.forget(block);
        }
        Ok(taken)
    }

    /// A group has a bitmap now, whatever it had before.
    fn mark_written_bitmap(&mut self, group: u32, mark: u16) -> Result<(), ExtError> {
        let (place, at) = self.store.layout.desc_place(group);
        let own = &mut self.groups[group as usize];
        own.flags &= !mark;
        let flags = own.flags;
        let bytes = self.store.edit(place, Class::Counts)?;
        put16(bytes, at + desc::FLAGS, flags);
        self.unsealed.groups.insert(group);
        Ok(())
    }

    /// Remembers what of a block needs a new checksum: inodes, descriptors, bitmaps.
    fn note_change(&mut self, block: u32, at: usize) -> Result<(), ExtError> {
        let layout = self.store.layout;
        for group in 0..layout.groups {
            let own = self.groups[group as usize];
            let table = own.table..own.table + layout.table_blocks();
            if table.contains(&block) {
                let each = layout.block / layout.inode_size;
                let within = (block - own.table) * each + at as u32 / layout.inode_size;
                let inode = group * layout.inodes_per_group + within + 1;
                self.unsealed.inodes.insert(inode);
            }
            if block == own.block_bitmap {
                self.mark_written_bitmap(group, desc::BLOCK_UNINIT)?;
            }
            if block == own.inode_bitmap {
                self.mark_written_bitmap(group, desc::INODE_UNINIT)?;
            }
            let (place, begin) = layout.desc_place(group);
            if place == block && (begin..begin + layout.desc as usize).contains(&at) {
                self.unsealed.groups.insert(group);
            }
        }
        Ok(())
    }

    fn at(&self, block: u32, offset: usize) -> u64 {
        u64::from(block) * u64::from(self.store.layout.block) + offset as u64
    }

    fn inode_patch(&self, inode: u32, field: usize, bytes: Vec<u8>) -> Patch {
        let (block, at) = self.inode_place(inode);
        Patch {
            at: self.at(block, at + field),
            bytes,
        }
    }

    fn patch(&mut self, finding: &Finding) -> Result<Option<Patch>, ExtError> {
        Ok(match finding {
            Finding::Links {
                inode, expected, ..
            } if *expected < u16::MAX.into() => {
                Some(self.inode_patch(*inode, 26, (*expected as u16).to_le_bytes().to_vec()))
            }
            Finding::Field {
                inode,
                field,
                found,
                expected,
            } => self.field_patch(*inode, field, (*found, *expected))?,
            Finding::Undated { inode } | Finding::Linked { inode, .. } => self.date(*inode)?,
            Finding::Dangling { block, offset, .. } => Some(Patch {
                at: self.at(*block, *offset as usize),
                bytes: vec![0; 4],
            }),
            Finding::Type {
                block,
                offset,
                expected,
                ..
            } => Some(Patch {
                at: self.at(*block, *offset as usize + 7),
                bytes: vec![*expected],
            }),
            // Blocks of an index hold their checksums elsewhere than blocks of names.
            Finding::Index { .. } if self.store.layout.has_sums() => None,
            Finding::Index { dir, .. } => {
                let plain = self.inode(*dir)?.flags & !flags::INDEX;
                Some(self.inode_patch(*dir, 32, plain.to_le_bytes().to_vec()))
            }
            Finding::Dots {
                dir,
                name: "..",
                expected,
                ..
            } => {
                let found = self.parent_entry(*dir)?;
                Some(Patch {
                    at: self.at(found.block, found.record.at),
                    bytes: expected.to_le_bytes().to_vec(),
                })
            }
            Finding::Count {
                what: "users",
                place: Place::Block(block),
                expected,
                ..
            } => Some(Patch {
                at: self.at(*block, 4),
                bytes: expected.to_le_bytes().to_vec(),
            }),
            _ => None,
        })
    }

    /// The patch for a field of an inode that follows from others.
    fn field_patch(
        &mut self,
        inode: u32,
        field: &str,
        (found, expected): (u64, u64),
    ) -> Result<Option<Patch>, ExtError> {
        let word = |value: u64| (value as u32).to_le_bytes().to_vec();
        if let Some((at, len, _)) = ZERO.iter().find(|(_, _, name)| *name == field) {
            return Ok(Some(self.inode_patch(inode, *at, vec![0; *len])));
        }
        Ok(match field {
            "units of 512 bytes" if expected <= u32::MAX.into() => {
                Some(self.inode_patch(inode, 28, word(expected)))
            }
            "length" if expected > 0 => Some(self.inode_patch(inode, 4, word(expected))),
            "time of deletion, of an inode in use," => self.date(inode)?,
            _ if field.starts_with("flag of ") || field.starts_with("flags of a file") => {
                let left = self.inode(inode)?.flags & !(found as u32);
                Some(self.inode_patch(inode, 32, word(left.into())))
            }
            _ => None,
        })
    }

    /// The patch for a time of deletion: none of an inode in use, otherwise that of the
    /// superblock's last write. A list of orphans goes through these fields, and stays.
    fn date(&mut self, inode: u32) -> Result<Option<Patch>, ExtError> {
        let inodes = self.store.layout.inodes;
        let bytes = self.store.superblock()?;
        let written = le32(bytes, sb::WRITE_TIME);
        if le32(bytes, sb::LAST_ORPHAN) != 0 || written <= inodes {
            return Ok(None);
        }
        let time = match self.inode(inode)?.links {
            0 => written,
            _ => 0,
        };
        let bytes = time.to_le_bytes().to_vec();
        Ok(Some(self.inode_patch(inode, 20, bytes)))
    }

    /// The directory for files without names, made where it is not there and space is sure.
    fn lost_and_found(&mut self, is_sure: bool, now: Time) -> Result<u32, ExtError> {
        match self.need(ROOT, LOST_AND_FOUND) {
            Err(ExtError::Call(Errno::NoEntry)) if is_sure => {
                let by = Caller::root(now);
                self.make(ROOT, LOST_AND_FOUND, NewNode::Directory, 0o700, by)
            }
            found => Ok(found?.record.inode),
        }
    }

    /// Bitmaps as the walk found blocks and inodes used, and every count of them.
    fn repair_bitmaps(&mut self, walk: &Walk, patches: &mut Vec<Patch>) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let mut free_blocks = 0;
        let mut free_inodes = 0;
        for group in 0..layout.groups {
            let counts = self.groups[group as usize];
            let start = layout.group_start(group);
            let end = layout.group_blocks(group);
            let free = self.repair_bitmap((group, Map::Blocks), end, patches, &|at| {
                Some(walk.is_used(start + at))
            })?;
            let first = group * layout.inodes_per_group + 1;
            let in_use = |at: u32| {
                let inode = first + at;
                // Those with numbers of their own are taken, used or not.
                (inode >= layout.first_inode || walk.kind(inode) != 0)
                    .then(|| walk.kind(inode) != 0)
            };
            let inodes = self.repair_bitmap(
                (group, Map::Inodes),
                layout.inodes_per_group,
                patches,
                &in_use,
            )?;
            let directories = (0..layout.inodes_per_group)
                .filter(|at| walk.kind(first + at) == 2)
                .count() as u32;
            let (block, at) = layout.desc_place(group);
            let said = [counts.free_blocks, counts.free_inodes, counts.directories];
            if said != [free, inodes, directories] {
                let bytes = [free, inodes, directories]
                    .iter()
                    .flat_map(|count| (*count as u16).to_le_bytes())
                    .collect();
                patches.push(Patch {
                    at: self.at(block, at + desc::FREE_BLOCKS),
                    bytes,
                });
            }
            free_blocks += free;
            free_inodes += inodes;
        }
        let superblock = self.store.superblock()?;
        let mut totals = vec![
            (sb::FREE_BLOCKS, free_blocks),
            (sb::FREE_INODES, free_inodes),
        ];
        if layout.incompat & incompat::WIDE != 0 {
            totals.push((sb::FREE_BLOCKS_HIGH, 0));
        }
        let wrong = totals
            .into_iter()
            .filter(|(at, count)| le32(superblock, *at) != *count);
        patches.extend(wrong.map(|(at, count)| Patch {
            at: 1024 + at as u64,
            bytes: count.to_le_bytes().to_vec(),
        }));
        Ok(())
    }

    /// A bitmap with the first `count` bits as they should be, where that is known; gives how many
    /// of them are free.
    fn repair_bitmap(
        &mut self,
        (group, map): (u32, Map),
        count: u32,
        patches: &mut Vec<Patch>,
        used: &dyn Fn(u32) -> Option<bool>,
    ) -> Result<u32, ExtError> {
        let (block, bytes) = self.bitmap(group, map)?;
        let old = bytes.to_vec();
        let mut new = old.clone();
        let mut free = 0;
        for at in 0..count {
            let byte = &mut new[at as usize / 8];
            let bit = 1 << (at % 8);
            match used(at) {
                Some(true) => *byte |= bit,
                Some(false) => *byte &= !bit,
                None => {}
            }
            free += u32::from(*byte & bit == 0);
        }
        // What no block or inode stands for is taken.
        (count..8 * new.len() as u32).for_each(|at| new[at as usize / 8] |= 1 << (at % 8));
        if new != old {
            patches.push(Patch {
                at: self.at(block, 0),
                bytes: new,
            });
        }
        Ok(free)
    }

    /// Gives files and directories that have lost their names one in `lost+found`, their number;
    /// gives how many there were.
    pub fn reconnect(&mut self, now: Time) -> Result<u32, Errno> {
        let walk = self.look(Call::new("repair"), |ext| ext.walk())?;
        let is_sure = !in_doubt(&walk);
        let nameless = walk
            .report
            .findings
            .iter()
            .filter_map(|finding| match finding {
                Finding::Nameless { inode, .. } => Some((*inode, walk.kind(*inode))),
                _ => None,
            });
        let lost: Vec<(u32, u8)> = nameless.collect();
        for (inode, kind) in &lost {
            let name = format!("#{inode}");
            self.change(Call::new("repair"), now, |ext| {
                let dir = ext.lost_and_found(is_sure, now)?;
                ext.add_entry(dir, name.as_bytes(), *inode, *kind)
            })?;
        }
        Ok(lost.len() as u32)
    }
}
