//! One way in which operations of an array can fail: what, where, when.
//!
//! *Promises* that it counts the operations it could strike and strikes those that its schedule
//! picks. *Knows nothing of* the array: [`FaultInjector`](crate::FaultInjector) carries it out.

use crate::{Block, Corrected, MtdError, Page, Request};
use core::ops::{Bound, Range, RangeBounds};
use nandlab_sim::Schedule;

/// One way to fail.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: Kind,
    /// Page numbers; of an erase, block numbers.
    place: Range<u64>,
    when: Schedule,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Uncorrectable,
    UncorrectableData,
    Corrected(u16),
    Program,
    Erase,
}

impl Fault {
    /// Reading one of `pages`, or copying from it, fails with [`MtdError::Uncorrectable`]; the data
    /// read are damaged.
    pub fn uncorrectable(pages: impl RangeBounds<Page>) -> Self {
        Self::new(Kind::Uncorrectable, pages, |page| page.0)
    }

    /// Reading the data of one of `pages`, or copying from it, fails in the same way; its OOB alone
    /// can be read.
    pub fn uncorrectable_data(pages: impl RangeBounds<Page>) -> Self {
        Self::new(Kind::UncorrectableData, pages, |page| page.0)
    }

    /// Reading one of `pages`, or copying from it, reports at least so many corrected bits.
    pub fn corrected(pages: impl RangeBounds<Page>, bits: u16) -> Self {
        Self::new(Kind::Corrected(bits), pages, |page| page.0)
    }

    /// Programming one of `pages`, or copying to it, fails.
    pub fn program(pages: impl RangeBounds<Page>) -> Self {
        Self::new(Kind::Program, pages, |page| page.0)
    }

    /// Erasing one of `blocks` fails.
    pub fn erase(blocks: impl RangeBounds<Block>) -> Self {
        Self::new(Kind::Erase, blocks, |block| block.0)
    }

    fn new<T>(kind: Kind, place: impl RangeBounds<T>, number: impl Fn(&T) -> u32) -> Self {
        let number = |at: &T| u64::from(number(at));
        let start = match place.start_bound() {
            Bound::Included(at) => number(at),
            Bound::Excluded(at) => number(at) + 1,
            Bound::Unbounded => 0,
        };
        let end = match place.end_bound() {
            Bound::Included(at) => number(at) + 1,
            Bound::Excluded(at) => number(at),
            Bound::Unbounded => u64::MAX,
        };
        Self {
            kind,
            place: start..end,
            when: Schedule::always(),
            done: false,
        }
    }

    /// Only those of the matching operations that `when` picks, counted from zero.
    pub fn when(self, when: Schedule) -> Self {
        Self { when, ..self }
    }

    /// The program or erase is done, and reported as failed all the same.
    pub fn done(self) -> Self {
        Self { done: true, ..self }
    }

    /// What this fault does to the operation, if anything.
    pub(crate) fn strikes(&mut self, request: &Request) -> Option<Strike> {
        let (place, error) = match (self.kind, *request) {
            (
                Kind::Uncorrectable,
                Request::Read { page, .. } | Request::Copy { from: page, .. },
            )
            | (
                Kind::UncorrectableData,
                Request::Read { page, data: true } | Request::Copy { from: page, .. },
            ) => (page.0, MtdError::Uncorrectable(page)),
            (
                Kind::Corrected(bits),
                Request::Read { page, .. } | Request::Copy { from: page, .. },
            ) => {
                return self
                    .hits(page.0)
                    .then_some(Strike::Report(Corrected { bits }));
            }
            (Kind::Program, Request::Program { page, .. } | Request::Copy { to: page, .. }) => {
                (page.0, MtdError::ProgramFailed(page))
            }
            (Kind::Erase, Request::Erase(block)) => (block.0, MtdError::EraseFailed(block)),
            _ => return None,
        };
        // A read is always done, since the caller is given the data as read.
        let late = self.done || matches!(request, Request::Read { .. });
        self.hits(place).then_some(if late {
            Strike::FailLate(error)
        } else {
            Strike::Fail(error)
        })
    }

    fn hits(&mut self, place: u32) -> bool {
        self.place.contains(&u64::from(place)) && self.when.fires()
    }
}

/// What becomes of an operation that is struck.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strike {
    /// It does not reach the array.
    Fail(MtdError),
    /// It is done, and fails.
    FailLate(MtdError),
    /// It is done, and reports at least this.
    Report(Corrected),
}
