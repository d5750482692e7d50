//! UBIL, "UBI with log" (Singh and Dongre, Proceedings of the Linux Symposium 2010, pp. 155-160): commits of all erase counters and volume headers, and a log of those written since.
//!
//! *Promises.* An attach reads super blocks, a commit and the log instead of every block. What the log says of a block is on flash before the block is written, so that the headers in the blocks are
//! not needed: without them ([`crate::Headers::None`]) the whole erase block is data. With them the device is one that Linux attaches too, which erases UBIL's blocks.
//!
//! *How.* Super block entries go alternately to the first and the last good block. A commit reserves blocks, names them as its future, writes both copies, and names them as the present; the log's blocks
//! are new with each commit. Blocks that were erased are logged with the next volume header. After an attach nothing is appended to what may end in a torn page: the first header written
//! begins with a commit, and the first entry in a super block with an erase.
//!
//! *Power loss.* A cut at any operation leaves the last commit and its log, whose last page may be torn: then nothing that it would have said has happened.
//!
//! *Beyond the paper*, which leaves it open: all formats; the order above; a super block that fails ends the log, until the next attach begins one (without headers, the device is read-only). *Not here:* its future work (commits by parts, chained super blocks).

mod commit;
pub mod format;
mod read;
mod superblock;

pub use format::VOLUMES;
pub(crate) use read::read;

use crate::device::Kept;
use crate::error::{UbiError, require};
use crate::format::VidHeader;
use crate::wear::State;
use crate::{LogOptions, Shape, Ubi};
use alloc::{vec, vec::Vec};
use format::{Entry, Role, Super, commit_bytes, entries_per_page};
use nandlab_mtd::Mtd;

/// One of the two super blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuperBlock {
    pub peb: u32,
    /// The offset of the next entry; none: it must be erased first.
    pub next: Option<u32>,
}

/// UBIL's state.
#[derive(Debug)]
pub(crate) struct Log {
    pub current: Super,
    /// Which of the super blocks has the newest entry.
    pub newest: usize,
    pub blocks: [SuperBlock; 2],
    /// Pages of the log that are written; none: only a commit makes room.
    pub position: Option<u32>,
    /// Volume headers by block.
    pub headers: Vec<Option<VidHeader>>,
    /// Blocks erased since the last page of the log.
    pub pending: Vec<u32>,
    /// Blocks that are not UBI's to use.
    pub preserved: Vec<u32>,
    /// Something of it was hard to read: a commit is due.
    pub hurt: bool,
}

impl Log {
    /// Whether a block is UBIL's own.
    pub fn owns(&self, peb: u32) -> bool {
        let lists = [&self.current.present, &self.current.log];
        self.blocks.iter().any(|block| block.peb == peb) || lists.into_iter().flatten().any(|&own| own == peb)
    }

    /// The header that a block has.
    pub fn vid(&self, peb: u32) -> Option<VidHeader> {
        self.headers.get(peb as usize).copied().flatten()
    }
}

/// Erase blocks of one copy of a commit.
pub(crate) fn commit_blocks(shape: &Shape) -> u32 {
    commit_bytes(shape.pebs).div_ceil(shape.leb_bytes.into()) as u32
}

/// Erase blocks that UBIL needs for itself: super blocks, and a present and a future commit with their logs.
pub(crate) fn blocks_needed(shape: &Shape, options: LogOptions) -> Result<u32, UbiError> {
    require((1..=256).contains(&options.blocks), "erase blocks of the log", options.blocks.into(), "1 to 256")?;
    let (commit, log) = (2 * commit_blocks(shape), options.blocks);
    let entry = Super::bytes(commit as usize, (commit + log) as usize, log as usize);
    require(
        entry <= shape.page as usize,
        "bytes of a super block entry",
        entry as u64,
        "no more than a page; fewer or larger erase blocks",
    )?;
    Ok(2 + 2 * (commit + log))
}

impl<M: Mtd> Ubi<M> {
    pub(crate) fn log(&mut self) -> Result<&mut Log, UbiError> {
        match &mut self.kept {
            Kept::Log(log) => Ok(log),
            Kept::Scan | Kept::Fastmap(_) => Err(UbiError::Internal("a log where there is none")),
        }
    }

