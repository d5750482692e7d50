//! An experiment, as it is described, can be explored; what the explorer cannot follow is refused
//! with the key that says so.

use nandlab_crash::{CrashReport, Cuts, Plan, SecondLevel};
use nandlab_lab::Experiment;
use nandlab_lab::cut::{PrepareError, Prepared};
use nandlab_lab::experiment::Precondition;
use nandlab_stack::Document;
use nandlab_testkit::share::whole_or;
use std::path::Path;

const EXPERIMENT: &str = "
[chip]
page = 1024
oob = 16
pages-per-block = 8
blocks = 32
read = \"25 us\"
program = \"200 us\"
erase = \"1.5 ms\"
bus-ns-per-byte = 25
[ftl]
over-provisioning = 1.0
[workload]
block = 1536
align = 512
discards = 0.1
flush-every = 12
requests = 100
";

/// An experiment of this text, with overrides.
fn take(text: &str, overrides: &[&str]) -> Experiment {
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    let document = Document::parse("experiment.toml", Path::new("."), text, &overrides).unwrap();
    Experiment::take(document).unwrap()
}

fn experiment(overrides: &[&str]) -> Experiment {
    take(EXPERIMENT, overrides)
}

/// Cuts `prepared` in so many states, and finds nothing wrong.
fn survives(prepared: &Prepared, states: u64, plan: &Plan, what: &dyn std::fmt::Debug) {
    let plan = Plan {
        cuts: Cuts::Sample(states),
        ..plan.clone()
    };
    let report: CrashReport = prepared.explore(&plan, &|_, _| ()).unwrap();
    assert_eq!(
        (report.states, report.violations_total),
        (states, 0),
        "{what:?}: {report}"
    );
}

#[test]
fn a_described_stack_survives_its_cuts() {
    // Page data must be there to be judged, whatever the experiment does with it otherwise.
    for contents in ["chip.contents=kept", "chip.contents=dropped"] {
        let prepared = Prepared::new(&experiment(&[contents]), 1_000).unwrap();
        assert!(!prepared.cut_short);
        let operations = prepared.operations();
        assert_eq!(operations.iter().filter(|op| *op != "flush").count(), 100);
        survives(&prepared, 300, &Plan::default(), &contents);
    }
}

#[test]
fn a_described_file_system_on_flash_survives_its_cuts() {
    let text = include_str!("../../../../../experiments/crash-jffs2.toml");
    for deferred in ["write-back.deferred=false", "write-back.deferred=true"] {
        let prepared = Prepared::new(&take(text, &[deferred]), 1_000).unwrap();
        assert_eq!(
            (prepared.operations().len(), prepared.cut_short),
            (150, false)
        );
        survives(&prepared, 60, &Plan::default(), &deferred);
    }
    let on_a_disk = text.replace("type = \"jffs2\"", "type = \"ext2\"");
    let experiment = take(&on_a_disk, &["write-back.deferred=true"]);
    let refused = Prepared::new(&experiment, 10).err().unwrap().to_string();
    assert!(
        refused.starts_with("write-back.deferred: found true, expected false"),
        "{refused}"
    );
}

#[test]
fn file_systems_on_a_volume_survive_their_cuts_with_every_memory_of_a_scan() {
    let text = include_str!("../../../../../experiments/crash-ubi.toml");
    let ways: [&[&str]; 5] = [
        &[],
        &["ubi.headers=false"],
        &[
            "ubi.headers=false",
            "ubi.incremental=true",
            "ubi.chained=true",
        ],
        &["ubi.attach=scan", "ubi.log-blocks="],
        &["ubi.attach=fastmap", "ubi.log-blocks="],
    ];
    let plan = Plan::default();
    for way in ways {
        let prepared = Prepared::new(&take(text, way), 1_000).unwrap();
        survives(&prepared, 40, &plan, &way);
    }
    let ext3 = &[
        "chip.blocks=160",
        "fs.type=ext3",
        "fs.block=1024",
        "fs.journal-size=1 MiB",
        "ubi.volume-size=",
    ][..];
    let f2fs = &[
        "chip.blocks=512",
        "chip.pages-per-block=64",
        "fs.type=f2fs",
        "ubi.volume-size=",
    ][..];
    let fat = &["chip.blocks=512", "fs.type=fat16", "ubi.volume-size="][..];
    // F2FS does much when it is mounted.
    let once = Plan {
        second: SecondLevel::Off,
        ..plan.clone()
    };
    let on_disks = [
        (ways[1], ext3, &plan),
        (ways[3], ext3, &plan),
        (ways[1], f2fs, &once),
        (ways[4], f2fs, &once),
        (ways[3], fat, &once),
    ];
    for (way, disk, plan) in on_disks {
        let prepared = Prepared::new(&take(text, &[way, disk].concat()), 40).unwrap();
        survives(&prepared, 40, plan, &(way, disk));
    }
}

