//! The first and last block of a checkpoint pack, between which everything else of it lies (Linux
//! `fs/f2fs/checkpoint.c`).
//!
//! *Promises.* A pack is taken only if both are whole and of one version. *Knows nothing of* when
//! checkpoints are written.

use crate::{
    F2fsError, Layout, SeededBug,
    disk::{Block, Disk, zeros},
    format::{BLOCK, MAGIC, SEGMENT, crc, le16, le32, le64, log, put16, put32, put64},
};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;

const CRC: usize = 4092;
const BITMAPS: usize = 192;

/// Bits of the flags of a checkpoint.
pub(crate) mod flag {
    pub const UMOUNT: u32 = 0x1;
    pub const ORPHANS: u32 = 0x2;
    pub const COMPACT: u32 = 0x4;
    pub const FASTBOOT: u32 = 0x20;
    pub const CRC_RECOVERY: u32 = 0x40;
    pub const NAT_BITS: u32 = 0x80;
    pub const TRIMMED: u32 = 0x100;
    pub const NO_CRC_RECOVERY: u32 = 0x200;
    pub const LARGE_NAT_BITMAP: u32 = 0x400;
    pub const DISABLED: u32 = 0x1000;
    pub const RESIZE: u32 = 0x4000;
}

/// Where a log stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    pub segment: u32,
    pub next: u16,
    /// Fills holes rather than a clean segment.
    pub threaded: bool,
}

/// What a checkpoint says.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub version: u64,
    pub user_blocks: u64,
    pub valid_blocks: u64,
    pub reserved: u32,
    pub overprovision: u32,
    pub free: u32,
    pub logs: [LogState; log::COUNT],
    pub flags: u32,
    pub blocks: u32,
    pub start_sum: u32,
    pub nodes: u32,
    pub inodes: u32,
    pub next_nid: u32,
    pub elapsed: u64,
    pub sit_map: Vec<u8>,
    pub nat_map: Vec<u8>,
    /// Which of the two places it was read from or written to last.
    pub second: bool,
    /// The checksum on the medium: part of the mark of nodes that belong behind this checkpoint.
    pub crc: u32,
}

impl Checkpoint {
    /// Where the pack begins.
    pub fn start(&self, layout: &Layout) -> u32 {
        layout.cp + if self.second { SEGMENT } else { 0 }
    }

    /// The mark of nodes that were written behind this checkpoint.
    pub fn mark(&self) -> u64 {
        self.version
            | if self.flags & flag::CRC_RECOVERY != 0 {
                u64::from(self.crc) << 32
            } else {
                0
            }
    }

    /// Whether a node with this mark was written behind this checkpoint.
    pub fn is_behind(&self, mark: u64) -> bool {
        if self.flags & flag::NO_CRC_RECOVERY != 0 {
            mark << 32 == self.version << 32
        } else {
            mark == self.mark()
        }
    }

    /// The newer of the two packs.
    pub fn read<D: BlockDevice>(
        disk: &mut Disk<D>,
        layout: &Layout,
        bug: Option<SeededBug>,
    ) -> Result<Self, F2fsError> {
        let first = Self::read_pack(disk, layout, false, bug)?;
        let second = Self::read_pack(disk, layout, true, bug)?;
        let newest = match (first, second) {
            (Some(first), Some(second)) => Some(if second.version > first.version {
                second
            } else {
                first
            }),
            (first, second) => first.or(second),
        };
        newest.ok_or(F2fsError::NoCheckpoint {
            first: layout.cp,
            second: layout.cp + SEGMENT,
        })
    }

    /// The first block of the other pack, if that is not whole.
    pub fn torn<D: BlockDevice>(
        &self,
        disk: &mut Disk<D>,
        layout: &Layout,
    ) -> Result<Option<u32>, F2fsError> {
        let first = layout.cp + if self.second { 0 } else { SEGMENT };
        match Self::read_pack(disk, layout, !self.second, None) {
            Ok(Some(_)) => Ok(None),
            Ok(None) | Err(F2fsError::Block { .. }) => Ok(Some(first)),
            Err(error) => Err(error),
        }
    }

