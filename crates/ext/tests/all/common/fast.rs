//! Fast commits as bytes: read from a volume, and written into one without checksums.

use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::Ext;
use nandlab_jbd::crc32c;
use nandlab_testkit::disk::{poke, word};

/// Kinds of tags.
pub const ADD_RANGE: u16 = 1;
pub const DEL_RANGE: u16 = 2;
pub const CREATE: u16 = 3;
pub const LINK: u16 = 4;
pub const UNLINK: u16 = 5;
pub const INODE: u16 = 6;
pub const PAD: u16 = 7;
pub const TAIL: u16 = 8;
pub const HEAD: u16 = 9;

/// Bytes of the journal's superblock.
const BLOCK_SIZE: u64 = 12;
const SEQUENCE: u64 = 24;
const START: u64 = 28;
const FEATURES: u64 = 40;
const FAST_BLOCKS: u64 = 84;
/// The feature of the journal, and the mark in the volume's superblock.
const FAST: u32 = 0x20;
const INCOMPAT: u64 = 1024 + 96;
const RECOVER: u32 = 4;

/// A tag, and the byte of the device at which it lies.
#[derive(Clone, Debug)]
pub struct Tag {
    pub at: u64,
    pub kind: u16,
    pub value: Vec<u8>,
}

impl Tag {
    /// The little-endian word at a byte of the value.
    pub fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.value[at..at + 4].try_into().unwrap())
    }
}

fn big(disk: &mut Ram, at: u64) -> u32 {
    word(disk, at).swap_bytes()
}

fn put_big(disk: &mut Ram, at: u64, value: u32) {
    poke(disk, at, &value.to_be_bytes());
}

/// The area of a volume, in one run of blocks: byte of the journal's superblock, bytes of a block,
/// first byte of the area, its blocks.
struct Area {
    journal: u64,
    block: u64,
    start: u64,
    blocks: u64,
}

fn area(disk: &mut Ram) -> Area {
    let magic = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 4];
    let mut sector = [0; 512];
    let journal = (0..disk.geometry().sectors)
        .step_by(2)
        .find(|at| {
            disk.read(Lba(*at), &mut sector).unwrap();
            sector[..8] == magic
        })
        .unwrap()
        * 512;
    let [block, fast] = [BLOCK_SIZE, FAST_BLOCKS].map(|at| u64::from(big(disk, journal + at)));
    let end = super::read_only(&mut *disk).journal_end().unwrap().unwrap();
    let blocks = fast - 1;
    let start = end - blocks * block;
    Area {
        journal,
        block,
        start,
        blocks,
    }
}

/// The tags of the fast commits that begin the area, up to the last tail of their transaction.
pub fn tags(disk: &mut Ram) -> Vec<Tag> {
    let Area {
        block,
        start,
        blocks,
        ..
    } = area(disk);
    let mut tags: Vec<Tag> = Vec::new();
    let mut ends = 0;
    for index in 0..blocks {
        let mut bytes = vec![0; block as usize];
        disk.read(Lba((start + index * block) / 512), &mut bytes)
            .unwrap();
        let mut at = 0;
        while at + 4 <= bytes.len() {
            let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let end = at + 4 + usize::from(number(at + 2));
            let Some(value) = bytes.get(at + 4..end) else {
                break;
            };
            let tag = Tag {
                at: start + index * block + at as u64,
                kind: number(at),
                value: value.into(),
            };
            if tags.is_empty() && tag.kind != HEAD {
                return tags;
            }
            if tag.kind == TAIL && tag.word(0) == tags[0].word(4) {
                ends = tags.len() + 1;
            }
            tags.push(tag);
            at = end;
        }
    }
    tags.truncate(ends);
    tags
}

/// Writes fast commits behind an empty log.
pub struct Writer {
    area: Area,
    tid: u32,
    /// The bytes of the area so far, and the first that the next checksum covers.
    bytes: Vec<u8>,
    from: usize,
    /// Where the checksum of each tail lies, and where the next fast commit begins.
    ends: Vec<(usize, usize)>,
}

impl Writer {
    /// Makes of an unmounted volume without checksums one with an empty log that is in use.
    pub fn new(disk: &mut Ram) -> Self {
        let features = word(disk, INCOMPAT) | RECOVER;
        poke(disk, INCOMPAT, &features.to_le_bytes());
        let area = area(disk);
        let journal = area.journal;
        let tid = big(disk, journal + SEQUENCE);
        let features = big(disk, journal + FEATURES);
        put_big(disk, journal + START, 1);
        put_big(disk, journal + FEATURES, features | FAST);
        let mut writer = Self {
            area,
            tid,
            bytes: Vec::new(),
            from: 0,
            ends: Vec::new(),
        };
        let head = [0u32.to_le_bytes(), tid.to_le_bytes()].concat();
        writer.tag(HEAD, &head);
        writer
    }

