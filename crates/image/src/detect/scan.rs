//! One pass over an image: where it is erased, and where structures of flash and of disks may
//! begin.
//!
//! *Promises.* The image is read once, from its beginning to its end, one chunk at a time. Memory
//! does not depend on the length of the image. A place in the result is a candidate: its checksum
//! is right as far as it lies in one piece. *Knows nothing of* spare bytes: a dump with spare bytes
//! is scanned as it is, or through a [`View`](crate::view::View) without them.

use super::disk;
use crate::error::{ImageError, Result};
use crate::known;
use memchr::memmem;
use nandlab_jffs2::{Endian, headers};
use nandlab_sim::Backing;
use nandlab_ubi::format::{EcHeader, HEADER_BYTES, Parsed};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;
/// Bytes behind a chunk that a structure at its end may need.
const AHEAD: usize = known::LOOK_AHEAD;
/// The most grains of a scan; a longer image has larger grains.
const GRAINS_MAX: u64 = 1 << 20;
const GRAIN_MIN: u64 = 4096;
/// The most places of one kind that are kept.
const PLACES_MAX: usize = 1 << 18;
/// JFFS2 nodes that are closer than this belong to one extent.
const GAP: u64 = 64 << 10;
/// Where formats of disks and archives may begin.
const SECTOR: usize = 512;

/// What a grain holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// All bytes are 0xFF.
    Erased,
    /// All bytes are zero.
    Zeros,
    /// Any other mix of bytes.
    Data,
}

/// An erase-counter header of UBI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The offset of the header in the image.
    pub at: u64,
    /// The fields of the header.
    pub header: EcHeader,
}

/// JFFS2 nodes one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The byte order of the nodes.
    pub endian: Endian,
    /// Where the first node begins.
    pub from: u64,
    /// Where the last node ends.
    pub to: u64,
    /// How many nodes there are.
    pub nodes: u64,
}

/// What one pass found. Places rise within each list.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Bytes of the image.
    pub len: u64,
    /// Bytes of a grain.
    pub grain: u64,
    /// What each grain holds.
    pub fills: Vec<Fill>,
    /// Headers of UBI's blocks.
    pub counters: Vec<Counter>,
    /// Runs of JFFS2 nodes.
    pub jffs2: Vec<Extent>,
    /// Clean markers that JFFS2 puts into spare bytes: they have no checksum.
    pub markers: Vec<u64>,
    /// Pages in which a translation layer of ours, NFTL or UBIL names itself.
    pub layers: Vec<(u64, Magic)>,
    /// Where a format of a disk, an archive or a boot loader may begin.
    pub others: Vec<u64>,
}

/// A magic number of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// The header of an NFTL unit.
    Nftl,
    /// A map page of the page-mapped layer.
    PageMap,
    /// The anchor of a log-block layer.
    LogBlock,
    /// A super block of UBIL.
    LogSuper,
    /// An anchor of UBIL.
    LogAnchor,
}

const MAGICS: [(&[u8], Magic); 5] = [
    (b"ANAND\0", Magic::Nftl),
    (b"NLPM", Magic::PageMap),
    (b"NLLA", Magic::LogBlock),
    (b"UBLS", Magic::LogSuper),
    (b"UBLA", Magic::LogAnchor),
];

/// The first bytes of a clean marker in spare bytes: magic number, kind, length 8.
const MARKERS: [[u8; 8]; 2] = [
    [0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0],
    [0x19, 0x85, 0x20, 0x03, 0, 0, 0, 8],
];

impl Scan {
    /// Reads the whole image.
    pub fn read(image: &mut dyn Backing) -> Result<Self> {
        let len = image.len();
        let grain = len.div_ceil(GRAINS_MAX).next_power_of_two().max(GRAIN_MIN);
        let mut scan = Self {
            len,
            grain,
            fills: Vec::new(),
            counters: Vec::new(),
            jffs2: Vec::new(),
            markers: Vec::new(),
            layers: Vec::new(),
            others: Vec::new(),
        };
        let step = CHUNK.max(grain as usize);
        let mut buffer = Vec::new();
        for at in (0..len).step_by(step) {
            let wanted = (len - at).min((step + AHEAD) as u64) as usize;
            buffer.resize(wanted, 0);
            image
                .read_at(at, &mut buffer)
                .map_err(|error| ImageError::Open {
                    layer: "image",
                    why: format!("bytes {at} to {}: {error}", at + wanted as u64),
                })?;
            scan.chunk(at, &buffer, step.min(wanted));
        }
        Ok(scan)
    }

    /// Looks at the first `count` bytes of `buffer`; those behind them belong to the next chunk.
    fn chunk(&mut self, at: u64, buffer: &[u8], count: usize) {
        let fills = buffer[..count].chunks(self.grain as usize).map(fill);
        let first = self.fills.len();
        self.fills.extend(fills);
        if self.fills[first..].iter().all(|fill| *fill != Fill::Data) {
            return;
        }
        self.counters_in(at, buffer, count);
        self.nodes_in(at, buffer, count);
        self.markers_in(at, buffer, count);
        self.layers_in(at, buffer, count);
        self.others_in(at, buffer, count);
    }

    fn counters_in(&mut self, at: u64, buffer: &[u8], count: usize) {
        for place in aligned(buffer, count, b"UBI#", 4) {
            let header = buffer.get(place..place + HEADER_BYTES).map(EcHeader::parse);
            if let Some(Parsed::Good(header)) = header
                && self.counters.len() < PLACES_MAX
            {
                let at = at + place as u64;
                self.counters.push(Counter { at, header });
            }
        }
    }

