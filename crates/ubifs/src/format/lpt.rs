//! Nodes of the LEB properties tree: how much of each block of the main area is free and dirty.
//! Their fields are packed bit by bit, and the volume decides their widths.

use super::bits::{BitReader, BitWriter, crc16, width};
use super::{Fault, Super};
use alloc::vec::Vec;

/// Branches of a node, and blocks of a leaf.
pub const FANOUT: u32 = 4;
const CRC_BITS: u32 = 16;
const TYPE_BITS: u32 = 4;
const PNODE: u32 = 0;
const NNODE: u32 = 1;
const LTAB: u32 = 2;
const LSAVE: u32 = 3;

/// The properties of a block of the main area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Props {
    /// Bytes at its end that were never written.
    pub free: u32,
    /// Bytes that nothing uses.
    pub dirty: u32,
    /// It holds index nodes, and nothing else.
    pub is_index: bool,
}

impl Props {
    /// A block of `leb` bytes without contents.
    pub fn empty(leb: u32) -> Self {
        Self {
            free: leb,
            ..Self::default()
        }
    }

    /// Bytes of nodes that are in use.
    pub fn used(&self, leb: u32) -> u32 {
        leb.saturating_sub(self.free + self.dirty)
    }
}

/// Free and dirty bytes of a block of the tree's own area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ltab {
    /// Bytes at its end that were never written.
    pub free: u32,
    /// Bytes that nothing uses.
    pub dirty: u32,
}

/// Where a node of the tree lies: a logical block and a byte in it.
pub type Place = (u32, u32);

/// The shape of a tree: its height, and the widths of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LptShape {
    /// Nodes carry numbers, and some blocks are saved for the next mount.
    pub is_big: bool,
    /// Levels above the leaves.
    pub height: u32,
    /// The first block of the main area.
    pub main_first: u32,
    /// Blocks of the main area.
    pub main_lebs: u32,
    /// The first block of the tree's area.
    pub first: u32,
    /// Blocks of the tree's area.
    pub lebs: u32,
    /// Saved blocks, in the big form.
    pub saved: u32,
    lebs_max: u32,
    leb: u32,
    min_io: u32,
    space_bits: u32,
    lnum_bits: u32,
    offs_bits: u32,
    total_bits: u32,
    number_bits: u32,
    main_bits: u32,
}

impl LptShape {
    /// The shape that a superblock gives.
    pub fn new(head: &Super) -> Self {
        let here = &head.geometry;
        let grown = here.lebs_max - here.main_first();
        let leaves = grown.div_ceil(FANOUT);
        let height = (1..).find(|height| FANOUT.saturating_pow(*height) >= leaves);
        Self {
            is_big: head.has_big_lpt(),
            height: height.unwrap_or(1),
            main_first: here.main_first(),
            main_lebs: here.main_lebs(),
            first: here.lpt_first(),
            lebs: here.lpt_lebs,
            saved: head.saved_lebs,
            lebs_max: here.lebs_max,
            leb: here.leb,
            min_io: here.min_io,
            space_bits: width(here.leb) - 3,
            lnum_bits: width(here.lpt_lebs),
            offs_bits: width(here.leb - 1),
            total_bits: width(here.leb),
            number_bits: width(here.lebs_max.div_ceil(FANOUT) - 1),
            main_bits: width(here.lebs_max - 1),
        }
    }

    fn bytes(&self, bits: u32, has_number: bool) -> usize {
        let number = if has_number && self.is_big {
            self.number_bits
        } else {
            0
        };
        (CRC_BITS + TYPE_BITS + number + bits).div_ceil(8) as usize
    }

    /// Bytes of a leaf.
    pub fn pnode_bytes(&self) -> usize {
        self.bytes(FANOUT * (2 * self.space_bits + 1), true)
    }

    /// Bytes of a node above the leaves.
    pub fn nnode_bytes(&self) -> usize {
        self.bytes(FANOUT * (self.lnum_bits + self.offs_bits), true)
    }

    /// Bytes of the table of the tree's own blocks.
    pub fn ltab_bytes(&self) -> usize {
        let bits = u64::from(self.lebs) * 2 * u64::from(self.total_bits);
        (u64::from(CRC_BITS + TYPE_BITS) + bits).div_ceil(8) as usize
    }

