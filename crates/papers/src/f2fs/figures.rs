//! Tables and plots.

use super::cells::Phases;
use super::cleaning::{CLASS, CLASSES, Cleaned, POLICIES};
use super::devices::{DEVICES, Laid, Served};
use super::idle::{PAUSES, Pauses, Waited};
use super::rivals::{self, RIVALS, TASKS};
use super::runs::{BASES, Compared, Runs, sample};
use super::sustained::Sustained;
use super::tree::DEPTHS;
use super::work::{BENCHMARKS, PHONE};
use super::{PhoneCell, STATES, phone, processor, states};
use crate::{BarExhibit, Drawn, Exhibit, Figure, Quantity, line};

/// Everything, in the paper's order.
pub fn all(runs: &Runs) -> Vec<Exhibit> {
    let mut shown = Vec::new();
    for base in 0..BASES.len() {
        shown.extend([compared_bars(runs, base), phases(runs, base)]);
        shown.extend(states(base).map(|(state, _)| phone_table(runs, base, state)));
        shown.extend([phone_bars(runs, base), lives(runs, base)]);
    }
    shown.extend([distribution(runs), cleaning(runs), over_time(runs)]);
    shown.extend((0..BASES.len()).map(|base| sustained(runs, base)));
    shown.extend([
        device_bars(runs),
        devices(runs),
        idle(runs),
        tree_bars(runs),
        trees(runs),
    ]);
    shown.extend(runs.rivals.chunks(RIVALS.len()).map(rivals));
    shown
}

/// Two bars for a work: time relative to ext4's.
fn pair(compared: &Compared, name: &str) -> [(String, f64, String); 2] {
    let [ext4, f2fs] = [&compared.ext4, &compared.f2fs].map(|run| run.measured(processor::USUAL));
    [
        (format!("{name}, ext4"), 1.0, format!("{ext4:.2} s")),
        (format!("{name}, F2FS"), f2fs / ext4, format!("{f2fs:.2} s")),
    ]
}

fn compared_bars(runs: &Runs, base: usize) -> Exhibit {
    Exhibit::Bars(BarExhibit {
        title: format!("fs_mark, IOzone, bonnie++: {}", BASES[base].name),
        about: "Time of the device and the kernel, ext4's as the unit; what is behind a bar is the time.",
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
        title: format!(
            "Galaxy Nexus, time of the device and the kernel: {}",
            BASES[base].name
        ),
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
        for name in names(&compared.f2fs) {
            let rate = |run: &Phases| {
                let bytes: u64 = run.named(name).map(|phase| phase.bytes).sum();
                let calls: u64 = run.named(name).map(|phase| phase.calls).sum();
                match bytes {
                    _ if run.seconds(name) == 0.0 => "-".into(),
                    0 => format!("{:.0} calls/s", calls as f64 / run.seconds(name)),
                    _ => format!("{:.2} MB/s", run.rate(name, processor::USUAL) / 1e6),
                }
            };
            let both = [&compared.ext4, &compared.f2fs];
            let seconds = both.map(|run| format!("{:.3}", run.seconds(name)));
            let device = both.map(|run| format!("{:.3}", run.device(name)));
            rows.push(vec![
                format!("{}: {name}", work.name),
                seconds.join(" / "),
                device.join(" / "),
                rate(&compared.ext4),
                rate(&compared.f2fs),
            ]);
        }
    }
    Exhibit::table(
        format!("Benchmarks by phase: {}", BASES[base].name),
        "Reading of files begins with cold caches on ext4, and F2FS has a cache of 4 MiB; names stay in memory on both.",
        [
            "",
            "seconds, ext4 / F2FS",
            "of which the device",
            "ext4",
            "F2FS",
        ],
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
        "ext4 / F2FS: seconds, for IOzone MB/s. The paper's seconds are those of a whole phone; \
         here are the device and the kernel in the part that the row names.",
        ["", "published", "improvement", "here", "improvement"],
        phone(runs, (base, state), processor::USUAL).iter().map(row),
    )
}

/// Our ext4 beside the recorded one, each phase of each work.
fn lives(runs: &Runs, base: usize) -> Exhibit {
    let compared = runs
        .compared
        .iter()
        .filter(|compared| compared.base == base);
    let rows = compared.flat_map(|compared| {
        let names = names(&compared.ext4);
        names.into_iter().map(|name| {
            let [theirs, ours] = [&compared.ext4, &compared.ext4_live].map(|run| run.device(name));
            vec![
                format!("{}: {name}", compared.work.key),
                format!("{theirs:.3}"),
                format!("{ours:.3}"),
                if theirs == 0.0 {
                    "-".into()
                } else {
                    format!("{:.2}", ours / theirs)
                },
            ]
        })
    });
    Exhibit::table(
        format!("ext4, ours beside the recorded one: {}", BASES[base].name),
        "Seconds of the device. The recorded requests come one after the other from the kernel's \
         page cache; ours has the same calls, and a cache of 4 MiB.",
        ["", "recorded", "ours", "ours / recorded"],
        rows.collect::<Vec<_>>(),
    )
}

/// All file systems on one mapping, on volumes of one age.
fn rivals(runs: &[rivals::Run]) -> Exhibit {
    let first = &runs[0];
    let row = |(at, run): (usize, &rivals::Run)| {
        let (_, _, task) = TASKS[at];
        let done = &run.done[at];
        vec![
            format!("{task}: {}", RIVALS[run.rival].2),
            format!("{:.2}", done.rate() / 1e6),
            format!("{:.0}", done.durable_rate()),
            format!("{:.2}", done.per_mille(500)),
            format!("{:.2} / {:.2}", done.per_mille(999), done.per_mille(1000)),
            format!("{:.2}", done.amplification()),
            format!("{:.2}", done.lifetime() / 1e12),
        ]
    };
    let by_task = (0..TASKS.len()).flat_map(|at| runs.iter().map(move |run| (at, run)));
    let state = if first.is_old { "old" } else { "new" };
    Exhibit::table(
        format!(
            "Beyond the paper, {state} volumes: {}",
            BASES[first.base].name
        ),
        "768 MiB on 1280 MiB of flash, of which every sector is in use; nothing is trimmed. An old \
         volume has 240 MiB of files, a fifth of which was replaced five times. Durable calls are \
         fsync, fdatasync and sync. The lifetime is what the program writes until blocks have 3,000 \
         erases. One seed.",
        [
            "",
            "MB/s",
            "durable calls/s",
            "median, ms",
            "p99.9 / longest, ms",
            "programmed for each written",
            "lifetime, TB",
        ],
        by_task.map(row).collect::<Vec<_>>(),
    )
}

/// The measured phases of a run, each name once.
fn names(run: &Phases) -> Vec<&'static str> {
    let mut names = Vec::new();
    for phase in run.reported() {
        if !names.contains(&phase.name) {
            names.push(phase.name);
        }
    }
    names
}

