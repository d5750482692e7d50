//! JFFS2: edits of nodes, after which a node's checksums are right again.

use crate::{
    edit::{Edit, Script},
    plant,
};
use nandlab_jffs2::{Choice, Compression, Endian, Jffs2, Medium, Options};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_vfs::FileSystem;
use std::sync::OnceLock;

const BLOCK: usize = 8192;
const BLOCKS: usize = 8;
const HEAD: usize = 12;
/// Kinds of nodes: all known ones, and unknown ones of each sort.
const KINDS: [u16; 12] = [
    0xE001, 0xE002, 0x2003, 0x2004, 0x2006, 0xE008, 0xE009, 0xC001, 0xE0F0, 0xA0F0, 0x60F0, 0x20F0,
];
/// Data bytes of a medium.
pub const BYTES: usize = BLOCK * BLOCKS;

const NOR: ImageFormat = ImageFormat {
    page: 256,
    oob: 0,
    pages_per_block: 32,
    layout: Layout::Raw,
    ecc: None,
};
const NAND: ImageFormat = ImageFormat {
    page: 512,
    oob: 16,
    pages_per_block: 16,
    layout: Layout::LinuxSmallPage,
    ecc: None,
};

/// A medium as bytes in two parts, so that nodes are in one piece.
#[derive(Clone, Debug)]
struct Bytes {
    data: Vec<u8>,
    oob: Vec<u8>,
    endian: Endian,
    nodes: Vec<usize>,
}

/// A good medium that edits start from.
#[derive(Debug)]
pub struct Seed {
    bytes: Bytes,
    /// Its pages and blocks.
    pub format: ImageFormat,
    /// How it was mounted.
    pub options: Options,
}

impl Seed {
    /// The medium as edited.
    pub fn edited(&self, script: Script<'_>) -> Image<Vec<u8>> {
        let mut bytes = self.bytes.clone();
        script.edits().for_each(|edit| bytes.edit(edit));
        bytes.image(self.format)
    }
}

/// Good media: NOR and NAND, both byte orders, all compressors.
pub fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let plain = Options::default();
        let one = |lzo, zlib, rtime| Compression {
            choice: Choice::Priority,
            lzo,
            zlib,
            rtime,
        };
        vec![
            seed(
                NOR,
                Options {
                    summary: false,
                    ..plain
                },
            ),
            seed(NOR, plain),
            seed(NAND, plain),
            seed(
                NAND,
                Options {
                    medium: Some(Medium::Unmarked),
                    compression: one(false, true, false),
                    ..plain
                },
            ),
            seed(
                NOR,
                Options {
                    endian: Some(Endian::Big),
                    compression: one(false, false, true),
                    ..plain
                },
            ),
            seed(
                NOR,
                Options {
                    compression: Compression::NONE,
                    summary: false,
                    ..plain
                },
            ),
        ]
    })
}

fn seed(format: ImageFormat, options: Options) -> Seed {
    let mtd =
        Image::new(vec![0xFF; format.bytes(BLOCKS as u32) as usize], format).expect("whole blocks");
    let mut fs = Jffs2::mount(mtd, options).expect("an empty medium");
    plant::plant(&mut fs, 8, 5000).expect("space for the tree");
    fs.unmount().expect("a medium without faults");
    let raw = fs.into_mtd().into_backing();
    let page = format.page as usize;
    let oob = format.oob as usize;
    let part = |from: usize, to: usize| {
        raw.chunks(page + oob)
            .flat_map(|page| page[from..to].to_vec())
            .collect()
    };
    let endian = options.endian.unwrap_or_default();
    let mut bytes = Bytes {
        data: part(0, page),
        oob: part(page, page + oob),
        endian,
        nodes: Vec::new(),
    };
    bytes.nodes = bytes.find();
    assert!(bytes.nodes.len() > 30, "{} nodes", bytes.nodes.len());
    Seed {
        bytes,
        format,
        options,
    }
}

impl Bytes {
    fn get16(&self, at: usize) -> u16 {
        let word = [self.data[at], self.data[at + 1]];
        if self.endian == Endian::Little {
            u16::from_le_bytes(word)
        } else {
            u16::from_be_bytes(word)
        }
    }

    fn get32(&self, at: usize) -> u32 {
        let word = self
            .data
            .get(at..at + 4)
            .and_then(|word| word.try_into().ok())
            .unwrap_or_default();
        if self.endian == Endian::Little {
            u32::from_le_bytes(word)
        } else {
            u32::from_be_bytes(word)
        }
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.data.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.put(
            at,
            &if self.endian == Endian::Little {
                value.to_le_bytes()
            } else {
                value.to_be_bytes()
            },
        );
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.put(
            at,
            &if self.endian == Endian::Little {
                value.to_le_bytes()
            } else {
                value.to_be_bytes()
            },
        );
    }

    fn find(&self) -> Vec<usize> {
        let mut all = Vec::new();
        let mut at = 0;
        while at + HEAD <= self.data.len() {
            let is_node =
                self.get16(at) == 0x1985 && crc(&self.data[at..at + 8]) == self.get32(at + 8);
            all.extend(is_node.then_some(at));
            at += if is_node {
                (self.get32(at + 4) as usize).max(HEAD).next_multiple_of(4)
            } else {
                4
            };
        }
        all
    }

    /// The node that a number stands for.
    fn node(&self, number: usize) -> usize {
        self.nodes[number % self.nodes.len()]
    }

