//! Summaries: to which node each block of a segment belongs, with the journals that ride in them;
//! in blocks of their own, and compact in a checkpoint pack.
//!
//! *Promises.* What leads out of a block is never followed. *Knows nothing of* logs and tables.

use crate::{
    disk::{Block, zeros},
    format::{SEGMENT, le16, le32, le64, put16, put32, put64},
};
use alloc::{vec, vec::Vec};

/// Bytes of an entry.
const ENTRY: usize = 7;
/// Where the journal lies in a block, and its bytes.
const JOURNAL: usize = ENTRY * SEGMENT as usize;
const JOURNAL_BYTES: usize = 507;
/// Where type and checksum lie.
const FOOTER: usize = 4091;
/// Entries of the node address table that a journal takes.
pub(crate) const NAT_JOURNAL: usize = 38;
/// Entries of the segment information table that a journal takes.
pub(crate) const SIT_JOURNAL: usize = 6;

/// To which node a block belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The node that the block is, or whose address list has it.
    pub nid: u32,
    pub version: u8,
    /// Where in the list.
    pub slot: u16,
}

/// Owners of a segment's blocks.
pub(crate) type Owners = Vec<Owner>;

pub(crate) fn nobody() -> Owners {
    vec![Owner::default(); SEGMENT as usize]
}

fn get(block: &[u8], at: usize) -> Owner {
    Owner {
        nid: le32(block, at),
        version: block[at + 4],
        slot: le16(block, at + 5),
    }
}

fn put(block: &mut [u8], at: usize, owner: Owner) {
    put32(block, at, owner.nid);
    block[at + 4] = owner.version;
    put16(block, at + 5, owner.slot);
}

/// An entry of the node address table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NatEntry {
    pub version: u8,
    pub ino: u32,
    pub addr: u32,
}

impl NatEntry {
    pub const BYTES: usize = 9;

    pub fn get(block: &[u8], at: usize) -> Self {
        Self {
            version: block[at],
            ino: le32(block, at + 1),
            addr: le32(block, at + 5),
        }
    }

    pub fn put(self, block: &mut [u8], at: usize) {
        block[at] = self.version;
        put32(block, at + 1, self.ino);
        put32(block, at + 5, self.addr);
    }
}

/// An entry of the segment information table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SitEntry {
    pub kind: u8,
    pub valid: u16,
    pub map: [u8; 64],
    pub mtime: u64,
}

impl SitEntry {
    pub const BYTES: usize = 74;

    pub fn get(block: &[u8], at: usize) -> Self {
        let head = le16(block, at);
        let map = core::array::from_fn(|i| block[at + 2 + i]);
        Self {
            kind: (head >> 10) as u8,
            valid: head & 0x3FF,
            map,
            mtime: le64(block, at + 66),
        }
    }

    pub fn put(&self, block: &mut [u8], at: usize) {
        put16(block, at, self.valid | u16::from(self.kind) << 10);
        block[at + 2..at + 66].copy_from_slice(&self.map);
        put64(block, at + 66, self.mtime);
    }
}

/// Journals of the two tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journals {
    pub nat: Vec<(u32, NatEntry)>,
    pub sit: Vec<(u32, SitEntry)>,
}

impl Journals {
    pub fn read_nat(&mut self, bytes: &[u8]) {
        let count = usize::from(le16(bytes, 0)).min(NAT_JOURNAL);
        self.nat = (0..count)
            .map(|i| 2 + i * 13)
            .map(|at| (le32(bytes, at), NatEntry::get(bytes, at + 4)))
            .collect();
    }

    pub fn read_sit(&mut self, bytes: &[u8]) {
        let count = usize::from(le16(bytes, 0)).min(SIT_JOURNAL);
        self.sit = (0..count)
            .map(|i| 2 + i * 78)
            .map(|at| (le32(bytes, at), SitEntry::get(bytes, at + 4)))
            .collect();
    }

    fn write_nat(&self, bytes: &mut [u8]) {
        put16(bytes, 0, self.nat.len() as u16);
        for (i, (nid, entry)) in self.nat.iter().enumerate() {
            put32(bytes, 2 + i * 13, *nid);
            entry.put(bytes, 6 + i * 13);
        }
    }

    fn write_sit(&self, bytes: &mut [u8]) {
        put16(bytes, 0, self.sit.len() as u16);
        for (i, (segment, entry)) in self.sit.iter().enumerate() {
            put32(bytes, 2 + i * 78, *segment);
            entry.put(bytes, 6 + i * 78);
        }
    }
}

