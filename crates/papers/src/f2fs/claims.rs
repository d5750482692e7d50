//! What the publication claims, judged by the runs.

use super::runs::{BASES, DEVICES, Runs, WAYS, rate_of};
use super::tree::DEPTHS;
use super::work::BENCHMARKS;
use super::{PhoneCell, STATES, phone, states};
use crate::{Claim, listed, once};
use nandlab_lab::run::FilesOutcome;
use nandlab_lab::verdict::Verdict;

/// All of them.
pub fn all(runs: &Runs) -> Vec<Claim> {
    let mut claims = Vec::new();
    for base in 0..BASES.len() {
        claims.push(benchmarks(runs, base));
        claims.extend(states(base).map(|(state, _)| on_phone(runs, base, state)));
        claims.extend([adaptive(runs, base), against_ext4(runs, base)]);
    }
    claims.extend([false, true].map(|threaded| bimodal(runs, threaded)));
    claims.extend([fewer_moved(runs), streams(runs), aligned(runs), tree(runs)]);
    claims
}

fn benchmarks(runs: &Runs, base: usize) -> Claim {
    let each = BENCHMARKS.map(|work| (work.name, runs.of(base, work.key).improvement()));
    Claim::new(
        ["benchmarks-hybrid", "benchmarks-page"][base],
        format!(
            "F2FS is faster than ext4 in fs_mark, IOzone and bonnie++ on the eMMC ({})",
            BASES[base].name
        ),
        Verdict::all(each.map(|(_, better)| once(1.0 + better).above(1.0))),
        listed(each.map(|(name, better)| format!("{name} {:+.0} %", better * 100.0))),
    )
}

/// Rows in which the publication sees F2FS 5 % or more ahead must be ahead here; in the others
/// neither is far ahead.
fn on_phone(runs: &Runs, base: usize, state: usize) -> Claim {
    let cells = phone(runs, base, state);
    let both = |cell: &PhoneCell| {
        [cell.published, cell.here].map(|pair| PhoneCell::improvement(pair, cell.rate))
    };
    let agrees = |cell: &PhoneCell| {
        let [published, here] = both(cell);
        let ratio = once(1.0 + here);
        if published >= 0.05 {
            ratio.above(1.0)
        } else {
            ratio.within(0.85, 1.15)
        }
    };
    Claim::new(
        [
            ["phone-clean-hybrid", "phone-aged-hybrid"],
            ["phone-clean-page", "phone-aged-page"],
        ][base][state],
        format!(
            "On the {} phone ({}) F2FS is ahead where the publication has it 5 % or more ahead, and neither is by 15 % where not",
            STATES[state], BASES[base].name
        ),
        Verdict::all(cells.iter().map(agrees)),
        listed(cells.iter().map(|cell| {
            let [published, here] = both(cell).map(|better| better * 100.0);
            format!("{} {here:+.0} % (published {published:+.0} %)", cell.key)
        })),
    )
}

fn bimodal(runs: &Runs, threaded: bool) -> Claim {
    let [greedy, other] =
        ["greedy", "cost-benefit"].map(|policy| runs.cleaning(policy, threaded).at_ends());
    let how = if threaded {
        "with threaded logging"
    } else {
        "cleaning only"
    };
    Claim::new(
        if threaded {
            "bimodal-adaptive"
        } else {
            "bimodal-cleaning"
        },
        format!(
            "Cost-benefit leaves segments nearly empty or nearly full (a bimodal distribution) more than greedy does ({how})"
        ),
        once(other / greedy).above(1.0),
        format!(
            "at most an eighth or at least seven eighths valid: greedy {:.1} %, cost-benefit {:.1} % of the segments in use",
            greedy * 100.0,
            other * 100.0
        ),
    )
}

fn fewer_moved(runs: &Runs) -> Claim {
    let moved = ["greedy", "cost-benefit", "age-threshold"]
        .map(|policy| runs.cleaning(policy, false).moved());
    Claim::new(
        "fewer-moved",
        "Policies that look at age move fewer blocks than greedy",
        Verdict::all([1, 2].map(|at| once(moved[at] / moved[0]).below(1.0))),
        format!(
            "blocks moved for each written: greedy {:.3}, cost-benefit {:.3}, age-threshold {:.3}",
            moved[0], moved[1], moved[2]
        ),
    )
}

