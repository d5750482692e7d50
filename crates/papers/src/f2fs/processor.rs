//! The processor's share: instructions of Linux's ext4 and F2FS for each phase of a work, counted
//! in a guest on a RAM disk (`traces/f2fs-paper/processor.txt`; a test counts them again).

use super::work::Work;
use nandlab_lab::verdict::Verdict;

/// `WORK EXT4 F2FS PHASE`, a line for each phase.
const COUNTED: &str = include_str!("../../../../traces/f2fs-paper/processor.txt");
/// Both boards of the paper: Cortex-A9.
const HERTZ: f64 = 1.2e9;
/// Assumed cycles of an instruction, as on the other ARM platforms.
pub const USUAL: f64 = 2.0;
/// A claim has a verdict with each of these.
pub const CYCLES: [f64; 3] = [1.0, USUAL, 4.0];

/// Places in what [`counted`] gives.
pub const EXT4: usize = 0;
pub const F2FS: usize = 1;

/// Instructions of ext4 and of F2FS for a phase. An old volume counts as a new one.
pub fn counted(work: &Work, phase: &str) -> Option<[f64; 2]> {
    let key = work.key.trim_end_matches("-aged");
    COUNTED.lines().find_map(|line| {
        let mut words = line.splitn(4, ' ');
        let is_it = words.next() == Some(key);
        let numbers = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        (is_it && words.next() == Some(phase)).then_some(numbers)
    })
}

/// Seconds of so many instructions.
pub fn seconds(instructions: f64, cycles: f64) -> f64 {
    instructions * cycles / HERTZ
}

/// The verdict with each of [`CYCLES`]; undecided if they differ.
pub fn judged(judge: impl Fn(f64) -> Verdict) -> Verdict {
    let verdict = judge(USUAL);
    let is_it = |cycles: &f64| judge(*cycles) == verdict;
    if CYCLES.iter().all(is_it) {
        verdict
    } else {
        Verdict::Undecided
    }
}
