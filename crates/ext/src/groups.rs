//! Groups: which blocks and inodes are free, and which of them to take.
//!
//! *Promises.* What is given back is not given out before the next commit: on the medium something
//! may still lead to it. Counts in memory, descriptors and bitmaps agree after every call. Places
//! are chosen as Linux does (`fs/ext3/balloc.c`, `ialloc.c`): blocks after the one before, files
//! beside their directory, directories spread. *Knows nothing of* who takes what.

use crate::{
    Ext, ExtError, SeededBug,
    cache::Class,
    format::{DESC, Layout, desc, incompat, le16, le32, put16},
    store::Store,
    sum::Sums,
};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use core::ops::Range;
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

/// The fields of a group's descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub block_bitmap: u32,
    pub inode_bitmap: u32,
    pub table: u32,
    pub free_blocks: u32,
    pub free_inodes: u32,
    pub directories: u32,
    /// Inodes at the end of the table that were never used.
    pub unused: u32,
    /// Marks of ext4; none where descriptors have no checksums.
    pub flags: u16,
}

/// One of a group's bitmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    Blocks,
    Inodes,
}

impl Group {
    pub fn parse(bytes: &[u8], layout: &Layout) -> Self {
        let wide = layout.desc > DESC;
        let block = |at: usize| match wide && le32(bytes, desc::HIGH + at) != 0 {
            // No block of the volume.
            true => u32::MAX,
            false => le32(bytes, at),
        };
        // The upper halves of the counts follow those of the block numbers.
        let count = |at: usize, high: usize| {
            let high = if wide {
                le16(bytes, desc::HIGH + high)
            } else {
                0
            };
            u32::from(le16(bytes, at)) | u32::from(high) << 16
        };
        let is_summed = layout.sums != Sums::None;
        Self {
            block_bitmap: block(desc::BLOCK_BITMAP),
            inode_bitmap: block(desc::INODE_BITMAP),
            table: block(desc::TABLE),
            free_blocks: count(desc::FREE_BLOCKS, 12),
            free_inodes: count(desc::FREE_INODES, 14),
            directories: count(desc::DIRECTORIES, 16),
            unused: if is_summed {
                count(desc::UNUSED, 18)
            } else {
                0
            },
            flags: if is_summed {
                le16(bytes, desc::FLAGS)
            } else {
                0
            },
        }
    }

    /// Brings the counts and marks in a descriptor up to date.
    pub fn put(&self, bytes: &mut [u8], layout: &Layout) {
        let wide = layout.desc > DESC;
        let mut count = |at: usize, high: usize, value: u32| {
            put16(bytes, at, value as u16);
            if wide {
                put16(bytes, desc::HIGH + high, (value >> 16) as u16);
            }
        };
        count(desc::FREE_BLOCKS, 12, self.free_blocks);
        count(desc::FREE_INODES, 14, self.free_inodes);
        count(desc::DIRECTORIES, 16, self.directories);
        if layout.sums != Sums::None {
            count(desc::UNUSED, 18, self.unused);
            put16(bytes, desc::FLAGS, self.flags);
        }
    }

    pub fn bitmap(&self, map: Map) -> u32 {
        match map {
            Map::Blocks => self.block_bitmap,
            Map::Inodes => self.inode_bitmap,
        }
    }

    pub fn is_unwritten(&self, map: Map) -> bool {
        let mark = match map {
            Map::Blocks => desc::BLOCK_UNINIT,
            Map::Inodes => desc::INODE_UNINIT,
        };
        self.flags & mark != 0
    }

    /// Inodes of the group's table that may have been used.
    pub fn written_inodes(&self, layout: &Layout) -> u32 {
        match self.is_unwritten(Map::Inodes) {
            true => 0,
            false => layout.inodes_per_group.saturating_sub(self.unused),
        }
    }

    /// The ranges of blocks that the group's metadata takes.
    pub fn zones(&self, layout: &Layout, group: u32) -> [(u32, u32); 4] {
        let start = layout.group_start(group);
        let range = |first: u32, count: u32| (first, first.saturating_add(count));
        [
            range(start, layout.header(group)),
            range(self.block_bitmap, 1),
            range(self.inode_bitmap, 1),
            range(self.table, layout.table_blocks()),
        ]
    }
}

