//! States again: one by its name, or the chips of all, for another judge.

use crate::bench::Bench;
use crate::cut::Cut;
use crate::explore::{cuts, is_left_out};
use crate::id::Id;
use crate::life::Life;
use crate::outcome::Violation;
use crate::plan::{CrashError, Plan};
use crate::subject::{Failure, Subject};
use crate::walk::{Place, state};
use crate::workload::Workload;
use nandlab_mtd::LayerError;
use nandlab_nand::{Chip, CrashStates};
use nandlab_sim::Nanos;

/// Makes one state again, and returns its violation, if any. Of `plan`, only the changes after a
/// recovery matter.
pub fn replay<S: Subject>(
    subject: &S,
    ops: &[S::Op],
    plan: &Plan,
    id: &Id,
) -> Result<Option<Violation>, CrashError> {
    let bench = Bench::new(subject, plan)?;
    let Reached { place, life, .. } = match reach(&bench, ops, id, &id.cuts)? {
        Ok(reached) => reached,
        Err(violation) => return Ok(Some(violation)),
    };
    Ok(life
        .failure
        .as_ref()
        .map(|failure| Violation::uncut(&place.id, failure, life.doing(Nanos::MAX - 1))))
}

/// The chip as the last cut of `id` leaves it, before anything attaches; as the run leaves it, if
/// `id` has no cut. Fails if no such chip can be built.
pub fn chip_of_state<S: Subject>(
    subject: &S,
    ops: &[S::Op],
    plan: &Plan,
    id: &Id,
) -> Result<Chip, CrashError> {
    let bench = Bench::new(subject, plan)?;
    let unbuilt = |why: String| CrashError::Unbuilt {
        id: id.to_string(),
        why,
    };
    let before = &id.cuts[..id.cuts.len().saturating_sub(1)];
    let reached = reach(&bench, ops, id, before)?;
    let Reached { place, base, life } =
        reached.map_err(|violation| unbuilt(violation.to_string()))?;
    let at = match id.cuts.last() {
        None => Nanos::MAX,
        Some(&cut) => moment(&life, cut, &place.id, id)?,
    };
    state(&mut CrashStates::new(base, &life.log), at, id).map_err(|failure| unbuilt(failure.what))
}

/// Gives the chip of each distinct state after one cut, before anything attaches, to `take`.
/// A state that cannot be built is left out; [`explore`](crate::explore()) reports it.
pub fn chips_of_states<S: Subject>(
    subject: &S,
    workload: &Workload<S::Op>,
    plan: &Plan,
    take: &mut dyn FnMut(&Id, Chip) -> Result<(), LayerError>,
) -> Result<(), CrashError> {
    let bench = Bench::new(subject, plan)?;
    for run in (0..workload.count()).filter(|&run| !is_left_out(plan, workload, run)) {
        let place = Place::run(plan.seed, run as u64, workload.kept(run).cloned());
        let Ok(life) = bench.run(&workload.run(run))? else {
            continue;
        };
        let cuts = cuts(&bench, workload, run, &life, &place.id)?;
        let mut states = CrashStates::new(bench.origin()?, &life.log);
        for (at, cut) in cuts.distinct {
            let id = place.id.then(cut);
            if let Ok(chip) = state(&mut states, at, &id) {
                take(&id, chip).map_err(|why| CrashError::Taken(id.to_string(), why))?;
            }
        }
    }
    Ok(())
}

/// A life on the way to a state, and the chip that it began with.
struct Reached<S: Subject> {
    place: Place,
    base: Chip,
    life: Life<S>,
}

/// The life behind `cuts`, the first ones of `id`; the run itself if there are none. Or the
/// violation on the way.
fn reach<S: Subject>(
    bench: &Bench<'_, S>,
    ops: &[S::Op],
    id: &Id,
    cuts: &[Cut],
) -> Result<Result<Reached<S>, Violation>, CrashError> {
    let place = Place::run(id.seed, 0, id.kept.clone());
    let base = bench.origin()?;
    let mut reached = match bench.run(&kept(ops, id)?)? {
        Ok(life) => Reached { place, base, life },
        Err(failure) => {
            let attaching = "attaching".into();
            return Ok(Err(Violation::uncut(&place.id, &failure, attaching)));
        }
    };
    for &cut in cuts {
        reached = match reached.cut(bench, cut, id)? {
            Ok(next) => next,
            Err(violation) => return Ok(Err(violation)),
        };
    }
    Ok(Ok(reached))
}

impl<S: Subject> Reached<S> {
    /// The recovery from a cut of this life.
    fn cut(
        self,
        bench: &Bench<'_, S>,
        cut: Cut,
        id: &Id,
    ) -> Result<Result<Self, Violation>, CrashError> {
        let Self { place, base, life } = self;
        let next = place.id.then(cut);
        let at = moment(&life, cut, &place.id, id)?;
        let violation = |failure: &Failure| {
            bench
                .walker
                .violation(&next, &place.reported, &life, at, failure)
        };
        let mut chip = match state(&mut CrashStates::new(base, &life.log), at, &next) {
            Ok(chip) => chip,
            Err(failure) => return Ok(Err(violation(&failure))),
        };
        let base = chip.fork()?;
        chip.start_log();
        let oracle = life.witness().at(at).clone();
        let recovery = match bench.walker.recover(chip, oracle, &next) {
            Ok(recovery) => recovery,
            Err(failure) => return Ok(Err(violation(&failure))),
        };
        if let Some(failure) = &recovery.failure {
            return Ok(Err(violation(failure)));
        }
        let place = place.then(cut, &life.log, &bench.walker.geometry);
        Ok(Ok(Self {
            place,
            base,
            life: recovery,
        }))
    }
}

/// The operations that `id` keeps.
fn kept<Op: Clone>(ops: &[Op], id: &Id) -> Result<Vec<Op>, CrashError> {
    let Some(kept) = &id.kept else {
        return Ok(ops.to_vec());
    };
    let missing = |found| {
        let id = id.to_string();
        let expected = format!("an operation of the workload's {}", ops.len());
        CrashError::NoSuchState {
            id,
            what: "host operation",
            found,
            expected,
        }
    };
    kept.iter()
        .map(|&i| ops.get(i).cloned().ok_or_else(|| missing(i)))
        .collect()
}

/// When a cut of `life` is.
fn moment<S: Subject>(life: &Life<S>, cut: Cut, before: &Id, id: &Id) -> Result<Nanos, CrashError> {
    cut.moment(&life.log, before.next_seed())
        .ok_or_else(|| CrashError::NoSuchState {
            id: id.to_string(),
            what: "chip operation",
            found: cut.op,
            expected: format!("one of the log's {} that can be cut so", life.log.len()),
        })
}
