//! Tables and plots.

use super::cells::Phases;
use super::cleaning::{CLASS, CLASSES, Cleaned, POLICIES};
use super::runs::{BASES, Compared, DEVICES, Runs, WAYS, rate_of};
use super::tree::DEPTHS;
use super::work::{BENCHMARKS, PHONE};
use super::{PhoneCell, STATES, phone, states};
use crate::runs::Variant;
use crate::{BarExhibit, Drawn, Exhibit, Figure, Quantity, line};
use nandlab_lab::result::Point;
use nandlab_lab::run::{FilesOutcome, PhaseOutcome};

/// Everything, in the publication's order.
pub fn all(runs: &Runs) -> Vec<Exhibit> {
    let mut shown = Vec::new();
    for base in 0..BASES.len() {
        shown.extend([compared_bars(runs, base), phases(runs, base)]);
        shown.extend(states(base).map(|(state, _)| phone_table(runs, base, state)));
        shown.push(phone_bars(runs, base));
    }
    shown.extend([distribution(runs), cleaning(runs), over_time(runs)]);
    shown.extend((0..BASES.len()).map(|base| sustained(runs, base)));
    shown.extend([
        device_bars(runs),
        devices(runs),
        tree_bars(runs),
        trees(runs),
    ]);
    shown
}

/// Two bars for a work: time relative to ext4's.
fn pair(compared: &Compared, name: &str) -> [(String, f64, String); 2] {
    let [ext4, f2fs] = [compared.ext4.measured(), compared.f2fs.measured()];
    [
        (format!("{name}, ext4"), 1.0, format!("{ext4:.2} s")),
        (format!("{name}, F2FS"), f2fs / ext4, format!("{f2fs:.2} s")),
    ]
}

fn compared_bars(runs: &Runs, base: usize) -> Exhibit {
    Exhibit::Bars(BarExhibit {
        title: format!("fs_mark, IOzone, bonnie++: {}", BASES[base].name),
        about: "Time on the device, ext4's as the unit; what is behind a bar is the time.",
        key: "time",
        bars: BENCHMARKS
            .iter()
            .flat_map(|work| pair(runs.of(base, work.key), work.key))
            .collect(),
    })
}

fn phone_bars(runs: &Runs, base: usize) -> Exhibit {
    let bars = states(base).flat_map(|(state, _)| {
        PHONE
            .iter()
            .flat_map(move |row| pair(runs.of(base, row[state].key), row[state].key))
    });
    Exhibit::Bars(BarExhibit {
        title: format!("Galaxy Nexus, time on the device: {}", BASES[base].name),
        about: "ext4's as the unit; what is behind a bar is the time.",
        key: "time",
        bars: bars.collect(),
    })
}

/// Every phase of every benchmark.
fn phases(runs: &Runs, base: usize) -> Exhibit {
    let mut rows = Vec::new();
    for work in BENCHMARKS {
        let compared = runs.of(base, work.key);
        let mut names: Vec<&str> = Vec::new();
        for phase in compared.f2fs.told() {
            if !names.contains(&phase.name) {
                names.push(phase.name);
            }
        }
        for name in names {
            let rate = |run: &Phases| {
                let bytes: u64 = run.named(name).map(|phase| phase.bytes).sum();
                let calls: u64 = run.named(name).map(|phase| phase.calls).sum();
                match bytes {
                    _ if run.seconds(name) == 0.0 => "-".into(),
                    0 => format!("{:.0} calls/s", calls as f64 / run.seconds(name)),
                    _ => format!("{:.2} MB/s", run.rate(name) / 1e6),
                }
            };
            let seconds = [&compared.ext4, &compared.f2fs].map(|run| run.seconds(name));
            rows.push(vec![
                format!("{}: {name}", work.name),
                format!("{:.3}", seconds[0]),
                format!("{:.3}", seconds[1]),
                rate(&compared.ext4),
                rate(&compared.f2fs),
            ]);
        }
    }
    Exhibit::table(
        format!("Benchmarks by phase: {}", BASES[base].name),
        "Reading of files begins with cold caches on ext4, and F2FS has a cache of 4 MiB; names stay in memory on both.",
        ["", "ext4, s", "F2FS, s", "ext4", "F2FS"],
        rows,
    )
}

