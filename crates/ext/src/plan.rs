//! How large everything in a new volume is: the arithmetic of mke2fs.
//!
//! *Promises* the numbers of e2fsprogs 1.47, or an error that says what does not fit. Writes
//! nothing.

use crate::{
    Format, FormatError,
    format::{DESC, DESC_WIDE, INODE_OLD, Layout, compat, incompat, ro_compat},
    sum::Sums,
};
use nandlab_jbd::crc32c;

/// Blocks of a journal for which mke2fs adds one for fast commits.
const FAST_SHARE: u32 = 64;
const MIB: u64 = 1 << 20;
/// The features that mke2fs gives to ext4 and not to ext3.
const EXT4_INCOMPAT: u32 = incompat::EXTENTS | incompat::WIDE | incompat::FLEX_BG;
const EXT4_RO_COMPAT: u32 =
    ro_compat::HUGE_FILE | ro_compat::DIR_NLINK | ro_compat::EXTRA_ISIZE | ro_compat::METADATA_CSUM;
/// Groups whose bitmaps and tables ext4 keeps together.
const FLEX: u32 = 16;

/// Sizes of a volume to be made.
pub(crate) struct Plan {
    pub layout: Layout,
    pub journal_blocks: u32,
    /// Those of them that are for fast commits.
    pub fast_blocks: u32,
    /// Groups whose bitmaps and tables lie together.
    pub flex: u32,
}

fn choice(
    ok: bool,
    what: &'static str,
    found: u64,
    expected: &'static str,
) -> Result<(), FormatError> {
    if ok {
        Ok(())
    } else {
        Err(FormatError::Choice {
            what,
            found,
            expected,
        })
    }
}

impl Plan {
    pub fn new(bytes: u64, choices: &Format) -> Result<Self, FormatError> {
        let small = bytes < 512 * MIB;
        let block = choices.block.unwrap_or(if small { 1024 } else { 4096 });
        choice(
            matches!(block, 1024 | 2048 | 4096),
            "block",
            block.into(),
            "1024, 2048 or 4096 bytes",
        )?;
        let size = choices.inode_size;
        choice(
            size.is_power_of_two() && (INODE_OLD..=block).contains(&size),
            "inode",
            size.into(),
            "a power of two from 128 to the block",
        )?;
        choice(
            choices.label.len() <= 16,
            "label",
            choices.label.len() as u64,
            "up to 16 bytes",
        )?;
        choice(
            choices.reserved_percent <= 50,
            "reserved blocks",
            choices.reserved_percent.into(),
            "up to 50 percent",
        )?;
        let ratio = u64::from(choices.inode_ratio.unwrap_or(match bytes {
            _ if bytes < 3 * MIB => 8192,
            _ if small => 4096,
            _ if bytes < 4 * MIB * MIB => 16_384,
            _ => 32_768,
        }));
        choice(
            (1024..=1 << 26).contains(&ratio),
            "bytes for each inode",
            ratio,
            "from 1024 to 64 MiB",
        )?;
        // Whole pages, as mke2fs has it.
        let blocks = bytes / 4096 * (4096 / u64::from(block));
        let too_large = FormatError::Size {
            bytes,
            why: "more than 2^32 - 1 blocks",
        };
        let blocks = u32::try_from(blocks)
            .ok()
            .filter(|blocks| *blocks < u32::MAX)
            .ok_or(too_large)?;
        let inodes = (u64::from(blocks) * u64::from(block) / ratio).min(u32::MAX.into()) as u32;
        let mut layout = base(block, choices);
        layout.blocks = blocks;
        fit(&mut layout, bytes, inodes)?;
        layout.reserved =
            (u64::from(layout.blocks) * u64::from(choices.reserved_percent) / 100) as u32;
        let journal_blocks = match choices.journal_blocks {
            _ if !choices.journal => 0,
            Some(blocks) => blocks,
            None => journal_default(layout.blocks),
        };
        if journal_blocks > 0 {
            choice(
                (1024..=10_240_000).contains(&journal_blocks),
                "journal",
                journal_blocks.into(),
                "from 1024 to 10 240 000 blocks",
            )?;
            if journal_blocks > layout.blocks / 2 {
                return Err(FormatError::Size {
                    bytes,
                    why: "no space for the journal",
                });
            }
            layout.compat |= compat::HAS_JOURNAL;
        }
        let fast_blocks = match choices.fast_commit {
            true => journal_blocks / FAST_SHARE,
            false => 0,
        };
        if fast_blocks > 0 {
            layout.compat |= compat::FAST_COMMIT;
        }
        Ok(Self {
            layout,
            journal_blocks: journal_blocks + fast_blocks,
            fast_blocks,
            flex: if choices.ext4 { FLEX } else { 1 },
        })
    }
}

