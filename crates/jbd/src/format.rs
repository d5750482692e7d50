//! Which bit lies where: headers, tags, revoke records. All big-endian, exactly those of Linux
//! (`include/linux/jbd.h`, `jbd2.h`).
//!
//! *Promises.* Views never panic and never judge beyond the field they read. *Knows nothing of* the
//! order in which blocks follow each other.

use crate::{JournalError, sum::crc32c};
use core::fmt;

/// The first word of every control block.
pub const MAGIC: u32 = 0xC03B_3998;
/// Bytes of the header: magic, kind, sequence.
pub(crate) const HEADER: usize = 12;
/// Bytes of the identifier behind a tag without [`SAME_UUID`].
pub(crate) const UUID: usize = 16;
/// Bytes of a revoke block before its records.
pub(crate) const REVOKE_HEADER: usize = 16;
/// Bytes of the checksum at the end of a descriptor and of a revoke block.
const TAIL: usize = 4;
/// Byte of a commit block at which the checksum lies.
const COMMIT_SUM: usize = 16;
/// Byte of a commit block at which its time lies: seconds in 64 bits.
const COMMIT_TIME: usize = 48;

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
    pub home: u64,
    pub escaped: bool,
    /// The checksum of the block's copy, where there are any.
    pub sum: u32,
}

/// The checksums of a journal (jbd2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sums {
    #[default]
    None,
    /// Tags hold the lower half of a block's checksum.
    V2,
    V3,
}

/// The form of a journal's control blocks, as its features choose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub sums: Sums,
    /// Block numbers have 64 bits.
    pub wide: bool,
    /// Seed of the checksums.
    pub seed: u32,
}

impl Form {
    pub fn has_sums(self) -> bool {
        self.sums != Sums::None
    }

    /// Bytes of a tag.
    fn tag(self) -> usize {
        let high = if self.wide { 4 } else { 0 };
        match self.sums {
            Sums::None => 8 + high,
            Sums::V2 => 10 + high,
            Sums::V3 => 16,
        }
    }

    /// Bytes of a revoke record.
    fn record(self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// Bytes of a block's end that hold its checksum.
    fn tail(self) -> usize {
        if self.has_sums() { TAIL } else { 0 }
    }

    /// Tags that Linux puts into one descriptor: it stops where one more tag with an identifier
    /// would not fit.
    pub fn tags_per_descriptor(self, block_size: u32) -> u32 {
        let tag = self.tag();
        let rest = block_size as usize - (HEADER + UUID) - (tag + UUID + self.tail());
        (rest / tag) as u32 + 1
    }

    /// Records that one revoke block holds.
    pub fn revokes_per_block(self, block_size: u32) -> u32 {
        ((block_size as usize - REVOKE_HEADER - self.tail()) / self.record()) as u32
    }

    /// The checksum of a block's copy, as it lies in the log.
    pub fn copy_sum(self, tid: Tid, copy: &[u8]) -> u32 {
        let sum = || crc32c(crc32c(self.seed, &tid.0.to_be_bytes()), copy);
        match self.sums {
            Sums::None => 0,
            Sums::V2 => sum() & 0xFFFF,
            Sums::V3 => sum(),
        }
    }

    /// Writes a descriptor of these tags, no more than fit.
    pub fn descriptor(
        self,
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
            self.put_tag(&mut block[at..], tag, escape | same | end);
            at += self.tag();
            if index == 0 {
                block[at..at + UUID].copy_from_slice(uuid);
                at += UUID;
            }
        }
        self.seal(block);
    }

    fn put_tag(self, bytes: &mut [u8], tag: Tag, flags: u32) {
        put(bytes, 0, tag.home as u32);
        match self.sums {
            Sums::V2 => put(bytes, 4, tag.sum << 16 | flags),
            _ => put(bytes, 4, flags),
        }
        if self.wide {
            put(bytes, 8, (tag.home >> 32) as u32);
        }
        if self.sums == Sums::V3 {
            put(bytes, 12, tag.sum);
        }
    }

