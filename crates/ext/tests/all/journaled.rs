//! Random calls through the journal, in every mode and either way home, give the answers of the
//! reference file system; so does what a mount that never ended leaves behind.

use crate::common;
use crate::common::{assert_clean, made_by_mke2fs, ram};
use nandlab_block::{BlockDevice, Lba, Ram, Record, WriteLog};
use nandlab_ext::{Checkpoint, Ext, Format, Mode, Options, Region, format};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{FileSystem, Ino, Rename, SetAttr, Sync, Time};

const MODES: [Mode; 3] = [Mode::Journal, Mode::Ordered, Mode::Writeback];
const WAYS: [Checkpoint; 3] = [Checkpoint::Copy, Checkpoint::Remap, Checkpoint::RemapLate];

fn ext3(kib: u64, block: u32) -> Ram {
    let mut disk = ram(kib);
    format(
        &mut disk,
        &Format {
            journal: true,
            block: Some(block),
            journal_blocks: Some(1024),
            ..Format::default()
        },
    )
    .unwrap();
    disk
}

/// Runs; every other mount ends as a crash would, once everything is synced.
fn run(disk: &mut Ram, options: Options, rules: Rules, seed: u64, rounds: u64, steps: u64) {
    let mut model = Model::new(seed, rules);
    for round in 0..rounds {
        let what = format!("{options:?} round {round}");
        let mut ext = Ext::mount(&mut *disk, options).unwrap();
        if round == 0 {
            ext.rmdir(Ino::ROOT, b"lost+found", Time::new(1_000_000_000))
                .unwrap();
        }
        model
            .run(&mut ext, steps)
            .unwrap_or_else(|mismatch| panic!("{what}: {mismatch} ({:?})", ext.fault()));
        model.release(&mut ext);
        if round % 2 == 0 {
            ext.sync().unwrap();
            drop(ext);
            let mut again = Ext::mount(&mut *disk, options).unwrap();
            model
                .compare(&mut again)
                .unwrap_or_else(|mismatch| panic!("{what}: after recovery: {mismatch}"));
            again
                .unmount()
                .unwrap_or_else(|error| panic!("{what}: {error} ({:?})", again.fault()));
        } else {
            ext.unmount()
                .unwrap_or_else(|error| panic!("{what}: {error} ({:?})", ext.fault()));
        }
        assert_clean(disk, &what);
        model.compare(&mut common::read_only(&mut *disk)).unwrap();
    }
    assert!(model.judge().inodes() > 40, "a tree worth comparing");
}

#[test]
fn every_mode_and_way_home_answers_like_the_reference() {
    let (rounds, steps) = whole_or((4, 3000), (2, 1800));
    for (seed, (mode, checkpoint)) in (1..).zip(
        MODES
            .into_iter()
            .flat_map(|mode| WAYS.map(|way| (mode, way))),
    ) {
        let options = Options {
            mode,
            checkpoint,
            ..Options::default()
        };
        run(
            &mut ext3(48 * 1024, 1024),
            options,
            Rules {
                xattrs: false,
                ..Rules::unix()
            },
            seed,
            rounds,
            steps,
        );
        run(
            &mut ext3(64 * 1024, 4096),
            options,
            Rules::unix(),
            seed + 10,
            2,
            steps,
        );
    }
}

#[test]
fn every_set_of_options_answers_like_the_reference() {
    let base = Options {
        cache_bytes: 8192,
        dirty_bytes_max: 16_384,
        ..Options::default()
    };
    for (seed, options) in [
        (1, Options { sync: true, ..base }),
        (
            2,
            Options {
                discard: true,
                mode: Mode::Journal,
                checkpoint: Checkpoint::Remap,
                ..base
            },
        ),
        (
            3,
            Options {
                barriers: false,
                commit_interval: 0,
                ..base
            },
        ),
        (
            4,
            Options {
                discard: true,
                mode: Mode::Journal,
                checkpoint: Checkpoint::RemapLate,
                ..base
            },
        ),
    ] {
        run(
            &mut ext3(48 * 1024, 2048),
            options,
            Rules::unix(),
            seed,
            2,
            3000,
        );
    }
}

