//! The states of one life, one after another in the order of time: built, recovered, judged, and
//! cut again.

use crate::cut::{Cut, Phase, Which, choose, overtaken};
use crate::id::{Id, going_on};
use crate::life::{Life, Witness, live};
use crate::outcome::{Tally, Violation};
use crate::plan::{CrashError, Plan, SecondLevel};
use crate::subject::{Failure, GoOn, Kind, Oracle, Subject};
use nandlab_mtd::{Geometry, MtdError};
use nandlab_nand::{Chip, CrashStates, DistinctStates, LoggedOp};
use nandlab_sim::{Nanos, mix};

/// Bits that number a cut in its run.
const RUN_SHIFT: u32 = 40;

/// What every walk needs to know.
pub(crate) struct Walker<'a, S> {
    pub subject: &'a S,
    pub plan: &'a Plan,
    pub geometry: Geometry,
}

/// Where a walk is: the cuts survived so far.
pub(crate) struct Place {
    pub id: Id,
    /// The number of the run.
    pub run: u64,
    /// The same in words.
    pub reported: String,
}

impl Place {
    /// In a run itself, which keeps these operations, or all.
    pub fn run(seed: u64, run: u64, kept: Option<Vec<usize>>) -> Self {
        let cuts = Vec::new();
        Self {
            id: Id { seed, cuts, kept },
            run,
            reported: String::new(),
        }
    }

    /// In the recovery from a cut of the life whose log this is.
    pub fn then(&self, cut: Cut, log: &[LoggedOp], geometry: &Geometry) -> Self {
        Self {
            id: self.id.then(cut),
            run: self.run,
            reported: format!(
                "{}{}; then, in the recovery, ",
                self.reported,
                cut.describe(log, geometry)
            ),
        }
    }
}

impl<S: Subject> Walker<'_, S> {
    /// The cuts of a life that began with `base`, with their moments. Nothing can be built beyond
    /// an operation that was overtaken, so that this is the last one.
    pub fn cuts(
        &self,
        life: &Life<S>,
        base: &Chip,
        which: Which,
        id: &Id,
    ) -> Result<Chosen, CrashError> {
        let words = if id.cuts.is_empty() {
            self.plan.words
        } else {
            1
        };
        let mut all = choose(&life.log, which, words, id.next_seed());
        if let Some(op) = overtaken(base.fork()?, &life.log) {
            let end = life.log[op].end;
            all.retain(|&(at, _)| at < end);
            let cut = Cut {
                op,
                phase: Phase::After,
                word: 0,
            };
            all.push((end, cut));
        }
        Ok(Chosen {
            moments: moments(&all),
            distinct: distinct(life, &self.geometry, &all, id),
            states: all.len() as u64,
        })
    }

    /// Chance decides which recoveries have a second cut, so that these are of all kinds. `number` is
    /// the place of the cut in its run.
    pub fn goes_deeper(&self, run: u64, number: u64) -> bool {
        let number = run << RUN_SHIFT | number;
        match self.plan.second {
            SecondLevel::Off | SecondLevel::Every(0) => false,
            SecondLevel::Every(n) => mix(self.plan.seed, !number).is_multiple_of(n),
        }
    }

    /// Looks at `cuts` of a life that began with `base`; `deeper` says which recoveries to cut
    /// again.
    pub fn walk(
        &self,
        base: Chip,
        life: &Life<S>,
        cuts: &[(Nanos, Cut)],
        place: &Place,
        deeper: &dyn Fn(usize) -> bool,
        tally: &mut Tally,
    ) -> Result<(), CrashError> {
        let mut states = CrashStates::new(base, &life.log);
        let mut witness = life.witness();
        for (number, &(at, cut)) in cuts.iter().enumerate() {
            if tally.satisfied() {
                break;
            }
            tally.distinct += 1;
            if let Err(failure) = self.visit(
                &mut states,
                &mut witness,
                (at, cut),
                place,
                deeper(number),
                tally,
            )? {
                tally.violation(failure.kind, || {
                    self.violation(&place.id.then(cut), &place.reported, life, at, &failure)
                });
            }
        }
        Ok(())
    }

    /// One state, and if `deeper` those that cuts of its recovery lead to.
    fn visit(
        &self,
        states: &mut CrashStates<'_>,
        witness: &mut Witness<'_, S>,
        (at, cut): (Nanos, Cut),
        place: &Place,
        deeper: bool,
        tally: &mut Tally,
    ) -> Result<Result<(), Failure>, CrashError> {
        let id = place.id.then(cut);
        let mut chip = match state(states, at, &id) {
            Ok(chip) => chip,
            Err(failure) => return Ok(Err(failure)),
        };
        let base = if deeper { Some(chip.fork()?) } else { None };
        if deeper {
            chip.start_log();
        }
        let life = match self.recover(chip, witness.at(at).clone(), &id) {
            Ok(life) => life,
            Err(failure) => return Ok(Err(failure)),
        };
        tally.recovery(life.recovery(), &id);
        if let (Some(base), None) = (base, &life.failure) {
            let cuts = self.cuts(&life, &base, Which::all(), &id)?;
            tally.states[id.cuts.len()] += cuts.states;
            let place = place.then(cut, witness.log(), &self.geometry);
            self.walk(base, &life, &cuts.distinct, &place, &|_| false, tally)?;
        }
        Ok(life.failure.map_or(Ok(()), Err))
    }

    /// Powers the chip up again and goes on. The oracle is the one of the moment of the cut.
    pub fn recover(&self, chip: Chip, mut oracle: S::Oracle, id: &Id) -> Result<Life<S>, Failure> {
        oracle.cut();
        let going_on = GoOn {
            word: going_on(id),
            changes: self.plan.changes,
            life: id.cuts.len() as u32,
        };
        live(self.subject, chip, oracle, |device| {
            self.subject.go_on(device, going_on)
        })
    }

    /// A failure after the last cut of `id`, which falls into `life`.
    pub fn violation(
        &self,
        id: &Id,
        reported: &str,
        life: &Life<S>,
        at: Nanos,
        failure: &Failure,
    ) -> Violation {
        let cut = id.cuts.last().map_or("no cut".into(), |cut| {
            cut.describe(&life.log, &self.geometry)
        });
        let id = id.to_string();
        let kind = failure.kind;
        let what = failure.what.clone();
        Violation {
            id,
            kind,
            what,
            cut: format!("{reported}{cut}"),
            host: life.doing(at),
            at_ns: at,
        }
    }
}

