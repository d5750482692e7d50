//! Recognises Android's boot images and sparse images.

use super::{Format, Known, Sign, View};
use crate::words::counted;

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign::new(0, b"ANDROID!")],
        look: boot,
    },
    Format {
        signs: &[Sign::new(0, &[0x3A, 0xFF, 0x26, 0xED])],
        look: sparse,
    },
];

/// Pages of a boot image since version 3.
const PAGE_NEW: u64 = 4096;
/// Bytes of a header since version 3, as makers of different years count them.
const HEADS_NEW: [u32; 3] = [1580, 1584, 1596];
/// Chunks of a sparse image that are counted.
const CHUNKS_MAX: u32 = 1 << 16;

fn boot(view: &mut View<'_>) -> Option<Known> {
    match view.le32(40)? {
        version @ 0..=2 => boot_old(view, version),
        version @ 3..=4 => boot_new(view, version),
        _ => None,
    }
}

/// Pages that a part takes, in bytes.
fn paged(parts: &[u64], page: u64) -> u64 {
    parts.iter().map(|part| part.next_multiple_of(page)).sum()
}

fn boot_old(view: &mut View<'_>, version: u32) -> Option<Known> {
    let page = u64::from(view.le32(36)?);
    if !page.is_power_of_two() || !(2048..=1 << 20).contains(&page) {
        return None;
    }
    let kernel = u64::from(view.le32(8)?);
    let ramdisk = u64::from(view.le32(16)?);
    let second = u64::from(view.le32(24)?);
    let overlay = if version >= 1 {
        view.le32(1632)?.into()
    } else {
        0
    };
    let tree = if version >= 2 {
        view.le32(1648)?.into()
    } else {
        0
    };
    let len = page + paged(&[kernel, ramdisk, second, overlay, tree], page);
    let name = view.shown(48, 16)?;
    let arguments = view.shown(64, 512)?;
    Some(Known {
        name: "Android boot image",
        len: Some(len),
        says: format!(
            "version {version}, \"{name}\", pages of {page} bytes, kernel of {kernel} bytes, \
             ramdisk of {ramdisk} bytes, \"{arguments}\""
        ),
        proven: false,
    })
}

fn boot_new(view: &mut View<'_>, version: u32) -> Option<Known> {
    let kernel = u64::from(view.le32(8)?);
    let ramdisk = u64::from(view.le32(12)?);
    let head = view.le32(20)?;
    if !HEADS_NEW.contains(&head) {
        return None;
    }
    let signature = if version == 4 {
        view.le32(1580)?.into()
    } else {
        0
    };
    let len = PAGE_NEW + paged(&[kernel, ramdisk, signature], PAGE_NEW);
    let arguments = view.shown(44, 512)?;
    Some(Known {
        name: "Android boot image",
        len: Some(len),
        says: format!(
            "version {version}, kernel of {kernel} bytes, ramdisk of {ramdisk} bytes, \
             \"{arguments}\""
        ),
        proven: false,
    })
}

fn sparse(view: &mut View<'_>) -> Option<Known> {
    let major = view.le16(4)?;
    let head = view.le16(8)?;
    let chunk_head = view.le16(10)?;
    let block = view.le32(12)?;
    let blocks = view.le32(16)?;
    let chunks = view.le32(20)?;
    if major != 1 || head < 28 || chunk_head < 12 || block == 0 || block % 4 != 0 {
        return None;
    }
    let len = sparse_len(view, head.into(), chunk_head.into(), chunks);
    let bytes = u64::from(block) * u64::from(blocks);
    Some(Known {
        name: "Android sparse image",
        len,
        says: format!("an image of {bytes} bytes in {}", counted(chunks, "chunk")),
        proven: false,
    })
}

/// The end of the last chunk, if they follow one another.
fn sparse_len(view: &mut View<'_>, head: u64, chunk_head: u64, chunks: u32) -> Option<u64> {
    let mut at = head;
    for _ in 0..chunks.min(CHUNKS_MAX + 1) {
        let kind = view.le16(at)?;
        let len = u64::from(view.le32(at + 8)?);
        if !(0xCAC1..=0xCAC4).contains(&kind) || len < chunk_head {
            return None;
        }
        at += len;
    }
    (chunks <= CHUNKS_MAX).then_some(at)
}
