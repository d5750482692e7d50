//! Every byte that UBIL puts on flash; `docs/formats/ubil.md` has it as tables. Big-endian,
//! checksums as UBI's.

use crate::format::{
    EC_MAX, FieldError, LAYOUT_VOLUME, VidHeader, VolumeKind, be32, be64, crc, crc_of, put, rule,
    value,
};
use crate::{Commit, Shape, Superblock};
use alloc::{vec, vec::Vec};
use nandlab_deflate::{Deflater, End, Flush, Inflater, Wrapping};

/// Internal volumes of super blocks, commits and logs, where blocks have headers. Others erase
/// them.
pub const VOLUMES: [u32; 3] = [
    LAYOUT_VOLUME + 0x101,
    LAYOUT_VOLUME + 0x102,
    LAYOUT_VOLUME + 0x103,
];

const SUPER_MAGIC: u32 = 0x5542_4C53;
const COMMIT_MAGIC: u32 = 0x5542_4C43;
const LOG_MAGIC: u32 = 0x5542_4C4C;
const VERSION: u32 = 1;
const SUPER_FIXED: usize = 96;
const COMMIT_HEADER: usize = 64;
const LOG_HEADER: usize = 64;
const ENTRY: usize = 64;

/// What an entry says of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The block is erased and free.
    Free,
    /// Holds the logical block of the entry's header.
    Mapped,
    /// The block is queued for an erase.
    #[default]
    Dirty,
    /// The block is marked bad.
    Bad,
    /// UBIL keeps its own data in the block.
    Memory,
    /// To be left alone.
    Preserved,
}

pub(super) const ROLES: [Role; 6] = [
    Role::Free,
    Role::Mapped,
    Role::Dirty,
    Role::Bad,
    Role::Memory,
    Role::Preserved,
];

/// A block's erase counter and volume header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The role of the block.
    pub role: Role,
    /// How often the block was erased.
    pub ec: u32,
    /// Which logical block it holds, if it is mapped.
    pub vid: VidHeader,
}

/// The superblock, which says where UBIL's other blocks are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Super {
    /// One more than that of the entry before.
    pub number: u64,
    /// The commit that `present` holds.
    pub commit: u64,
    /// The last sequence number given.
    pub sqnum: u64,
    /// The image sequence number.
    pub image_seq: u32,
    /// The two super blocks.
    pub blocks: [u32; 2],
    /// Erase counters of the two superblock blocks.
    pub ecs: [u32; 2],
    /// The blocks that hold the superblock.
    pub superblock: Superblock,
    /// Where the commits lie and how they are written.
    pub commits: Commit,
    /// Of an incremental commit, the page of a copy in which the index begins.
    pub index: u32,
    /// The commit's blocks: the first copy's, then the second's.
    pub present: Vec<u32>,
    /// The blocks of a commit under way, its log's among them, and others that may have been
    /// written whatever the commit says.
    pub future: Vec<u32>,
    /// The blocks that hold the log.
    pub log: Vec<u32>,
    /// Of a chain, blocks for the next super blocks.
    pub spare: Vec<u32>,
}

fn shape_fields(shape: &Shape) -> [u32; 5] {
    [
        shape.pebs,
        shape.peb_bytes,
        shape.page,
        shape.vid_offset,
        shape.data_offset,
    ]
}

/// What super blocks and anchors say about the device must be true.
pub(super) fn judge_shape(bytes: &[u8], at: u32, shape: &Shape) -> Result<(), FieldError> {
    let names = [
        "erase blocks",
        "bytes of an erase block",
        "page",
        "offset of the volume header",
        "offset of the data",
    ];
    let fields = names.into_iter().zip(shape_fields(shape));
    (at..)
        .step_by(4)
        .zip(fields)
        .try_for_each(|(at, (name, expected))| value(at, name, be32(bytes, at as usize), expected))
}

/// The device's shape, for [`judge_shape`].
pub(super) fn put_shape(bytes: &mut [u8], at: usize, shape: &Shape) {
    (at..)
        .step_by(4)
        .zip(shape_fields(shape))
        .for_each(|(at, field)| put(bytes, at, &field.to_be_bytes()));
}

impl Super {
    /// Bytes of an entry with that many blocks in all its lists.
    pub fn bytes(blocks: usize) -> usize {
        SUPER_FIXED + 4 * blocks + 4
    }

