//! The bytes of a volume: superblock, group descriptors, inodes, names of the features.
//!
//! *Promises* to say where things lie and what values mean (Linux `fs/ext2/ext2.h`,
//! `Documentation/filesystems/ext4`), nothing more; everything is little-endian.

pub(crate) use crate::features::{compat, incompat, ro_compat};
use crate::{ExtError, sum::Sums};
pub(crate) use nandlab_block::bytes::{le16, le32, put16, put32};
use nandlab_jbd::crc32c;

/// Byte of the device at which the superblock lies.
pub(crate) const SUPER_AT: u64 = 1024;
/// Bytes of the superblock.
pub(crate) const SUPER_BYTES: usize = 1024;
pub(crate) const MAGIC: u16 = 0xEF53;
/// The inode number of the root directory.
pub(crate) const ROOT: u32 = 2;
/// Holds the blocks for more descriptors.
pub(crate) const RESIZE_INODE: u32 = 7;
/// The inode number of the journal.
pub(crate) const JOURNAL_INODE: u32 = 8;
/// The largest blocks that the format has, as the superblock counts them: 64 KiB.
const LOG_BLOCK_MAX: u32 = 6;
/// Bytes of a group's descriptor, and the fewest with 64-bit block numbers.
pub(crate) const DESC: u32 = 32;
pub(crate) const DESC_WIDE: u32 = 64;
/// Bytes of the inode that every volume has.
pub(crate) const INODE_OLD: u32 = 128;
/// Block pointers in an inode that lead to contents at once.
pub(crate) const DIRECT: u32 = 12;
/// The most names of an inode, as ext2 and ext3 have it.
const LINKS_MAX: u16 = 32_000;
/// The same on volumes with the feature `dir_nlink` of ext4.
const LINKS_MAX_EXT4: u16 = 65_000;

/// Fields of the superblock.
pub(crate) mod sb {
    pub const INODES: usize = 0;
    pub const BLOCKS: usize = 4;
    pub const RESERVED: usize = 8;
    pub const FREE_BLOCKS: usize = 12;
    pub const FREE_INODES: usize = 16;
    pub const FIRST: usize = 20;
    pub const LOG_BLOCK: usize = 24;
    pub const LOG_FRAGMENT: usize = 28;
    pub const PER_GROUP: usize = 32;
    pub const FRAGMENTS_PER_GROUP: usize = 36;
    pub const INODES_PER_GROUP: usize = 40;
    pub const MOUNT_TIME: usize = 44;
    pub const WRITE_TIME: usize = 48;
    pub const MOUNTS: usize = 52;
    pub const MOUNTS_MAX: usize = 54;
    pub const MAGIC: usize = 56;
    pub const STATE: usize = 58;
    pub const ERRORS: usize = 60;
    pub const CHECK_TIME: usize = 64;
    pub const REVISION: usize = 76;
    pub const FIRST_INODE: usize = 84;
    pub const INODE_SIZE: usize = 88;
    pub const GROUP: usize = 90;
    pub const COMPAT: usize = 92;
    pub const INCOMPAT: usize = 96;
    pub const RO_COMPAT: usize = 100;
    pub const UUID: usize = 104;
    pub const LABEL: usize = 120;
    pub const DIR_PREALLOCATED: usize = 205;
    pub const RESERVED_GDT: usize = 206;
    pub const JOURNAL_INODE: usize = 224;
    pub const LAST_ORPHAN: usize = 232;
    pub const HASH_SEED: usize = 236;
    pub const HASH_VERSION: usize = 252;
    pub const JOURNAL_BACKUP: usize = 253;
    pub const MOUNT_OPTIONS: usize = 256;
    pub const DESC_SIZE: usize = 254;
    pub const FIRST_META_BG: usize = 260;
    pub const MADE: usize = 264;
    pub const JOURNAL_BLOCKS: usize = 268;
    pub const FREE_BLOCKS_HIGH: usize = 344;
    pub const MIN_EXTRA: usize = 348;
    pub const WANT_EXTRA: usize = 350;
    pub const FLAGS: usize = 352;
    pub const BLOCKS_HIGH: usize = 336;
    pub const MMP_BLOCK: usize = 360;
    pub const LOG_GROUPS_PER_FLEX: usize = 372;
    pub const CHECKSUM_TYPE: usize = 373;
    pub const OVERHEAD: usize = 584;
    pub const BACKUP_GROUPS: usize = 588;
    pub const CHECKSUM_SEED: usize = 624;
    pub const ORPHAN_FILE: usize = 640;
    pub const CHECKSUM: usize = 1020;
}