#[test]
fn a_volume_of_mke2fs_goes_through_all_modes_in_turn() {
    let mut disk = made_by_mke2fs(48 * 1024, &["-t", "ext3", "-b", "1024"]);
    let mut model = Model::new(
        7,
        Rules {
            xattrs: false,
            ..Rules::unix()
        },
    );
    Ext::mount(&mut disk, Options::default())
        .unwrap()
        .rmdir(Ino::ROOT, b"lost+found", Time::new(1_000_000_000))
        .unwrap();
    let mut ext = Ext::mount(&mut disk, Options::default()).unwrap();
    // What was not synced is gone.
    ext.rmdir(Ino::ROOT, b"lost+found", Time::new(1_000_000_000))
        .unwrap();
    ext.unmount().unwrap();
    for mode in MODES.into_iter().chain([Mode::Unjournaled]).cycle().take(8) {
        let mut ext = Ext::mount(
            &mut disk,
            Options {
                mode,
                ..Options::default()
            },
        )
        .unwrap();
        model.compare(&mut ext).unwrap();
        model
            .run(&mut ext, 1500)
            .unwrap_or_else(|mismatch| panic!("{mode:?}: {mismatch} ({:?})", ext.fault()));
        model.release(&mut ext);
        ext.unmount().unwrap();
        assert_clean(&mut disk, &format!("{mode:?}"));
    }
}

#[test]
fn what_lies_where_is_what_dumpe2fs_says() {
    let mut disk = made_by_mke2fs(48 * 1024, &["-t", "ext3", "-b", "1024"]);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    common::save(&mut disk, &path);
    let said = |program: &str, arguments: &[&str]| {
        common::printed(&common::tool(
            program,
            &[arguments, &[path.to_str().unwrap()]].concat(),
        ))
    };
    let groups = said("dumpe2fs", &[]);
    let regions = common::read_only(&mut disk).regions().unwrap();
    for (range, region) in &regions {
        let first = range.start;
        let last = range.end - 1;
        let there = match region {
            Region::Super => {
                groups.contains(&format!("superblock at {first}, "))
                    && groups.contains(&format!("-{last}\n"))
            }
            Region::Bitmaps => groups.contains(&format!("bitmap at {first} (")),
            Region::Inodes => groups.contains(&format!("Inode table at {first}-{last} (")),
            Region::Journal => true,
        };
        assert!(there, "{region:?} {range:?}: {groups}");
    }
    let journal: u32 = regions
        .iter()
        .filter(|(_, region)| *region == Region::Journal)
        .map(|(range, _)| range.end - range.start)
        .sum();
    assert!(
        groups.contains(&format!("Total journal blocks:     {journal}\n")),
        "{journal}: {groups}"
    );
}

#[test]
fn an_fdatasync_makes_overwritten_contents_durable_in_every_mode() {
    for (mode, checkpoint) in MODES
        .into_iter()
        .flat_map(|mode| WAYS.map(|way| (mode, way)))
    {
        let options = Options {
            mode,
            checkpoint,
            ..Options::default()
        };
        let mut disk = ext3(16 * 1024, 1024);
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        let file = common::put(&mut ext, Ino::ROOT, "file", &common::bytes(1, 5000));
        ext.fsync(file, Sync::All).unwrap();
        let new = common::bytes(2, 3000);
        ext.write(file, 1000, &new, common::NOW).unwrap();
        ext.fsync(file, Sync::Data).unwrap();
        drop(ext);
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        let file = ext.lookup(Ino::ROOT, b"file").unwrap().ino;
        let mut found = vec![0; 3000];
        ext.read(file, 1000, &mut found).unwrap();
        assert!(found == new, "{options:?}");
    }
}

#[test]
fn an_fdatasync_of_a_directory_makes_its_names_durable_in_every_mode() {
    let modes = MODES
        .into_iter()
        .flat_map(|mode| WAYS.map(|way| (mode, way)))
        .chain([(Mode::Unjournaled, Checkpoint::Copy)]);
    for (mode, checkpoint) in modes {
        let options = Options {
            mode,
            checkpoint,
            ..Options::default()
        };
        let mut disk = ext3(16 * 1024, 1024);
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        for name in ["gone", "moved"] {
            common::put(&mut ext, Ino::ROOT, name, &common::bytes(1, 5000));
        }
        ext.sync().unwrap();
        ext.unlink(Ino::ROOT, b"gone", common::NOW).unwrap();
        ext.fsync(Ino::ROOT, Sync::Data).unwrap();
        ext.rename(
            (Ino::ROOT, b"moved"),
            (Ino::ROOT, b"new"),
            Rename::Replace,
            common::NOW,
        )
        .unwrap();
        ext.fsync(Ino::ROOT, Sync::Data).unwrap();
        drop(ext);
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        let found =
            ["gone", "moved", "new"].map(|name| ext.lookup(Ino::ROOT, name.as_bytes()).is_ok());
        assert_eq!(found, [false, false, true], "{options:?}");
    }
}