/// Cuts of a life, in the order of time.
pub(crate) struct Chosen {
    /// The first cut of each distinct state.
    pub distinct: Vec<(Nanos, Cut)>,
    /// States, equal ones counted as often as a cut leads to them.
    pub states: u64,
    /// Different moments (before, within, after an operation).
    pub moments: usize,
}

/// The number of different moments. States of one moment count once.
fn moments(cuts: &[(Nanos, Cut)]) -> usize {
    let mut moments: Vec<_> = cuts.iter().map(|(_, cut)| (cut.op, cut.phase)).collect();
    moments.sort_unstable();
    moments.dedup();
    moments.len()
}

/// Leaves out each cut that leaves the chip as an earlier one does while the host knows the same.
fn distinct<S: Subject>(
    life: &Life<S>,
    geometry: &Geometry,
    cuts: &[(Nanos, Cut)],
    id: &Id,
) -> Vec<(Nanos, Cut)> {
    let mut states = DistinctStates::new(geometry, &life.log);
    let known = life.events_by(cuts.iter().map(|&(at, _)| at));
    let first = |&(&(at, cut), known): &(&(Nanos, Cut), usize)| {
        states.is_new(at, id.then(cut).next_seed(), known)
    };
    let kept = cuts.iter().zip(known).filter(first);
    kept.map(|(&cut, _)| cut).collect()
}

/// The chip as the last cut of `id`, at `at`, leaves it.
pub(crate) fn state(states: &mut CrashStates<'_>, at: Nanos, id: &Id) -> Result<Chip, Failure> {
    states.at(at, id.next_seed()).map_err(|error: MtdError| {
        let what = format_args!(
            "{error}: an operation was overtaken by one that destroyed what it needed; allowed: operations in any order that the chip keeps"
        );
        Failure::new(Kind::Overtaken, what)
    })
}
