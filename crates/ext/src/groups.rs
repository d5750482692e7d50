//! Groups: which blocks and inodes are free, and which of them to take.
//!
//! *Promises.* What is given back is not given out before the next commit: on the medium something
//! may still lead to it. Counts in memory, descriptors and bitmaps agree after every call. Places
//! are chosen as Linux does (`fs/ext3/balloc.c`, `ialloc.c`): blocks after the one before, files
//! beside their directory, directories spread. *Knows nothing of* who takes what.

use crate::{
    Ext, ExtError,
    cache::Class,
    format::{Layout, desc, le16, le32, put16},
    store::Store,
};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

/// The fields of a group's descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub block_bitmap: u32,
    pub inode_bitmap: u32,
    pub table: u32,
    pub free_blocks: u16,
    pub free_inodes: u16,
    pub directories: u16,
}

impl Group {
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            block_bitmap: le32(bytes, desc::BLOCK_BITMAP),
            inode_bitmap: le32(bytes, desc::INODE_BITMAP),
            table: le32(bytes, desc::TABLE),
            free_blocks: le16(bytes, desc::FREE_BLOCKS),
            free_inodes: le16(bytes, desc::FREE_INODES),
            directories: le16(bytes, desc::DIRECTORIES),
        }
    }
}

/// Reads all descriptors; refuses those that lead out of their group, as Linux does.
pub(crate) fn read<D: BlockDevice>(store: &mut Store<D>) -> Result<Vec<Group>, ExtError> {
    let layout = store.layout;
    let mut groups = Vec::new();
    for group in 0..layout.groups {
        let (block, at) = layout.desc_place(group);
        let found = Group::parse(&store.block(block)?[at..]);
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

fn is_misplaced(layout: &Layout, group: u32, place: u32, length: u32) -> bool {
    let start = layout.group_start(group);
    let end = start + layout.group_blocks(group);
    let inside = place >= start
        && place
            .checked_add(length)
            .is_some_and(|behind| behind <= end);
    // Descriptors of their own must not be taken for a bitmap.
    !inside || place <= layout.first + layout.desc_blocks()
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
            .saturating_sub(reserved)
    }

    /// Brings a group's counts to its descriptor.
    fn put_group(&mut self, group: u32) -> Result<(), ExtError> {
        let (block, at) = self.store.layout.desc_place(group);
        let counts = self.groups[group as usize];
        let bytes = self.store.edit(block, Class::Counts)?;
        put16(bytes, at + desc::FREE_BLOCKS, counts.free_blocks);
        put16(bytes, at + desc::FREE_INODES, counts.free_inodes);
        put16(bytes, at + desc::DIRECTORIES, counts.directories);
        Ok(())
    }

    /// The first bit from `from` on, below `end`, that is clear in the bitmap now and was at the
    /// last commit.
    fn clear_bit(&mut self, bitmap: u32, from: u32, end: u32) -> Result<Option<u32>, ExtError> {
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

    /// The first of eight clear bits of one byte.
    fn clear_byte(&mut self, bitmap: u32, from: u32, end: u32) -> Result<Option<u32>, ExtError> {
        let bytes = self.store.block(bitmap)?;
        let before = self.held.before.get(&bitmap);
        let mut whole = from.div_ceil(8) as usize..end as usize / 8;
        Ok(whole
            .find(|byte| bytes[*byte] | before.map_or(0, |before| before[*byte]) == 0)
            .map(|byte| byte as u32 * 8))
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
        if !set {
            let before = self
                .held
                .before
                .entry(bitmap)
                .or_insert_with(|| (&*bytes).into());
            before[at as usize / 8] |= 1 << (at % 8);
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
        let bitmap = self.groups[group as usize].block_bitmap;
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
        let layout = self.store.layout;
        let block = layout.group_start(group) + within;
        let bitmap = self.groups[group as usize].block_bitmap;
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
        self.flip(bitmap, within, true)?;
        let counts = &mut self.groups[group as usize];
        counts.free_blocks -= 1;
        self.free_blocks = self.free_blocks.saturating_sub(1);
        self.put_group(group)?;
        Ok(block)
    }

    /// Whether a block belongs to the volume's own metadata, and so to no inode.
    pub(crate) fn is_metadata(&self, block: u32) -> bool {
        let layout = &self.store.layout;
        if !layout.is_block(block) {
            return true;
        }
        let (group, within) = layout.group_of(block);
        let own = &self.groups[group as usize];
        let header = if layout.has_super(group) {
            1 + layout.desc_blocks() + layout.reserved_gdt
        } else {
            0
        };
        let table = own.table..own.table + layout.table_blocks();
        within < header
            || block == own.block_bitmap
            || block == own.inode_bitmap
            || table.contains(&block)
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
        self.flip(self.groups[group as usize].block_bitmap, within, false)?;
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
            if let Some(found) =
                self.clear_bit(counts.inode_bitmap, reserved, layout.inodes_per_group)?
            {
                self.flip(counts.inode_bitmap, found, true)?;
                let counts = &mut self.groups[group as usize];
                counts.free_inodes -= 1;
                counts.directories = counts.directories.saturating_add(directory.into());
                self.free_inodes = self.free_inodes.saturating_sub(1);
                self.put_group(group)?;
                return Ok(group * layout.inodes_per_group + found + 1);
            }
        }
        Err(Errno::NoSpace.into())
    }

    /// Orlov's choice: directories of the root go where few are, others near their parent while it
    /// is not crowded.
    fn group_for_directory(&self, home: u32, top: bool, spread: u32) -> u32 {
        let count = self.store.layout.groups;
        let inodes = self.free_inodes / count;
        let blocks = self.free_blocks / count;
        let roomy = |group: &Group| {
            u32::from(group.free_inodes) >= inodes.max(1) && u32::from(group.free_blocks) >= blocks
        };
        let from = if top { spread % count } else { home };
        let groups = (0..count)
            .map(|step| (from + step) % count)
            .filter(|group| roomy(&self.groups[*group as usize]));
        let directories = |group: &u32| self.groups[*group as usize].directories;
        if top {
            return groups.min_by_key(directories).unwrap_or(home);
        }
        let all: u32 = self
            .groups
            .iter()
            .map(|group| u32::from(group.directories))
            .sum();
        let most = all / count + self.store.layout.inodes_per_group / 16;
        groups
            .into_iter()
            .find(|group| u32::from(directories(group)) < most)
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
        self.flip(self.groups[group as usize].inode_bitmap, within, false)?;
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
