//! Evidence for a shape by structures: nodes, headers and block marks that are whole and lie where
//! they should.
//!
//! *Promises.* The whole image is sampled, not its beginning. *Knows nothing of* what the
//! structures hold.

use super::distance;
use super::scan::{Fill, Magic, Scan};
use super::shape::Shape;
use nandlab_jffs2::{Endian, What, survey};
use nandlab_sim::Backing;
use nandlab_ubi::format::{EcHeader, HEADER_BYTES, Parsed, VidHeader};

/// Places in the image at which structures are looked at, and bytes of each.
pub(super) const WINDOWS: usize = 8;
pub(super) const WINDOW: u64 = 64 << 10;

/// What speaks for a candidate besides parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(super) struct Score {
    /// Structures that are whole, or lie where they should.
    right: f64,
    /// Structures that are broken, or are missing where they should lie.
    wrong: f64,
    /// Bytes of whole structures, of those that were looked at and are not erased.
    covered: u64,
    looked_at: u64,
}

impl Score {
    pub(super) fn worth(&self) -> f64 {
        self.right - self.wrong
    }

    /// Whether whole structures make up most of the data. In a dump with flipped bits they do not,
    /// before these are corrected.
    pub(super) fn explains(&self) -> bool {
        self.covered * 2 >= self.looked_at
    }
}

/// A candidate with the evidence for it.
pub(super) type Scored = (Score, Shape);

/// Places at which structures begin, spread over the image.
pub(super) fn windows(scan: &Scan) -> Vec<u64> {
    let pieces = scan.jffs2.iter().flat_map(|extent| {
        let step = ((extent.to - extent.from) / WINDOWS as u64).max(WINDOW);
        (extent.from..extent.to).step_by(step as usize)
    });
    let all: Vec<u64> = pieces.collect();
    let step = all.len().div_ceil(WINDOWS).max(1);
    all.into_iter().step_by(step).collect()
}

pub(super) fn score(image: &mut dyn Backing, scan: &Scan, shape: &Shape, windows: &[u64]) -> Score {
    let mut score = Score::default();
    for at in windows {
        nodes(image, *at, shape, &mut score);
    }
    counters(image, scan, shape, &mut score);
    markers(scan, shape, &mut score);
    layers(image, scan, shape, &mut score);
    if shape.oob > 0 && !shape.fits(scan.len) {
        score.wrong += score.right / 2.0;
    }
    score
}

/// JFFS2 nodes: with the wrong spare bytes those that cross the end of a page are broken.
fn nodes(image: &mut dyn Backing, at: u64, shape: &Shape, score: &mut Score) {
    let data = data_at(image, at, shape);
    count_nodes(&data, score);
}

pub(super) fn count_nodes(data: &[u8], score: &mut Score) {
    let written = data.iter().filter(|byte| **byte != 0xFF).count();
    score.looked_at += written as u64;
    for endian in [Endian::Little, Endian::Big] {
        for seen in survey(endian, data) {
            match seen.what {
                What::Inode { .. } | What::Name { .. } if seen.sound => score.right += 1.0,
                _ if seen.sound => {}
                _ => score.wrong += 3.0,
            }
            if seen.sound {
                score.covered += seen.len as u64;
            }
        }
    }
}

/// Headers of UBI in corrected data.
pub(super) fn count_headers(data: &[u8], score: &mut Score) {
    for bytes in data.chunks_exact(256) {
        let header = &bytes[..HEADER_BYTES];
        let counter = header.starts_with(b"UBI#").then(|| EcHeader::parse(header));
        let volume = header
            .starts_with(b"UBI!")
            .then(|| VidHeader::parse(header, u32::MAX));
        let sound = match (counter, volume) {
            (Some(counter), _) => matches!(counter, Parsed::Good(_)),
            (_, Some(volume)) => matches!(volume, Parsed::Good(_)),
            (None, None) => continue,
        };
        match sound {
            true => score.right += 1.0,
            false => score.wrong += 3.0,
        }
    }
}

/// The data of a window, cut as the shape says.
fn data_at(image: &mut dyn Backing, at: u64, shape: &Shape) -> Vec<u8> {
    let from = match shape.oob {
        0 => at / 512 * 512,
        _ => at / shape.stride() * shape.stride(),
    };
    let len = WINDOW.min(image.len().saturating_sub(from));
    let mut raw = vec![0; len as usize];
    if image.read_at(from, &mut raw).is_err() {
        return Vec::new();
    }
    if shape.oob == 0 {
        return raw;
    }
    let pages = raw.chunks_exact(shape.stride() as usize);
    pages
        .flat_map(|cells| &cells[..shape.page as usize])
        .copied()
        .collect()
}

