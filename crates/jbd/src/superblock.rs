//! The journal's superblock: which bit lies where, and what it chooses.
//!
//! *Promises.* A superblock that makes no sense gives an error with place and value. Unknown fields
//! stay. *Knows nothing of* the log behind it.

use crate::{
    JournalError, Tid,
    format::{Form, MAGIC, Sums, UUID, begin, kind, put, word},
    sum::crc32c,
};
use alloc::boxed::Box;
use core::ops::Range;

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
    pub const SUM_KIND: usize = 80;
    pub const FAST_BLOCKS: usize = 84;
    pub const SUM: usize = 252;
    /// Behind the list of users.
    pub const END: usize = 1024;
}

/// Incompatible feature: there may be revoke blocks.
const REVOKES: u32 = 1;
/// Block numbers have 64 bits.
const WIDE: u32 = 2;
/// A commit block may be on the medium before the copies.
const ASYNC: u32 = 4;
const SUMS_V2: u32 = 8;
const SUMS_V3: u32 = 0x10;
/// The journal's last blocks hold fast commits.
const FAST: u32 = 0x20;
/// The known features.
const KNOWN: u32 = REVOKES | WIDE | ASYNC | SUMS_V2 | SUMS_V3 | FAST;
/// Blocks of fast commits where the superblock names none.
const FAST_BLOCKS: u32 = 256;
/// The kind of checksum that the superblock names: crc32c.
const CRC32C: u8 = 4;

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