/// The volume was cleanly unmounted (`s_state`).
pub(crate) const STATE_CLEAN: u16 = 1;
/// `s_state`: errors were found.
pub(crate) const STATE_ERRORS: u16 = 2;
/// `s_flags`: names are hashed as signed bytes.
pub(crate) const FLAG_SIGNED: u32 = 1;
/// `s_flags`: as unsigned bytes.
pub(crate) const FLAG_UNSIGNED: u32 = 2;

/// Fields of a group's descriptor.
pub(crate) mod desc {
    pub const BLOCK_BITMAP: usize = 0;
    pub const INODE_BITMAP: usize = 4;
    pub const TABLE: usize = 8;
    pub const FREE_BLOCKS: usize = 12;
    pub const FREE_INODES: usize = 14;
    pub const DIRECTORIES: usize = 16;
    pub const FLAGS: usize = 18;
    pub const BLOCK_SUM: usize = 24;
    pub const INODE_SUM: usize = 26;
    pub const UNUSED: usize = 28;
    pub const CHECKSUM: usize = 30;
    /// From here on the upper halves, in the order of the lower ones.
    pub const HIGH: usize = 32;
    /// Upper halves of the two checksums.
    pub const BLOCK_SUM_HIGH: usize = 56;
    pub const INODE_SUM_HIGH: usize = 58;
    /// The inode bitmap and the inode table were never written.
    pub const INODE_UNINIT: u16 = 1;
    /// The block bitmap was never written.
    pub const BLOCK_UNINIT: u16 = 2;
    /// The inode table was written with zeros.
    pub const ZEROED: u16 = 4;
}

/// Byte offset and bits of `i_flags`.
pub(crate) mod flags {
    /// Contents go through the journal, whatever the mount says.
    pub const JOURNAL_DATA: u32 = 0x4000;
    /// The directory has an index.
    pub const INDEX: u32 = 0x1000;
    /// `i_blocks` counts blocks of the volume.
    pub const HUGE: u32 = 0x4_0000;
    /// Extents map the inode's blocks.
    pub const EXTENTS: u32 = 0x8_0000;
    /// The inode holds the value of an attribute.
    pub const VALUE: u32 = 0x20_0000;
    /// The contents lie in the inode.
    pub const INLINE: u32 = 0x1000_0000;
    /// Set, the inode means something that is not understood here, or not on volumes without the
    /// feature of ext4: encrypted, extents, inline data, value of an attribute.
    pub const FOREIGN: u32 = 0x800 | EXTENTS | VALUE | INLINE;
}

