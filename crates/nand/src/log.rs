//! Operations with their times, and their replay: what the crash explorer builds every state after
//! a power cut from.

use crate::Chip;
use crate::calendar::Window;
use crate::cells::Odd;
use alloc::{boxed::Box, collections::BTreeSet, vec::Vec};
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_sim::{Nanos, mix};

/// One media operation as it was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOp {
    /// The operation with its data.
    pub kind: LoggedKind,
    /// When it took hold of its die.
    pub start: Nanos,
    /// When it was on the medium.
    pub end: Nanos,
}

/// What an operation does to the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedKind {
    /// A page program (data empty: OOB only).
    Program {
        /// The page that is programmed.
        page: Page,
        /// The bytes of the page.
        data: Box<[u8]>,
        /// Its user OOB bytes.
        oob: Box<[u8]>,
    },
    /// A copy inside the array.
    Copy {
        /// The page that is read.
        from: Page,
        /// The page that is programmed.
        to: Page,
        /// OOB bytes that travel with the data.
        kept: usize,
        /// The OOB bytes after them.
        tail: Box<[u8]>,
    },
    /// The erase of a block.
    Erase(Block),
    /// The mark of a bad block.
    MarkBad(Block),
}

/// How a power cut leaves an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The operation never began before the cut.
    NotStarted,
    /// It was interrupted; the word chooses how far it got.
    Torn(u64),
    /// It is on the medium, though it was not acknowledged.
    Done,
}

/// The operation log of a chip, off by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpLog(Option<Vec<LoggedOp>>);

impl OpLog {
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub fn push(&mut self, window: Window, kind: impl FnOnce() -> LoggedKind) {
        if let Some(ops) = &mut self.0 {
            ops.push(LoggedOp {
                kind: kind(),
                start: window.start,
                end: window.end,
            });
        }
    }
}

impl Chip {
    /// Starts keeping every media operation (a log already kept goes on).
    pub fn start_log(&mut self) {
        self.oplog.0.get_or_insert_default();
        self.update_plain();
    }

    /// Whether operations are kept.
    pub fn is_logging(&self) -> bool {
        self.oplog.is_on()
    }

    /// Operations logged so far.
    pub fn logged(&self) -> &[LoggedOp] {
        self.oplog.0.as_deref().unwrap_or_default()
    }

    /// Takes the log and stops keeping it.
    pub fn take_log(&mut self) -> Vec<LoggedOp> {
        let log = self.oplog.0.take().unwrap_or_default();
        self.update_plain();
        log
    }

    /// Applies a logged operation to this chip's state, as a power cut left it. Failures recur as
    /// they did, since they depend on the place and its history alone; time does not matter.
    pub fn replay(&mut self, op: &LoggedKind, fate: Fate) -> Result<(), MtdError> {
        let result = self.replay_any(op, fate);
        self.update_plain();
        result
    }

    fn replay_any(&mut self, op: &LoggedKind, fate: Fate) -> Result<(), MtdError> {
        match fate {
            Fate::NotStarted => Ok(()),
            Fate::Done => match op {
                LoggedKind::Program { page, data, oob } => self.program(*page, data, oob),
                LoggedKind::Copy {
                    from,
                    to,
                    kept,
                    tail,
                } => {
                    // Its source was read well when it was logged; reads are not logged, so the
                    // same errors could not be drawn again.
                    let flips = core::mem::take(&mut self.faults.flips);
                    let copied = self.copy(*from, *to, &mut alloc::vec![0; *kept], tail);
                    self.faults.flips = flips;
                    copied.map(|_| ())
                }
                LoggedKind::Erase(block) => self.erase(*block),
                LoggedKind::MarkBad(block) => self.mark_bad(*block),
            },
            Fate::Torn(word) => match op {
                LoggedKind::Program { page, .. } | LoggedKind::Copy { to: page, .. } => {
                    self.tear_program(op, *page, word)
                }
                LoggedKind::Erase(block) => {
                    self.tear_erase(*block, word);
                    Ok(())
                }
                // A mark is one bit; it is there or it is not.
                LoggedKind::MarkBad(block) => {
                    if word & 1 == 0 {
                        Ok(())
                    } else {
                        self.mark_bad(*block)
                    }
                }
            },
        }
    }

