//! Making a volume, with the choices of mke2fs.
//!
//! *Promises* byte by byte what `mke2fs -t ext2`, `-t ext3` and `-t ext4` of e2fsprogs 1.47 make
//! with its own configuration, given the same size, identity and time; but for the count of written
//! bytes in the superblock of ext4. It writes everything that a mount or a check looks at, whatever
//! was there before; blocks for contents are left as they are. *Knows nothing of* mounted volumes.

use crate::{
    ExtError,
    extent_nodes::{self, Extent},
    format::{
        DIRECT, FLAG_SIGNED, INODE_OLD, JOURNAL_INODE, Layout, MAGIC, RESIZE_INODE, ROOT,
        STATE_CLEAN, SUPER_BYTES, desc, put16, put32, sb,
    },
    groups::{Group, Map},
    inode::Inode,
    plan::Plan,
    seal,
    sum::{self, Sum},
    taken::{self, Taken},
};
use alloc::{vec, vec::Vec};
use core::ops::Range;
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
        /// The features of ext4 that mke2fs gives it: extents, 64-bit descriptors,
        /// flexible groups, checksums of all metadata.
        pub ext4: bool = false,
        /// The feature `fast_commit` of ext4: the journal gets 1/64 more for fast commits.
        pub fast_commit: bool = false,
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
    let mut taken = Taken::default();
    let groups = taken::place(&plan.layout, plan.flex, &mut taken);
    let groups = groups.ok_or(FormatError::Size {
        bytes: device.geometry().bytes(),
        why: "no space for bitmaps and inodes",
    })?;
    let mut maker = Maker {
        device: &mut device,
        layout: plan.layout,
        choices,
        cursor: 0,
        taken,
        groups,
        flex: plan.flex,
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

pub(crate) struct Maker<'a, D> {
    pub(crate) device: &'a mut D,
    pub(crate) layout: Layout,
    pub(crate) choices: &'a Format,
    /// The last block that was taken for contents; 0 while there is none.
    pub(crate) cursor: u32,
    pub(crate) taken: Taken,
    /// Where bitmaps and tables lie.
    pub(crate) groups: Vec<Group>,
    pub(crate) flex: u32,
    ratio: u64,
}

