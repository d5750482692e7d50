//! What an exploration found: one plain value, the same as data and as text. No wall time in it.

use crate::id::Id;
use crate::plan::{CrashError, Cuts, Plan, SecondLevel};
use crate::subject::{Failure, Kind};
use nandlab_sim::Nanos;
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
    /// Runs of the workload, each from the freshly formatted stack on.
    pub runs: u64,
    /// Host operations of the runs.
    pub host_ops: u64,
    /// Chip operations of the runs that change the medium.
    pub chip_ops: u64,
    /// Different moments (before, within, after an operation) at which the run was cut.
    pub cut_points: u64,
    /// States after a cut of the run.
    pub states: u64,
    /// States after a second cut, in a recovery.
    pub second_level_states: u64,
    /// The states among both that differ from each other. The explorer looks at each once.
    pub distinct_states: u64,
    /// Times of the recoveries; none if nothing recovered.
    pub recovery: Option<Recovery>,
    /// States in which something was wrong, and the run itself if it was.
    pub violations_total: u64,
    /// States looked at until the first of them, with that one; none without a violation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states_to_first: Option<u64>,
    /// The first of them.
    pub violations: Vec<Violation>,
    /// The first one, shrunk.
    pub smallest: Option<Smallest>,
}

/// Virtual nanoseconds from power-up until the layer has attached and the file system has mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// As many recoveries were shorter as were longer.
    pub median_ns: u64,
    /// One recovery in a hundred took longer.
    pub p99_ns: u64,
    /// The longest recovery.
    pub max_ns: u64,
    /// Name of the state that took longest.
    pub slowest: String,
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
    /// Host operations, chip operations and moments of the runs.
    pub size: Size,
    /// Distinct states.
    pub distinct: u64,
    /// Distinct states until the first violation.
    first: Option<u64>,
    recoveries: Vec<Nanos>,
    slowest: Option<(Nanos, Id)>,
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
            size: Size::default(),
            distinct: 0,
            first: None,
            recoveries: Vec::new(),
            slowest: None,
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
        self.first.get_or_insert(self.distinct);
        if self.listed.len() < self.limit && self.hunted.is_none_or(|hunted| hunted == kind) {
            self.listed.push(tell());
        }
    }

    /// The recovery from a state took so long.
    pub fn recovery(&mut self, time: Nanos, id: &Id) {
        self.recoveries.push(time);
        if self.slowest.as_ref().is_none_or(|&(most, _)| time > most) {
            self.slowest = Some((time, id.clone()));
        }
    }

    /// The sum of several walks, one after another.
    pub fn sum(
        limit: usize,
        walks: impl IntoIterator<Item = Result<Self, CrashError>>,
    ) -> Result<Self, CrashError> {
        let mut sum = Self::new(limit);
        walks
            .into_iter()
            .try_for_each(|walk| walk.map(|walk| sum.add(walk)))?;
        Ok(sum)
    }

    /// What a later walk counted comes on top.
    pub fn add(&mut self, later: Self) {
        self.size.host_ops += later.size.host_ops;
        self.size.chip_ops += later.size.chip_ops;
        self.size.cut_points += later.size.cut_points;
        self.states[0] += later.states[0];
        self.states[1] += later.states[1];
        let first = later.first.map(|first| self.distinct + first);
        self.first = self.first.or(first);
        self.distinct += later.distinct;
        self.recoveries.extend(later.recoveries);
        if let Some((time, id)) = later.slowest
            && self.slowest.as_ref().is_none_or(|&(most, _)| time > most)
        {
            self.slowest = Some((time, id));
        }
        self.total += later.total;
        let space = self.limit - self.listed.len().min(self.limit);
        self.listed.extend(later.listed.into_iter().take(space));
    }
}

/// The distribution of recoveries.
fn distribution(mut times: Vec<Nanos>, slowest: Option<(Nanos, Id)>) -> Option<Recovery> {
    let (max_ns, slowest) = slowest?;
    times.sort_unstable();
    let quantile = |percent: usize| times[(times.len() - 1) * percent / 100];
    Some(Recovery {
        median_ns: quantile(50),
        p99_ns: quantile(99),
        max_ns,
        slowest: slowest.to_string(),
    })
}

/// How much was explored.
#[derive(Default)]
pub(crate) struct Size {
    pub host_ops: usize,
    pub chip_ops: usize,
    pub cut_points: usize,
}

impl CrashReport {
    /// The sizes of the smallest case and of the run, in host operations: "12 of 80".
    pub fn shrunk(&self) -> String {
        let smallest = self.smallest.as_ref();
        let smallest = smallest.map_or(0, |smallest| smallest.host_ops.len());
        format!("{smallest} of {}", self.host_ops)
    }

    pub(crate) fn new(plan: &Plan, runs: usize, tally: Tally, smallest: Option<Smallest>) -> Self {
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
            runs: runs as u64,
            host_ops: tally.size.host_ops as u64,
            chip_ops: tally.size.chip_ops as u64,
            cut_points: tally.size.cut_points as u64,
            states: tally.states[0],
            second_level_states: tally.states[1],
            distinct_states: tally.distinct,
            recovery: distribution(tally.recoveries, tally.slowest),
            violations_total: tally.total,
            states_to_first: tally.first,
            violations: tally.listed,
            smallest,
        }
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "run{}, {} chip operations that change the medium",
            match self.runs {
                1 => format!("         {} host operations", self.host_ops),
                runs => format!("s        {runs}: {} host operations", self.host_ops),
            },
            self.chip_ops
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
        writeln!(
            f,
            "distinct    {} of them, each looked at",
            self.distinct_states
        )?;
        if let Some(recovery) = &self.recovery {
            writeln!(f, "recovery    {recovery}")?;
        }
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

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p99, max] =
            [self.median_ns, self.p99_ns, self.max_ns].map(|ns| ns as f64 / 1e6);
        write!(
            f,
            "{median:.2} ms median, {p99:.2} ms p99, {max:.2} ms longest ({})",
            self.slowest
        )
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
