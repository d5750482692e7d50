//! Making a volume, with the choices of mke2fs.
//!
//! *Promises* byte by byte what `mke2fs -t ext2` and `-t ext3` make of e2fsprogs 1.47 with its own
//! configuration, given the same size, identity and time. Everything that a mount or a check looks
//! at is written, whatever was there before; blocks for contents are left as they are. *Knows
//! nothing of* mounted volumes.

use crate::{
    ExtError,
    format::{
        DESC, DIRECT, FLAG_SIGNED, INODE_OLD, JOURNAL_INODE, Layout, MAGIC, RESIZE_INODE, ROOT,
        STATE_CLEAN, SUPER_BYTES, desc, put16, put32, sb,
    },
    inode::Inode,
    plan::Plan,
};
use alloc::{vec, vec::Vec};
use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_vfs::{FileType, Time, with_defaults};

/// The longest request, in bytes.
const REQUEST_MAX: usize = 128 * 1024;

with_defaults! {
    /// How a volume shall be.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Format {
        /// Whether it has a journal: ext3. A volume of fewer than 2048 blocks gets none.
        pub journal: bool = false,
        /// Blocks of the journal; by default from 1024 to 262 144 by the size of the volume.
        pub journal_blocks: Option<u32> = None,
        /// Bytes of a block, 1024, 2048 or 4096; by default 1024 below 512 MiB, otherwise 4096.
        pub block: Option<u32> = None,
        /// Bytes of an inode, 128 to the block's.
        pub inode_size: u32 = 256,
        /// Bytes of the volume for each inode; by default 8192 below 3 MiB, 4096 below 512 MiB,
        /// 16 384, 32 768 from 4 TiB on.
        pub inode_ratio: Option<u32> = None,
        /// Percent of the blocks that only the superuser may take.
        pub reserved_percent: u32 = 5,
        /// Name of the volume, up to 16 bytes.
        pub label: Vec<u8> = Vec::new(),
        /// The UUID of the new volume.
        pub uuid: [u8; 16] = *b"\x6e\x61\x6e\x64\x6c\x61\x40\x62\x80\x65\x78\x74\x00\x00\x00\x01",
        /// Seed of the directory hash.
        pub hash_seed: [u8; 16] =
            *b"\x6e\x61\x6e\x64\x6c\x61\x40\x62\x80\x68\x61\x73\x68\x00\x00\x01",
        /// The time at which it is made.
        pub now: Time = Time::new(0),
    }
}

/// Why no volume was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The device below refused a request.
    #[error("device: {0}")]
    Device(#[from] BlockError),
    /// A choice cannot be.
    #[error("{what} is {found}, expected {expected}")]
    Choice {
        /// The setting that was chosen.
        what: &'static str,
        /// The value that was given.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// The device is too small or too large.
    #[error("{bytes} bytes hold no such volume: {why}")]
    Size {
        /// Bytes of the device.
        bytes: u64,
        /// What does not fit.
        why: &'static str,
    },
    /// What was written does not read as a volume.
    #[error("the new volume cannot be read: {0}")]
    Unreadable(ExtError),
}

/// Makes a volume of the whole device.
pub fn format<D: BlockDevice>(mut device: D, choices: &Format) -> Result<Layout, FormatError> {
    let plan = Plan::new(device.geometry().bytes(), choices)?;
    let unit = device.geometry().sector;
    if !plan.layout.block.is_multiple_of(unit) {
        return Err(FormatError::Choice {
            what: "sector of the device",
            found: unit.into(),
            expected: "a divisor of the block",
        });
    }
    let mut maker = Maker {
        device: &mut device,
        layout: plan.layout,
        choices,
        cursor: 0,
        ratio: u64::from(plan.layout.block / unit),
    };
    maker.make(&plan)?;
    device.flush()?;
    Ok(
        crate::store::Store::open(crate::disk::Disk::Plain(device), 0)
            .map_err(FormatError::Unreadable)?
            .layout,
    )
}

struct Maker<'a, D> {
    device: &'a mut D,
    layout: Layout,
    choices: &'a Format,
    /// The last block that was taken for contents; 0 while there is none.
    cursor: u32,
    ratio: u64,
}

