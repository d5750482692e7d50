//! The superblock: shape of the volume, checked so far that no address computed from it can leave
//! the volume.

use crate::{
    F2fsError,
    format::{BLOCK, MAGIC, NAT_ENTRIES, SEGMENT, SIT_ENTRIES, crc, le32, le64},
};
use alloc::vec::Vec;

/// Where the superblock lies in blocks 0 and 1.
pub(crate) const OFFSET: usize = 1024;
pub(crate) const BYTES: usize = 3072;

/// Byte offsets of the superblock's fields.
pub(crate) mod at {
    pub const MAGIC: usize = 0;
    pub const MAJOR: usize = 4;
    pub const MINOR: usize = 6;
    pub const LOG_SECTOR: usize = 8;
    pub const LOG_SECTORS_PER_BLOCK: usize = 12;
    pub const LOG_BLOCK: usize = 16;
    pub const LOG_SEGMENT: usize = 20;
    pub const SEGS_PER_SEC: usize = 24;
    pub const SECS_PER_ZONE: usize = 28;
    pub const CHECKSUM_OFFSET: usize = 32;
    pub const BLOCKS: usize = 36;
    pub const SECTIONS: usize = 44;
    pub const SEGMENTS: usize = 48;
    pub const SEGMENTS_CP: usize = 52;
    pub const SEGMENTS_SIT: usize = 56;
    pub const SEGMENTS_NAT: usize = 60;
    pub const SEGMENTS_SSA: usize = 64;
    pub const SEGMENTS_MAIN: usize = 68;
    pub const SEGMENT0: usize = 72;
    pub const CP: usize = 76;
    pub const SIT: usize = 80;
    pub const NAT: usize = 84;
    pub const SSA: usize = 88;
    pub const MAIN: usize = 92;
    pub const ROOT: usize = 96;
    pub const NODE: usize = 100;
    pub const META: usize = 104;
    pub const UUID: usize = 108;
    pub const LABEL: usize = 124;
    pub const EXTENSION_COUNT: usize = 1148;
    pub const EXTENSIONS: usize = 1152;
    pub const CP_PAYLOAD: usize = 1664;
    pub const VERSION: usize = 1668;
    pub const INIT_VERSION: usize = 1924;
    pub const FEATURE: usize = 2180;
    pub const QUOTA_INODES: usize = 2745;
    pub const HOT_EXTENSIONS: usize = 2757;
    pub const CRC: usize = 3068;
}

/// What a feature asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Nothing that is missing here; single inodes may need more: see [`crate::sealed`].
    Nothing,
    /// Matters to a writer only.
    Writer,
    /// Matters to a reader, too.
    Reader,
}

const FEATURES: [(u32, Need, &str); 15] = [
    (0x0001, Need::Nothing, "encrypt"),
    (0x0002, Need::Writer, "blkzoned"),
    (0x0004, Need::Nothing, "atomic_write"),
    (0x0008, Need::Nothing, "extra_attr"),
    (0x0010, Need::Writer, "project_quota"),
    (0x0020, Need::Nothing, "inode_checksum"),
    (0x0040, Need::Nothing, "flexible_inline_xattr"),
    (0x0080, Need::Writer, "quota"),
    (0x0100, Need::Nothing, "inode_crtime"),
    (0x0200, Need::Nothing, "lost_found"),
    (0x0400, Need::Nothing, "verity"),
    (0x0800, Need::Nothing, "sb_checksum"),
    (0x1000, Need::Writer, "casefold"),
    (0x2000, Need::Nothing, "compression"),
    (0x4000, Need::Reader, "ro"),
];

/// Feature bits that matter here.
pub(crate) mod feature {
    pub const EXTRA_ATTR: u32 = 0x0008;
    pub const QUOTA: u32 = 0x0080;
    pub const INODE_CHECKSUM: u32 = 0x0020;
    pub const FLEXIBLE_XATTR: u32 = 0x0040;
    pub const BIRTH: u32 = 0x0100;
    pub const SB_CHECKSUM: u32 = 0x0800;
    pub const CASEFOLD: u32 = 0x1000;
    pub const COMPRESSION: u32 = 0x2000;
}

