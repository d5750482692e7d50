//! Bytes of incremental commits and of the chain: leaves, index, anchors. `docs/formats/ubil.md`
//! has them as tables.
//!
//! *Leaves* are pages of two tables: what each physical block is, and where each logical block of
//! each volume lies. The *index* says where the leaves are. An *anchor* says where the super blocks
//! are.

use super::format::{ROLES, Role, judge_shape, put_shape};
use crate::Shape;
use crate::device::compat;
use crate::format::{
    EC_MAX, FieldError, LAYOUT_VOLUME, VidHeader, VolumeKind, be32, be64, crc, crc_of, put, rule,
    value,
};
use crate::log::format::Entry;
use alloc::{vec, vec::Vec};

const LEAF_MAGIC: u32 = 0x5542_4C54;
const INDEX_MAGIC: u32 = 0x5542_4C49;
const ANCHOR_MAGIC: u32 = 0x5542_4C41;
const VERSION: u32 = 1;
const LEAF_HEADER: usize = 32;
const BLOCK: usize = 32;
const LEB: usize = 4;
const INDEX_HEADER: usize = 64;
const PLACE: usize = 8;
const LINE: usize = 28;
const ANCHOR: usize = 64;
/// Stands for no block in a table.
const NONE: u32 = u32::MAX;

/// A volume as an index has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The id of the volume.
    pub id: u32,
    /// The type of the volume.
    pub kind: VolumeKind,
    /// The logical erase blocks reserved for it.
    pub reserved: u32,
    /// Bytes at the end of each that its alignment leaves unused.
    pub data_pad: u32,
    /// Logical blocks with contents, of a static one.
    pub used_ebs: u32,
    /// Bytes in the last of them.
    pub last_bytes: u32,
    /// Logical blocks of a static one are missing.
    pub corrupted: bool,
}

/// Where a leaf is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The page of a copy.
    pub at: u32,
    /// Free blocks on it.
    pub free: u32,
}

/// What an incremental commit ends with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The leaves: of physical blocks, then of logical ones.
    pub leaves: Vec<Place>,
    /// The volumes, in the order of their logical blocks in the table.
    pub lines: Vec<Line>,
    /// Blocks to be left alone.
    pub preserved: u32,
}

/// Physical blocks of a leaf.
pub fn blocks_per_leaf(page: u32) -> u32 {
    (page - LEAF_HEADER as u32) / BLOCK as u32
}

/// Logical blocks of a leaf.
pub fn lebs_per_leaf(page: u32) -> u32 {
    (page - LEAF_HEADER as u32) / LEB as u32
}

/// Bytes of an index.
pub fn index_bytes(leaves: usize, lines: usize) -> usize {
    INDEX_HEADER + leaves * PLACE + lines * LINE
}

fn leaf(commit: u64, number: u32, entries: usize, page: u32) -> Vec<u8> {
    let mut bytes = vec![0; page as usize];
    for (at, field) in [
        (0, LEAF_MAGIC),
        (4, VERSION),
        (16, number),
        (20, entries as u32),
    ] {
        put(&mut bytes, at, &field.to_be_bytes());
    }
    put(&mut bytes, 8, &commit.to_be_bytes());
    bytes
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc_of(&[&bytes[..28], &bytes[LEAF_HEADER..]]);
    put(&mut bytes, 28, &sum.to_be_bytes());
    bytes
}

fn open_leaf(bytes: &[u8], number: u32, count: u32) -> Result<(), FieldError> {
    value(0, "leaf magic", be32(bytes, 0), LEAF_MAGIC)?;
    value(
        28,
        "leaf checksum",
        be32(bytes, 28),
        crc_of(&[&bytes[..28], &bytes[LEAF_HEADER..]]),
    )?;
    value(4, "leaf version", be32(bytes, 4), VERSION)?;
    value(16, "leaf number", be32(bytes, 16), number)?;
    value(20, "entries of a leaf", be32(bytes, 20), count)
}

