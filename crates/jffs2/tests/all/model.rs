//! Random calls give the answers of the reference file system, on every kind of medium, under
//! pressure, and again after each mount.

use crate::common;
use crate::common::{NAND, SMALL, chip, nand, nor, percent_full, rules, small_rules, unmarked};
use nandlab_jffs2::{Choice, Compression, Endian, Jffs2, Options};
use nandlab_mtd::{Block, Mtd};
use nandlab_nand::Chip;
use nandlab_testkit::media::Media;
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{FileSystem, Time};

/// Runs, and in between mounts anew, and compares what the new mount sees.
fn run<M: Mtd>(
    mut mtd: M,
    options: Options,
    rules: Rules,
    seed: u64,
    rounds: u64,
    steps: u64,
) -> M {
    let mut model = Model::new(seed, rules);
    for round in 0..rounds {
        let mut fs = Jffs2::mount(mtd, Options { seed, ..options }).unwrap();
        model
            .run(&mut fs, steps)
            .unwrap_or_else(|mismatch| panic!("{options:?}: {mismatch} ({:?})", fs.fault()));
        if round % 3 == 0 {
            model.compare(&mut fs).unwrap();
        }
        model.release(&mut fs);
        fs.unmount()
            .unwrap_or_else(|error| panic!("{error} ({:?})", fs.fault()));
        let mut again = Jffs2::mount(
            fs.into_mtd(),
            Options {
                read_only: true,
                seed,
                ..options
            },
        )
        .unwrap();
        model
            .compare(&mut again)
            .unwrap_or_else(|mismatch| panic!("{options:?}: after round {round}: {mismatch}"));
        mtd = again.into_mtd();
    }
    assert!(model.judge().inodes() > 60, "a tree worth comparing");
    let name = format!("jffs2 {seed} {}", mtd.geometry().bytes());
    Media::default().flash(&mut mtd).assert(&name);
    mtd
}

#[test]
fn nand_answers_like_the_reference() {
    run(nand(NAND, 160), Options::default(), rules(), 1, 4, 5000);
    run(
        nand(SMALL, 800),
        Options {
            summary: false,
            ..Options::default()
        },
        rules(),
        2,
        2,
        5000,
    );
}

#[test]
fn nor_answers_like_the_reference() {
    run(
        nor(160, 128 * 1024),
        Options {
            summary: false,
            ..Options::default()
        },
        rules(),
        3,
        4,
        5000,
    );
    run(nor(300, 64 * 1024), Options::default(), rules(), 4, 2, 5000);
}

/// Runs without a pause on a medium that is nearly full; gives how full it was at most.
fn press<M: Mtd>(mtd: M, options: Options, seed: u64, rounds: u64) -> u64 {
    let mut fs = Jffs2::mount(mtd, options).unwrap();
    let mut model = Model::new(seed, small_rules());
    let mut most = 0;
    for round in 0..rounds {
        model.run(&mut fs, 500).unwrap_or_else(|mismatch| {
            panic!("{options:?} round {round}: {mismatch} ({:?})", fs.fault())
        });
        most = most.max(percent_full(&mut fs));
        for _ in 0..round % 40 {
            // In the background, as long as there is something to do.
            FileSystem::work(&mut fs, Time::MAX).unwrap();
        }
        if round % 8 == 7 {
            model.compare(&mut fs).unwrap();
            model.release(&mut fs);
            fs.unmount().unwrap();
            fs = Jffs2::mount(fs.into_mtd(), options).unwrap();
            model
                .compare(&mut fs)
                .unwrap_or_else(|mismatch| panic!("{options:?} after round {round}: {mismatch}"));
        }
    }
    most
}

#[test]
fn under_pressure_every_medium_answers_like_the_reference() {
    let base = Options {
        compression: Compression::NONE,
        ..Options::default()
    };
    let full = [
        press(chip(20, 16), base, 1, 48),
        press(
            chip(23, 16),
            Options {
                summary: false,
                sync_collects: false,
                ..base
            },
            2,
            48,
        ),
        press(
            nor(23, 32 * 1024),
            Options {
                summary: false,
                ..base
            },
            3,
            48,
        ),
        press(nor(20, 32 * 1024), base, 4, 48),
        press(
            chip(10, 16),
            Options {
                compression: Compression::CLASSIC,
                inodes_kept: 3,
                ..unmarked()
            },
            5,
            48,
        ),
    ];
    println!("{full:?} percent full");
    assert!(
        full.iter().all(|percent| *percent >= 80) && full.iter().any(|percent| *percent >= 90),
        "{full:?}"
    );
}

#[test]
fn every_set_of_options_answers_like_the_reference() {
    let base = Options::default();
    let by_size = Compression {
        choice: Choice::Size,
        ..Compression::LINUX
    };
    let sets = [
        Options { sync: true, ..base },
        Options {
            resume: true,
            ..base
        },
        Options {
            endian: Some(Endian::Big),
            ..base
        },
        Options {
            compression: by_size,
            inodes_kept: 2,
            ..base
        },
        Options {
            compression: Compression::NONE,
            endian: Some(Endian::Big),
            summary: false,
            ..base
        },
    ];
    for (seed, options) in (1..).zip(sets) {
        let mtd = run(chip(110, 64), options, rules(), seed, 2, 2500);
        if options.endian == Some(Endian::Big) {
            assert_eq!(
                Jffs2::mount(mtd, base).unwrap().endian(),
                Endian::Big,
                "found by itself"
            );
        }
    }
}

#[test]
fn failing_pages_and_blocks_lose_nothing() {
    for (seed, options) in [
        (1, Options::default()),
        (
            2,
            Options {
                summary: false,
                compression: Compression::CLASSIC,
                ..Options::default()
            },
        ),
    ] {
        let mut spec = common::chip_spec(120, 16);
        spec.seed = seed;
        (
            spec.reliability.program_fail,
            spec.reliability.erase_fail,
            spec.reliability.factory_bad,
        ) = ([0.004; 2], [0.1; 2], 0.03);
        let mut chip = run(
            Chip::new(spec).unwrap(),
            options,
            small_rules(),
            seed,
            12,
            4000,
        );
        let bad = (0..120)
            .filter(|block| chip.is_bad(Block(*block)).unwrap())
            .count();
        let failures = chip.counts().failures;
        println!("{failures} failures, {bad} bad blocks");
        assert!(
            failures > 20 && bad > 3,
            "{failures} failures, {bad} bad blocks"
        );
    }
}

#[test]
fn a_run_is_a_function_of_its_inputs() {
    let image = |seed| {
        let mut fs = Jffs2::mount(
            nand(SMALL, 130),
            Options {
                seed,
                ..Options::default()
            },
        )
        .unwrap();
        let mut model = Model::new(5, small_rules());
        model
            .run(&mut fs, 6000)
            .unwrap_or_else(|mismatch| panic!("{mismatch} ({:?})", fs.fault()));
        model.release(&mut fs);
        fs.unmount().unwrap();
        fs.into_mtd().into_backing()
    };
    let first = image(1);
    assert!(first == image(1) && first != image(2));
}
