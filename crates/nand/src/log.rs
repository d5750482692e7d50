//! Operations with their times, and their replay: what the crash explorer builds every state after
//! a power cut from.

use crate::Chip;
use crate::calendar::Window;
use crate::cells::Odd;
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use nandlab_mtd::{Block, Geometry, Mtd, MtdError, Page};
use nandlab_sim::{Nanos, mix};

/// One media operation as the host issued it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOp {
    /// The operation with its data.
    pub kind: LoggedKind,
    /// When it took hold of its die.
    pub start: Nanos,
    /// When it was on the medium.
    pub end: Nanos,
}

impl LoggedOp {
    /// True if both are copies in one program of several planes, if they are on one die.
    fn is_joined(&self, other: &Self) -> bool {
        let is_copy = |op: &Self| matches!(op.kind, LoggedKind::Copy { .. });
        let window = |op: &Self| (op.start, op.end);
        is_copy(self) && is_copy(other) && window(self) == window(other)
    }
}

/// What an operation does to the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedKind {
    /// A page program (data empty: OOB only).
    Program {
        /// The page that it programs.
        page: Page,
        /// The bytes of the page.
        data: Box<[u8]>,
        /// Its user OOB bytes.
        oob: Box<[u8]>,
    },
    /// A copy inside the array.
    Copy {
        /// The page that it reads.
        from: Page,
        /// The page that it programs.
        to: Page,
        /// OOB bytes that travel with the data.
        kept: usize,
        /// The OOB bytes after them.
        tail: Box<[u8]>,
    },
    /// The erase of a block.
    Erase(Block),
    /// The erase of a block into SLC mode.
    EraseSlc(Block),
    /// The mark of a bad block.
    MarkBad(Block),
    /// A line of the memory beside the chip.
    Line {
        /// The line that it writes.
        line: u32,
        /// Its bytes.
        data: Box<[u8]>,
    },
}