fn base(block: u32, choices: &Format) -> Layout {
    Layout {
        block,
        blocks: 0,
        first: u32::from(block == 1024),
        per_group: (block * 8).min(65_528),
        groups: 0,
        inodes: 0,
        inodes_per_group: 0,
        inode_size: choices.inode_size,
        first_inode: 11,
        reserved: 0,
        reserved_gdt: 0,
        compat: compat::EXT_ATTR | compat::RESIZE_INODE | compat::DIR_INDEX,
        incompat: incompat::FILETYPE | if choices.ext4 { EXT4_INCOMPAT } else { 0 },
        ro_compat: ro_compat::SPARSE_SUPER
            | ro_compat::LARGE_FILE
            | if choices.ext4 { EXT4_RO_COMPAT } else { 0 },
        hash_seed: [0; 4],
        hash_version: 1,
        extra_isize: if choices.inode_size > INODE_OLD {
            32
        } else {
            0
        },
        desc: if choices.ext4 { DESC_WIDE } else { DESC },
        first_meta_bg: u32::MAX,
        backups: [0; 2],
        cluster: 1,
        sums: if choices.ext4 { Sums::All } else { Sums::None },
        seed: crc32c(!0, &choices.uuid),
        uuid: choices.uuid,
    }
}

/// Groups and inodes for the blocks. A last group that is too small for its own metadata and 50
/// blocks is left out.
fn fit(layout: &mut Layout, bytes: u64, wanted: u32) -> Result<(), FormatError> {
    loop {
        if layout.blocks <= layout.first + 8 {
            return Err(FormatError::Size {
                bytes,
                why: "too few blocks",
            });
        }
        layout.groups = (layout.blocks - layout.first).div_ceil(layout.per_group);
        let per_block = layout.block / layout.inode_size;
        let each = wanted.max(layout.first_inode + 1).div_ceil(layout.groups);
        let most = layout.block * 8;
        // Whole blocks of inodes, and whole bytes of the bitmap.
        let whole = each.div_ceil(per_block) * per_block;
        layout.inodes_per_group = (whole & !7).max(8).min((most / per_block * per_block) & !7);
        if !layout.inodes_per_group.is_multiple_of(per_block) {
            layout.inodes_per_group = layout.inodes_per_group.next_multiple_of(per_block);
        }
        layout.inodes =
            layout
                .groups
                .checked_mul(layout.inodes_per_group)
                .ok_or(FormatError::Size {
                    bytes,
                    why: "too many inodes",
                })?;
        layout.reserved_gdt = reserved_gdt(layout);
        let last = layout.groups - 1;
        let rest = (layout.blocks - layout.first) % layout.per_group;
        let header = if layout.has_super(last) {
            1 + layout.desc_blocks() + layout.reserved_gdt
        } else {
            0
        };
        let own = 2 + layout.table_blocks() + header;
        if own + 20 > layout.per_group.min(layout.blocks - layout.first) {
            return Err(FormatError::Size {
                bytes,
                why: "no space behind the inodes and descriptors",
            });
        }
        if rest == 0 || rest >= own + 50 {
            return Ok(());
        }
        if last == 0 {
            return Err(FormatError::Size {
                bytes,
                why: "no space behind the inodes and descriptors",
            });
        }
        layout.blocks -= rest;
    }
}

/// Blocks to be kept for more descriptors: so that the volume can grow to 1024 times its size.
fn reserved_gdt(layout: &Layout) -> u32 {
    let most = if layout.blocks < u32::MAX / 1024 {
        layout.blocks * 1024
    } else {
        u32::MAX
    };
    let groups = (most - layout.first).div_ceil(layout.per_group);
    (groups.div_ceil(layout.block / layout.desc) - layout.desc_blocks()).min(layout.pointers())
}

/// Blocks of the journal by those of the volume.
fn journal_default(blocks: u32) -> u32 {
    match blocks {
        0..2048 => 0,
        2048..32_768 => 1024,
        32_768..262_144 => 4096,
        262_144..524_288 => 8192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    }
}
