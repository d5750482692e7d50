//! Random calls give the answers of the reference file system, on volumes of every shape, nearly
//! full ones too, and leave a volume that fsck.f2fs accepts.

use crate::common;
use crate::common::{NOW, assert_clean, made_by_mkfs, put, ram};
use nandlab_block::Ram;
use nandlab_f2fs::{Counts, F2fs, Format, Options, format};
use nandlab_testkit::media::Media;
use nandlab_testkit::model::Rounds;
use nandlab_vfs::model::Rules;
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode};

fn formatted(mib: u64, choices: &Format) -> Ram {
    let mut disk = ram(mib * 1024);
    format(&mut disk, choices).unwrap();
    disk
}

/// Runs, and in between remounts, and compares what the new mount sees.
fn compare(disk: &mut Ram, options: Options, seed: u64, rounds: u64, steps: u64) {
    let rounds = Rounds {
        mount: &|disk| Box::new(F2fs::mount(disk, options).unwrap()),
        assert_clean,
        rules: Rules::unix(),
        seed,
        rounds,
        steps,
    };
    rounds.run(disk);
}

/// The same on a volume of ours, whose bytes in the end are kept.
fn run(disk: &mut Ram, options: Options, seed: u64, rounds: u64, steps: u64) {
    compare(disk, options, seed, rounds, steps);
    Media::default().disk(disk).assert(&format!("f2fs {seed}"));
}

#[test]
fn defaults_answer_like_the_reference() {
    run(
        &mut formatted(128, &Format::default()),
        Options::default(),
        1,
        8,
        5000,
    );
}

#[test]
fn larger_sections_answer_like_the_reference() {
    run(
        &mut formatted(
            200,
            &Format {
                segs_per_sec: 2,
                secs_per_zone: 2,
                ..Format::default()
            },
        ),
        Options::default(),
        2,
        4,
        5000,
    );
}

#[test]
fn a_volume_of_mkfs_with_features_answers_like_the_reference() {
    let features = "extra_attr,inode_checksum,inode_crtime,sb_checksum,flexible_inline_xattr";
    compare(
        &mut made_by_mkfs(100, &["-O", features]),
        Options::default(),
        3,
        4,
        5000,
    );
}

#[test]
fn every_set_of_options_answers_like_the_reference() {
    let base = Options::default();
    let sets = [
        Options { logs: 2, ..base },
        Options {
            logs: 4,
            discard: false,
            ordered: false,
            ..base
        },
        Options {
            inline_data: false,
            inline_names: false,
            roll_forward: false,
            ..base
        },
        Options {
            cache_bytes: 8192,
            dirty_bytes_max: 70_000,
            ..base
        },
    ];
    for (seed, options) in (10..).zip(sets) {
        run(
            &mut formatted(64, &Format::default()),
            options,
            seed,
            2,
            5000,
        );
    }
}

/// Fills all but so many percent with a file, part by part.
fn fill(f2fs: &mut F2fs<&mut Ram>, left_percent: u64) {
    let by = Caller::root(NOW);
    let ballast = f2fs
        .create(Ino::ROOT, b"ballast", NewNode::File, 0o600, by)
        .unwrap()
        .ino;
    let total = f2fs.statfs().unwrap().free;
    let mut at = 0;
    while f2fs.statfs().unwrap().free * 100 > total * left_percent {
        at += f2fs
            .write(ballast, at, &common::bytes(at, 40_960), NOW)
            .unwrap() as u64;
    }
    f2fs.forget(ballast, 1);
}

/// Writes here and there in a large file while little space is left, so that sections must be
/// cleaned.
fn churn(mib: u64, left_percent: u64, options: Options, seed: u64) -> Counts {
    let mut disk = formatted(mib, &Format::default());
    let mut f2fs = F2fs::mount(&mut disk, options).unwrap();
    fill(&mut f2fs, left_percent);
    let ballast = f2fs.lookup(Ino::ROOT, b"ballast").unwrap();
    let blocks = ballast.size / 4096;
    for number in 0..12_000u64 {
        let place = nandlab_sim::mix(seed, number) % blocks;
        let data = common::bytes(number, 4096);
        assert_eq!(
            f2fs.write(ballast.ino, place * 4096, &data, NOW),
            Ok(4096),
            "{number}: {:?}",
            f2fs.fault()
        );
        if number % 50 == 0 {
            f2fs.fsync(ballast.ino, nandlab_vfs::Sync::Data).unwrap();
        }
    }
    let counts = f2fs.counts();
    let last = nandlab_sim::mix(seed, 11_999) % blocks;
    let mut data = vec![0; 4096];
    f2fs.read(ballast.ino, last * 4096, &mut data).unwrap();
    assert!(data == common::bytes(11_999, 4096));
    f2fs.forget(ballast.ino, 1);
    for number in 0..20 {
        let file = put(
            &mut f2fs,
            Ino::ROOT,
            &format!("small {number}"),
            &common::bytes(number, 5000),
        );
        f2fs.forget(file, 1);
    }
    f2fs.unmount().unwrap();
    assert_clean(&mut disk, &format!("{mib} MiB, {left_percent} % left"));
    counts
}

#[test]
fn a_volume_that_is_nearly_full_goes_on() {
    let mut cleaned = 0;
    let shapes = [
        (64, 5, 6, true),
        (100, 10, 6, false),
        (128, 5, 4, false),
        (160, 7, 2, false),
        (300, 5, 6, true),
        (77, 8, 6, false),
    ];
    for (seed, (mib, left, logs, threaded)) in (1..).zip(shapes) {
        let counts = churn(
            mib,
            left,
            Options {
                logs,
                threaded,
                ..Options::default()
            },
            seed,
        );
        println!("{mib} MiB, {left} % left, threaded {threaded}: {counts:?}");
        cleaned += counts.cleaned;
    }
    assert!(cleaned > 20, "only {cleaned} sections cleaned");
}

#[test]
fn a_full_volume_says_so_and_recovers() {
    let mut disk = formatted(64, &Format::default());
    let mut f2fs = F2fs::mount(&mut disk, Options::default()).unwrap();
    let file = f2fs
        .create(Ino::ROOT, b"all", NewNode::File, 0o600, Caller::root(NOW))
        .unwrap()
        .ino;
    let mut at = 0;
    let error = loop {
        match f2fs.write(file, at, &common::bytes(at, 100_000), NOW) {
            Ok(written) => at += written as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error, nandlab_vfs::Errno::NoSpace);
    assert!(at > 15 << 20, "{at} bytes of 16 MiB");
    f2fs.fsync(file, nandlab_vfs::Sync::All).unwrap();
    f2fs.setattr(
        file,
        &nandlab_vfs::SetAttr {
            size: Some(100),
            ..Default::default()
        },
        NOW,
    )
    .unwrap();
    put(&mut f2fs, Ino::ROOT, "again", &common::bytes(1, 14 << 20));
    f2fs.forget(file, 1);
    f2fs.unmount().unwrap();
    assert_clean(&mut disk, "after having been full");
}
