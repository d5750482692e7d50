//! Workloads on files through whole stacks: every file is there afterwards, times add up, and the
//! requests alone do the same to the flash.

use nandlab_lab::run::{FilesOutcome, run_again, run_files};
use nandlab_lab::{Experiment, run};
use nandlab_stack::Document;
use std::path::Path;

/// A small camera on a small volume.
const EXPERIMENT: &str = "
[chip]
preset = \"small-block-64MiB\"
blocks = 1024
[fs]
type = \"fat16\"
size = \"12 MiB\"
cluster = \"2 KiB\"
root-entries = 512
align = false
barriers = false
[host]
platform = \"arm-400mhz\"
[workload]
type = \"camera-ms500\"
transactions = 3
photos = 6
deletes = 3
photo-min = \"100 KiB\"
photo-max = \"200 KiB\"
delete-all-above = 9
total = \"2700 KiB\"
[run]
precondition = \"sequential\"
series-interval = \"1 s\"
";

fn experiment(settings: &[&str]) -> Experiment {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Experiment::take(Document::parse("small.toml", Path::new(""), EXPERIMENT, &settings).unwrap())
        .unwrap()
}

/// IOzone on a volume of UBI's, with a larger chip and a smaller file.
fn on_ubi(settings: &[&str]) -> Experiment {
    let larger = [
        "fs.compression=",
        "chip.blocks=512",
        "ubi.volume-size=",
        "workload.size=1 MiB",
    ];
    let settings: Vec<String> = larger
        .iter()
        .chain(settings)
        .map(ToString::to_string)
        .collect();
    let text = include_str!("../../../../papers/ubil/iozone.toml");
    Experiment::take(Document::parse("iozone.toml", Path::new(""), text, &settings).unwrap())
        .unwrap()
}

fn played(settings: &[&str]) -> FilesOutcome {
    let experiment = experiment(settings);
    run_files(
        &experiment,
        experiment.workload.files().unwrap(),
        true,
        &mut |_| (),
    )
    .unwrap()
}

fn seconds(of: &FilesOutcome) -> f64 {
    of.outcome.result.simulated_ns as f64 / 1e9
}

/// Every scheme. A run compares each file with what the calls must have left, and fails if one
/// differs.
const SCHEMES: [&[&str]; 7] = [
    &["ftl.scheme=page"],
    &["ftl.scheme=bast"],
    &["ftl.scheme=sast"],
    &["ftl.scheme=fast"],
    &["ftl.scheme=nftl"],
    &["ftl.scheme=mtdblock"],
    &["ftl.scheme=ubi"],
];

#[test]
fn every_file_is_there_after_a_run_on_each_scheme_with_and_without_nvram() {
    for scheme in SCHEMES {
        for nvram in [
            &["nvram.holds=nothing"][..],
            &["nvram.holds=metadata"],
            &["nvram.holds=writes", "nvram.size=128 KiB"],
        ] {
            let of = played(&[scheme, nvram].concat());
            let row = |name: &str| {
                of.outcome
                    .result
                    .host
                    .operations
                    .iter()
                    .find(|row| row.operation == name)
                    .unwrap()
                    .count
            };
            assert!(
                row("flush").abs_diff(row("write")) <= 3,
                "{scheme:?}: a truncated index is made durable too"
            );
            assert!(row("write") > 5400 && seconds(&of) > 1.0, "{scheme:?}");
            let hot = nvram[0] != "nvram.holds=metadata";
            assert_eq!(
                of.writes.metadata().writes > 0.5,
                hot,
                "{scheme:?} {nvram:?}: {:?}",
                of.writes.metadata()
            );
        }
    }
}

#[test]
fn a_file_system_asks_the_same_of_every_layer() {
    let bast = played(&["ftl.scheme=bast"]);
    for scheme in SCHEMES {
        assert!(played(scheme).requests == bast.requests, "{scheme:?}");
    }
}

#[test]
fn time_for_each_sector_adds_up_exactly() {
    for scheme in ["ftl.scheme=bast", "ftl.scheme=nftl"] {
        let bare = played(&[scheme]);
        let extra = played(&[scheme, "host.layer-extra=1234567 ns"]);
        let expected = bare.outcome.result.simulated_ns + 1_234_567 * bare.writes.total();
        assert_eq!(extra.outcome.result.simulated_ns, expected);
    }
}

