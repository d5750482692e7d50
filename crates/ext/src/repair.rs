//! Patches that repair a volume: bytes that follow from others and say something else.
//!
//! *Promises.* Nothing is written. The caller writes the patches to the device when this mount is
//! over, and asks again, since one may show the next. Only what can be derived is derived: bitmaps,
//! counts, links, types, the indexes of directories (which go), names that lead nowhere. Bitmaps
//! stay as they are while two inodes claim one block. *Knows nothing of* contents.

use crate::{
    Ext, ExtError,
    check::Walk,
    finding::{Finding, Place},
    format::{ROOT, STATE_CLEAN, desc, flags, sb},
};
use alloc::{format, vec, vec::Vec};
use nandlab_block::{BlockDevice, Patch};
use nandlab_vfs::{Call, Errno, Gated as _, Time};

/// Whether it is in doubt which block is whose.
fn in_doubt(walk: &Walk) -> bool {
    let doubtful = |finding: &Finding| {
        matches!(
            finding,
            Finding::Unreadable { .. } | Finding::Stray { .. } | Finding::CrossLink { .. }
        )
    };
    walk.report.more > 0 || walk.report.findings.iter().any(doubtful)
}

impl<D: BlockDevice> Ext<D> {
    /// The patches for a check's findings, as far as they can be derived.
    pub fn repair(&mut self) -> Result<Vec<Patch>, ExtError> {
        let mut walk = self.walk()?;
        let mut patches = Vec::new();
        for finding in core::mem::take(&mut walk.report.findings) {
            patches.extend(self.patch(&finding)?);
            walk.report.findings.push(finding);
        }
        // What the inode of bad blocks holds is not walked.
        let bad = self.inode(1)?.block.iter().any(|block| *block != 0);
        if !in_doubt(&walk) && !bad {
            self.repair_bitmaps(&walk, &mut patches)?;
        }
        if patches.is_empty() && walk.report.findings == [Finding::InUse] {
            patches.push(Patch {
                at: 1024 + sb::STATE as u64,
                bytes: STATE_CLEAN.to_le_bytes().to_vec(),
            });
        }
        Ok(patches)
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
            } => Some(self.inode_patch(*inode, 26, (*expected as u16).to_le_bytes().to_vec())),
            Finding::Field {
                inode,
                field,
                expected,
                ..
            } => match *field {
                "units of 512 bytes" => {
                    Some(self.inode_patch(*inode, 28, (*expected as u32).to_le_bytes().to_vec()))
                }
                "length" => {
                    Some(self.inode_patch(*inode, 4, (*expected as u32).to_le_bytes().to_vec()))
                }
                _ => None,
            },
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

    /// Bitmaps as the walk found blocks and inodes used, and every count of them.
    fn repair_bitmaps(&mut self, walk: &Walk, patches: &mut Vec<Patch>) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let mut free_blocks = 0;
        let mut free_inodes = 0;
        for group in 0..layout.groups {
            let counts = self.groups[group as usize];
            let start = layout.group_start(group);
            let end = layout.group_blocks(group);
            let free = self.repair_bitmap(counts.block_bitmap, end, patches, &|at| {
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
                counts.inode_bitmap,
                layout.inodes_per_group,
                patches,
                &in_use,
            )?;
            let directories = (0..layout.inodes_per_group)
                .filter(|at| walk.kind(first + at) == 2)
                .count() as u32;
            let (block, at) = layout.desc_place(group);
            let said = [counts.free_blocks, counts.free_inodes, counts.directories].map(u32::from);
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
        let totals = [
            (sb::FREE_BLOCKS, free_blocks),
            (sb::FREE_INODES, free_inodes),
        ];
        let wrong = totals
            .into_iter()
            .filter(|(at, count)| crate::format::le32(superblock, *at) != *count);
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
        block: u32,
        count: u32,
        patches: &mut Vec<Patch>,
        used: &dyn Fn(u32) -> Option<bool>,
    ) -> Result<u32, ExtError> {
        let old = self.store.block(block)?.to_vec();
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
        let lost: Vec<(u32, u8)> = self.look(Call::new("repair"), |ext| {
            let walk = ext.walk()?;
            let nameless = walk
                .report
                .findings
                .iter()
                .filter_map(|finding| match finding {
                    Finding::Nameless { inode, .. } => Some((*inode, walk.kind(*inode))),
                    _ => None,
                });
            Ok(nameless.collect())
        })?;
        for (inode, kind) in &lost {
            let name = format!("#{inode}");
            self.change(Call::new("repair"), now, |ext| {
                let dir = ext.need(ROOT, b"lost+found")?.record.inode;
                ext.add_entry(dir, name.as_bytes(), *inode, *kind)
            })?;
        }
        Ok(lost.len() as u32)
    }
}