/// Shape and choices of a volume, as its superblock has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a block: 1024, 2048 or 4096.
    pub block: u32,
    /// Blocks of the volume.
    pub blocks: u32,
    /// The block that holds the superblock: 1 where blocks have 1024 bytes, otherwise 0.
    pub first: u32,
    /// Blocks of a group, the last one's may be fewer.
    pub per_group: u32,
    /// The number of block groups.
    pub groups: u32,
    /// Inodes of the volume.
    pub inodes: u32,
    /// Inodes of a group.
    pub inodes_per_group: u32,
    /// Bytes of an inode.
    pub inode_size: u32,
    /// The first inode that is not reserved.
    pub first_inode: u32,
    /// Blocks that only the superuser may take.
    pub reserved: u32,
    /// Blocks kept after the group descriptors for more of them.
    pub reserved_gdt: u32,
    /// Bits of compatible features.
    pub compat: u32,
    /// Bits of incompatible features.
    pub incompat: u32,
    /// Features that only writing needs to understand.
    pub ro_compat: u32,
    /// Seed of the directory hash.
    pub hash_seed: [u32; 4],
    /// The directory hash: 0 legacy, 1 half MD4, 2 TEA, for names as signed bytes; 3, 4, 5 the same
    /// unsigned.
    pub hash_version: u8,
    /// Bytes after the first 128 of an inode that new inodes use.
    pub extra_isize: u16,
    /// Bytes of a group's descriptor.
    pub desc: u32,
    /// The first block of descriptors that lies with its groups, counted in such blocks.
    pub first_meta_bg: u32,
    /// The groups with copies of the superblock, with the feature `sparse_super2`.
    pub backups: [u32; 2],
    /// Blocks for which a bit of the block bitmap stands.
    pub cluster: u32,
    /// The metadata that has checksums.
    pub sums: Sums,
    /// Seed of the checksums.
    pub seed: u32,
    /// The volume's UUID.
    pub uuid: [u8; 16],
}

/// The bytes that a volume takes by its own superblock, which lies in `head`, the first 2048 bytes
/// of the device or more; none where that is not understood.
pub fn declared_bytes(head: &[u8]) -> Option<u64> {
    let layout = Layout::parse(head.get(SUPER_AT as usize..)?.get(..SUPER_BYTES)?).ok()?;
    Some(u64::from(layout.blocks) * u64::from(layout.block))
}

