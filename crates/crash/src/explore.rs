//! A whole exploration: the run, all its cuts in parallel, the report.

use crate::bench::Bench;
use crate::cut::Which;
use crate::id::Id;
use crate::life::Life;
use crate::outcome::{CrashReport, Size, Tally, Violation};
use crate::plan::{CrashError, Cuts, Plan};
use crate::shrink::smallest;
use crate::subject::Subject;
use crate::walk::{Chosen, Place};
use crate::workload::Workload;
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
    if is_left_out(plan, workload, run) {
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
    let cuts = cuts(bench, workload, run, &life, &place.id)?;
    tally.size = Size {
        host_ops: life.ops.len(),
        chip_ops: life.log.len(),
        cut_points: cuts.moments,
    };
    tally.states[0] += cuts.states;
    tally.add(bench.in_parallel(&life, &cuts.distinct, &place, progress)?);
    Ok(tally)
}

/// Whether a run has no cut. The first run is always made, for its size.
pub(crate) fn is_left_out<Op: Clone>(plan: &Plan, workload: &Workload<Op>, run: usize) -> bool {
    run > 0 && cuts_of(plan, workload, run) == Cuts::Sample(0)
}

/// The cuts of a run, whose life this is. What all runs share is cut in the first one only.
pub(crate) fn cuts<S: Subject>(
    bench: &Bench<'_, S>,
    workload: &Workload<S::Op>,
    run: usize,
    life: &Life<S>,
    id: &Id,
) -> Result<Chosen, CrashError> {
    let from = match run {
        0 => 0,
        _ => life.returned_at(workload.shared),
    };
    let which = Which {
        cuts: cuts_of(bench.walker.plan, workload, run),
        from,
        run: run as u64,
    };
    bench.walker.cuts(life, &bench.origin()?, which, id)
}

fn cuts_of<Op: Clone>(plan: &Plan, workload: &Workload<Op>, run: usize) -> Cuts {
    plan.cuts.of_run(run as u64, workload.count() as u64)
}