    /// Bytes of a node, as far as they are in its block.
    fn len(&self, at: usize) -> usize {
        (self.get32(at + 4) as usize).clamp(HEAD, BLOCK - at % BLOCK)
    }

    fn edit(&mut self, edit: Edit) {
        let Edit { place, value, .. } = edit;
        let field = usize::from(edit.field & 0x7F);
        let at = self.node(place);
        let other = self.node(value as usize & 0xFFFF);
        let word = at + field % 17 * 4;
        match edit.verb % 14 {
            0 => self.put32(word, value),
            // The second half of the head's first word is the kind.
            1 if field == 1 => self.put16(at + 2, KINDS[value as usize % KINDS.len()]),
            1 => self.put16(at + field % 34 * 2, value as u16),
            2 => self.put(at + field, &[value as u8]),
            3 => self.put32(word, self.get32(word).wrapping_add(value)),
            4 => self.put32(word, self.get32(other + (value >> 16) as usize % 17 * 4)),
            5 => self.copy(other, at),
            6 => return self.append(at, value, edit.field),
            7 => {
                let end = (at / BLOCK + 1) * BLOCK;
                self.data[at + field.min(end - at)..end].fill(value as u8);
                return;
            }
            8 => return self.data[value as usize % (BLOCKS * BLOCK)] ^= 1 << (field % 8),
            9 => return self.put32(place * 4 % (BLOCKS * BLOCK), value),
            10 => return self.move_block(place, value as usize),
            11 => self.put(at + HEAD + (value & 0xFFF) as usize, &[(value >> 16) as u8]),
            12 => {
                if let Some(byte) = self.oob.get_mut(place) {
                    *byte = value as u8;
                }
                return;
            }
            _ => {
                let from = at + HEAD.max(field);
                let to = at + self.len(at);
                if from < to {
                    self.data[from..to].fill(value as u8);
                }
            }
        }
        if edit.field & 0x80 == 0 {
            self.repair(at);
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        let len = self.len(from).min(self.data.len() - to);
        self.data.copy_within(from..from + len, to);
    }

    /// A copy of a node where its block, or another, is still erased; it gets a number of its own.
    fn append(&mut self, from: usize, value: u32, field: u8) {
        let start = value as usize % BLOCKS * BLOCK;
        let used = self.data[start..start + BLOCK]
            .iter()
            .rposition(|byte| *byte != 0xFF)
            .map_or(0, |last| last + 1);
        let to = start + used.next_multiple_of(4);
        let len = self.len(from);
        if to + len <= start + BLOCK {
            self.data.copy_within(from..from + len, to);
            // Mostly another version of the same.
            let version = to + 16;
            self.put32(version, self.get32(version).wrapping_add(value >> 8));
            self.nodes.push(to);
            if field & 0x80 == 0 {
                self.repair(to);
            }
        }
    }

    /// A block as another one, erased, or zeros.
    fn move_block(&mut self, to: usize, from: usize) {
        let to = to % BLOCKS * BLOCK;
        match from % (BLOCKS + 2) {
            BLOCKS => self.data[to..to + BLOCK].fill(0xFF),
            from if from > BLOCKS => self.data[to..to + BLOCK].fill(0),
            from => self.data.copy_within(from * BLOCK..(from + 1) * BLOCK, to),
        }
    }

    /// Makes a node's checksums right: of its data, its own, its head's.
    fn repair(&mut self, at: usize) {
        if at + HEAD > self.data.len() {
            return;
        }
        let byte = |bytes: &Self, from: usize| {
            bytes.data.get(at + from).copied().unwrap_or_default() as usize
        };
        // Bytes before the data, bytes of data, places of the checksums of the data and of the
        // node, bytes that the latter covers.
        let (fixed, len, of_data, own, covered) = match self.get16(at + 2) | 0x2000 {
            0xE001 => (40, byte(self, 28), 36, 32, 32),
            0xE002 => (68, self.get32(at + 48) as usize, 60, 64, 60),
            0x2006 => (
                32,
                (self.get32(at + 4) as usize).saturating_sub(32),
                24,
                28,
                24,
            ),
            0xE008 => (
                32,
                byte(self, 21) + 1 + usize::from(self.get16(at + 22)),
                24,
                28,
                28,
            ),
            0xE009 => (28, 0, 24, 24, 24),
            _ => (HEAD, 0, 8, 8, 8),
        };
        let head = crc(&self.data[at..at + 8]);
        self.put32(at + 8, head);
        if at + fixed > self.data.len() {
            return;
        }
        if let Some(data) = self.data.get(at + fixed..(at + fixed).saturating_add(len)) {
            let sum = crc(data);
            self.put32(at + of_data, sum);
        }
        let sum = crc(&self.data[at..at + covered]);
        self.put32(at + own, sum);
    }

    fn image(self, format: ImageFormat) -> Image<Vec<u8>> {
        let bytes = match format.oob as usize {
            0 => self.data,
            oob => {
                let pages = self
                    .data
                    .chunks(format.page as usize)
                    .zip(self.oob.chunks(oob));
                let mut bytes = Vec::with_capacity(self.data.len() + self.oob.len());
                pages.for_each(|(data, oob)| {
                    bytes.extend_from_slice(data);
                    bytes.extend_from_slice(oob);
                });
                bytes
            }
        };
        Image::new(bytes, format).expect("as long as the seed")
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0);
    hasher.update(bytes);
    !hasher.finalize()
}
