//! An empty volume, as Linux makes one at the first mount of a UBI volume without contents.
//!
//! *Promises.* Areas are as long as Linux would make them. The first commit is written by the same
//! code as every other one. *Power loss.* The superblock comes last: without it there is no volume.

use crate::blocks::Blocks;
use crate::compress::Unpacker;
use crate::error::Result;
use crate::format::draft::{append, pad};
use crate::format::{
    BIG_LPT, Branch, DOUBLE_HASH, Fault, Geometry, Group, IS_PACKED, Key, KeyHash, LptShape,
    Master, NO_ORPHANS, Props, Space, Super, is_erased,
};
use crate::index::Index;
use crate::lebs::Lebs;
use crate::lpt_tree::LptTree;
use crate::mount::{Journal, Ubifs};
use crate::names::EMPTY_DIRECTORY;
use crate::node::Media;
use crate::writer::Writer;
use alloc::collections::BTreeMap;
use alloc::{vec, vec::Vec};
use nandlab_vfs::{FileType, Gate, Time};

/// What a new volume is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The version of the format: 4, or 5 with double hashes.
    pub version: u32,
    /// The number of the compressor of new files: none, LZO, zlib, zstd.
    pub compressor: u16,
    /// How names become keys.
    pub key_hash: KeyHash,
    /// Branches of an index node at most.
    pub fanout: u32,
    /// Bytes that are written at once at least, where the medium does not know.
    pub page: Option<u32>,
    /// Logical blocks that the volume may grow to; without, those that it has.
    pub lebs_max: Option<u32>,
    /// The form of the LEB properties tree; without, the one that Linux would take.
    pub big_lpt: Option<bool>,
    /// The number of the volume.
    pub uuid: [u8; 16],
    /// When the root was made.
    pub now: Time,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            version: 4,
            compressor: 1,
            key_hash: KeyHash::R5,
            fanout: 8,
            page: None,
            lebs_max: None,
            big_lpt: None,
            uuid: [0; 16],
            now: Time::default(),
        }
    }
}

/// The number of inodes that Linux keeps for itself.
pub(crate) const RESERVED_INODES: u64 = 64;
/// Blocks that the smallest volume has.
const LEBS_MIN: u32 = 17;
/// Blocks that the big form of the properties tree saves.
const SAVED_LEBS: u32 = 256;
/// Bytes and blocks of the journal.
const JOURNAL_MAX: u64 = 32 << 20;
const JOURNAL_LEBS_MIN: u32 = 5;
const BUDS_MIN: u32 = 3;
/// Rounds until the areas' lengths no longer change.
const ROUNDS: u32 = 64;

/// Makes an empty volume of all blocks that there are.
pub fn format<L: Lebs>(lebs: L, format: &Format) -> Result<L> {
    let mut fs = Ubifs::blank(lebs, format)?;
    fs.write_root(format.now)?;
    fs.commit()?;
    fs.write_master(NO_ORPHANS)?;
    let sqnum = fs.next_sqnum();
    let head = fs.media.head.draft().seal(sqnum, Group::None);
    fs.media.change(0, &head)?;
    fs.media.sync()?;
    Ok(fs.media.into_lebs())
}

/// The superblock of a new volume.
fn head_of<L: Lebs>(lebs: &L, format: &Format) -> Result<Super> {
    let shape = lebs.shape();
    let lebs_max = format.lebs_max.unwrap_or(shape.lebs).max(shape.lebs);
    let fits = shape.lebs >= LEBS_MIN && shape.leb_bytes >= LEB_MIN;
    let expected = "17 or more, each of 15 KiB or more";
    Fault::unless(fits, "the number of logical blocks", shape.lebs, expected)
        .map_err(|fault| fault.at(0, 0))?;
    let min_io = shape.page.or(format.page).unwrap_or(8).max(8);
    let unit = 64u32.next_multiple_of(min_io);
    let most = (JOURNAL_MAX / u64::from(shape.leb_bytes)) as u32;
    let journal = (lebs_max / 20).clamp(JOURNAL_LEBS_MIN, most.max(JOURNAL_LEBS_MIN));
    let is_roomy = shape.lebs - LEBS_MIN > 8;
    let refs = 2 * u64::from(unit) * u64::from(journal);
    let log_lebs = refs.div_ceil(shape.leb_bytes.into()) as u32 + 1 + u32::from(is_roomy);
    let buds = journal.saturating_sub(log_lebs).max(BUDS_MIN);
    let flags = match format.version {
        5 => DOUBLE_HASH,
        _ => 0,
    };
    let mut head = Super {
        geometry: Geometry {
            min_io,
            leb: shape.leb_bytes,
            lebs: shape.lebs,
            lebs_max,
            log_lebs,
            lpt_lebs: 2,
            orphan_lebs: 1 + u32::from(is_roomy),
            fanout: format.fanout,
        },
        key_hash: format.key_hash,
        flags,
        version: format.version,
        compressor: format.compressor,
        bud_bytes: u64::from(buds) * u64::from(shape.leb_bytes),
        reserved_bytes: 0,
        saved_lebs: SAVED_LEBS,
        uuid: format.uuid,
    };
    size_properties(&mut head, format.big_lpt);
    limit_journal(&mut head);
    let node = head.draft().seal(0, Group::None);
    Super::parse(&node, shape.leb_bytes, shape.lebs, shape.page)
}

