//! What an exploration found: one plain value, the same as data and as text. No wall time in it.

use crate::id::Id;
use crate::plan::{Cuts, Plan, SecondLevel};
use crate::subject::{Failure, Kind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an exploration found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashReport {
    /// The seed that the exploration started from.
    pub seed: u64,
    /// Which cuts: `all` or `sample of N`.
    pub cuts: String,
    /// States for each operation cut in two.
    pub words: u32,
    /// One recovery in so many is cut again; 0: none.
    pub second_level_every: u64,
    /// Changes that the host made after each recovery.
    pub changes: u32,
    /// Host operations of the run.
    pub host_ops: u64,
    /// Chip operations of the run that change the medium.
    pub chip_ops: u64,
    /// Different moments (before, within, after an operation) at which the run was cut.
    pub cut_points: u64,
    /// States after a cut of the run.
    pub states: u64,
    /// States after a second cut, in a recovery.
    pub second_level_states: u64,
    /// States in which something was wrong, and the run itself if it was.
    pub violations_total: u64,
    /// The first of them.
    pub violations: Vec<Violation>,
    /// The first one, shrunk.
    pub smallest: Option<Smallest>,
}

/// A state in which a promise was not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Name of the state: makes it again, see [`Id`].
    pub id: String,
    /// The promise that was broken.
    pub kind: Kind,
    /// What was found, and what was allowed.
    pub what: String,
    /// Where the power went.
    pub cut: String,
    /// What the host was doing.
    pub host: String,
    /// Virtual time of the (last) cut.
    pub at_ns: u64,
}

/// A case with as few host operations as could be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smallest {
    /// The operations, by their number in the workload.
    pub host_ops: Vec<String>,
    /// The last chip operations that had begun by the (first) cut, with their times.
    pub chip_ops: Vec<String>,
    /// What is wrong then.
    pub violation: Violation,
    /// Not one of the operations can be left out.
    pub minimal: bool,
    /// Runs and states spent on it.
    pub states: u64,
}

impl Violation {
    /// The run itself failed.
    pub(crate) fn uncut(id: &Id, failure: &Failure, host: String) -> Self {
        Self {
            id: id.to_string(),
            kind: failure.kind,
            what: failure.what.clone(),
            cut: "no cut".into(),
            host,
            at_ns: 0,
        }
    }
}

/// What a walk counts.
pub(crate) struct Tally {
    /// States after one cut and after two.
    pub states: [u64; 2],
    pub total: u64,
    pub listed: Vec<Violation>,
    limit: usize,
    hunted: Option<Kind>,
}

impl Tally {
    /// Keeps the first `limit` violations (at least one).
    pub fn new(limit: usize) -> Self {
        Self {
            states: [0; 2],
            total: 0,
            listed: Vec::new(),
            limit: limit.max(1),
            hunted: None,
        }
    }

    /// Is satisfied with one violation of this kind, and keeps no other.
    pub fn hunting(kind: Kind) -> Self {
        Self {
            hunted: Some(kind),
            ..Self::new(1)
        }
    }

    pub fn satisfied(&self) -> bool {
        self.hunted.is_some() && !self.listed.is_empty()
    }

    pub fn violation(&mut self, kind: Kind, tell: impl FnOnce() -> Violation) {
        self.total += 1;
        if self.listed.len() < self.limit && self.hunted.is_none_or(|hunted| hunted == kind) {
            self.listed.push(tell());
        }
    }

    /// What a later walk counted comes on top.
    pub fn add(&mut self, later: Self) {
        self.states[0] += later.states[0];
        self.states[1] += later.states[1];
        self.total += later.total;
        let space = self.limit - self.listed.len().min(self.limit);
        self.listed.extend(later.listed.into_iter().take(space));
    }
}

/// How much was explored.
#[derive(Default)]
pub(crate) struct Size {
    pub host_ops: usize,
    pub chip_ops: usize,
    pub cut_points: usize,
}

impl CrashReport {
    pub(crate) fn new(plan: &Plan, size: Size, tally: Tally, smallest: Option<Smallest>) -> Self {
        let cuts = match plan.cuts {
            Cuts::All => "all".into(),
            Cuts::Sample(n) => format!("sample of {n}"),
        };
        let second_level_every = match plan.second {
            SecondLevel::Off => 0,
            SecondLevel::Every(n) => n,
        };
        Self {
            seed: plan.seed,
            cuts,
            words: plan.words,
            second_level_every,
            changes: plan.changes,
            host_ops: size.host_ops as u64,
            chip_ops: size.chip_ops as u64,
            cut_points: size.cut_points as u64,
            states: tally.states[0],
            second_level_states: tally.states[1],
            violations_total: tally.total,
            violations: tally.listed,
            smallest,
        }
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "run         {} host operations, {} chip operations that change the medium",
            self.host_ops, self.chip_ops
        )?;
        writeln!(
            f,
            "cuts        {} ({} moments, seed {})",
            self.cuts, self.cut_points, self.seed
        )?;
        writeln!(
            f,
            "states      {} after a cut, {} after a second cut in a recovery",
            self.states, self.second_level_states
        )?;
        writeln!(f, "violations  {}", self.violations_total)?;
        for violation in &self.violations {
            write!(f, "\n{violation}")?;
        }
        let untold = self.violations_total - self.violations.len() as u64;
        if untold > 0 {
            writeln!(f, "\nand {untold} more")?;
        }
        self.smallest
            .as_ref()
            .map_or(Ok(()), |smallest| write!(f, "\n{smallest}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.id, self.kind)?;
        writeln!(f, "  found  {}", self.what)?;
        writeln!(f, "  cut    {}", self.cut)?;
        writeln!(f, "  host   {}", self.host)
    }
}

impl fmt::Display for Smallest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.minimal {
            "none can be left out"
        } else {
            "perhaps not the fewest"
        };
        writeln!(
            f,
            "smallest case: {} host operations ({how}; {} runs and states tried)",
            self.host_ops.len(),
            self.states
        )?;
        self.host_ops
            .iter()
            .try_for_each(|op| writeln!(f, "  {op}"))?;
        writeln!(f, "last chip operations")?;
        self.chip_ops
            .iter()
            .try_for_each(|op| writeln!(f, "  {op}"))?;
        write!(f, "{}", self.violation)
    }
}
