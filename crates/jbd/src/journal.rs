//! The journal as a whole: made, loaded, asked for blocks, closed.
//!
//! *Promises.* [`get`](Journal::get) gives the newest version of a block wherever it is. *Knows
//! nothing of* how a transaction reaches the log: see `handle.rs`, `commit.rs`, `checkpoint.rs`,
//! `remap.rs`.

use crate::{
    JournalError, Map, Recovery, SeededBug, Tid,
    blocks::Blocks,
    recover::recover,
    ring::Ring,
    superblock::Superblock,
    transaction::{Committing, Finished, Running, State},
};
use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec,
    vec::Vec,
};
use core::ops::Range;
use nandlab_block::{BlockDevice, BlockError, Lru};
use nandlab_sim::{Nanos, with_defaults};

/// The fewest blocks that this engine works with.
pub const BLOCKS_MIN: u32 = 16;
/// The fewest blocks that Linux works with; a file system that Linux shall mount needs as many.
pub const LINUX_BLOCKS_MIN: u32 = 1024;
/// What Linux has for a commit interval: 5 s.
pub const COMMIT_INTERVAL: Nanos = 5_000_000_000;

/// How committed blocks come home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoint {
    /// By writing them, when free space in the log is needed or the caller asks for it.
    #[default]
    Copy,
    /// By [`remap`](BlockDevice::remap), at the end of each commit. Where the device answers
    /// "unsupported" to a transaction, that one's are written; where it answers so to a single
    /// block, all are from then on.
    Remap,
    /// By `remap` too, but when free space in the log is needed or the caller asks for it: of each
    /// block then only the newest version, of many transactions at once.
    RemapLate,
}

with_defaults! {
    /// The settings of a journal that a caller chooses.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options {
        /// How committed blocks come home.
        pub checkpoint: Checkpoint = Checkpoint::Copy,
        /// Whether commits and checkpoints wait for the device's own cache: before and after the
        /// commit block, before and after the log's tail moves. Without, the order of writes is the
        /// same, nothing is durable before the device chooses, and a power cut may leave anything,
        /// as with Linux's `barrier=0`.
        pub barriers: bool = true,
        /// Age at which a transaction is [due](Journal::due), in nanoseconds.
        pub commit_interval: Nanos = COMMIT_INTERVAL,
        /// The log is emptied and not replayed.
        pub skip_recovery: bool = false,
        /// The journal gets checksums, as Linux gives them to that of an ext4 with
        /// `metadata_csum`; otherwise it keeps what it has.
        pub checksums: bool = false,
        /// The journal gets block numbers of 64 bits; otherwise it keeps what it has.
        pub wide: bool = false,
        /// The journal gets space for fast commits at its end; otherwise it keeps what it has.
        pub fast: bool = false,
        /// Clean blocks that are kept in memory, at least one.
        pub clean_blocks: usize = 256,
        /// A rule left out on purpose.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// What the journal has written, in blocks unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that took a place in the log.
    pub commits: u64,
    /// Blocks of ordered data written before a commit.
    pub ordered: u64,
    /// Copies of blocks in the log.
    pub logged: u64,
    /// Descriptor, revoke and commit blocks.
    pub control: u64,
    /// Writes of the journal's superblock.
    pub superblocks: u64,
    /// Blocks that checkpoints wrote to their home location.
    pub checkpointed: u64,
    /// Blocks that `remap` moved to their home location.
    pub remapped: u64,
}

/// A version that is committed and not at home.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    pub tid: Tid,
    pub data: Arc<[u8]>,
}

