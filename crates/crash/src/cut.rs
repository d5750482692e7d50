//! Where the power can go: before, within and after every operation of a chip's log.

use crate::plan::Cuts;
use crate::workload::spread;
use nandlab_mtd::{Geometry, MtdError, Page};
use nandlab_nand::{Chip, CrashStates, Fate, LoggedKind, LoggedOp};
use nandlab_sim::{Nanos, mix};

/// The moment of a cut relative to a chip operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It has not begun.
    Before,
    /// It is under way, and ends undone, torn or done.
    Torn,
    /// It is done. The write may or may not have been acknowledged.
    After,
}

/// One state among those that a cut of a log can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// The chip operation, by its place in the log.
    pub op: usize,
    /// Before, within or after it.
    pub phase: Phase,
    /// Numbers the states of one operation. It chooses the moment within the operation, and the
    /// fates of all operations under way.
    pub word: u32,
}

impl Cut {
    /// The word that decides, for a seed.
    pub(crate) fn fates(self, seed: u64) -> u64 {
        mix(
            mix(seed, self.op as u64),
            u64::from(self.word) << 2 | self.phase as u64,
        )
    }

    /// When it is; none if the log has no such operation, or none that takes long enough to be
    /// interrupted.
    pub(crate) fn moment(self, log: &[LoggedOp], seed: u64) -> Option<Nanos> {
        let op = log.get(self.op)?;
        match self.phase {
            Phase::Before => Some(op.start),
            Phase::After => Some(op.end),
            Phase::Torn => {
                let inside = op.end.checked_sub(op.start + 1).filter(|&n| n > 0)?;
                Some(op.start + 1 + mix(self.fates(seed), 0) % inside)
            }
        }
    }

    /// The chip as this cut of a logged run leaves it, powered up again, with the time of the cut.
    /// `base` is a fork from before the first operation. None if the log has no such operation, or
    /// none that takes long enough to be interrupted.
    pub fn state(
        self,
        base: Chip,
        log: &[LoggedOp],
        seed: u64,
    ) -> Result<Option<(Nanos, Chip)>, MtdError> {
        let Some(at) = self.moment(log, seed) else {
            return Ok(None);
        };
        let chip = CrashStates::new(base, log).at(at, self.fates(seed))?;
        Ok(Some((at, chip)))
    }

    pub(crate) fn describe(self, log: &[LoggedOp], geometry: &Geometry) -> String {
        let moment = match self.phase {
            Phase::Before => "before",
            Phase::Torn => "within",
            Phase::After => "after",
        };
        match log.get(self.op) {
            Some(op) => format!(
                "{moment} chip operation {}: {}",
                self.op,
                operation(op, geometry)
            ),
            None => format!("{moment} chip operation {}", self.op),
        }
    }
}

/// A chip operation in words.
fn operation(op: &LoggedOp, geometry: &Geometry) -> String {
    let place = |page: &Page| {
        format!(
            "block {} page {}",
            geometry.block_of(*page).0,
            geometry.index_of(*page)
        )
    };
    match &op.kind {
        LoggedKind::Program { page, .. } => format!("program {}", place(page)),
        LoggedKind::Copy { from, to, .. } => format!("copy {} to {}", place(from), place(to)),
        LoggedKind::Erase(block) => format!("erase block {}", block.0),
        LoggedKind::EraseSlc(block) => format!("erase block {} into SLC mode", block.0),
        LoggedKind::MarkBad(block) => format!("mark block {} bad", block.0),
        LoggedKind::Line { line, .. } => format!("write line {line} of the memory"),
    }
}

/// The same with its time.
pub(crate) fn timed(op: &LoggedOp, geometry: &Geometry) -> String {
    format!(
        "{} ({} to {} ns)",
        operation(op, geometry),
        op.start,
        op.end
    )
}

/// A choice among the cuts of a life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Which {
    pub cuts: Cuts,
    /// None before this moment.
    pub from: Nanos,
    /// Runs with different numbers have samples at different places.
    pub run: u64,
}

impl Which {
    /// All cuts from the beginning on.
    pub fn all() -> Self {
        Self {
            cuts: Cuts::All,
            from: 0,
            run: 0,
        }
    }
}

