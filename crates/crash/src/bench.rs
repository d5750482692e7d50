//! Where runs begin: the formatted chip, and all cuts of a run in parallel.

use crate::cut::Cut;
use crate::life::{Life, live};
use crate::outcome::Tally;
use crate::plan::{CrashError, Plan};
use crate::subject::{Failure, Subject};
use crate::walk::{Place, Walker};
use nandlab_nand::Chip;
use nandlab_sim::Nanos;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Pieces of work a thread: enough that none waits long for the last, few enough that replaying
/// their prefixes costs little.
const PIECES: usize = 8;

/// The walker that says where runs begin.
pub(crate) struct Bench<'a, S: Subject> {
    pub walker: Walker<'a, S>,
    /// The formatted chip, and the oracle for it.
    pub origin: Chip,
    oracle: S::Oracle,
}

impl<'a, S: Subject> Bench<'a, S> {
    pub fn new(subject: &'a S, plan: &'a Plan) -> Result<Self, CrashError> {
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
    pub fn in_parallel(
        &self,
        life: &Life<S>,
        cuts: &[(Nanos, Cut)],
        place: &Place,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Tally, CrashError> {
        let walker = &self.walker;
        let plan = self.walker.plan;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(plan.threads)
            .build();
        let pool = pool.map_err(|e| CrashError::Threads(plan.threads, e))?;
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