/// As Linux does: another system may have written the volume since, without its journal.
#[test]
fn a_log_is_dropped_where_the_superblock_asks_for_no_recovery() {
    let has_file = |asks: bool| {
        let mut disk = ext3(16 * 1024, 1024);
        let options = Options {
            mode: Mode::Journal,
            ..Options::default()
        };
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        let file = common::put(&mut ext, Ino::ROOT, "file", b"contents");
        ext.fsync(file, Sync::All).unwrap();
        drop(ext);
        if !asks {
            // `needs_recovery` in the incompatible features.
            let mut sector = [0; 512];
            disk.read(Lba(2), &mut sector).unwrap();
            assert_eq!(sector[96] & 4, 4);
            sector[96] &= !4;
            disk.write(Lba(2), &sector).unwrap();
        }
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        ext.lookup(Ino::ROOT, b"file").is_ok()
    };
    assert!(has_file(true) && !has_file(false));
}

/// The disk after the first `count` changes of a log.
fn disk_after(base: &Ram, log: &[Record], count: usize) -> Ram {
    let mut disk = base.clone();
    for record in &log[..count] {
        match record {
            Record::Write { lba, data } => disk.write(*lba, data).unwrap(),
            Record::Discard { lba, sectors } => disk.discard(*lba, *sectors).unwrap(),
            Record::Remap { pairs, .. } => disk.remap(pairs).unwrap(),
            Record::Flush => {}
        }
    }
    disk
}

/// Files whose removal and shortening take many transactions, cut anywhere: what was begun is
/// ended.
#[test]
fn what_is_too_large_for_a_transaction_is_divided_where_a_crash_may_fall() {
    let late = [Mode::Journal, Mode::Ordered].map(|mode| (mode, Checkpoint::RemapLate));
    let others = [
        (Mode::Journal, Checkpoint::Copy),
        (Mode::Journal, Checkpoint::Remap),
        (Mode::Ordered, Checkpoint::Copy),
    ];
    for (mode, checkpoint) in others.into_iter().chain(late) {
        let options = Options {
            mode,
            checkpoint,
            ..Options::default()
        };
        let mut base = ext3(32 * 1024, 1024);
        let long = common::bytes(1, 6 << 20);
        let kept = common::bytes(2, 700_000);
        {
            let mut ext = Ext::mount(&mut base, options).unwrap();
            for name in ["long", "short"] {
                let file = common::put(&mut ext, Ino::ROOT, name, &long);
                ext.forget(file, 1);
            }
            let file = common::put(&mut ext, Ino::ROOT, "kept", &kept);
            ext.forget(file, 1);
            ext.unmount().unwrap();
        }
        let mut logged = WriteLog::new(base.clone());
        {
            let mut ext = Ext::mount(&mut logged, options).unwrap();
            let short = ext.lookup(Ino::ROOT, b"short").unwrap().ino;
            // Copies in the log, which have to be revoked: these make it many transactions.
            let again = ext.lookup(Ino::ROOT, b"long").unwrap().ino;
            ext.write(again, 0, &long[..700_000], common::NOW).unwrap();
            ext.forget(again, 1);
            ext.unlink(Ino::ROOT, b"long", common::NOW).unwrap();
            ext.setattr(
                short,
                &SetAttr {
                    size: Some(5000),
                    ..SetAttr::default()
                },
                common::NOW,
            )
            .unwrap();
            ext.sync().unwrap();
        }
        let log = logged.records().to_vec();
        let mut between = 0;
        for count in (0..=log.len())
            .step_by((log.len() / whole_or(60, 9)).max(1))
            .chain([log.len()])
        {
            let mut disk = disk_after(&base, &log, count);
            let mut ext = Ext::mount(&mut disk, options).unwrap();
            let mut found = Vec::new();
            ext.readdir(Ino::ROOT, 0, &mut |entry| {
                found.push(String::from_utf8(entry.name.to_vec()).unwrap());
                true
            })
            .unwrap();
            let short = ext.lookup(Ino::ROOT, b"short").unwrap();
            between += usize::from(!found.contains(&"long".to_string()) && short.size > 5000);
            assert!(
                short.size == 5000 || short.size == 6 << 20,
                "{options:?} cut at {count}: {} bytes",
                short.size
            );
            let mut data = vec![0; kept.len()];
            let file = ext.lookup(Ino::ROOT, b"kept").unwrap().ino;
            ext.read(file, 0, &mut data).unwrap();
            assert!(data == kept, "{options:?} cut at {count}");
            ext.unmount().unwrap_or_else(|error| {
                panic!("{options:?} cut at {count}: {error} ({:?})", ext.fault())
            });
            assert_clean(&mut disk, &format!("{options:?} cut at {count}"));
        }
        assert!(
            (mode, checkpoint) != (Mode::Journal, Checkpoint::Copy) || between > 0,
            "a cut between the two"
        );
    }
}
