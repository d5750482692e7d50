//! Random calls give the answers of the reference file system on volumes that are always 95 % full.
//! Cleaning runs in the foreground and in the background, and with threaded logging.

use crate::common::full::{Aging, FULL};
use crate::common::{assert_clean, ram};
use nandlab_block::BlockDevice;
use nandlab_f2fs::{AgeThreshold, Counts, F2fs, Format, InPlace, Options, Policy, format};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::FileSystem;

/// Volumes are left and mounted again in between.
const ROUNDS: u64 = 3;

/// Blocks that are free and blocks that segments hold.
fn room<D: BlockDevice>(f2fs: &mut F2fs<D>) -> u64 {
    f2fs.statfs().unwrap().free + f2fs.valid_blocks().map(u64::from).sum::<u64>()
}

fn age(mib: u64, choices: &Format, options: Options, seed: u64, calls: u64) -> Counts {
    // The calls in between leave the cleaner no idle time.
    let options = Options {
        cleaning_idle: 0,
        ..options
    };
    let what = format!("{choices:?} {options:?}");
    let mut disk = ram(mib * 1024);
    format(&mut disk, choices).unwrap();
    let mut f2fs = F2fs::mount(&mut disk, options).unwrap();
    let before = room(&mut f2fs);
    let mut aging = Aging::new(&mut f2fs, seed);
    let mut sum = Counts::default();
    for round in 0..ROUNDS {
        aging.run(&mut f2fs, calls / ROUNDS);
        aging.model.release(&mut f2fs);
        f2fs.unmount()
            .unwrap_or_else(|error| panic!("{error} ({:?})", f2fs.fault()));
        let counts = f2fs.counts();
        println!(
            "{mib} MiB, {} logs, round {round}, {} %: {counts:?}",
            options.logs,
            aging.percent()
        );
        sum.cleaned += counts.cleaned;
        sum.cleaned_background += counts.cleaned_background;
        sum.threaded += counts.threaded;
        sum.in_place += counts.in_place;
        drop(f2fs);
        assert_clean(&mut disk, &what);
        f2fs = F2fs::mount(&mut disk, options).unwrap();
        aging.model.compare(&mut f2fs).unwrap();
        assert_eq!(
            room(&mut f2fs),
            before,
            "segments hold what the volume says is in use"
        );
    }
    assert!(aging.percent() >= FULL, "{} % full", aging.percent());
    sum
}

#[test]
fn six_logs_go_on() {
    let counts = age(128, &Format::default(), Options::default(), 1, 36_000);
    assert!(
        counts.threaded > 5000 && counts.cleaned_background > 20,
        "{counts:?}"
    );
}

#[test]
fn four_logs_go_on_that_fill_no_holes() {
    let background = Policy::AgeThreshold(AgeThreshold {
        seconds: 300,
        ..AgeThreshold::default()
    });
    let counts = age(
        128,
        &Format::default(),
        Options {
            logs: 4,
            threaded: false,
            background,
            ..Options::default()
        },
        2,
        whole_or(36_000, 12_000),
    );
    let least = whole_or(10, 3);
    assert!(
        counts.cleaned > 10 * least && counts.cleaned_background > least && counts.threaded == 0,
        "{counts:?}"
    );
}

#[test]
fn two_logs_go_on_though_every_fsync_is_a_checkpoint() {
    let counts = age(
        128,
        &Format::default(),
        Options {
            logs: 2,
            ..Options::default()
        },
        3,
        36_000,
    );
    assert!(counts.threaded > 5000, "{counts:?}");
}

#[test]
fn contents_are_overwritten_in_place_where_that_is_wanted() {
    for (seed, in_place) in (4..).zip([InPlace::Above(70), InPlace::Fsync(8)]) {
        let counts = age(
            96,
            &Format::default(),
            Options {
                in_place,
                ..Options::default()
            },
            seed,
            9000,
        );
        assert!(counts.in_place > 1000, "{in_place:?}: {counts:?}");
    }
}

#[test]
fn sections_and_zones_of_several_segments_go_on() {
    let runs = [(6, 2, true), (7, 3, false)];
    for (seed, segs_per_sec, threaded) in runs.into_iter().skip(whole_or(0, 1)) {
        let choices = Format {
            segs_per_sec,
            secs_per_zone: 2,
            ..Format::default()
        };
        let options = Options {
            threaded,
            foreground: Policy::CostBenefit,
            ..Options::default()
        };
        let counts = age(320, &choices, options, seed, whole_or(6000, 1500));
        let least = whole_or(1000, 200);
        assert!(
            counts.cleaned > least / 100 || threaded && counts.threaded > least,
            "{counts:?}"
        );
    }
}
