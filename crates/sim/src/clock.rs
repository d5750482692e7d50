//! Virtual time in nanoseconds.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use portable_atomic::AtomicU64;

/// A point or a span of virtual time, in nanoseconds. 2^64 ns are 584 years.
pub type Nanos = u64;

/// The one clock of a run. A synchronous call simply leaves it later than it found it; the run loop
/// alone sets it back, when it resumes an actor whose own time is earlier.
///
/// Shared by cloning. Relaxed atomics, because only one actor runs at a time; they compile to plain
/// moves where the target has 64-bit atomics, and to a sequence lock where it has none.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// A clock at time zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The running actor's time.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.0.load(Relaxed)
    }

    /// Resumes an actor at its own time (run loop only).
    #[inline]
    pub fn set(&self, at: Nanos) {
        self.0.store(at, Relaxed);
    }

    /// Waits until `at`; no effect if that is past.
    #[inline]
    pub fn wait_until(&self, at: Nanos) {
        if at > self.now() {
            self.set(at);
        }
    }

    /// Spends `span` of the running actor's time.
    #[inline]
    pub fn spend(&self, span: Nanos) {
        self.set(self.now() + span);
    }
}
