//! Our side.

use crate::steps::{Steps, Work};
use nandlab_ecc::Codec;
use rustix::time::{ClockId, clock_gettime};

/// Passes over the steps, of which the quickest counts.
const PASSES: u32 = 5;

/// Nanoseconds of processor time a step.
pub fn nanoseconds(steps: &Steps) -> f64 {
    let codec = Codec::new(steps.code).expect("a code");
    let mut best = f64::INFINITY;
    for _ in 0..PASSES {
        let mut work = steps.read.clone();
        let began = now();
        let count = pass(&codec, steps.work, &mut work);
        best = best.min((now() - began) / count as f64);
        assert!(work == steps.written, "a step is wrong");
    }
    best
}

fn pass(codec: &Codec, work: Work, steps: &mut [u8]) -> usize {
    let step = codec.code().step();
    let stride = step + codec.code().parity();
    let count = steps.len() / stride;
    for one in steps.chunks_exact_mut(stride) {
        let (data, parity) = one.split_at_mut(step);
        match work {
            Work::Encode => codec.encode(data, parity),
            Work::Correct => drop(codec.correct(data, parity)),
        }
    }
    count
}

fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