    fn read_pack<D: BlockDevice>(
        disk: &mut Disk<D>,
        layout: &Layout,
        second: bool,
        bug: Option<SeededBug>,
    ) -> Result<Option<Self>, F2fsError> {
        let start = layout.cp + if second { SEGMENT } else { 0 };
        let head = disk.read(start)?;
        let Some(sum) = checksum(&head) else {
            return Ok(None);
        };
        let blocks = le32(&head, 136);
        if !(2..=SEGMENT).contains(&blocks) {
            return Ok(None);
        }
        let tail = disk.read(start + blocks - 1)?;
        let is_whole = checksum(&tail).is_some() && le64(&head, 0) == le64(&tail, 0);
        if !is_whole && bug != Some(SeededBug::FooterIgnored) {
            return Ok(None);
        }
        let mut pack = Self::parse(&head, layout, start)?;
        (pack.second, pack.crc) = (second, sum);
        if layout.payload > 0 {
            let mut all = Vec::new();
            for block in 1..=layout.payload {
                all.extend_from_slice(&disk.read(start + block)?);
            }
            let bytes = layout.sit_blocks() as usize / 8;
            pack.sit_map = all.get(..bytes).unwrap_or_default().to_vec();
            pack.sit_map.resize(bytes, 0);
        }
        Ok(Some(pack))
    }

    fn parse(head: &[u8], layout: &Layout, block: u32) -> Result<Self, F2fsError> {
        let fail = |offset: usize, field, found: u32, expected| {
            Err(F2fsError::Block {
                block,
                offset: offset as u32,
                field,
                found: found.into(),
                expected,
            })
        };
        let flags = le32(head, 132);
        if flags & (flag::LARGE_NAT_BITMAP | flag::DISABLED | flag::RESIZE) != 0 {
            return fail(
                132,
                "flags",
                flags,
                "no large_nat_bitmap, no disabled checkpoints, no resizing",
            );
        }
        let sit = layout.sit_blocks() as usize / 8;
        let nat = layout.nat_blocks() as usize / 8;
        let in_head = nat + if layout.payload == 0 { sit } else { 0 };
        if le32(head, 156) as usize != sit
            || le32(head, 160) as usize != nat
            || BITMAPS + in_head > CRC
        {
            return fail(
                156,
                "bytes of the tables' bitmaps",
                le32(head, 156),
                "one bit a block",
            );
        }
        let mut logs = [LogState::default(); log::COUNT];
        for (number, log) in logs.iter_mut().enumerate() {
            let (segments, offsets, of) = if number < log::DATA {
                (84, 116, number)
            } else {
                (36, 68, number - log::DATA)
            };
            *log = LogState {
                segment: le32(head, segments + 4 * of),
                next: le16(head, offsets + 2 * of),
                threaded: head[176 + number] != 0,
            };
            if log.segment >= layout.segments_main || u32::from(log.next) > SEGMENT {
                return fail(
                    segments + 4 * of,
                    "segment of a log",
                    log.segment,
                    "a segment of the main area",
                );
            }
        }
        let blocks = le32(head, 136);
        let start_sum = le32(head, 140);
        if start_sum <= layout.payload || start_sum >= blocks {
            return fail(
                140,
                "first block of summaries",
                start_sum,
                "a block of the pack",
            );
        }
        let reserved = le32(head, 24);
        let overprovision = le32(head, 28);
        let user = le64(head, 8);
        if user > u64::from(layout.segments_main) * u64::from(SEGMENT)
            || reserved >= layout.segments_main
        {
            return fail(24, "reserved segments", reserved, "fewer than there are");
        }
        let valid = le64(head, 16);
        let nodes = le32(head, 144);
        let inodes = le32(head, 148);
        if valid > user {
            return fail(
                16,
                "valid blocks",
                valid.min(u64::from(u32::MAX)) as u32,
                "no more than users may have",
            );
        }
        if nodes > layout.nids() || inodes > nodes {
            return fail(
                144,
                "valid nodes",
                nodes,
                "no more than their table has, nor fewer than inodes",
            );
        }
        let sit_map = if layout.payload == 0 {
            head[BITMAPS..BITMAPS + sit].to_vec()
        } else {
            vec![0; sit]
        };
        let nat_at = BITMAPS + if layout.payload == 0 { sit } else { 0 };
        Ok(Self {
            version: le64(head, 0),
            user_blocks: user,
            valid_blocks: valid,
            reserved,
            overprovision,
            free: le32(head, 32),
            logs,
            flags,
            blocks,
            start_sum,
            nodes,
            inodes,
            next_nid: le32(head, 152),
            elapsed: le64(head, 168),
            sit_map,
            nat_map: head[nat_at..nat_at + nat].to_vec(),
            second: false,
            crc: 0,
        })
    }