/// Shape of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of 4096 bytes.
    pub blocks: u64,
    /// Segments of a section, the unit of cleaning.
    pub segs_per_sec: u32,
    /// Sections of a zone.
    pub secs_per_zone: u32,
    /// Segments in all, from `segment0` on.
    pub segments: u32,
    /// Segments of both copies of the segment information table.
    pub segments_sit: u32,
    /// Segments of both copies of the node address table.
    pub segments_nat: u32,
    /// Segments of the segment summary area.
    pub segments_ssa: u32,
    /// Segments for nodes and contents.
    pub segments_main: u32,
    /// First block of the checkpoint area.
    pub cp: u32,
    /// First block of the segment information table.
    pub sit: u32,
    /// First block of the node address table.
    pub nat: u32,
    /// First block of the segment summary area.
    pub ssa: u32,
    /// First block for nodes and contents.
    pub main: u32,
    /// The root directory's inode.
    pub root: u32,
    /// Blocks behind a checkpoint's first that continue its bitmaps.
    pub payload: u32,
    /// The feature bits of the superblock.
    pub features: u32,
    /// Inode numbers of the quota files, which have no names; 0 means no file.
    pub quotas: [u32; 3],
    /// The UUID of the volume.
    pub uuid: [u8; 16],
    /// Ends of names whose files are cold.
    pub(crate) cold: Vec<[u8; 8]>,
    /// Ends of names whose files are hot.
    pub(crate) hot: Vec<[u8; 8]>,
}

/// The bytes that a volume takes by its own superblock, up to the end of its main area. The
/// superblock, or its copy, lies in `head`, the first 8192 bytes of the device; none where neither
/// is understood.
pub fn declared_bytes(head: &[u8]) -> Option<u64> {
    let layouts = head
        .chunks(BLOCK)
        .take(2)
        .filter_map(|block| Layout::parse(block.get(OFFSET..)?.get(..BYTES)?, u64::MAX).ok());
    layouts
        .map(|layout| {
            (u64::from(layout.main) + u64::from(layout.segments_main) * u64::from(SEGMENT))
                * BLOCK as u64
        })
        .next()
}

impl Layout {
    /// Reads and judges the 3072 bytes of a superblock on a device of so many blocks.
    pub(crate) fn parse(bytes: &[u8], device_blocks: u64) -> Result<Self, F2fsError> {
        let expect = |offset: usize, field, expected: u32, text| match le32(bytes, offset) {
            found if found == expected => Ok(()),
            found => Err(wrong(offset, field, found.into(), text)),
        };
        expect(at::MAGIC, "magic number", MAGIC, "0xF2F52010")?;
        check_crc(bytes)?;
        check_sectors(bytes)?;
        check_extensions(bytes)?;
        expect(at::LOG_BLOCK, "size of a block", 12, "2^12 bytes")?;
        expect(at::LOG_SEGMENT, "size of a segment", 9, "2^9 blocks")?;
        expect(at::SEGMENTS_CP, "segments for checkpoints", 2, "2")?;
        expect(at::NODE, "node inode", 1, "1")?;
        expect(at::META, "meta inode", 2, "2")?;
        expect(at::ROOT, "root inode", 3, "3")?;
        let features = le32(bytes, at::FEATURE);
        check_features(features)?;
        let word = |offset| le32(bytes, offset);
        let layout = Self {
            blocks: le64(bytes, at::BLOCKS),
            segs_per_sec: word(at::SEGS_PER_SEC),
            secs_per_zone: word(at::SECS_PER_ZONE),
            segments: word(at::SEGMENTS),
            segments_sit: word(at::SEGMENTS_SIT),
            segments_nat: word(at::SEGMENTS_NAT),
            segments_ssa: word(at::SEGMENTS_SSA),
            segments_main: word(at::SEGMENTS_MAIN),
            cp: word(at::CP),
            sit: word(at::SIT),
            nat: word(at::NAT),
            ssa: word(at::SSA),
            main: word(at::MAIN),
            root: word(at::ROOT),
            payload: word(at::CP_PAYLOAD),
            features,
            quotas: [0, 4, 8].map(|at| word(at::QUOTA_INODES + at)),
            uuid: core::array::from_fn(|i| bytes[at::UUID + i]),
            cold: Vec::new(),
            hot: Vec::new(),
        };
        layout.check(word(at::SEGMENT0), word(at::SECTIONS), device_blocks)?;
        Ok(layout.with_extensions(bytes))
    }

