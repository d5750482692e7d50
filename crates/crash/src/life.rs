//! One life of a stack: from power-up to the last operation, with the time of everything that the
//! host knows.
//!
//! The workload's run is a life, and so is each recovery with the few operations after it; a cut
//! can fall into either.

use crate::subject::{Failure, Kind, Oracle, Subject};
use nandlab_nand::{Chip, LoggedOp};
use nandlab_sim::{Nanos, Rail};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Chip operations that a life may take, in passes over the whole chip; one for each host operation
/// comes on top.
const PASSES: u64 = 64;

/// What happened, and when.
pub(crate) struct Life<S: Subject> {
    /// The host's operations, as far as they were called.
    pub ops: Vec<S::Op>,
    /// The chip's operations, if its log was on.
    pub log: Vec<LoggedOp>,
    /// Why it ended early.
    pub failure: Option<Failure>,
    times: Vec<(Nanos, Nanos)>,
    powered_at: Nanos,
    attached_at: Nanos,
    before: S::Oracle,
    attached: S::Oracle,
}

/// Attaches, checks, serves the operations that `script` gives, and checks again. Fails if it does
/// not even attach.
pub(crate) fn live<S: Subject>(
    subject: &S,
    chip: Chip,
    before: S::Oracle,
    script: impl FnOnce(&S::Device) -> Vec<S::Op>,
) -> Result<Life<S>, Failure> {
    let clock = chip.clock().clone();
    let rail = chip.rail().clone();
    let powered_at = clock.now();
    let pages = u64::from(chip.spec().geometry.pages());
    rail.cut_at(rail.steps() + pages * PASSES);
    let attached = guarded(|| {
        subject
            .attach(chip)
            .map_err(|error| Failure::from_error(Kind::Attach, &*error))
    });
    let mut device = attached.map_err(|failure| endless(&rail, failure))?;
    let mut oracle = before.clone();
    let mut life = Life {
        ops: Vec::new(),
        log: Vec::new(),
        failure: None,
        times: Vec::new(),
        powered_at,
        attached_at: clock.now(),
        attached: before.clone(),
        before,
    };
    let result = guarded(|| oracle.check(&mut device)).and_then(|()| {
        life.attached = oracle.clone();
        let ops = guarded(|| Ok(script(&device)))?;
        rail.cut_at(rail.steps() + pages * (PASSES + ops.len() as u64));
        for op in ops {
            let called = clock.now();
            oracle.began(&op);
            let served = guarded(|| subject.apply(&mut device, &op, &oracle));
            life.times.push((
                called,
                if served.is_ok() {
                    clock.now()
                } else {
                    Nanos::MAX
                },
            ));
            life.ops.push(op.clone());
            served?;
            oracle.returned(&op);
        }
        guarded(|| oracle.check(&mut device))
    });
    life.failure = result.err().map(|failure| endless(&rail, failure));
    let chip = guarded(|| Ok(subject.power_off(device)))?;
    life.log = chip.map(|mut chip| chip.take_log()).unwrap_or_default();
    Ok(life)
}

/// A panic is a failure like any other.
fn guarded<T>(step: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(Failure::new(
            Kind::Panic,
            text.unwrap_or("panicked without a message"),
        ))
    })
}

/// Whatever failed after the supply was taken away failed because it took too long.
fn endless(rail: &Rail, failure: Failure) -> Failure {
    match rail.powered() {
        Ok(()) => failure,
        Err(_) => Failure::new(
            Kind::Endless,
            format_args!("not done after {} chip operations", rail.steps()),
        ),
    }
}

impl<S: Subject> Life<S> {
    /// How many operations had been called by `t`.
    pub fn called_by(&self, t: Nanos) -> usize {
        self.times.partition_point(|&(called, _)| called <= t)
    }

    /// The time from power-up until the attach returned.
    pub fn recovery(&self) -> Nanos {
        self.attached_at - self.powered_at
    }

    /// The number of calls and returns that the host saw by each of `times`, which ascend.
    pub fn events_by(&self, times: impl IntoIterator<Item = Nanos>) -> impl Iterator<Item = usize> {
        let mut seen = 0;
        times.into_iter().map(move |t| {
            while self.event(seen).is_some_and(|at| at <= t) {
                seen += 1;
            }
            seen
        })
    }

    /// When the last operation was called.
    pub fn last_call(&self) -> Nanos {
        self.times.last().map_or(0, |&(called, _)| called)
    }

    /// The moment at which the first `count` operations had returned; the end of time if one of
    /// them did not.
    pub fn returned_at(&self, count: usize) -> Nanos {
        match count.checked_sub(1) {
            None => 0,
            Some(last) => self.times.get(last).map_or(Nanos::MAX, |&(_, end)| end),
        }
    }

    /// What the host was doing at `t`, in words.
    pub fn doing(&self, t: Nanos) -> String {
        let Some(last) = self.called_by(t).checked_sub(1) else {
            return if t < self.attached_at {
                "attaching".into()
            } else {
                "nothing yet".into()
            };
        };
        let state = if self.times[last].1 <= t {
            "returned from"
        } else {
            "in"
        };
        format!("{state} operation {last}: {}", self.ops[last])
    }

    /// The oracle as time goes by.
    pub fn witness(&self) -> Witness<'_, S> {
        Witness {
            life: self,
            oracle: self.before.clone(),
            seen: 0,
        }
    }

    /// When event `n` happened: the attach, then a call and a return for each operation.
    fn event(&self, n: usize) -> Option<Nanos> {
        match n.checked_sub(1) {
            None => Some(self.attached_at),
            Some(n) => self
                .times
                .get(n / 2)
                .map(|&(called, returned)| if n % 2 == 0 { called } else { returned }),
        }
    }
}

/// Tells an oracle what the host knew, moment by moment.
pub(crate) struct Witness<'a, S: Subject> {
    life: &'a Life<S>,
    oracle: S::Oracle,
    seen: usize,
}

impl<S: Subject> Witness<'_, S> {
    /// The chip operations of the life witnessed.
    pub fn log(&self) -> &[LoggedOp] {
        &self.life.log
    }

    /// The oracle at `t`, calls and returns at that moment included. Times must not run backwards
    /// from one call to the next.
    pub fn at(&mut self, t: Nanos) -> &S::Oracle {
        while self.life.event(self.seen).is_some_and(|at| at <= t) {
            match self.seen.checked_sub(1) {
                None => self.oracle = self.life.attached.clone(),
                Some(n) if n % 2 == 0 => self.oracle.began(&self.life.ops[n / 2]),
                Some(n) => self.oracle.returned(&self.life.ops[n / 2]),
            }
            self.seen += 1;
        }
        &self.oracle
    }
}
