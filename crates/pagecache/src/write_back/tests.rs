//! Promises of the routine, one by one, and all of them against the reference.

use super::*;
use alloc::rc::Rc;
use core::cell::Cell;
use nandlab_vfs::MemFs;
use nandlab_vfs::model::{Model, Rules};

const NOW: Time = Time::new(1_000_000_000);

type Watch = Rc<Cell<Time>>;

fn behind(settings: Settings) -> (WriteBack<MemFs, impl Fn() -> Time>, Watch) {
    let watch = Rc::new(Cell::new(NOW));
    let clock = watch.clone();
    (
        WriteBack::new(MemFs::new(64 << 20, NOW), move || clock.get(), settings),
        watch,
    )
}

fn file<C: Fn() -> Time>(fs: &mut WriteBack<MemFs, C>, name: &str) -> Ino {
    fs.create(
        Ino::ROOT,
        name.as_bytes(),
        NewNode::File,
        0o644,
        Caller::root(NOW),
    )
    .unwrap()
    .ino
}

fn size_behind<C: Fn() -> Time>(fs: &mut WriteBack<MemFs, C>, ino: Ino) -> u64 {
    fs.fs.getattr(ino).unwrap().size
}

#[test]
fn any_calls_give_the_answers_of_the_file_system_behind() {
    let base = Settings::default();
    let every = [
        base,
        Settings {
            merge_bytes: 128 << 10,
            ..base
        },
        Settings {
            memory: 64 << 10,
            threshold: 3,
            interval: SECOND / 2,
            ..base
        },
        Settings {
            memory: 4096,
            ..base
        },
        Settings {
            file_bytes_max: 50_000,
            ..base
        },
    ];
    for (seed, settings) in (1..).zip(every) {
        let (mut fs, watch) = behind(settings);
        let mut model = Model::new(seed, Rules::unix());
        for round in 0..60 {
            model
                .run(&mut fs, 250)
                .unwrap_or_else(|mismatch| panic!("{settings:?}: {mismatch}"));
            watch.set(Time::new(NOW.secs + 10_000 * round));
            fs.work(watch.get()).unwrap();
        }
        model.compare(&mut fs).unwrap();
        model.release(&mut fs);
        fs.sync().unwrap();
        assert_eq!(
            (
                fs.queued(),
                fs.ahead.len(),
                fs.kept.len(),
                fs.nameless.len()
            ),
            (0, 0, 0, 0),
            "{settings:?}"
        );
        let tally = fs.tally();
        assert!(
            tally.deferred > 500 && tally.fflush > 30,
            "{settings:?}: {tally:?}"
        );
        // Behind the routine is what was in front of it.
        model.compare(&mut fs.into_inner()).unwrap();
    }
}

#[test]
fn a_write_is_seen_at_once_and_reaches_the_file_system_when_the_timer_fires() {
    let (mut fs, watch) = behind(Settings::default());
    let ino = file(&mut fs, "f");
    assert_eq!(
        (fs.write(ino, 10_000, &[7; 100], NOW), fs.due()),
        (Ok(100), Some(later(NOW, SECOND)))
    );
    let mut found = [1; 200];
    assert_eq!(
        (
            fs.read(ino, 9_950, &mut found),
            found[49],
            found[50],
            found[149]
        ),
        (Ok(150), 0, 7, 7)
    );
    assert_eq!(
        (
            fs.getattr(ino).unwrap().size,
            size_behind(&mut fs, ino),
            fs.queued()
        ),
        (10_100, 0, 2)
    );
    fs.work(later(NOW, SECOND - 1)).unwrap();
    assert_eq!(size_behind(&mut fs, ino), 0);
    watch.set(later(NOW, SECOND));
    fs.work(watch.get()).unwrap();
    assert_eq!(
        (size_behind(&mut fs, ino), fs.queued(), fs.due()),
        (10_100, 0, None)
    );
}

#[test]
fn elements_that_continue_each_other_are_merged_up_to_an_erase_block() {
    for (merge_bytes, writes) in [(4096, 64), (65_536, 4), (100_000, 3)] {
        let (mut fs, _) = behind(Settings {
            merge_bytes,
            ..Settings::default()
        });
        let ino = file(&mut fs, "f");
        (0..256).for_each(|part| {
            assert_eq!(
                fs.write(ino, part * 1024, &[part as u8; 1024], NOW),
                Ok(1024)
            )
        });
        assert_eq!(fs.queued(), 64, "four of them are in a page");
        fs.sync().unwrap();
        assert_eq!(fs.tally().writes, writes, "{merge_bytes}");
    }
}

#[test]
fn a_pass_ends_at_its_threshold_or_with_its_slice() {
    let (mut fs, watch) = behind(Settings {
        threshold: 5,
        ..Settings::default()
    });
    let ino = file(&mut fs, "f");
    (0..20).for_each(|page| assert_eq!(fs.write(ino, page * PAGE, &[1; 4096], NOW), Ok(4096)));
    fs.fflush(NOW);
    assert_eq!((fs.queued(), fs.timer), (15, Some(later(NOW, SECOND))));
    // The clock says that the first write took all of it.
    watch.set(later(NOW, SECOND));
    fs.fflush(NOW);
    assert_eq!(fs.queued(), 14);
}

