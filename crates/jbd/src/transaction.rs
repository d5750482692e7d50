//! A transaction's life, as data: running, committing, finished.
//!
//! *Promises* nothing by itself: [`Journal`](crate::Journal) moves transactions on. *Knows nothing
//! of* devices.

use crate::Tid;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use nandlab_sim::Nanos;

/// Where the oldest transaction that has not finished stands (Linux's `t_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is open and takes handles.
    Running,
    /// Shall commit; takes no new handles and waits for the open ones.
    Locked,
    /// Its ordered data is being written; the next transaction may run.
    Flush,
    /// Its blocks are being written to the log.
    Commit,
    /// Its commit block is written; what remains is to bring its blocks home.
    Finished,
}

/// Contents of blocks by number. Transactions share what none has changed since: a change copies
/// what another still needs.
pub(crate) type Contents = BTreeMap<u64, Arc<[u8]>>;

/// The permission to change some blocks, all in one transaction: an operation of a file system. It
/// is given back with [`Journal::stop`](crate::Journal::stop); while it is not, its transaction
/// cannot commit.
#[derive(Debug)]
#[must_use = "its transaction cannot commit before it is stopped"]
pub struct Handle {
    pub(crate) tid: Tid,
    pub(crate) credits: u32,
}

impl Handle {
    /// The transaction that it belongs to.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Blocks that it can still change or revoke.
    pub fn credits(&self) -> u32 {
        self.credits
    }
}

/// A transaction that still takes changes.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub tid: Tid,
    pub started: Nanos,
    pub locked: bool,
    /// The number of open handles.
    pub handles: u32,
    /// Credits spent, and those of open handles.
    pub credits: u32,
    pub blocks: Contents,
    pub revoked: BTreeSet<u64>,
    pub ordered: Contents,
}

impl Running {
    pub fn new(tid: Tid, started: Nanos) -> Self {
        let blocks = Contents::new();
        let revoked = BTreeSet::new();
        let ordered = Contents::new();
        Self {
            tid,
            started,
            locked: false,
            handles: 0,
            credits: 0,
            blocks,
            revoked,
            ordered,
        }
    }

    /// Whether there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.revoked.is_empty() && self.ordered.is_empty()
    }
}

/// Where a block's copy lies in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub home: u64,
    pub log: u32,
    pub escaped: bool,
}

/// On its way into the log.
#[derive(Clone, Debug)]
pub(crate) struct Committing {
    pub tid: Tid,
    pub started: Nanos,
    pub state: State,
    /// Its first block in the log.
    pub start: u32,
    /// Blocks of the log that it may still take.
    pub reserved: u32,
    pub blocks: Contents,
    pub revoked: BTreeSet<u64>,
    pub ordered: Contents,
    /// What is in the log already, in order of home.
    pub logged: Vec<Logged>,
}

/// Committed and not yet all at home: the checkpoint list.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub tid: Tid,
    /// When it began to run.
    pub started: Nanos,
    pub start: u32,
    /// Its copies in the log, in order of home.
    pub logged: Vec<Logged>,
    /// Blocks whose newest committed version is this one's.
    pub blocks: BTreeSet<u64>,
}
