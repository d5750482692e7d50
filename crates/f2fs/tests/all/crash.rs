//! Power cuts at every write of a mixed run: what was fsynced is there under its name, nothing is
//! damaged, and going on works.

use crate::common;

use crate::common::{mount, read_only};
use nandlab_block::{Ram, WriteLog};
use nandlab_f2fs::{F2fs, Finding, Format, InPlace, Options, format};
use nandlab_sim::mix;
use nandlab_testkit::cuts::{
    Expectations, Expected, Run, Story, assert_kept, assert_went_on, churn, go_on, held, mixed,
};
use nandlab_testkit::files::{NOW, bytes, put};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Ino, Sync, Time};

type Logged = F2fs<WriteLog<Ram>>;

fn begin(disk: Ram, options: Options, now: Expectations) -> Story<Logged> {
    let f2fs = F2fs::mount(WriteLog::new(disk), options).unwrap();
    let changes = |f2fs: &mut Logged| f2fs.device_mut().records().len();
    let mut story = Story::new(f2fs, changes, now);
    story.in_place = options.in_place != InPlace::Never;
    story
}

/// Makes a run on a volume of these choices.
fn record(
    mib: u64,
    choices: &Format,
    options: Options,
    tell: impl FnOnce(&mut Story<Logged>),
) -> Run {
    record_behind(mib, choices, options, |_| (), tell)
}

/// Makes a run behind another that is not cut. The device writes blocks whole: no checksum would
/// tell a torn node.
fn record_behind(
    mib: u64,
    choices: &Format,
    options: Options,
    before: impl FnOnce(&mut Story<Logged>),
    tell: impl FnOnce(&mut Story<Logged>),
) -> Run {
    let mut disk = Ram::new(4096, mib * 256);
    format(&mut disk, choices).unwrap();
    let mut story = begin(disk, options, Expectations::new());
    before(&mut story);
    story.fs.unmount().unwrap();
    let base = story.fs.into_device().into_parts().0;
    let story = begin(base.clone(), options, story.now);
    Run::record(base, story, |story| {
        tell(story);
        println!("{:?}", story.fs.counts());
    })
}

/// The next section, when it is time.
fn clean_background(f2fs: &mut Logged) {
    let before = f2fs.counts().cleaned_background;
    while f2fs.counts().cleaned_background == before {
        let nothing = |f2fs: &F2fs<_>| {
            panic!(
                "nothing to clean: {:?}, {:?}",
                f2fs.counts(),
                f2fs.valid_blocks().collect::<Vec<_>>()
            )
        };
        let due = f2fs.due().unwrap_or_else(|| nothing(f2fs));
        f2fs.work(due).unwrap();
    }
}

/// Sections half full of what stays.
fn scatter(story: &mut Story<Logged>) {
    let name = |number: u64| format!("old {number}");
    for number in 0..220 {
        let file = put(
            &mut story.fs,
            Ino::ROOT,
            &name(number),
            &bytes(number, 40_000),
        );
        story.fs.forget(file, 1);
    }
    story.fs.write_back(u64::MAX, Time::MAX).unwrap();
    for number in (0..220).step_by(2) {
        story
            .fs
            .unlink(Ino::ROOT, name(number).as_bytes(), NOW)
            .unwrap();
        story.now.insert(
            format!("/{}", name(number + 1)),
            Expected::Holds(bytes(number + 1, 40_000)),
        );
    }
}

/// Cleaning in the background while files are made durable, written back in part, changed and
/// removed.
fn tidy(story: &mut Story<Logged>) {
    story.create("/new 0", &bytes(0, 9000));
    clean_background(&mut story.fs);
    story.create("/new 1", &bytes(1, 9000));
    story.truncate("/old 3", 10_000, true);
    story.append("/old 5", 3000, 2);
    story.unlink("/old 7");
    // Half of what cleaning made wait.
    story.fs.write_back(100 * 4096, Time::new(0)).unwrap();
    story.create("/new 2", &bytes(2, 9000));
    story.fs.sync().unwrap();
    clean_background(&mut story.fs);
    story.scribble("/scribble", 20_000);
    story.fs.write_back(1 << 30, Time::MAX).unwrap();
    story.append("/old 9", 5000, 3);
    story.rename("/old 11", "/old 13");
    for number in 3..8 {
        story.create(&format!("/new {number}"), &bytes(number, 30_000));
    }
    story.fs.sync().unwrap();
    story.create("/last", &bytes(9, 20_000));
    let counts = story.fs.counts();
    assert!(
        counts.cleaned_background == 2 && counts.moved_background > 200,
        "{counts:?}"
    );
}

/// Hardly a clean section, nothing quite full.
fn crowd(story: &mut Story<Logged>) {
    story.create("/large", &bytes(1, 11 << 20));
    let file = story.fs.lookup(Ino::ROOT, b"large").unwrap().ino;
    let mut round = 0;
    while story.fs.counts().cleaned < 3 {
        for number in 0..40 {
            let place = mix(round, number) % 1400 * 4096;
            story
                .fs
                .write(file, place, &bytes(mix(round, number), 4096), NOW)
                .unwrap();
        }
        story.fs.fsync(file, Sync::All).unwrap();
        round += 1;
    }
    story.fs.forget(file, 1);
    let data = held(&mut story.fs, "/large").unwrap();
    story.now.insert("/large".into(), Expected::Holds(data));
}

/// Little is written, and sections must be cleaned for it.
fn squeeze(story: &mut Story<Logged>) {
    let mut number = 0;
    while story.fs.counts().cleaned < 2 {
        number += 1;
        story.create(&format!("/squeezed {number}"), &bytes(number, 30_000));
        if number > 2 {
            story.unlink(&format!("/squeezed {}", number - 2));
        }
        assert!(number < 200, "{:?}", story.fs.counts());
    }
    story.create("/last", &bytes(9, 20_000));
}

