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
use std::sync::{Mutex, PoisonError};

/// Pieces of work a thread: enough that none waits long for the last, few enough that replaying
/// their prefixes costs little.
const PIECES: usize = 8;
/// Cuts of a piece at least.
const PIECE_MIN: usize = 32;

/// The walker that says where runs begin.
pub(crate) struct Bench<'a, S: Subject> {
    pub walker: Walker<'a, S>,
    /// The formatted chip, and the oracle for it. Threads may not share a chip.
    origin: Mutex<Chip>,
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
            origin: Mutex::new(origin),
            oracle,
        })
    }

    /// The chip that runs begin with.
    pub fn origin(&self) -> Result<Chip, CrashError> {
        let origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(origin.fork()?)
    }

    /// The life that is cut.
    pub fn run(&self, ops: &[S::Op]) -> Result<Result<Life<S>, Failure>, CrashError> {
        let mut chip = self.origin()?;
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
        let listed = walker.plan.listed;
        let pieces = rayon::current_num_threads() * PIECES;
        let piece = cuts.len().div_ceil(pieces).max(PIECE_MIN);
        let done = AtomicU64::new(0);
        let work = |(number, part): (usize, &[(Nanos, Cut)])| {
            let mut tally = Tally::new(listed);
            let first = (number * piece) as u64;
            let deeper = |i| walker.goes_deeper(place.run, first + i as u64);
            walker.walk(self.origin()?, life, part, place, &deeper, &mut tally)?;
            let part = part.len() as u64;
            progress(done.fetch_add(part, Relaxed) + part, cuts.len() as u64);
            Ok(tally)
        };
        let tallies: Vec<_> = cuts.par_chunks(piece).enumerate().map(work).collect();
        Tally::sum(listed, tallies)
    }
}