/// A leaf of physical blocks.
pub fn encode_blocks(commit: u64, number: u32, entries: &[Entry], page: u32) -> Vec<u8> {
    let mut bytes = leaf(commit, number, entries.len(), page);
    for (entry, bytes) in entries
        .iter()
        .zip(bytes[LEAF_HEADER..].chunks_exact_mut(BLOCK))
    {
        bytes[0] = ROLES
            .iter()
            .position(|role| *role == entry.role)
            .unwrap_or(0) as u8;
        put(bytes, 4, &entry.ec.to_be_bytes());
        if entry.role == Role::Mapped {
            put_vid(&entry.vid, bytes);
        }
    }
    seal(bytes)
}

fn put_vid(vid: &VidHeader, bytes: &mut [u8]) {
    bytes[1] = u8::from(vid.copy);
    let fields = [vid.volume, vid.lnum, vid.data_size, vid.data_crc];
    (8..)
        .step_by(4)
        .zip(fields)
        .for_each(|(at, field)| put(bytes, at, &field.to_be_bytes()));
    put(bytes, 24, &vid.sqnum.to_be_bytes());
}

/// The leaf of physical blocks with that number, which has `count`.
pub fn parse_blocks(
    bytes: &[u8],
    number: u32,
    count: u32,
    lines: &[Line],
    shape: &Shape,
) -> Result<Vec<Entry>, FieldError> {
    open_leaf(bytes, number, count)?;
    let blocks = bytes[LEAF_HEADER..]
        .chunks_exact(BLOCK)
        .take(count as usize)
        .enumerate();
    blocks
        .map(|(i, bytes)| parse_block(bytes, (LEAF_HEADER + i * BLOCK) as u32, lines, shape))
        .collect()
}

fn parse_block(bytes: &[u8], at: u32, lines: &[Line], shape: &Shape) -> Result<Entry, FieldError> {
    let Some(&role) = ROLES.get(usize::from(bytes[0])) else {
        return Err(rule(false, at, "role", bytes[0], "0 to 5").unwrap_err());
    };
    let ec = be32(bytes, 4);
    rule(ec <= EC_MAX, at + 4, "erase counter", ec, "below 2^31")?;
    if role != Role::Mapped {
        return Ok(Entry {
            role,
            ec,
            vid: VidHeader::default(),
        });
    }
    rule(bytes[1] <= 1, at + 1, "copy flag", bytes[1], "0 or 1")?;
    let volume = be32(bytes, 8);
    let lnum = be32(bytes, 12);
    let Some(line) = lines
        .iter()
        .find(|line| line.id == volume && lnum < line.reserved)
    else {
        return Err(rule(
            false,
            at + 8,
            "logical block of volume",
            volume,
            "one of the index",
        )
        .unwrap_err());
    };
    let vid = VidHeader {
        kind: line.kind,
        copy: bytes[1] == 1,
        compat: compat(volume),
        volume,
        lnum,
        data_size: be32(bytes, 16),
        used_ebs: if line.kind == VolumeKind::Static {
            line.used_ebs
        } else {
            0
        },
        data_pad: line.data_pad,
        data_crc: be32(bytes, 20),
        sqnum: be64(bytes, 24),
    };
    vid.judge(shape.leb_bytes).map_err(|error| FieldError {
        offset: at,
        ..error
    })?;
    Ok(Entry { role, ec, vid })
}

/// A leaf of logical blocks.
pub fn encode_lebs(commit: u64, number: u32, pebs: &[Option<u32>], page: u32) -> Vec<u8> {
    let mut bytes = leaf(commit, number, pebs.len(), page);
    for (peb, bytes) in pebs.iter().zip(bytes[LEAF_HEADER..].chunks_exact_mut(LEB)) {
        put(bytes, 0, &peb.unwrap_or(NONE).to_be_bytes());
    }
    seal(bytes)
}

/// The leaf of logical blocks with that number, which has `count`.
pub fn parse_lebs(
    bytes: &[u8],
    number: u32,
    count: u32,
    shape: &Shape,
) -> Result<Vec<Option<u32>>, FieldError> {
    open_leaf(bytes, number, count)?;
    let lebs = bytes[LEAF_HEADER..]
        .chunks_exact(LEB)
        .take(count as usize)
        .enumerate();
    let leb = |(i, bytes): (usize, &[u8])| {
        let peb = be32(bytes, 0);
        rule(
            peb < shape.pebs || peb == NONE,
            (LEAF_HEADER + i * LEB) as u32,
            "block number",
            peb,
            "a block of the device, or none",
        )?;
        Ok((peb != NONE).then_some(peb))
    };
    lebs.map(leb).collect()
}

