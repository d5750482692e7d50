//! The same calls to the kernel's jffs2 and to ours, on the same flash, without compression: page
//! programs and erases side by side.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use crate::common;
use crate::common::{NAND, manifest, nand, read_only};
use crate::guest;
use crate::guest::calls::{Call, Calls, Load};
use nandlab_jffs2::{Compression, Format, Jffs2, Options, format};
use nandlab_mtd::{Counter, Counts, Image};
use nandlab_oracle::Manifest;
use nandlab_oracle::manifest::differences;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Sync};
use std::collections::BTreeMap;

const BLOCKS: u32 = 40;
/// The most that the numbers of programs may differ, in percent.
const APART: f64 = 2.0;
/// Ours for so many seeds: what is collected next is a matter of chance, ours of the seed and the
/// kernel's of its clock.
fn seeds() -> u64 {
    whole_or(16, 5)
}
/// And the kernel's so many times, each at another hour.
fn runs() -> usize {
    whole_or(3, 1)
}

/// A run and what it is there to show.
struct Case {
    name: &'static str,
    load: Load,
    calls: usize,
}

impl Case {
    fn is_collecting(&self) -> bool {
        self.name != "nothing collected"
    }

    fn runs(&self) -> usize {
        if self.is_collecting() { runs() } else { 1 }
    }
}

fn cases() -> [Case; 4] {
    let load = Load {
        seed: 1,
        files: 60,
        file_bytes: 90_000,
        live_bytes: 1_500_000,
        fsync_each: u64::MAX,
        xattrs: true,
    };
    [
        Case {
            name: "nothing collected",
            load,
            calls: 1000,
        },
        Case {
            name: "no fsync",
            load,
            calls: 5000,
        },
        // Collecting fills pages.
        Case {
            name: "one write in four followed by an fsync",
            load: Load {
                seed: 2,
                fsync_each: 4,
                ..load
            },
            calls: 5000,
        },
        Case {
            name: "a fuller medium",
            load: Load {
                seed: 3,
                live_bytes: 3_000_000,
                fsync_each: 12,
                ..load
            },
            calls: 5000,
        },
    ]
}

/// Programs of data, those of markers, and erases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    calls: u64,
    programs: u64,
    markers: u64,
    erases: u64,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.programs += other.programs;
        self.markers += other.markers;
        self.erases += other.erases;
    }

    fn flash(calls: u64, counts: &Counts) -> Self {
        Self {
            calls,
            programs: counts.programs,
            markers: counts.oob_programs,
            erases: counts.erases,
        }
    }
}

type Rows = BTreeMap<char, Row>;

fn sum(rows: &Rows) -> Row {
    rows.values().fold(Row::default(), |mut sum, row| {
        sum.add(row);
        sum
    })
}

/// On our file system; gives the medium as well.
fn ours(calls: &[Call], seed: u64) -> (Rows, Image<Vec<u8>>) {
    let erased = format(nand(NAND, BLOCKS), &Format::default()).unwrap();
    let options = Options {
        compression: Compression::NONE,
        seed,
        ..Options::default()
    };
    let mut fs = Jffs2::mount(Counter::new(erased), options).unwrap();
    fs.mtd_mut().reset();
    let mut rows = Rows::new();
    for (at, call) in calls.iter().enumerate() {
        call.apply(&mut fs)
            .unwrap_or_else(|error| panic!("call {at}, {call}: {error} ({:?})", fs.fault()));
        rows.entry(call.kind())
            .or_default()
            .add(&Row::flash(1, &fs.mtd_mut().reset()));
    }
    fs.unmount().unwrap();
    (rows, fs.into_mtd().into_inner())
}

/// Parses the rows that `play` reports.
fn theirs(reported: &[String]) -> Rows {
    reported
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse().unwrap();
            (
                line.chars().next().unwrap(),
                Row {
                    calls: number(1),
                    programs: number(2),
                    markers: number(3),
                    erases: number(4),
                },
            )
        })
        .collect()
}

const KINDS: [(char, &str); 11] = [
    ('c', "create"),
    ('d', "mkdir"),
    ('w', "write"),
    ('f', "fsync"),
    ('t', "truncate"),
    ('n', "rename"),
    ('u', "unlink"),
    ('l', "link"),
    ('s', "symlink"),
    ('m', "chmod"),
    ('a', "setxattr"),
];

fn percent(ours: u64, theirs: u64) -> f64 {
    100.0 * (ours as f64 - theirs as f64) / theirs as f64
}

fn print(case: &Case, ours: &Rows, theirs: &Rows) {
    println!(
        "{}\n{:<10} {:>6} {:>9} {:>9} {:>7} {:>8} {:>8}",
        case.name, "", "calls", "ours", "kernel", "%", "erases", "kernel"
    );
    let row = |name: &str, ours: &Row, theirs: &Row| {
        println!(
            "{name:<10} {:>6} {:>9} {:>9} {:>7.2} {:>8} {:>8}",
            ours.calls,
            ours.programs,
            theirs.programs,
            percent(ours.programs, theirs.programs),
            ours.erases,
            theirs.erases
        );
    };
    for (kind, name) in KINDS.iter().filter(|(kind, _)| ours.contains_key(kind)) {
        row(name, &ours[kind], &theirs[kind]);
    }
    row("all", &sum(ours), &sum(theirs));
}

/// Times are those of the two machines.
fn without_times(mut tree: Manifest) -> Manifest {
    tree.values_mut().for_each(|entry| entry.mtime = 0);
    tree
}

