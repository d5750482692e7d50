//! Encoding and correcting beside Python's `bchlib` and the kernel's own code, in one run.
//!
//! All get the same steps of 512 (Hamming: 256) bytes and prove at the end that they corrected
//! them. Figures are nanoseconds of processor time a step, the best of some rounds of all sides in
//! turn. The kernel's code is `lib/bch.c` and the Hamming functions of `ecc-sw-hamming.c` out of
//! Debian's package linux-source-6.1, compiled by gcc -O2 into a program below the target
//! directory; `bchlib` is the same `lib/bch.c` as a module of Python, which it installs there.
//! Needs gcc, xz-utils, and python3 with venv and pip. A word chooses a code: hamming, bch-4,
//! bch-8.

mod ours;
mod peers;
mod steps;

use peers::Peers;
use steps::{Steps, Work};

/// Rounds of all sides in turn.
const ROUNDS: u32 = 5;

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let peers = Peers::ready();
    println!(
        "| code | work | ours ns | kernel ns | bchlib ns | kernel : ours | bchlib : ours |\n|---|---|---:|---:|---:|---:|---:|"
    );
    for name in ["hamming", "bch-4", "bch-8"] {
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            for steps in Steps::all(name) {
                row(name, &steps, &peers);
            }
        }
    }
}

/// Measures one kind of work.
fn row(name: &str, steps: &Steps, peers: &Peers) {
    let file = steps.file();
    let mut best = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        let times = [
            Some(ours::nanoseconds(steps)),
            Some(peers.kernel(steps, file.path())),
            peers.bchlib(steps, file.path()),
        ];
        for (best, time) in best.iter_mut().zip(times) {
            *best = best.min(time.unwrap_or(f64::INFINITY));
        }
    }
    let [ours, kernel, bchlib] = best;
    let shown = |value: f64, digits: usize| {
        if value.is_finite() {
            format!("{value:.digits$}")
        } else {
            "-".into()
        }
    };
    let work = match steps.work {
        Work::Encode => "encode".into(),
        Work::Correct => format!("correct, {}", steps.what),
    };
    println!(
        "| {name} | {work} | {ours:.0} | {kernel:.0} | {} | {:.1} | {} |",
        shown(bchlib, 0),
        kernel / ours,
        shown(bchlib / ours, 1)
    );
}
