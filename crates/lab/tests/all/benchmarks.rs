//! Bonnie and IOzone on our file systems: every call is carried out, every byte is there
//! afterwards, and whole stacks run them.

use nandlab_block::Ram;
use nandlab_ext::{Ext, Mode, Options};
use nandlab_fat::Fat;
use nandlab_lab::play::{Moment, Played, play, verify};
use nandlab_lab::{Experiment, run};
use nandlab_stack::Document;
use nandlab_vfs::{FileSystem, Ino, Time};
use nandlab_workload::bonnie::{Bonnie, BonnieSpec};
use nandlab_workload::files::{Expected, FileCall, FileCalls};
use nandlab_workload::iozone::{Iozone, IozoneSpec, IozoneTest};
use std::path::Path;

fn bonnie() -> Bonnie {
    Bonnie::new(BonnieSpec {
        bytes: 1 << 20,
        seeks: 200,
        ..BonnieSpec::default()
    })
    .unwrap()
}

fn iozone() -> Iozone {
    Iozone::new(IozoneSpec {
        bytes: 1 << 20,
        tests: IozoneTest::ALL.into(),
        ..IozoneSpec::default()
    })
    .unwrap()
}

/// Plays a stream, mounts again, and finds what the calls must have left.
fn played<D, F: FileSystem>(
    disk: D,
    mount: impl Fn(D) -> F,
    take: impl Fn(F) -> D,
    mut calls: impl FileCalls,
) -> Played {
    let mut fs = mount(disk);
    let mut seconds = 1_000_000_000;
    let mut expected = Expected::new(calls.contents());
    let mut now = || {
        seconds += 1;
        Time::new(seconds / 100)
    };
    let mut look = |moment, call: &FileCall| {
        if matches!(moment, Moment::After) {
            expected.apply(call).unwrap();
        }
    };
    let played =
        play(&mut fs, &mut calls, &mut now, &mut look).unwrap_or_else(|error| panic!("{error}"));
    fs.unmount().unwrap();
    let mut again = mount(take(fs));
    verify(&mut again, Ino::ROOT, &expected, &calls).unwrap_or_else(|error| panic!("{error}"));
    again.unmount().unwrap();
    played
}

fn on_ext(mode: Mode, calls: impl FileCalls) -> Played {
    let mut disk = Ram::new(512, 16 << 11);
    nandlab_ext::format(
        &mut disk,
        &nandlab_ext::Format {
            journal: true,
            ..nandlab_ext::Format::default()
        },
    )
    .unwrap();
    played(
        disk,
        |disk| {
            Ext::mount(
                disk,
                Options {
                    mode,
                    ..Options::default()
                },
            )
            .unwrap()
        },
        Ext::into_device,
        calls,
    )
}

fn on_fat(calls: impl FileCalls) -> Played {
    let mut disk = Ram::new(512, 16 << 11);
    nandlab_fat::format(&mut disk, &nandlab_fat::Format::default()).unwrap();
    played(
        disk,
        |disk| Fat::mount(disk, nandlab_fat::Options::default()).unwrap(),
        |fat| fat.into_parts().0,
        calls,
    )
}

#[test]
fn what_bonnie_wrote_is_there_in_every_mode_and_on_fat() {
    // By characters, rewritten, by blocks: 256 each; of 200 seeks every tenth of each of three
    // processes updates: turns 0, 10, ... 60 of three.
    let expected = Played {
        creates: 2,
        opens: 4,
        closes: 6,
        reads: 256 * 3 + 200,
        bytes_read: (256 * 3 + 200) << 12,
        writes: 256 * 3 + 21,
        bytes_written: (256 * 3 + 21) << 12,
        fsyncs: 3,
        removes: 1,
        computes: 512,
        ..Played::default()
    };
    for mode in [
        Mode::Journal,
        Mode::Ordered,
        Mode::Writeback,
        Mode::Unjournaled,
    ] {
        assert_eq!(on_ext(mode, bonnie()), expected, "{mode:?}");
    }
    assert_eq!(on_fat(bonnie()), expected);
}

#[test]
fn what_iozone_wrote_is_there_in_every_mode_and_on_fat() {
    // Written four times, read six times, and two records before the watch starts.
    let reads = 256 * 6 + 2;
    let writes = 256 * 4;
    for mode in [
        Mode::Journal,
        Mode::Ordered,
        Mode::Writeback,
        Mode::Unjournaled,
    ] {
        let played = on_ext(mode, iozone());
        assert_eq!(
            (played.reads, played.writes, played.bytes_written),
            (reads, writes, writes << 12),
            "{mode:?}"
        );
    }
    assert_eq!(on_fat(iozone()).reads, reads);
}

/// A small stack with a workload.
fn operations(workload: &str) -> Vec<(String, u64)> {
    let text = format!(
        "[chip]\npreset = \"small-block-64MiB\"\nblocks = 1024\n[fs]\ntype = \"fat16\"\nsize = \"12 MiB\"\n[workload]\n{workload}"
    );
    let experiment =
        Experiment::take(Document::parse("e.toml", Path::new(""), &text, &[]).unwrap()).unwrap();
    let outcome = run(&experiment, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    outcome
        .result
        .host
        .operations
        .iter()
        .map(|row| (row.operation.clone(), row.count))
        .collect()
}

#[test]
fn descriptions_run_them_on_whole_stacks() {
    let count = |rows: &[(String, u64)], name: &str| {
        rows.iter()
            .find(|(one, _)| one == name)
            .map_or(0, |(_, count)| *count)
    };
    let rows = operations("type = \"bonnie\"\nsize = \"1 MiB\"\nseeks = 200");
    assert_eq!(
        [
            count(&rows, "read"),
            count(&rows, "write"),
            count(&rows, "flush")
        ],
        [968, 789, 3],
        "{rows:?}"
    );
    let rows = operations("type = \"iozone\"\nsize = \"1 MiB\"\nrecord = \"64 KiB\"");
    // An fsync before and after each phase, and one at its end.
    assert_eq!(
        [
            count(&rows, "read"),
            count(&rows, "write"),
            count(&rows, "flush")
        ],
        [0, 32, 6],
        "{rows:?}"
    );
}