    /// As on flash, a page long; none if the page is too short.
    pub fn encode(&self, shape: &Shape) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(shape.page as usize);
        let counts = [
            self.present.len() as u32,
            self.future.len() as u32,
            self.log.len() as u32,
        ];
        for field in [SUPER_MAGIC, VERSION] {
            bytes.extend(field.to_be_bytes());
        }
        for field in [self.number, self.commit, self.sqnum] {
            bytes.extend(field.to_be_bytes());
        }
        let fixed = shape_fields(shape).into_iter().chain([self.image_seq]);
        let flags = u32::from(self.superblock == Superblock::Chain)
            | u32::from(self.commits == Commit::Incremental) << 1;
        let added = [flags, self.index, self.spare.len() as u32];
        for field in fixed
            .chain(self.ecs)
            .chain(counts)
            .chain(self.blocks)
            .chain(added)
        {
            bytes.extend(field.to_be_bytes());
        }
        debug_assert_eq!(bytes.len(), SUPER_FIXED);
        for peb in [&self.present, &self.future, &self.log, &self.spare]
            .into_iter()
            .flatten()
        {
            bytes.extend(peb.to_be_bytes());
        }
        if bytes.len() + 4 > shape.page as usize {
            return None;
        }
        bytes.resize(shape.page as usize - 4, 0);
        let sum = crc(&bytes);
        bytes.extend(sum.to_be_bytes());
        Some(bytes)
    }

    /// Reads the fields out of a page.
    pub fn parse(bytes: &[u8], shape: &Shape) -> Result<Self, FieldError> {
        let end = bytes.len().saturating_sub(4);
        rule(
            bytes.len() >= Self::bytes(0),
            0,
            "super block",
            bytes.len() as u64,
            "100 bytes or more",
        )?;
        value(0, "super block magic", be32(bytes, 0), SUPER_MAGIC)?;
        value(
            end as u32,
            "super block checksum",
            be32(bytes, end),
            crc(&bytes[..end]),
        )?;
        value(4, "super block version", be32(bytes, 4), VERSION)?;
        judge_shape(bytes, 32, shape)?;
        let flags = be32(bytes, 84);
        rule(flags < 4, 84, "super block flags", flags, "0 to 3")?;
        let mut at = SUPER_FIXED;
        let mut list = |count_at: usize| {
            let count = be32(bytes, count_at) as usize;
            rule(
                count <= (end - at) / 4,
                count_at as u32,
                "blocks in a list",
                count as u64,
                "no more than the page holds",
            )?;
            let pebs: Vec<u32> = bytes[at..at + 4 * count]
                .chunks_exact(4)
                .map(|peb| be32(peb, 0))
                .collect();
            let fine = pebs.iter().all(|&peb| peb < shape.pebs);
            rule(
                fine,
                at as u32,
                "block number",
                count as u64,
                "blocks of the device",
            )?;
            at += 4 * count;
            Ok(pebs)
        };
        Ok(Self {
            number: be64(bytes, 8),
            commit: be64(bytes, 16),
            sqnum: be64(bytes, 24),
            image_seq: be32(bytes, 52),
            ecs: [be32(bytes, 56), be32(bytes, 60)],
            blocks: [be32(bytes, 76), be32(bytes, 80)],
            superblock: if flags & 1 == 0 {
                Superblock::Pair
            } else {
                Superblock::Chain
            },
            commits: if flags & 2 == 0 {
                Commit::Full
            } else {
                Commit::Incremental
            },
            index: be32(bytes, 88),
            present: list(64)?,
            future: list(68)?,
            log: list(72)?,
            spare: list(92)?,
        })
    }
}

impl Entry {
    fn encode(&self, peb: u32, bytes: &mut [u8]) {
        put(bytes, 0, &peb.to_be_bytes());
        bytes[4] = ROLES
            .iter()
            .position(|role| *role == self.role)
            .unwrap_or(0) as u8;
        if self.role == Role::Mapped {
            put_vid(&self.vid, bytes);
        }
        put(bytes, 8, &self.ec.to_be_bytes());
        let sum = crc(&bytes[..60]);
        put(bytes, 60, &sum.to_be_bytes());
    }

