//! Superblocks from their copies, where the first is damaged: ext has copies in some groups
//! (revision 1: those of powers of 3, 5 and 7), FAT32 in sector 6. F2FS looks for its own. UBIFS
//! has no copy; its nodes tell enough.
//!
//! *Promises.* Only what carries its format's magic number is taken. *Knows nothing of* what lies
//! between copies.

use crate::detect::{self, DiskKind};
use crate::volume::AnyDisk;
use nandlab_block::{BlockDevice as _, Lba};
use nandlab_sim::Backing;

/// Where ext's first copy is, for each length of a block: group 1 begins behind as many blocks as a
/// block of the bitmap has bits.
const EXT: [(u64, u64); 3] = [
    (1024, 8193 * 1024),
    (2048, 16_384 * 2048),
    (4096, 32_768 * 4096),
];
/// Where FAT32 keeps the copy of its boot sector.
const FAT: u64 = 6 * 512;
const SECTOR: u64 = 512;

fn is_ext(head: &[u8], block: u64) -> bool {
    let shift = u32::from_le_bytes([head[24], head[25], head[26], head[27]]);
    head[56..58] == [0x53, 0xEF] && shift < 3 && 1024 << shift == block
}

/// What a disk holds, by copies of its superblock.
pub(crate) fn kind(image: &mut dyn Backing) -> Option<DiskKind> {
    let mut head = [0; 1024];
    let mut at = |place: u64| image.read_at(place, &mut head).is_ok().then_some(head);
    if EXT
        .iter()
        .any(|(block, place)| at(*place).is_some_and(|head| is_ext(&head, *block)))
    {
        return Some(DiskKind::Ext);
    }
    let fat = at(FAT)
        .and_then(|head| detect::disk(&head))
        .filter(|kind| *kind == DiskKind::Fat);
    fat.or_else(|| nandlab_ubifs::leb_bytes(image).map(|_| DiskKind::Ubifs))
}

/// Puts a copy where the first should be. Gives what was taken.
pub(crate) fn restore(disk: &mut AnyDisk, kind: DiskKind) -> Option<String> {
    match kind {
        DiskKind::Ext => EXT
            .iter()
            .find_map(|(block, place)| ext(disk, *block, *place)),
        DiskKind::Fat => {
            let mut head = [0; SECTOR as usize];
            disk.read(Lba(FAT / SECTOR), &mut head).ok()?;
            detect::disk(&head).filter(|kind| *kind == DiskKind::Fat)?;
            disk.write(Lba(0), &head).ok()?;
            Some(format!("boot sector taken from its copy at byte {FAT}"))
        }
        DiskKind::F2fs | DiskKind::Squashfs | DiskKind::Ubifs => None,
    }
}

fn ext(disk: &mut AnyDisk, block: u64, place: u64) -> Option<String> {
    let mut head = [0; 1024];
    disk.read(Lba(place / SECTOR), &mut head).ok()?;
    if !is_ext(&head, block) {
        return None;
    }
    let field = |at: usize| {
        u64::from(u32::from_le_bytes([
            head[at],
            head[at + 1],
            head[at + 2],
            head[at + 3],
        ]))
    };
    let groups = field(4).div_ceil(field(32).max(1));
    // No more than one group's descriptors could describe.
    let descriptors = (groups.min(block * 8) * 32).next_multiple_of(block);
    // A copy says which group it lies in; the first is of group 0.
    head[90..92].fill(0);
    disk.write(Lba(1024 / SECTOR), &head).ok()?;
    let from = place + block;
    let to = if block == 1024 { 2048 } else { block };
    let mut bytes = vec![0; block as usize];
    for at in (0..descriptors).step_by(block as usize) {
        disk.read(Lba((from + at) / SECTOR), &mut bytes).ok()?;
        disk.write(Lba((to + at) / SECTOR), &bytes).ok()?;
    }
    Some(format!(
        "superblock and group descriptors taken from their copies at byte {place}"
    ))
}
