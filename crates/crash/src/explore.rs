//! A whole exploration: the run, all its cuts in parallel, the report; and one state of it again.

use crate::bench::Bench;
use crate::cut::{Cut, Which};
use crate::id::Id;
use crate::life::Life;
use crate::outcome::{CrashReport, Size, Tally, Violation};
use crate::plan::{CrashError, Cuts, Plan};
use crate::shrink::smallest;
use crate::subject::Subject;
use crate::walk::{Place, state};
use crate::workload::Workload;
use nandlab_nand::CrashStates;
use nandlab_sim::Nanos;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Runs `ops` once and explores what power cuts leave of it.
pub fn explore<S: Subject>(
    subject: &S,
    ops: &[S::Op],
    plan: &Plan,
) -> Result<CrashReport, CrashError> {
    explore_watched(subject, &Workload::whole(ops), plan, &|_, _| {})
}

/// As [`explore`] for each run of a workload. Calls `progress` with the number of runs done and
/// their total; if there is one run, with the number of cuts.
pub fn explore_watched<S: Subject>(
    subject: &S,
    workload: &Workload<S::Op>,
    plan: &Plan,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<CrashReport, CrashError> {
    let bench = Bench::new(subject, plan)?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(plan.threads)
        .build();
    let pool = pool.map_err(|e| CrashError::Threads(plan.threads, e))?;
    let tally = pool.install(|| all_runs(&bench, workload, progress))?;
    let smallest = match tally.listed.first() {
        Some(first) if plan.shrink_states > 0 => smallest(&bench, &workload.ops, first)?,
        _ => None,
    };
    Ok(CrashReport::new(plan, workload.count(), tally, smallest))
}

fn all_runs<S: Subject>(
    bench: &Bench<'_, S>,
    workload: &Workload<S::Op>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Tally, CrashError> {
    let count = workload.count();
    if count == 1 {
        return one_run(bench, workload, 0, progress);
    }
    let done = AtomicU64::new(0);
    let run = |run| {
        let tally = one_run(bench, workload, run, &|_, _| {});
        progress(done.fetch_add(1, Relaxed) + 1, count as u64);
        tally
    };
    let tallies: Vec<_> = (0..count).into_par_iter().map(run).collect();
    Tally::sum(bench.walker.plan.listed, tallies)
}

/// A run and all its cuts.
fn one_run<S: Subject>(
    bench: &Bench<'_, S>,
    workload: &Workload<S::Op>,
    run: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Tally, CrashError> {
    let plan = bench.walker.plan;
    let mut tally = Tally::new(plan.listed);
    let cuts = plan.cuts.of_run(run as u64, workload.count() as u64);
    if run > 0 && cuts == Cuts::Sample(0) {
        return Ok(tally);
    }
    let place = Place::run(plan.seed, run as u64, workload.kept(run).cloned());
    let life = match bench.run(&workload.run(run))? {
        Ok(life) => life,
        Err(failure) => {
            tally.violation(failure.kind, || {
                Violation::uncut(&place.id, &failure, "attaching".into())
            });
            return Ok(tally);
        }
    };
    if let Some(failure) = &life.failure {
        tally.violation(failure.kind, || {
            Violation::uncut(&place.id, failure, life.doing(Nanos::MAX - 1))
        });
    }
    let from = match run {
        0 => 0,
        _ => life.returned_at(workload.shared),
    };
    let which = Which {
        cuts,
        from,
        run: run as u64,
    };
    let cuts = bench
        .walker
        .cuts(&life, &bench.origin()?, which, &place.id)?;
    tally.size = Size {
        host_ops: life.ops.len(),
        chip_ops: life.log.len(),
        cut_points: cuts.moments,
    };
    tally.states[0] += cuts.states;
    tally.add(bench.in_parallel(&life, &cuts.distinct, &place, progress)?);
    Ok(tally)
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
    let mut place = Place::run(id.seed, 0, id.kept.clone());
    let mut base = bench.origin()?;
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