    fn parse(bytes: &[u8], at: u32, shape: &Shape) -> Result<(u32, Self), FieldError> {
        // The volume and the logical block lie one word later than in a volume header.
        let shift = |error: FieldError| FieldError {
            offset: at + error.offset + if matches!(error.offset, 8 | 12) { 4 } else { 0 },
            ..error
        };
        value(
            at + 60,
            "entry checksum",
            be32(bytes, 60),
            crc(&bytes[..60]),
        )?;
        let peb = be32(bytes, 0);
        rule(
            peb < shape.pebs,
            at,
            "block number",
            peb,
            "a block of the device",
        )?;
        let Some(&role) = ROLES.get(usize::from(bytes[4])) else {
            return Err(rule(false, at + 4, "role", bytes[4], "0 to 5").unwrap_err());
        };
        let ec = be32(bytes, 8);
        rule(ec <= EC_MAX, at + 8, "erase counter", ec, "below 2^31")?;
        let mut vid = VidHeader::default();
        if role == Role::Mapped {
            rule(
                (1..=2).contains(&bytes[5]),
                at + 5,
                "volume type",
                bytes[5],
                "1 or 2",
            )?;
            rule(bytes[6] <= 1, at + 6, "copy flag", bytes[6], "0 or 1")?;
            vid = VidHeader {
                kind: if bytes[5] == 2 {
                    VolumeKind::Static
                } else {
                    VolumeKind::Dynamic
                },
                copy: bytes[6] == 1,
                compat: bytes[7],
                volume: be32(bytes, 12),
                lnum: be32(bytes, 16),
                data_size: be32(bytes, 20),
                used_ebs: be32(bytes, 24),
                data_pad: be32(bytes, 28),
                data_crc: be32(bytes, 32),
                sqnum: be64(bytes, 40),
            };
            vid.judge(shape.leb_bytes).map_err(shift)?;
            rule(
                vid.volume <= LAYOUT_VOLUME,
                at + 12,
                "volume id",
                vid.volume,
                "one of the user's, or the layout volume",
            )?;
        }
        Ok((peb, Self { role, ec, vid }))
    }
}

fn put_vid(vid: &VidHeader, bytes: &mut [u8]) {
    bytes[5] = 1 + u8::from(vid.kind == VolumeKind::Static);
    bytes[6] = u8::from(vid.copy);
    bytes[7] = vid.compat;
    let fields = [
        vid.volume,
        vid.lnum,
        vid.data_size,
        vid.used_ebs,
        vid.data_pad,
        vid.data_crc,
    ];
    (12..)
        .step_by(4)
        .zip(fields)
        .for_each(|(at, field)| put(bytes, at, &field.to_be_bytes()));
    put(bytes, 40, &vid.sqnum.to_be_bytes());
}

/// Bytes of a commit of that many blocks, uncompressed.
pub fn commit_bytes(pebs: u32) -> u64 {
    (COMMIT_HEADER + ENTRY * pebs as usize) as u64
}

/// A commit: an entry for each block, by number.
pub fn encode_commit(commit: u64, entries: &[Entry], compress: bool) -> Vec<u8> {
    let mut raw = vec![0; ENTRY * entries.len()];
    for ((peb, entry), bytes) in (0..).zip(entries).zip(raw.chunks_exact_mut(ENTRY)) {
        entry.encode(peb, bytes);
    }
    let packed = if compress { deflate(&raw) } else { None };
    let stored = packed.as_deref().unwrap_or(&raw);
    let mut bytes = commit_header(
        commit,
        entries.len() as u32,
        stored.len() as u32,
        packed.is_some(),
    );
    let sum = crc_of(&[&bytes, stored]);
    bytes.extend(sum.to_be_bytes());
    bytes.extend_from_slice(stored);
    bytes
}

/// The header without its checksum.
fn commit_header(commit: u64, entries: u32, stored: u32, packed: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(COMMIT_HEADER + stored as usize);
    for field in [COMMIT_MAGIC, VERSION, u32::from(packed), entries, stored] {
        bytes.extend(field.to_be_bytes());
    }
    bytes.extend(commit.to_be_bytes());
    bytes.resize(COMMIT_HEADER - 4, 0);
    bytes
}

/// How long a commit is, by its first bytes; none if they are not a commit's.
pub fn commit_length(head: &[u8]) -> Option<usize> {
    (head.len() >= COMMIT_HEADER && be32(head, 0) == COMMIT_MAGIC)
        .then(|| COMMIT_HEADER + be32(head, 16) as usize)
}

