//! What an image is, by what is in it: names and extensions count for nothing.
//!
//! *Promises.* Nothing is written; so much of the image is read and no more, whatever is in it.
//! What a dump of flash does not say of itself (pages, spare areas, erase blocks) is inferred from
//! where its structures lie. *Knows nothing of* whether what begins like a format is whole: opening
//! it shows that.

use memchr::memmem;
use nandlab_jffs2::{Endian, What, survey};
use nandlab_mtd::{ImageFormat, Layout};
use nandlab_sim::Backing;
use nandlab_ubi::format::{EcHeader, Parsed, VidHeader};
use nandlab_ubi::log::VOLUMES;
use serde::Serialize;

/// Bytes that are looked through for the structures of flash.
const SAMPLE: u64 = 16 << 20;
/// Spare bytes that follow pages in dumps: page, spare.
const SPARES: [(u32, u32); 9] = [
    (2048, 64),
    (512, 16),
    (4096, 128),
    (4096, 224),
    (4096, 256),
    (2048, 128),
    (8192, 448),
    (8192, 512),
    (8192, 640),
];

/// A file system on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// ext2 or ext3.
    Ext,
    /// F2FS.
    F2fs,
    /// FAT12, FAT16 or FAT32.
    Fat,
}

impl DiskKind {
    /// As messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext => "ext",
            Self::F2fs => "F2FS",
            Self::Fat => "FAT",
        }
    }
}

/// What lies on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashKind {
    /// JFFS2, in a byte order, with or without marks at the beginning of erased blocks.
    Jffs2 {
        /// The order.
        endian: Endian,
        /// Nodes that say that a block was erased.
        markers: bool,
    },
    /// UBI, with or without a log (UBIL).
    Ubi {
        /// Where the volume header lies in the block; 0 where there are no headers, only the log.
        vid: u32,
        /// Whether there is a log.
        log: bool,
    },
    /// NFTL.
    Nftl,
}

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// A disk.
    Disk(DiskKind),
    /// Flash of a shape.
    Flash(ImageFormat, FlashKind),
}

/// What is known beforehand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// Data bytes of an erase block.
    pub block: Option<u32>,
    /// Data bytes of a page.
    pub page: Option<u32>,
    /// Spare bytes of a page in the image.
    pub oob: Option<u32>,
    /// Who owns which of them.
    pub layout: Option<Layout>,
}

/// The file system that a disk begins with.
pub fn disk(head: &[u8]) -> Option<DiskKind> {
    let at = |offset: usize, magic: &[u8]| head.get(offset..offset + magic.len()) == Some(magic);
    let f2fs = 0xF2F5_2010u32.to_le_bytes();
    if at(1024, &f2fs) || at(5120, &f2fs) {
        return Some(DiskKind::F2fs);
    }
    if at(1080, &[0x53, 0xEF]) {
        return Some(DiskKind::Ext);
    }
    let sector = u16::from_le_bytes([*head.get(11)?, *head.get(12)?]);
    let plausible = [512, 1024, 2048, 4096].contains(&sector)
        && head[13].is_power_of_two()
        && (1..=4).contains(&head[16])
        && head[21] >= 0xF0;
    (plausible && at(510, &[0x55, 0xAA])).then_some(DiskKind::Fat)
}

/// What an image is; nothing where nothing is known.
pub fn detect(image: &mut dyn Backing, hints: &Hints) -> Option<Detected> {
    let mut head = vec![0; 8192.min(image.len() as usize)];
    image.read_at(0, &mut head).ok()?;
    if let Some(kind) = disk(&head) {
        return Some(Detected::Disk(kind));
    }
    let (from, sample) = sample(image)?;
    let found =
        ubi(&sample, from, image.len(), hints).or_else(|| ubi_by_log(&sample, image.len(), hints));
    if found.is_some() {
        return found;
    }
    jffs2(&sample, from, image.len(), hints).or_else(|| nftl(&sample, from, hints))
}

