//! Workloads on ext2 and ext3: every file is there, the modes write what they must and no more, and
//! dirty data in memory goes to the disk when Linux 2.6 would write it.

use nandlab_lab::Experiment;
use nandlab_lab::play::regions::Region;
use nandlab_lab::run::{FilesOutcome, PhaseOutcome, Traffic, run_calls, run_files};
use nandlab_stack::Document;
use nandlab_workload::files::{Contents, FileCall, FileCalls, FileId};
use std::path::Path;

/// The JFTL paper's stack with a smaller chip, and one file of 1 MiB.
const EXPERIMENT: &str = "
[chip]
preset = \"nandsim-jftl\"
blocks = 1024
[host]
platform = \"pc-3ghz\"
[workload]
type = \"iozone\"
size = \"1 MiB\"
record = \"16 KiB\"
tests = [\"write\"]
";

const CAMERA: &[&str] = &[
    "workload.type=camera-ms500",
    "workload.transactions=2",
    "workload.photos=6",
    "workload.deletes=3",
    "workload.photo-min=50 KiB",
    "workload.photo-max=100 KiB",
    "workload.total=900 KiB",
    "workload.delete-all-above=9",
];

/// Contents of files in the tables of regions.
const FILES: Region = Region::Clusters("files");

fn experiment(text: &str, settings: &[&str]) -> Experiment {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Experiment::take(Document::parse("ext.toml", Path::new(""), text, &settings).unwrap()).unwrap()
}

/// Runs the workload as described.
fn run(text: &str, settings: &[&str]) -> FilesOutcome {
    let experiment = experiment(text, settings);
    run_files(
        &experiment,
        experiment.workload.files().unwrap(),
        false,
        &mut |_| (),
    )
    .unwrap_or_else(|error| panic!("{settings:?}: {error}"))
}

fn iozone(settings: &[&str]) -> FilesOutcome {
    run(EXPERIMENT, settings)
}

fn phase<'a>(of: &'a FilesOutcome, name: &str) -> &'a PhaseOutcome {
    of.phases
        .iter()
        .find(|phase| phase.name == name)
        .unwrap_or_else(|| panic!("no phase {name}"))
}

fn part(phase: &PhaseOutcome, region: Region) -> Traffic {
    phase.below.parts.get(&region).copied().unwrap_or_default()
}

/// Calls by hand, each with the phase that it belongs to.
struct Script {
    calls: std::vec::IntoIter<(&'static str, FileCall)>,
    phase: &'static str,
}

impl Script {
    fn new(calls: Vec<(&'static str, FileCall)>) -> Self {
        Self {
            calls: calls.into_iter(),
            phase: "none",
        }
    }
}

impl Iterator for Script {
    type Item = FileCall;

    fn next(&mut self) -> Option<FileCall> {
        let (phase, call) = self.calls.next()?;
        self.phase = phase;
        Some(call)
    }
}

impl FileCalls for Script {
    fn name(&self, file: FileId) -> String {
        format!("file{}", file.0)
    }

    fn contents(&self) -> Contents {
        Contents::new(7)
    }

    fn share_done(&self) -> f64 {
        0.0
    }