#[test]
fn a_memory_beside_the_chip_is_followed_through_cuts() {
    let text = include_str!("../../../../../experiments/crash-ext3.toml");
    let fat = &[
        "fs.type=fat12",
        "fs.mode=",
        "fs.checkpoint=",
        "fs.journal-size=",
    ][..];
    let metadata = &["nvram.holds=metadata", "nvram.size=8 KiB"][..];
    let writes = &["nvram.holds=writes", "nvram.size=16 KiB"][..];
    for (disk, nvram) in [(fat, metadata), (fat, writes), (&[], writes)] {
        let prepared = Prepared::new(&take(text, &[disk, nvram].concat()), 1_000).unwrap();
        let plan = Plan {
            cuts: Cuts::Sample(whole_or(300, 150)),
            ..Plan::default()
        };
        let report = prepared.explore(&plan, &|_, _| ()).unwrap();
        assert_eq!(report.violations_total, 0, "{disk:?} {nvram:?}: {report}");
        assert!(
            report.states > whole_or(100, 40),
            "{disk:?} {nvram:?}: {report}"
        );
    }
}

#[test]
fn a_workload_longer_than_the_limit_is_cut_short_and_says_so() {
    let prepared = Prepared::new(&experiment(&[]), 20).unwrap();
    assert!(prepared.cut_short && prepared.operations().len() == 20);
}

#[test]
fn what_cannot_be_explored_is_refused_by_key() {
    type Change = fn(&mut Experiment);
    let changes: [(Change, &str); 4] = [
        (
            |e| e.run.precondition = Precondition::Sequential,
            "run.precondition: found sequential, expected none",
        ),
        (
            |e| e.stack.chip.save = Some("/nowhere".into()),
            "chip.save: found /nowhere, expected none",
        ),
        (
            |e| e.stack.chip.load = Some("/nowhere".into()),
            "chip.load: found /nowhere, expected none",
        ),
        (
            |e| e.stack.chip.spec.geometry.blocks <<= 17,
            "chip.blocks: found a chip of 34359738368 bytes, expected at most 8 GiB",
        ),
    ];
    for (change, expected) in changes {
        let mut experiment = experiment(&[]);
        change(&mut experiment);
        let error = Prepared::new(&experiment, 20).err().unwrap();
        assert!(matches!(error, PrepareError::Setting { .. }), "{error}");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

const ON_FILES: &str = "
[chip]
preset = \"nandsim-jftl\"
blocks = 256
[ftl]
over-provisioning = 0.15
[fs]
start-sector = 8
[workload]
type = \"mixed\"
operations = 60
";

fn on_files(overrides: &[&str]) -> Experiment {
    take(ON_FILES, overrides)
}

#[test]
fn a_described_file_system_survives_its_cuts() {
    for fs in [
        &["fs.type=\"ext2\""][..],
        &["fs.type=\"ext3\"", "fs.checkpoint=\"remap\""],
        &["fs.type=\"fat16\"", "fs.cluster=512"],
    ] {
        let prepared = Prepared::new(&on_files(fs), 1_000).unwrap();
        assert!(!prepared.cut_short && prepared.operations().len() == 60);
        survives(&prepared, 100, &Plan::default(), &fs);
    }
    let f2fs = take(
        include_str!("../../../../../experiments/crash-f2fs.toml"),
        &[],
    );
    let prepared = Prepared::new(&f2fs, 1_000).unwrap();
    assert!(!prepared.cut_short && prepared.operations().len() == 80);
}

#[test]
fn ubifs_survives_its_cuts_with_every_memory_of_a_scan() {
    let text = include_str!("../../../../../experiments/crash-ubifs.toml");
    let ways: [&[&str]; 4] = [
        &[],
        &["ubi.attach=fastmap"],
        &["ubi.attach=ubil", "ubi.headers=false"],
        &["ubi.attach=ubil"],
    ];
    for way in ways {
        let prepared = Prepared::new(&take(text, way), 1_000).unwrap();
        assert!(!prepared.cut_short && prepared.operations().len() == 150);
        survives(&prepared, 40, &Plan::default(), &way);
    }
}

#[test]
fn calls_on_files_are_followed_too_and_cut_short() {
    let iozone = [
        "fs.type=\"ext3\"",
        "workload.type=\"iozone\"",
        "workload.size=65536",
        "workload.record=4096",
    ];
    let text = ON_FILES.replace("operations = 60\n", "");
    let prepared = Prepared::new(&take(&text, &iozone), 12).unwrap();
    assert!(prepared.cut_short && prepared.operations().len() == 12);
    survives(&prepared, 100, &Plan::default(), &iozone);
    // Without a file system the requests go to the disk.
    let on_disk = Prepared::new(&self::experiment(&[]), 12).unwrap();
    assert!(on_disk.operations()[0].contains(" at sector "));
}

#[test]
fn a_mixed_run_needs_a_file_system_and_is_not_measured() {
    let take = |text: &str| {
        Experiment::take(Document::parse("files.toml", Path::new("."), text, &[]).unwrap())
    };
    let bare = "[chip]\npreset = \"nandsim-jftl\"\nblocks = 256\n[workload]\ntype = \"mixed\"\n";
    assert!(
        take(bare)
            .unwrap_err()
            .to_string()
            .contains("fs.type: found \"none\", expected a file system")
    );
    let zero = "[chip]\npreset = \"nandsim-jftl\"\n[workload]\ntype = \"mixed\"\noperations = 0\n";
    assert!(
        take(zero)
            .unwrap_err()
            .to_string()
            .contains("workload.operations: found 0, expected at least 1")
    );
    let run = nandlab_lab::run(&on_files(&["fs.type=\"ext2\""]), &mut |_| ());
    assert!(
        run.unwrap_err()
            .to_string()
            .contains("workload.type: found \"mixed\", which is for power cuts")
    );
}
