//! Master nodes, with the rules that Linux holds them to (`validate_master`).

use super::{Branch, Draft, Fault, Geometry, Kind, Place, Props, SQNUM_LIMIT, align8, le32, le64};

/// Flag bits of the master node.
pub(crate) const DIRTY: u32 = 1;
pub(crate) const NO_ORPHANS: u32 = 2;
pub(crate) const RECOVERED: u32 = 4;
/// The number that stands for no logical block.
const NONE: u32 = u32::MAX;

/// Sums over the main area, as a master node has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that are erased and not written.
    pub free: u64,
    /// Bytes that nothing uses.
    pub dirty: u64,
    /// Bytes of nodes in use, without the index.
    pub used: u64,
    /// Bytes that no node fits in.
    pub dead: u64,
    /// Bytes that may stay unused because a node does not fit.
    pub dark: u64,
    /// Blocks of the main area without contents.
    pub empty_lebs: u32,
    /// Blocks of the index.
    pub index_lebs: u32,
}

impl Space {
    /// Adds the properties of a block to the sums.
    pub fn add(&mut self, props: Props, here: &Geometry) {
        self.free += u64::from(props.free);
        self.dirty += u64::from(props.dirty);
        self.empty_lebs += u32::from(props.free == here.leb);
        if props.is_index {
            self.index_lebs += 1;
            return;
        }
        self.used += u64::from(props.used(here.leb));
        let space = props.free + props.dirty;
        match space < here.dead_bytes() {
            true => self.dead += u64::from(space),
            false => self.dark += u64::from(here.dark_of(space)),
        }
    }
}

/// A master node: the state of the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Master {
    /// The sequence number of this node.
    pub sqnum: u64,
    /// The greatest inode number in use.
    pub highest_inode: u64,
    /// The number of the commit.
    pub commit: u64,
    /// The flag bits, as on the medium.
    pub flags: u32,
    /// The first block of the log.
    pub log_lnum: u32,
    /// The root of the index.
    pub root: Branch,
    /// The empty block that is kept for collection.
    pub gc_lnum: Option<u32>,
    /// Where the next index nodes go.
    pub index_head: Place,
    /// Bytes of all index nodes.
    pub index_bytes: u64,
    /// Sums over the main area.
    pub space: Space,
    /// The root of the tree of properties.
    pub lpt_root: Place,
    /// Where the next nodes of that tree go.
    pub lpt_head: Place,
    /// The table of that tree's blocks.
    pub ltab: Place,
    /// The list of saved blocks, in the big form of that tree.
    pub saved: Place,
    /// Where the next search for space begins.
    pub scan_lnum: u32,
    /// Logical blocks at the commit.
    pub lebs: u32,
}

impl Master {
    /// Reads the node from its bytes, header included.
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
            space: Space {
                free: le64(bytes, 80),
                dirty: le64(bytes, 88),
                used: le64(bytes, 96),
                dead: le64(bytes, 104),
                dark: le64(bytes, 112),
                empty_lebs: le32(bytes, 156),
                index_lebs: le32(bytes, 160),
            },
            lpt_root: pair(120),
            lpt_head: pair(128),
            ltab: pair(136),
            saved: pair(144),
            scan_lnum: le32(bytes, 152),
            lebs: le32(bytes, 164),
        }
    }

    /// The node with its header still to be completed.
    pub(crate) fn draft(&self) -> Draft {
        let mut node = Draft::new(Kind::Master, 512);
        node.put64(24, self.highest_inode);
        node.put64(32, self.commit);
        node.put64(72, self.index_bytes);
        let Space {
            free,
            dirty,
            used,
            dead,
            dark,
            empty_lebs,
            index_lebs,
        } = self.space;
        let sums = (80..).step_by(8).zip([free, dirty, used, dead, dark]);
        sums.for_each(|(at, sum)| node.put64(at, sum));
        let words = [
            self.root.lnum,
            self.root.offs,
            self.root.len,
            self.gc_lnum.unwrap_or(NONE),
            self.index_head.0,
            self.index_head.1,
        ];
        node.put32(40, self.flags);
        node.put32(44, self.log_lnum);
        let words = (48..).step_by(4).zip(words);
        words.for_each(|(at, word)| node.put32(at, word));
        let places = [self.lpt_root, self.lpt_head, self.ltab, self.saved];
        for (at, (lnum, offs)) in (120..).step_by(8).zip(places) {
            node.put32(at, lnum);
            node.put32(at + 4, offs);
        }
        let words = (152..).step_by(4);
        let words = words.zip([self.scan_lnum, empty_lebs, index_lebs, self.lebs]);
        words.for_each(|(at, word)| node.put32(at, word));
        node
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
        for (lnum, offs) in [self.lpt_root, self.lpt_head, self.ltab] {
            let lpt = here.lpt_first()..here.orphan_first();
            let fits = lpt.contains(&lnum) && offs <= here.leb;
            Fault::unless(fits, "a block of the properties", lnum, "one of their area")?;
        }
        let fits = self.space.empty_lebs < here.main_lebs();
        Fault::unless(
            fits,
            "the empty blocks",
            self.space.empty_lebs,
            "less than there are",
        )?;
        let fits = self.space.index_lebs < here.main_lebs();
        Fault::unless(
            fits,
            "the blocks of the index",
            self.space.index_lebs,
            "less than there are",
        )?;
        self.validate_totals(main)
    }

    fn validate_totals(&self, main: u64) -> Result<(), Fault> {
        let Space {
            free,
            dirty,
            used,
            dead,
            dark,
            ..
        } = self.space;
        for total in [free, dirty, used, dead, dark] {
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
