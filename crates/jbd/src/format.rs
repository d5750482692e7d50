//! Which bit lies where: headers, tags, revoke records, the journal's superblock. All big-endian,
//! exactly those of Linux (`include/linux/jbd.h`).
//!
//! *Promises.* Views never panic and never judge beyond the field they read. *Knows nothing of* the
//! order in which blocks follow each other.

use crate::JournalError;
use alloc::boxed::Box;
use core::fmt;

/// The first word of every control block.
pub const MAGIC: u32 = 0xC03B_3998;
/// Bytes of the header: magic, kind, sequence.
pub(crate) const HEADER: usize = 12;
/// Bytes of a tag.
pub(crate) const TAG: usize = 8;
/// Bytes of the identifier behind a tag without [`SAME_UUID`].
pub(crate) const UUID: usize = 16;
/// Bytes of a revoke block before its records.
pub(crate) const REVOKE_HEADER: usize = 16;
/// Bytes of a revoke record.
pub(crate) const REVOKE_RECORD: usize = 4;

/// A control block's kind, as the second word says it.
pub(crate) mod kind {
    pub const DESCRIPTOR: u32 = 1;
    pub const COMMIT: u32 = 2;
    pub const SUPERBLOCK_V1: u32 = 3;
    pub const SUPERBLOCK_V2: u32 = 4;
    pub const REVOKE: u32 = 5;
}

/// The block's first word was the magic and is zero in the log.
pub(crate) const ESCAPE: u32 = 1;
/// No identifier follows: it is that of the tag before.
pub(crate) const SAME_UUID: u32 = 2;
/// The last tag of its descriptor. (4 is "deleted", which Linux never writes and recovery does not
/// look at.)
pub(crate) const LAST_TAG: u32 = 8;

/// The number of a transaction. It grows by one from transaction to transaction and begins again at
/// 0 behind 2^32 - 1, so that only numbers less than 2^31 apart can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tid(pub u32);

impl Tid {
    /// The transaction that follows.
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether this one is older.
    pub fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The big-endian word at `at`, which lies inside.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4]
        .iter()
        .fold(0, |word, byte| word << 8 | u32::from(*byte))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

/// Kind and transaction of a control block; none if it is none.
pub(crate) fn header(block: &[u8]) -> Option<(u32, Tid)> {
    (word(block, 0) == MAGIC).then(|| (word(block, 4), Tid(word(block, 8))))
}

/// Makes of `block` an empty control block.
pub(crate) fn begin(block: &mut [u8], kind: u32, tid: Tid) {
    block.fill(0);
    put(block, 0, MAGIC);
    put(block, 4, kind);
    put(block, 8, tid.0);
}

/// Whether the block must be escaped to lie in the log.
pub(crate) fn is_escaped(block: &[u8]) -> bool {
    word(block, 0) == MAGIC
}

/// One entry of a descriptor: where the block behind it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub home: u32,
    pub escaped: bool,
}

/// Tags that Linux puts into one descriptor: it stops where one more tag with an identifier would
/// not fit.
pub(crate) fn tags_per_descriptor(block_size: u32) -> u32 {
    (block_size - (HEADER + UUID) as u32) / TAG as u32 - 2
}

/// Records that one revoke block holds.
pub(crate) fn revokes_per_block(block_size: u32) -> u32 {
    (block_size - REVOKE_HEADER as u32) / REVOKE_RECORD as u32
}

/// Writes a descriptor of these tags, no more than fit.
pub(crate) fn descriptor(
    block: &mut [u8],
    tid: Tid,
    uuid: &[u8; UUID],
    tags: impl ExactSizeIterator<Item = Tag>,
) {
    begin(block, kind::DESCRIPTOR, tid);
    let last = tags.len().saturating_sub(1);
    let mut at = HEADER;
    for (index, tag) in tags.enumerate() {
        let escape = if tag.escaped { ESCAPE } else { 0 };
        let same = if index > 0 { SAME_UUID } else { 0 };
        let end = if index == last { LAST_TAG } else { 0 };
        put(block, at, tag.home);
        put(block, at + 4, escape | same | end);
        at += TAG;
        if index == 0 {
            block[at..at + UUID].copy_from_slice(uuid);
            at += UUID;
        }
    }
}

