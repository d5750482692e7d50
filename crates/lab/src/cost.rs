//! What a simulation cost: the one place that looks at the wall clock.

use crate::result::Cost;
use std::time::Instant;

/// The cost of what began at `began` and has just ended.
pub fn since(began: Instant) -> Cost {
    Cost {
        wall_s: began.elapsed().as_secs_f64(),
        peak_bytes: peak_bytes().unwrap_or(0),
    }
}

/// The largest resident set of the process so far; none where the system does not say.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}