    pub fn tid(&self) -> u32 {
        self.tid
    }

    fn left(&self) -> usize {
        let block = self.area.block as usize;
        block - self.bytes.len() % block
    }

    fn push(&mut self, kind: u16, length: usize, value: &[u8]) {
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((length as u16).to_le_bytes());
        self.bytes.extend(value);
    }

    /// Appends a tag; a tail needs space behind it.
    pub fn tag(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        if self.left() < value.len() + 8 {
            let rest = self.left() - 4;
            self.push(PAD, rest, &vec![0; rest]);
        }
        self.push(kind, value.len(), value);
        self
    }

    /// Ends a fast commit.
    pub fn tail(&mut self) -> &mut Self {
        let tid = self.tid.to_le_bytes();
        if self.left() < 16 {
            let rest = self.left() - 4;
            self.push(PAD, rest, &vec![0; rest]);
        }
        let length = self.left() - 4;
        self.push(TAIL, length, &tid);
        let at = self.bytes.len();
        let sum = crc32c(0, &self.bytes[self.from..]);
        self.bytes.extend(sum.to_le_bytes());
        let end = self.bytes.len().next_multiple_of(self.area.block as usize);
        self.bytes.resize(end, 0);
        self.ends.push((at, end));
        self.from = self.bytes.len();
        self
    }

    pub fn inode(&mut self, inode: u32, image: &[u8]) -> &mut Self {
        self.tag(INODE, &[&inode.to_le_bytes(), image].concat())
    }

    pub fn name(&mut self, kind: u16, parent: u32, inode: u32, name: &[u8]) -> &mut Self {
        let value = [&parent.to_le_bytes(), &inode.to_le_bytes(), name].concat();
        self.tag(kind, &value)
    }

    /// Blocks of a file from its block `first` on.
    pub fn add(&mut self, inode: u32, first: u32, count: u16, start: u32) -> &mut Self {
        let extent = [
            &inode.to_le_bytes()[..],
            &first.to_le_bytes(),
            &count.to_le_bytes(),
            &[0, 0],
            &start.to_le_bytes(),
        ];
        self.tag(ADD_RANGE, &extent.concat())
    }

    pub fn del(&mut self, inode: u32, first: u32, count: u32) -> &mut Self {
        let range = [inode, first, count].map(u32::to_le_bytes).concat();
        self.tag(DEL_RANGE, &range)
    }

    /// Lets the empty log begin with another transaction.
    pub fn begin_log_with(&self, disk: &mut Ram, tid: u32) {
        put_big(disk, self.area.journal + SEQUENCE, tid);
    }

    /// Changes bits of a byte, and brings the checksums of tails up to date.
    pub fn flip(&mut self, at: usize, bits: u8) {
        self.bytes[at] ^= bits;
        let mut from = 0;
        for (at, kind) in self.ends.clone() {
            let sum = crc32c(0, &self.bytes[from..at]);
            self.bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
            from = kind;
        }
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts so many bytes into the area.
    pub fn write(&self, disk: &mut Ram, bytes: usize) {
        poke(disk, self.area.start, &self.bytes[..bytes]);
    }
}

/// An inode as a tag holds it: mode, links, length, generation and flag of extents.
pub fn image(mode: u16, links: u16, size: u32, generation: u32) -> Vec<u8> {
    let mut bytes = vec![0; 160];
    bytes[..2].copy_from_slice(&mode.to_le_bytes());
    bytes[4..8].copy_from_slice(&size.to_le_bytes());
    for time in [8, 12, 16] {
        bytes[time..time + 4].copy_from_slice(&1_500_000_000u32.to_le_bytes());
    }
    bytes[26..28].copy_from_slice(&links.to_le_bytes());
    bytes[32..36].copy_from_slice(&0x80000u32.to_le_bytes());
    bytes[100..104].copy_from_slice(&generation.to_le_bytes());
    bytes[128..130].copy_from_slice(&32u16.to_le_bytes());
    bytes
}

/// The inode of a path.
pub fn number<D: BlockDevice>(ext: &mut Ext<D>, path: &str) -> u32 {
    nandlab_vfs::path::resolve(ext, path.as_bytes())
        .unwrap()
        .ino
        .0 as u32
}
