//! The journal of ext3 and ext4: changes of many blocks that become durable together or not at all.
//!
//! *Promises.* After a crash, [`Journal::load`] leaves the device as it was behind some committed
//! transaction: a prefix of them, and every one whose [`sync`](Journal::sync) had returned is in
//! it. The bytes are those of Linux's jbd, and of jbd2 with checksums: each recovers what the other
//! left.
//!
//! *Works on* any [`BlockDevice`](nandlab_block::BlockDevice). The caller says which blocks of the
//! device are the journal's ([`Map`]); everything else is named by its number on the device. *Knows
//! nothing of* inodes, files, threads or clocks: the time is handed in.
//!
//! # Who owns what
//!
//! The journal owns the device and the cache of all blocks that ever are changed through it. A file
//! system's store calls
//!
//! - [`get`](Journal::get): the newest version of a block, wherever it is;
//! - [`start`](Journal::start), [`change`](Journal::change) or [`replace`](Journal::replace),
//!   [`stop`](Journal::stop): an operation;
//! - [`revoke`](Journal::revoke), [`forget`](Journal::forget): a block that is free again;
//! - [`ordered`](Journal::ordered): plain data that goes before its transaction;
//! - [`sync`](Journal::sync), [`commit`](Journal::commit) when [`due`](Journal::due),
//!   [`write_back`](Journal::write_back), [`checkpoint`](Journal::checkpoint),
//!   [`close`](Journal::close).
//!
//! ext3's modes are its caller's: *journal* changes data like metadata, *ordered* passes it to
//! `ordered`, *writeback* writes it to [`device_mut`](Journal::device_mut).
//!
//! # A transaction
//!
//! ```text
//!   start .. stop      Running   takes handles; of each block its newest version
//!   commit             Locked    no new handles; the open ones must stop
//!                      Flush     ordered data goes to the device; the next transaction may run, and copies what it changes
//!                      Commit    revoke blocks, then descriptors with the copies that they describe
//!                                -- flush --  commit block  -- flush --
//!                      Finished  Checkpoint::Copy: waits until its space is needed, or write_back
//!                                Checkpoint::Remap: its blocks take their copies' pages; no second write
//! ```
//!
//! # Power loss
//!
//! With barriers as above. Data overwritten in place (ordered, writeback) is as old, as new or as
//! mixed, sector by sector, as the device leaves it; what was `ordered` under a transaction is
//! there when the transaction is. After an error of the device nothing more is written:
//! [`JournalError::Aborted`].
//!
//! | module | its one idea |
//! |---|---|
//! | `format`, `superblock` | which bit lies where |
//! | `map`, `blocks` | where the journal lies, requests of neighbours |
//! | `ring` | free space in the log |
//! | `transaction`, `handle` | what a transaction holds, and how it comes to hold it |
//! | `commit` | into the log |
//! | `fast` | fast commits, whose bytes are the file system's |
//! | `checkpoint`, `remap` | home, by copying or JFTL's way |
//! | `recover` | after a crash |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod blocks;
mod bug;
mod checkpoint;
mod commit;
mod error;
mod fast;
mod format;
mod handle;
mod journal;
mod map;
mod recover;
mod remap;
mod ring;
mod sum;
mod superblock;
mod transaction;

#[doc(hidden)]
pub use bug::SeededBug;
pub use error::JournalError;
pub use fast::FastPlace;
pub use format::{MAGIC, Tid};
pub use journal::{
    BLOCKS_MIN, COMMIT_INTERVAL, Checkpoint, Journal, LINUX_BLOCKS_MIN, Options, Tally, create,
};
pub use map::Map;
pub use recover::Recovery;
pub use sum::crc32c;
pub use superblock::check_superblock;
pub use transaction::{Handle, State};