    /// The first and last block; sets the checksum.
    pub fn encode(&mut self, layout: &Layout) -> Block {
        let mut head = zeros();
        for (at, value) in [
            (0, self.version),
            (8, self.user_blocks),
            (16, self.valid_blocks),
            (168, self.elapsed),
        ] {
            put64(&mut head, at, value);
        }
        head[36..68].fill(0xFF);
        head[84..116].fill(0xFF);
        for (number, log) in self.logs.iter().enumerate() {
            let (segments, offsets, of) = if number < log::DATA {
                (84, 116, number)
            } else {
                (36, 68, number - log::DATA)
            };
            put32(&mut head, segments + 4 * of, log.segment);
            put16(&mut head, offsets + 2 * of, log.next);
            head[176 + number] = log.threaded.into();
        }
        let words = [
            (24, self.reserved),
            (28, self.overprovision),
            (32, self.free),
            (132, self.flags),
            (136, self.blocks),
            (140, self.start_sum),
            (144, self.nodes),
            (148, self.inodes),
            (152, self.next_nid),
            (156, self.sit_map.len() as u32),
            (160, self.nat_map.len() as u32),
            (164, CRC as u32),
        ];
        words
            .iter()
            .for_each(|(at, value)| put32(&mut head, *at, *value));
        let mut at = BITMAPS;
        if layout.payload == 0 {
            head[at..at + self.sit_map.len()].copy_from_slice(&self.sit_map);
            at += self.sit_map.len();
        }
        head[at..at + self.nat_map.len()].copy_from_slice(&self.nat_map);
        self.crc = crc(MAGIC, &head[..CRC]);
        put32(&mut head, CRC, self.crc);
        head
    }

    /// The blocks behind the first one where the bitmaps do not fit into that.
    pub fn payload(&self, layout: &Layout) -> Vec<Block> {
        let mut blocks: Vec<Block> = (0..layout.payload).map(|_| zeros()).collect();
        for (block, part) in blocks.iter_mut().zip(self.sit_map.chunks(BLOCK)) {
            block[..part.len()].copy_from_slice(part);
        }
        blocks
    }
}

