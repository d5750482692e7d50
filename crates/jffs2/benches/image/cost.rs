//! What something costs: seconds on the wall, and of all processors.

use std::fs;
use std::time::Instant;

/// Of the round that was shortest on the wall.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub wall: f64,
    /// Of all threads, and of children that have ended.
    pub processor: f64,
}

/// The best of some rounds.
pub fn cost(rounds: u32, run: impl FnMut()) -> Cost {
    cost_after(rounds, || (), run)
}

/// The best of some rounds, before each of which something is made ready.
pub fn cost_after(rounds: u32, mut ready: impl FnMut(), mut run: impl FnMut()) -> Cost {
    let mut one = || {
        ready();
        let start = Instant::now();
        let before = processor();
        run();
        Cost {
            wall: start.elapsed().as_secs_f64(),
            processor: processor() - before,
        }
    };
    let first = one();
    (1..rounds).map(|_| one()).fold(
        first,
        |best, new| if new.wall < best.wall { new } else { best },
    )
}

/// Processor seconds of this process and of its children up to now: fields 14 to 17 of proc(5)'s
/// `stat`, in hundredths.
fn processor() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("proc is mounted");
    let fields = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(4);
    fields
        .map(|field| field.parse::<f64>().expect("a number"))
        .sum::<f64>()
        / 100.0
}