/// What a cut may not leave, once what was durable behind the checkpoint is recovered: anything.
/// Notes all that the check says.
fn damage(disk: &mut Ram, seen: &mut Media) -> Vec<Finding> {
    let mut f2fs = read_only(disk);
    let report = f2fs.check().unwrap();
    seen.note(&(&report, f2fs.counts(), f2fs.statfs()));
    report
        .findings
        .into_iter()
        // A cut during a checkpoint tears that one, and the other counts.
        .filter(|finding| !matches!(finding, Finding::InUse | Finding::Pack { .. }))
        .collect()
}

/// Another mount goes on: makes, fills and removes files, and everything promised is still there.
fn assert_goes_on(disk: &mut Ram, expected: &Expectations, id: &str) {
    let mut f2fs = mount(&mut *disk);
    assert_kept(&mut f2fs, expected, id);
    go_on(&mut f2fs, id);
    // And ends without an unmount.
    f2fs.sync().unwrap();
    let mut f2fs = mount(&mut *disk);
    assert_went_on(&mut f2fs, expected, id, false);
    f2fs.unmount().unwrap();
    common::assert_clean(disk, &format!("{id}: after going on"));
}

/// Recovery itself is cut at every write, and begun again.
fn assert_recovers_again(disk: &Ram, expected: &Expectations, id: &str, seen: &mut Media) {
    let mut log = WriteLog::new(disk.clone());
    F2fs::mount(&mut log, Options::default()).unwrap();
    seen.note(&log.records());
    for state in log.cuts(disk.clone(), 5, 3) {
        let (again, mut disk) = state.unwrap();
        let id = format!("{id}, recovery {again:?}");
        assert_kept(&mut read_only(&mut disk), expected, &id);
        assert_eq!(damage(&mut disk, seen), [], "{id}");
    }
}

/// Judges one of so many states that cuts may leave; of those with `sample` above 1 by a full check
/// only one of so many. The digest is of these checks, which every run makes alike.
fn cut_run(run: &Run, name: &str, variants: u32, every: u64, sample: u64) {
    let mut fscks = 0;
    let mut seen = Media::default();
    let states = run.states(name, variants);
    for mut state in states.filter(|state| (state.word >> 32).is_multiple_of(every)) {
        let disk = &mut state.disk;
        let id = &state.name;
        if state.word.is_multiple_of(whole_or(1, 5)) {
            assert_kept(&mut read_only(&mut *disk), state.expected, id);
        }
        if state.word.is_multiple_of(sample) {
            assert_eq!(damage(disk, &mut seen), [], "{id}");
        }
        if state.word.is_multiple_of(101) {
            assert_recovers_again(disk, state.expected, id, &mut seen);
        }
        if state.word.is_multiple_of(whole_or(40, 80)) {
            assert_goes_on(disk, state.expected, id);
            fscks += 1;
        }
    }
    let changes = run.changes();
    println!("{name}: {changes} changes, {fscks} volumes for fsck.f2fs");
    assert!(changes > 300 && fscks > whole_or(10, 2));
    seen.assert(&format!("cuts, f2fs {name}"));
}

#[test]
fn cuts_lose_nothing_that_was_fsynced() {
    let defaults = Options::default();
    cut_run(
        &record(60, &Format::default(), defaults, mixed),
        "defaults",
        3,
        1,
        3,
    );
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn cuts_lose_nothing_that_was_fsynced_with_nothing_in_inodes() {
    let bare = Options {
        logs: 4,
        inline_data: false,
        inline_names: false,
        ..Options::default()
    };
    cut_run(
        &record(60, &Format::default(), bare, mixed),
        "nothing in inodes, four logs",
        2,
        1,
        3,
    );
}

#[test]
fn cuts_lose_nothing_where_every_fsync_is_a_checkpoint() {
    let options = Options {
        logs: 2,
        ..Options::default()
    };
    cut_run(
        &record(60, &Format::default(), options, mixed),
        "two logs",
        2,
        1,
        3,
    );
}

/// Every write is cut, and every state checked in full.
#[test]
fn cuts_at_every_write_lose_nothing_while_sections_are_cleaned_in_the_foreground() {
    let options = Options {
        threaded: false,
        ..Options::default()
    };
    let run = record_behind(60, &Format::default(), options, crowd, squeeze);
    cut_run(&run, "cleaned in the foreground", 1, 1, 1);
}

#[test]
fn cuts_at_every_write_lose_nothing_while_sections_are_cleaned_in_the_background() {
    let options = Options {
        inline_data: false,
        checkpoint_interval: 3_600_000_000_000,
        ..Options::default()
    };
    let run = record_behind(100, &Format::default(), options, scatter, tidy);
    cut_run(&run, "cleaned in the background", 1, 1, 1);
}

#[test]
fn cuts_lose_nothing_that_was_overwritten_in_place() {
    let options = Options {
        in_place: InPlace::Fsync(8),
        ..Options::default()
    };
    cut_run(
        &record(60, &Format::default(), options, mixed),
        "in place",
        2,
        1,
        3,
    );
}

#[test]
fn cuts_lose_nothing_while_space_is_little() {
    for threaded in [true, false].into_iter().take(whole_or(2, 1)) {
        let options = Options {
            threaded,
            ..Options::default()
        };
        cut_run(
            &record(60, &Format::default(), options, |story| {
                churn(story, 6000, 160 * 1024)
            }),
            &format!("little space, threaded {threaded}"),
            1,
            3,
            3,
        );
    }
}