    fn nodes_in(&mut self, at: u64, buffer: &[u8], count: usize) {
        for endian in [Endian::Little, Endian::Big] {
            for header in headers(endian, buffer) {
                if header.at >= count {
                    break;
                }
                let from = at + header.at as u64;
                let to = from + u64::from(header.len).next_multiple_of(4);
                self.node(endian, from, to.min(self.len));
            }
        }
    }

    fn node(&mut self, endian: Endian, from: u64, to: u64) {
        let last = self.jffs2.iter_mut().rev().take(2);
        let near = last
            .into_iter()
            .find(|one| one.endian == endian && from <= one.to.saturating_add(GAP));
        if let Some(extent) = near {
            extent.to = extent.to.max(to);
            extent.nodes += 1;
        } else if self.jffs2.len() < PLACES_MAX {
            let nodes = 1;
            self.jffs2.push(Extent {
                endian,
                from,
                to,
                nodes,
            });
        }
    }

    fn markers_in(&mut self, at: u64, buffer: &[u8], count: usize) {
        for magic in &MARKERS {
            for place in aligned(buffer, count, magic, 2) {
                if self.markers.len() < PLACES_MAX {
                    self.markers.push(at + place as u64);
                }
            }
        }
    }

    fn layers_in(&mut self, at: u64, buffer: &[u8], count: usize) {
        for (magic, layer) in MAGICS {
            for place in aligned(buffer, count, magic, 4) {
                if self.layers.len() < PLACES_MAX {
                    self.layers.push((at + place as u64, layer));
                }
            }
        }
    }

    fn others_in(&mut self, at: u64, buffer: &[u8], count: usize) {
        let mut places = known::candidates(buffer, SECTOR);
        places.retain(|place| *place < count);
        let sectors = buffer[..count].chunks_exact(SECTOR);
        for (number, sector) in sectors.enumerate() {
            let here = (number * SECTOR) as u64;
            if let Some(before) = disk::begins(sector)
                && (at + here) >= before
            {
                self.other(at + here - before);
            }
        }
        places
            .into_iter()
            .for_each(|place| self.other(at + place as u64));
    }

    fn other(&mut self, at: u64) {
        if self.others.len() < PLACES_MAX {
            self.others.push(at);
        }
    }

    /// What lies at a byte.
    pub fn fill(&self, at: u64) -> Fill {
        let grain = (at / self.grain) as usize;
        self.fills.get(grain).copied().unwrap_or(Fill::Erased)
    }

    /// Places with data, at most `count` of them, spread over the image.
    pub fn spread(&self, count: usize) -> Vec<u64> {
        let data = (0u64..)
            .zip(&self.fills)
            .filter(|(_, fill)| **fill == Fill::Data)
            .map(|(number, _)| number * self.grain);
        let all: Vec<u64> = data.collect();
        let step = all.len().div_ceil(count).max(1);
        all.into_iter().step_by(step).collect()
    }

    /// Sorts the lists, which chunks and byte orders fill in turn.
    pub fn sort(&mut self) {
        self.jffs2.sort_by_key(|extent| extent.from);
        self.markers.sort_unstable();
        self.layers.sort_by_key(|(at, _)| *at);
        self.others.sort_unstable();
        self.others.dedup();
    }
}

/// What some bytes are throughout.
pub fn fill(bytes: &[u8]) -> Fill {
    let all = |wanted: u8| {
        let pattern = [wanted; 64];
        let mut pieces = bytes.chunks_exact(64);
        pieces.by_ref().all(|piece| piece == pattern)
            && pieces.remainder().iter().all(|byte| *byte == wanted)
    };
    match bytes.first() {
        Some(0xFF) | None if all(0xFF) => Fill::Erased,
        Some(0) if all(0) => Fill::Zeros,
        _ => Fill::Data,
    }
}

/// Where `magic` lies at a multiple of `step` and begins before `count`.
fn aligned<'a>(
    buffer: &'a [u8],
    count: usize,
    magic: &'a [u8],
    step: usize,
) -> impl Iterator<Item = usize> + 'a {
    memmem::find_iter(buffer, magic)
        .take_while(move |at| *at < count)
        .filter(move |at| at.is_multiple_of(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grains_are_erased_zero_or_data() {
        let erased = vec![0xFF; 4096];
        let zeros = vec![0; 4096];
        let mut nearly = vec![0xFF; 4095];
        nearly.push(0xFE);
        let mut image = [erased, zeros, nearly, vec![0xFF; 10]].concat();
        let scan = Scan::read(&mut image).unwrap();
        let expected = [Fill::Erased, Fill::Zeros, Fill::Data, Fill::Erased];
        assert_eq!(scan.fills, expected);
        assert_eq!(scan.spread(10), [8192]);
    }

    #[test]
    fn a_header_across_two_chunks_is_found_once() {
        let header = EcHeader {
            ec: 3,
            vid_offset: 2048,
            data_offset: 4096,
            image_seq: 9,
        };
        let mut image = vec![0xFF; 3 * CHUNK];
        for at in [0, CHUNK - 32, CHUNK, 2 * CHUNK] {
            image[at..at + HEADER_BYTES].copy_from_slice(&header.encode());
        }
        let scan = Scan::read(&mut image).unwrap();
        let places: Vec<u64> = scan.counters.iter().map(|one| one.at).collect();
        // The header at CHUNK overwrites half of the one before it.
        assert_eq!(places, [0, CHUNK as u64, 2 * CHUNK as u64]);
    }
}
