//! Master nodes, with the rules that Linux holds them to (`validate_master`).

use super::{Branch, Fault, Geometry, SQNUM_LIMIT, align8, le32, le64};

/// Flags.
const DIRTY: u32 = 1;
const NO_ORPHANS: u32 = 2;
const RECOVERED: u32 = 4;
/// No logical block.
const NONE: u32 = u32::MAX;

/// A master node: the state of the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Master {
    /// Its own number.
    pub sqnum: u64,
    /// The greatest inode number in use.
    pub highest_inode: u64,
    /// The number of the commit.
    pub commit: u64,
    /// Flags.
    pub flags: u32,
    /// The first block of the log.
    pub log_lnum: u32,
    /// The root of the index.
    pub root: Branch,
    /// The empty block that is kept for collection.
    pub gc_lnum: Option<u32>,
    /// Where the next index nodes go.
    pub index_head: (u32, u32),
    /// Bytes of all index nodes.
    pub index_bytes: u64,
    /// Free, dirty, used, dead and dark bytes of the main area.
    pub totals: [u64; 5],
    /// The root of the tree of properties, its head, and its table of blocks.
    pub lpt: [(u32, u32); 3],
    /// Empty blocks of the main area.
    pub empty_lebs: u32,
    /// Blocks of the index.
    pub index_lebs: u32,
    /// Logical blocks at the commit.
    pub lebs: u32,
}

impl Master {
    /// Reads a node.
    pub fn parse(bytes: &[u8], sqnum: u64) -> Self {
        let pair = |at| (le32(bytes, at), le32(bytes, at + 4));
        let gc = le32(bytes, 60);
        Self {
            sqnum,
            highest_inode: le64(bytes, 24),
            commit: le64(bytes, 32),
            flags: le32(bytes, 40),
            log_lnum: le32(bytes, 44),
            root: Branch {
                lnum: le32(bytes, 48),
                offs: le32(bytes, 52),
                len: le32(bytes, 56),
            },
            gc_lnum: (gc != NONE).then_some(gc),
            index_head: pair(64),
            index_bytes: le64(bytes, 72),
            totals: [80, 88, 96, 104, 112].map(|at| le64(bytes, at)),
            lpt: [pair(120), pair(128), pair(136)],
            empty_lebs: le32(bytes, 156),
            index_lebs: le32(bytes, 160),
            lebs: le32(bytes, 164),
        }
    }

    /// Refuses what Linux refuses.
    pub fn validate(&self, here: &Geometry) -> Result<(), Fault> {
        let main = here.main_bytes();
        let fits = self.sqnum < SQNUM_LIMIT;
        Fault::unless(
            fits,
            "the sequence number of a master node",
            self.sqnum,
            "far less",
        )?;
        let log = here.log_first()..here.lpt_first();
        let fits = log.contains(&self.log_lnum);
        Fault::unless(
            fits,
            "the first block of the log",
            self.log_lnum,
            "a block of the log",
        )?;
        let Branch { lnum, offs, len } = self.root;
        let fits = here.is_main(lnum, offs, len) && (48..=28 + 20 * here.fanout).contains(&len);
        Fault::unless(
            fits,
            "the block of the index root",
            lnum,
            "a node in the main area",
        )?;
        if let Some(gc) = self.gc_lnum {
            let fits = here.is_main(gc, 0, 0);
            Fault::unless(fits, "the block for collection", gc, "one of the main area")?;
        }
        let (lnum, offs) = self.index_head;
        let fits = here.is_main(lnum, offs, 0) && offs.is_multiple_of(here.min_io);
        Fault::unless(
            fits,
            "the head of the index",
            offs,
            "a whole write in the main area",
        )?;
        let fits = self.index_bytes.is_multiple_of(8) && self.index_bytes < main;
        Fault::unless(
            fits,
            "the length of the index",
            self.index_bytes,
            "less than the main area",
        )?;
        for (lnum, offs) in self.lpt {
            let lpt = here.lpt_first()..here.orphan_first();
            let fits = lpt.contains(&lnum) && offs <= here.leb;
            Fault::unless(fits, "a block of the properties", lnum, "one of their area")?;
        }
        let fits = self.empty_lebs < here.main_lebs();
        Fault::unless(
            fits,
            "the empty blocks",
            self.empty_lebs,
            "less than there are",
        )?;
        let fits = self.index_lebs < here.main_lebs();
        Fault::unless(
            fits,
            "the blocks of the index",
            self.index_lebs,
            "less than there are",
        )?;
        self.validate_totals(main)
    }

    fn validate_totals(&self, main: u64) -> Result<(), Fault> {
        let [free, dirty, used, dead, dark] = self.totals;
        for total in self.totals {
            let fits = total.is_multiple_of(8) && total <= main;
            Fault::unless(
                fits,
                "a total of bytes",
                total,
                "a multiple of 8 in the main area",
            )?;
        }
        let sum = free + dirty + used;
        Fault::unless(
            sum <= main,
            "free, dirty and used bytes",
            sum,
            "the main area at most",
        )?;
        let sum = dead + dark + used + self.index_bytes;
        Fault::unless(
            sum <= main,
            "dead, dark, used and index bytes",
            sum,
            "the main area at most",
        )
    }

    /// Whether the volume was in use when the node was written.
    pub fn is_dirty(&self) -> bool {
        self.flags & DIRTY != 0
    }

    /// Whether there are no orphans.
    pub fn has_no_orphans(&self) -> bool {
        self.flags & NO_ORPHANS != 0
    }

    /// Whether the recovery of a master node wrote it.
    pub fn was_recovered(&self) -> bool {
        self.flags & RECOVERED != 0
    }

    /// Bytes that a node takes.
    pub(crate) fn step(min_io: u32) -> u32 {
        align8(512).next_multiple_of(min_io)
    }
}