/// The tags of a descriptor, up to the last or to the end of the block.
pub(crate) fn tags(block: &[u8]) -> impl Iterator<Item = Tag> {
    let mut at = Some(HEADER);
    core::iter::from_fn(move || {
        let here = at.filter(|at| at + TAG <= block.len())?;
        // The upper half is a checksum in journals that have them, which are refused.
        let flags = word(block, here + 4);
        let next = here + TAG + if flags & SAME_UUID != 0 { 0 } else { UUID };
        at = (flags & LAST_TAG == 0).then_some(next);
        Some(Tag {
            home: word(block, here),
            escaped: flags & ESCAPE != 0,
        })
    })
}

/// Writes a revoke block of these blocks, no more than fit.
pub(crate) fn revokes(block: &mut [u8], tid: Tid, blocks: impl Iterator<Item = u32>) {
    begin(block, kind::REVOKE, tid);
    let mut at = REVOKE_HEADER;
    for home in blocks {
        put(block, at, home);
        at += REVOKE_RECORD;
    }
    put(block, HEADER, at as u32);
}

/// The blocks that a revoke block names; `log` is where it lies.
pub(crate) fn revoked(block: &[u8], log: u32) -> Result<impl Iterator<Item = u32>, JournalError> {
    let found = word(block, HEADER);
    let most = block.len() as u32;
    if !(REVOKE_HEADER as u32..=most).contains(&found) {
        return Err(JournalError::RevokeCount { log, found, most });
    }
    Ok(block[REVOKE_HEADER..found as usize]
        .chunks_exact(REVOKE_RECORD)
        .map(|record| word(record, 0)))
}

/// Offsets of the superblock's fields.
mod field {
    pub const KIND: usize = 4;
    pub const BLOCK_SIZE: usize = 12;
    pub const BLOCKS: usize = 16;
    pub const FIRST: usize = 20;
    pub const SEQUENCE: usize = 24;
    pub const START: usize = 28;
    pub const ERROR: usize = 32;
    pub const COMPATIBLE: usize = 36;
    pub const INCOMPATIBLE: usize = 40;
    pub const READ_ONLY: usize = 44;
    pub const UUID: usize = 48;
    pub const USERS: usize = 64;
    /// Behind the list of users.
    pub const END: usize = 1024;
}

/// Incompatible feature: there may be revoke blocks.
const REVOKES: u32 = 1;

/// Checks block 0 of a journal for which there are `mapped` blocks; tells whether the log is empty.
/// It is stricter than a mount, which passes over fields of the second version in a journal of the
/// first.
pub fn check_superblock(bytes: &[u8], mapped: u32) -> Result<bool, JournalError> {
    let sb = Superblock::parse(bytes.into(), mapped)?;
    let later = [
        field::COMPATIBLE,
        field::INCOMPATIBLE,
        field::READ_ONLY,
        field::USERS,
    ];
    match later.into_iter().find(|at| word(&sb.0, *at) != 0) {
        Some(offset) if !sb.is_v2() => Err(JournalError::Superblock {
            offset,
            field: "field of version 2",
            found: word(&sb.0, offset),
            expected: "0 in a journal of version 1",
        }),
        _ if word(&sb.0, field::USERS) > 1 => Err(JournalError::Superblock {
            offset: field::USERS,
            field: "users",
            found: word(&sb.0, field::USERS),
            expected: "one file system at most",
        }),
        _ => Ok(sb.start() == 0),
    }
}

/// The journal's superblock: its block 0. What is not known is kept as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock(Box<[u8]>);

impl Superblock {
    /// An empty journal of `blocks` blocks, as mke2fs makes it.
    pub fn new(block_size: u32, blocks: u32) -> Self {
        let mut bytes: Box<[u8]> = alloc::vec![0; block_size as usize].into();
        begin(&mut bytes, kind::SUPERBLOCK_V2, Tid(0));
        let fields = [
            (field::BLOCK_SIZE, block_size),
            (field::BLOCKS, blocks),
            (field::FIRST, 1),
            (field::SEQUENCE, 1),
            (field::USERS, 1),
        ];
        fields
            .iter()
            .for_each(|(at, value)| put(&mut bytes, *at, *value));
        Self(bytes)
    }

