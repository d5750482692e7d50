//! Requests to an array as adapters see them: what is asked and what came of it, never the bytes.

use crate::{Block, Corrected, Issued, MtdError, Page};

/// A request, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A call of [`Mtd::read`](crate::Mtd::read).
    Read {
        /// The page that is read.
        page: Page,
        /// Whether its data were asked for, or only its OOB.
        data: bool,
    },
    /// A call of [`Mtd::program`](crate::Mtd::program).
    Program {
        /// The page that is programmed.
        page: Page,
        /// Whether its data were given, or only its OOB.
        data: bool,
    },
    /// A call of [`Mtd::copy`](crate::Mtd::copy).
    Copy {
        /// The page that is read.
        from: Page,
        /// The page that is programmed.
        to: Page,
    },
    /// A call of [`Mtd::erase`](crate::Mtd::erase), or of
    /// [`Mtd::erase_slc`](crate::Mtd::erase_slc).
    Erase(Block),
    /// A call of [`Mtd::is_bad`](crate::Mtd::is_bad).
    IsBad(Block),
    /// A call of [`Mtd::mark_bad`](crate::Mtd::mark_bad).
    MarkBad(Block),
    /// [`Mtd::fence`](crate::Mtd::fence). It cannot fail: what the hook answers is not looked at.
    Fence(Issued),
    /// A call of [`Mtd::sync`](crate::Mtd::sync).
    Sync,
}

/// What came of a request; only a read or a copy has bits to report.
pub type Outcome = Result<Corrected, MtdError>;
