//! The heap that a run takes: counted, bounded, and reported when it grows.

use peak_alloc::PeakAlloc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The most that any run took so far.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Runs with at most `bytes` of heap more than there are now.
///
/// # Panics
/// If it took more.
pub fn bounded(bytes: usize, run: impl FnOnce()) {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    run();
    let taken = HEAP.peak_usage() - before;
    if MOST.fetch_max(taken, Ordering::Relaxed) < taken {
        eprintln!("heap of one run: {taken} bytes, of {bytes} at most");
    }
    assert!(
        taken <= bytes,
        "{taken} bytes of heap, at most {bytes} promised"
    );
}