    /// Whether the memory has work of its own.
    pub(crate) fn memory_due(&self) -> bool {
        match &self.kept {
            Kept::Fastmap(pools) => self.fastmap_due(pools),
            Kept::Scan | Kept::Log(_) => false,
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

    /// A block is about to get a volume header, or has been erased or marked bad.
    pub(crate) fn remember(&mut self, peb: u32, vid: Option<&VidHeader>) -> Result<(), UbiError> {
        let Kept::Log(log) = &mut self.kept else { return Ok(()) };
        let Some(vid) = vid else {
            log.headers[peb as usize] = None;
            log.pending.push(peb);
            return Ok(());
        };
        let per_page = entries_per_page(self.flash.shape.page);
        let pages = (log.pending.len() + 1).div_ceil(per_page) as u32;
        if log.position.is_none_or(|position| position + pages > log_pages(&self.flash.shape, log.current.log.len())) {
            self.commit()?;
            if matches!(self.kept, Kept::Scan) {
                return Ok(());
            }
        }
        let ec = self.wear.ec(peb);
        let pending = core::mem::take(&mut self.log()?.pending);
        let mut entries: Vec<(u32, Entry)> = pending.into_iter().filter(|&old| old != peb).map(|old| (old, self.entry(old))).collect();
        entries.push((peb, Entry { role: Role::Mapped, ec, vid: *vid }));
        for entries in entries.chunks(per_page) {
            self.append(entries)?;
        }
        if let Kept::Log(log) = &mut self.kept {
            log.headers[peb as usize] = Some(*vid);
        }
        Ok(())
    }

    /// A page more of the log. If its block fails, a commit takes another log.
    fn append(&mut self, entries: &[(u32, Entry)]) -> Result<(), UbiError> {
        for _ in 0..3 {
            if matches!(self.kept, Kept::Scan) {
                return Ok(());
            }
            let (shape, log) = (self.flash.shape, self.log()?);
            let Some(position) = log.position else { return Err(UbiError::Internal("no room in the log")) };
            let per_block = shape.leb_bytes / shape.page;
            let peb = log.current.log[(position / per_block) as usize];
            let bytes = format::encode_page(log.current.commit, position, entries, shape.page);
            log.position = Some(position + 1);
            match self.flash.write_data(peb, position % per_block * shape.page, &bytes) {
                Ok(()) => return Ok(()),
                Err(error) if crate::flash::is_wear(&error) => self.commit()?,
                Err(error) => return Err(self.stop(error)),
            }
        }
        self.read_only = Some("one log block after the other failed");
        Err(UbiError::ReadOnly("one log block after the other failed"))
    }

    /// What the log says of a block that is not being written.
    pub(crate) fn entry(&self, peb: u32) -> Entry {
        let ec = self.wear.ec(peb);
        let Kept::Log(log) = &self.kept else { return Entry::default() };
        let role = match self.wear.state(peb) {
            State::Free if self.wear.is_doubtful(peb) => Role::Dirty,
            State::Free => Role::Free,
            State::Bad => Role::Bad,
            State::Used | State::Scrub | State::Protected | State::Stuck => match log.vid(peb) {
                Some(vid) => return Entry { role: Role::Mapped, ec, vid },
                None => Role::Dirty,
            },
            State::Queued => Role::Dirty,
            State::Held if log.owns(peb) => Role::Memory,
            State::Held if log.preserved.contains(&peb) => Role::Preserved,
            State::Held => Role::Dirty,
        };
        Entry { role, ec, vid: VidHeader::default() }
    }
}

/// Pages of a log of that many blocks.
pub(crate) fn log_pages(shape: &Shape, blocks: usize) -> u32 {
    shape.leb_bytes / shape.page * blocks as u32
}

/// A log without anything in it.
pub(crate) fn empty(pebs: u32, blocks: [u32; 2]) -> Log {
    Log {
        current: Super::default(),
        newest: 1,
        blocks: blocks.map(|peb| SuperBlock { peb, next: None }),
        position: None,
        headers: vec![None; pebs as usize],
        pending: Vec::new(),
        preserved: Vec::new(),
        hurt: false,
    }
}