    /// The tags of a descriptor, up to the last or to the end of the block.
    pub fn tags(self, block: &[u8]) -> impl Iterator<Item = Tag> {
        let mut at = Some(HEADER);
        let end = block.len() - self.tail();
        core::iter::from_fn(move || {
            let here = at.filter(|at| at + self.tag() <= end)?;
            let flags = word(block, here + 4);
            let high = if self.wide { word(block, here + 8) } else { 0 };
            let next = here + self.tag() + if flags & SAME_UUID != 0 { 0 } else { UUID };
            at = (flags & LAST_TAG == 0).then_some(next);
            Some(Tag {
                home: u64::from(word(block, here)) | u64::from(high) << 32,
                escaped: flags & ESCAPE != 0,
                sum: match self.sums {
                    Sums::None => 0,
                    Sums::V2 => flags >> 16,
                    Sums::V3 => word(block, here + 12),
                },
            })
        })
    }

    /// Writes a revoke block of these blocks, no more than fit.
    pub fn revokes(self, block: &mut [u8], tid: Tid, blocks: impl Iterator<Item = u64>) {
        begin(block, kind::REVOKE, tid);
        let mut at = REVOKE_HEADER;
        for home in blocks {
            if self.wide {
                put(block, at, (home >> 32) as u32);
                at += 4;
            }
            put(block, at, home as u32);
            at += 4;
        }
        put(block, HEADER, at as u32);
        self.seal(block);
    }

    /// The blocks that a revoke block names; `log` is where it lies.
    pub fn revoked(
        self,
        block: &[u8],
        log: u32,
    ) -> Result<impl Iterator<Item = u64>, JournalError> {
        let found = word(block, HEADER);
        let most = (block.len() - self.tail()) as u32;
        if !(REVOKE_HEADER as u32..=most).contains(&found) {
            return Err(JournalError::RevokeCount { log, found, most });
        }
        let words = |record: &[u8]| {
            let parts = record.chunks_exact(4).map(|part| u64::from(word(part, 0)));
            parts.fold(0, |home, part| home << 32 | part)
        };
        Ok(block[REVOKE_HEADER..found as usize]
            .chunks_exact(self.record())
            .map(words))
    }

    /// Writes a commit block.
    pub fn commit(self, block: &mut [u8], tid: Tid) {
        begin(block, kind::COMMIT, tid);
        if self.has_sums() {
            let sum = crc32c(self.seed, block);
            put(block, COMMIT_SUM, sum);
        }
    }

    /// Puts the checksum into a descriptor or a revoke block.
    fn seal(self, block: &mut [u8]) {
        if self.has_sums() {
            let at = block.len() - TAIL;
            put(block, at, 0);
            let sum = crc32c(self.seed, block);
            put(block, at, sum);
        }
    }

    /// True if a control block has the right checksum, or needs none.
    pub fn is_sound(self, kind: u32, block: &[u8]) -> bool {
        let at = match kind {
            kind::COMMIT => COMMIT_SUM,
            _ => block.len() - TAIL,
        };
        let sum = || {
            let sum = crc32c(self.seed, &block[..at]);
            crc32c(crc32c(sum, &[0; 4]), &block[at + 4..])
        };
        !self.has_sums() || word(block, at) == sum()
    }
}

/// The time in a commit block, in seconds.
pub(crate) fn commit_time(block: &[u8]) -> u64 {
    u64::from(word(block, COMMIT_TIME)) << 32 | u64::from(word(block, COMMIT_TIME + 4))
}