fn adaptive(runs: &Runs, base: usize) -> Claim {
    let rates: Vec<f64> = runs.sustained[base]
        .iter()
        .map(|run| rate_of(run) / 1e6)
        .collect();
    Claim::new(
        ["adaptive-hybrid", "adaptive-page"][base],
        format!(
            "Sustained random writes are faster with the adaptive write policy than with cleaning only ({})",
            BASES[base].name
        ),
        once(rates[0] / rates[1])
            .above(1.0)
            .if_happened(collected(&runs.sustained[base][0]))
            .if_happened(collected(&runs.sustained[base][1])),
        listed(
            WAYS.iter()
                .zip(&rates)
                .map(|(way, rate)| format!("{} {rate:.2} MB/s", way.name)),
        ),
    )
}

fn against_ext4(runs: &Runs, base: usize) -> Claim {
    let (ours, theirs) = (
        rate_of(&runs.sustained[base][0]) / 1e6,
        runs.of(base, "sustained").ext4.rate("rounds") / 1e6,
    );
    Claim::new(
        ["sustained-hybrid", "sustained-page"][base],
        format!(
            "With the adaptive write policy they are no slower than ext4's ({})",
            BASES[base].name
        ),
        once(ours / theirs)
            .above(1.0)
            .if_happened(collected(&runs.sustained[base][0])),
        format!("F2FS {ours:.2} MB/s, ext4 {theirs:.2} MB/s"),
    )
}

/// Pages that the translation layer moved: what its merges and its collection did.
fn collected(run: &FilesOutcome) -> u64 {
    let of_host = ["host data", "mapping"];
    let rows = run.outcome.result.flash.causes.iter();
    let moved = rows.filter(|row| !of_host.contains(&row.cause.as_str()));
    moved.map(|row| row.copies + row.programs).sum()
}

fn device<'a>(runs: &'a Runs, key: &str) -> &'a FilesOutcome {
    let at = DEVICES.iter().position(|device| device.key == key);
    &runs.devices[at.expect("a device of the list")]
}

fn amplification(runs: &Runs, key: &str) -> f64 {
    device(runs, key)
        .outcome
        .result
        .flash
        .write_amplification
        .unwrap_or(0.0)
}

fn streams(runs: &Runs) -> Claim {
    let keys = ["page-6", "page-6-2", "page-6-4", "page-6-7"];
    let found = keys.map(|key| amplification(runs, key));
    Claim::new(
        "streams",
        "A device may have several logging streams without loss: seven program no more than one",
        once(found[3] / found[0])
            .below(1.01)
            .if_happened(collected(device(runs, keys[0])))
            .if_happened(collected(device(runs, keys[3]))),
        format!(
            "bytes programmed for each written, 1, 2, 4, 7 streams: {}",
            listed(found.map(|factor| format!("{factor:.3}")))
        ),
    )
}

fn aligned(runs: &Runs) -> Claim {
    let keys = ["hybrid-6", "hybrid-unaligned"];
    let [with, without] = keys.map(|key| amplification(runs, key));
    Claim::new(
        "aligned",
        "On a hybrid mapping it pays to make a section the device's superblock and a zone its group",
        once(with / without)
            .below(1.0)
            .if_happened(collected(device(runs, keys[0])))
            .if_happened(collected(device(runs, keys[1]))),
        format!(
            "bytes programmed for each written: {with:.2} aligned, {without:.2} with sections of 2 MiB"
        ),
    )
}

fn tree(runs: &Runs) -> Claim {
    let each = DEPTHS.iter().zip(&runs.trees);
    Claim::new(
        "wandering-tree",
        "An update of a block changes one node, however deep it lies; in a conventional log it changes every block on the way",
        Verdict::of(
            runs.trees
                .iter()
                .all(|taken| taken.nodes <= 1.05 && taken.conventional >= 2.0),
        ),
        listed(each.map(|(depth, taken)| {
            format!(
                "{}: {:.2} against {:.0}",
                depth.name, taken.nodes, taken.conventional
            )
        })),
    )
}