fn phone_table(runs: &Runs, base: usize, state: usize) -> Exhibit {
    let row = |cell: &PhoneCell| {
        let percent = |pair| format!("{:+.0} %", PhoneCell::improvement(pair, cell.rate) * 100.0);
        let [published, here] =
            [cell.published, cell.here].map(|[ext4, f2fs]| format!("{ext4:.2} / {f2fs:.2}"));
        vec![
            cell.what.into(),
            published,
            percent(cell.published),
            here,
            percent(cell.here),
        ]
    };
    Exhibit::table(
        format!("Galaxy Nexus, {}: {}", STATES[state], BASES[base].name),
        "ext4 / F2FS: seconds, for IOzone MB/s. The publication's seconds are those of a whole phone; here is the device's part of the part that the row names.",
        ["", "published", "improvement", "here", "improvement"],
        phone(runs, base, state).iter().map(row),
    )
}

fn distribution(runs: &Runs) -> Exhibit {
    let plot = |threaded: bool, title: &str| Figure {
        title: title.into(),
        about: format!(
            "Segments by valid blocks of 512, in classes of {CLASS}, when all has been written."
        ),
        x: "valid blocks".into(),
        y: "segments".into(),
        drawn: Drawn::Lines,
        of: (Quantity::Count, Quantity::Count),
        series: POLICIES
            .iter()
            .map(|(policy, _)| {
                let run = runs.cleaning(policy, threaded);
                let points = (0..CLASSES)
                    .map(|class| (class as f64 * f64::from(CLASS), run.segments[class] as f64));
                (policy.to_string(), points.collect())
            })
            .collect(),
    };
    Exhibit::Figures(
        "Cleaning: what segments hold at the end".into(),
        vec![
            plot(false, "Cleaning only"),
            plot(true, "With threaded logging"),
        ],
    )
}

fn cleaning(runs: &Runs) -> Exhibit {
    let row = |run: &Cleaned| {
        let logging = if run.threaded {
            ", threaded logging"
        } else {
            ""
        };
        vec![
            format!("{}{logging}", run.policy),
            run.counts.cleaned.to_string(),
            run.counts.moved.to_string(),
            format!("{:.3}", run.moved()),
            run.counts.threaded.to_string(),
            format!("{:.1} %", run.at_ends() * 100.0),
        ]
    };
    Exhibit::table(
        "Cleaning: blocks moved",
        "Three files of 1 GB on 3.7 GB, scaled: 256 MB at random to all, then thirty times 256 MB to the first.",
        [
            "",
            "sections cleaned",
            "blocks moved",
            "for each written",
            "blocks put into holes",
            "segments nearly empty or full",
        ],
        runs.cleaned.iter().map(row),
    )
}

fn over_time(runs: &Runs) -> Exhibit {
    let plot = |base: usize| {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = WAYS
            .iter()
            .zip(&runs.sustained[base])
            .map(|(way, run)| (way.name.to_string(), points(run)))
            .collect();
        let ext4 = runs.of(base, "sustained").ext4.rate("rounds");
        let end = series
            .iter()
            .flat_map(|(_, points)| points.last())
            .map(|point| point.0)
            .fold(0.0, f64::max);
        series.push(("ext4, mean".into(), vec![(0.0, ext4), (end, ext4)]));
        Figure {
            title: BASES[base].name.into(),
            about: "4 KiB at random places of files that fill nine tenths of the volume, an fsync of each file every 16 MiB.".into(),
            x: "written at random".into(),
            y: "written".into(),
            drawn: Drawn::Lines,
            of: (Quantity::Bytes, Quantity::Rate),
            series,
        }
    };
    Exhibit::Figures(
        "Sustained random write on a nearly full volume".into(),
        (0..BASES.len()).map(plot).collect(),
    )
}

/// Bytes written at random so far, and the rate; forty points, the last of them at the end of the
/// run. None if the series cannot hold these bytes: a figure without points is an error.
fn points(run: &FilesOutcome) -> Vec<(f64, f64)> {
    let series = &run.outcome.result.series;
    let (Some(rounds), Some(first)) = (run.named("rounds").next(), run.phases.first()) else {
        return Vec::new();
    };
    // The series counts from the first call.
    let begin = rounds.first - first.first;
    // A point tells of the time since the one before it.
    let part = |pair: &[Point]| {
        let seconds = (pair[1].at_ns - pair[0].at_ns.max(begin)) as f64 / 1e9;
        let whole = (pair[1].at_ns - pair[0].at_ns) as f64 / 1e9;
        (seconds, pair[1].written_per_s * whole)
    };
    let late = series.windows(2).filter(|pair| pair[1].at_ns > begin);
    let mut parts: Vec<(f64, f64)> = late.map(part).collect();
    let in_rounds = run.named("rounds").map(|phase| phase.bytes_written);
    let excess = parts.iter().map(|part| part.1).sum::<f64>() - in_rounds.sum::<u64>() as f64;
    // In the first part other writes come before the rounds.
    match parts.first_mut() {
        Some(first) if excess > -1.0 && excess <= first.1 => first.1 -= excess,
        _ => return Vec::new(),
    }
    let mut written = 0.0;
    let step = parts.len().div_ceil(40).max(1);
    let points = parts.chunks(step).map(|chunk| {
        let seconds: f64 = chunk.iter().map(|part| part.0).sum();
        let bytes: f64 = chunk.iter().map(|part| part.1).sum();
        written += bytes;
        (written, bytes / seconds)
    });
    points.collect()
}