impl Index {
    /// Returns the bytes of the structure on flash.
    pub fn encode(&self, commit: u64) -> Vec<u8> {
        let mut bytes = vec![0; INDEX_HEADER];
        let counts = [
            self.leaves.len() as u32,
            self.lines.len() as u32,
            self.preserved,
        ];
        put(&mut bytes, 0, &INDEX_MAGIC.to_be_bytes());
        put(&mut bytes, 4, &VERSION.to_be_bytes());
        put(&mut bytes, 8, &commit.to_be_bytes());
        (16..)
            .step_by(4)
            .zip(counts)
            .for_each(|(at, count)| put(&mut bytes, at, &count.to_be_bytes()));
        for place in &self.leaves {
            [place.at, place.free]
                .into_iter()
                .for_each(|field| bytes.extend(field.to_be_bytes()));
        }
        for line in &self.lines {
            let kinds = u32::from(line.kind == VolumeKind::Static) | u32::from(line.corrupted) << 1;
            let fields = [
                line.id,
                kinds,
                line.reserved,
                line.data_pad,
                line.used_ebs,
                line.last_bytes,
                0,
            ];
            fields
                .into_iter()
                .for_each(|field| bytes.extend(field.to_be_bytes()));
        }
        let sum = crc_of(&[&bytes[..60], &bytes[INDEX_HEADER..]]);
        put(&mut bytes, 60, &sum.to_be_bytes());
        bytes
    }

    /// How long an index is that begins with this page; none if it does not look like one.
    pub fn length(page: &[u8], shape: &Shape) -> Option<usize> {
        let leaves = be32(page, 16);
        let lines = be32(page, 20);
        let fine = be32(page, 0) == INDEX_MAGIC
            && leaves <= shape.pebs.saturating_mul(2).saturating_add(2)
            && lines <= 129;
        fine.then(|| index_bytes(leaves as usize, lines as usize))
    }

    /// Reads the fields out of the bytes on flash.
    pub fn parse(bytes: &[u8], commit: u64, shape: &Shape) -> Result<Self, FieldError> {
        value(0, "index magic", be32(bytes, 0), INDEX_MAGIC)?;
        let leaves = be32(bytes, 16);
        let lines = be32(bytes, 20);
        let length = index_bytes(leaves as usize, lines as usize);
        rule(
            length <= bytes.len(),
            16,
            "bytes of an index",
            length as u64,
            "no more than were read",
        )?;
        value(
            60,
            "index checksum",
            be32(bytes, 60),
            crc_of(&[&bytes[..60], &bytes[INDEX_HEADER..length]]),
        )?;
        value(4, "index version", be32(bytes, 4), VERSION)?;
        value(8, "commit number", be64(bytes, 8), commit)?;
        let (places, rest) = bytes[INDEX_HEADER..length].split_at(leaves as usize * PLACE);
        let places = places
            .chunks_exact(PLACE)
            .map(|bytes| Place {
                at: be32(bytes, 0),
                free: be32(bytes, 4),
            })
            .collect();
        let at = INDEX_HEADER as u32 + leaves * PLACE as u32;
        let lines: Result<Vec<Line>, FieldError> = rest
            .chunks_exact(LINE)
            .enumerate()
            .map(|(i, bytes)| parse_line(bytes, at + (i * LINE) as u32, shape))
            .collect();
        let index = Self {
            leaves: places,
            lines: lines?,
            preserved: be32(bytes, 24),
        };
        index.judge(shape)?;
        Ok(index)
    }

    fn judge(&self, shape: &Shape) -> Result<(), FieldError> {
        rule(
            self.preserved <= shape.pebs,
            24,
            "blocks to be left alone",
            self.preserved,
            "no more than there are",
        )?;
        let ordered = self.is_ordered();
        rule(
            ordered,
            20,
            "volumes of an index",
            self.lines.len() as u64,
            "the layout volume, then others by id",
        )?;
        let lebs: u64 = self.lines.iter().map(|line| u64::from(line.reserved)).sum();
        rule(
            lebs <= u64::from(shape.pebs),
            20,
            "logical blocks of an index",
            lebs,
            "no more than there are blocks",
        )?;
        let leaves = leaf_counts(shape, lebs as u32);
        value(
            16,
            "leaves of an index",
            self.leaves.len() as u64,
            u64::from(leaves[0]) + u64::from(leaves[1]),
        )
    }