#[test]
fn the_requests_alone_take_the_same_time_and_do_the_same_to_the_flash() {
    for scheme in SCHEMES {
        let whole = played(scheme);
        let again = run_again(&experiment(scheme), &whole).unwrap();
        assert_eq!(
            again.ns + whole.calls_ns,
            whole.outcome.result.simulated_ns,
            "{scheme:?}"
        );
        assert_eq!(
            again.causes, whole.outcome.result.flash.causes,
            "{scheme:?}"
        );
    }
}

#[test]
fn every_file_is_there_after_a_run_on_a_volume_of_ubis_with_each_memory_of_a_scan() {
    let ways: [&[&str]; 4] = [
        &["ubi.attach=scan"],
        &["ubi.attach=fastmap"],
        &["ubi.attach=ubil"],
        &[
            "ubi.attach=ubil",
            "ubi.headers=false",
            "ubi.incremental=true",
            "ubi.chained=true",
        ],
    ];
    for fs in [
        "fs.type=f2fs",
        "fs.type=ext3",
        "fs.type=ext2",
        "fs.type=fat16",
    ] {
        for way in ways {
            let experiment = on_ubi(&[&[fs], way].concat());
            let whole = run_files(
                &experiment,
                experiment.workload.files().unwrap(),
                true,
                &mut |_| (),
            )
            .unwrap();
            let host = whole
                .outcome
                .result
                .flash
                .causes
                .iter()
                .find(|row| row.cause == "host data")
                .unwrap();
            assert!(
                host.programs > 512 && whole.phases.len() > 4,
                "{fs} {way:?}: {host:?}"
            );
            let again = run_again(&experiment, &whole).unwrap();
            assert_eq!(
                again.causes, whole.outcome.result.flash.causes,
                "{fs} {way:?}"
            );
        }
    }
}

#[test]
fn a_run_is_a_function_of_its_description() {
    let text = |settings: &[&str]| {
        serde_json::to_string(&run(&experiment(settings), &mut |_| ()).unwrap().result).unwrap()
    };
    assert!(text(&["ftl.scheme=fast"]) == text(&["ftl.scheme=fast"]));
    assert!(text(&["ftl.scheme=fast"]) != text(&["ftl.scheme=fast", "run.seed=2"]));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let refused = |settings: &[&str]| {
        run(&experiment(settings), &mut |_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused(&["chip.contents=dropped"])
            .starts_with("chip.contents: found \"dropped\", expected \"kept\"")
    );
    assert!(
        refused(&["fs.start-sector=40000"])
            .contains("fs.start-sector: found 40000, expected a place on the disk of")
    );
    assert!(refused(&["fs.size=1 MiB"]).contains("fs: mkfs: "));
    assert!(
        refused(&[
            "workload.total=0",
            "workload.photos=400",
            "workload.deletes=0"
        ])
        .contains("ENOSPC")
    );
    let take = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        Experiment::take(
            Document::parse("small.toml", Path::new(""), EXPERIMENT, &settings).unwrap(),
        )
        .unwrap_err()
        .to_string()
    };
    assert!(
        take(&["workload.photo-min=1 MiB"])
            .contains("workload.photo-max: found 204800, expected at least the shortest photo")
    );
    assert!(
        take(&["workload.index-write=byte"])
            .contains("workload.index-write: found \"byte\", expected one of \"units\", \"entry\"")
    );
    assert!(
        take(&["workload.theta=1"])
            .contains("workload.theta: has no effect, it needs type = \"pattern\"")
    );
    assert!(
        take(&["workload.unit=0"]).contains("workload.unit: found 0, expected 1 to"),
        "{}",
        take(&["workload.unit=0"])
    );
}

#[test]
fn files_need_a_file_system_and_a_file_system_needs_files() {
    let take = |text: &str| {
        let text = format!("[chip]\npreset = \"slc-2k\"\n{text}");
        Experiment::take(Document::parse("e.toml", Path::new(""), &text, &[]).unwrap())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        take("[workload]\ntype = \"camera-ms500\""),
        "e.toml: fs.type: found \"none\", expected a file system, since workload.type = \"camera-ms500\" writes files"
    );
    assert!(take("[fs]\ntype = \"fat16\"").starts_with(
        "e.toml: workload.type: found requests to the disk, expected a workload on files"
    ));
}
