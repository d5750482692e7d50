//! A whole exploration: the run, all its cuts in parallel, the report; and one state of it again.

use super::cut::Cut;
use super::id::Id;
use super::life::{Life, live};
use super::outcome::{CrashReport, Size, Tally, Violation};
use super::shrink::smallest;
use super::subject::{Failure, Subject};
use super::walk::{Place, Walker, state};
use super::{CrashError, Plan};
use nandlab_nand::{Chip, CrashStates};
use nandlab_sim::Nanos;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Pieces of work a thread: enough that none waits long for the last, few enough that replaying
/// their prefixes costs little.
const PIECES: usize = 8;

/// Runs `ops` once and explores what power cuts leave of it.
pub fn explore<S: Subject>(
    subject: &S,
    ops: &[S::Op],
    plan: &Plan,
) -> Result<CrashReport, CrashError> {
    explore_watched(subject, ops, plan, &|_, _| {})
}

/// The same, telling from time to time how many cuts of how many are done.
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

/// Makes one state again; gives what is wrong with it, if anything is. Of `plan`, only how the host
/// goes on matters.
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
        told: String::new(),
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
        let (next, at) = (place.id.then(cut), moment(&life, cut, &place.id, id)?);
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
                &place.told,
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
        let (id, expected) = (
            id.to_string(),
            format!("an operation of the workload's {}", ops.len()),
        );
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

/// Where runs begin.
pub(super) struct Bench<'a, S: Subject> {
    pub walker: Walker<'a, S>,
    /// The formatted chip, and the oracle for it.
    pub origin: Chip,
    oracle: S::Oracle,
}

impl<'a, S: Subject> Bench<'a, S> {
    fn new(subject: &'a S, plan: &'a Plan) -> Result<Self, CrashError> {
        let (origin, oracle) = subject.formatted().map_err(CrashError::Format)?;
        let geometry = origin.spec().geometry.clone();
        Ok(Self {
            walker: Walker {
                subject,
                plan,
                geometry,
            },
            origin,
            oracle,
        })
    }

    /// The life that is cut.
    pub fn run(&self, ops: &[S::Op]) -> Result<Result<Life<S>, Failure>, CrashError> {
        let mut chip = self.origin.fork()?;
        chip.start_log();
        Ok(live(self.walker.subject, chip, self.oracle.clone(), |_| {
            ops.to_vec()
        }))
    }

    /// Walks over contiguous pieces of `cuts` at once. Each replays its own prefix, so that no
    /// state depends on how they are divided.
    fn in_parallel(
        &self,
        life: &Life<S>,
        cuts: &[(Nanos, Cut)],
        place: &Place,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Tally, CrashError> {
        let (walker, plan) = (&self.walker, self.walker.plan);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(plan.threads)
            .build();
        let pool = pool.map_err(|e| CrashError::Threads(plan.threads, e.to_string()))?;
        let piece = cuts
            .len()
            .div_ceil(pool.current_num_threads() * PIECES)
            .max(1);
        // A chip may move to another thread, but not be shared.
        let pieces = (0..)
            .step_by(piece)
            .zip(cuts.chunks(piece))
            .map(|(first, part)| Ok((first, part, self.origin.fork()?)));
        let pieces = pieces.collect::<Result<Vec<(u64, _, _)>, CrashError>>()?;
        let done = AtomicU64::new(0);
        let work = |(first, part, base): (u64, &[(Nanos, Cut)], Chip)| {
            let mut tally = Tally::new(plan.listed);
            walker.walk(
                base,
                life,
                part,
                place,
                &|i| walker.goes_deeper(first + i as u64),
                &mut tally,
            )?;
            progress(
                done.fetch_add(part.len() as u64, Relaxed) + part.len() as u64,
                cuts.len() as u64,
            );
            Ok(tally)
        };
        let tallies: Vec<Result<Tally, CrashError>> =
            pool.install(|| pieces.into_par_iter().map(work).collect());
        let mut sum = Tally::new(plan.listed);
        tallies
            .into_iter()
            .try_for_each(|tally| tally.map(|tally| sum.add(tally)))?;
        Ok(sum)
    }
}
