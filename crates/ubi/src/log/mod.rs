//! UBIL, "UBI with log" (Singh and Dongre, Proceedings of the Linux Symposium 2010, pp. 155-160):
//! commits of all erase counters and volume headers, and a log of those written since.
//!
//! *Promises.* An attach reads super blocks, a commit and the log instead of every block. What the
//! log says of a block is on flash before the block is written, so that the headers in the blocks
//! are not needed: without them ([`crate::Headers::None`]) the whole erase block is data. With them
//! the device is one that Linux attaches too, which erases UBIL's blocks.
//!
//! *How.* A commit reserves blocks, names them in a super block entry as its future, writes two
//! copies, and names them as the present; the log's blocks are new with each commit. Blocks that
//! were erased are logged with the next volume header. After an attach nothing is appended to what
//! may end in a torn page: the first header written begins with a commit, and the first entry in a
//! super block with an erase.
//!
//! *The paper's design*: super blocks are the first and the last good block, written in turns; a
//! commit has every block. *Its future work*: super blocks anywhere, in two mirrored copies, which
//! a chain finds (`chain`); commits of the changed pages of two tables, with an index (`tree`,
//! `parts`). So an attach reads the part that it needs, and the rest on demand.
//!
//! *Power loss.* A cut at any operation leaves the last commit and its log, whose last page may be
//! torn: then nothing that it would have said has happened.
//!
//! *Beyond the paper*, which leaves it open: all formats; the order above; a super block that fails
//! ends the log, until the next attach begins one (without headers, the device is read-only).

mod chain;
mod commit;
pub mod format;
pub mod leaves;
mod parts;
mod read;
mod read_parts;
mod superblock;
mod tree;

pub use format::VOLUMES;
pub(crate) use read::read;
pub(crate) use tree::Tree;

use crate::cost::list_bytes;
use crate::device::Kept;
use crate::error::{UbiError, require};
use crate::format::VidHeader;
use crate::wear::State;
use crate::{Commit, LogOptions, Memory, Shape, Superblock, Ubi};
use alloc::{vec, vec::Vec};
use chain::Chain;
use format::{Entry, Role, Super, commit_bytes, entries_per_page};
use nandlab_mtd::Mtd;
use superblock::Pair;

/// Logs that are tried for one entry.
const ATTEMPTS: u32 = 3;

/// Where super block entries go.
#[derive(Debug)]
pub(crate) enum Supers {
    Pair(Pair),
    Chain(Chain),
}

/// The superblock that counts now.
#[derive(Debug)]
pub(crate) struct Log {
    pub current: Super,
    pub supers: Supers,
    /// The tables of incremental commits.
    pub tree: Option<Tree>,
    /// Pages of the log that are written; none: only a commit frees space.
    pub position: Option<u32>,
    /// Volume headers by block.
    pub headers: Vec<Option<VidHeader>>,
    /// Blocks erased since the last page of the log.
    pub pending: Vec<u32>,
    /// Blocks that are not UBI's to use.
    pub preserved: Vec<u32>,
    /// Blocks that were written for a commit that is not there, or held super blocks: until the
    /// next commit nothing else says that they are not erased.
    pub tainted: Vec<u32>,
    /// Something of it was hard to read: a commit is due.
    pub hurt: bool,
}

impl Log {
    /// Without anything in it.
    pub fn new(pebs: u32, supers: Supers) -> Self {
        Self {
            current: Super::default(),
            supers,
            tree: None,
            position: None,
            headers: vec![None; pebs as usize],
            pending: Vec::new(),
            preserved: Vec::new(),
            tainted: Vec::new(),
            hurt: false,
        }
    }

    /// Whether a block is UBIL's own.
    pub fn owns(&self, peb: u32) -> bool {
        let lists = [
            &self.current.present,
            &self.current.log,
            &self.current.spare,
        ];
        let listed = lists.into_iter().flatten().any(|&own| own == peb);
        listed
            || match &self.supers {
                Supers::Pair(pair) => pair.blocks.iter().any(|block| block.peb == peb),
                Supers::Chain(chain) => chain.supers.contains(&peb) || chain.anchors.contains(&peb),
            }
    }

    /// The header that a block has.
    pub fn vid(&self, peb: u32) -> Option<VidHeader> {
        self.headers.get(peb as usize).copied().flatten()
    }