    fn is_ordered(&self) -> bool {
        self.lines
            .first()
            .is_some_and(|line| line.id == LAYOUT_VOLUME)
            && self
                .lines
                .get(1..)
                .unwrap_or(&[])
                .is_sorted_by(|a, b| a.id < b.id)
    }
}

/// Leaves of physical blocks, and of so many logical ones.
pub fn leaf_counts(shape: &Shape, lebs: u32) -> [u32; 2] {
    [
        shape.pebs.div_ceil(blocks_per_leaf(shape.page)),
        lebs.div_ceil(lebs_per_leaf(shape.page)),
    ]
}

fn parse_line(bytes: &[u8], at: u32, shape: &Shape) -> Result<Line, FieldError> {
    let kinds = be32(bytes, 4);
    rule(kinds < 4, at + 4, "volume type", kinds, "0 to 3")?;
    let kind = if kinds & 1 == 0 {
        VolumeKind::Dynamic
    } else {
        VolumeKind::Static
    };
    let [id, reserved, data_pad] = [0, 8, 12].map(|at| be32(bytes, at));
    rule(
        data_pad < shape.leb_bytes / 2,
        at + 12,
        "padding",
        data_pad,
        "below half a logical block",
    )?;
    rule(
        be32(bytes, 20) <= shape.leb_bytes,
        at + 20,
        "bytes in the last block",
        be32(bytes, 20),
        "no more than a logical block",
    )?;
    Ok(Line {
        id,
        kind,
        reserved,
        data_pad,
        used_ebs: be32(bytes, 16),
        last_bytes: be32(bytes, 20),
        corrupted: kinds & 2 != 0,
    })
}

/// Where super blocks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// One more than that of the anchor before.
    pub number: u64,
    /// The two blocks that have it.
    pub own: [u32; 2],
    /// The two super blocks.
    pub supers: [u32; 2],
}

impl Anchor {
    /// As on flash, a page long.
    pub fn encode(&self, shape: &Shape) -> Vec<u8> {
        let mut bytes = vec![0; shape.page as usize];
        for (at, field) in [(0, ANCHOR_MAGIC), (4, VERSION)] {
            put(&mut bytes, at, &field.to_be_bytes());
        }
        put(&mut bytes, 8, &self.number.to_be_bytes());
        put_shape(&mut bytes, 16, shape);
        (36..)
            .step_by(4)
            .zip(self.own.into_iter().chain(self.supers))
            .for_each(|(at, peb)| put(&mut bytes, at, &peb.to_be_bytes()));
        let sum = crc(&bytes[..ANCHOR - 4]);
        put(&mut bytes, ANCHOR - 4, &sum.to_be_bytes());
        bytes
    }