/// A journal on a device.
#[derive(Clone, Debug)]
pub struct Journal<D> {
    pub(crate) blocks: Blocks<D>,
    pub(crate) options: Options,
    pub(crate) sb: Superblock,
    /// The superblock says something that the device does not.
    pub(crate) sb_changed: bool,
    pub(crate) ring: Ring,
    /// The oldest transaction in the log as the superblock has it, or the next one if there is
    /// none.
    pub(crate) tail: Tid,
    /// The number of the next transaction.
    pub(crate) next: Tid,
    pub(crate) running: Option<Running>,
    pub(crate) committing: Option<Committing>,
    /// Committed transactions whose blocks are not all known to be at home for good, oldest first.
    pub(crate) finished: VecDeque<Finished>,
    /// Of each block that is not at home the newest committed version.
    pub(crate) dirty: BTreeMap<u64, Dirty>,
    /// Blocks that are at home as they are here.
    pub(crate) clean: Lru<u64, Arc<[u8]>>,
    /// Something went home since the last flush.
    pub(crate) unflushed: bool,
    pub(crate) aborted: bool,
    pub(crate) tally: Tally,
    /// One block, for what is put together.
    pub(crate) scratch: Vec<u8>,
    /// Blocks of fast commits that the next transaction replaces.
    pub(crate) fast: Option<(Range<u32>, Tid)>,
    /// Blocks of the area that fast commits of the next transaction take.
    pub(crate) fast_used: u32,
    recovery: Recovery,
}

/// Makes an empty journal of all blocks of `map`, in blocks of `block_size` bytes; the rest of the
/// device is left alone.
pub fn create<D: BlockDevice>(device: D, map: Map, block_size: u32) -> Result<(), JournalError> {
    let mut blocks = Blocks::new(device, map, block_size)?;
    let found = blocks.map().blocks();
    if found < BLOCKS_MIN {
        return Err(JournalError::Short {
            found,
            least: BLOCKS_MIN,
        });
    }
    // What looks like a transaction of an earlier journal must not be there.
    blocks.clear_log()?;
    blocks.write_log(0, Superblock::new(block_size, found).bytes())?;
    Ok(blocks.flush()?)
}

impl<D: BlockDevice> Journal<D> {
    /// Opens the journal whose blocks `map` names, and recovers the file system if its last user
    /// did not [close](Self::close) it.
    pub fn load(
        device: D,
        map: Map,
        block_size: u32,
        options: Options,
    ) -> Result<Self, JournalError> {
        let mut blocks = Blocks::new(device, map, block_size)?;
        let mut bytes = vec![0; block_size as usize];
        let mapped = blocks.map().blocks();
        if mapped < BLOCKS_MIN {
            return Err(JournalError::Short {
                found: mapped,
                least: BLOCKS_MIN,
            });
        }
        blocks.read_log(0, &mut bytes)?;
        let mut sb = Superblock::parse(bytes.into(), mapped)?;
        let ring = Ring::new(sb.first(), sb.end());
        if ring.blocks() + 1 < BLOCKS_MIN {
            return Err(JournalError::Short {
                found: ring.blocks() + 1,
                least: BLOCKS_MIN,
            });
        }
        let recovery = recover(&mut blocks, &mut sb, &options)?;
        let fast = sb.fast_area().zip(recovery.fast);
        let sb_changed = sb.choose(options.checksums, options.wide, options.fast);
        let ring = Ring::new(sb.first(), sb.end());
        let (ring, next) = match recovery.fast {
            // The transaction that replaces the fast commits has their number.
            Some(_) => (ring.with_head(sb.start().max(sb.first())), sb.sequence()),
            None => (ring, sb.sequence().next()),
        };
        let scratch = vec![0; block_size as usize];
        let finished = VecDeque::new();
        let dirty = BTreeMap::new();
        let clean = Lru::new(options.clean_blocks);
        let unflushed = false;
        let aborted = false;
        let tally = Tally::default();
        let running = None;
        let committing = None;
        let tail = next;
        Ok(Self {
            blocks,
            options,
            sb,
            sb_changed,
            ring,
            tail,
            next,
            running,
            committing,
            finished,
            dirty,
            clean,
            unflushed,
            aborted,
            tally,
            scratch,
            fast,
            fast_used: 0,
            recovery,
        })
    }

