//! Writing dirty data to the medium through a journal, in ext3's three modes.
//!
//! *Promises.* Between two commits a call's changes are all there or none; a call that changes more
//! than one transaction holds is divided where a crash may fall. All dirty data makes one
//! transaction: as with Linux's, an fsync of one file commits the changes of all. *Knows nothing
//! of* the log: `jbd` does.

use crate::{Ext, ExtError, Mode, SeededBug, cache::Owner, format::flags, inode::Inode};
use nandlab_block::BlockDevice;
use nandlab_jbd::{Journal, JournalError};
use nandlab_vfs::{FileType, Time};

/// Blocks that one call may change beside contents: a rename over a file between two indexed
/// directories whose blocks split, with all bitmaps, counts and inodes.
const CALL_CREDITS: u32 = 40;
/// Blocks that giving back one more block may change.
const STEP_CREDITS: u32 = 10;
/// The least that a transaction must hold.
const CREDITS_MIN: u32 = 64;

/// A moment as the journal counts it.
fn nanos(time: Time) -> u64 {
    (time.secs.max(0) as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.nanos.into())
}

/// The inverse of the function above.
fn moment(nanos: u64) -> Time {
    Time {
        secs: (nanos / 1_000_000_000) as i64,
        nanos: (nanos % 1_000_000_000) as u32,
    }
}

/// Refuses a journal whose transactions hold too little for a call.
pub(crate) fn check_size<D: BlockDevice>(journal: &Journal<D>) -> Result<(), ExtError> {
    match journal.credits_max() {
        most if most < CREDITS_MIN => Err(JournalError::TooLarge {
            credits: CREDITS_MIN,
            most,
        }
        .into()),
        _ => Ok(()),
    }
}

impl<D: BlockDevice> Ext<D> {
    pub(crate) fn is_journaled(&self) -> bool {
        self.store.disk.journal().is_some()
    }

    /// Whether contents of an inode go through the journal.
    pub(crate) fn logs_contents(&self, inode: &Inode) -> bool {
        let asked = self.options.mode == Mode::Journal
            || inode.flags & flags::JOURNAL_DATA != 0
            || inode.kind() != Some(FileType::File);
        self.is_journaled() && asked
    }

    /// What an inode's contents are to the cache.
    pub(crate) fn owner(&self, number: u32, inode: &Inode) -> Owner {
        if self.logs_contents(inode) {
            Owner::Meta(crate::cache::Class::Contents)
        } else {
            Owner::File(number)
        }
    }

    /// Blocks that the next transaction has by now.
    pub(crate) fn credits(&self) -> u32 {
        (self.store.cache.dirty_metadata() + self.store.revoked.len()) as u32
    }

    /// What a write of so many blocks changes at most: them, if they are logged, the blocks of
    /// block pointers that lead to them, and where those are taken.
    fn credits_of_write(&self, blocks: u32, logged: bool) -> u32 {
        let layout = &self.store.layout;
        // A leaf of extents that are one block each holds a third of the pointers, or less after a
        // split.
        let pointers = match layout.has_extents() {
            false => blocks / layout.pointers() + 4,
            true => blocks / (layout.pointers() / 6) + 8,
        };
        let taken = blocks.saturating_add(pointers).min(layout.groups);
        if logged { blocks } else { 0 }
            .saturating_add(pointers + taken + taken.min(layout.desc_blocks()))
    }

    /// How many of so many blocks one transaction takes: a write of up to half a transaction is not
    /// divided.
    pub(crate) fn blocks_at_once(&self, inode: &Inode, blocks: u32) -> u32 {
        let Some(journal) = self.store.disk.journal() else {
            return blocks;
        };
        let logged = self.logs_contents(inode);
        let most = journal.credits_max();
        let mut part = if logged {
            blocks.min((most / 2).max(1))
        } else {
            blocks
        };
        while part > 1 && self.credits_of_write(part, logged) + CALL_CREDITS > most {
            part = part.div_ceil(2);
        }
        part
    }

    /// Before a call that writes so many blocks: commits the dirty data if it and the call are too
    /// much for one transaction.
    pub(crate) fn reserve(&mut self, inode: &Inode, blocks: u32) -> Result<(), ExtError> {
        let needed = self.credits_of_write(blocks, self.logs_contents(inode));
        self.make_way(needed.saturating_add(CALL_CREDITS))
    }

    /// Before a call on names and attributes.
    pub(crate) fn reserve_call(&mut self) -> Result<(), ExtError> {
        self.make_way(CALL_CREDITS)
    }

    /// While an inode's blocks are given back, where a crash may fall: what its orphan entry says
    /// is enough to go on.
    pub(crate) fn breathe(&mut self, number: u32, inode: &Inode) -> Result<(), ExtError> {
        match self.store.disk.journal().map(Journal::credits_max) {
            Some(most) if self.credits() + STEP_CREDITS > most => {
                let credits = self.credits();
                let journal = self.store.disk.journal();
                if journal.is_some_and(|journal| journal.fast_commits().is_some()) {
                    // A replay is one transaction.
                    return Err(JournalError::TooLarge { credits, most }.into());
                }
                self.put_inode(number, inode)?;
                self.commit()
            }
            _ => Ok(()),
        }
    }