    /// Bytes of the list of saved blocks; 0 in the small form.
    pub fn saved_bytes(&self) -> usize {
        let bits = u64::from(self.saved) * u64::from(self.main_bits);
        match self.is_big {
            true => (u64::from(CRC_BITS + TYPE_BITS) + bits).div_ceil(8) as usize,
            false => 0,
        }
    }

    /// Leaves of the tree.
    pub fn pnodes(&self) -> u32 {
        self.main_lebs.div_ceil(FANOUT)
    }

    /// Nodes of a level; level 0 has the leaves.
    pub fn nodes(&self, level: u32) -> u32 {
        (0..level).fold(self.pnodes(), |nodes, _| nodes.div_ceil(FANOUT))
    }

    /// Bytes that the tree takes in its area at most, written at once.
    pub fn whole_bytes(&self) -> u64 {
        let nnodes: u32 = (1..=self.height).map(|level| self.nodes(level)).sum();
        let waste = self.pnode_bytes().max(self.nnode_bytes()) as u64;
        let leb = u64::from(self.leb);
        let nodes = u64::from(self.pnodes()) * self.pnode_bytes() as u64
            + u64::from(nnodes) * self.nnode_bytes() as u64;
        let bytes = nodes + (self.ltab_bytes() + self.saved_bytes()) as u64;
        // The last node of a block may leave almost a node's length unused.
        let blocks = bytes / leb.saturating_sub(waste).max(1) + 1;
        (bytes + blocks * waste).next_multiple_of(self.min_io.into())
    }

    /// The number of a node's child, in the big form.
    pub fn nnode_number(&self, parent: u32, level: u32, child: u32) -> u32 {
        let shift = 2 * (self.height - level);
        (parent ^ 1 << shift) | (FANOUT + child) << shift
    }

    /// Reads a leaf, whose number is `number` in the big form.
    pub fn parse_pnode(&self, bytes: &[u8], number: u32) -> Result<[Props; 4], Fault> {
        let mut reader = self.open(bytes, PNODE)?;
        self.numbered(&mut reader, number)?;
        let mut all = [Props::default(); 4];
        for one in &mut all {
            one.free = reader.read(self.space_bits) << 3;
            one.dirty = reader.read(self.space_bits) << 3;
            one.is_index = reader.read(1) == 1;
            let fits = one.free.is_multiple_of(self.min_io) && one.free <= self.leb;
            let expected = "whole writes of a block";
            Fault::unless(fits, "the free bytes of a block", one.free, expected)?;
            let fits = one.dirty <= self.leb - one.free;
            let expected = "the rest of the block at most";
            Fault::unless(fits, "the dirty bytes of a block", one.dirty, expected)?;
        }
        Ok(all)
    }

    /// Reads a node above the leaves: where its children lie. Nothing is below an absent child but
    /// empty blocks.
    pub fn parse_nnode(&self, bytes: &[u8], number: u32) -> Result<[Option<Place>; 4], Fault> {
        let mut reader = self.open(bytes, NNODE)?;
        self.numbered(&mut reader, number)?;
        let mut all = [None; 4];
        for one in &mut all {
            let lnum = reader.read(self.lnum_bits);
            let offs = reader.read(self.offs_bits);
            if lnum == self.lebs {
                let what = "the place of an absent child";
                Fault::unless(offs == 0, what, offs, "0")?;
                continue;
            }
            let fits = lnum < self.lebs && offs < self.leb;
            let expected = "a block of the tree's area";
            Fault::unless(fits, "the block of a child", lnum, expected)?;
            *one = Some((self.first + lnum, offs));
        }
        Ok(all)
    }

    /// Reads the table of the tree's own blocks.
    pub fn parse_ltab(&self, bytes: &[u8]) -> Result<Vec<Ltab>, Fault> {
        let mut reader = self.open(bytes, LTAB)?;
        let mut all = Vec::new();
        for _ in 0..self.lebs {
            let free = reader.read(self.total_bits);
            let dirty = reader.read(self.total_bits);
            let sum = free.saturating_add(dirty);
            let fits = sum <= self.leb && free.is_multiple_of(self.min_io);
            let expected = "whole writes of a block";
            Fault::unless(
                fits,
                "the free bytes of a block of the tree",
                free,
                expected,
            )?;
            all.push(Ltab { free, dirty });
        }
        Ok(all)
    }