/// The owners in a block of the summary area or a whole summary in a pack.
pub(crate) fn owners(block: &[u8]) -> Owners {
    (0..SEGMENT as usize)
        .map(|i| get(block, i * ENTRY))
        .collect()
}

/// The journal's bytes in a whole summary.
pub(crate) fn journal(block: &[u8]) -> &[u8] {
    &block[JOURNAL..JOURNAL + JOURNAL_BYTES]
}

/// A whole summary; of hot data in a pack with the journal of addresses, of cold data with that of
/// segments.
pub(crate) fn block(
    owners: &Owners,
    nodes: bool,
    nat: Option<&Journals>,
    sit: Option<&Journals>,
) -> Block {
    let mut block = zeros();
    owners
        .iter()
        .enumerate()
        .for_each(|(i, owner)| put(&mut block, i * ENTRY, *owner));
    let journal = &mut block[JOURNAL..JOURNAL + JOURNAL_BYTES];
    if let Some(journals) = nat {
        journals.write_nat(journal);
    }
    if let Some(journals) = sit {
        journals.write_sit(journal);
    }
    block[FOOTER] = nodes.into();
    block
}

/// How many blocks the owners of so many data blocks take, compact; 3 for those that do not fit
/// into two.
pub(crate) fn compact_blocks(entries: usize) -> u32 {
    const FIRST: usize = (FOOTER - 2 * JOURNAL_BYTES) / ENTRY;
    const MORE: usize = FOOTER / ENTRY;
    match entries {
        0..=FIRST => 1,
        _ if entries <= FIRST + MORE => 2,
        _ => 3,
    }
}

/// Compact summaries: both journals, then the owners that the data logs have used.
pub(crate) fn compact(journals: &Journals, used: &[&[Owner]]) -> Vec<Block> {
    let mut blocks = vec![zeros()];
    journals.write_nat(&mut blocks[0][..JOURNAL_BYTES]);
    journals.write_sit(&mut blocks[0][JOURNAL_BYTES..2 * JOURNAL_BYTES]);
    let mut at = 2 * JOURNAL_BYTES;
    for owner in used.iter().copied().flatten() {
        if at + ENTRY > FOOTER {
            blocks.push(zeros());
            at = 0;
        }
        let last = blocks.len() - 1;
        put(&mut blocks[last], at, *owner);
        at += ENTRY;
    }
    blocks
}

/// Reads compact summaries; `used` says how many entries each data log has, `next` gives blocks.
pub(crate) fn read_compact<E>(
    used: [usize; 3],
    mut next: impl FnMut() -> Result<Block, E>,
) -> Result<(Journals, [Owners; 3]), E> {
    let mut journals = Journals::default();
    let mut block = next()?;
    journals.read_nat(&block[..JOURNAL_BYTES]);
    journals.read_sit(&block[JOURNAL_BYTES..2 * JOURNAL_BYTES]);
    let mut all = [nobody(), nobody(), nobody()];
    let mut at = 2 * JOURNAL_BYTES;
    for (owners, used) in all.iter_mut().zip(used) {
        for owner in &mut owners[..used.min(SEGMENT as usize)] {
            if at + ENTRY > FOOTER {
                block = next()?;
                at = 0;
            }
            *owner = get(&block, at);
            at += ENTRY;
        }
    }
    Ok((journals, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_summaries_come_back() {
        let owners: Owners = (0..512)
            .map(|i| Owner {
                nid: i * 7,
                version: i as u8,
                slot: i as u16,
            })
            .collect();
        let entry = SitEntry {
            kind: 4,
            valid: 300,
            map: [5; 64],
            mtime: 9,
        };
        let journals = Journals {
            nat: vec![(
                8,
                NatEntry {
                    version: 1,
                    ino: 8,
                    addr: 77,
                },
            )],
            sit: vec![(3, entry)],
        };
        let blocks = compact(&journals, &[&owners[..512], &owners[..100], &owners[..1]]);
        assert_eq!(blocks.len() as u32, compact_blocks(613));
        let mut blocks = blocks.into_iter();
        let (read, all) = read_compact::<()>([512, 100, 1], || blocks.next().ok_or(())).unwrap();
        assert_eq!((read.nat, read.sit), (journals.nat, journals.sit));
        assert_eq!(
            (&all[0], &all[1][..100], &all[2][..2]),
            (&owners, &owners[..100], &[owners[0], Owner::default()][..])
        );
        assert_eq!(
            (
                compact_blocks(439),
                compact_blocks(440),
                compact_blocks(1023),
                compact_blocks(1024)
            ),
            (1, 2, 2, 3)
        );
        assert_eq!(crate::format::BLOCK - FOOTER, 5);
    }
}