/// The journal's superblock: its block 0. Unknown fields stay as they are.
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
        if sb.start() != 0 && !(sb.first()..sb.end()).contains(&sb.start()) {
            return wrong(field::START, "start of the log", "0, or a block of the log");
        }
        for (offset, known) in [(field::INCOMPATIBLE, KNOWN), (field::READ_ONLY, 0)] {
            let found = word(&sb.0, offset);
            if sb.is_v2() && found & !known != 0 {
                return Err(JournalError::Features {
                    offset,
                    found,
                    known,
                });
            }
        }
        if sb.form().has_sums() && word(&sb.0, field::SUM) != sb.sum() {
            return wrong(field::SUM, "checksum", "the crc32c of the superblock");
        }
        if sb.end() <= sb.first() {
            return wrong(
                field::FAST_BLOCKS,
                "blocks of fast commits",
                "fewer than the log has",
            );
        }
        Ok(sb)
    }

    /// The incompatible features.
    fn features(&self) -> u32 {
        if self.is_v2() {
            word(&self.0, field::INCOMPATIBLE)
        } else {
            0
        }
    }

    /// The form of the control blocks.
    pub fn form(&self) -> Form {
        let features = self.features();
        Form {
            sums: match features {
                _ if features & SUMS_V3 != 0 => Sums::V3,
                _ if features & SUMS_V2 != 0 => Sums::V2,
                _ => Sums::None,
            },
            wide: features & WIDE != 0,
            seed: crc32c(!0, &self.uuid()),
        }
    }

    /// Chooses checksums of the newest kind, the width of block numbers, and fast commits; only
    /// while the log is empty. Says whether that changed anything.
    pub fn choose(&mut self, sums: bool, wide: bool, fast: bool) -> bool {
        let old = self.features();
        let mut new = old | if wide { WIDE } else { 0 };
        let area = match word(&self.0, field::FAST_BLOCKS) {
            0 => FAST_BLOCKS,
            blocks => blocks,
        };
        // The log keeps most of the journal.
        if fast && area <= self.blocks() / 4 {
            new |= FAST;
        }
        if sums {
            new = new & !SUMS_V2 | SUMS_V3;
        }
        if new == old {
            return false;
        }
        self.make_v2();
        put(&mut self.0, field::INCOMPATIBLE, new);
        if sums {
            // The oldest checksums exclude these.
            let compatible = word(&self.0, field::COMPATIBLE) & !1;
            put(&mut self.0, field::COMPATIBLE, compatible);
            self.0[field::SUM_KIND] = CRC32C;
        }
        self.seal();
        true
    }

    /// One behind the last block of the log.
    pub fn end(&self) -> u32 {
        self.blocks().saturating_sub(self.fast_blocks())
    }

    /// The blocks of the fast commits; none where there are none.
    pub fn fast_area(&self) -> Option<Range<u32>> {
        let area = self.end().saturating_add(1)..self.blocks();
        (!area.is_empty()).then_some(area)
    }

    fn fast_blocks(&self) -> u32 {
        match (self.features() & FAST, word(&self.0, field::FAST_BLOCKS)) {
            (0, _) => 0,
            (_, 0) => FAST_BLOCKS,
            (_, blocks) => blocks,
        }
    }

    fn sum(&self) -> u32 {
        let sum = crc32c(!0, &self.0[..field::SUM]);
        crc32c(crc32c(sum, &[0; 4]), &self.0[field::SUM + 4..field::END])
    }

    /// Brings the checksum up to date, if there is one.
    fn seal(&mut self) {
        if self.form().has_sums() {
            let sum = self.sum();
            put(&mut self.0, field::SUM, sum);
        }
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
        self.seal();
    }

    pub fn set_error(&mut self, error: u32) {
        put(&mut self.0, field::ERROR, error);
        self.seal();
    }

    /// Says that there may be revoke blocks, which makes a version 1 a version 2; whether that
    /// changed anything.
    pub fn allow_revokes(&mut self) -> bool {
        let features = word(&self.0, field::INCOMPATIBLE);
        if self.is_v2() && features & REVOKES != 0 {
            return false;
        }
        self.make_v2();
        let features = word(&self.0, field::INCOMPATIBLE);
        put(&mut self.0, field::INCOMPATIBLE, features | REVOKES);
        self.seal();
        true
    }

    fn make_v2(&mut self) {
        if !self.is_v2() {
            self.0[field::ERROR + 4..field::END].fill(0);
            put(&mut self.0, field::KIND, kind::SUPERBLOCK_V2);
            put(&mut self.0, field::USERS, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fast_commit;
    use alloc::{string::ToString, vec::Vec};

    #[test]
    fn a_journal_gets_checksums_and_wide_numbers_once() {
        let mut sb = Superblock::new(1024, 4096);
        assert!(!sb.choose(false, false, false));
        assert!(sb.choose(true, true, false) && !sb.choose(true, true, false));
        assert_eq!(word(sb.bytes(), field::INCOMPATIBLE), WIDE | SUMS_V3);
        let bytes: Box<[u8]> = sb.bytes().into();
        assert_eq!(Superblock::parse(bytes.clone(), 4096), Ok(sb));
        // Errors of the fields before have names of their own.
        for at in 48..1024 {
            let mut struck = bytes.clone();
            struck[at] ^= 1;
            let refused = Superblock::parse(struck, 4096).unwrap_err();
            assert!(refused.to_string().contains("checksum"), "{at}: {refused}");
        }
    }

    #[test]
    fn the_area_of_fast_commits_is_no_part_of_the_log() {
        let mut bytes: Box<[u8]> = Superblock::new(1024, 4096).bytes().into();
        put(&mut bytes, field::INCOMPATIBLE, FAST);
        let sb = Superblock::parse(bytes.clone(), 4096).unwrap();
        assert_eq!((sb.end(), sb.fast_area()), (3840, Some(3841..4096)));
        put(&mut bytes, field::FAST_BLOCKS, 64);
        let sb = Superblock::parse(bytes.clone(), 4096).unwrap();
        assert_eq!((sb.end(), sb.fast_area()), (4032, Some(4033..4096)));
        put(&mut bytes, field::FAST_BLOCKS, 4096);
        assert!(Superblock::parse(bytes, 4096).is_err());
        let head = [9, 0, 8, 0, 0, 0, 0, 0, 7, 0, 0, 0];
        assert_eq!(
            (fast_commit(&head), fast_commit(&[0; 12])),
            (Some(Tid(7)), None)
        );
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
            (40, 0x40),
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
