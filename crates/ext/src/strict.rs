//! Fields on which no read depends, and which a sound volume has in one way only: what e2fsck looks
//! at beside the metadata.
//!
//! *Promises.* An inode's bytes are read once more, a symbolic link's target and the blocks kept
//! for descriptors once. Nothing is written. *Knows nothing of* blocks that two inodes use: the
//! walk of [`check`](crate::check) finds those.

use crate::{
    Ext, ExtError,
    check::Walk,
    dir::record,
    finding::Finding,
    format::{
        INODE_OLD, JOURNAL_INODE, Layout, RESIZE_INODE, compat, desc, flags, incompat, le16, le32,
        ro_compat, sb,
    },
    groups::{self, Map},
    inode::Inode,
    map::Mapped,
    sum::Sums,
    xattr,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::FileType;

/// Fields of an inode that are zero: place, bytes, name.
pub(crate) const ZERO: [(usize, usize, &str); 4] = [
    (112, 4, "address of a fragment"),
    (116, 2, "high half of the units"),
    (118, 2, "high half of the block of attributes"),
    (108, 4, "high half of the length"),
];
/// The last of [`ZERO`], which files have.
const LENGTH_HIGH: usize = 108;
/// Another of them, which volumes with long files have.
const UNITS_HIGH: usize = 116;
/// Fields of the superblock that name inodes of ext4's features: place, name.
const OTHERS: [(usize, &str); 4] = [
    (576, "inode of user quotas"),
    (580, "inode of group quotas"),
    (620, "inode of project quotas"),
    (640, "inode of the orphan file"),
];
/// Another of them, and the features that have them.
const PROJECT_QUOTA: usize = 620;
const QUOTA: u32 = 0x100;
const PROJECT: u32 = 0x2000;
/// The flag of fs-verity, and its feature.
const VERITY_FLAG: u32 = 0x10_0000;
const VERITY: u32 = 0x8000;
/// Bytes behind the first 128 that each inode must have, and that new ones get: place, name.
const EXTRA: [(usize, &str); 2] = [
    (
        sb::MIN_EXTRA,
        "required bytes behind the first 128 of an inode",
    ),
    (
        sb::WANT_EXTRA,
        "desired bytes behind the first 128 of an inode",
    ),
];
/// The device of a journal that lies elsewhere, and its UUID.
const JOURNAL_DEVICE: usize = 228;
const JOURNAL_UUID: usize = 208;
/// Marks of a group whose tables were never written, which ext4 has, and where a descriptor counts
/// the inodes at the table's end that were never used.
const UNWRITTEN: u16 = 1 | 2;
const DESC_UNUSED: usize = 28;
/// The inode of bad blocks.
const BAD_BLOCKS: u32 = 1;
/// Where the superblock has the length of descriptors, which is 0 or 32 without 64 bits.
const DESC_SIZE: usize = 254;
/// The inode of the boot loader: of all reserved inodes, only this may have a mode.
const BOOT_LOADER: u32 = 5;
/// Flags that only volumes of other features have: compressed blocks, magic of AFS, verity, names
/// without case.
const FOREIGN_FLAGS: [(u32, &str); 4] = [
    (0x200, "flag of compressed blocks"),
    (0x2000, "flag of AFS directories"),
    (VERITY_FLAG, "flag of fs-verity"),
    (0x4000_0000, "flag of names without case"),
];
/// Flags that devices, pipes, sockets and links do not have: immutable, append only.
const FILE_FLAGS: u32 = 0x10 | 0x20;
/// The most that 32 bits hold of groups in a flexible group of ext4, as a power of two.
const FLEX_MAX: u32 = 31;
/// Bytes of a target that lies in the inode, with the NUL behind it.
const FAST_LINK: usize = 60;

impl<D: BlockDevice> Ext<D> {
    /// Inodes of the volume's own use that no name leads to: quotas, and the file of orphans.
    pub(crate) fn special_inodes(&mut self) -> Result<Vec<u32>, ExtError> {
        let layout = self.store.layout;
        let bytes = self.store.superblock()?;
        let named = OTHERS.iter().filter(|(at, _)| has_inode(&layout, *at));
        Ok(named
            .map(|(at, _)| le32(bytes, *at))
            .filter(|inode| *inode != 0)
            .collect())
    }

    /// True if an inode lies before the watermark of its table.
    pub(crate) fn is_inode_written(&self, inode: u32) -> bool {
        let layout = &self.store.layout;
        let (group, within) = layout.inode_group(inode);
        within < self.groups[group as usize].written_inodes(layout)
    }

    /// Compares the bitmaps of a group with their checksums.
    pub(crate) fn check_bitmap_sums(
        &mut self,
        walk: &mut Walk,
        group: u32,
    ) -> Result<(), ExtError> {
        for map in [Map::Blocks, Map::Inodes] {
            match self.check_bitmap_sum(group, map) {
                Err(error) if error.is_damage() => walk.report.add(Finding::Sum { group, error }),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// The superblock's fields, marks of groups, and the journal.
    pub(crate) fn check_super(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let bytes = self.store.superblock()?;
        check_shape(walk, bytes, &layout);
        Self::check_super_fields(walk, bytes, &layout);
        if let Some(block) = self.zones.overlap() {
            walk.report.add(Finding::Overlap { block });
        }
        for group in 0..layout.groups {
            self.check_marks(walk, group)?;
        }
        match layout.has(compat::HAS_JOURNAL) {
            true => self.check_journal_inode(walk),
            false => Ok(()),
        }
    }

    fn check_journal_inode(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        let inode = match self.journal_number() {
            // The check of the superblock's fields finds it, too.
            Err(ExtError::Super { .. }) => return Ok(()),
            number => number?,
        };
        match self.check_journal(inode) {
            Err(error @ ExtError::Device(_)) => return Err(error),
            Err(error) => walk.report.add(Finding::Unreadable { inode, error }),
            Ok(()) => {}
        }
        Ok(())
    }

    fn check_super_fields(walk: &mut Walk, bytes: &[u8], layout: &Layout) {
        for (at, field, found, expected) in super_fields(bytes, layout) {
            if found != expected {
                let at = at as u16;
                walk.report.add(Finding::Super {
                    at,
                    field,
                    found,
                    expected,
                });
            }
        }
    }

    /// A group's descriptor has the right checksum; without checksums, no group has marks of
    /// ext4's tables that were never written.
    fn check_marks(&mut self, walk: &mut Walk, group: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let (block, at) = layout.desc_place(group);
        let bytes = self.store.block(block)?;
        if layout.sums != Sums::None {
            let bytes = &bytes[at..at + layout.desc as usize];
            return match groups::check_sum(&layout, group, bytes) {
                Err(error) if error.is_damage() => {
                    walk.report.add(Finding::Sum { group, error });
                    Ok(())
                }
                outcome => outcome,
            };
        }
        let flags = le16(bytes, at + desc::FLAGS) & UNWRITTEN;
        let unused = le16(bytes, at + DESC_UNUSED);
        if flags != 0 || unused != 0 {
            walk.report.add(Finding::Unwritten {
                group,
                flags,
                unused,
            });
        }
        Ok(())
    }

    /// The journal can be loaded.
    fn check_journal(&mut self, number: u32) -> Result<(), ExtError> {
        let inode = self.inode(number)?;
        let wrong = |field, found, expected| ExtError::Inode {
            inode: number,
            field,
            found,
            expected,
        };
        if inode.links == 0 || inode.kind() != Some(FileType::File) {
            return Err(wrong("mode or links", inode.mode.into(), "those of a file"));
        }
        let runs = self.journal_runs()?;
        let mapped = runs.iter().map(|(_, run)| run).sum();
        let Some((first, _)) = runs.first() else {
            return Err(wrong("length", 0, "that of a journal"));
        };
        self.check_log(*first, mapped)
    }

    fn check_log(&mut self, first: u32, mapped: u32) -> Result<(), ExtError> {
        let bytes = self.store.block(first)?;
        let is_empty = nandlab_jbd::check_superblock(bytes, mapped)?;
        match is_empty || self.store.layout.incompat & incompat::RECOVER != 0 {
            true => Ok(()),
            false => Err(ExtError::FORGOTTEN_LOG),
        }
    }

    /// An inode of the volume's own use: nothing, but for the blocks of the bad blocks' inode.
    pub(crate) fn check_reserved(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
    ) -> Result<(), ExtError> {
        let right = match number {
            BOOT_LOADER => !inode.is_dir(),
            _ => inode.mode == 0,
        };
        if !right {
            walk.wrong(number, "mode of a reserved inode", (inode.mode.into(), 0));
        }
        let refused = inode.flags & self.store.layout.foreign_flags();
        if refused != 0 {
            walk.wrong(number, "flags of ext4", (refused.into(), 0));
        }
        let owned = inode.uid | inode.gid | u32::from(inode.links) | inode.attributes;
        if number == BAD_BLOCKS && owned != 0 {
            walk.wrong(
                number,
                "owner, links or attributes of the bad blocks' inode",
                (owned.into(), 0),
            );
        }
        let used = u64::from(inode.links) | inode.units | u64::from(inode.block[0]);
        if number == JOURNAL_INODE && used != 0 {
            walk.wrong(
                number,
                "links, units or first block of the journal's inode, without a journal,",
                (used, 0),
            );
        }
        let (block, at) = self.inode_place(number);
        let high = le32(self.store.block(block)?, at + LENGTH_HIGH);
        let length = u64::from(high) << 32 | inode.size & u64::from(u32::MAX);
        let most = self.store.layout.mapped_bytes_max();
        if length > most {
            walk.wrong(number, "length of a reserved inode", (length, most));
        }
        let mut blocks = 0;
        self.check_blocks(walk, number, inode, &mut blocks)?;
        self.check_units(walk, number, inode, blocks);
        Ok(())
    }

    /// Flags and length of an inode in use.
    fn check_kind(&self, walk: &mut Walk, number: u32, inode: &Inode) {
        let layout = self.store.layout;
        for (flag, field) in FOREIGN_FLAGS {
            let verity = flag == VERITY_FLAG && self.has_hidden_end(inode);
            if inode.flags & flag != 0 && !verity {
                walk.wrong(number, field, (flag.into(), 0));
            }
        }
        let indexed = inode.is_dir() && layout.has(compat::DIR_INDEX);
        if inode.flags & flags::INDEX != 0 && !indexed {
            walk.wrong(
                number,
                "flag of an indexed directory",
                (flags::INDEX.into(), 0),
            );
        }
        let plain = matches!(inode.kind(), Some(FileType::File | FileType::Directory));
        if !plain && inode.flags & FILE_FLAGS != 0 {
            walk.wrong(
                number,
                "flags of a file, on another inode,",
                ((inode.flags & FILE_FLAGS).into(), 0),
            );
        }
        Self::check_flags_of_contents(walk, number, inode, plain);
        self.check_mapped_length(walk, number, inode);
    }

    fn check_flags_of_contents(walk: &mut Walk, number: u32, inode: &Inode, plain: bool) {
        let held = inode.flags & (flags::INLINE | flags::EXTENTS);
        if held == flags::INLINE | flags::EXTENTS {
            let field = "flags of contents in the inode and in extents, both,";
            walk.wrong(number, field, (held.into(), flags::EXTENTS.into()));
        }
        let holds = plain || inode.kind() == Some(FileType::Symlink);
        if held != 0 && !holds {
            let field = "flags of contents, on an inode without any,";
            walk.wrong(number, field, (held.into(), 0));
        }
    }

    /// True for a file with blocks behind its length: fs-verity keeps its tree there.
    pub(crate) fn has_hidden_end(&self, inode: &Inode) -> bool {
        inode.flags & VERITY_FLAG != 0 && self.store.layout.ro_compat & VERITY != 0
    }

    fn check_mapped_length(&self, walk: &mut Walk, number: u32, inode: &Inode) {
        let layout = self.store.layout;
        let most = match inode.kind() {
            Some(FileType::File | FileType::Directory | FileType::Symlink)
                if inode.has_extents() =>
            {
                layout.extent_bytes_max()
            }
            Some(FileType::File | FileType::Directory | FileType::Symlink) => {
                layout.mapped_bytes_max()
            }
            _ => 0,
        };
        if inode.size > most {
            walk.wrong(number, "length", (inode.size, most));
        }
    }

    /// Fields of an inode in use.
    pub(crate) fn check_fields(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
    ) -> Result<(), ExtError> {
        if inode.dtime != 0 {
            walk.wrong(
                number,
                "time of deletion, of an inode in use,",
                (inode.dtime.into(), 0),
            );
        }
        self.check_kind(walk, number, inode);
        let (block, at) = self.inode_place(number);
        let layout = self.store.layout;
        let size = layout.inode_size as usize;
        let bytes = &self.store.block(block)?[at..at + size];
        let is_file = inode.kind() == Some(FileType::File);
        for (at, len, field) in ZERO {
            let found = match len {
                2 => le16(bytes, at).into(),
                _ => le32(bytes, at),
            };
            let has_meaning = match at {
                LENGTH_HIGH => is_file || layout.incompat & incompat::LARGE_DIR != 0,
                UNITS_HIGH => layout.ro_compat & ro_compat::HUGE_FILE != 0,
                _ => false,
            };
            if found != 0 && !has_meaning {
                walk.wrong(number, field, (found.into(), 0));
            }
        }
        let space = size - INODE_OLD as usize;
        if space > 0 {
            let extra = usize::from(le16(bytes, INODE_OLD as usize));
            // Linux reads no attributes behind fields of no length.
            if extra == 0 && le32(bytes, INODE_OLD as usize) == xattr::MAGIC {
                let field = "attributes in place of the fields behind the first 128 bytes";
                walk.wrong(number, field, (xattr::MAGIC.into(), 0));
            }
            let right = extra == 0 || extra >= 4 && extra <= space && extra.is_multiple_of(4);
            if !right {
                let expected = self.store.layout.extra_isize.into();
                walk.wrong(
                    number,
                    "length of the fields behind the first 128 bytes",
                    (extra as u64, expected),
                );
            }
        }
        Ok(())
    }

    /// The target of a symbolic link is as long as the link says, without a NUL in it.
    pub(crate) fn check_link(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
    ) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let found = match inode.is_fast_link(&layout) {
            true => {
                let target: Vec<u8> = inode.block.iter().flat_map(|w| w.to_le_bytes()).collect();
                length_of(&target[..FAST_LINK])
            }
            false if inode.is_inline() => inode.size,
            false => match self.mapped(number, inode, 0, 1) {
                Ok(Mapped { block: 0, .. }) => 0,
                Ok(mapped) => length_of(self.store.block(mapped.block)?),
                // The walk of the blocks meets it, too.
                Err(error) if error.is_damage() => 0,
                Err(error) => return Err(error),
            },
        };
        if found == 0 || found != inode.size {
            walk.wrong(number, "length of a symbolic link", (inode.size, found));
        }
        Ok(())
    }

    /// The inode that keeps blocks for more descriptors leads to them and to their copies, and to
    /// nothing else (mke2fs makes it so).
    pub(crate) fn check_resize(&mut self, walk: &mut Walk, inode: &Inode) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let mut wrong = |field, found: u32, expected: u32| {
            if found != expected {
                walk.wrong(RESIZE_INODE, field, (found.into(), expected.into()));
            }
        };
        if inode.block[13] == 0 {
            wrong("first block of block pointers", 0, layout.first + 1);
        }
        let direct = inode.block[..13].iter().chain(&inode.block[14..]);
        direct.for_each(|block| wrong("block number", *block, 0));
        let copies: Vec<u32> = (1..layout.groups)
            .filter(|group| layout.has_super(*group))
            .collect();
        let blocks = 1 + layout.reserved_gdt * (1 + copies.len() as u32);
        wrong(
            "units of 512 bytes",
            inode.units.min(u32::MAX.into()) as u32,
            blocks * (layout.block / 512),
        );
        if inode.block[13] == 0 || self.is_metadata(inode.block[13]) {
            return Ok(());
        }
        let pointers = layout.pointers();
        let double = self.store.block(inode.block[13])?.to_vec();
        let start = layout.desc_blocks();
        for slot in 0..pointers {
            let index = (slot + pointers - start % pointers) % pointers;
            let kept = index < layout.reserved_gdt;
            let place = if kept {
                layout.first + 1 + start + index
            } else {
                0
            };
            wrong(
                "block of block pointers",
                le32(&double, slot as usize * 4),
                place,
            );
        }
        for index in 0..layout.reserved_gdt {
            let place = layout.first + 1 + start + index;
            let bytes = self.store.block(place)?;
            for slot in 0..pointers as usize {
                let group = copies.get(slot).copied();
                let expected = group.map_or(0, |group| place + group * layout.per_group);
                wrong(
                    "block kept for descriptors",
                    le32(bytes, slot * 4),
                    expected,
                );
            }
        }
        Ok(())
    }

    /// A directory begins with itself and its parent.
    pub(crate) fn check_first_names(
        &mut self,
        walk: &mut Walk,
        dir: u32,
        inode: &Inode,
    ) -> Result<(), ExtError> {
        let types = self.types();
        let block = match self.dir_block(dir, inode, 0) {
            // The walk of the names meets it, too.
            Err(error) if error.is_damage() => return Ok(()),
            block => block?,
        };
        let bytes = self.store.block(block)?;
        let mut at = 0;
        for name in [".", ".."] {
            let Ok(first) = record(bytes, at, block, types) else {
                return Ok(());
            };
            let named = first.name_in(bytes) == name.as_bytes();
            if named && bytes.get(first.name_end()).is_some_and(|byte| *byte != 0) {
                walk.report.add(Finding::Unended { dir, name });
            }
            if first.inode == 0 || !named {
                walk.report.add(Finding::Dots {
                    dir,
                    name,
                    found: first.inode,
                    expected: dir,
                });
            }
            at += first.length;
            if at >= bytes.len() {
                break;
            }
        }
        Ok(())
    }

    /// Bits behind the end of a group's bitmap are set.
    pub(crate) fn check_padding(
        &mut self,
        walk: &mut Walk,
        (group, map): (u32, Map),
        (what, bits): (&'static str, u32),
    ) -> Result<(), ExtError> {
        let bytes = self.bitmap(group, map)?.1;
        let clear = |at: &u32| bytes[*at as usize / 8] >> (at % 8) & 1 == 0;
        if let Some(first) = (bits..bytes.len() as u32 * 8).find(clear) {
            walk.report.add(Finding::Padding { group, what, first });
        }
        Ok(())
    }
}

/// A recovered log may have had another superblock than the one that was mounted.
fn check_shape(walk: &mut Walk, bytes: &[u8], mounted: &Layout) {
    let shape = |layout: &Layout| Layout {
        incompat: layout.incompat & !incompat::RECOVER,
        extra_isize: 0,
        ..*layout
    };
    let same = shape(mounted);
    match Layout::parse(bytes).map(|layout| shape(&layout)) {
        Ok(now) if now == same => {}
        Ok(now) => walk.report.add(Finding::Super {
            at: sb::COMPAT as u16,
            field: "shape after the journal's recovery",
            found: now.compat,
            expected: same.compat,
        }),
        Err(error) => walk.report.add(Finding::Unreadable {
            inode: JOURNAL_INODE,
            error,
        }),
    }
}

/// Fields of the superblock: where each is, its name, what it is, what it should be.
fn super_fields(bytes: &[u8], layout: &Layout) -> Vec<(usize, &'static str, u32, u32)> {
    let long = |at: usize| le32(bytes, at);
    let short = |at: usize| u32::from(le16(bytes, at));
    let absent = OTHERS.iter().filter(|(at, _)| !has_inode(layout, *at));
    let mut fields: Vec<_> = absent
        .map(|(at, field)| (*at, *field, long(*at), 0))
        .collect();
    let named = long(sb::JOURNAL_INODE);
    let journal = match layout.has(compat::HAS_JOURNAL) {
        true if layout.is_journal_inode(named) => named,
        true => JOURNAL_INODE,
        false => 0,
    };
    // Any UUID means a journal on another device.
    let uuid = (0..4).map(|word| long(JOURNAL_UUID + 4 * word));
    let uuid = uuid.fold(0, |all, word| all | word);
    let desc = short(DESC_SIZE);
    let flex = u32::from(bytes[sb::LOG_GROUPS_PER_FLEX]);
    let kept = long(sb::RESERVED);
    fields.extend([
        (sb::JOURNAL_INODE, "inode of the journal", named, journal),
        (
            JOURNAL_DEVICE,
            "device of the journal",
            long(JOURNAL_DEVICE),
            0,
        ),
        (
            sb::FRAGMENTS_PER_GROUP,
            "fragments of a group",
            long(sb::FRAGMENTS_PER_GROUP).saturating_mul(layout.cluster),
            long(sb::PER_GROUP),
        ),
        (
            sb::LOG_GROUPS_PER_FLEX,
            "power of the groups of a flexible group",
            flex,
            flex.min(FLEX_MAX),
        ),
        (JOURNAL_UUID, "UUID of the journal", uuid, 0),
        (
            DESC_SIZE,
            "length of a descriptor",
            desc,
            if desc == layout.desc { desc } else { 0 },
        ),
        (
            sb::RESERVED,
            "reserved blocks",
            kept,
            kept.min(layout.blocks / 2),
        ),
    ]);
    if layout.inode_size > INODE_OLD {
        let space = short(sb::INODE_SIZE).saturating_sub(INODE_OLD);
        let most = |bytes: u32| bytes.min(space) & !3;
        fields.extend(EXTRA.map(|(at, field)| (at, field, short(at), most(short(at)))));
    }
    if !layout.has(compat::RESIZE_INODE) {
        let kept = short(sb::RESERVED_GDT);
        fields.push((sb::RESERVED_GDT, "blocks kept for descriptors", kept, 0));
    }
    fields
}

/// True if the volume has the feature whose inode the superblock names there.
fn has_inode(layout: &Layout, at: usize) -> bool {
    match at {
        sb::ORPHAN_FILE => layout.has(compat::ORPHAN_FILE),
        PROJECT_QUOTA => layout.ro_compat & PROJECT != 0,
        _ => layout.ro_compat & QUOTA != 0,
    }
}

/// Bytes before the first NUL.
fn length_of(bytes: &[u8]) -> u64 {
    let end = bytes.iter().position(|byte| *byte == 0);
    end.unwrap_or(bytes.len()) as u64
}
