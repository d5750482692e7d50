//! A substitute for a lost superblock, from the nodes.
//!
//! *Promises.* A reader needs the length of a block, the hash of names and the longest index node;
//! all of them follow from nodes. The areas stay unknown: the main area begins at the earliest
//! block that it can begin at.

use crate::format::{
    Branch, DOUBLE_HASH, Entry, Geometry, Header, IndexNode, InodeNode, KeyHash, Kind, Ref, Super,
    is_erased, le32,
};
use crate::lebs::LebShape;
use crate::survey;
use alloc::vec;
use alloc::vec::Vec;
use nandlab_sim::Backing;

/// A superblock that knows only the shape.
pub(crate) fn blank(shape: LebShape) -> Super {
    let LebShape {
        leb_bytes, lebs, ..
    } = shape;
    Super {
        geometry: Geometry {
            min_io: shape.page.unwrap_or(8).max(8),
            leb: leb_bytes,
            lebs,
            lebs_max: lebs,
            log_lebs: 2,
            lpt_lebs: 2,
            orphan_lebs: 1,
            fanout: FANOUT_MAX.min(leb_bytes.saturating_sub(28) / 20),
        },
        key_hash: KeyHash::R5,
        flags: 0,
        version: 4,
        compressor: 1,
        bud_bytes: 3 * u64::from(leb_bytes),
        reserved_bytes: 0,
        saved_lebs: 0,
        uuid: [0; 16],
    }
}

/// The most branches of an index node.
const FANOUT_MAX: u32 = 256;
const FANOUT_USUAL: u32 = 8;

/// Evidence of the superblock in nodes.
#[derive(Debug, Default)]
pub(crate) struct Clues {
    /// Names with the hash R5, and with the hash for tests.
    hashes: [u64; 2],
    cookies: u64,
    /// Files with each compressor.
    compressors: [u64; 4],
    index_len_max: u32,
}

impl Clues {
    /// Takes what a sound leaf tells.
    pub fn leaf(&mut self, bytes: &[u8], kind: Kind) {
        match kind {
            Kind::Dent | Kind::Xent => {
                if let Ok(entry) = Entry::parse(bytes, kind) {
                    for (votes, hash) in self.hashes.iter_mut().zip([KeyHash::R5, KeyHash::Test]) {
                        *votes += u64::from(hash.of(entry.name) == entry.key.value());
                    }
                    self.cookies += u64::from(le32(bytes, 52) != 0);
                }
            }
            Kind::Inode => {
                let inode = InodeNode::parse(bytes).ok();
                let file = inode.filter(|inode| inode.mode & 0o170_000 == 0o100_000);
                let number = file.map_or(usize::MAX, |file| file.compressor.into());
                if let Some(votes) = self.compressors.get_mut(number) {
                    *votes += 1;
                }
            }
            _ => {}
        }
    }

    /// Takes the length of an index node.
    pub fn index(&mut self, len: u32) {
        self.index_len_max = self.index_len_max.max(len);
    }

    /// The superblock that fits the nodes best.
    pub fn head(&self, blank: Super) -> Super {
        let most = self.compressors.iter().max().copied().unwrap_or(0);
        let used = self.compressors.iter().position(|votes| *votes == most);
        let compressor = used
            .filter(|_| most > 0)
            .map_or(blank.compressor, |at| at as u16);
        let has_cookies = self.cookies > 0;
        let fanout = self.index_len_max.saturating_sub(28) / 20;
        Super {
            key_hash: match self.hashes[1] > self.hashes[0] {
                true => KeyHash::Test,
                false => KeyHash::R5,
            },
            flags: if has_cookies { DOUBLE_HASH } else { 0 },
            version: if has_cookies { 5 } else { 4 },
            compressor,
            geometry: Geometry {
                fanout: fanout.max(FANOUT_USUAL),
                ..blank.geometry
            },
            ..blank
        }
    }
}

/// Bytes of the shortest and the longest logical block.
const LEB_MIN: u64 = 15_360;
const LEB_MAX: u64 = 2 << 20;
/// Proofs of a length at most, and those that must hold.
const PROOFS_MAX: usize = 256;
const HITS_MIN: usize = 2;
/// Master nodes that the first two blocks give a length by.
const MASTERS_MAX: usize = 8;
/// Bytes of one look, and those that the next look repeats: a node may cross.
const WINDOW: usize = 1 << 20;
const OVERLAP: usize = 32 << 10;

/// Something that follows from the length of a logical block.
enum Proof {
    /// A node lies at a place, as another node says, perhaps with its length.
    Named {
        lnum: u64,
        offs: u64,
        len: Option<u32>,
    },
    /// A block begins there: a node behind erased bytes.
    Begins(u64),
}