/// The chosen cuts with their moments, in the order of time.
pub(crate) fn choose(log: &[LoggedOp], which: Which, words: u32, seed: u64) -> Vec<(Nanos, Cut)> {
    let per_op = 2 + u64::from(words);
    let reaches = |op: &LoggedOp| op.end >= which.from;
    let first = log.iter().position(reaches).unwrap_or(log.len());
    let all = (log.len() - first) as u64 * per_op;
    let pick = match which.run {
        0 => seed,
        run => mix(seed, run),
    };
    let name = |index: u64| {
        let op = first + (index / per_op) as usize;
        let k = (index % per_op) as u32;
        let (phase, word) = match k {
            0 => (Phase::Before, 0),
            k if k <= words => (Phase::Torn, k - 1),
            _ => (Phase::After, 0),
        };
        Cut { op, phase, word }
    };
    let timed = |cut: Cut| cut.moment(log, seed).map(|at| (at, cut));
    let mut chosen: Vec<_> = match which.cuts {
        Cuts::Sample(n) if n < all => spread(n, all, pick)
            .filter_map(|index| timed(name(index)))
            .collect(),
        Cuts::All | Cuts::Sample(_) => (0..all).filter_map(|i| timed(name(i))).collect(),
    };
    chosen.retain(|&(at, _)| at >= which.from);
    chosen.sort_unstable();
    chosen
}

/// The first operation that cannot be repeated in the order in which operations ended, because
/// another that was issued later ended earlier and destroyed what it needed. No state after its end
/// can be built, on the bench or here.
pub(crate) fn overtaken(mut chip: Chip, log: &[LoggedOp]) -> Option<usize> {
    let mut by_end: Vec<(usize, &LoggedOp)> = log.iter().enumerate().collect();
    by_end.sort_by_key(|(_, op)| (op.end, op.start));
    let refused = |result| {
        !matches!(
            result,
            Ok(()) | Err(MtdError::ProgramFailed(_) | MtdError::EraseFailed(_))
        )
    };
    by_end
        .into_iter()
        .find(|(_, op)| refused(chip.replay(&op.kind, Fate::Done)))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_mtd::Block;

    fn op(kind: LoggedKind, start: Nanos, end: Nanos) -> LoggedOp {
        LoggedOp { kind, start, end }
    }

    fn which(cuts: Cuts) -> Which {
        Which {
            cuts,
            ..Which::all()
        }
    }

    fn erases(count: u64) -> Vec<LoggedOp> {
        (0..count)
            .map(|i| op(LoggedKind::Erase(Block(0)), 100 * i, 100 * i + 100))
            .collect()
    }

    #[test]
    fn every_operation_is_cut_before_within_and_after_in_the_order_of_time() {
        let log = erases(5);
        let chosen = choose(&log, which(Cuts::All), 3, 1);
        assert_eq!(chosen.len(), 5 * (2 + 3));
        assert!(chosen.is_sorted_by_key(|&(at, _)| at));
        for (at, cut) in chosen {
            let start = 100 * cut.op as u64;
            match cut.phase {
                Phase::Before => assert_eq!(at, start),
                Phase::Torn => assert!(start < at && at < start + 100, "{at}"),
                Phase::After => assert_eq!(at, start + 100),
            }
        }
    }

    #[test]
    fn what_takes_no_time_is_not_cut_in_two() {
        let log = [
            op(LoggedKind::MarkBad(Block(0)), 7, 7),
            op(LoggedKind::MarkBad(Block(0)), 8, 9),
        ];
        let phases: Vec<Phase> = choose(&log, which(Cuts::All), 3, 1)
            .iter()
            .map(|(_, cut)| cut.phase)
            .collect();
        assert_eq!(
            phases,
            [Phase::Before, Phase::After, Phase::Before, Phase::After]
        );
    }

    #[test]
    fn no_cut_is_chosen_before_the_moment_asked_for() {
        let log = erases(10);
        let late = Which {
            from: 700,
            ..Which::all()
        };
        let chosen = choose(&log, late, 3, 1);
        // The seventh erase ends at this moment.
        assert_eq!(chosen.len(), 1 + 3 * (2 + 3));
        let sample = Which {
            cuts: Cuts::Sample(4),
            ..late
        };
        let chosen = choose(&log, sample, 3, 1);
        assert!(chosen.iter().all(|&(at, _)| at >= 700) && chosen.len() >= 3);
        let other = Which { run: 1, ..sample };
        assert_ne!(choose(&log, other, 3, 1), chosen);
    }

    #[test]
    fn a_sample_takes_one_cut_from_each_equal_part() {
        let log = erases(1_000);
        let chosen = choose(&log, which(Cuts::Sample(50)), 3, 1);
        let tens: Vec<usize> = chosen.iter().map(|(_, cut)| cut.op / 20).collect();
        assert_eq!(tens, (0..50).collect::<Vec<_>>());
        assert_eq!(
            choose(&log, which(Cuts::Sample(1 << 40)), 3, 1),
            choose(&log, which(Cuts::All), 3, 1)
        );
        assert_eq!(choose(&log, which(Cuts::Sample(0)), 3, 1), []);
        assert_eq!(choose(&[], which(Cuts::Sample(50)), 3, 1), []);
    }
}