fn distribution(runs: &Runs) -> Exhibit {
    let plot = |threaded: bool, title: &str| Figure {
        title: title.into(),
        about: format!(
            "Segments by valid blocks of 512, in classes of {CLASS}, when all has been written; \
             means of all seeds."
        ),
        x: "valid blocks".into(),
        y: "segments".into(),
        drawn: Drawn::Lines,
        of: (Quantity::Count, Quantity::Count),
        series: POLICIES
            .iter()
            .map(|(policy, _)| segment_curve(runs, policy, threaded))
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

fn segment_curve(runs: &Runs, policy: &str, threaded: bool) -> (String, Vec<(f64, f64)>) {
    let run = runs.cleaning(policy, threaded);
    let points = (0..CLASSES).map(|class| {
        let segments = sample(run, |run| run.segments[class] as f64);
        (class as f64 * f64::from(CLASS), segments.mean)
    });
    (policy.to_string(), points.collect())
}

fn cleaning(runs: &Runs) -> Exhibit {
    Exhibit::table(
        "Cleaning: blocks moved",
        "Three files of 1 GB on 3.7 GB, scaled: 256 MB at random to all, then thirty times 256 MB \
         to the first. Means, with intervals of 95 %.",
        [
            "",
            "sections cleaned",
            "blocks moved",
            "for each written",
            "blocks put into holes",
            "segments nearly empty or full",
        ],
        runs.cleaned.iter().map(|seeds| cleaning_row(seeds)),
    )
}

fn cleaning_row(seeds: &[Cleaned]) -> Vec<String> {
    let logging = if seeds[0].threaded {
        ", threaded logging"
    } else {
        ""
    };
    let count =
        |count: fn(&Cleaned) -> u64| format!("{:.0}", sample(seeds, |run| count(run) as f64).mean);
    vec![
        format!("{}{logging}", seeds[0].policy),
        count(|run| run.counts.cleaned),
        count(|run| run.counts.moved),
        sample(seeds, Cleaned::moved).reported(|moved| format!("{moved:.3}")),
        count(|run| run.counts.threaded),
        sample(seeds, Cleaned::at_ends).reported(|share| format!("{:.1} %", share * 100.0)),
    ]
}

/// All that write, on the same axes.
fn over_time(runs: &Runs) -> Exhibit {
    let plot = |base: usize| {
        let sustained = &runs.sustained[base];
        let of_one = |run: &Sustained| (run.case.name.to_string(), run.points());
        Figure {
            title: BASES[base].name.into(),
            about: format!(
                "ext4 and F2FS alike: {}. F2FS's sections are superblocks. A curve ends at the \
                 bytes written.",
                sustained[0].amounts.reported()
            ),
            x: "written at random".into(),
            y: "written".into(),
            drawn: Drawn::Lines,
            of: (Quantity::Bytes, Quantity::Rate),
            series: sustained.iter().map(of_one).collect(),
        }
    };
    Exhibit::Figures(
        "Sustained random write".into(),
        (0..BASES.len())
            .filter(|base| !runs.sustained[*base].is_empty())
            .map(plot)
            .collect(),
    )
}

fn sustained(runs: &Runs, base: usize) -> Exhibit {
    Exhibit::table(
        format!("Sustained random write: {}", BASES[base].name),
        "MB/s of the last three windows. Steady: these differ by at most 5 %, and the translation \
         layer moved pages in each.",
        [
            "",
            "MB/s",
            "",
            "written",
            "to the device, a byte",
            "programmed, a page",
            "pages moved by the FTL",
            "blocks in holes",
            "sections cleaned",
        ],
        runs.sustained[base].iter().map(sustained_row),
    )
}

fn sustained_row(run: &Sustained) -> Vec<String> {
    let end = run.end();
    let steady = if run.is_steady() {
        "steady"
    } else {
        "not steady"
    };
    vec![
        run.case.name.into(),
        format!("{:.2}", end.rate() / 1e6),
        steady.into(),
        format!("{} MiB", run.written() >> 20),
        format!("{:.2}", end.pages.taken as f64 * 4096.0 / end.bytes as f64),
        format!(
            "{:.2}",
            end.pages.programmed as f64 / end.pages.taken.max(1) as f64
        ),
        run.moved().to_string(),
        run.counts.threaded.to_string(),
        run.counts.cleaned.to_string(),
    ]
}

fn device_bars(runs: &Runs) -> Exhibit {
    Exhibit::Bars(BarExhibit {
        title: "Hybrid and page-mapped devices".into(),
        about: "Time of the second half of the rounds, in each of which a fifth of the files go \
         and come.",
        key: "time",
        bars: DEVICES
            .iter()
            .zip(&runs.devices)
            .map(|(laid, seeds)| {
                let seconds = sample(seeds, |run| run.seconds).mean;
                (laid.key.into(), seconds, format!("{seconds:.1} s"))
            })
            .collect(),
    })
}

fn devices(runs: &Runs) -> Exhibit {
    let row = |(laid, seeds): (&Laid, &Vec<Served>)| {
        vec![
            laid.name.into(),
            format!("{:.1}", sample(seeds, |run| run.seconds).mean),
            sample(seeds, Served::amplification).reported(|factor| format!("{factor:.3}")),
            format!("{:.0}", sample(seeds, |run| run.pages.moved as f64).mean),
            format!("{:.1} %", sample(seeds, Served::in_holes).mean * 100.0),
            format!("{:.0}", sample(seeds, |run| run.counts.cleaned as f64).mean),
        ]
    };
    Exhibit::table(
        "Devices, logs and streams",
        "Files of 64 KiB to 32 MiB, 288 MiB of them (page maps: 420 MiB) on 768 MiB; the second \
         half of the rounds, after collection has begun. A stream of the device takes what F2FS \
         says lives equally long. Page maps with 15 % spare.",
        [
            "",
            "s",
            "bytes programmed a byte",
            "pages moved by the FTL",
            "blocks in holes",
            "sections cleaned",
        ],
        DEVICES.iter().zip(&runs.devices).map(row),
    )
}

fn idle(runs: &Runs) -> Exhibit {
    Exhibit::table(
        "Cleaning in gaps",
        "Bursts of 8 MiB: 4 KiB at random and an fsync, each; 396 MiB of files on 768 MiB, page \
         map, cleaning only. Milliseconds of the second half of the bursts. The cleaner sleeps 30 \
         to 60 s, and works when nothing was asked for 5 s.",
        [
            "",
            "p50",
            "p99",
            "p99.9",
            "longest",
            "sections cleaned while a write waits",
            "in the background",
        ],
        PAUSES.iter().zip(&runs.idle).map(idle_row),
    )
}

fn idle_row((pauses, seeds): (&Pauses, &Vec<Waited>)) -> Vec<String> {
    let ms =
        |figure: &dyn Fn(&Waited) -> f64| sample(seeds, figure).reported(|ms| format!("{ms:.1}"));
    let count =
        |count: fn(&Waited) -> u64| format!("{:.0}", sample(seeds, |run| count(run) as f64).mean);
    vec![
        pauses.name.into(),
        ms(&|run| run.per_mille(500)),
        ms(&|run| run.per_mille(990)),
        ms(&|run| run.per_mille(999)),
        ms(&Waited::longest),
        count(|run| run.counts.cleaned),
        count(|run| run.counts.cleaned_background),
    ]
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
