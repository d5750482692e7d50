//! The features of a volume: their bits, their names, and what nandlab does with each.

use crate::format::Layout;
use alloc::{format, string::String, vec::Vec};

/// Features that a driver may ignore.
pub(crate) mod compat {
    pub const HAS_JOURNAL: u32 = 0x4;
    pub const EXT_ATTR: u32 = 0x8;
    pub const RESIZE_INODE: u32 = 0x10;
    pub const DIR_INDEX: u32 = 0x20;
    /// Copies of superblock and descriptors lie in two groups only, which the superblock names.
    pub const SPARSE_SUPER2: u32 = 0x200;
    /// An fsync may write a list of changes behind the journal's log.
    pub const FAST_COMMIT: u32 = 0x400;
    /// A file lists inodes without names.
    pub const ORPHAN_FILE: u32 = 0x1000;
}

/// Features without which a volume cannot be read.
pub(crate) mod incompat {
    pub const FILETYPE: u32 = 0x2;
    pub const RECOVER: u32 = 0x4;
    /// Descriptors lie with their groups.
    pub const META_BG: u32 = 0x10;
    pub const EXTENTS: u32 = 0x40;
    /// Block numbers of more than 32 bits have space in descriptors.
    pub const WIDE: u32 = 0x80;
    /// One mount at a time, guarded by a block of its own.
    pub const MMP: u32 = 0x100;
    /// A group's bitmaps and table may lie in another group.
    pub const FLEX_BG: u32 = 0x200;
    /// Values of attributes may have inodes of their own.
    pub const EA_INODE: u32 = 0x400;
    /// The superblock holds the seed of checksums.
    pub const SEED: u32 = 0x2000;
    /// Indexes of three levels, directories of more than 2 GiB.
    pub const LARGE_DIR: u32 = 0x4000;
    pub const INLINE_DATA: u32 = 0x8000;
    /// The features with which nandlab reads a volume.
    pub const KNOWN: u32 = WRITTEN | EA_INODE;
    /// The features with which a volume can change, too.
    pub const WRITTEN: u32 = FILETYPE
        | RECOVER
        | META_BG
        | EXTENTS
        | WIDE
        | MMP
        | FLEX_BG
        | SEED
        | LARGE_DIR
        | INLINE_DATA;
    pub const NAMES: &[(u32, &str)] = &[
        (0x1, "compression"),
        (0x8, "journal_dev"),
        (0x10, "meta_bg"),
        (0x40, "extent"),
        (0x80, "64bit"),
        (0x100, "mmp"),
        (0x200, "flex_bg"),
        (0x400, "ea_inode"),
        (0x1000, "dirdata"),
        (0x2000, "metadata_csum_seed"),
        (0x4000, "large_dir"),
        (0x8000, "inline_data"),
        (0x10000, "encrypt"),
        (0x20000, "casefold"),
    ];
}

/// Features without which a volume cannot be written.
pub(crate) mod ro_compat {
    pub const SPARSE_SUPER: u32 = 0x1;
    pub const LARGE_FILE: u32 = 0x2;
    /// `i_blocks` has 48 bits, and may count blocks.
    pub const HUGE_FILE: u32 = 0x8;
    /// Descriptors have checksums, and marks of unwritten tables.
    pub const GDT_CSUM: u32 = 0x10;
    /// Directories with more links than the field counts say 1.
    pub const DIR_NLINK: u32 = 0x20;
    pub const EXTRA_ISIZE: u32 = 0x40;
    /// A bit of the block bitmap stands for several blocks.
    pub const BIGALLOC: u32 = 0x200;
    pub const METADATA_CSUM: u32 = 0x400;
    /// Files may share blocks; such a volume is never written.
    pub const SHARED_BLOCKS: u32 = 0x4000;
    /// The file of orphans may hold some.
    pub const ORPHAN_PRESENT: u32 = 0x1_0000;
    /// The features with which nandlab reads a volume.
    pub const KNOWN: u32 = SPARSE_SUPER
        | LARGE_FILE
        | HUGE_FILE
        | GDT_CSUM
        | DIR_NLINK
        | EXTRA_ISIZE
        | METADATA_CSUM
        | ORPHAN_PRESENT;
    /// Readable, with nothing for a writer: quota, bigalloc, project, verity.
    pub const READ: u32 = 0x100 | BIGALLOC | 0x2000 | 0x8000;
    /// The others that Linux has, all of ext4.
    pub const NAMES: &[(u32, &str)] = &[
        (0x8, "huge_file"),
        (0x10, "uninit_bg"),
        (0x20, "dir_nlink"),
        (0x80, "snapshot"),
        (0x100, "quota"),
        (0x200, "bigalloc"),
        (0x400, "metadata_csum"),
        (0x1000, "read-only"),
        (0x2000, "project"),
        (0x4000, "shared_blocks"),
        (0x8000, "verity"),
        (0x10000, "orphan_present"),
    ];
}

impl Layout {
    /// The features that only reading is possible with: those that are read here and not written,
    /// and those that a reader need not know.
    pub fn read_only_features(&self) -> Vec<String> {
        let unwritten = self.incompat & !incompat::WRITTEN;
        let known = incompat::NAMES
            .iter()
            .filter(|(bit, _)| unwritten & bit != 0);
        let mut names: Vec<String> = known.map(|(_, name)| (*name).into()).collect();
        names.extend(self.unchecked_features());
        names
    }

    /// True if a mount may recover the journal: it knows all features, also those that it does not
    /// write.
    pub(crate) fn is_recoverable(&self) -> bool {
        self.ro_compat & !(ro_compat::KNOWN | ro_compat::READ) == 0
    }

    /// True if the volume has features that ext3 does not have.
    pub fn is_ext4(&self) -> bool {
        let ext3 = incompat::FILETYPE | incompat::RECOVER | incompat::META_BG;
        let old = ro_compat::SPARSE_SUPER | ro_compat::LARGE_FILE;
        self.incompat & !ext3 != 0 || self.ro_compat & !(old | ro_compat::EXTRA_ISIZE) != 0
    }

    /// True if the volume has features that nandlab does not write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.incompat & !incompat::WRITTEN != 0 || self.ro_compat & !ro_compat::KNOWN != 0
    }

    /// The features that only reading is possible without, and whose structures no check looks at.
    pub fn unchecked_features(&self) -> Vec<String> {
        let unknown = self.ro_compat & !ro_compat::KNOWN;
        let bits = (0..u32::BITS).map(|bit| 1 << bit);
        let name = |bit: u32| {
            let mut names = ro_compat::NAMES.iter();
            let known = names.find(|(of, _)| *of == bit);
            known.map_or_else(|| format!("{bit:#x}"), |(_, name)| (*name).into())
        };
        bits.filter(|bit| unknown & bit != 0).map(name).collect()
    }
}