#[test]
fn our_page_programs_are_within_a_fiftieth_of_the_kernels() {
    let cases: Vec<Case> = cases().into_iter().step_by(whole_or(1, 2)).collect();
    let calls: Vec<Vec<Call>> = cases
        .iter()
        .map(|case| Calls::new(case.load).take(case.calls).collect())
        .collect();
    // Neither the write buffer's timer nor the collector's thread: both are a matter of wall time.
    let mut script = format!(
        "echo 360000 >/proc/sys/vm/dirty_writeback_centisecs; simulated {BLOCKS} programm erase && mp jffs2 || exit 1\n"
    );
    let mut machine = guest::guest("");
    for (index, (case, calls)) in cases.iter().zip(&calls).enumerate() {
        let list: String = calls.iter().map(|call| format!("{call}\n")).collect();
        machine = machine.file(format!("/calls{index}"), list);
        for run in 0..case.runs() {
            let key = format!("{index}-{run}");
            script += &format!(
                "/usr/sbin/flash_erase -q -j /dev/mtd0 0 0 && mount -t jffs2 -o compr=none mtd0 /mnt && stopped mtd0 &&
                 /play calls /mnt /calls{index} nandsim >/tmp/tally && say tally-{key} \"$(cat /tmp/tally)\" && going mtd0 && umount /mnt || exit 1\n"
            );
        }
        script += &format!(
            "mount -t jffs2 -o ro mtd0 /mnt && manifest /mnt {index} && attributes /mnt {index} && umount /mnt || exit 1\n"
        );
    }
    script += "say seconds $(cut -d' ' -f1 /proc/uptime)\n";
    // In virtual time, so that the kernel throws the same dice each time.
    let report = guest::boot(
        machine
            .icount(3)
            .script([guest::FUNCTIONS, &script].concat()),
    );
    println!("guest, in its own time: {:?} s", report.value("seconds"));
    for (index, (case, calls)) in cases.iter().zip(&calls).enumerate() {
        let theirs: Vec<Rows> = (0..case.runs())
            .map(|run| theirs(&report.values[&format!("tally-{index}-{run}")]))
            .collect();
        let runs: Vec<(Rows, Image<Vec<u8>>)> =
            (0..seeds()).map(|seed| ours(calls, seed)).collect();
        print(case, &runs[0].0, &theirs[0]);
        compare(
            case,
            &runs.iter().map(|(rows, _)| sum(rows)).collect::<Vec<_>>(),
            &theirs.iter().map(sum).collect::<Vec<_>>(),
        );
        let reported = guest::attributes(&report.files[&format!("{index}-attributes")]);
        for (_, image) in runs {
            let mut seen = read_only(image);
            assert_eq!(
                differences(
                    &without_times(report.manifests[&index.to_string()].clone()),
                    &without_times(manifest(&mut seen))
                ),
                ""
            );
            assert_eq!(
                guest::attribute_differences(&reported, &guest::attributes_of(&mut seen)),
                ""
            );
        }
    }
}

/// The mean of a count, and the least and the greatest.
fn spread(rows: &[Row], count: fn(&Row) -> u64) -> (f64, u64, u64) {
    let counts = || rows.iter().map(count);
    (
        counts().sum::<u64>() as f64 / rows.len() as f64,
        counts().min().unwrap(),
        counts().max().unwrap(),
    )
}

/// Runs of ours, one a seed, beside the kernel's.
fn compare(case: &Case, ours: &[Row], theirs: &[Row]) {
    let name = case.name;
    let percent = |ours: f64, theirs: f64| 100.0 * (ours - theirs) / theirs;
    let [(programs, ..), (their_programs, ..)] = [ours, theirs].map(|rows| {
        let (mean, least, most) = spread(rows, |row| row.programs);
        println!(
            "{name}: {mean:.0} programs ({least} to {most} in {} runs)",
            rows.len()
        );
        (mean, least, most)
    });
    let [(erases, ..), (their_erases, ..)] =
        [ours, theirs].map(|rows| spread(rows, |row| row.erases));
    let apart = percent(programs, their_programs);
    println!(
        "{name}: {apart:+.2} % programs; {erases:.1} erases, {their_erases:.1} of the kernel's"
    );
    for row in ours.iter().chain(theirs) {
        assert_eq!(row.calls, case.calls as u64);
        assert_eq!(row.markers, row.erases, "a marker follows each erase");
    }
    if case.is_collecting() {
        assert!(
            their_programs > f64::from(BLOCKS * 64 * 2) && their_erases > f64::from(BLOCKS),
            "{name}: much was collected"
        );
        assert!(
            apart.abs() <= APART,
            "{name}: {apart:.2} percent more programs than the kernel's"
        );
        assert!(
            percent(erases, their_erases).abs() <= 8.0,
            "{name}: {erases} erases, {their_erases} of the kernel's"
        );
    } else {
        assert!(
            their_programs > 1000.0 && their_erases == 0.0 && erases == 0.0,
            "{name}"
        );
        assert_eq!(programs, their_programs, "{name}");
    }
}

#[test]
fn the_calls_of_a_run_can_be_made_on_the_reference() {
    for case in cases() {
        let mut reference = nandlab_vfs::MemFs::new(1 << 30, common::NOW);
        for (at, call) in Calls::new(case.load).take(case.calls).enumerate() {
            call.apply(&mut reference)
                .unwrap_or_else(|error| panic!("call {at}, {call}: {error}"));
        }
        reference.fsync(nandlab_vfs::Ino::ROOT, Sync::All).unwrap();
    }
}