#[test]
fn passes_come_sooner_and_a_writer_waits_when_memory_fills() {
    let (mut fs, _) = behind(Settings {
        memory: 16 * PAGE,
        threshold: 1,
        ..Settings::default()
    });
    let ino = file(&mut fs, "f");
    let mut soonest = Vec::new();
    for page in 0..16 {
        fs.write(ino, page * PAGE, &[1; 4096], NOW).unwrap();
        fs.mod_timer(NOW);
        soonest.push(fs.timer.unwrap());
    }
    assert_eq!(
        [soonest[6], soonest[7], soonest[11]],
        [1, 4, 16].map(|times| later(NOW, SECOND / times))
    );
    assert_eq!((fs.queued(), fs.tally().writers), (16, 0));
    fs.write(ino, 16 * PAGE, &[1; 4096], NOW).unwrap();
    assert_eq!(
        (fs.queued(), fs.tally().writers),
        (1, 16),
        "the writer found it full and wrote all of it"
    );
}

#[test]
fn an_fsync_writes_its_files_own_elements_and_no_others() {
    let (mut fs, _) = behind(Settings::default());
    let a = file(&mut fs, "a");
    let b = file(&mut fs, "b");
    for page in 0..3 {
        fs.write(a, page * PAGE, &[1; 4096], NOW).unwrap();
        fs.write(b, page * PAGE, &[2; 4096], NOW).unwrap();
    }
    fs.fsync(b, Sync::Data).unwrap();
    assert_eq!(
        (
            size_behind(&mut fs, a),
            size_behind(&mut fs, b),
            fs.queued()
        ),
        (0, 3 * PAGE, 3)
    );
}

#[test]
fn what_is_cut_off_or_removed_is_never_written() {
    let (mut fs, _) = behind(Settings::default());
    let ino = file(&mut fs, "f");
    fs.write(ino, 0, &[9; 20_000], NOW).unwrap();
    fs.setattr(
        ino,
        &SetAttr {
            size: Some(5000),
            ..SetAttr::default()
        },
        NOW,
    )
    .unwrap();
    fs.setattr(
        ino,
        &SetAttr {
            size: Some(9000),
            ..SetAttr::default()
        },
        NOW,
    )
    .unwrap();
    let mut found = [1; 9000];
    assert_eq!(
        (
            fs.read(ino, 0, &mut found),
            found[4999],
            found[5000],
            found[8999]
        ),
        (Ok(9000), 9, 0, 0)
    );
    fs.sync().unwrap();
    assert_eq!(fs.fs.read(ino, 0, &mut found), Ok(9000));
    assert_eq!([found[4999], found[5000], found[8999]], [9, 0, 0]);
    fs.write(ino, 0, &[8; 8192], NOW).unwrap();
    let before = fs.tally().writes;
    fs.forget(ino, 1);
    fs.unlink(Ino::ROOT, b"f", NOW).unwrap();
    assert_eq!(
        (fs.queued(), fs.tally().writes, fs.kept.len()),
        (0, before, 0)
    );
}

#[test]
fn a_file_that_nobody_refers_to_keeps_its_number_until_it_is_written() {
    let (mut fs, _) = behind(Settings::default());
    let ino = file(&mut fs, "f");
    fs.write(ino, 0, &[9; 100], NOW).unwrap();
    fs.forget(ino, 1);
    assert!(fs.kept.contains(&ino));
    let again = fs.lookup(Ino::ROOT, b"f").unwrap();
    assert_eq!((again.ino, again.size), (ino, 100));
    fs.forget(ino, 1);
    fs.sync().unwrap();
    assert!(fs.kept.is_empty() && fs.references.is_empty());
}

#[test]
fn a_refusal_behind_the_writers_back_is_reported_by_the_next_fsync() {
    let (mut fs, _) = behind(Settings::default());
    let ino = file(&mut fs, "f");
    fs.write(ino, 0, &[9; 100], NOW).unwrap();
    // The file system behind loses the file.
    fs.fs.unlink(Ino::ROOT, b"f", NOW).unwrap();
    fs.fs.forget(ino, 1);
    fs.fflush(NOW);
    assert!(fs.fsync(ino, Sync::All).is_err());
    assert!(fs.sync().is_ok());
}

#[test]
fn what_may_find_no_space_does_not_wait() {
    let watch = NOW;
    let mut fs = WriteBack::new(MemFs::new(100_000, NOW), || watch, Settings::default());
    let ino = file(&mut fs, "f");
    assert_eq!(fs.write(ino, 0, &[1; 40_000], NOW), Ok(40_000));
    assert!(fs.queued() > 0);
    let written = fs.write(ino, 40_000, &[1; 90_000], NOW);
    assert_eq!(
        (written, fs.queued(), fs.tally().direct),
        (fs.fs.write(ino, 40_000, &[1; 90_000], NOW), 0, 1)
    );
    assert!(written != Ok(90_000));
}