/// The beginning of what is not erased, from a multiple of 16 MiB / 16 on, and where it is.
fn sample(image: &mut dyn Backing) -> Option<(u64, Vec<u8>)> {
    const STEP: u64 = 1 << 20;
    let mut chunk = vec![0; STEP as usize];
    let mut from = 0;
    while from < image.len() {
        let len = STEP.min(image.len() - from) as usize;
        image.read_at(from, &mut chunk[..len]).ok()?;
        if chunk[..len].iter().any(|byte| !matches!(byte, 0xFF | 0)) {
            let mut sample = vec![0; SAMPLE.min(image.len() - from) as usize];
            image.read_at(from, &mut sample).ok()?;
            return Some((from, sample));
        }
        from += STEP;
    }
    None
}

/// Where a magic number lies at a multiple of a step.
fn places(sample: &[u8], magic: &'static [u8], step: usize) -> impl Iterator<Item = usize> {
    memmem::find_iter(sample, magic).filter(move |at| at.is_multiple_of(step))
}

/// The distance of places of which the first may be anywhere and some may be missing.
fn distance(places: &[u64]) -> Option<u64> {
    let steps = places.windows(2).map(|pair| pair[1] - pair[0]);
    steps.reduce(gcd)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A block's length in the image as pages with spare bytes: none where it is a power of two.
fn shape(raw: u64, hints: &Hints, least_page: u32) -> Option<(u32, u32, u32)> {
    if raw.is_power_of_two() && hints.oob.unwrap_or(0) == 0 {
        let page = hints.page.unwrap_or(least_page.max(512)).max(1);
        return (raw / u64::from(page) > 0).then_some((page, 0, (raw / u64::from(page)) as u32));
    }
    let known = SPARES.iter().copied().chain(
        hints
            .page
            .zip(hints.oob)
            .filter(|(page, oob)| *page > 0 && page.checked_add(*oob).is_some()),
    );
    known
        .filter(|(page, oob)| {
            hints.page.is_none_or(|hint| hint == *page) && hints.oob.is_none_or(|hint| hint == *oob)
        })
        .map(|(page, oob)| (page, oob, raw / u64::from(page + oob)))
        .find(|(page, oob, count)| {
            raw.is_multiple_of(u64::from(page + oob))
                && count.is_power_of_two()
                && *page >= least_page
        })
        .map(|(page, oob, count)| (page, oob, count as u32))
}

/// Who owns the spare bytes, as Linux has it by default.
fn layout(page: u32, oob: u32, hints: &Hints) -> Layout {
    hints.layout.unwrap_or(match (page, oob) {
        (..=512, 16) => Layout::LinuxSmallPage,
        (513.., 64) => Layout::LinuxLargePage64,
        _ => Layout::MarkerOnly,
    })
}

fn ubi(sample: &[u8], from: u64, len: u64, hints: &Hints) -> Option<Detected> {
    let mut headers = Vec::new();
    let mut header = None;
    for at in places(sample, b"UBI#", 4) {
        if let Some(Parsed::Good(found)) = sample.get(at..at + 64).map(EcHeader::parse) {
            header.get_or_insert(found);
            headers.push(from + at as u64);
        }
    }
    let header = header?;
    // The volume header is in the second page, or in a sub-page of the first; then the data are in
    // the second.
    let doubled = header.vid_offset.checked_mul(2);
    let page = if doubled == Some(header.data_offset) {
        header.vid_offset
    } else {
        header.data_offset
    };
    let page = hints.page.unwrap_or(if page.is_power_of_two() {
        page.clamp(512, 16_384)
    } else {
        512
    });
    let raw = hints
        .block
        .map(u64::from)
        .or_else(|| distance(&headers))
        .unwrap_or(len);
    let (page_found, oob, count) = shape(raw, hints, page)?;
    let format = ImageFormat {
        page: page_found,
        oob,
        pages_per_block: count,
        layout: layout(page_found, oob, hints),
        ecc: None,
    };
    let (vid, page) = (u64::from(header.vid_offset), u64::from(page_found));
    let inside = vid / page * (page + u64::from(oob)) + vid % page;
    let log = headers.iter().any(|place| {
        let at = (place - from + inside) as usize;
        let vid = sample
            .get(at..at + 64)
            .map(|bytes| VidHeader::parse(bytes, page_found.saturating_mul(count)));
        matches!(vid, Some(Parsed::Good(vid)) if VOLUMES.contains(&vid.volume))
    });
    Some(Detected::Flash(
        format,
        FlashKind::Ubi {
            vid: header.vid_offset,
            log,
        },
    ))
}

/// Without headers: UBIL's super blocks and anchors say how many blocks there are, and how long
/// blocks and pages are.
fn ubi_by_log(sample: &[u8], len: u64, hints: &Hints) -> Option<Detected> {
    let field = |at: usize| Some(u32::from_be_bytes(*sample.get(at..)?.first_chunk()?));
    let supers = places(sample, b"UBLS", 4).map(|at| at + 32);
    for at in supers.chain(places(sample, b"UBLA", 4).map(|at| at + 16)) {
        let Some((((blocks, block), page), zero)) = field(at)
            .zip(field(at + 4))
            .zip(field(at + 8))
            .zip(field(at + 16))
        else {
            continue;
        };
        let pages = u64::from(blocks) * u64::from(block.checked_div(page).unwrap_or(0));
        let whole = block > 0 && page > 0 && block.is_multiple_of(page) && zero == 0;
        let stride = len
            .checked_div(pages)
            .filter(|stride| whole && len.is_multiple_of(pages) && *stride >= page.into());
        let Some(oob) = stride.and_then(|stride| u32::try_from(stride - u64::from(page)).ok())
        else {
            continue;
        };
        let format = ImageFormat {
            page,
            oob,
            pages_per_block: block / page,
            layout: layout(page, oob, hints),
            ecc: None,
        };
        return Some(Detected::Flash(
            format,
            FlashKind::Ubi { vid: 0, log: true },
        ));
    }
    None
}

/// What a run of bytes looks like as JFFS2.
#[derive(Debug, Default)]
struct Look {
    /// Nodes with contents or names that are whole.
    sound: usize,
    /// Where erased blocks begin, and where lists of blocks end.
    begins: Vec<u64>,
    ends: Vec<u64>,
    /// The nodes: from where to where.
    nodes: Vec<(u64, u64)>,
}

fn look(endian: Endian, bytes: &[u8]) -> Look {
    let mut look = Look::default();
    for seen in survey(endian, bytes) {
        let (at, end) = (seen.at as u64, (seen.at + seen.len) as u64);
        match seen.what {
            What::CleanMarker => look.begins.push(at),
            What::Summary => look.ends.push(end.next_multiple_of(4)),
            What::Inode { .. } | What::Name { .. } => look.sound += usize::from(seen.sound),
            _ => {}
        }
        look.nodes.push((at, end));
    }
    look
}

/// The data of pages that are followed by spare bytes.
fn without_spare(sample: &[u8], from: u64, page: u32, oob: u32) -> (u64, Vec<u8>) {
    let stride = u64::from(page + oob);
    let skip = (stride - from % stride) % stride;
    let pages = sample
        .get(skip as usize..)
        .unwrap_or_default()
        .chunks(stride as usize);
    let mut data = Vec::with_capacity(sample.len());
    pages.for_each(|cells| data.extend_from_slice(&cells[..cells.len().min(page as usize)]));
    ((from + skip) / stride * u64::from(page), data)
}

fn jffs2(sample: &[u8], from: u64, len: u64, hints: &Hints) -> Option<Detected> {
    // Spare bytes keep the alignment: where they are cut out, no more nodes begin than before.
    if [Endian::Little, Endian::Big]
        .into_iter()
        .all(|endian| survey(endian, sample).next().is_none())
    {
        return None;
    }
    let plain = (0, 0, from, sample.to_vec());
    let told = hints
        .page
        .zip(hints.oob)
        .filter(|(page, oob)| *page > 0 && *oob > 0 && page.checked_add(*oob).is_some());
    let spares = SPARES.iter().copied().chain(told);
    let fits = |(page, oob): &(u32, u32)| {
        len.is_multiple_of(u64::from(page + oob))
            && hints.oob.is_none_or(|hint| hint == *oob)
            && hints.page.is_none_or(|hint| hint == *page)
    };
    let with_spare = spares.filter(fits).map(|(page, oob)| {
        let (at, data) = without_spare(&sample[..sample.len().min(4 << 20)], from, page, oob);
        (page, oob, at, data)
    });
    let candidates = std::iter::once(plain)
        .filter(|_| hints.oob.unwrap_or(0) == 0)
        .chain(with_spare);
    let mut best: Option<(u32, u32, u64, Endian, Look)> = None;
    for (page, oob, at, data) in candidates {
        for endian in [Endian::Little, Endian::Big] {
            let look = look(
                endian,
                &data[..data.len().min(if oob == 0 { usize::MAX } else { 4 << 20 })],
            );
            // With the wrong spare bytes nodes within one page are still whole, those over two are
            // not.
            let better = look.sound > best.as_ref().map_or(0, |best| best.4.sound)
                || best.is_none() && !look.begins.is_empty();
            if better {
                best = Some((page, oob, at, endian, look));
            }
        }
    }
    let (page, oob, at, endian, look) = best?;
    let block = hints
        .block
        .unwrap_or_else(|| block_of(&look, at, len, page, oob));
    let page = if oob == 0 {
        hints.page.unwrap_or(256)
    } else {
        page
    };
    let format = ImageFormat {
        page,
        oob,
        pages_per_block: (block / page).max(1),
        layout: layout(page, oob, hints),
        ecc: None,
    };
    Some(Detected::Flash(
        format,
        FlashKind::Jffs2 {
            endian,
            markers: !look.begins.is_empty(),
        },
    ))
}

/// The erase block: where marks and lists of blocks say that one begins or ends; otherwise the
/// largest that no node crosses, up to 128 KiB.
fn block_of(look: &Look, at: u64, len: u64, page: u32, oob: u32) -> u32 {
    let data = if oob == 0 {
        len
    } else {
        len / u64::from(page + oob) * u64::from(page)
    };
    let mut edges: Vec<u64> = look
        .begins
        .iter()
        .chain(&look.ends)
        .map(|edge| at + edge)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let crosses = |block: u64| {
        look.nodes
            .iter()
            .any(|(from, to)| (at + from) / block != (at + to - 1) / block)
    };
    if edges.len() > 1
        && let Some(step) = distance(&edges).map(|step| 1 << step.trailing_zeros().min(22))
        && step >= 4096
        && !crosses(step)
    {
        return step as u32;
    }
    let sizes = (13..=17).rev().map(|shift| 1u64 << shift);
    sizes
        .into_iter()
        .find(|block| !crosses(*block) && (data % block == 0 || data < *block))
        .unwrap_or(64 << 10) as u32
}

/// Pages of an erase unit: each has its mark in the spare bytes of its second page (`struct
/// nftl_uci1`, include/uapi/mtd/nftl-user.h).
fn nftl_unit(sample: &[u8], from: u64) -> u32 {
    let (first, skip) = (
        from.div_ceil(528),
        (from.div_ceil(528) * 528 - from) as usize,
    );
    let pages = sample
        .get(skip..)
        .unwrap_or_default()
        .chunks_exact(528)
        .zip(first..);
    let marked: Vec<u64> = pages
        .filter(|(page, _)| page[524..528] == [0x69, 0x3C, 0x69, 0x3C])
        .map(|(_, number)| number)
        .collect();
    let step = distance(&marked).map_or(32, |step| 1 << step.trailing_zeros().min(9));
    if step >= 4 { step } else { 32 }
}

/// Linux's NFTL begins with its name in a block of pages of 512 bytes with 16 spare ones.
fn nftl(sample: &[u8], from: u64, hints: &Hints) -> Option<Detected> {
    let first = from + places(sample, b"ANAND\0", 16).next()? as u64;
    if !first.is_multiple_of(528) {
        return None;
    }
    let pages_per_block = hints
        .block
        .map_or_else(|| nftl_unit(sample, from), |block| block / 512);
    let layout = hints.layout.unwrap_or(Layout::DiskOnChip);
    Some(Detected::Flash(
        ImageFormat {
            page: 512,
            oob: 16,
            pages_per_block,
            layout,
            ecc: None,
        },
        FlashKind::Nftl,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_places_beyond_any_block_are_no_arithmetic() {
        for (vid_offset, data_offset) in [
            (1 << 31, 0),
            (u32::MAX, u32::MAX - 1),
            (1 << 31 | 512, 1024),
        ] {
            let mut bytes = vec![0xFF; 1 << 20];
            let header = EcHeader {
                ec: 1,
                vid_offset,
                data_offset,
                image_seq: 0,
            }
            .encode();
            bytes
                .chunks_mut(1 << 17)
                .for_each(|block| block[..header.len()].copy_from_slice(&header));
            _ = detect(&mut bytes, &Hints::default());
        }
    }
}