    /// What loading found and did.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// What was written since loading.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How committed blocks come home by now.
    pub fn checkpoint_mode(&self) -> Checkpoint {
        self.options.checkpoint
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> u32 {
        self.blocks.size()
    }

    /// The most credits that one transaction, and so one handle, may have: a quarter of the
    /// journal. The transaction that replaces fast commits must stay one. It has the empty log
    /// for itself, and may have most of it.
    pub fn credits_max(&self) -> u32 {
        if self.fast.is_some() {
            return self.ring.blocks() / 4 * 3;
        }
        // The log of a strange journal may begin anywhere in it.
        (self.sb.blocks() / 4).min(self.ring.blocks() / 2)
    }

    /// Fast commits that recovery found behind the log, if no transaction has replaced them yet:
    /// their blocks of the journal and their transaction. The file system replays them and commits
    /// its changes as one transaction. That has the same number and makes them void, so the replay
    /// is atomic.
    pub fn fast_commits(&self) -> Option<(Range<u32>, Tid)> {
        self.fast.clone()
    }

    /// Reads a block of the journal into `data`, which is one block long. Returns its place on the
    /// device.
    pub fn read_log(&mut self, log: u32, data: &mut [u8]) -> Result<u64, JournalError> {
        let blocks = self.blocks.map().blocks();
        if log >= blocks {
            return Err(JournalError::Block {
                block: log.into(),
                blocks: blocks.into(),
            });
        }
        self.check_length(data)?;
        self.blocks.read_log(log, data)?;
        Ok(self.blocks.map().home(log))
    }

    /// The device, for what the journal has no part in: plain data, the file system's own
    /// superblock. A block that was ever got or changed through the journal has to be forgotten, or
    /// revoked in a transaction that has committed, before it is written there.
    pub fn device_mut(&mut self) -> &mut D {
        self.blocks.device_mut()
    }

    /// The error that the last user left in the superblock; 0 for none.
    pub fn error(&self) -> u32 {
        self.sb.error()
    }

    /// Where the oldest unfinished transaction stands; none if there is none.
    pub fn state(&self) -> Option<State> {
        let running = self.running.as_ref().map(|running| {
            if running.locked {
                State::Locked
            } else {
                State::Running
            }
        });
        self.committing
            .as_ref()
            .map(|committing| committing.state)
            .or(running)
    }

    /// The newest version of a block. What is not here is read from the device and kept.
    pub fn get(&mut self, block: u64) -> Result<&[u8], JournalError> {
        self.check_block(block)?;
        if !self.is_pending(block) {
            return self.at_home(block);
        }
        self.pending(block)
            .ok_or(JournalError::Internal("a pending block is nowhere"))
    }

    /// The newest version of a block that is not at home yet, ordered data included; none if the
    /// device has it.
    pub fn pending(&self, block: u64) -> Option<&[u8]> {
        let running = self.running.as_ref().and_then(|running| {
            running
                .blocks
                .get(&block)
                .or_else(|| running.ordered.get(&block))
        });
        let committing = || {
            self.committing
                .as_ref()
                .and_then(|tx| tx.blocks.get(&block).or_else(|| tx.ordered.get(&block)))
        };
        running
            .or_else(committing)
            .map(|data| &**data)
            .or_else(|| self.dirty.get(&block).map(|dirty| &*dirty.data))
    }

    fn is_pending(&self, block: u64) -> bool {
        self.pending(block).is_some()
    }

    /// The version of a block that a crash at this moment would leave: none of the running nor of
    /// the committing transaction. What is free there as well may be given to a file (ext3 asks
    /// this of its bitmaps: `b_committed_data`).
    pub fn committed(&mut self, block: u64) -> Result<&[u8], JournalError> {
        self.check_block(block)?;
        if !self.dirty.contains_key(&block) {
            return self.at_home(block);
        }
        self.dirty
            .get(&block)
            .map(|dirty| &*dirty.data)
            .ok_or(JournalError::Internal("a dirty block is nowhere"))
    }

    /// What the block holds at home.
    fn at_home(&mut self, block: u64) -> Result<&[u8], JournalError> {
        if !self.clean.contains(block) {
            self.blocks.read(block, &mut self.scratch)?;
            self.clean.insert(block, self.scratch.as_slice().into());
        }
        self.clean
            .get(block)
            .map(|data| &**data)
            .ok_or(JournalError::Internal("a clean block is nowhere"))
    }

    /// The newest version of a block, to be changed: one that only it has is taken from its place.
    pub(crate) fn newest(&mut self, block: u64) -> Result<Arc<[u8]>, JournalError> {
        let committing = self
            .committing
            .as_ref()
            .and_then(|committing| committing.blocks.get(&block));
        if let Some(data) = committing.or_else(|| self.dirty.get(&block).map(|dirty| &dirty.data)) {
            return Ok(data.clone());
        }
        if let Some(data) = self.clean.remove(block) {
            return Ok(data);
        }
        self.blocks.read(block, &mut self.scratch)?;
        Ok(self.scratch.as_slice().into())
    }

    pub(crate) fn check_block(&self, block: u64) -> Result<(), JournalError> {
        let blocks = self.blocks.count();
        if block < blocks {
            Ok(())
        } else {
            Err(JournalError::Block { block, blocks })
        }
    }

    pub(crate) fn check_power(&self) -> Result<(), JournalError> {
        if self.aborted {
            Err(JournalError::Aborted)
        } else {
            Ok(())
        }
    }

    /// A failure to write is the end: what the medium holds from then on is for recovery to say.
    pub(crate) fn or_abort<T>(
        &mut self,
        outcome: Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        self.aborted |= matches!(
            outcome,
            Err(JournalError::Device(_) | JournalError::Internal(_))
        );
        outcome
    }

    /// Writes the superblock; with barriers, behind all that came before and ahead of all that
    /// follows.
    pub(crate) fn write_superblock(&mut self) -> Result<(), BlockError> {
        self.barrier_unless(SeededBug::TailUnfenced)?;
        self.blocks.write_log(0, self.sb.bytes())?;
        self.tally.superblocks += 1;
        self.sb_changed = false;
        self.barrier()
    }

    pub(crate) fn barrier(&mut self) -> Result<(), BlockError> {
        if !self.options.barriers {
            return self.blocks.submit();
        }
        self.unflushed = false;
        self.blocks.flush()
    }

    /// A barrier that a seeded bug leaves out.
    pub(crate) fn barrier_unless(&mut self, bug: SeededBug) -> Result<(), BlockError> {
        match self.options.seeded_bug == Some(bug) {
            true => self.blocks.submit(),
            false => self.barrier(),
        }
    }

    /// Blocks of the log that a transaction of so many credits may take: each credit one copy or
    /// one revoke record, then descriptors, a begun revoke block, the commit block.
    pub(crate) fn footprint(&self, credits: u32) -> u32 {
        credits + credits.div_ceil(self.sb.form().tags_per_descriptor(self.blocks.size())) + 2
    }

    /// Ends all use with an error, and records it for the next mount if the device still takes it.
    /// Transactions that have not committed are lost.
    pub fn abort(&mut self, error: u32) -> Result<(), JournalError> {
        self.aborted = true;
        self.sb.set_error(error);
        Ok(self.write_superblock()?)
    }

    /// Forgets the error that the last user left.
    pub fn clear_error(&mut self) -> Result<(), JournalError> {
        self.check_power()?;
        self.sb.set_error(0);
        let outcome = self.write_superblock().map_err(JournalError::from);
        self.or_abort(outcome)
    }

    /// Commits, brings everything home and marks the journal as empty: the device alone then holds
    /// the file system. All handles must be stopped.
    pub fn flush(&mut self) -> Result<(), JournalError> {
        self.commit()?;
        self.checkpoint()?;
        if self.sb.start() != 0 {
            self.next = self.next.next();
            self.tail = self.next;
            self.sb.set_log(0, self.next);
            let outcome = self.write_superblock().map_err(JournalError::from);
            self.or_abort(outcome)?;
            // The next load counts on from there, and so do we.
            self.next = self.next.next();
            self.tail = self.next;
            self.ring.release_before(self.ring.head());
        }
        Ok(())
    }

    /// [Flushes](Self::flush) and gives the device back.
    pub fn close(mut self) -> Result<D, JournalError> {
        self.flush()?;
        self.blocks.flush()?;
        Ok(self.blocks.into_device())
    }

    /// Gives the device back as it is, as a crash would: recovery will find what was committed.
    pub fn into_device(self) -> D {
        self.blocks.into_device()
    }
}