    fn make_way(&mut self, needed: u32) -> Result<(), ExtError> {
        match self.store.disk.journal().map(Journal::credits_max) {
            Some(most) if self.credits().saturating_add(needed) > most => self.commit(),
            _ => Ok(()),
        }
    }

    /// When dirty data is to be committed; `None` while nothing is dirty, and without a journal.
    pub(crate) fn commit_due(&self) -> Option<Time> {
        let since = self.store.changed_since.filter(|_| self.is_journaled())?;
        Some(moment(
            nanos(since).saturating_add(self.options.commit_interval),
        ))
    }

    /// Writes the contents that mode *ordered* wants on the medium before a commit. Those that
    /// replace others in place may wait as long as delayed ones.
    pub(crate) fn write_ordered_contents(&mut self) -> Result<(), ExtError> {
        let contents = match self.options.delayed_allocation {
            true => self.store.cache.fresh_contents(),
            false => self.store.cache.oldest_contents(usize::MAX, Time::MAX),
        };
        self.store.write(&contents)
    }

    /// The contents that the mode wants on the medium before the metadata that leads to them.
    pub(crate) fn commit_through_journal(&mut self) -> Result<(), ExtError> {
        if self.options.mode == Mode::Ordered && !self.has_bug(SeededBug::ContentsLate) {
            self.write_ordered_contents()?;
        }
        let since = self.store.changed_since.unwrap_or(self.store.now);
        self.log_metadata(nanos(since))?;
        self.store.barrier()
    }

    /// Makes a transaction of all dirty metadata, and commits it.
    fn log_metadata(&mut self, since: u64) -> Result<(), ExtError> {
        self.seal()?;
        let blocks = self.store.cache.metadata();
        let credits = self.credits();
        let store = &mut self.store;
        let Some(journal) = store.disk.journal_mut() else {
            return Ok(());
        };
        if credits == 0 {
            store.changed_since = None;
            return Ok(());
        }
        let mut handle = journal.start(credits, since)?;
        for block in &blocks {
            journal.replace(
                &mut handle,
                (*block).into(),
                store.cache.get(*block).unwrap_or_default(),
            )?;
        }
        for block in core::mem::take(&mut store.revoked) {
            journal.revoke(&mut handle, block.into())?;
        }
        let tid = journal.stop(handle)?;
        journal.sync(tid)?;
        store.work.logged += blocks.len() as u64;
        blocks
            .iter()
            .for_each(|block| store.cache.mark_clean(*block));
        store.committed(self.options.barriers);
        Ok(())
    }

    /// Brings all committed blocks home.
    pub(crate) fn write_home(&mut self) -> Result<(), ExtError> {
        match self.store.disk.journal_mut() {
            Some(journal) if journal.dirty_blocks() > 0 => {
                journal.write_back(usize::MAX)?;
                self.store.committed(false);
                self.store.barrier()
            }
            _ => Ok(()),
        }
    }

    /// Bytes of contents, and of committed blocks that are not at home: the running transaction
    /// cannot be written back.
    pub(crate) fn writable_bytes(&self) -> u64 {
        let committed = self.store.disk.journal().map_or(0, Journal::dirty_blocks);
        let waiting = self.delayed.pages() as usize;
        let blocks = self.store.cache.dirty_contents() + waiting + committed;
        blocks as u64 * u64::from(self.store.layout.block)
    }

    /// Since when the oldest of these is dirty.
    pub(crate) fn dirty_since(&self) -> Option<Time> {
        let committed = self
            .store
            .disk
            .journal()
            .and_then(Journal::dirty_since)
            .map(moment);
        self.store
            .cache
            .contents_since()
            .into_iter()
            .chain(committed)
            .chain(self.delayed.oldest().map(|(since, _)| since))
            .min()
    }

    /// Writes the oldest of them: contents first, then what is committed home.
    pub(crate) fn write_oldest_journaled(
        &mut self,
        bytes: u64,
        until: Time,
    ) -> Result<u64, ExtError> {
        let before = self.writable_bytes();
        let blocks = bytes
            .div_ceil(u64::from(self.store.layout.block))
            .min(usize::MAX as u64) as usize;
        let placed = self.write_back_oldest(blocks, until)?;
        let blocks = blocks.saturating_sub(placed);
        let contents = self.store.cache.oldest_contents(blocks, until);
        self.store.write(&contents)?;
        let mut left = blocks.saturating_sub(contents.len());
        let Some(journal) = self.store.disk.journal_mut() else {
            return Ok(0);
        };
        while journal.dirty_blocks() > 0
            && (left > 0
                || journal
                    .dirty_since()
                    .is_some_and(|since| moment(since) <= until))
        {
            left = left.saturating_sub(journal.write_back(left.clamp(1, 32))?);
        }
        Ok(before.saturating_sub(self.writable_bytes()))
    }
}
