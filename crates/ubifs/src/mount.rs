//! A mounted volume: the last commit, brought up to date in memory.

use crate::bug::{SeededBug, Switches};
use crate::compress::Unpacker;
use crate::error::{Result, UbifsError};
use crate::file::Block;
use crate::finding::Finding;
use crate::format::{Master, Super};
use crate::index::Index;
use crate::lebs::Lebs;
use crate::log::Log;
use crate::node::Media;
use crate::replay::Bud;
use crate::sizes::Sizes;
use crate::writer::{Counts, Writer};
use crate::{master, orphans, replay};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandlab_vfs::report::Report;
use nandlab_vfs::{FileType, Gate, Gated, Ino};

/// The journal as a mount found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The volume was not unmounted: its last writes may be torn.
    pub in_use: bool,
    /// The pair of master nodes was not in order.
    pub master_recovered: bool,
    /// The volume asked for a fix-up of its free space.
    pub fixup: bool,
    /// Parts of the journal.
    pub parts: u32,
    /// Nodes that the replay found in them.
    pub nodes: u64,
    /// Inodes without a name that were removed.
    pub orphans: u64,
    /// Files whose sizes were raised to the end of their data.
    pub raised: u64,
}

/// A mounted volume, to be read or written.
pub struct Ubifs<L> {
    pub(crate) media: Media<L>,
    pub(crate) master: Master,
    pub(crate) index: Index,
    /// Sizes of files whose inodes tell of less.
    pub(crate) sizes: BTreeMap<u32, u64>,
    pub(crate) journal: Journal,
    /// The parts of the journal.
    pub(crate) buds: Vec<Bud>,
    pub(crate) writer: Writer,
    /// The greatest inode number of the commit and of the journal.
    pub(crate) highest_inode: u64,
    pub(crate) gate: Gate<UbifsError>,
    pub(crate) unpacker: Unpacker,
    /// The block of a file that was read last.
    pub(crate) cursor: Option<Block>,
    /// The reasons for a scan of all nodes, after one.
    pub(crate) salvaged: Option<Report<Finding>>,
}

/// A volume as a mount reads it.
pub(crate) struct Loaded {
    pub master: Master,
    pub index: Index,
    pub sizes: BTreeMap<u32, u64>,
    pub journal: Journal,
    pub buds: Vec<Bud>,
    pub highest_inode: u64,
    pub found: Found,
}

/// What a mount found that only a writer needs.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The greatest sequence number.
    pub sqnum: u64,
    /// Where the pair of master nodes lies, unless it was recovered.
    pub master_offs: u32,
    /// The blocks of the log, and where their nodes end.
    pub log: Vec<(u32, u32)>,
}

impl<L> core::fmt::Debug for Ubifs<L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ubifs")
            .field("master", &self.master)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

impl<L: Lebs> Ubifs<L> {
    /// Mounts a volume. Parts of its index that cannot be read fail when they are asked for.
    pub fn mount(lebs: L) -> Result<Self> {
        Ok(Self::read(lebs, Switches::default())?.0)
    }

    /// Mounts a volume. Returns what a writer has to know beside it.
    pub(crate) fn read(lebs: L, switches: Switches) -> Result<(Self, Found)> {
        let mut media = Media::new(lebs)?.switched(switches);
        let loaded = load(&mut media)?;
        let (mut fs, found) = Self::assemble(media, loaded);
        fs.check_root()?;
        Ok((fs, found))
    }

    /// Makes a mounted volume of these parts.
    pub(crate) fn assemble(media: Media<L>, loaded: Loaded) -> (Self, Found) {
        let fs = Self {
            media,
            master: loaded.master,
            index: loaded.index,
            sizes: loaded.sizes,
            journal: loaded.journal,
            buds: loaded.buds,
            writer: Writer::default(),
            highest_inode: loaded.highest_inode,
            gate: Gate::new(true),
            unpacker: Unpacker::default(),
            cursor: None,
            salvaged: None,
        };
        (fs, loaded.found)
    }

    fn check_root(&mut self) -> Result<()> {
        let (inode, at) = self.inode(Ino::ROOT)?;
        match inode.kind {
            FileType::Directory => Ok(()),
            _ => {
                let what = "the mode of the root";
                let fault = crate::format::Fault::rule(what, inode.mode, "a directory's");
                Err(fault.at(at.lnum, at.offs))
            }
        }
    }

    /// Returns the superblock of the volume.
    pub fn head(&self) -> &Super {
        &self.media.head
    }

    /// The master node of the last commit.
    pub fn master(&self) -> &Master {
        &self.master
    }

    /// What the mount found in the journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What was done since the mount beside writing what calls gave.
    pub fn counts(&self) -> Counts {
        let lpt = self.writer.lpt.as_ref();
        Counts {
            properties_moved: lpt.map_or(0, |lpt| lpt.moved),
            ..self.writer.counts
        }
    }

    /// Gives the medium back.
    pub fn into_lebs(self) -> L {
        self.media.into_lebs()
    }

    /// The byte of the volume that an error belongs to.
    pub fn place_of(&self, error: &UbifsError) -> Option<u64> {
        let (lnum, offs) = error.leb()?;
        let leb = u64::from(self.media.geometry().leb);
        Some(u64::from(lnum) * leb + u64::from(offs))
    }
}

/// Reads the last commit, and brings it up to date.
pub(crate) fn load<L: Lebs>(media: &mut Media<L>) -> Result<Loaded> {
    let chosen = master::find(media)?;
    let master = chosen.master;
    let in_use = master.is_dirty() || chosen.is_recovered;
    let mut index = Index::load(media, master.root);
    let mut journal = Journal {
        in_use,
        master_recovered: chosen.is_recovered,
        fixup: media.head.needs_fixup(),
        ..Journal::default()
    };
    let log = Log::read(media, &master, in_use)?;
    let mut buds = Vec::new();
    let steps = replay::read(media, &log, in_use, &mut buds)?;
    journal.parts = log.buds.len() as u32;
    journal.nodes = steps.len() as u64;
    let mut sizes = Sizes::default();
    replay::forget_emptied(media, &mut index, &buds);
    replay::apply(media, &mut index, &steps, &mut sizes)?;
    let newest = steps.iter().map(|step| u64::from(step.key.inode())).max();
    let highest_inode = master.highest_inode.max(newest.unwrap_or(0));
    let last = steps.last().map_or(0, |step| step.sqnum);
    let found = Found {
        sqnum: last.max(log.sqnum).max(master.sqnum),
        master_offs: chosen.offs,
        log: log.blocks,
    };
    drop(steps);
    let mut raised = BTreeMap::new();
    if in_use {
        if !master.has_no_orphans() {
            journal.orphans = orphans::kill(media, &mut index)?;
        }
        raised = sizes.recover(media, &mut index)?;
        if media.has_bug(SeededBug::KeepSizes) {
            raised.clear();
        }
        journal.raised = raised.len() as u64;
    }
    Ok(Loaded {
        master,
        index,
        sizes: raised,
        journal,
        buds,
        highest_inode,
        found,
    })
}

impl<L: Lebs> Gated for Ubifs<L> {
    type Error = UbifsError;

    fn gate(&mut self) -> &mut Gate<UbifsError> {
        &mut self.gate
    }

    fn place(&mut self, error: &UbifsError) -> Option<u64> {
        self.place_of(error)
    }
}