    fn with_extensions(mut self, bytes: &[u8]) -> Self {
        let cold = le32(bytes, at::EXTENSION_COUNT) as usize;
        let hot = usize::from(bytes[at::HOT_EXTENSIONS]);
        let extension = |i: usize| core::array::from_fn(|j| bytes[at::EXTENSIONS + 8 * i + j]);
        self.cold = (0..cold).map(extension).collect();
        self.hot = (cold..cold + hot).map(extension).collect();
        self
    }

    /// Areas follow each other, have the sizes that their contents need, and end on the device.
    fn check(&self, segment0: u32, sections: u32, device_blocks: u64) -> Result<(), F2fsError> {
        let fail = |offset, field, found, expected| Err(wrong(offset, field, found, expected));
        let after =
            |start: u32, segments: u32| u64::from(start) + u64::from(segments) * u64::from(SEGMENT);
        let areas = [
            (at::CP, "checkpoint area", self.cp, u64::from(segment0)),
            (
                at::SIT,
                "segment information table",
                self.sit,
                after(self.cp, 2),
            ),
            (
                at::NAT,
                "node address table",
                self.nat,
                after(self.sit, self.segments_sit),
            ),
            (
                at::SSA,
                "segment summary area",
                self.ssa,
                after(self.nat, self.segments_nat),
            ),
        ];
        for (offset, field, found, expected) in areas {
            if u64::from(found) != expected {
                return fail(offset, field, found.into(), "the end of the area before");
            }
        }
        let end = after(self.main, self.segments_main);
        if u64::from(self.main) < after(self.ssa, self.segments_ssa) || segment0 < 2 {
            return fail(
                at::MAIN,
                "main area",
                self.main.into(),
                "a place behind the summaries",
            );
        }
        if end > self.blocks.min(device_blocks) || end > u64::from(u32::MAX) {
            return fail(
                at::BLOCKS,
                "end of the main area",
                end,
                "a block of the device",
            );
        }
        let per_sec = u64::from(self.segs_per_sec);
        if per_sec == 0
            || u64::from(sections) * per_sec != u64::from(self.segments_main)
            || self.segments_main < 6
        {
            return fail(
                at::SEGMENTS_MAIN,
                "segments of the main area",
                self.segments_main.into(),
                "whole sections, at least 6 segments",
            );
        }
        if self.secs_per_zone == 0 || self.secs_per_zone > sections {
            return fail(
                at::SECS_PER_ZONE,
                "sections of a zone",
                self.secs_per_zone.into(),
                "1 to all of them",
            );
        }
        let pairs = self.segments_sit.is_multiple_of(2)
            && self.segments_nat.is_multiple_of(2)
            && self.segments_nat > 0;
        if !pairs
            || self.sit_blocks() * SIT_ENTRIES < self.segments_main
            || self.segments_ssa * SEGMENT < self.segments_main
        {
            return fail(
                at::SEGMENTS_SIT,
                "segments of the tables",
                self.segments_sit.into(),
                "two copies with space for all segments",
            );
        }
        if self.payload > SEGMENT / 2 {
            return fail(
                at::CP_PAYLOAD,
                "blocks of bitmaps",
                self.payload.into(),
                "at most 256",
            );
        }
        Ok(())
    }

    /// Blocks of one copy of the segment information table.
    pub(crate) fn sit_blocks(&self) -> u32 {
        self.segments_sit / 2 * SEGMENT
    }

    /// Blocks of one copy of the node address table.
    pub(crate) fn nat_blocks(&self) -> u32 {
        self.segments_nat / 2 * SEGMENT
    }

    /// The first number that no node can have.
    pub(crate) fn nids(&self) -> u32 {
        self.nat_blocks().saturating_mul(NAT_ENTRIES)
    }

    pub(crate) fn sections(&self) -> u32 {
        self.segments_main / self.segs_per_sec
    }

    /// First block of a segment.
    pub(crate) fn start(&self, segment: u32) -> u32 {
        self.main + segment * SEGMENT
    }

    /// The segment of a block and the block's place in it; none outside of the main area.
    pub(crate) fn place(&self, addr: u32) -> Option<(u32, usize)> {
        let block = addr.checked_sub(self.main)?;
        (block / SEGMENT < self.segments_main)
            .then_some((block / SEGMENT, (block % SEGMENT) as usize))
    }

    /// Refuses volumes that can only be read.
    pub(crate) fn check_writable(&self) -> Result<(), F2fsError> {
        match find_need(self.features, Need::Writer) {
            Some((bit, name)) => Err(F2fsError::OnlyRead { bit, name }),
            None => Ok(()),
        }
    }

