//! File systems on disks, by their superblocks.
//!
//! *Promises.* Looks at bytes in memory only. *Knows nothing of* whether what begins like a file
//! system is whole: opening it shows that.

use super::DiskKind;

/// Bytes of a head that every question here can be answered from.
pub const HEAD_BYTES: usize = 8192;
/// Where the superblocks of ext and F2FS lie.
const SUPER_AT: usize = 1024;
/// The magic number of F2FS.
const F2FS: [u8; 4] = 0xF2F5_2010u32.to_le_bytes();
/// The magic number of ext, and where it lies in its superblock.
const EXT: [u8; 2] = [0x53, 0xEF];
const EXT_AT: usize = 56;

/// The file system that a disk begins with.
pub fn disk(head: &[u8]) -> Option<DiskKind> {
    let at = |offset: usize, magic: &[u8]| head.get(offset..offset + magic.len()) == Some(magic);
    if nandlab_squashfs::is_squashfs(head) {
        return Some(DiskKind::Squashfs);
    }
    if nandlab_ubifs::format::Super::begins(head) {
        return Some(DiskKind::Ubifs);
    }
    if at(SUPER_AT, &F2FS) || at(SUPER_AT + 4096, &F2FS) {
        return Some(DiskKind::F2fs);
    }
    if at(SUPER_AT + EXT_AT, &EXT) {
        return Some(DiskKind::Ext);
    }
    let sector = u16::from_le_bytes([*head.get(11)?, *head.get(12)?]);
    let plausible = [512, 1024, 2048, 4096].contains(&sector)
        && head.get(13)?.is_power_of_two()
        && (1..=4).contains(head.get(16)?)
        && *head.get(21)? >= 0xF0;
    (plausible && at(510, &[0x55, 0xAA])).then_some(DiskKind::Fat)
}

/// How many bytes before this sector a file system may begin, by a magic number in the sector.
pub(super) fn begins(sector: &[u8]) -> Option<u64> {
    if sector.get(EXT_AT..EXT_AT + 2) == Some(&EXT) || sector.starts_with(&F2FS) {
        return Some(SUPER_AT as u64);
    }
    let boot = matches!(sector.first(), Some(0xEB | 0xE9)) && sector.ends_with(&[0x55, 0xAA]);
    boot.then_some(0)
}

/// The file system that begins with `head`, which may be any bytes, with its length. The fields of
/// its superblock must fit each other, since some magic numbers are short.
pub fn proven(head: &[u8]) -> Option<(DiskKind, u64)> {
    let kind = disk(head)?;
    let len = match kind {
        DiskKind::Ext => ext_bytes(head)?,
        DiskKind::F2fs => nandlab_f2fs::declared_bytes(head)?,
        DiskKind::Fat => nandlab_fat::declared_bytes(head)?,
        DiskKind::Squashfs => nandlab_squashfs::declared_bytes(head)?,
        DiskKind::Ubifs => nandlab_ubifs::declared_bytes(head)?,
    };
    (len > 0).then_some((kind, len))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_le_bytes)
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_le_bytes)
}

/// The length of ext2, ext3 or ext4, also with features that are not read here. Copies of a
/// superblock are refused: they say which group they lie in.
fn ext_bytes(head: &[u8]) -> Option<u64> {
    const INCOMPAT_64BIT: u32 = 0x80;
    let sb = head.get(SUPER_AT..SUPER_AT + 1024)?;
    let log_block = le32(sb, 24)?;
    let blocks_per_group = le32(sb, 32)?;
    let inodes = le32(sb, 0)?;
    let inodes_per_group = le32(sb, 40)?;
    let revision = le32(sb, 76)?;
    let group = le16(sb, 90)?;
    let state = le16(sb, 58)?;
    let fits = log_block <= 6
        && blocks_per_group >= 256
        && blocks_per_group.is_multiple_of(8)
        && inodes_per_group > 0
        && inodes >= inodes_per_group
        && revision <= 1
        && group == 0
        && state <= 7;
    let high = match le32(sb, 96)? & INCOMPAT_64BIT {
        0 => 0,
        _ => u64::from(le32(sb, 336)?),
    };
    let blocks = u64::from(le32(sb, 4)?) | high << 32;
    let bytes = blocks.checked_mul(1024 << log_block.min(6))?;
    let first = u64::from(le32(sb, 20)?);
    let groups = blocks
        .saturating_sub(first)
        .div_ceil(u64::from(blocks_per_group.max(1)));
    let same = u64::from(inodes) == groups.checked_mul(inodes_per_group.into())?;
    (fits && same && blocks > 0).then_some(bytes)
}
