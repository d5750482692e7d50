//! The power rail: counts steps, and goes off at one of them.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use portable_atomic::AtomicU64;

/// The power is off; nothing further happens on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut;

#[derive(Debug)]
struct State {
    steps: AtomicU64,
    cut_at: AtomicU64,
}

/// The supply that every device of a stack hangs on. Each media operation takes one step before it
/// touches anything; from the step at which the rail is cut every operation fails with
/// [`PowerCut`].
#[derive(Clone, Debug)]
pub struct Rail(Arc<State>);

impl Default for Rail {
    fn default() -> Self {
        Self(Arc::new(State {
            steps: AtomicU64::new(0),
            cut_at: AtomicU64::new(u64::MAX),
        }))
    }
}

impl Rail {
    /// A rail that stays on.
    pub fn new() -> Self {
        Self::default()
    }

    /// One media operation is about to begin.
    #[inline]
    pub fn step(&self) -> Result<(), PowerCut> {
        // One writer at a time, so a plain load and store will do; a locked add would cost more
        // than the operation.
        let step = self.0.steps.load(Relaxed);
        if step >= self.0.cut_at.load(Relaxed) {
            return Err(PowerCut);
        }
        self.0.steps.store(step + 1, Relaxed);
        Ok(())
    }

    /// Fails while the power is off, and takes no step: for what leaves the medium as it is, such
    /// as a read.
    #[inline]
    pub fn powered(&self) -> Result<(), PowerCut> {
        if self.steps() < self.0.cut_at.load(Relaxed) {
            Ok(())
        } else {
            Err(PowerCut)
        }
    }

    /// Steps until the rail goes off.
    #[inline]
    pub fn steps_left(&self) -> u64 {
        self.0
            .cut_at
            .load(Relaxed)
            .saturating_sub(self.0.steps.load(Relaxed))
    }

    /// Takes `steps` steps at once; no more than are [left](Self::steps_left).
    #[inline]
    pub fn take(&self, steps: u64) {
        self.0
            .steps
            .store(self.0.steps.load(Relaxed) + steps, Relaxed);
    }

    /// How many operations have begun.
    pub fn steps(&self) -> u64 {
        self.0.steps.load(Relaxed)
    }

    /// Goes off when `step` operations have begun.
    pub fn cut_at(&self, step: u64) {
        self.0.cut_at.store(step, Relaxed);
    }

    /// Turns the power off at once.
    pub fn cut(&self) {
        self.cut_at(0);
    }

    /// Turns the power on again.
    pub fn restore(&self) {
        self.cut_at(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_rail_stays_off_until_restored() {
        let rail = Rail::new();
        rail.cut_at(2);
        assert_eq!(
            [rail.step(), rail.step(), rail.step()],
            [Ok(()), Ok(()), Err(PowerCut)]
        );
        assert_eq!((rail.steps(), rail.clone().step()), (2, Err(PowerCut)));
        rail.restore();
        assert_eq!(rail.step(), Ok(()));
    }

    #[test]
    fn asking_for_power_takes_no_step() {
        let rail = Rail::new();
        rail.cut_at(1);
        assert_eq!(
            [rail.powered(), rail.powered(), rail.step(), rail.powered()],
            [Ok(()), Ok(()), Ok(()), Err(PowerCut)]
        );
    }
}