impl<D: BlockDevice> Maker<'_, D> {
    fn write(&mut self, block: u32, data: &[u8]) -> Result<(), FormatError> {
        Ok(self
            .device
            .write(Lba(u64::from(block) * self.ratio), data)?)
    }

    fn zero(&mut self, block: u32, count: u32) -> Result<(), FormatError> {
        let each = (REQUEST_MAX / self.layout.size()) as u32;
        let zeros = vec![0; (count.min(each) * self.layout.block) as usize];
        for at in (0..count).step_by(each as usize) {
            let length = (count - at).min(each) as usize * self.layout.size();
            self.write(block + at, &zeros[..length])?;
        }
        Ok(())
    }

    /// Blocks of superblock and descriptors at a group's beginning.
    fn header(&self, group: u32) -> u32 {
        if self.layout.has_super(group) {
            1 + self.layout.desc_blocks() + self.layout.reserved_gdt
        } else {
            0
        }
    }

    /// Blocks of a group's own metadata: they are its first.
    fn own(&self, group: u32) -> u32 {
        self.header(group) + 2 + self.layout.table_blocks()
    }

    /// The next block for contents: they are taken in order.
    fn take(&mut self) -> u32 {
        let mut next = self.cursor + 1;
        let (group, within) = self.layout.group_of(next.max(self.layout.first));
        if within < self.own(group) {
            next = self.layout.group_start(group) + self.own(group);
        }
        self.cursor = next;
        next
    }

    fn make(&mut self, plan: &Plan) -> Result<(), FormatError> {
        let layout = self.layout;
        let mut table = Vec::new();
        let kind = FileType::Directory;
        let mut root = self.inode(kind, 0o755);
        let mut lost = self.inode(kind, 0o700);
        self.make_root(&mut root)?;
        self.make_lost(&mut lost)?;
        // Once there were bad blocks in the first inode; only times are left.
        table.push((
            1,
            Inode {
                mode: 0,
                links: 0,
                extra: 0,
                btime: None,
                ..root
            },
            true,
        ));
        table.push((ROOT, root, false));
        let resize = self.make_resize()?;
        table.push((RESIZE_INODE, resize, false));
        let journal = if plan.journal_blocks > 0 {
            Some(self.make_journal(plan.journal_blocks)?)
        } else {
            None
        };
        table.extend(journal.map(|journal| (JOURNAL_INODE, journal, false)));
        table.push((11, lost, false));
        for group in 0..layout.groups {
            self.make_group(group)?;
        }
        self.put_inodes(&table)?;
        let superblock = self.superblock(plan.journal_blocks, journal.as_ref());
        let descriptors = self.descriptors();
        for group in (0..layout.groups).filter(|group| layout.has_super(*group)) {
            self.put_header(group, &superblock, &descriptors)?;
        }
        Ok(())
    }

    fn inode(&self, kind: FileType, mode: u16) -> Inode {
        let now = Time::new(self.choices.now.secs);
        Inode {
            btime: (self.layout.inode_size > INODE_OLD).then_some(now),
            ..Inode::new(kind, mode, (0, 0), now, &self.layout)
        }
    }

    fn units(&self, blocks: u32) -> u32 {
        blocks * (self.layout.block / 512)
    }

    fn names(&self, entries: &[(u32, usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; self.layout.size()];
        let mut at = 0;
        for (inode, length, name) in entries {
            let length = if *length == 0 {
                bytes.len() - at
            } else {
                *length
            };
            let kind = if *inode == 0 { 0 } else { 2 };
            crate::dir::put_record(&mut bytes, at, length, *inode, name, kind);
            at += length;
        }
        bytes
    }

    fn make_root(&mut self, root: &mut Inode) -> Result<(), FormatError> {
        let block = self.take();
        (root.links, root.size, root.units, root.block[0]) =
            (3, self.layout.block.into(), self.units(1), block);
        let bytes = self.names(&[(ROOT, 12, b"."), (ROOT, 12, b".."), (11, 0, b"lost+found")]);
        self.write(block, &bytes)
    }

    /// A directory of 16 KiB, as far as its inode reaches, so that a check need not allocate.
    fn make_lost(&mut self, lost: &mut Inode) -> Result<(), FormatError> {
        let count = DIRECT.min(16 * 1024 / self.layout.block).max(2);
        (lost.links, lost.size, lost.units) =
            (2, (count * self.layout.block).into(), self.units(count));
        for index in 0..count {
            let block = self.take();
            lost.block[index as usize] = block;
            let bytes = if index == 0 {
                self.names(&[(11, 12, b"."), (ROOT, 0, b"..")])
            } else {
                self.names(&[(0, 0, b"")])
            };
            self.write(block, &bytes)?;
        }
        Ok(())
    }

    /// The inode that holds the blocks kept for descriptors: each of the first group's leads to the
    /// copies' of the others.
    fn make_resize(&mut self) -> Result<Inode, FormatError> {
        let layout = self.layout;
        let mut inode = self.inode(FileType::File, 0o600);
        let pointers = u64::from(layout.pointers());
        inode.size = (pointers * pointers + pointers + u64::from(DIRECT)) * u64::from(layout.block);
        let block = self.take();
        let copies = (1..layout.groups)
            .filter(|group| layout.has_super(*group))
            .collect::<Vec<_>>();
        let mut double = vec![0; layout.size()];
        for index in 0..layout.reserved_gdt {
            let place = layout.first + 1 + layout.desc_blocks() + index;
            put32(
                &mut double,
                ((layout.desc_blocks() + index) % layout.pointers()) as usize * 4,
                place,
            );
            let mut bytes = vec![0; layout.size()];
            for (at, group) in (0..layout.size()).step_by(4).zip(&copies) {
                put32(&mut bytes, at, place + group * layout.per_group);
            }
            self.write(place, &bytes)?;
        }
        self.write(block, &double)?;
        inode.block[13] = block;
        inode.units = self.units(1 + layout.reserved_gdt * (1 + copies.len() as u32));
        Ok(inode)
    }

    /// The journal: empty, its blocks in a row as far as groups let them.
    fn make_journal(&mut self, count: u32) -> Result<Inode, FormatError> {
        let pointers = self.layout.pointers();
        let mut inode = self.inode(FileType::File, 0o600);
        inode.size = u64::from(count) * u64::from(self.layout.block);
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
                let first = self.journal_superblock(count);
                self.write(self.cursor, &first)?;
            }
        }
        for (place, bytes) in open.into_iter().flatten() {
            self.write(place, &bytes)?;
        }
        inode.units = self.units(taken);
        Ok(inode)
    }

    /// A journal's first block: version 2, nothing in it (Linux `include/linux/jbd.h`).
    fn journal_superblock(&self, count: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.layout.size()];
        let words = [
            (0, 0xC03B_3998),
            (4, 4),
            (12, self.layout.block),
            (16, count),
            (20, 1),
            (24, 1),
            (64, 1),
        ];
        words.iter().for_each(|(at, word): &(usize, u32)| {
            bytes[*at..*at + 4].copy_from_slice(&word.to_be_bytes())
        });
        bytes[48..64].copy_from_slice(&self.choices.uuid);
        bytes
    }

    /// Blocks of a group that hold contents by now.
    fn contents(&self, group: u32) -> u32 {
        let start = self.layout.group_start(group);
        let own = self.own(group);
        (self.cursor + 1)
            .saturating_sub(start + own)
            .min(self.layout.group_blocks(group) - own)
    }

    fn inodes_used(group: u32) -> u32 {
        if group == 0 { 11 } else { 0 }
    }

    /// Bitmaps and an empty table.
    fn make_group(&mut self, group: u32) -> Result<(), FormatError> {
        let layout = self.layout;
        let place = layout.group_start(group) + self.header(group);
        let bitmap = |used: u32, end: u32| {
            let mut bytes = vec![0u8; layout.size()];
            for at in (0..used).chain(end..layout.block * 8) {
                bytes[at as usize / 8] |= 1 << (at % 8);
            }
            bytes
        };
        let blocks = bitmap(
            self.own(group) + self.contents(group),
            layout.group_blocks(group),
        );
        let inodes = bitmap(Self::inodes_used(group), layout.inodes_per_group);
        self.write(place, &blocks)?;
        self.write(place + 1, &inodes)?;
        self.zero(place + 2, layout.table_blocks())
    }

    fn put_inodes(&mut self, inodes: &[(u32, Inode, bool)]) -> Result<(), FormatError> {
        let layout = self.layout;
        let size = self.layout.inode_size as usize;
        let blocks = layout
            .table_blocks()
            .min((11 * layout.inode_size).div_ceil(layout.block));
        let mut bytes = vec![0; blocks as usize * layout.size()];
        for (number, inode, only_times) in inodes {
            let slot = &mut bytes[(*number as usize - 1) * size..*number as usize * size];
            let inode = if *only_times {
                Inode {
                    size: 0,
                    units: 0,
                    block: [0; 15],
                    ..*inode
                }
            } else {
                *inode
            };
            inode.put(slot);
        }
        let place = layout.group_start(0) + self.header(0) + 2;
        self.write(place, &bytes)
    }

    fn free_blocks(&self) -> u32 {
        (0..self.layout.groups)
            .map(|group| self.layout.group_blocks(group) - self.own(group) - self.contents(group))
            .sum()
    }

    fn superblock(&self, journal_blocks: u32, journal: Option<&Inode>) -> Vec<u8> {
        let layout = &self.layout;
        let choices = self.choices;
        let mut bytes = vec![0; SUPER_BYTES];
        let now = choices.now.secs as u32;
        let overhead = layout.first
            + (0..layout.groups).map(|group| self.own(group)).sum::<u32>()
            + journal_blocks;
        let log = layout.block.ilog2() - 10;
        let words = [
            (sb::INODES, layout.inodes),
            (sb::BLOCKS, layout.blocks),
            (sb::RESERVED, layout.reserved),
            (sb::FREE_BLOCKS, self.free_blocks()),
            (sb::FREE_INODES, layout.inodes - 11),
            (sb::FIRST, layout.first),
            (sb::LOG_BLOCK, log),
            (sb::LOG_FRAGMENT, log),
            (sb::PER_GROUP, layout.per_group),
            (sb::FRAGMENTS_PER_GROUP, layout.per_group),
            (sb::INODES_PER_GROUP, layout.inodes_per_group),
            (sb::WRITE_TIME, now),
            (sb::CHECK_TIME, now),
            (sb::REVISION, 1),
            (sb::FIRST_INODE, layout.first_inode),
            (sb::COMPAT, layout.compat),
            (sb::INCOMPAT, layout.incompat),
            (sb::RO_COMPAT, layout.ro_compat),
            // Access control lists and attributes of users, unless a mount says otherwise.
            (sb::MOUNT_OPTIONS, 0xC),
            (sb::MADE, now),
            (sb::FLAGS, FLAG_SIGNED),
            (sb::OVERHEAD, overhead),
        ];
        words
            .iter()
            .for_each(|(at, word)| put32(&mut bytes, *at, *word));
        put16(&mut bytes, sb::MOUNTS_MAX, u16::MAX);
        put16(&mut bytes, sb::MAGIC, MAGIC);
        put16(&mut bytes, sb::STATE, STATE_CLEAN);
        put16(&mut bytes, sb::ERRORS, 1);
        put16(&mut bytes, sb::INODE_SIZE, layout.inode_size as u16);
        put16(&mut bytes, sb::RESERVED_GDT, layout.reserved_gdt as u16);
        put16(&mut bytes, sb::MIN_EXTRA, layout.extra_isize);
        put16(&mut bytes, sb::WANT_EXTRA, layout.extra_isize);
        bytes[sb::UUID..sb::UUID + 16].copy_from_slice(&choices.uuid);
        bytes[sb::LABEL..sb::LABEL + choices.label.len()].copy_from_slice(&choices.label);
        bytes[sb::HASH_SEED..sb::HASH_SEED + 16].copy_from_slice(&choices.hash_seed);
        bytes[sb::HASH_VERSION] = layout.hash_version;
        if let Some(journal) = journal {
            put32(&mut bytes, sb::JOURNAL_INODE, JOURNAL_INODE);
            bytes[sb::JOURNAL_BACKUP] = 1;
            let copy = journal
                .block
                .iter()
                .copied()
                .chain([(journal.size >> 32) as u32, journal.size as u32]);
            (0..)
                .step_by(4)
                .zip(copy)
                .for_each(|(at, word)| put32(&mut bytes, sb::JOURNAL_BLOCKS + at, word));
        }
        bytes
    }

    fn descriptors(&self) -> Vec<u8> {
        let layout = &self.layout;
        let mut bytes = vec![0; layout.desc_blocks() as usize * layout.size()];
        for (group, slot) in (0..layout.groups).zip(bytes.chunks_exact_mut(DESC as usize)) {
            self.descriptor(group, slot);
        }
        bytes
    }

    fn descriptor(&self, group: u32, slot: &mut [u8]) {
        let layout = &self.layout;
        let place = layout.group_start(group) + self.header(group);
        let free = layout.group_blocks(group) - self.own(group) - self.contents(group);
        put32(slot, desc::BLOCK_BITMAP, place);
        put32(slot, desc::INODE_BITMAP, place + 1);
        put32(slot, desc::TABLE, place + 2);
        put16(slot, desc::FREE_BLOCKS, free as u16);
        put16(
            slot,
            desc::FREE_INODES,
            (layout.inodes_per_group - Self::inodes_used(group)) as u16,
        );
        put16(slot, desc::DIRECTORIES, if group == 0 { 2 } else { 0 });
        put16(slot, desc::FLAGS, desc::ZEROED);
    }

    /// A superblock, or a copy of it, and the descriptors behind it.
    fn put_header(
        &mut self,
        group: u32,
        superblock: &[u8],
        descriptors: &[u8],
    ) -> Result<(), FormatError> {
        let mut block = vec![0; self.layout.size()];
        let (first, at) = if group == 0 {
            self.layout.super_place()
        } else {
            (self.layout.group_start(group), 0)
        };
        block[at..at + SUPER_BYTES].copy_from_slice(superblock);
        put16(&mut block[at..], sb::GROUP, group as u16);
        if group > 0 {
            // Who needs the copy had better check.
            put16(&mut block, sb::STATE, 0);
        }
        if group == 0 && first > 0 {
            // Whatever began here before: no boot sector, no other file system.
            self.zero(0, 1)?;
        }
        self.write(first, &block)?;
        self.write(self.layout.group_start(group) + 1, descriptors)
    }
}