/// Reads all descriptors; refuses those that lead out of their group, as Linux does, and wrong
/// checksums if the volume is to be written.
pub(crate) fn read<D: BlockDevice>(
    store: &mut Store<D>,
    verify: bool,
) -> Result<Vec<Group>, ExtError> {
    let layout = store.layout;
    let mut groups = Vec::new();
    for group in 0..layout.groups {
        let (block, at) = layout.desc_place(group);
        let bytes = &store.block(block)?[at..at + layout.desc as usize];
        let found = Group::parse(bytes, &layout);
        if verify {
            check_sum(&layout, group, bytes)?;
        }
        let places = [
            ("block bitmap", found.block_bitmap, 1),
            ("inode bitmap", found.inode_bitmap, 1),
            ("inode table", found.table, layout.table_blocks()),
        ];
        for (field, place, length) in places {
            if is_misplaced(&layout, group, place, length) {
                return Err(ExtError::Group {
                    group,
                    field,
                    found: place,
                });
            }
        }
        groups.push(found);
    }
    Ok(groups)
}

/// Compares a descriptor with its checksum.
pub(crate) fn check_sum(layout: &Layout, group: u32, bytes: &[u8]) -> Result<(), ExtError> {
    let found = le16(bytes, desc::CHECKSUM);
    if layout.sums == Sums::None || found == layout.desc_sum(group, bytes) {
        return Ok(());
    }
    let (block, at) = layout.desc_place(group);
    Err(ExtError::Checksum {
        block,
        offset: at as u32,
        what: "a group descriptor",
        found: found.into(),
        expected: layout.desc_sum(group, bytes).into(),
    })
}

fn is_misplaced(layout: &Layout, group: u32, place: u32, length: u32) -> bool {
    let (start, end) = match layout.incompat & incompat::FLEX_BG {
        0 => {
            let start = layout.group_start(group);
            (start, start + layout.group_blocks(group))
        }
        _ => (layout.first, layout.blocks),
    };
    let inside = place >= start
        && place
            .checked_add(length)
            .is_some_and(|behind| behind <= end);
    // Descriptors of their own must not be taken for a bitmap.
    !inside || place < layout.first + layout.header_in_use(0)
}

/// What was given back since the last commit: the bitmaps as they were before, and how much it is.
#[derive(Debug, Default)]
pub(crate) struct Held {
    before: BTreeMap<u32, Box<[u8]>>,
    /// Blocks that are free, but not yet.
    pub blocks: u32,
    /// Inodes that are free, but not yet.
    pub inodes: u32,
    /// Runs of blocks, in the order in which they were given back.
    pub freed: Vec<(u32, u32)>,
}

impl Held {
    /// Whether a commit would make more free.
    pub fn any(&self) -> bool {
        !self.before.is_empty()
    }

    /// Holds the things of these bits; `now` is the bitmap.
    fn keep(&mut self, bitmap: u32, bits: Range<u32>, now: &[u8]) {
        let before = self.before.entry(bitmap).or_insert_with(|| now.into());
        bits.for_each(|at| before[at as usize / 8] |= 1 << (at % 8));
    }

    /// The bitmap in which whatever was taken before is taken still.
    pub fn union(&self, bitmap: u32, now: &[u8]) -> Option<Vec<u8>> {
        self.before
            .get(&bitmap)
            .map(|before| before.iter().zip(now).map(|(a, b)| a | b).collect())
    }
}

fn bit(bytes: &[u8], at: u32) -> bool {
    bytes[at as usize / 8] >> (at % 8) & 1 == 1
}

impl<D: BlockDevice> Ext<D> {
    /// Blocks that may be taken now.
    pub(crate) fn blocks_left(&self) -> u32 {
        let reserved = if self.options.use_reserved {
            0
        } else {
            self.store.layout.reserved
        };
        self.free_blocks
            .saturating_sub(self.held.blocks)
            .saturating_sub(self.delayed.reserved())
            .saturating_sub(reserved)
    }