fn sustained(runs: &Runs, base: usize) -> Exhibit {
    let row = |(way, run): (&Variant, &FilesOutcome)| {
        let flash = &run.outcome.result.flash;
        let m = &flash.merges;
        vec![
            way.name.into(),
            format!("{:.2}", rate_of(run) / 1e6),
            format!("{:.2}", flash.write_amplification.unwrap_or(0.0)),
            format!("{} / {} / {}", m.switch, m.partial, m.full),
        ]
    };
    let mut rows: Vec<Vec<String>> = WAYS.iter().zip(&runs.sustained[base]).map(row).collect();
    let ext4 = format!(
        "{:.2}",
        runs.of(base, "sustained").ext4.rate("rounds") / 1e6
    );
    rows.push(vec![
        "ext4 (published: about 4)".into(),
        ext4,
        "-".into(),
        "-".into(),
    ]);
    Exhibit::table(
        format!("Sustained random write: {}", BASES[base].name),
        "MB/s over all rounds; amplification and merges of the whole run, filling included.",
        [
            "",
            "MB/s",
            "bytes programmed a byte",
            "merges: switch / partial / full",
        ],
        rows,
    )
}

fn rounds(run: &FilesOutcome) -> f64 {
    run.named("rounds").map(PhaseOutcome::seconds).sum()
}

fn device_bars(runs: &Runs) -> Exhibit {
    Exhibit::Bars(BarExhibit {
        title: "Hybrid and page-mapped devices".into(),
        about: "Time of four rounds in which a fifth of the files go and come.",
        key: "time",
        bars: DEVICES
            .iter()
            .zip(&runs.devices)
            .map(|(way, run)| {
                let seconds = rounds(run);
                (way.key.into(), seconds, format!("{seconds:.1} s"))
            })
            .collect(),
    })
}

fn devices(runs: &Runs) -> Exhibit {
    let row = |(way, run): (&Variant, &FilesOutcome)| {
        let flash = &run.outcome.result.flash;
        let m = &flash.merges;
        let erases = flash.total(|row| row.erases);
        vec![
            way.name.into(),
            format!("{:.1}", rounds(run)),
            format!("{:.3}", flash.write_amplification.unwrap_or(0.0)),
            format!("{} / {} / {}", m.switch, m.partial, m.full),
            erases.to_string(),
        ]
    };
    Exhibit::table(
        "Devices, logs and streams",
        "Files of 64 KiB to 32 MiB, 288 MiB of them; a stream of the device takes what F2FS says lives equally long. Page maps with 15 % spare.",
        [
            "",
            "rounds, s",
            "bytes programmed a byte",
            "merges: switch / partial / full",
            "superblocks erased",
        ],
        DEVICES.iter().zip(&runs.devices).map(row),
    )
}

fn tree_bars(runs: &Runs) -> Exhibit {
    let bars = DEPTHS.iter().zip(&runs.trees).flat_map(|(depth, taken)| {
        [("F2FS", taken.nodes), ("conventional", taken.conventional)].map(|(name, blocks)| {
            (
                format!("{} pointer blocks: {name}", depth.levels),
                blocks,
                format!("{blocks:.2}"),
            )
        })
    });
    Exhibit::Bars(BarExhibit {
        title: "The wandering tree".into(),
        about: "Blocks besides data for each update of 4 KiB that is made durable.",
        key: "blocks",
        bars: bars.collect(),
    })
}

fn trees(runs: &Runs) -> Exhibit {
    let rows = DEPTHS.iter().zip(&runs.trees).map(|(depth, taken)| {
        let numbers = [
            taken.nodes,
            taken.conventional,
            taken.nodes_together,
            taken.tables_together,
            taken.conventional_together,
        ];
        line(depth.name, numbers.map(|number| format!("{number:.2}")))
    });
    Exhibit::table(
        "Blocks besides data for each update",
        "Each of 256 updates made durable by itself; then all at once, in F2FS by a checkpoint.",
        [
            "",
            "F2FS, nodes",
            "conventional",
            "at once: nodes",
            "at once: tables, summaries, checkpoint",
            "at once: conventional",
        ],
        rows,
    )
}