/// Linux refuses a journal that is longer than the main area, and a volume may never grow.
pub(crate) fn limit_journal(head: &mut Super) {
    let here = &head.geometry;
    let least = here.main_first() + BUDS_MIN;
    let room = here.lebs.saturating_sub(least).max(BUDS_MIN);
    let most = u64::from(room) * u64::from(here.leb);
    head.bud_bytes = head.bud_bytes.min(most);
}

/// The smallest logical block.
const LEB_MIN: u32 = 15_360;

/// Gives the properties tree four times the room that it needs, as Linux does.
fn size_properties(head: &mut Super, big: Option<bool>) {
    let grown = |head: &Super| {
        let mut grown = *head;
        grown.geometry.lebs = grown.geometry.lebs_max;
        LptShape::new(&grown).whole_bytes()
    };
    let leb = u64::from(head.geometry.leb);
    if big.unwrap_or(grown(head) > leb) {
        head.flags |= BIG_LPT;
    }
    for _ in 0..ROUNDS {
        let needed = (4 * grown(head)).div_ceil(leb) as u32;
        if needed <= head.geometry.lpt_lebs {
            return;
        }
        head.geometry.lpt_lebs = needed;
    }
}

impl<L: Lebs> Ubifs<L> {
    /// A volume without a root.
    fn blank(lebs: L, format: &Format) -> Result<Self> {
        let head = head_of(&lebs, format)?;
        let here = head.geometry;
        let mut media = Media::with(lebs, head);
        (0..here.lebs).try_for_each(|lnum| clear(&mut media, lnum))?;
        let props = vec![Props::empty(here.leb); here.main_lebs() as usize];
        let mut writer = Writer {
            blocks: Blocks::new(&here, props),
            lpt: Some(LptTree::new(LptShape::new(&head), &here)),
            ..Writer::default()
        };
        // The first commit begins the first block of the log.
        writer.log.tail = here.log_first();
        writer.log.lnum = here.lpt_first() - 1;
        Ok(Self {
            media,
            master: first_master(&here),
            index: Index::default(),
            sizes: BTreeMap::new(),
            journal: Journal::default(),
            buds: Vec::new(),
            writer,
            highest_inode: RESERVED_INODES,
            gate: Gate::new(false),
            unpacker: Unpacker::default(),
            cursor: None,
            salvaged: None,
        })
    }

    fn write_root(&mut self, now: Time) -> Result<()> {
        let here = self.media.geometry();
        let mut root = self.fresh(1, FileType::Directory, 0o755, now);
        root.links = 2;
        root.size = EMPTY_DIRECTORY;
        // What is made in the root takes this over.
        root.flags = IS_PACKED;
        let lnum = here.main_first();
        let sqnum = self.next_sqnum();
        let node = root.node().draft().seal(sqnum, Group::None);
        let mut bytes = Vec::new();
        append(&mut bytes, &node);
        let end = bytes.len() as u32;
        pad(&mut bytes, here.min_io);
        let padded = bytes.len() as u32;
        self.media.renew(lnum)?;
        self.media.write(lnum, 0, &bytes)?;
        self.writer.blocks.written(lnum, padded, padded - end);
        let at = Branch {
            lnum,
            offs: 0,
            len: node.len() as u32,
        };
        self.index.set(Key::of_inode(1), at);
        Ok(())
    }
}

/// Empties a block. One with nodes of an older volume must not come back after a power cut: their
/// sequence numbers may be greater.
fn clear<L: Lebs>(media: &mut Media<L>, lnum: u32) -> Result<()> {
    match media.leb(lnum) {
        Ok(bytes) if is_erased(&bytes) => media.unmap(lnum),
        _ => media.renew(lnum),
    }
}

/// A master node before the first commit, whose index has no block yet.
pub(crate) fn first_master(here: &Geometry) -> Master {
    let first = here.main_first();
    Master {
        sqnum: 0,
        highest_inode: RESERVED_INODES,
        commit: 0,
        flags: 0,
        log_lnum: here.log_first(),
        root: Branch {
            lnum: first,
            offs: 0,
            len: 0,
        },
        gc_lnum: None,
        index_head: (first, here.leb),
        index_bytes: 0,
        space: Space::default(),
        lpt_root: (0, 0),
        lpt_head: (here.lpt_first(), 0),
        ltab: (0, 0),
        saved: (0, 0),
        scan_lnum: first,
        lebs: here.lebs,
    }
}