    /// Reads the list of saved blocks.
    pub fn parse_saved(&self, bytes: &[u8]) -> Result<Vec<u32>, Fault> {
        let mut reader = self.open(bytes, LSAVE)?;
        // A volume may not have grown yet to the blocks that were saved.
        let main = self.main_first..self.lebs_max;
        let mut all = Vec::new();
        for _ in 0..self.saved {
            let lnum = reader.read(self.main_bits);
            let expected = "a block of the main area";
            let fits = main.contains(&lnum);
            Fault::unless(fits, "the number of a saved block", lnum, expected)?;
            all.push(lnum);
        }
        Ok(all)
    }

    /// Packs a leaf with the properties of four blocks.
    pub fn pnode(&self, number: u32, all: &[Props; 4]) -> Vec<u8> {
        let mut writer = self.begin(PNODE, self.pnode_bytes());
        self.number(&mut writer, number);
        for one in all {
            writer.write(one.free >> 3, self.space_bits);
            writer.write(one.dirty >> 3, self.space_bits);
            writer.write(one.is_index.into(), 1);
        }
        summed(writer)
    }

    /// Packs a node above the leaves.
    pub fn nnode(&self, number: u32, all: &[Option<Place>; 4]) -> Vec<u8> {
        let mut writer = self.begin(NNODE, self.nnode_bytes());
        self.number(&mut writer, number);
        for one in all {
            let place = one.map(|(lnum, offs)| (lnum - self.first, offs));
            let (lnum, offs) = place.unwrap_or((self.lebs, 0));
            writer.write(lnum, self.lnum_bits);
            writer.write(offs, self.offs_bits);
        }
        summed(writer)
    }

    /// Packs the table of the tree's own blocks.
    pub fn ltab(&self, all: &[Ltab]) -> Vec<u8> {
        let mut writer = self.begin(LTAB, self.ltab_bytes());
        for one in all {
            writer.write(one.free, self.total_bits);
            writer.write(one.dirty, self.total_bits);
        }
        summed(writer)
    }

    /// Packs the list of saved blocks, as many as there must be.
    pub fn saved(&self, all: impl IntoIterator<Item = u32>) -> Vec<u8> {
        let mut writer = self.begin(LSAVE, self.saved_bytes());
        for lnum in all.into_iter().take(self.saved as usize) {
            writer.write(lnum, self.main_bits);
        }
        summed(writer)
    }

    /// Checks sum and type, and leaves the fields.
    fn open<'a>(&self, bytes: &'a [u8], kind: u32) -> Result<BitReader<'a>, Fault> {
        let mut reader = BitReader::new(bytes);
        let expected = reader.read(CRC_BITS);
        let found = u32::from(crc16(bytes.get(2..).unwrap_or_default()));
        if found != expected {
            let what = "the checksum of a node of the properties";
            return Err(Fault::value(what, found, expected));
        }
        match reader.read(TYPE_BITS) {
            found if found == kind => Ok(reader),
            found => {
                let what = "the type of a node of the properties";
                Err(Fault::value(what, found, kind))
            }
        }
    }

    fn numbered(&self, reader: &mut BitReader<'_>, number: u32) -> Result<(), Fault> {
        if !self.is_big {
            return Ok(());
        }
        let mask = ((1u64 << self.number_bits) - 1) as u32;
        match reader.read(self.number_bits) {
            found if found == number & mask => Ok(()),
            found => {
                let what = "the number of a node of the properties";
                Err(Fault::value(what, found, number & mask))
            }
        }
    }

    fn begin(&self, kind: u32, bytes: usize) -> BitWriter {
        let mut writer = BitWriter::new(bytes);
        writer.write(0, CRC_BITS);
        writer.write(kind, TYPE_BITS);
        writer
    }

    fn number(&self, writer: &mut BitWriter, number: u32) {
        if self.is_big {
            writer.write(number, self.number_bits);
        }
    }
}

fn summed(writer: BitWriter) -> Vec<u8> {
    let mut bytes = writer.finish();
    let sum = crc16(&bytes[2..]).to_le_bytes();
    bytes[..2].copy_from_slice(&sum);
    bytes
}