    /// Reads block 0 of a journal for which there are `mapped` blocks.
    pub fn parse(bytes: Box<[u8]>, mapped: u32) -> Result<Self, JournalError> {
        let sb = Self(bytes);
        let wrong = |offset, field, expected| {
            Err(JournalError::Superblock {
                offset,
                field,
                found: word(&sb.0, offset),
                expected,
            })
        };
        if word(&sb.0, 0) != MAGIC {
            return wrong(0, "magic", "0xc03b3998");
        }
        if !matches!(
            word(&sb.0, field::KIND),
            kind::SUPERBLOCK_V1 | kind::SUPERBLOCK_V2
        ) {
            return wrong(field::KIND, "block type", "3 or 4");
        }
        if word(&sb.0, field::BLOCK_SIZE) as usize != sb.0.len() {
            return wrong(field::BLOCK_SIZE, "block size", "the file system's");
        }
        if sb.blocks() > mapped {
            return wrong(
                field::BLOCKS,
                "length",
                "no more blocks than the journal has",
            );
        }
        if !(1..sb.blocks()).contains(&sb.first()) {
            return wrong(
                field::FIRST,
                "first block",
                "one behind the superblock, inside the journal",
            );
        }
        if sb.start() != 0 && !(sb.first()..sb.blocks()).contains(&sb.start()) {
            return wrong(field::START, "start of the log", "0, or a block of the log");
        }
        for (offset, known) in [(field::INCOMPATIBLE, REVOKES), (field::READ_ONLY, 0)] {
            let found = word(&sb.0, offset);
            if sb.is_v2() && found & !known != 0 {
                return Err(JournalError::Features {
                    offset,
                    found,
                    known,
                });
            }
        }
        Ok(sb)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn is_v2(&self) -> bool {
        word(&self.0, field::KIND) == kind::SUPERBLOCK_V2
    }

    /// Blocks of the journal, this one included.
    pub fn blocks(&self) -> u32 {
        word(&self.0, field::BLOCKS)
    }

    /// First block of the log.
    pub fn first(&self) -> u32 {
        word(&self.0, field::FIRST)
    }

    /// The transaction with which the log begins.
    pub fn sequence(&self) -> Tid {
        Tid(word(&self.0, field::SEQUENCE))
    }

    /// Where it begins; 0 if there is nothing to recover.
    pub fn start(&self) -> u32 {
        word(&self.0, field::START)
    }

    /// The error that a file system left for its next mount.
    pub fn error(&self) -> u32 {
        word(&self.0, field::ERROR)
    }

    pub fn uuid(&self) -> [u8; UUID] {
        core::array::from_fn(|i| {
            if self.is_v2() {
                self.0[field::UUID + i]
            } else {
                0
            }
        })
    }

    pub fn set_log(&mut self, start: u32, sequence: Tid) {
        put(&mut self.0, field::START, start);
        put(&mut self.0, field::SEQUENCE, sequence.0);
    }

    pub fn set_error(&mut self, error: u32) {
        put(&mut self.0, field::ERROR, error);
    }

    /// Says that there may be revoke blocks, which makes a version 1 a version 2; whether that
    /// changed anything.
    pub fn allow_revokes(&mut self) -> bool {
        let features = word(&self.0, field::INCOMPATIBLE);
        if self.is_v2() && features & REVOKES != 0 {
            return false;
        }
        if !self.is_v2() {
            self.0[field::ERROR + 4..field::END].fill(0);
            put(&mut self.0, field::KIND, kind::SUPERBLOCK_V2);
            put(&mut self.0, field::USERS, 1);
        }
        let features = word(&self.0, field::INCOMPATIBLE);
        put(&mut self.0, field::INCOMPATIBLE, features | REVOKES);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    #[test]
    fn a_descriptor_is_the_bytes_that_linux_writes() {
        let mut block = [0xEE; 1024];
        let tags = [
            Tag {
                home: 0x0102_0304,
                escaped: false,
            },
            Tag {
                home: 5,
                escaped: true,
            },
            Tag {
                home: 6,
                escaped: false,
            },
        ];
        descriptor(&mut block, Tid(7), b"0123456789abcdef", tags.into_iter());
        let head = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 1, 0, 0, 0, 7];
        let first = [1, 2, 3, 4, 0, 0, 0, 0];
        let others = [0, 0, 0, 5, 0, 0, 0, 1 + 2, 0, 0, 0, 6, 0, 0, 0, 2 + 8];
        let expected = [&head[..], &first, b"0123456789abcdef", &others].concat();
        assert_eq!(block[..expected.len()], expected);
        assert!(block[expected.len()..].iter().all(|byte| *byte == 0));
        assert_eq!(super::tags(&block).collect::<Vec<_>>(), tags);
    }

    #[test]
    fn a_full_descriptor_leaves_less_room_than_a_tag_with_its_identifier_takes() {
        for (size, tags) in [(1024, 122), (2048, 250), (4096, 506)] {
            assert_eq!(tags_per_descriptor(size), tags);
            let left = |tags: u32| size - 12 - 16 - 8 * tags;
            assert!(left(tags) < 24 && left(tags - 1) >= 24);
        }
    }

    #[test]
    fn tags_end_with_the_block_where_no_last_one_is() {
        let mut block = vec![0xFF; 1024];
        begin(&mut block, kind::DESCRIPTOR, Tid(1));
        // Every tag of zeros is followed by an identifier: 12 + 42 * 24 = 1020.
        assert_eq!(tags(&block).count(), 42);
        block[HEADER..].fill(0x02);
        assert_eq!(tags(&block).count(), 126);
    }

    #[test]
    fn a_revoke_block_counts_its_own_header() {
        let mut block = [0xEE; 1024];
        revokes(&mut block, Tid(0x0A0B_0C0D), [3, 0xFFFF_FFFF].into_iter());
        let expected = [
            0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 5, 10, 11, 12, 13, 0, 0, 0, 24, 0, 0, 0, 3, 255, 255,
            255, 255,
        ];
        assert_eq!(block[..24], expected);
        assert_eq!(
            revoked(&block, 9).unwrap().collect::<Vec<_>>(),
            [3, 0xFFFF_FFFF]
        );
        for count in [0, 15, 1025, u32::MAX] {
            put(&mut block, HEADER, count);
            assert_eq!(
                revoked(&block, 9).err(),
                Some(JournalError::RevokeCount {
                    log: 9,
                    found: count,
                    most: 1024
                })
            );
        }
    }

    #[test]
    fn transactions_are_compared_across_the_wrap() {
        let last = Tid(u32::MAX);
        let first = Tid(0);
        assert_eq!(last.next(), first);
        assert!(last.is_before(first) && !first.is_before(last) && !first.is_before(first));
    }

    #[test]
    fn a_new_superblock_is_that_of_mke2fs() {
        let sb = Superblock::new(1024, 4096);
        let words: Vec<u32> = (0..17).map(|i| word(sb.bytes(), 4 * i)).collect();
        assert_eq!(
            words,
            [MAGIC, 4, 0, 1024, 4096, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        );
        assert!(sb.bytes()[68..].iter().all(|byte| *byte == 0));
        assert_eq!(Superblock::parse(sb.bytes().into(), 4096), Ok(sb));
    }

    #[test]
    fn a_superblock_that_makes_no_sense_is_refused_with_place_and_value() {
        let refused = |at: usize, value: u32| {
            let mut bytes: Box<[u8]> = Superblock::new(1024, 64).bytes().into();
            put(&mut bytes, at, value);
            match Superblock::parse(bytes, 64).unwrap_err() {
                JournalError::Superblock { offset, found, .. }
                | JournalError::Features { offset, found, .. } => {
                    assert_eq!((offset, found), (at, value));
                }
                other => panic!("{other}"),
            }
        };
        let cases = [
            (0, 1),
            (4, 5),
            (12, 4096),
            (16, 65),
            (16, 1),
            (20, 0),
            (20, 64),
            (28, 64),
            (40, 2),
            (40, 0x10),
            (44, 1),
        ];
        for (at, value) in cases.into_iter().filter(|case| *case != (16, 1)) {
            refused(at, value);
        }
    }

    #[test]
    fn a_first_revoke_makes_version_two_of_version_one() {
        let mut bytes: Box<[u8]> = Superblock::new(1024, 64).bytes().into();
        put(&mut bytes, 4, kind::SUPERBLOCK_V1);
        // Version 1 has no fields here, so these are no features.
        bytes[36..1024].fill(0xFF);
        let mut sb = Superblock::parse(bytes, 64).unwrap();
        assert_eq!(sb.uuid(), [0; 16]);
        assert_eq!((sb.allow_revokes(), sb.allow_revokes()), (true, false));
        let mut expected = Superblock::new(1024, 64);
        expected.allow_revokes();
        assert_eq!(sb, expected);
    }
}