    pub fn memory(&self) -> u64 {
        let tree = self.tree.as_ref().map_or(0, Tree::memory);
        list_bytes(&self.headers) + list_bytes(&self.pending) + list_bytes(&self.preserved) + tree
    }
}

/// Erase blocks of one copy of a full commit.
pub(crate) fn commit_blocks(shape: &Shape) -> u32 {
    commit_bytes(shape.pebs).div_ceil(shape.leb_bytes.into()) as u32
}

/// Erase blocks that UBIL needs for itself: super blocks, and a present and a future commit with
/// their logs.
pub(crate) fn blocks_needed(shape: &Shape, options: LogOptions) -> Result<u32, UbiError> {
    require(
        (1..=256).contains(&options.blocks),
        "erase blocks of the log",
        options.blocks.into(),
        "1 to 256",
    )?;
    let parts = options.commit == Commit::Incremental;
    require(
        !(parts && options.compress),
        "compression of an incremental commit",
        1,
        "none",
    )?;
    let plain = !parts && options.superblock == Superblock::Pair;
    require(
        plain || shape.page >= 512,
        "bytes of a page",
        shape.page.into(),
        "512 or more for chains and incremental commits",
    )?;
    let (present, future) = match options.commit {
        Commit::Full => (commit_blocks(shape), commit_blocks(shape)),
        Commit::Incremental => (tree::most_blocks(shape), tree::whole_blocks(shape)),
    };
    let listed = 2 * (present + future) + 2 * options.blocks;
    let (supers, spare) = match options.superblock {
        Superblock::Pair => (2, 0),
        Superblock::Chain => (chain::BLOCKS_NEEDED, chain::SPARE as u32 + 2),
    };
    // Should a commit fail, an entry has its blocks and those of the next attempt.
    let again = if plain {
        0
    } else {
        2 * future + options.blocks
    };
    let entry = Super::bytes((listed + spare + again) as usize);
    require(
        entry <= shape.page as usize,
        "bytes of a super block entry",
        entry as u64,
        "no more than a page; fewer or larger erase blocks",
    )?;
    Ok(supers + listed)
}

impl<M: Mtd> Ubi<M> {
    pub(crate) fn log(&mut self) -> Result<&mut Log, UbiError> {
        match &mut self.kept {
            Kept::Log(log) => Ok(log),
            Kept::Scan | Kept::Fastmap(_) => Err(UbiError::Internal("a log where there is none")),
        }
    }

    pub(super) fn log_options(&self) -> LogOptions {
        match self.options.memory {
            Memory::Log(options) => options,
            Memory::Scan | Memory::Fastmap => LogOptions::default(),
        }
    }

    /// Whether the memory has work of its own.
    pub(crate) fn memory_due(&self) -> bool {
        match &self.kept {
            Kept::Fastmap(pools) => self.fastmap_due(pools),
            Kept::Scan => false,
            Kept::Log(log) => log.hurt || log.tree.as_ref().is_some_and(Tree::sleeps),
        }
    }

    /// Does a step of the memory's own work.
    pub(crate) fn memory_work(&mut self) -> Result<(), UbiError> {
        match &self.kept {
            Kept::Log(log) if log.tree.as_ref().is_some_and(Tree::sleeps) => {
                self.wake_next().map(|_| ())
            }
            _ => self.keep_all(),
        }
    }

    /// Brings the memory up to date, so that the next attach is quick.
    pub(crate) fn keep_all(&mut self) -> Result<(), UbiError> {
        match &self.kept {
            Kept::Scan => Ok(()),
            Kept::Fastmap(_) => self.write_fastmap(),
            Kept::Log(_) => self.commit(),
        }
    }

    /// Volumes have changed: what remembers them is written anew.
    pub(crate) fn volumes_changed(&mut self) -> Result<(), UbiError> {
        match &self.kept {
            Kept::Fastmap(_) => self.write_fastmap(),
            Kept::Log(log)
                if log
                    .tree
                    .as_ref()
                    .is_some_and(|tree| !tree.fits(&self.volumes)) =>
            {
                self.commit()
            }
            Kept::Scan | Kept::Log(_) => Ok(()),
        }
    }

    /// What is known of a static volume has changed, which an index has too.
    pub(crate) fn static_changed(&mut self) -> Result<(), UbiError> {
        match &self.kept {
            Kept::Log(log) if log.tree.is_some() => self.commit(),
            _ => Ok(()),
        }
    }