    /// Brings a group's counts to its descriptor.
    fn put_group(&mut self, group: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let (block, at) = layout.desc_place(group);
        if layout.sums != Sums::None {
            self.unsealed.groups.insert(group);
        }
        let bytes = self.store.edit(block, Class::Counts)?;
        self.groups[group as usize].put(&mut bytes[at..], &layout);
        Ok(())
    }

    /// A group's bitmap: its block, and its bytes. One that was never written is what it would be.
    pub(crate) fn bitmap(&mut self, group: u32, map: Map) -> Result<(u32, &[u8]), ExtError> {
        let block = self.load_bitmap(group, map)?;
        Ok((block, self.store.block(block)?))
    }

    pub(crate) fn load_bitmap(&mut self, group: u32, map: Map) -> Result<u32, ExtError> {
        let own = self.groups[group as usize];
        let block = own.bitmap(map);
        if self.store.cache.has(block) {
            return Ok(block);
        }
        if own.is_unwritten(map) {
            let bytes = self.unwritten_bitmap(group, map);
            self.store.cache.keep(block, bytes.into());
        } else if self.store.verify {
            self.check_bitmap_sum(group, map)?;
        }
        Ok(block)
    }

    /// The bitmap of a group that holds metadata only.
    fn unwritten_bitmap(&self, group: u32, map: Map) -> Vec<u8> {
        let layout = &self.store.layout;
        let mut bytes = alloc::vec![0u8; layout.size()];
        let mut set = |at: u32| bytes[at as usize / 8] |= 1 << (at % 8);
        let bits = match map {
            Map::Inodes => layout.inodes_per_group,
            Map::Blocks => {
                let start = layout.group_start(group);
                let count = layout.group_blocks(group);
                let own = self.zones.within(start, start + count);
                own.for_each(|block| set((block - start) / layout.cluster));
                count.div_ceil(layout.cluster)
            }
        };
        (bits..layout.block * 8).for_each(set);
        bytes
    }

    /// A checksum in a group's descriptor, by the places of its halves.
    fn stored_sum(&mut self, group: u32, low: usize, high: usize) -> Result<u32, ExtError> {
        let layout = self.store.layout;
        let (place, at) = layout.desc_place(group);
        let bytes = &self.store.block(place)?[at..at + layout.desc as usize];
        let upper = if bytes.len() > high {
            le16(bytes, high)
        } else {
            0
        };
        Ok(u32::from(le16(bytes, low)) | u32::from(upper) << 16)
    }