    fn tear_program(&mut self, op: &LoggedKind, page: Page, word: u64) -> Result<(), MtdError> {
        match self.replay(op, Fate::Done) {
            Ok(()) | Err(MtdError::ProgramFailed(_)) => {}
            refused => return refused,
        }
        match word % 3 {
            // Enough charge was moved for the page to read correctly.
            0 => {}
            1 => self.cells.set_odd(page, Odd::Unreadable),
            _ => self.cells.set_odd(page, Odd::Blank),
        }
        Ok(())
    }

    /// Each programmed page is as it was, unreadable or blank. None may be programmed before the
    /// block has been erased.
    fn tear_erase(&mut self, block: Block, word: u64) {
        let first = self.geometry().page_at(block, 0).0;
        for page in (first..first + self.geometry().pages_per_block).map(Page) {
            let programmed =
                self.cells.is_programmed(page) && self.cells.odd(page) != Some(Odd::Blank);
            match mix(word, u64::from(page.0)) % 3 {
                0 if programmed => {}
                1 if programmed => self.cells.set_odd(page, Odd::Unreadable),
                _ => self.cells.set_odd(page, Odd::Blank),
            }
        }
    }
}

/// Every state in which a power cut can leave a chip, in the order of time: from a chip before a
/// run and the log of the run.
///
/// At time `t` an operation that ended by then is on the medium, and one that began later is not.
/// Of those under way on each die the oldest has any [`Fate`], and the younger ones have not begun
/// unless it is done.
#[derive(Debug)]
pub struct CrashStates<'a> {
    chip: Chip,
    by_start: Vec<&'a LoggedOp>,
    begun: usize,
    under_way: Vec<&'a LoggedOp>,
}

impl<'a> CrashStates<'a> {
    /// `chip`: a fork taken before the first of `ops`.
    pub fn new(chip: Chip, ops: &'a [LoggedOp]) -> Self {
        let mut by_start: Vec<_> = ops.iter().collect();
        by_start.sort_by_key(|op| (op.start, op.end));
        Self {
            chip,
            by_start,
            begun: 0,
            under_way: Vec::new(),
        }
    }

    /// The chip after a cut at `t`, powered up again; `word` chooses the fates. Times must not run
    /// backwards from one call to the next.
    pub fn at(&mut self, t: Nanos, word: u64) -> Result<Chip, MtdError> {
        while let Some(op) = self
            .by_start
            .get(self.begun)
            .filter(|op| op.start < t || op.end <= t)
        {
            self.under_way.push(op);
            self.begun += 1;
        }
        self.under_way.sort_by_key(|op| op.end);
        let done = self.under_way.iter().take_while(|op| op.end <= t).count();
        for op in self.under_way.drain(..done) {
            ignore_recurring(self.chip.replay(&op.kind, Fate::Done))?;
        }
        let mut fork = self
            .chip
            .fork()
            .map_err(|_| MtdError::Backing("a stored chip has no crash states"))?;
        let mut held = BTreeSet::new();
        for (i, op) in self.under_way.iter().enumerate() {
            let die = op.kind.die(&fork);
            let fate = match mix(word, i as u64) % 3 {
                _ if held.contains(&die) => Fate::NotStarted,
                0 => Fate::NotStarted,
                1 => Fate::Torn(mix(word, !(i as u64))),
                _ => Fate::Done,
            };
            if fate != Fate::Done {
                held.insert(die);
            }
            ignore_recurring(fork.replay(&op.kind, fate))?;
        }
        Ok(fork)
    }
}

/// A failure of the medium recurs when it is replayed; it is part of the state.
fn ignore_recurring(result: Result<(), MtdError>) -> Result<(), MtdError> {
    match result {
        Err(MtdError::ProgramFailed(_) | MtdError::EraseFailed(_)) => Ok(()),
        other => other,
    }
}

impl LoggedKind {
    /// The die that is changed.
    fn die(&self, chip: &Chip) -> u32 {
        let g = chip.geometry();
        match self {
            Self::Program { page, .. } | Self::Copy { to: page, .. } => g.die_of(g.block_of(*page)),
            Self::Erase(block) | Self::MarkBad(block) => g.die_of(*block),
        }
    }
}