/// UBI's headers at the beginnings of pages and blocks.
fn counters(image: &mut dyn Backing, scan: &Scan, shape: &Shape, score: &mut Score) {
    const LOOKED_AT: usize = 256;
    let step = scan.counters.len().div_ceil(LOOKED_AT).max(1);
    for one in scan.counters.iter().step_by(step) {
        let at_page = match shape.oob {
            0 => one.at.is_multiple_of(512),
            _ => one.at.is_multiple_of(shape.stride()),
        };
        let vid = u64::from(one.header.vid_offset);
        let place = shape.raw(shape.data(one.at).saturating_add(vid));
        match volume_header(image, place) {
            _ if !at_page => score.wrong += 1.0,
            Some(true) => score.right += 1.0,
            // A free block has an erased place there.
            Some(false) => score.right += 0.1,
            None => score.wrong += 0.5,
        }
    }
    let Some(block) = distance(scan.counters.iter().map(|one| one.at)) else {
        return;
    };
    if !fits_blocks(block, shape) {
        score.wrong += scan.counters.len() as f64;
    }
    let data = scan.fills.iter().filter(|fill| **fill == Fill::Data);
    let data = data.count() as u64 * scan.grain;
    score.looked_at += data;
    score.covered += (scan.counters.len() as u64).saturating_mul(block).min(data);
}

/// Whether a volume header lies at a place, or nothing does; `None` for anything else.
fn volume_header(image: &mut dyn Backing, at: u64) -> Option<bool> {
    let mut bytes = [0; HEADER_BYTES];
    image.read_at(at, &mut bytes).ok()?;
    match VidHeader::parse(&bytes, u32::MAX) {
        Parsed::Good(_) => Some(true),
        Parsed::Empty => Some(false),
        Parsed::Damaged(_) | Parsed::Refused(_) => None,
    }
}

/// Whether the distance between headers is a block of whole pages, as many as a power of two.
fn fits_blocks(distance: u64, shape: &Shape) -> bool {
    match shape.oob {
        0 => distance.is_power_of_two(),
        _ => {
            let pages = distance / shape.stride();
            distance.is_multiple_of(shape.stride()) && pages.is_power_of_two()
        }
    }
}

/// JFFS2's marks of erased blocks in spare bytes.
fn markers(scan: &Scan, shape: &Shape, score: &mut Score) {
    if shape.oob == 0 {
        return;
    }
    let first = shape.layout.on(shape.page, shape.oob).ok();
    let Some(first) = first.and_then(|layout| layout.user().next()) else {
        return;
    };
    let place = u64::from(shape.page) + first as u64;
    let right = scan
        .markers
        .iter()
        .filter(|at| **at % shape.stride() == place)
        .count();
    score.right += right as f64;
    score.wrong += (scan.markers.len() - right) as f64 * 0.1;
}

/// Pages in which a layer names itself. Some of them state the length of a page.
fn layers(image: &mut dyn Backing, scan: &Scan, shape: &Shape, score: &mut Score) {
    const LOOKED_AT: usize = 8192;
    const STATED: f64 = 8.0;
    let step = scan.layers.len().div_ceil(LOOKED_AT).max(1);
    for (at, magic) in scan.layers.iter().step_by(step) {
        let at_page = match shape.oob {
            0 => at.is_multiple_of(512),
            _ => at.is_multiple_of(shape.stride()),
        };
        match magic {
            Magic::Nftl => {
                let right = (shape.page, shape.oob) == (512, 16) && at_page;
                score.right += f64::from(u8::from(right)) * 4.0;
            }
            _ if !at_page => score.wrong += 0.1,
            _ if states_page(image, *at, shape) => score.right += STATED,
            _ => score.right += 0.1,
        }
    }
}

/// Whether a page says that its array has pages of this shape.
fn states_page(image: &mut dyn Backing, at: u64, shape: &Shape) -> bool {
    let mut data = vec![0; shape.page as usize];
    shape.oob > 0
        && image.read_at(at, &mut data).is_ok()
        && nandlab_ftl::media::recognise(&data).is_some()
}