    pub(crate) fn has(&self, feature: u32) -> bool {
        self.features & feature != 0
    }
}

/// The error for a wrong field.
fn wrong(offset: usize, field: &'static str, found: u64, expected: &'static str) -> F2fsError {
    F2fsError::Super {
        offset: offset as u16,
        field,
        found,
        expected,
    }
}

fn check_crc(bytes: &[u8]) -> Result<(), F2fsError> {
    if le32(bytes, at::FEATURE) & feature::SB_CHECKSUM == 0 {
        return Ok(());
    }
    let found = le32(bytes, at::CRC);
    let expected = crc(MAGIC, &bytes[..at::CRC]);
    match found == expected && le32(bytes, at::CHECKSUM_OFFSET) as usize == at::CRC {
        true => Ok(()),
        false => {
            let expected = "that of the bytes before";
            Err(wrong(at::CRC, "checksum", found.into(), expected))
        }
    }
}

/// Linux takes sectors of 512 to 4096 bytes of which whole ones make a block (`fs/f2fs/super.c`,
/// `sanity_check_raw_super`).
fn check_sectors(bytes: &[u8]) -> Result<(), F2fsError> {
    let size = le32(bytes, at::LOG_SECTOR);
    let of_block = le32(bytes, at::LOG_SECTORS_PER_BLOCK);
    if !(9..=12).contains(&size) {
        let expected = "2^9 to 2^12 bytes";
        return Err(wrong(
            at::LOG_SECTOR,
            "size of a sector",
            size.into(),
            expected,
        ));
    }
    if size + of_block.min(12) != 12 {
        let expected = "as many as fill 2^12 bytes";
        let offset = at::LOG_SECTORS_PER_BLOCK;
        return Err(wrong(
            offset,
            "sectors of a block",
            of_block.into(),
            expected,
        ));
    }
    Ok(())
}

/// There is space for 64 name extensions, hot ones included.
fn check_extensions(bytes: &[u8]) -> Result<(), F2fsError> {
    let cold = u64::from(le32(bytes, at::EXTENSION_COUNT));
    let hot = u64::from(bytes[at::HOT_EXTENSIONS]);
    match cold + hot <= 64 {
        true => Ok(()),
        false => {
            let field = "name extensions";
            Err(wrong(at::EXTENSION_COUNT, field, cold + hot, "at most 64"))
        }
    }
}

/// Finds a feature that asks for more than is there.
fn find_need(features: u32, need: Need) -> Option<(u32, &'static str)> {
    let mut all = FEATURES.iter();
    let found = all.find(|(bit, of, _)| features & bit != 0 && *of == need);
    found.map(|(bit, _, name)| (*bit, *name))
}