/// The checksum of a whole block.
fn checksum(block: &[u8]) -> Option<u32> {
    let at = le32(block, 164) as usize;
    if !(BITMAPS..=CRC).contains(&at) {
        return None;
    }
    let found = le32(block, at);
    let mut expected = crc(MAGIC, &block[..at]);
    if at < CRC {
        expected = crc(expected, &block[at + 4..]);
    }
    (found == expected).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{F2fs, Format, Options, format};
    use alloc::string::ToString;
    use nandlab_block::Ram;

    fn mounted() -> F2fs<Ram> {
        let mut disk = Ram::new(512, 60 << 11);
        format(&mut disk, &Format::default()).unwrap();
        F2fs::mount(disk, Options::default()).unwrap()
    }

    #[test]
    fn bitmaps_too_long_for_the_head_lie_in_the_blocks_behind_it() {
        let mut fs = mounted();
        let mut layout = fs.layout.clone();
        // A table of 65,536 blocks: a bitmap of two blocks.
        (layout.payload, layout.segments_sit) = (2, 256);
        let mut pack = fs.checkpoint.clone();
        (pack.blocks, pack.start_sum) = (8, 3);
        pack.sit_map = (0..2 * BLOCK).map(|i| (i * 7 / 3) as u8).collect();
        let start = pack.start(&layout);
        let head = pack.encode(&layout);
        let between = pack.payload(&layout);
        for (addr, block) in (start..).zip(core::iter::once(&head).chain(&between)) {
            fs.disk.write(addr, block).unwrap();
        }
        fs.disk.write(start + pack.blocks - 1, &head).unwrap();
        let found = Checkpoint::read_pack(&mut fs.disk, &layout, pack.second, None);
        let found = found.unwrap().unwrap();
        assert!(found.sit_map == pack.sit_map && found.nat_map == pack.nat_map);
    }

    #[test]
    fn a_volume_without_a_checkpoint_names_both_places() {
        let mut fs = mounted();
        let layout = fs.layout.clone();
        for first in [512, 1024] {
            fs.disk.write(first, &zeros()).unwrap();
        }
        let found = Checkpoint::read(&mut fs.disk, &layout, None).err().unwrap();
        let text = found.to_string();
        assert!(text.contains("512") && text.contains("1024"), "{text}");
    }

    /// A change of a head, the last values within its rule, the first beyond, and the field.
    type Rule = (fn(&mut Checkpoint, u32), Vec<u32>, Vec<u32>, &'static str);

    #[rustfmt::skip]
    fn rules(layout: &Layout) -> Vec<Rule> {
        let main = layout.segments_main;
        let blocks = main * SEGMENT;
        let nids = layout.nids();
        let refused = vec![flag::DISABLED, flag::RESIZE, flag::LARGE_NAT_BITMAP];
        vec![
            (|c, v| c.flags |= v, vec![0], refused, "flags"),
            (|c, v| c.sit_map.resize(v as usize, 0), vec![64], vec![63, 65], "bitmaps"),
            (|c, v| c.nat_map.resize(v as usize, 0), vec![64], vec![63, 65], "bitmaps"),
            (|c, v| c.logs[0].segment = v, vec![main - 1], vec![main], "segment of a log"),
            (|c, v| c.logs[5].segment = v, vec![main - 1], vec![main], "segment of a log"),
            (|c, v| c.logs[2].next = v as u16, vec![0, 512], vec![513], "segment of a log"),
            (|c, v| c.logs[3].next = v as u16, vec![0, 512], vec![513], "segment of a log"),
            (|c, v| c.start_sum = v, vec![1, 5], vec![0, 6], "first block of summaries"),
            (|c, v| c.user_blocks = v.into(), vec![blocks], vec![blocks + 1], "reserved segments"),
            (|c, v| c.reserved = v, vec![0, main - 1], vec![main], "reserved segments"),
            (|c, v| c.valid_blocks = u64::from(v), vec![900], vec![901], "valid blocks"),
            (|c, v| c.nodes = v, vec![7, nids], vec![6, nids + 1], "valid nodes"),
            (|c, v| c.inodes = v, vec![0, 9], vec![10], "valid nodes"),
        ]
    }

    #[test]
    fn each_rule_of_a_head_holds_from_its_bound_on() {
        let fs = mounted();
        let layout = &fs.layout;
        let mut whole = fs.checkpoint.clone();
        (whole.blocks, whole.user_blocks, whole.valid_blocks) = (6, 900, 9);
        (whole.nodes, whole.inodes) = (9, 7);
        for (number, (change, within, beyond, field)) in rules(layout).into_iter().enumerate() {
            let parsed = |value: u32| {
                let mut pack = whole.clone();
                change(&mut pack, value);
                let head = pack.encode(layout);
                (Checkpoint::parse(&head, layout, 512), pack)
            };
            for value in within {
                let (found, pack) = parsed(value);
                let found = found.unwrap();
                assert_eq!(
                    (found.logs, found.nodes, found.inodes, found.start_sum),
                    (pack.logs, pack.nodes, pack.inodes, pack.start_sum),
                    "rule {number}: {value}"
                );
            }
            for value in beyond {
                let error = parsed(value).0.err().map(|error| error.to_string());
                let error = error.unwrap_or_default();
                assert!(error.contains(field), "rule {number}: {value}: {error}");
            }
        }
    }
}