impl<D: BlockDevice> Maker<'_, D> {
    pub(crate) fn write(&mut self, block: u32, data: &[u8]) -> Result<(), FormatError> {
        Ok(self
            .device
            .write(Lba(u64::from(block) * self.ratio), data)?)
    }

    pub(crate) fn zero(&mut self, block: u32, count: u32) -> Result<(), FormatError> {
        let each = (REQUEST_MAX / self.layout.size()) as u32;
        let zeros = vec![0; (count.min(each) * self.layout.block) as usize];
        for at in (0..count).step_by(each as usize) {
            let length = (count - at).min(each) as usize * self.layout.size();
            self.write(block + at, &zeros[..length])?;
        }
        Ok(())
    }

    /// Blocks of a group's own metadata.
    fn own(&self, group: u32) -> u32 {
        self.layout.header(group) + 2 + self.layout.table_blocks()
    }

    /// The next block for contents: they are taken in order.
    pub(crate) fn take(&mut self) -> u32 {
        let next = self.taken.behind((self.cursor + 1).max(self.layout.first));
        self.taken.mark(next, 1);
        self.cursor = next;
        next
    }

    /// Blocks of a group that nothing has taken.
    pub(crate) fn free_in(&self, group: u32) -> u32 {
        let start = self.layout.group_start(group);
        let count = self.layout.group_blocks(group);
        count - self.taken.count(start, start + count)
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
            Some(self.make_journal(plan.journal_blocks, plan.fast_blocks)?)
        } else {
            None
        };
        table.extend(journal.map(|journal| (JOURNAL_INODE, journal, false)));
        table.push((11, lost, false));
        self.mark_unwritten();
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

    pub(crate) fn inode(&self, kind: FileType, mode: u16) -> Inode {
        let now = Time::new(self.choices.now.secs);
        Inode {
            btime: (self.layout.inode_size > INODE_OLD).then_some(now),
            ..Inode::new(kind, mode, (0, 0), now, &self.layout)
        }
    }

    pub(crate) fn units(&self, blocks: u32) -> u64 {
        u64::from(blocks) * u64::from(self.layout.block / 512)
    }

    /// A block of names of a directory.
    fn names(&self, dir: u32, entries: &[(u32, usize, &[u8])]) -> Vec<u8> {
        let layout = &self.layout;
        let mut bytes = vec![0; layout.size()];
        let tail = if layout.has_sums() { sum::TAIL } else { 0 };
        let end = bytes.len() - tail;
        let mut at = 0;
        for (inode, length, name) in entries {
            let length = if *length == 0 { end - at } else { *length };
            let kind = if *inode == 0 { 0 } else { 2 };
            crate::dir::put_record(&mut bytes, at, length, *inode, name, kind);
            at += length;
        }
        crate::dir::put_tail(&mut bytes, end);
        let seed = layout.inode_seed(dir, 0);
        self.seal_block(0, &mut bytes, Sum::Directory(seed));
        bytes
    }

    /// Gives a block its checksum, if the volume has any.
    fn seal_block(&self, block: u32, bytes: &mut [u8], sum: Sum) {
        let sealed = sum.of(&self.layout, block, bytes);
        if let Some((at, value)) = sealed.filter(|_| self.layout.has_sums()) {
            put32(bytes, at, value);
        }
    }

    /// Gives an inode its blocks, which follow each other as far as runs say: first block and
    /// count.
    pub(crate) fn map(
        &mut self,
        inode: &mut Inode,
        runs: &[(u32, u32)],
    ) -> Result<u32, FormatError> {
        let mut root = inode.root();
        let extents: Vec<Extent> = extent_nodes::of_runs(runs);
        if extent_nodes::put_leaf(&mut root, &extents) {
            inode.set_root(&root);
            return Ok(0);
        }
        let place = self.take();
        let mut leaf = vec![0; self.layout.size()];
        if !extent_nodes::put_leaf(&mut leaf, &extents) {
            return Err(FormatError::Size {
                bytes: self.device.geometry().bytes(),
                why: "the journal lies in too many pieces",
            });
        }
        // Only the journal is that long.
        let seed = self.layout.inode_seed(JOURNAL_INODE, 0);
        self.seal_block(place, &mut leaf, Sum::Extents(seed));
        self.write(place, &leaf)?;
        extent_nodes::put_index(&mut root, place);
        inode.set_root(&root);
        Ok(1)
    }

    fn make_root(&mut self, root: &mut Inode) -> Result<(), FormatError> {
        let block = self.take();
        (root.links, root.size, root.units) = (3, self.layout.block.into(), self.units(1));
        match root.has_extents() {
            false => root.block[0] = block,
            true => _ = self.map(root, &[(block, 1)])?,
        }
        let entries: [(u32, usize, &[u8]); 3] =
            [(ROOT, 12, b"."), (ROOT, 12, b".."), (11, 0, b"lost+found")];
        let bytes = self.names(ROOT, &entries);
        self.write(block, &bytes)
    }

    /// A directory of 16 KiB, as far as its inode reaches, so that a check need not allocate.
    fn make_lost(&mut self, lost: &mut Inode) -> Result<(), FormatError> {
        let count = DIRECT.min(16 * 1024 / self.layout.block).max(2);
        (lost.links, lost.size, lost.units) =
            (2, (count * self.layout.block).into(), self.units(count));
        let mut runs = Vec::new();
        for index in 0..count {
            let block = self.take();
            runs.push((block, 1));
            if !lost.has_extents() {
                lost.block[index as usize] = block;
            }
            let bytes = if index == 0 {
                self.names(11, &[(11, 12, b"."), (ROOT, 0, b"..")])
            } else {
                self.names(11, &[(0, 0, b"")])
            };
            self.write(block, &bytes)?;
        }
        if lost.has_extents() {
            self.map(lost, &runs)?;
        }
        Ok(())
    }

    /// The inode that holds the blocks kept for descriptors: each of the first group's leads to the
    /// copies' of the others.
    fn make_resize(&mut self) -> Result<Inode, FormatError> {
        let layout = self.layout;
        let mut inode = Inode {
            flags: 0,
            block: [0; 15],
            ..self.inode(FileType::File, 0o600)
        };
        let pointers = u64::from(layout.pointers());
        inode.size = (pointers * pointers + pointers + u64::from(DIRECT)) * u64::from(layout.block);
        // mke2fs looks behind what would be the group's own without flexible groups.
        self.cursor = self.cursor.max(layout.first + self.own(0) - 1);
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

    fn inodes_used(group: u32) -> u32 {
        if group == 0 { 11 } else { 0 }
    }

    /// Fills in counts, and marks what mke2fs leaves unwritten on volumes with checksums.
    fn mark_unwritten(&mut self) {
        let layout = self.layout;
        for group in 0..layout.groups {
            let used = Self::inodes_used(group);
            let own = layout.header(group);
            let free = self.free_in(group);
            let is_empty = layout.group_blocks(group) - free == own;
            let is_unwritten = is_empty && group > 0 && group + 1 < layout.groups;
            let counts = &mut self.groups[group as usize];
            counts.free_blocks = free;
            counts.free_inodes = layout.inodes_per_group - used;
            counts.directories = if group == 0 { 2 } else { 0 };
            counts.flags = desc::ZEROED;
            if layout.has_sums() {
                counts.unused = layout.inodes_per_group - used;
                counts.flags |= if used == 0 { desc::INODE_UNINIT } else { 0 };
                counts.flags |= if is_unwritten { desc::BLOCK_UNINIT } else { 0 };
            }
        }
    }

    /// Bitmaps and an empty table.
    fn make_group(&mut self, group: u32) -> Result<(), FormatError> {
        let own = self.groups[group as usize];
        for (map, bytes) in [
            (Map::Blocks, self.block_bitmap(group)),
            (Map::Inodes, self.inode_bitmap(group)),
        ] {
            match own.is_unwritten(map) {
                true => self.zero(own.bitmap(map), 1)?,
                false => self.write(own.bitmap(map), &bytes)?,
            }
        }
        self.zero(own.table, self.layout.table_blocks())
    }

    fn block_bitmap(&self, group: u32) -> Vec<u8> {
        let layout = &self.layout;
        let start = layout.group_start(group);
        let count = layout.group_blocks(group);
        let runs = self.taken.runs(start, start + count);
        let runs = runs.map(|(first, end)| first - start..end - start);
        let padding = count..layout.block * 8;
        self.bits(runs.chain(core::iter::once(padding)))
    }

    fn inode_bitmap(&self, group: u32) -> Vec<u8> {
        let used = Self::inodes_used(group);
        let padding = self.layout.inodes_per_group..self.layout.block * 8;
        self.bits([0..used, padding].into_iter())
    }

    /// A block with these bits set.
    fn bits(&self, runs: impl Iterator<Item = Range<u32>>) -> Vec<u8> {
        let mut bytes = vec![0u8; self.layout.size()];
        runs.flatten()
            .for_each(|at| bytes[at as usize / 8] |= 1 << (at % 8));
        bytes
    }

    /// Gives the first inodes their checksums, used or not.
    fn seal_inodes(&self, bytes: &mut [u8]) {
        let size = self.layout.inode_size as usize;
        let slots = (1..=11).zip(bytes.chunks_exact_mut(size));
        for (number, slot) in slots.filter(|_| self.layout.has_sums()) {
            sum::put_inode(self.layout.inode_seed(number, 0), slot);
        }
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
                    flags: 0,
                    block: [0; 15],
                    ..*inode
                }
            } else {
                *inode
            };
            inode.put(slot);
        }
        self.seal_inodes(&mut bytes);
        self.write(self.groups[0].table, &bytes)
    }

    fn free_blocks(&self) -> u32 {
        (0..self.layout.groups)
            .map(|group| self.free_in(group))
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
        if layout.has_sums() {
            put16(&mut bytes, sb::DESC_SIZE, layout.desc as u16);
            bytes[sb::LOG_GROUPS_PER_FLEX] = self.flex.ilog2() as u8;
            bytes[sb::CHECKSUM_TYPE] = 1;
        }
        bytes
    }

    fn descriptors(&self) -> Vec<u8> {
        let layout = self.layout;
        let mut bytes = vec![0; layout.desc_blocks() as usize * layout.size()];
        for (group, slot) in (0..layout.groups).zip(bytes.chunks_exact_mut(layout.desc as usize)) {
            self.descriptor(group, slot);
        }
        bytes
    }

    fn descriptor(&self, group: u32, slot: &mut [u8]) {
        let layout = &self.layout;
        let own = self.groups[group as usize];
        put32(slot, desc::BLOCK_BITMAP, own.block_bitmap);
        put32(slot, desc::INODE_BITMAP, own.inode_bitmap);
        put32(slot, desc::TABLE, own.table);
        own.put(slot, layout);
        put16(slot, desc::FLAGS, own.flags);
        if layout.has_sums() {
            self.seal_descriptor(group, slot);
        }
    }

    fn seal_descriptor(&self, group: u32, slot: &mut [u8]) {
        let layout = &self.layout;
        let own = self.groups[group as usize];
        let blocks = || layout.bitmap_sum(&self.block_bitmap(group), layout.per_group);
        let inodes = || layout.bitmap_sum(&self.inode_bitmap(group), layout.inodes_per_group);
        let sums = [
            (!own.is_unwritten(Map::Blocks)).then(blocks),
            (!own.is_unwritten(Map::Inodes)).then(inodes),
        ];
        seal::put_bitmap_sums(slot, sums);
        let sum = layout.desc_sum(group, slot);
        put16(slot, desc::CHECKSUM, sum);
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
        if self.layout.has_sums() {
            let own = &mut block[at..at + SUPER_BYTES];
            let sum = sum::of_super(own);
            put32(own, sb::CHECKSUM, sum);
        }
        if group == 0 && first > 0 {
            // Whatever began here before: no boot sector, no other file system.
            self.zero(0, 1)?;
        }
        self.write(first, &block)?;
        self.write(self.layout.group_start(group) + 1, descriptors)
    }
}