/// The length of a logical block of a volume without a superblock, by the nodes in its bytes: nodes
/// name the places of other nodes, and nodes behind erased bytes begin a block.
pub(crate) fn leb_bytes<B: Backing>(bytes: &mut B) -> Option<u32> {
    let mut proofs = Vec::new();
    let mut masters = Vec::new();
    let mut window = vec![0; WINDOW.min(bytes.len() as usize)];
    let mut at = 0;
    while at < bytes.len() && proofs.len() < PROOFS_MAX {
        let len = (window.len() as u64).min(bytes.len() - at) as usize;
        let part = &mut window[..len];
        if bytes.read_at(at, part).is_ok() {
            clues(at, part, &mut proofs, &mut masters);
        }
        at += (len.saturating_sub(OVERLAP)).max(1) as u64;
        if at + OVERLAP as u64 >= bytes.len() {
            break;
        }
    }
    proofs.truncate(PROOFS_MAX);
    let by_masters = masters.iter().flat_map(|at| [*at, at / 2]);
    let mut all: Vec<u64> = usual().chain(by_masters).collect();
    all.retain(|leb| (LEB_MIN..=LEB_MAX).contains(leb) && leb.is_multiple_of(8));
    let mut hits = |leb: &u64| {
        proofs
            .iter()
            .filter(|proof| proof.holds(bytes, *leb))
            .count()
    };
    let scored: Vec<(usize, u64)> = all.iter().map(|leb| (hits(leb), *leb)).collect();
    let (hits, leb) = scored.into_iter().max()?;
    (hits >= HITS_MIN && 2 * hits >= proofs.len()).then_some(leb as u32)
}

/// Collects the proofs of a length, and the places of master nodes.
fn clues(from: u64, bytes: &[u8], proofs: &mut Vec<Proof>, masters: &mut Vec<u64>) {
    let shape = LebShape {
        leb_bytes: LEB_MAX as u32,
        lebs: 1,
        page: None,
    };
    let here = blank(shape).geometry;
    for seen in survey::nodes(bytes, &here).filter(|seen| seen.fault.is_none()) {
        let at = seen.offs as usize;
        let node = &bytes[at..][..seen.header.len as usize];
        let place = from + u64::from(seen.offs);
        if at >= 8 && is_erased(&bytes[at - 8..at]) {
            proofs.push(Proof::Begins(place));
        }
        match seen.header.kind {
            Kind::Master if masters.len() < MASTERS_MAX => masters.push(place),
            Kind::Index => proofs.extend(children(node)),
            Kind::Ref => proofs.push(reference(node)),
            _ => {}
        }
    }
}

fn children(bytes: &[u8]) -> Vec<Proof> {
    let proof = |at: Branch| Proof::Named {
        lnum: at.lnum.into(),
        offs: at.offs.into(),
        len: Some(at.len),
    };
    match IndexNode::parse(bytes) {
        Ok(node) => node.children().map(|(_, at)| proof(at)).collect(),
        Err(_) => Vec::new(),
    }
}

fn reference(bytes: &[u8]) -> Proof {
    let one = Ref::parse(bytes);
    Proof::Named {
        lnum: one.lnum.into(),
        offs: one.offs.into(),
        len: None,
    }
}

impl Proof {
    /// True if it fits blocks of that length.
    fn holds<B: Backing>(&self, bytes: &mut B, leb: u64) -> bool {
        let (at, expected) = match self {
            Self::Begins(at) => return at.is_multiple_of(leb),
            Self::Named { lnum, offs, len } => (lnum * leb + offs, len),
        };
        let mut header = [0; 24];
        if at + 24 > bytes.len() || bytes.read_at(at, &mut header).is_err() {
            return false;
        }
        let header = Header::parse(&header, LEB_MAX as u32, LEB_MAX as u32, FANOUT_MAX);
        header.is_ok_and(|header| expected.is_none_or(|len| len == header.len))
    }
}

/// The lengths of logical blocks on usual chips: UBI takes one page, two, or the first 128 bytes.
fn usual() -> impl Iterator<Item = u64> {
    let blocks = (14..=21).map(|shift| 1u64 << shift);
    blocks.flat_map(|block| {
        let pages = [512u64, 1024, 2048, 4096, 8192, 16_384];
        let headers = pages.into_iter().flat_map(|page| [page, 2 * page]);
        headers
            .chain([128])
            .map(move |taken| block.saturating_sub(taken))
    })
}
