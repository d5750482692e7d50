//! Random calls give the answers of the reference file system, on every width of table, and leave a
//! volume that fsck.vfat accepts.

use crate::common::{assert_clean, mount, ram};
use nandlab_block::Nvram;
use nandlab_fat::{Bits, Fat, Format, Options, format};
use nandlab_sim::Rail;
use nandlab_testkit::media::Media;
use nandlab_testkit::model::{self, Rounds};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::model::{Model, Rules};

/// No two of these are one name in whatever case; some need long names, some have short names that
/// clash.
const NAMES: &[&[u8]] = &[
    b"a",
    b"B.TXT",
    b"readme.txt",
    b"MixedCase.Txt",
    b"long file name one.jpeg",
    b"long file name two.jpeg",
    b"long file name three.jpeg",
    "größer als gedacht".as_bytes(),
    "日本語のファイル名".as_bytes(),
    "😀".as_bytes(),
    b".hidden",
    b"x+y=z",
    b"a very long name indeed, so long that it takes many slots of a directory and crosses from one sector to the next, again and again",
    b"noext",
    b"many.dots.in.it",
];

fn rules() -> Rules {
    Rules {
        names: NAMES,
        hard_links: false,
        symlinks: false,
        special_files: false,
        modes: false,
        owners: false,
        xattrs: false,
        exchange: false,
        ctimes: false,
        tick_secs: 2,
        file_bytes_max: 120_000,
        inodes_max: 150,
    }
}

/// Runs, and in between remounts, and compares what the new mount sees.
fn run(kib: u64, choices: Format, seed: u64, rounds: u64, steps: u64) {
    let mut disk = ram(kib);
    let layout = format(&mut disk, &choices).unwrap();
    assert_eq!(Some(layout.bits), choices.bits);
    let rounds = Rounds {
        mount: &|disk| Box::new(mount(disk)),
        assert_clean,
        rules: rules(),
        seed,
        rounds,
        steps,
    };
    rounds.run(&mut disk);
    let name = format!("fat {seed}");
    Media::default().disk(&mut disk).assert(&name);
}

#[test]
fn fat12_answers_like_the_reference() {
    let rules = Format {
        bits: Some(Bits::Fat12),
        cluster_sectors: Some(16),
        ..Format::default()
    };
    run(24 * 1024, rules, 12, 10, 10_000);
    run(
        16 * 1024,
        Format {
            bits: Some(Bits::Fat12),
            sector: 1024,
            cluster_sectors: Some(8),
            ..Format::default()
        },
        121,
        2,
        5_000,
    );
}

#[test]
fn fat16_answers_like_the_reference() {
    run(
        32 * 1024,
        Format {
            bits: Some(Bits::Fat16),
            ..Format::default()
        },
        16,
        10,
        10_000,
    );
    let one = Format {
        bits: Some(Bits::Fat16),
        cluster_sectors: Some(1),
        fats: 1,
        ..Format::default()
    };
    run(24 * 1024, one, 161, 2, 5_000);
}

#[test]
fn fat32_answers_like_the_reference() {
    let small = Format {
        bits: Some(Bits::Fat32),
        ..Format::default()
    };
    let large = Format {
        sector: 4096,
        cluster_sectors: Some(1),
        ..small.clone()
    };
    let runs = [(40, small, 32, 10, 10_000), (300, large, 321, 2, 5_000)];
    for (mib, choices, seed, rounds, steps) in runs.into_iter().skip(whole_or(0, 1)) {
        run(mib * 1024, choices, seed, rounds, steps);
    }
}

#[test]
fn every_set_of_options_answers_like_the_reference() {
    let base = Options::default();
    let tight = Options {
        cache_bytes: 8192,
        dirty_bytes_max: 16_384,
        discard: true,
        ..base
    };
    for (seed, options) in [
        (1, Options { sync: true, ..base }),
        (2, tight),
        (
            3,
            Options {
                barriers: false,
                utc_offset_minutes: 90,
                ..base
            },
        ),
        (4, Options { once: true, ..base }),
    ] {
        let mut disk = ram(32 * 1024);
        format(&mut disk, &Format::default()).unwrap();
        let mut fat = Fat::mount(&mut disk, options).unwrap();
        let mut model = Model::new(seed, rules());
        println!("{options:?}");
        model::run(&mut model, &mut fat, 10_000);
        model.compare(&mut fat).unwrap();
        model::unmount(&mut model, &mut fat);
        assert_clean(&mut disk, &format!("{options:?}"));
    }
}

#[test]
fn metadata_memory_large_or_small_answers_like_the_reference() {
    for (seed, sectors) in [(1, 2048), (2, 192)] {
        let mut disk = ram(32 * 1024);
        let mut memory = Nvram::new(64, sectors, Rail::new());
        format(&mut disk, &Format::default()).unwrap();
        let mut model = Model::new(seed, rules());
        for _ in 0..3 {
            let mut fat =
                Fat::mount_with_nvram(&mut disk, &mut memory, Options::default()).unwrap();
            println!("{sectors} sectors");
            model::run(&mut model, &mut fat, 4000);
            model::unmount(&mut model, &mut fat);
            assert_clean(&mut disk, &format!("{sectors} sectors"));
            model.compare(&mut mount(&mut disk)).unwrap();
        }
    }
}