fn check_features(features: u32) -> Result<(), F2fsError> {
    let known = FEATURES.iter().fold(0, |all, (bit, ..)| all | bit);
    if let Some((bit, name)) = find_need(features, Need::Reader) {
        return Err(F2fsError::Feature { bit, name });
    }
    match features & !known {
        0 => Ok(()),
        unknown => Err(F2fsError::Feature {
            bit: unknown & unknown.wrapping_neg(),
            name: "one without a name here",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::mkfs::{superblock, test_layout};
    use alloc::string::{String, ToString};

    /// Parses the superblock of a layout; gives the error.
    fn refused(layout: &Layout, device_blocks: u64) -> Option<String> {
        let block = superblock(layout, &Format::default());
        let parsed = Layout::parse(&block[OFFSET..], device_blocks);
        parsed.err().map(|error| error.to_string())
    }

    /// The areas of a layout one behind the other, with main segments up to the end.
    fn placed(mut layout: Layout) -> Layout {
        layout.sit = layout.cp + 2 * SEGMENT;
        layout.nat = layout.sit + layout.segments_sit * SEGMENT;
        layout.ssa = layout.nat + layout.segments_nat * SEGMENT;
        layout.main = layout.ssa + layout.segments_ssa * SEGMENT;
        layout.segments_main = (layout.blocks as u32 - layout.main) / SEGMENT;
        layout
    }

    /// A change of a layout, the last values within its rule, the first beyond, and the field.
    type Rule = (
        fn(&mut Layout, u32),
        &'static [u32],
        &'static [u32],
        &'static str,
    );

    #[rustfmt::skip]
    const RULES: &[Rule] = &[
        (|l, v| l.sit = v, &[1536], &[1535, 1537], "segment information table"),
        (|l, v| l.nat = v, &[2560], &[2559, 2561], "node address table"),
        (|l, v| l.ssa = v, &[3584], &[3583, 3585], "segment summary area"),
        (|l, v| l.main = v, &[4096], &[4095], "main area"),
        (|l, v| l.main = v, &[4096], &[4097], "end of the main area"),
        (|l, v| l.blocks = v.into(), &[16384, 16385], &[16383], "end of the main area"),
        (|l, v| l.segments_main = v, &[6, 24], &[0, 5], "segments of the main area"),
        (|l, v| l.segs_per_sec = v, &[1, 3, 24], &[5, 25], "segments of the main area"),
        (|l, v| l.secs_per_zone = v, &[1, 24], &[0, 25], "sections of a zone"),
        (|l, v| l.payload = v, &[0, 256], &[257], "blocks of bitmaps"),
        (|l, v| l.features = v, &[0], &[1 << 15, 1 << 31], "feature"),
    ];

    #[test]
    fn each_rule_of_a_superblock_holds_from_its_bound_on() {
        for (number, (change, within, beyond, field)) in RULES.iter().enumerate() {
            let judged = |value: u32| {
                let mut layout = test_layout();
                change(&mut layout, value);
                refused(&layout, 16384)
            };
            for value in *within {
                assert_eq!(judged(*value), None, "rule {number}: {value}");
            }
            for value in *beyond {
                let error = judged(*value).unwrap_or_default();
                assert!(error.contains(field), "rule {number}: {value}: {error}");
            }
        }
        let error = refused(&test_layout(), 16383).unwrap_or_default();
        assert!(error.contains("end of the main area"), "{error}");
    }

    #[test]
    fn tables_come_in_pairs_and_have_space_for_all_segments() {
        let tables = |sit, nat, ssa| {
            let mut layout = test_layout();
            (layout.segments_sit, layout.segments_nat) = (sit, nat);
            layout.segments_ssa = ssa;
            refused(&placed(layout), 16384).is_none()
        };
        let whole = [(2, 2, 1), (4, 2, 1), (2, 4, 1), (2, 2, 2)];
        assert!(
            whole
                .into_iter()
                .all(|(sit, nat, ssa)| tables(sit, nat, ssa))
        );
        let broken = [
            (0, 2, 1),
            (1, 2, 1),
            (3, 2, 1),
            (2, 0, 1),
            (2, 1, 1),
            (2, 3, 1),
            (2, 2, 0),
        ];
        assert!(
            !broken
                .into_iter()
                .any(|(sit, nat, ssa)| tables(sit, nat, ssa))
        );
        // 512 blocks of 55 segments; 512 segments to a segment of summaries.
        let long = |main: u32, ssa: u32| {
            let mut layout = test_layout();
            (layout.blocks, layout.segments_ssa) = (u64::MAX, ssa);
            let mut layout = placed(Layout {
                blocks: 1 << 25,
                ..layout
            });
            layout.segments_main = main;
            refused(&layout, u64::MAX).is_none()
        };
        assert!(long(28_160, 55) && !long(28_161, 56));
        assert!(long(27_648, 54) && !long(27_649, 54));
    }

    #[test]
    fn a_volume_ends_before_the_greatest_block_number() {
        let ends_at = |end: u32| {
            let mut layout = test_layout();
            (layout.segments_sit, layout.segments_ssa) = (570, 15_625);
            let mut layout = placed(Layout {
                blocks: 1 << 31,
                ..layout
            });
            layout.blocks = u64::MAX;
            layout.segments_main = 8_000_000;
            layout.main = end - 8_000_000 * SEGMENT;
            refused(&layout, u64::MAX).is_none()
        };
        assert!(ends_at(u32::MAX));
        let mut layout = test_layout();
        layout.cp = 1;
        assert!(refused(&placed(layout.clone()), 16384).is_some());
        layout.cp = 2;
        assert_eq!(refused(&placed(layout), 16384), None);
    }

    #[test]
    fn only_blocks_of_the_main_area_have_a_segment() {
        let layout = test_layout();
        let end = layout.main + layout.segments_main * SEGMENT;
        let last = SEGMENT as usize - 1;
        assert_eq!(layout.place(layout.main - 1), None);
        assert_eq!(layout.place(layout.main), Some((0, 0)));
        assert_eq!(
            layout.place(end - 1),
            Some((layout.segments_main - 1, last))
        );
        assert_eq!(layout.place(end), None);
    }
}