    /// A block is about to get a volume header, or has been erased or marked bad.
    pub(crate) fn remember(&mut self, peb: u32, vid: Option<&VidHeader>) -> Result<(), UbiError> {
        let Kept::Log(log) = &mut self.kept else {
            return Ok(());
        };
        let Some(vid) = vid else {
            log.headers[peb as usize] = None;
            log.pending.push(peb);
            return Ok(());
        };
        for _ in 0..ATTEMPTS {
            if !self.has_room()? {
                self.commit()?;
            }
            if matches!(self.kept, Kept::Scan) {
                return Ok(());
            }
            let ec = self.wear.ec(peb);
            let pending = core::mem::take(&mut self.log()?.pending);
            let mut entries: Vec<(u32, Entry)> = pending
                .into_iter()
                .filter(|&old| old != peb)
                .map(|old| (old, self.entry(old)))
                .collect();
            entries.push((
                peb,
                Entry {
                    role: Role::Mapped,
                    ec,
                    vid: *vid,
                },
            ));
            if self.append(&entries)? {
                self.wear.note(peb);
                self.log()?.headers[peb as usize] = Some(*vid);
                return Ok(());
            }
            // A block of the log failed: a commit takes others, and has what was to be said but for
            // this block.
            self.log()?.position = None;
        }
        self.read_only = Some("one log block after the other failed");
        Err(UbiError::ReadOnly("one log block after the other failed"))
    }

    /// Whether the log has space for what is pending and one entry more.
    fn has_room(&mut self) -> Result<bool, UbiError> {
        let shape = self.flash.shape;
        let log = self.log()?;
        let pages = (log.pending.len() + 1).div_ceil(entries_per_page(shape.page)) as u32;
        Ok(log
            .position
            .is_some_and(|position| position + pages <= log_pages(&shape, log.current.log.len())))
    }

    /// More pages of the log; false: one failed.
    fn append(&mut self, entries: &[(u32, Entry)]) -> Result<bool, UbiError> {
        let shape = self.flash.shape;
        for entries in entries.chunks(entries_per_page(shape.page)) {
            let log = self.log()?;
            let Some(position) = log.position else {
                return Err(UbiError::Internal("no space in the log"));
            };
            let per_block = shape.leb_bytes / shape.page;
            let peb = log.current.log[(position / per_block) as usize];
            let bytes = format::encode_page(log.current.commit, position, entries, shape.page);
            log.position = Some(position + 1);
            match self
                .flash
                .write_data(peb, position % per_block * shape.page, &bytes)
            {
                Ok(()) => {}
                Err(error) if crate::flash::is_wear(&error) => return Ok(false),
                Err(error) => return Err(self.stop(error)),
            }
        }
        Ok(true)
    }

    /// What the log says of a block that is not being written.
    pub(crate) fn entry(&self, peb: u32) -> Entry {
        let ec = self.wear.ec(peb);
        let Kept::Log(log) = &self.kept else {
            return Entry::default();
        };
        let role = match self.wear.state(peb) {
            State::Free if self.wear.is_doubtful(peb) => Role::Dirty,
            State::Free => Role::Free,
            State::Bad => Role::Bad,
            State::Used | State::Scrub | State::Protected | State::Stuck => match log.vid(peb) {
                Some(vid) => return mapped(ec, vid),
                None => Role::Dirty,
            },
            State::Queued | State::Asleep => Role::Dirty,
            State::Held if log.owns(peb) => Role::Memory,
            State::Held if log.preserved.contains(&peb) => Role::Preserved,
            State::Held => Role::Dirty,
        };
        Entry {
            role,
            ec,
            vid: VidHeader::default(),
        }
    }
}

/// The entry of a block that holds the logical block of this header.
fn mapped(ec: u32, vid: VidHeader) -> Entry {
    Entry {
        role: Role::Mapped,
        ec,
        vid,
    }
}

/// The blocks that lead to the commit.
pub(super) fn chain_of(supers: &Supers) -> Vec<u32> {
    match supers {
        Supers::Pair(pair) => pair.blocks.map(|block| block.peb).into(),
        Supers::Chain(chain) => [&chain.anchors[..], &chain.supers].concat(),
    }
}

/// Pages of a log of that many blocks.
pub(crate) fn log_pages(shape: &Shape, blocks: usize) -> u32 {
    shape.leb_bytes / shape.page * blocks as u32
}