/// How a power cut leaves an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The operation never began before the cut.
    NotStarted,
    /// The cut interrupted it; the word chooses how far it got.
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
        self.beside.start_log();
        self.update_plain();
    }

    /// True if the log keeps operations.
    pub fn is_logging(&self) -> bool {
        self.oplog.is_on()
    }

    /// Operations of the chip in the log so far, without those of the memory beside it.
    pub fn logged(&self) -> &[LoggedOp] {
        self.oplog.0.as_deref().unwrap_or_default()
    }

    /// Takes the log and stops keeping it.
    pub fn take_log(&mut self) -> Vec<LoggedOp> {
        let mut log = self.oplog.0.take().unwrap_or_default();
        let lines = self.beside.take_log();
        if !lines.is_empty() {
            log.extend(lines);
            log.sort_by_key(|op| op.start);
        }
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
                LoggedKind::EraseSlc(block) => self.erase_slc(*block),
                LoggedKind::MarkBad(block) => self.mark_bad(*block),
                LoggedKind::Line { line, data } => {
                    self.beside.replay(*line, data);
                    Ok(())
                }
            },
            Fate::Torn(word) => match op {
                LoggedKind::Program { page, .. } | LoggedKind::Copy { to: page, .. } => {
                    self.tear_program(op, *page, word)
                }
                LoggedKind::Erase(block) | LoggedKind::EraseSlc(block) => {
                    self.tear_erase(*block, word);
                    Ok(())
                }
                // A line is never torn.
                LoggedKind::Line { .. } => Ok(()),
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
            // The cells hold enough charge for the page to read correctly.
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

/// A log in the order of time: the operations complete at a moment, and those under way.
///
/// At time `t` an operation that ended by then is on the medium, and one that began later is not.
/// Of those under way on each die the oldest has any [`Fate`], and the younger ones have not begun
/// unless it is done. Copies that share a program have a fate each: the cut tears every plane in its
/// own way.
#[derive(Debug)]
struct Timeline<'a> {
    by_start: Vec<(usize, &'a LoggedOp)>,
    begun: usize,
    under_way: Vec<(usize, &'a LoggedOp)>,
}

impl<'a> Timeline<'a> {
    fn new(ops: &'a [LoggedOp]) -> Self {
        let mut by_start: Vec<_> = ops.iter().enumerate().collect();
        by_start.sort_by_key(|(_, op)| (op.start, op.end));
        Self {
            by_start,
            begun: 0,
            under_way: Vec::new(),
        }
    }

    /// The operations that are done by `t` and were not at the last call, in the order in which
    /// they ended.
    fn done_by(&mut self, t: Nanos) -> impl Iterator<Item = (usize, &'a LoggedOp)> {
        while let Some(op) = self
            .by_start
            .get(self.begun)
            .filter(|(_, op)| op.start < t || op.end <= t)
        {
            self.under_way.push(*op);
            self.begun += 1;
        }
        self.under_way.sort_by_key(|(_, op)| op.end);
        let done = self
            .under_way
            .iter()
            .take_while(|(_, op)| op.end <= t)
            .count();
        self.under_way.drain(..done)
    }

    /// How a cut leaves each operation under way; `word` chooses.
    fn fates(
        &self,
        geometry: &Geometry,
        word: u64,
    ) -> impl Iterator<Item = (usize, &'a LoggedOp, Fate)> {
        let mut held: BTreeMap<u32, &LoggedOp> = BTreeMap::new();
        (0..).zip(&self.under_way).map(move |(i, &(place, op))| {
            let die = op.kind.die(geometry);
            let waits = held.get(&die).is_some_and(|holds| !holds.is_joined(op));
            let fate = match mix(word, i) % 3 {
                _ if waits => Fate::NotStarted,
                0 => Fate::NotStarted,
                1 => Fate::Torn(mix(word, !i)),
                _ => Fate::Done,
            };
            if fate != Fate::Done {
                held.entry(die).or_insert(op);
            }
            (place, op, fate)
        })
    }
}

/// Every state in which a power cut can leave a chip, in the order of time: from a chip before a
/// run and the log of the run.
#[derive(Debug)]
pub struct CrashStates<'a> {
    chip: Chip,
    timeline: Timeline<'a>,
}

impl<'a> CrashStates<'a> {
    /// `chip`: a fork taken before the first of `ops`.
    pub fn new(chip: Chip, ops: &'a [LoggedOp]) -> Self {
        Self {
            chip,
            timeline: Timeline::new(ops),
        }
    }

    /// The chip after a cut at `t`, powered up again; `word` chooses the fates. Times must not run
    /// backwards from one call to the next.
    pub fn at(&mut self, t: Nanos, word: u64) -> Result<Chip, MtdError> {
        for (_, op) in self.timeline.done_by(t) {
            ignore_recurring(self.chip.replay(&op.kind, Fate::Done))?;
        }
        let mut fork = self
            .chip
            .fork()
            .map_err(|_| MtdError::Backing("a stored chip has no crash states"))?;
        for (_, op, fate) in self.timeline.fates(self.chip.geometry(), word) {
            ignore_recurring(fork.replay(&op.kind, fate))?;
        }
        Ok(fork)
    }
}

/// What a cut leaves of a log, the same for equal chips.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Remains {
    /// All operations before this place in the log have ended.
    all_before: usize,
    /// Places behind it of operations that have ended, ascending.
    done: Vec<usize>,
    /// Operations half done, by their places in the log, ascending; the word says how far.
    torn: Vec<(usize, u64)>,
}

impl Remains {
    fn done(&mut self, place: usize) {
        let at = self.done.partition_point(|&other| other < place);
        self.done.insert(at, place);
        let ready = (self.all_before..).zip(&self.done);
        let ready = ready.take_while(|(next, place)| next == *place).count();
        self.done.drain(..ready);
        self.all_before += ready;
    }
}

