//! A whole exploration: the run, all its cuts in parallel, the report; and one state of it again.

use crate::bench::Bench;
use crate::cut::Cut;
use crate::id::Id;
use crate::life::Life;
use crate::outcome::{CrashReport, Size, Tally, Violation};
use crate::plan::{CrashError, Plan};
use crate::shrink::smallest;
use crate::subject::Subject;
use crate::walk::{Place, state};
use nandlab_nand::CrashStates;
use nandlab_sim::Nanos;

/// Runs `ops` once and explores what power cuts leave of it.
pub fn explore<S: Subject>(
    subject: &S,
    ops: &[S::Op],
    plan: &Plan,
) -> Result<CrashReport, CrashError> {
    explore_watched(subject, ops, plan, &|_, _| {})
}

/// As [`explore`], and calls `progress` with the number of cuts done and their total.
pub fn explore_watched<S: Subject>(
    subject: &S,
    ops: &[S::Op],
    plan: &Plan,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<CrashReport, CrashError> {
    let bench = Bench::new(subject, plan)?;
    let mut tally = Tally::new(plan.listed);
    let place = Place::run(plan.seed);
    let mut size = Size::default();
    match bench.run(ops)? {
        Err(failure) => tally.violation(failure.kind, || {
            Violation::uncut(&place.id, &failure, "attaching".into())
        }),
        Ok(life) => {
            if let Some(failure) = &life.failure {
                tally.violation(failure.kind, || {
                    Violation::uncut(&place.id, failure, life.doing(Nanos::MAX - 1))
                });
            }
            let cuts = bench
                .walker
                .cuts(&life, &bench.origin, plan.cuts, &place.id)?;
            size = Size {
                host_ops: life.ops.len(),
                chip_ops: life.log.len(),
                cut_points: moments(&cuts),
            };
            tally.add(bench.in_parallel(&life, &cuts, &place, progress)?);
        }
    }
    let smallest = match tally.listed.first() {
        Some(first) if plan.shrink_states > 0 => smallest(&bench, ops, first)?,
        _ => None,
    };
    Ok(CrashReport::new(plan, size, tally, smallest))
}

/// Makes one state again, and returns its violation, if any. Of `plan`, only the changes after a
/// recovery matter.
pub fn replay<S: Subject>(
    subject: &S,
    ops: &[S::Op],
    plan: &Plan,
    id: &Id,
) -> Result<Option<Violation>, CrashError> {
    let bench = Bench::new(subject, plan)?;
    let ops = kept(ops, id)?;
    let mut place = Place {
        id: Id {
            cuts: Vec::new(),
            ..id.clone()
        },
        reported: String::new(),
    };
    let mut base = bench.origin.fork()?;
    let mut life = match bench.run(&ops)? {
        Ok(life) => life,
        Err(failure) => {
            return Ok(Some(Violation::uncut(
                &place.id,
                &failure,
                "attaching".into(),
            )));
        }
    };
    for &cut in &id.cuts {
        let next = place.id.then(cut);
        let at = moment(&life, cut, &place.id, id)?;
        let recovered =
            state(&mut CrashStates::new(base, &life.log), at, &next).and_then(|mut chip| {
                let fork = chip.fork();
                chip.start_log();
                Ok((
                    fork,
                    bench
                        .walker
                        .recover(chip, life.witness().at(at).clone(), &next)?,
                ))
            });
        let failure = match &recovered {
            Ok((_, next)) => next.failure.as_ref(),
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            return Ok(Some(bench.walker.violation(
                &next,
                &place.reported,
                &life,
                at,
                failure,
            )));
        }
        let Ok((fork, recovery)) = recovered else {
            return Ok(None);
        };
        place = place.then(cut, &life.log, &bench.walker.geometry);
        (base, life) = (fork?, recovery);
    }
    Ok(life
        .failure
        .as_ref()
        .map(|failure| Violation::uncut(&place.id, failure, life.doing(Nanos::MAX - 1))))
}

/// How many different moments cuts fall on, states of one moment counted once.
fn moments(cuts: &[(Nanos, Cut)]) -> usize {
    let mut moments: Vec<_> = cuts.iter().map(|(_, cut)| (cut.op, cut.phase)).collect();
    moments.sort_unstable();
    moments.dedup();
    moments.len()
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
