//! The journal of a new volume: where mke2fs puts it, in block pointers or in extents.
//!
//! *Promises.* It is empty: all its blocks but the first are zeros.

use crate::{FormatError, format::put32, inode::Inode, mkfs::Maker};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::FileType;

impl<D: BlockDevice> Maker<'_, D> {
    /// The journal: empty, its blocks in a row as far as groups let them. Its last `fast` blocks
    /// are for fast commits.
    pub(crate) fn make_journal(&mut self, count: u32, fast: u32) -> Result<Inode, FormatError> {
        let pointers = self.layout.pointers();
        let mut inode = self.inode(FileType::File, 0o600);
        inode.size = u64::from(count) * u64::from(self.layout.block);
        if inode.has_extents() {
            return self.make_mapped_journal(inode, count, fast);
        }
        // Blocks of block pointers that are being filled, by level, from 1: where they lie and what
        // they hold.
        let mut open: [Option<(u32, Vec<u8>)>; 4] = Default::default();
        let mut taken = 0;
        for index in 0..count {
            let (slots, levels) = crate::map::slots(index, pointers);
            for level in 0..=levels {
                let begins = slots[level + 1..=levels].iter().all(|slot| *slot == 0);
                if !begins {
                    continue;
                }
                let block = self.take();
                taken += 1;
                match level {
                    0 => inode.block[slots[0] as usize] = block,
                    _ => put32(
                        &mut open[level]
                            .as_mut()
                            .map_or(&mut Vec::new(), |(_, bytes)| bytes)[..],
                        slots[level] as usize * 4,
                        block,
                    ),
                }
                if level < levels {
                    if let Some((place, bytes)) =
                        open[level + 1].replace((block, vec![0; self.layout.size()]))
                    {
                        self.write(place, &bytes)?;
                    }
                } else {
                    self.zero(block, 1)?;
                }
            }
            if index == 0 {
                let first = self.journal_superblock(count, fast);
                self.write(self.cursor, &first)?;
            }
        }
        for (place, bytes) in open.into_iter().flatten() {
            self.write(place, &bytes)?;
        }
        inode.units = self.units(taken);
        Ok(inode)
    }

    /// The same in extents, from the middle of the volume on.
    fn make_mapped_journal(
        &mut self,
        mut inode: Inode,
        count: u32,
        fast: u32,
    ) -> Result<Inode, FormatError> {
        let mut runs = Vec::new();
        let mut left = count;
        let mut at = self
            .layout
            .group_start(self.journal_group())
            .max(self.layout.first);
        while left > 0 {
            let Some(first) = self.taken.free(at, self.layout.blocks, 1) else {
                let first = self.layout.first;
                if at == first {
                    let why = "no space for the journal";
                    let bytes = self.device.geometry().bytes();
                    return Err(FormatError::Size { bytes, why });
                }
                at = first;
                continue;
            };
            let end = self.taken.next(first).min(self.layout.blocks);
            let run = left.min(end - first);
            self.taken.mark(first, run);
            self.zero(first, run)?;
            runs.push((first, run));
            (left, at) = (left - run, first + run);
        }
        let superblock = self.journal_superblock(count, fast);
        if let Some((first, _)) = runs.first() {
            self.write(*first, &superblock)?;
        }
        let nodes = self.map(&mut inode, &runs)?;
        inode.units = self.units(count + nodes);
        Ok(inode)
    }

    /// The group where mke2fs puts a journal: in the middle, where most is free.
    fn journal_group(&self) -> u32 {
        let layout = &self.layout;
        let middle = (layout.blocks - layout.first) / 2;
        let group = layout.group_of(middle.max(layout.first)).0;
        let start = match group > self.flex {
            false => group.saturating_sub(1),
            true => {
                let first = group / self.flex * self.flex;
                let free = (first..layout.groups).find(|group| self.free_in(*group) > 0);
                free.unwrap_or(0)
            }
        };
        let end = (group + 1).min(layout.groups - 1);
        let mut best = start;
        for group in start + 1..=end {
            if self.free_in(group) > self.free_in(best) {
                best = group;
            }
        }
        best
    }

    /// A journal's first block: version 2, nothing in it (Linux `include/linux/jbd.h`).
    fn journal_superblock(&self, count: u32, fast: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.layout.size()];
        let words = [
            (0, 0xC03B_3998),
            (4, 4),
            (12, self.layout.block),
            (16, count),
            (20, 1),
            (24, 1),
            (64, 1),
            (84, fast),
        ];
        words.iter().for_each(|(at, word): &(usize, u32)| {
            bytes[*at..*at + 4].copy_from_slice(&word.to_be_bytes())
        });
        bytes[48..64].copy_from_slice(&self.choices.uuid);
        bytes
    }
}