    fn phase(&self) -> &'static str {
        self.phase
    }
}

const A: FileId = FileId(1);

fn script(calls: Vec<(&'static str, FileCall)>, settings: &[&str]) -> FilesOutcome {
    let experiment = experiment(EXPERIMENT, settings);
    run_calls(&experiment, &mut Script::new(calls), false, &mut |_| ())
        .unwrap_or_else(|error| panic!("{settings:?}: {error}"))
}

/// A file of so many KiB in writes of 16 KiB.
fn written(phase: &'static str, kib: u64) -> Vec<(&'static str, FileCall)> {
    let write = |at: u64| {
        (
            phase,
            FileCall::Write {
                file: A,
                offset: at << 10,
                length: 16 << 10,
                version: 1,
            },
        )
    };
    [(phase, FileCall::Create { file: A })]
        .into_iter()
        .chain((0..kib).step_by(16).map(write))
        .collect()
}

/// One MiB in a file, and fsync.
fn one_file(settings: &[&str]) -> FilesOutcome {
    let end = [
        ("write", FileCall::Fsync { file: A }),
        ("write", FileCall::Close { file: A }),
    ];
    script([written("write", 1024), end.to_vec()].concat(), settings)
}

/// At 0.5 ns an instruction.
fn computed(phase: &'static str, seconds: u64) -> (&'static str, FileCall) {
    (
        phase,
        FileCall::Compute {
            instructions: seconds * 2_000_000_000,
        },
    )
}

const MODES: [&[&str]; 8] = [
    &["fs.type=fat16"],
    &["fs.type=ext2"],
    &["fs.type=ext3", "fs.mode=journal"],
    &["fs.type=ext3", "fs.mode=ordered"],
    &["fs.type=ext3", "fs.mode=writeback"],
    &["fs.type=ext3", "fs.mode=journal", "fs.checkpoint=remap"],
    &["fs.type=ext3", "fs.mode=ordered", "fs.checkpoint=remap"],
    &["fs.type=ext3", "fs.mode=writeback", "fs.checkpoint=remap"],
];

#[test]
fn every_file_is_there_after_a_camera_in_each_mode_with_and_without_a_memory() {
    for mode in MODES {
        for memory in [
            &[][..],
            &["memory.size=64 MiB"],
            &["memory.size=1 MiB", "workload.fsync=false"],
        ] {
            let of = run(
                EXPERIMENT.split("[workload]").next().unwrap(),
                &[mode, CAMERA, memory].concat(),
            );
            let total: u64 = of.phases.iter().map(|phase| phase.bytes_written).sum();
            assert!(total > 900 << 10, "{mode:?} {memory:?}");
            let of_files = |phase: &PhaseOutcome| {
                let regions = ["files", "photos", "index"].map(Region::Clusters);
                regions
                    .iter()
                    .map(|region| part(phase, *region).bytes_written)
                    .sum::<u64>()
            };
            let all = of
                .phases
                .iter()
                .map(|phase| of_files(phase) + 512 * phase.below.remapped_sectors)
                .sum::<u64>();
            assert!(all > 300 << 10, "{mode:?} {memory:?}: {all}");
        }
    }
}

#[test]
fn ext_works_on_every_layer() {
    for scheme in ["bast", "sast", "fast", "mtdblock"] {
        let of = one_file(&["fs.type=ext3", &format!("ftl.scheme={scheme}")]);
        assert_eq!(
            part(phase(&of, "write"), FILES).bytes_written,
            1 << 20,
            "{scheme}"
        );
        // No other layer can remap: the journal copies then.
        let of = one_file(&[
            "fs.type=ext3",
            "fs.checkpoint=remap",
            "fs.mode=journal",
            &format!("ftl.scheme={scheme}"),
        ]);
        assert!(
            of.phases.iter().all(|phase| phase.below.remaps == 0),
            "{scheme}"
        );
        let home: u64 = of
            .phases
            .iter()
            .map(|phase| part(phase, FILES).bytes_written)
            .sum();
        assert_eq!(home, 1 << 20, "{scheme}");
    }
}

#[test]
fn each_mode_writes_contents_where_it_must_and_as_often() {
    let reported = |settings: &[&str]| {
        let of = one_file(settings);
        let sum = |of_phase: fn(&PhaseOutcome) -> u64| of.phases.iter().map(of_phase).sum::<u64>();
        let write = phase(&of, "write");
        (
            part(write, Region::Journal).bytes_written >> 10,
            sum(|phase| part(phase, FILES).bytes_written) >> 10,
            sum(|phase| phase.below.remapped_sectors) / 2,
        )
    };
    let (none, home, _) = reported(&["fs.type=ext2"]);
    assert_eq!((none, home), (0, 1024));
    for mode in ["ordered", "writeback"] {
        let (log, home, _) = reported(&["fs.type=ext3", &format!("fs.mode={mode}")]);
        assert!(
            (8..64).contains(&log) && home == 1024,
            "{mode}: {log} KiB in the journal, {home} home"
        );
    }
    let (log, home, remapped) = reported(&["fs.type=ext3", "fs.mode=journal"]);
    assert!(
        (1024..1100).contains(&log) && home == 1024 && remapped == 0,
        "{log} {home} {remapped}"
    );
    let (log, home, remapped) =
        reported(&["fs.type=ext3", "fs.mode=journal", "fs.checkpoint=remap"]);
    assert!(
        (1024..1100).contains(&log) && home == 0 && (1024..1100).contains(&remapped),
        "{log} {home} {remapped}"
    );
}

#[test]
fn a_phase_lasts_until_its_fsync_has_returned() {
    let of = iozone(&["fs.type=ext2", "workload.tests=[\"write\", \"read\"]"]);
    let names: Vec<&str> = of
        .phases
        .iter()
        .map(|phase| phase.name)
        .filter(|name| *name != "set-up")
        .collect();
    assert_eq!(names, ["write", "rewrite", "read", "reread", "unmount"]);
    let write = phase(&of, "write");
    // 2048 pages at 100 us are the least that it waits for, and more with the erases that free
    // space for them.
    assert!((0.2..0.6).contains(&write.seconds()), "{}", write.seconds());
    let programs: u64 = write.causes.iter().map(|row| row.programs).sum();
    assert!(programs >= 2048 && write.below.flushes > 0, "{programs}");
    // Contents are in the cache.
    assert_eq!(
        (
            part(phase(&of, "read"), FILES).reads,
            phase(&of, "read").bytes_read
        ),
        (0, 1 << 20)
    );
    assert!(
        of.outcome.notes[0].starts_with("phase write: 1.0 MiB in 0.2"),
        "{:?}",
        of.outcome.notes
    );
}

#[test]
fn dirty_data_is_written_by_kupdate_when_it_is_thirty_seconds_old() {
    let calls = |seconds| {
        [
            written("write", 64),
            vec![
                computed("wait", seconds),
                ("end", FileCall::Close { file: A }),
            ],
        ]
        .concat()
    };
    let memory = ["fs.type=ext2", "memory.size=64 MiB"];
    let early = script(calls(29), &memory);
    assert_eq!(
        (
            part(phase(&early, "wait"), FILES).writes,
            early.flushed.expired
        ),
        (0, 0)
    );
    let late = script(calls(36), &memory);
    let wait = phase(&late, "wait");
    assert_eq!(
        (
            part(wait, FILES).bytes_written,
            late.flushed.expired >= 64 << 10
        ),
        (64 << 10, true)
    );
    // What kupdate does takes time from the program that computes.
    assert!(
        wait.seconds() > 36.0 && wait.seconds() < 36.5,
        "{}",
        wait.seconds()
    );
    assert_eq!(part(phase(&late, "write"), FILES).writes, 0);
}

#[test]
fn a_journal_commits_every_five_seconds_whether_there_is_a_memory_or_not() {
    for memory in [&[][..], &["memory.size=64 MiB"]] {
        for (mode, contents) in [("ordered", FILES), ("journal", Region::Journal)] {
            let calls = |seconds| {
                [
                    written("write", 64),
                    vec![
                        computed("wait", seconds),
                        ("end", FileCall::Close { file: A }),
                    ],
                ]
                .concat()
            };
            let mode = format!("fs.mode={mode}");
            let settings = [&["fs.type=ext3", &mode], memory].concat();
            let early = script(calls(4), &settings);
            assert_eq!(
                (early.flushed.works, phase(&early, "wait").below.parts.len()),
                (0, 0),
                "{mode} {memory:?}"
            );
            let late = script(calls(6), &settings);
            assert_eq!(late.flushed.works, 1, "{mode} {memory:?}");
            assert!(
                part(phase(&late, "wait"), contents).bytes_written >= 64 << 10,
                "{mode} {memory:?}"
            );
        }
    }
}

#[test]
fn a_writer_waits_for_the_disk_only_above_the_limits() {
    let write = |memory: &str| {
        let of = script(
            [
                written("write", 4096),
                vec![("end", FileCall::Close { file: A })],
            ]
            .concat(),
            &["fs.type=ext2", memory],
        );
        (phase(&of, "write").seconds(), of.flushed)
    };
    let (free, flushed) = write("memory.size=1 GiB");
    assert_eq!((flushed.writers, flushed.background), (0, 0));
    // 1024 pages at about 2 us.
    assert!(free < 0.02, "{free}");
    let (tight, flushed) = write("memory.size=4 MiB");
    assert!(
        flushed.background + flushed.writers > 3 << 20,
        "{flushed:?}"
    );
    assert!(tight > 0.5, "{tight}");
}

#[test]
fn a_run_with_a_memory_is_a_function_of_its_description() {
    let settings = [
        "fs.type=ext3",
        "fs.mode=journal",
        "fs.checkpoint=remap",
        "memory.size=2 MiB",
    ];
    let one = iozone(&settings);
    let two = iozone(&settings);
    assert!(one.phases == two.phases && one.outcome.result == two.outcome.result);
}
