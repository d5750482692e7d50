//! Requests to an array as adapters see them: what is asked and what came of it, never the bytes.

use crate::{Block, Corrected, Issued, MtdError, Page};

/// A request, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`Mtd::read`](crate::Mtd::read).
    Read {
        /// Which page.
        page: Page,
        /// Whether its data were asked for, or only its OOB.
        data: bool,
    },
    /// [`Mtd::program`](crate::Mtd::program).
    Program {
        /// Which page.
        page: Page,
        /// Whether its data were given, or only its OOB.
        data: bool,
    },
    /// [`Mtd::copy`](crate::Mtd::copy).
    Copy {
        /// The page read.
        from: Page,
        /// The page programmed.
        to: Page,
    },
    /// [`Mtd::erase`](crate::Mtd::erase).
    Erase(Block),
    /// [`Mtd::is_bad`](crate::Mtd::is_bad).
    IsBad(Block),
    /// [`Mtd::mark_bad`](crate::Mtd::mark_bad).
    MarkBad(Block),
    /// [`Mtd::fence`](crate::Mtd::fence). It cannot fail: what the hook answers is not looked at.
    Fence(Issued),
    /// [`Mtd::sync`](crate::Mtd::sync).
    Sync,
}

/// What came of a request; only a read or a copy has bits to report.
pub type Outcome = Result<Corrected, MtdError>;