impl Layout {
    /// Takes a superblock apart; refuses what is none, or is not understood.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ExtError> {
        let wrong = |at: usize, field, found: u32, expected| ExtError::Super {
            offset: at as u16,
            field,
            found,
            expected,
        };
        let check = |ok: bool, at: usize, field, found: u32, expected| {
            if ok {
                Ok(())
            } else {
                Err(wrong(at, field, found, expected))
            }
        };
        let magic = le16(bytes, sb::MAGIC);
        check(magic == MAGIC, sb::MAGIC, "magic", magic.into(), "0xef53")?;
        let revision = le32(bytes, sb::REVISION);
        let log = le32(bytes, sb::LOG_BLOCK);
        check(revision <= 1, sb::REVISION, "revision", revision, "0 or 1")?;
        let unsupported = |at: usize, field, found: u32, supported| ExtError::Unsupported {
            offset: at as u16,
            field,
            found,
            supported,
        };
        if (3..=LOG_BLOCK_MAX).contains(&log) {
            let sizes = "0, 1 or 2: 1024, 2048 or 4096 bytes";
            return Err(unsupported(sb::LOG_BLOCK, "block size", log, sizes));
        }
        check(
            log <= 2,
            sb::LOG_BLOCK,
            "block size",
            log,
            "0, 1 or 2: 1024, 2048 or 4096 bytes",
        )?;
        let fragment = le32(bytes, sb::LOG_FRAGMENT);
        let feature = |at| if revision == 0 { 0 } else { le32(bytes, at) };
        let compat = feature(sb::COMPAT);
        let incompat = feature(sb::INCOMPAT);
        let ro_compat = feature(sb::RO_COMPAT);
        let unknown = incompat & !incompat::KNOWN;
        if unknown != 0 {
            let bit = 1 << unknown.trailing_zeros();
            let name = incompat::NAMES
                .iter()
                .find(|(known, _)| *known == bit)
                .map_or("one without a name", |(_, name)| name);
            return Err(ExtError::Feature { bit, name });
        }
        let dynamic = revision == 1;
        let wide = incompat & incompat::WIDE != 0;
        let high = if wide {
            le32(bytes, sb::BLOCKS_HIGH)
        } else {
            0
        };
        if high != 0 {
            let field = "upper half of the blocks";
            return Err(unsupported(sb::BLOCKS_HIGH, field, high, "0"));
        }
        let desc = match wide {
            true => u32::from(le16(bytes, sb::DESC_SIZE)),
            false => DESC,
        };
        let desc_right = !wide || desc.is_power_of_two() && (DESC_WIDE..=1024).contains(&desc);
        check(
            desc_right,
            sb::DESC_SIZE,
            "length of a descriptor",
            desc,
            "a power of two from 64 to 1024",
        )?;
        let bigalloc = ro_compat & ro_compat::BIGALLOC != 0;
        let word = |at| le32(bytes, at);
        if bigalloc && log == 0 && word(sb::FIRST) == 0 {
            let field = "first block of a volume with clusters and blocks of 1024 bytes";
            return Err(unsupported(sb::FIRST, field, 0, "1"));
        }
        let cluster = fragment.wrapping_sub(log);
        check(
            fragment == log || bigalloc && cluster <= 16,
            sb::LOG_FRAGMENT,
            "size of fragments",
            fragment,
            "that of blocks",
        )?;
        let sums = Sums::of(bytes, ro_compat)?;
        let hash = bytes[sb::HASH_VERSION];
        let flags = word(sb::FLAGS);
        let mut layout = Self {
            block: 1024 << log,
            blocks: word(sb::BLOCKS),
            first: word(sb::FIRST),
            per_group: word(sb::PER_GROUP),
            groups: 0,
            inodes: word(sb::INODES),
            inodes_per_group: word(sb::INODES_PER_GROUP),
            inode_size: if dynamic {
                le16(bytes, sb::INODE_SIZE).into()
            } else {
                INODE_OLD
            },
            first_inode: if dynamic { word(sb::FIRST_INODE) } else { 11 },
            reserved: word(sb::RESERVED),
            reserved_gdt: if compat & compat::RESIZE_INODE != 0 {
                le16(bytes, sb::RESERVED_GDT).into()
            } else {
                0
            },
            compat,
            incompat,
            ro_compat,
            hash_seed: core::array::from_fn(|i| word(sb::HASH_SEED + 4 * i)),
            hash_version: if hash < 3 && flags & FLAG_UNSIGNED != 0 {
                hash + 3
            } else {
                hash
            },
            extra_isize: 0,
            desc,
            first_meta_bg: match incompat & incompat::META_BG {
                0 => u32::MAX,
                _ => word(sb::FIRST_META_BG),
            },
            backups: [0, 1].map(|i| word(sb::BACKUP_GROUPS + 4 * i)),
            cluster: if bigalloc { 1 << cluster } else { 1 },
            sums,
            seed: 0,
            uuid: core::array::from_fn(|i| bytes[sb::UUID + i]),
        };
        layout.seed = match incompat & incompat::SEED {
            0 => crc32c(!0, &layout.uuid),
            _ => word(sb::CHECKSUM_SEED),
        };
        layout.check(&check)?;
        layout.groups = (layout.blocks - layout.first).div_ceil(layout.per_group);
        let mapped = incompat & incompat::META_BG == 0;
        check(
            mapped || layout.first_meta_bg <= layout.desc_blocks(),
            sb::FIRST_META_BG,
            "first block of descriptors with their groups",
            layout.first_meta_bg,
            "at most the blocks of all descriptors",
        )?;
        let needed = u64::from(layout.groups) * u64::from(layout.inodes_per_group);
        check(
            u64::from(layout.inodes) == needed,
            sb::INODES,
            "inodes",
            layout.inodes,
            "inodes of a group times groups",
        )?;
        if layout.inode_size > INODE_OLD {
            let most = layout.inode_size - INODE_OLD;
            let wanted = u32::from(le16(bytes, sb::WANT_EXTRA));
            layout.extra_isize = if wanted >= 28 && wanted <= most && wanted % 4 == 0 {
                wanted
            } else {
                32.min(most)
            } as u16;
        }
        Ok(layout)
    }

    fn check(
        &self,
        check: &impl Fn(bool, usize, &'static str, u32, &'static str) -> Result<(), ExtError>,
    ) -> Result<(), ExtError> {
        let bits = self.block * 8;
        let first = u32::from(self.block == 1024);
        check(
            self.first == first,
            sb::FIRST,
            "first block",
            self.first,
            "1 for blocks of 1024 bytes, otherwise 0",
        )?;
        check(
            self.blocks > first + 8,
            sb::BLOCKS,
            "blocks",
            self.blocks,
            "more than 9",
        )?;
        let most = bits.saturating_mul(self.cluster);
        let per_group = (256..=most).contains(&self.per_group)
            && self.per_group.is_multiple_of(8 * self.cluster);
        check(
            per_group,
            sb::PER_GROUP,
            "blocks of a group",
            self.per_group,
            "a multiple of 8, from 256 to 8 times the bytes of a block",
        )?;
        let size = self.inode_size.is_power_of_two()
            && (INODE_OLD..=self.block).contains(&self.inode_size);
        check(
            size,
            sb::INODE_SIZE,
            "bytes of an inode",
            self.inode_size,
            "a power of two from 128 to the bytes of a block",
        )?;
        let inodes = (1..=bits).contains(&self.inodes_per_group)
            && self
                .inodes_per_group
                .is_multiple_of(self.block / self.inode_size);
        check(
            inodes,
            sb::INODES_PER_GROUP,
            "inodes of a group",
            self.inodes_per_group,
            "whole blocks of them, up to 8 times the bytes of a block",
        )?;
        let first_inode = (11..self.inodes.max(12)).contains(&self.first_inode);
        check(
            first_inode,
            sb::FIRST_INODE,
            "first inode",
            self.first_inode,
            "11 or more, within the volume",
        )?;
        check(
            self.reserved_gdt <= self.block / 4,
            sb::RESERVED_GDT,
            "reserved descriptor blocks",
            self.reserved_gdt,
            "at most the block pointers of a block",
        )
    }

    /// Whether the volume has a feature.
    pub(crate) fn has(&self, compat: u32) -> bool {
        self.compat & compat != 0
    }

    /// Bytes of a block, as a length.
    pub(crate) fn size(&self) -> usize {
        self.block as usize
    }

    /// Block pointers in a block.
    pub(crate) fn pointers(&self) -> u32 {
        self.block / 4
    }

    /// True if new inodes have extents.
    pub(crate) fn has_extents(&self) -> bool {
        self.incompat & incompat::EXTENTS != 0
    }

    /// True if directory blocks, inodes and the like have checksums.
    pub(crate) fn has_sums(&self) -> bool {
        self.sums == Sums::All
    }

    /// The most names of an inode.
    pub(crate) fn links_max(&self) -> u16 {
        match self.ro_compat & ro_compat::DIR_NLINK {
            0 => LINKS_MAX,
            _ => LINKS_MAX_EXT4,
        }
    }

    /// Flags of inodes that are not understood on this volume.
    pub(crate) fn foreign_flags(&self) -> u32 {
        let known = [
            (incompat::EXTENTS, flags::EXTENTS),
            (incompat::INLINE_DATA, flags::INLINE),
            (incompat::EA_INODE, flags::VALUE),
        ];
        let known = known
            .iter()
            .filter(|(feature, _)| self.incompat & feature != 0);
        known.fold(flags::FOREIGN, |all, (_, flag)| all & !flag)
    }

    /// Descriptors of a block.
    fn desc_each(&self) -> u32 {
        self.block / self.desc
    }

    /// Blocks that hold the group descriptors.
    pub(crate) fn desc_blocks(&self) -> u32 {
        self.groups.div_ceil(self.desc_each())
    }

    /// Blocks at a group's beginning for the superblock, the descriptors and later descriptors.
    pub(crate) fn header(&self, group: u32) -> u32 {
        let kept = match self.has_super(group) && self.is_before_meta(group) {
            true => self.reserved_gdt,
            false => 0,
        };
        self.header_in_use(group) + kept
    }

    /// Blocks at a group's beginning for the superblock and the descriptors.
    pub(crate) fn header_in_use(&self, group: u32) -> u32 {
        let own = u32::from(self.has_super(group));
        if self.is_before_meta(group) {
            return own * (1 + self.desc_blocks().min(self.first_meta_bg));
        }
        // The first, the second and the last group of those that one block describes.
        let within = group % self.desc_each();
        own + u32::from(within <= 1 || within == self.desc_each() - 1)
    }

    /// True if the descriptor of the group lies behind the superblock, not with its groups.
    fn is_before_meta(&self, group: u32) -> bool {
        group / self.desc_each() < self.first_meta_bg
    }

    /// Blocks of a group's inode table.
    pub(crate) fn table_blocks(&self) -> u32 {
        self.inodes_per_group / (self.block / self.inode_size)
    }

    /// A group's first block.
    pub(crate) fn group_start(&self, group: u32) -> u32 {
        self.first + group * self.per_group
    }

    /// Blocks of a group.
    pub(crate) fn group_blocks(&self, group: u32) -> u32 {
        self.per_group.min(self.blocks - self.group_start(group))
    }

    /// The group of a block, and its place there.
    pub(crate) fn group_of(&self, block: u32) -> (u32, u32) {
        (
            (block - self.first) / self.per_group,
            (block - self.first) % self.per_group,
        )
    }

    /// The group of an inode, and its place there.
    pub(crate) fn inode_group(&self, inode: u32) -> (u32, u32) {
        (
            (inode - 1) / self.inodes_per_group,
            (inode - 1) % self.inodes_per_group,
        )
    }

    /// True if an inode may hold the journal: its own, or a file's as in the first days of ext3.
    pub(crate) fn is_journal_inode(&self, inode: u32) -> bool {
        inode == JOURNAL_INODE || (self.first_inode..=self.inodes).contains(&inode)
    }

    /// Whether a number from the medium can be a block with contents.
    pub(crate) fn is_block(&self, block: u32) -> bool {
        block > self.first && block < self.blocks
    }

    /// Whether the group begins with a copy of superblock and descriptors.
    pub(crate) fn has_super(&self, group: u32) -> bool {
        let power = |base: u32| {
            core::iter::successors(Some(base), |n| n.checked_mul(base))
                .take_while(|n| *n <= group)
                .any(|n| n == group)
        };
        if self.has(compat::SPARSE_SUPER2) {
            return group == 0 || self.backups.contains(&group);
        }
        self.ro_compat & ro_compat::SPARSE_SUPER == 0
            || group <= 1
            || [3, 5, 7].into_iter().any(power)
    }

    /// Where the superblock lies: block and byte in it.
    pub(crate) fn super_place(&self) -> (u32, usize) {
        if self.block == 1024 {
            (1, 0)
        } else {
            (0, SUPER_AT as usize)
        }
    }

    /// Where a group's descriptor lies: block and byte in it.
    pub(crate) fn desc_place(&self, group: u32) -> (u32, usize) {
        let each = self.desc_each();
        let index = group / each;
        let block = match index < self.first_meta_bg {
            true => self.first + 1 + index,
            false => self.group_start(index * each) + u32::from(self.has_super(index * each)),
        };
        (block, (group % each * self.desc) as usize)
    }

    /// Bytes that three levels of block pointers reach.
    pub(crate) fn mapped_bytes_max(&self) -> u64 {
        let pointers = u64::from(self.pointers());
        let blocks = u64::from(DIRECT) + pointers + pointers.pow(2) + pointers.pow(3);
        blocks * u64::from(self.block)
    }

    /// Bytes of the longest file that extents map: Linux leaves one block number out.
    pub(crate) fn extent_bytes_max(&self) -> u64 {
        u64::from(u32::MAX) * u64::from(self.block)
    }

    /// Bytes of the longest file without extents: three levels of block pointers, and `i_blocks` in
    /// 32 bits counts units of 512 bytes.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        let pointers = u64::from(self.pointers());
        let block = u64::from(self.block);
        let mapped = self.mapped_bytes_max();
        // The indirect blocks themselves, generously.
        let counted = (u64::from(u32::MAX) * 512) / (pointers + 2) * pointers;
        mapped.min(counted / block * block)
    }
}