    /// Reads the fields out of a page.
    pub fn parse(bytes: &[u8], shape: &Shape) -> Result<Self, FieldError> {
        value(0, "anchor magic", be32(bytes, 0), ANCHOR_MAGIC)?;
        value(
            60,
            "anchor checksum",
            be32(bytes, ANCHOR - 4),
            crc(&bytes[..ANCHOR - 4]),
        )?;
        value(4, "anchor version", be32(bytes, 4), VERSION)?;
        judge_shape(bytes, 16, shape)?;
        let pebs = [36, 40, 44, 48].map(|at| be32(bytes, at));
        rule(
            pebs.iter().all(|&peb| peb < shape.pebs),
            36,
            "block number",
            pebs[0],
            "a block of the device",
        )?;
        Ok(Self {
            number: be64(bytes, 8),
            own: [pebs[0], pebs[1]],
            supers: [pebs[2], pebs[3]],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        pebs: 70,
        page: 1024,
        ..super::super::format::tests::SHAPE
    };

    fn lines() -> Vec<Line> {
        let layout = Line {
            id: LAYOUT_VOLUME,
            reserved: 2,
            ..Line::default()
        };
        let fixed = Line {
            id: 1,
            kind: VolumeKind::Static,
            reserved: 9,
            used_ebs: 3,
            last_bytes: 77,
            corrupted: true,
            ..Line::default()
        };
        vec![
            layout,
            fixed,
            Line {
                id: 3,
                reserved: 40,
                data_pad: 512,
                ..Line::default()
            },
        ]
    }

    #[test]
    fn leaves_come_back() {
        let vid = VidHeader {
            data_pad: 512,
            ..super::super::format::tests::copied()
        };
        let fixed = VidHeader {
            kind: VolumeKind::Static,
            volume: 1,
            lnum: 2,
            used_ebs: 3,
            data_size: 77,
            data_pad: 0,
            ..vid
        };
        let entries: Vec<Entry> = (0..31)
            .map(|i| match ROLES[i as usize % 6] {
                Role::Mapped => Entry {
                    role: Role::Mapped,
                    ec: i,
                    vid: if i % 4 == 1 { vid } else { fixed },
                },
                role => Entry {
                    role,
                    ec: i,
                    vid: VidHeader::default(),
                },
            })
            .collect();
        let bytes = encode_blocks(5, 1, &entries, 1024);
        assert_eq!(
            parse_blocks(&bytes, 1, 31, &lines(), &SHAPE).unwrap(),
            entries
        );
        assert_eq!(
            parse_blocks(&bytes, 0, 31, &lines(), &SHAPE)
                .unwrap_err()
                .field,
            "leaf number"
        );
        assert_eq!(
            parse_blocks(&bytes, 1, 31, &lines()[..1], &SHAPE)
                .unwrap_err()
                .field,
            "logical block of volume"
        );
        let pebs: Vec<Option<u32>> = (0..50).map(|i| (i % 3 > 0).then_some(i)).collect();
        let mut bytes = encode_lebs(5, 4, &pebs, 1024);
        assert_eq!(parse_lebs(&bytes, 4, 50, &SHAPE).unwrap(), pebs);
        assert_eq!(
            parse_lebs(&bytes, 4, 50, &Shape { pebs: 20, ..SHAPE })
                .unwrap_err()
                .offset,
            32 + 4 * 20
        );
        bytes[900] ^= 1;
        assert_eq!(
            parse_lebs(&bytes, 4, 50, &SHAPE).unwrap_err().field,
            "leaf checksum"
        );
    }

    #[test]
    fn an_index_comes_back_and_says_what_contradicts_it() {
        let [blocks, lebs] = leaf_counts(&SHAPE, 51);
        let leaves: Vec<Place> = (0..blocks + lebs)
            .map(|i| Place { at: i * 7, free: i })
            .collect();
        let index = Index {
            leaves,
            lines: lines(),
            preserved: 1,
        };
        let bytes = index.encode(8);
        assert_eq!(Index::length(&bytes, &SHAPE), Some(bytes.len()));
        assert_eq!(Index::parse(&bytes, 8, &SHAPE), Ok(index.clone()));
        assert_eq!(
            Index::parse(&bytes, 9, &SHAPE).unwrap_err().field,
            "commit number"
        );
        assert_eq!(
            Index::parse(&bytes[..80], 8, &SHAPE).unwrap_err().field,
            "bytes of an index"
        );
        let more = Index {
            lines: [
                lines(),
                vec![Line {
                    id: 5,
                    reserved: 30,
                    ..Line::default()
                }],
            ]
            .concat(),
            ..index.clone()
        };
        assert_eq!(
            Index::parse(&more.encode(8), 8, &SHAPE).unwrap_err().field,
            "logical blocks of an index"
        );
        let fewer = Index {
            leaves: index.leaves[..3].into(),
            ..index
        };
        assert_eq!(
            Index::parse(&fewer.encode(8), 8, &SHAPE).unwrap_err().field,
            "leaves of an index"
        );
    }

    #[test]
    fn anchors_come_back() {
        let anchor = Anchor {
            number: 9,
            own: [1, 2],
            supers: [30, 69],
        };
        let bytes = anchor.encode(&SHAPE);
        assert_eq!(
            (bytes.len(), Anchor::parse(&bytes, &SHAPE)),
            (1024, Ok(anchor))
        );
        assert_eq!(
            Anchor::parse(&bytes, &Shape { pebs: 69, ..SHAPE })
                .unwrap_err()
                .field,
            "erase blocks"
        );
    }
}