/// Tells the states of [`CrashStates`] apart, without a chip.
#[derive(Debug)]
pub struct DistinctStates<'a> {
    timeline: Timeline<'a>,
    geometry: &'a Geometry,
    /// The operations that have ended in all states from here on.
    base: Remains,
    /// The parts of earlier states, and what the host knew.
    seen: Vec<(Remains, usize)>,
}

impl<'a> DistinctStates<'a> {
    /// `ops`: the log of a chip of this shape.
    pub fn new(geometry: &'a Geometry, ops: &'a [LoggedOp]) -> Self {
        Self {
            timeline: Timeline::new(ops),
            geometry,
            base: Remains::default(),
            seen: Vec::new(),
        }
    }

    /// Whether [`CrashStates::at`] makes a chip for these values that it made for none before while
    /// the host knew the same. Times must not run backwards from one call to the next.
    pub fn is_new(&mut self, t: Nanos, word: u64, known: usize) -> bool {
        for (place, _) in self.timeline.done_by(t) {
            self.base.done(place);
        }
        let mut left = self.base.clone();
        for (place, _, fate) in self.timeline.fates(self.geometry, word) {
            match fate {
                Fate::NotStarted => {}
                Fate::Done => left.done(place),
                Fate::Torn(word) => left.torn.push((place, word)),
            }
        }
        left.torn.sort_unstable();
        // Later states have at least this behind them.
        let base = self.base.all_before;
        self.seen.retain(|(seen, _)| seen.all_before >= base);
        let state = (left, known);
        if self.seen.contains(&state) {
            return false;
        }
        self.seen.push(state);
        true
    }
}

/// A failure of the medium recurs in a replay; it is part of the state.
fn ignore_recurring(result: Result<(), MtdError>) -> Result<(), MtdError> {
    match result {
        Err(MtdError::ProgramFailed(_) | MtdError::EraseFailed(_)) => Ok(()),
        other => other,
    }
}

impl LoggedKind {
    /// The die that changes; none of them is the memory beside the chip.
    fn die(&self, g: &Geometry) -> u32 {
        match self {
            Self::Program { page, .. } | Self::Copy { to: page, .. } => g.die_of(g.block_of(*page)),
            Self::Erase(block) | Self::EraseSlc(block) | Self::MarkBad(block) => g.die_of(*block),
            Self::Line { .. } => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> [LoggedOp; 3] {
        let erase = |block, start, end| LoggedOp {
            kind: LoggedKind::Erase(Block(block)),
            start,
            end,
        };
        // Two dies at once, then one after another.
        [erase(0, 0, 100), erase(8, 50, 150), erase(1, 200, 300)]
    }

    #[test]
    fn a_state_is_new_once_for_what_the_host_knows() {
        let geometry = Geometry {
            dies: 2,
            ..Geometry::single_die(512, 16, 8, 8)
        };
        let log = log();
        let mut states = DistinctStates::new(&geometry, &log);
        assert!(states.is_new(0, 1, 0), "nothing has begun");
        let within: Vec<bool> = (0..64).map(|word| states.is_new(40, word, 0)).collect();
        assert_eq!(within.iter().filter(|&&new| new).count(), {
            let torn = (0..64).filter(|&word| mix(word, 0) % 3 == 1).count();
            torn + 1
        });
        // All is done: equal whatever the word says, and new again when the host knows more.
        let done = [(160, 0), (190, 0), (190, 1), (200, 1)];
        let done = done.map(|(t, known)| states.is_new(t, 7, known));
        assert_eq!(done, [true, false, true, false]);
        assert!(states.is_new(300, 7, 1));
    }

    #[test]
    fn operations_may_end_in_another_order_than_they_began() {
        let mut remains = Remains::default();
        for place in [2, 0, 4, 1] {
            remains.done(place);
        }
        assert_eq!((remains.all_before, &remains.done[..]), (3, &[4][..]));
    }
}