    /// Compares a bitmap with the checksum in its group's descriptor.
    pub(crate) fn check_bitmap_sum(&mut self, group: u32, map: Map) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let own = self.groups[group as usize];
        if !layout.has_sums() || own.is_unwritten(map) {
            return Ok(());
        }
        let (what, low, high, bits) = match map {
            Map::Blocks => {
                let bits = layout.per_group / layout.cluster;
                (
                    "a block bitmap",
                    desc::BLOCK_SUM,
                    desc::BLOCK_SUM_HIGH,
                    bits,
                )
            }
            Map::Inodes => {
                let bits = layout.inodes_per_group;
                (
                    "an inode bitmap",
                    desc::INODE_SUM,
                    desc::INODE_SUM_HIGH,
                    bits,
                )
            }
        };
        let found = self.stored_sum(group, low, high)?;
        let block = own.bitmap(map);
        let expected = layout.bitmap_sum(self.store.block(block)?, bits);
        match found == expected {
            true => Ok(()),
            false => Err(ExtError::Checksum {
                block,
                offset: 0,
                what,
                found,
                expected,
            }),
        }
    }

    /// The first bit from `from` on, below `end`, that is clear in the bitmap now and was at the
    /// last commit.
    pub(crate) fn clear_bit(
        &mut self,
        bitmap: u32,
        from: u32,
        end: u32,
    ) -> Result<Option<u32>, ExtError> {
        let bytes = self.store.block(bitmap)?;
        let before = self.held.before.get(&bitmap);
        let taken = |byte: usize| bytes[byte] | before.map_or(0, |before| before[byte]);
        let mut at = first_not_full(bytes, from);
        while at < end {
            let free = !taken(at as usize / 8) >> (at % 8);
            if free != 0 {
                let found = at + free.trailing_zeros();
                return Ok((found < end).then_some(found));
            }
            at = at / 8 * 8 + 8;
        }
        Ok(None)
    }

    /// Clear bits in a row, from `from` on and below `end`.
    pub(crate) fn clear_row(&mut self, bitmap: u32, from: u32, end: u32) -> Result<u32, ExtError> {
        let bytes = self.store.block(bitmap)?;
        let before = self.held.before.get(&bitmap);
        let is_clear = |at: &u32| !bit(bytes, *at) && before.is_none_or(|held| !bit(held, *at));
        Ok((from..end).take_while(is_clear).count() as u32)
    }

    /// The first of eight clear bits of one byte.
    fn clear_byte(&mut self, bitmap: u32, from: u32, end: u32) -> Result<Option<u32>, ExtError> {
        let bytes = self.store.block(bitmap)?;
        let before = self.held.before.get(&bitmap);
        let first = from.div_ceil(8) as usize;
        let whole = bytes.get(first..end as usize / 8).unwrap_or_default();
        let found = memchr::memchr_iter(0, whole)
            .map(|at| first + at)
            .find(|byte| before.is_none_or(|before| before[*byte] == 0));
        Ok(found.map(|byte| byte as u32 * 8))
    }

    /// Sets or clears a bit that must be the other way; what is cleared is held.
    fn flip(&mut self, bitmap: u32, at: u32, set: bool) -> Result<(), ExtError> {
        let bytes = self.store.edit(bitmap, Class::Bitmap)?;
        if bit(bytes, at) == set {
            let (field, expected) = if set {
                ("bit of something free", "0")
            } else {
                ("bit of something in use", "1")
            };
            return Err(ExtError::Block {
                block: bitmap,
                offset: at / 8,
                field,
                found: set.into(),
                expected,
            });
        }
        if !set && self.options.seeded_bug != Some(SeededBug::ReuseEarly) {
            self.held.keep(bitmap, at..at + 1, bytes);
        }
        bytes[at as usize / 8] ^= 1 << (at % 8);
        Ok(())
    }

    /// Takes a block, at `goal` or as near behind it as can be; there must be one left, see
    /// [`blocks_left`](Self::blocks_left).
    pub(crate) fn allocate_block(&mut self, goal: u32) -> Result<u32, ExtError> {
        let layout = self.store.layout;
        if self.blocks_left() == 0 {
            return Err(Errno::NoSpace.into());
        }
        let (group, within) = layout.group_of(if layout.is_block(goal) {
            goal
        } else {
            layout.first
        });
        for step in 0..=layout.groups {
            let at = (group + step) % layout.groups;
            // The first group comes twice: what lies before the goal is the last choice.
            let from = if step == 0 { within } else { 0 };
            if self.groups[at as usize].free_blocks > 0
                && let Some(found) = self.free_block(at, from)?
            {
                return self.take_block(at, found);
            }
        }
        Err(Errno::NoSpace.into())
    }

    /// A free block of a group: the goal, one of the 64 to which it belongs, the first of eight in
    /// a row, any.
    fn free_block(&mut self, group: u32, from: u32) -> Result<Option<u32>, ExtError> {
        let bitmap = self.load_bitmap(group, Map::Blocks)?;
        let end = self.store.layout.group_blocks(group);
        let near = end.min((from + 63) & !63);
        if let Some(found) = self.clear_bit(bitmap, from, near)? {
            return Ok(Some(found));
        }
        match self.clear_byte(bitmap, from, end)? {
            // Blocks may be free before the eight.
            Some(row) if row >= 8 && row - 8 >= from => {
                Ok(self.clear_bit(bitmap, row - 8, row + 1)?)
            }
            Some(row) => Ok(Some(row)),
            None => self.clear_bit(bitmap, from, end),
        }
    }

    fn take_block(&mut self, group: u32, within: u32) -> Result<u32, ExtError> {
        let block = self.store.layout.group_start(group) + within;
        let bitmap = self.load_bitmap(group, Map::Blocks)?;
        if self.is_metadata(block) {
            let expected = "1: the block holds bitmaps, inodes or descriptors";
            return Err(ExtError::Block {
                block: bitmap,
                offset: within / 8,
                field: "bit of something free",
                found: 0,
                expected,
            });
        }
        self.take_blocks(group, within, 1)?;
        Ok(block)
    }

    /// Takes neighbours of a group that are free and hold no metadata.
    pub(crate) fn take_blocks(
        &mut self,
        group: u32,
        first: u32,
        count: u32,
    ) -> Result<(), ExtError> {
        if count == 0 {
            return Ok(());
        }
        let bitmap = self.load_bitmap(group, Map::Blocks)?;
        for within in first..first + count {
            self.flip(bitmap, within, true)?;
        }
        self.store.work.taken += u64::from(count);
        let counts = &mut self.groups[group as usize];
        counts.flags &= !desc::BLOCK_UNINIT;
        counts.free_blocks = counts.free_blocks.saturating_sub(count);
        self.free_blocks = self.free_blocks.saturating_sub(count);
        self.put_group(group)
    }

    /// Takes free blocks of the volume, also those that wait for a commit.
    pub(crate) fn take_run(&mut self, first: u32, count: u32) -> Result<(), ExtError> {
        for block in first..first + count {
            let (group, within) = self.store.layout.group_of(block);
            self.take_block(group, within)?;
        }
        Ok(())
    }

    /// Keeps blocks free until the next commit, unless `take_run` names them. Ignores numbers
    /// outside the volume.
    pub(crate) fn keep_free(&mut self, first: u32, count: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let end = first.saturating_add(count).min(layout.blocks);
        let mut at = first.max(layout.first);
        while at < end {
            let (group, from) = layout.group_of(at);
            let behind = end.min(layout.group_start(group) + layout.group_blocks(group));
            let bitmap = self.load_bitmap(group, Map::Blocks)?;
            let bytes = self.store.block(bitmap)?;
            let bits = from..from + (behind - at);
            self.held.keep(bitmap, bits, bytes);
            at = behind;
        }
        Ok(())
    }

    /// Whether a block belongs to the volume's own metadata, and so to no inode.
    pub(crate) fn is_metadata(&self, block: u32) -> bool {
        !self.store.layout.is_block(block) || self.zones.contains(block)
    }

    /// Gives a block back.
    pub(crate) fn free_block_of(&mut self, inode: u32, block: u32) -> Result<(), ExtError> {
        if self.is_metadata(block) {
            return Err(ExtError::Inode {
                inode,
                field: "block",
                found: block.into(),
                expected: "a block for contents",
            });
        }
        let (group, within) = self.store.layout.group_of(block);
        let bitmap = self.load_bitmap(group, Map::Blocks)?;
        self.flip(bitmap, within, false)?;
        let counts = &mut self.groups[group as usize];
        counts.free_blocks = counts.free_blocks.saturating_add(1);
        self.free_blocks += 1;
        self.held.blocks += 1;
        match self.held.freed.last_mut() {
            Some((first, count)) if *first + *count == block => *count += 1,
            _ => self.held.freed.push((block, 1)),
        }
        self.put_group(group)?;
        self.store.release(block);
        Ok(())
    }

    /// Takes an inode for something in the directory `parent`; `spread` is a number by which
    /// directories in the root scatter.
    pub(crate) fn allocate_inode(
        &mut self,
        parent: u32,
        directory: bool,
        spread: u32,
    ) -> Result<u32, ExtError> {
        let layout = self.store.layout;
        let home = layout.inode_group(parent).0;
        let first = match directory {
            true => self.group_for_directory(home, parent == crate::format::ROOT, spread),
            false => self.group_for_file(home, parent),
        };
        for step in 0..layout.groups {
            let group = (first + step) % layout.groups;
            let reserved = if group == 0 {
                layout.first_inode - 1
            } else {
                0
            };
            let counts = self.groups[group as usize];
            if counts.free_inodes == 0 || reserved >= layout.inodes_per_group {
                continue;
            }
            self.load_bitmap(group, Map::Inodes)?;
            if let Some(found) =
                self.clear_bit(counts.inode_bitmap, reserved, layout.inodes_per_group)?
            {
                let number = group * layout.inodes_per_group + found + 1;
                self.take_inode(number, directory)?;
                return Ok(number);
            }
        }
        Err(Errno::NoSpace.into())
    }

    /// Takes an inode that is free.
    pub(crate) fn take_inode(&mut self, number: u32, directory: bool) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let (group, within) = layout.inode_group(number);
        let bitmap = self.load_bitmap(group, Map::Inodes)?;
        self.flip(bitmap, within, true)?;
        let counts = &mut self.groups[group as usize];
        counts.free_inodes = counts.free_inodes.saturating_sub(1);
        let behind = layout.inodes_per_group - within - 1;
        counts.unused = match counts.flags & desc::INODE_UNINIT {
            0 => counts.unused.min(behind),
            _ => behind,
        };
        counts.flags &= !desc::INODE_UNINIT;
        counts.directories = counts.directories.saturating_add(directory.into());
        self.free_inodes = self.free_inodes.saturating_sub(1);
        self.put_group(group)
    }

    /// Orlov's choice: directories of the root go where few are, others near their parent while it
    /// is not crowded.
    fn group_for_directory(&self, home: u32, top: bool, spread: u32) -> u32 {
        let count = self.store.layout.groups;
        let inodes = self.free_inodes / count;
        let blocks = self.free_blocks / count;
        let roomy =
            |group: &Group| group.free_inodes >= inodes.max(1) && group.free_blocks >= blocks;
        let from = if top { spread % count } else { home };
        let groups = (0..count)
            .map(|step| (from + step) % count)
            .filter(|group| roomy(&self.groups[*group as usize]));
        let directories = |group: &u32| self.groups[*group as usize].directories;
        if top {
            return groups.min_by_key(directories).unwrap_or(home);
        }
        let all: u32 = self.groups.iter().map(|group| group.directories).sum();
        let most = all / count + self.store.layout.inodes_per_group / 16;
        groups
            .into_iter()
            .find(|group| directories(group) < most)
            .unwrap_or(home)
    }

    /// The directory's group, otherwise one found in growing steps, otherwise any.
    fn group_for_file(&self, home: u32, parent: u32) -> u32 {
        let count = self.store.layout.groups;
        let roomy = |group: u32| {
            self.groups[group as usize].free_inodes > 0
                && self.groups[group as usize].free_blocks > 0
        };
        if roomy(home) {
            return home;
        }
        let start = home.wrapping_add(parent) % count;
        let steps = core::iter::successors(Some(1u32), |step| {
            step.checked_mul(2).filter(|step| *step < count)
        });
        let mut group = start;
        for step in steps {
            group = (group + step) % count;
            if roomy(group) {
                return group;
            }
        }
        home
    }

    /// Gives an inode back.
    pub(crate) fn free_inode(&mut self, inode: u32, directory: bool) -> Result<(), ExtError> {
        let (group, within) = self.store.layout.inode_group(inode);
        let bitmap = self.load_bitmap(group, Map::Inodes)?;
        self.flip(bitmap, within, false)?;
        let counts = &mut self.groups[group as usize];
        counts.free_inodes = counts.free_inodes.saturating_add(1);
        counts.directories = counts.directories.saturating_sub(directory.into());
        self.free_inodes += 1;
        self.held.inodes += 1;
        self.put_group(group)
    }

    /// Where an inode's blocks begin to be looked for.
    pub(crate) fn inode_goal(&self, inode: u32) -> u32 {
        let layout: &Layout = &self.store.layout;
        layout.group_start(layout.inode_group(inode).0)
    }
}

/// Skips words of a bitmap without a clear bit, of which a search from the beginning meets many.
fn first_not_full(bytes: &[u8], from: u32) -> u32 {
    let words = bytes[from as usize / 8..].as_chunks::<8>().0;
    let full = words.iter().take_while(|word| **word == [0xFF; 8]).count() as u32 * 64;
    match full {
        0 => from,
        _ => (from / 8 * 8).saturating_add(full),
    }
}
