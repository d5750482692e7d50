//! Shrinks a failing case to the fewest host operations that still fail in the same way.
//!
//! Calls after the cut go first, then ever smaller runs of operations (delta debugging). It ends
//! when none can be left out or the states allowed for it are spent. The cut may move, but only
//! within what follows the last call: elsewhere fewer operations would have done.

use crate::bench::Bench;
use crate::cut::{self, Which};
use crate::id::Id;
use crate::life::Life;
use crate::outcome::{Smallest, Tally, Violation};
use crate::plan::CrashError;
use crate::subject::{Kind, Subject};
use crate::walk::Place;

/// The most chip operations listed before the cut.
const SHOWN: usize = 12;

/// Shrinks the case of one violation of the whole run.
pub(crate) fn smallest<S: Subject>(
    bench: &Bench<'_, S>,
    ops: &[S::Op],
    first: &Violation,
) -> Result<Option<Smallest>, CrashError> {
    let Ok(id) = first.id.parse::<Id>() else {
        return Ok(None);
    };
    let mut shrinker = Shrinker {
        bench,
        ops,
        kind: first.kind,
        depth: id.cuts.len(),
        spent: 0,
    };
    let all = || (0..ops.len()).collect();
    let mut kept: Vec<usize> = id.kept.clone().unwrap_or_else(all);
    let called = match (bench.run(&shrinker.select(&kept))?, id.cuts.first()) {
        (Ok(life), Some(cut)) => cut
            .moment(&life.log, id.seed)
            .map_or(kept.len(), |at| life.called_by(at)),
        (Ok(life), None) => life.ops.len(),
        (Err(_), _) => 0,
    };
    kept.truncate(called);
    let Some(mut best) = shrinker.attempt(&kept)? else {
        return Ok(None);
    };
    let mut size = kept.len().div_ceil(2);
    let mut minimal = kept.is_empty();
    while !minimal && shrinker.has_budget() {
        let before = kept.len();
        let mut at = 0;
        while at < kept.len() && shrinker.has_budget() {
            let without: Vec<usize> = kept[..at]
                .iter()
                .chain(&kept[(at + size).min(kept.len())..])
                .copied()
                .collect();
            match shrinker.attempt(&without)? {
                Some(found) => (kept, best) = (without, found),
                None => at += size,
            }
        }
        minimal = size == 1 && kept.len() == before && shrinker.has_budget() || kept.is_empty();
        size = (size / 2).max(1);
    }
    shrinker.tell(&kept, best, minimal).map(Some)
}

struct Shrinker<'a, S: Subject> {
    bench: &'a Bench<'a, S>,
    ops: &'a [S::Op],
    /// The failure hunted, and how many cuts it takes.
    kind: Kind,
    depth: usize,
    /// Runs and states so far.
    spent: u64,
}

impl<S: Subject> Shrinker<'_, S> {
    fn has_budget(&self) -> bool {
        self.spent < self.bench.walker.plan.shrink_states
    }

    fn select(&self, kept: &[usize]) -> Vec<S::Op> {
        kept.iter().map(|&i| self.ops[i].clone()).collect()
    }

    /// The violation that the kept operations still lead to.
    fn attempt(&mut self, kept: &[usize]) -> Result<Option<Violation>, CrashError> {
        self.spent += 1;
        let walker = &self.bench.walker;
        let place = Place::run(walker.plan.seed, 0, Some(kept.to_vec()));
        let life = match (self.bench.run(&self.select(kept))?, self.depth) {
            (Ok(life), 1..) => life,
            (Ok(life), 0) => return Ok(self.uncut(&place.id, &life)),
            (Err(failure), 0) if failure.kind == self.kind => {
                return Ok(Some(Violation::uncut(
                    &place.id,
                    &failure,
                    "attaching".into(),
                )));
            }
            (Err(_), _) => return Ok(None),
        };
        let cuts = walker.cuts(&life, &self.bench.origin()?, Which::all(), &place.id)?;
        let mut cuts = cuts.distinct;
        cuts.retain(|&(at, _)| at >= life.last_call());
        let mut tally = Tally::hunting(self.kind);
        walker.walk(
            self.bench.origin()?,
            &life,
            &cuts,
            &place,
            &|_| self.depth > 1,
            &mut tally,
        )?;
        self.spent += tally.distinct;
        Ok(tally.listed.pop())
    }

    fn uncut(&self, id: &Id, life: &Life<S>) -> Option<Violation> {
        let failure = life
            .failure
            .as_ref()
            .filter(|failure| failure.kind == self.kind)?;
        Some(Violation::uncut(id, failure, life.doing(u64::MAX - 1)))
    }

    fn tell(
        &self,
        kept: &[usize],
        violation: Violation,
        minimal: bool,
    ) -> Result<Smallest, CrashError> {
        let ops = self.select(kept);
        let number = |(i, op): (&usize, &S::Op)| format!("{i}: {op}");
        let host_ops = kept.iter().zip(&ops).map(number).collect();
        let mut chip_ops = Vec::new();
        if let (Ok(life), Ok(id)) = (self.bench.run(&ops)?, violation.id.parse::<Id>()) {
            let at = id
                .cuts
                .first()
                .and_then(|cut| cut.moment(&life.log, id.seed))
                .unwrap_or(u64::MAX);
            let begun: Vec<_> = life
                .log
                .iter()
                .enumerate()
                .filter(|(_, op)| op.start <= at)
                .collect();
            let word = |&(i, op): &(usize, _)| {
                format!("{i}: {}", cut::timed(op, &self.bench.walker.geometry))
            };
            chip_ops = begun[begun.len().saturating_sub(SHOWN)..]
                .iter()
                .map(word)
                .collect();
        }
        Ok(Smallest {
            host_ops,
            chip_ops,
            violation,
            minimal,
            states: self.spent,
        })
    }
}
