//! The chip model: an array of NAND flash behind the `Mtd` trait, with real rules, real faults and
//! exact virtual time.
//!
//! *Promises.* It refuses what a data sheet forbids (programming what is not erased, pages out of
//! order, too many partial programs) with [`MtdError::Illegal`](nandlab_mtd::MtdError::Illegal), in
//! every build; it never loses what it reported durable; and everything it does is a function of
//! its [`ChipSpec`] (seed included) and of the operations issued: faults are drawn from what was
//! done to a page, not from a stream of numbers, so that a replayed [log](LoggedOp) meets the same
//! faults.
//!
//! *In terms of* `sim` (clock, rail, hashes) and `mtd` (the contract).
//!
//! *Knows nothing of* translation, file systems, files, or who is calling.
//!
//! *Power loss.* A [`Chip`] is a value: [`fork`](Chip::fork) is a copy that shares page contents
//! until one side writes. With the operation log on, [`Chip::replay`] applies logged operations to
//! such a fork whole, torn or not at all.
//!
//! | module | its one idea |
//! |---|---|
//! | `spec`, `preset` | what a chip is, in numbers with their sources |
//! | `calendar` | when an operation begins and ends: dies, channels, cache and multi-plane operation |
//! | `cells` | what each page and block holds besides data: programmed, torn, worn, bad |
//! | `oob` | spare-area bytes, seven a page where a block agrees on the rest |
//! | `contents` | page data: reference-counted slots, a backing store, or none |
//! | `sparse` | a backing store for chips on which little is written |
//! | `faults` | failures and bit errors, and the error correction against them |
//! | `chip` | the `Mtd` implementation |
//! | `beside` | a memory that keeps its contents, beside the chip |
//! | `log` | operations with their times, and their replay |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod beside;
mod calendar;
mod cells;
mod chip;
mod contents;
mod faults;
mod log;
mod oob;
pub mod preset;
mod sparse;
mod spec;

pub use beside::Beside;
pub use cells::BlockCells;
pub use chip::{Chip, Counts, ForkError};
pub use contents::PageStore;
pub use log::{CrashStates, DistinctStates, Fate, LoggedKind, LoggedOp};
pub use sparse::SparseStore;
pub use spec::{
    ChipSpec, Contents, Ecc, PageOrder, Reliability, Rules, SlcMode, SpecError, Superblock, Timing,
};