/// The transaction of the fast commits whose area begins with this block; none if there are none
/// (Linux `fs/ext4/fast_commit.h`; little-endian).
pub(crate) fn fast_commit(block: &[u8]) -> Option<Tid> {
    /// Tag and length of the head.
    const HEAD: [u8; 4] = [9, 0, 8, 0];
    let tid = block.get(8..12)?.try_into().ok()?;
    (block[..4] == HEAD).then(|| Tid(u32::from_le_bytes(tid)))
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
                sum: 0,
            },
            Tag {
                home: 5,
                escaped: true,
                sum: 0,
            },
            Tag {
                home: 6,
                escaped: false,
                sum: 0,
            },
        ];
        let form = Form::default();
        form.descriptor(&mut block, Tid(7), b"0123456789abcdef", tags.into_iter());
        let head = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 1, 0, 0, 0, 7];
        let first = [1, 2, 3, 4, 0, 0, 0, 0];
        let others = [0, 0, 0, 5, 0, 0, 0, 1 + 2, 0, 0, 0, 6, 0, 0, 0, 2 + 8];
        let expected = [&head[..], &first, b"0123456789abcdef", &others].concat();
        assert_eq!(block[..expected.len()], expected);
        assert!(block[expected.len()..].iter().all(|byte| *byte == 0));
        assert_eq!(form.tags(&block).collect::<Vec<_>>(), tags);
    }

    #[test]
    fn a_full_descriptor_leaves_less_room_than_a_tag_with_its_identifier_takes() {
        for (size, tags) in [(1024, 122), (2048, 250), (4096, 506)] {
            assert_eq!(Form::default().tags_per_descriptor(size), tags);
            let left = |tags: u32| size - 12 - 16 - 8 * tags;
            assert!(left(tags) < 24 && left(tags - 1) >= 24);
        }
    }

    /// Every form of jbd2's control blocks, with the bytes of a tag.
    const FORMS: [(Sums, bool, usize); 6] = [
        (Sums::None, false, 8),
        (Sums::None, true, 12),
        (Sums::V2, false, 10),
        (Sums::V2, true, 14),
        (Sums::V3, false, 16),
        (Sums::V3, true, 16),
    ];

    #[test]
    fn every_form_of_jbd2_comes_back_and_a_changed_byte_is_found() {
        for (sums, wide, tag) in FORMS {
            let seed = 0x1234_5678;
            let form = Form { sums, wide, seed };
            assert_eq!(form.tag(), tag);
            let most = form.tags_per_descriptor(1024);
            let left = |tags: u32| 1024 - 28 - form.tail() as u32 - tag as u32 * tags;
            assert!(left(most) < tag as u32 + 16 && left(most - 1) >= tag as u32 + 16);
            let high = if wide { 7 << 32 } else { 0 };
            let tags: Vec<Tag> = (0..most)
                .map(|n| Tag {
                    home: u64::from(n) | high,
                    escaped: n % 3 == 0,
                    sum: form.copy_sum(Tid(5), &[n as u8; 1024]),
                })
                .collect();
            let mut block = vec![0; 1024];
            form.descriptor(&mut block, Tid(5), &[9; 16], tags.iter().copied());
            assert_eq!(form.tags(&block).collect::<Vec<_>>(), tags, "{form:?}");
            let homes = [3 | high, 0xFFFF_FFFF];
            let mut revokes = vec![0; 1024];
            form.revokes(&mut revokes, Tid(5), homes.into_iter());
            assert_eq!(
                form.revoked(&revokes, 9).unwrap().collect::<Vec<_>>(),
                homes
            );
            let mut commit = vec![0; 1024];
            form.commit(&mut commit, Tid(5));
            for (kind, block) in [
                (kind::DESCRIPTOR, &mut block),
                (kind::REVOKE, &mut revokes),
                (kind::COMMIT, &mut commit),
            ] {
                assert!(form.is_sound(kind, block));
                block[500] ^= 4;
                assert_eq!(form.is_sound(kind, block), sums == Sums::None);
            }
        }
    }

    #[test]
    fn tags_end_with_the_block_where_no_last_one_is() {
        let mut block = vec![0xFF; 1024];
        begin(&mut block, kind::DESCRIPTOR, Tid(1));
        // Every tag of zeros is followed by an identifier: 12 + 42 * 24 = 1020.
        let form = Form::default();
        assert_eq!(form.tags(&block).count(), 42);
        block[HEADER..].fill(0x02);
        assert_eq!(form.tags(&block).count(), 126);
    }

    #[test]
    fn a_revoke_block_counts_its_own_header() {
        let mut block = [0xEE; 1024];
        let form = Form::default();
        form.revokes(&mut block, Tid(0x0A0B_0C0D), [3, 0xFFFF_FFFF].into_iter());
        let expected = [
            0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 5, 10, 11, 12, 13, 0, 0, 0, 24, 0, 0, 0, 3, 255, 255,
            255, 255,
        ];
        assert_eq!(block[..24], expected);
        assert_eq!(
            form.revoked(&block, 9).unwrap().collect::<Vec<_>>(),
            [3, 0xFFFF_FFFF]
        );
        for count in [0, 15, 1025, u32::MAX] {
            put(&mut block, HEADER, count);
            assert_eq!(
                form.revoked(&block, 9).err(),
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
}
