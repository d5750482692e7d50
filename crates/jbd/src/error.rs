//! What goes wrong, with place and value.

use crate::Tid;
use nandlab_block::BlockError;

/// Why a journal could not be made, loaded or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The device below refused a request.
    #[error("device: {0}")]
    Device(#[from] BlockError),
    /// A field of the journal's superblock makes no sense.
    #[error("journal superblock, byte {offset}: {field} is {found:#x}, expected {expected}")]
    Superblock {
        /// Where the field is.
        offset: usize,
        /// What it is called.
        field: &'static str,
        /// The value that the field holds.
        found: u32,
        /// What it may say.
        expected: &'static str,
    },
    /// The journal needs what is not offered here.
    #[error(
        "journal superblock, byte {offset}: features {found:#x}, expected none beside {known:#x}"
    )]
    Features {
        /// Where the field is.
        offset: usize,
        /// The features that it names.
        found: u32,
        /// Those that are known.
        known: u32,
    },
    /// A committed transaction names a block that cannot be one of the file system's.
    #[error(
        "journal block {log}: a tag names block {home}, expected one below {blocks} and outside the journal"
    )]
    Tag {
        /// The descriptor block, as a block of the journal.
        log: u32,
        /// The block that the tag names.
        home: u64,
        /// Blocks of the device.
        blocks: u64,
    },
    /// A block of a committed transaction has another checksum than the log says.
    #[error(
        "journal block {log}: the checksum of {what} is wrong, in the committed transaction {tid}"
    )]
    Checksum {
        /// The block of the journal.
        log: u32,
        /// The block's part in the transaction.
        what: &'static str,
        /// The transaction.
        tid: Tid,
    },
    /// The log goes on with fast commits, and the file system cannot replay them.
    #[error(
        "journal block {log}: fast commits of transaction {tid}, expected none on a volume that is \
         not written here; e2fsck replays them"
    )]
    FastCommit {
        /// The first block of the fast commits, as a block of the journal.
        log: u32,
        /// The transaction that they belong to.
        tid: Tid,
    },
    /// A revoke block's count of bytes is outside the block.
    #[error("journal block {log}: revoke records end at byte {found}, expected 16 to {most}")]
    RevokeCount {
        /// The revoke block, as a block of the journal.
        log: u32,
        /// The value that the field holds.
        found: u32,
        /// Bytes of a block.
        most: u32,
    },
    /// The block size suits neither the format nor the device.
    #[error(
        "blocks of {block} bytes on sectors of {sector}: expected a power of two from 1024 to 65536, a multiple of the sector"
    )]
    BlockSize {
        /// Bytes of a block.
        block: u32,
        /// Bytes of the device's sector.
        sector: u32,
    },
    /// The journal has too few blocks.
    #[error("a journal of {found} blocks, expected at least {least}")]
    Short {
        /// Blocks that it has.
        found: u32,
        /// Blocks that it must have.
        least: u32,
    },
    /// A block of the journal lies outside the device.
    #[error("journal block {log} lies at block {home}, expected one below {blocks}")]
    Map {
        /// The block of the journal.
        log: u32,
        /// Where it is said to lie.
        home: u64,
        /// Blocks of the device.
        blocks: u64,
    },
    /// The caller named a block that the device does not have, or that a tag cannot hold.
    #[error("block {block}, expected one below {blocks}")]
    Block {
        /// The block that the call named.
        block: u64,
        /// Blocks that can be named.
        blocks: u64,
    },
    /// The caller's data is not one block long.
    #[error("{found} bytes for one block, expected {expected}")]
    Length {
        /// The length that the caller passed, in bytes.
        found: usize,
        /// Bytes of a block.
        expected: u32,
    },
    /// One handle asks for more than a transaction may hold: a quarter of the journal.
    #[error("a handle of {credits} credits, expected at most {most}, a quarter of the journal")]
    TooLarge {
        /// The credits that the caller asked for.
        credits: u32,
        /// Credits of a whole transaction.
        most: u32,
    },
    /// The handle has spent its credits.
    #[error("no credit left for block {block}")]
    NoCredit {
        /// The block that it was to be spent on.
        block: u64,
    },
    /// A commit has to come first, and handles are open that keep it from beginning. They must be
    /// stopped.
    #[error("{handles} open handles keep the running transaction from committing")]
    Busy {
        /// Handles that are still open.
        handles: u32,
    },
    /// The handle does not belong to the running transaction.
    #[error("a handle of transaction {handle} was used in {running:?}")]
    Stale {
        /// The transaction that the handle belongs to.
        handle: Tid,
        /// The transaction that is running, if any.
        running: Option<Tid>,
    },
    /// Plain data was to be written to a block of which the journal still holds a version: it has
    /// to be forgotten, or revoked in a transaction that has committed.
    #[error("block {block} still belongs to the journal, expected one that does not")]
    Journaled {
        /// The block that the journal already holds.
        block: u64,
    },
    /// An earlier write failed; nothing is written any more.
    #[error("aborted since an earlier write failed")]
    Aborted,
    /// The journal broke its own rules; nothing is written any more.
    #[error("internal error: {0}")]
    Internal(&'static str),
}