/// A commit from flash.
pub fn parse_commit(bytes: &[u8], commit: u64, shape: &Shape) -> Result<Vec<Entry>, FieldError> {
    rule(
        bytes.len() >= COMMIT_HEADER,
        0,
        "commit",
        bytes.len() as u64,
        "64 bytes or more",
    )?;
    value(0, "commit magic", be32(bytes, 0), COMMIT_MAGIC)?;
    let stored = bytes.get(COMMIT_HEADER..COMMIT_HEADER + be32(bytes, 16) as usize);
    let Some(stored) = stored else {
        return Err(rule(
            false,
            16,
            "bytes of a commit",
            be32(bytes, 16),
            "no more than its blocks hold",
        )
        .unwrap_err());
    };
    value(
        60,
        "commit checksum",
        be32(bytes, 60),
        crc_of(&[&bytes[..60], stored]),
    )?;
    value(4, "commit version", be32(bytes, 4), VERSION)?;
    value(20, "commit number", be64(bytes, 20), commit)?;
    value(12, "entries of a commit", be32(bytes, 12), shape.pebs)?;
    let length = ENTRY * shape.pebs as usize;
    let unpacked = match be32(bytes, 8) {
        0 => None,
        1 => Some(inflate(stored, length)),
        other => return Err(rule(false, 8, "compression", other, "0 or 1").unwrap_err()),
    };
    let raw = unpacked.as_deref().unwrap_or(stored);
    value(16, "bytes of the entries", raw.len() as u64, length as u64)?;
    let entry = |(i, bytes): (usize, &[u8])| {
        let at = (COMMIT_HEADER + i * ENTRY) as u32;
        let (peb, entry) = Entry::parse(bytes, at, shape)?;
        value(at, "block number", peb, i as u64)?;
        Ok(entry)
    };
    raw.chunks_exact(ENTRY).enumerate().map(entry).collect()
}

/// Entries of a page of the log.
pub fn entries_per_page(page: u32) -> usize {
    (page as usize - LOG_HEADER) / ENTRY
}

/// A page of the log of `commit`, the `index`th.
pub fn encode_page(commit: u64, index: u32, entries: &[(u32, Entry)], page: u32) -> Vec<u8> {
    let mut bytes = vec![0; page as usize];
    for (at, field) in [
        (0, LOG_MAGIC),
        (4, VERSION),
        (16, index),
        (20, entries.len() as u32),
    ] {
        put(&mut bytes, at, &field.to_be_bytes());
    }
    put(&mut bytes, 8, &commit.to_be_bytes());
    for ((peb, entry), bytes) in entries
        .iter()
        .zip(bytes[LOG_HEADER..].chunks_exact_mut(ENTRY))
    {
        entry.encode(*peb, bytes);
    }
    let sum = crc_of(&[&bytes[..60], &bytes[64..]]);
    put(&mut bytes, 60, &sum.to_be_bytes());
    bytes
}

/// A page of the log of `commit`, the `index`th.
pub fn parse_page(
    bytes: &[u8],
    commit: u64,
    index: u32,
    shape: &Shape,
) -> Result<Vec<(u32, Entry)>, FieldError> {
    check_page_header(bytes, commit, index)?;
    let count = be32(bytes, 20) as usize;
    rule(
        count <= entries_per_page(bytes.len() as u32),
        20,
        "entries of a page",
        count as u64,
        "no more than it holds",
    )?;
    let entries = bytes[LOG_HEADER..]
        .chunks_exact(ENTRY)
        .take(count)
        .enumerate();
    entries
        .map(|(i, bytes)| Entry::parse(bytes, (LOG_HEADER + i * ENTRY) as u32, shape))
        .collect()
}

fn check_page_header(bytes: &[u8], commit: u64, index: u32) -> Result<(), FieldError> {
    value(0, "log magic", be32(bytes, 0), LOG_MAGIC)?;
    value(
        60,
        "log checksum",
        be32(bytes, 60),
        crc_of(&[&bytes[..60], &bytes[64..]]),
    )?;
    value(4, "log version", be32(bytes, 4), VERSION)?;
    value(8, "commit number", be64(bytes, 8), commit)?;
    value(16, "page of the log", be32(bytes, 16), index)?;
    Ok(())
}

/// None if it does not get shorter.
fn deflate(raw: &[u8]) -> Option<Vec<u8>> {
    let mut packed = vec![0; raw.len()];
    let mut stream = Deflater::new(6, Wrapping::Zlib);
    let step = stream.pack(raw, &mut packed, Flush::Finish)?;
    packed.truncate(step.written);
    step.is_end.then_some(packed)
}

/// What there is of at most `length` bytes.
fn inflate(packed: &[u8], length: usize) -> Vec<u8> {
    let mut raw = vec![0; length];
    let (len, end) = Inflater::new(Wrapping::Zlib).unpack(packed, &mut raw);
    raw.truncate(if end == End::Whole { len } else { 0 });
    raw
}

#[cfg(test)]
pub(super) mod tests;
