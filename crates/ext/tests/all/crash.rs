//! Power cuts at every write of a mixed run: what was fsynced is there under its name, nothing is
//! damaged, and going on works.

use crate::common;

use crate::common::{mount, read_only};
use nandlab_block::{Ram, WriteLog};
use nandlab_ext::{Ext, Finding, Format, format};
use nandlab_testkit::cuts::{
    Expectations, Run, Story, assert_kept, assert_kept_repaired, assert_went_on, churn, go_on,
    mixed,
};
use nandlab_testkit::files::bytes;
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::FileSystem;

type Logged = Ext<WriteLog<Ram>>;

/// Makes a run on a volume of these choices.
fn record(kib: u64, choices: &Format, tell: impl FnOnce(&mut Story<Logged>)) -> Run {
    // A torn block of names is what the format cannot repair: the device writes blocks whole.
    let sector = choices.block.unwrap_or(1024);
    let mut disk = Ram::new(sector, kib * 1024 / u64::from(sector));
    format(&mut disk, choices).unwrap();
    let ext = mount(WriteLog::new(disk.clone()));
    let changes = |ext: &mut Logged| ext.device_mut().records().len();
    Run::record(disk, Story::new(ext, changes, Expectations::new()), tell)
}

/// Files with and without blocks of block pointers that are cut short and grow while others are
/// made durable.
fn lengths(story: &mut Story<Logged>) {
    for round in 0..16u64 {
        let path = format!("/file {round}");
        let turn = round as usize;
        let size = [5000, 14_500, 30_000, 300_000][turn % 4];
        story.create(&path, &bytes(round, size));
        story.truncate(&path, size - 700 - 3000 * (turn % 2), true);
        story.grow(&path, 300 + 5000 * (turn % 3));
        story.create(&format!("/other {round}"), &bytes(round, 100));
        story.fsync(&path);
        story.truncate(&path, size / 2, false);
        story.create(&format!("/another {round}"), &bytes(round, 100));
    }
}

/// The findings that a cut may not leave: what no check could repair without a loss. Notes all
/// that the check says.
fn damage(disk: &mut Ram, seen: &mut Media) -> Vec<Finding> {
    let report = read_only(disk).check().unwrap();
    seen.note(&report);
    report
        .findings
        .into_iter()
        .filter(Finding::is_loss)
        .collect()
}

/// Another mount goes on: makes, fills and removes files, and everything promised is still there.
fn assert_goes_on(disk: &mut Ram, expected: &Expectations, id: &str) {
    let mut ext = mount(&mut *disk);
    if ext.statfs().unwrap().free * u64::from(ext.layout().block) < 12 * 1024 {
        // As full as the story left it, with what the cut wasted.
        return;
    }
    go_on(&mut ext, id);
    ext.unmount().unwrap();
    let mut ext = mount(&mut *disk);
    assert_went_on(&mut ext, expected, id, true);
    ext.unmount().unwrap();
    common::assert_clean(disk, &format!("{id}: after going on"));
}

/// e2fsck repairs what a cut left, and keeps everything promised.
fn assert_fsck_repairs(disk: &mut Ram, expected: &Expectations, id: &str) -> Ram {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    common::save(disk, &path);
    let output = common::tool("e2fsck", &["-fy", path.to_str().unwrap()]);
    let text = common::printed(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{id}: {text}");
    assert!(!text.contains("multiply-claimed"), "{id}: {text}");
    let mut repaired = common::load(&path);
    assert_kept_repaired(
        &mut read_only(&mut repaired),
        expected,
        &format!("{id} after e2fsck: {text}"),
    );
    common::assert_clean(&mut repaired, id);
    repaired
}

fn cut_everywhere(kib: u64, choices: &Format, variants: u32) {
    let run = record(kib, choices, mixed);
    cut_run(&run, &format!("{kib} KiB"), variants);
}

fn cut_run(run: &Run, name: &str, variants: u32) {
    let (every, fscks_min) = whole_or((12, 10), (60, 4));
    let mut fscks = 0;
    let mut seen = Media::default();
    for mut state in run.states(name, variants) {
        let id = &state.name;
        assert_kept(&mut read_only(&mut state.disk), state.expected, id);
        assert_eq!(damage(&mut state.disk, &mut seen), [], "{id}");
        if state.word.is_multiple_of(every) {
            // As on a real machine: a check, then on with it.
            let mut repaired = assert_fsck_repairs(&mut state.disk, state.expected, id);
            assert_goes_on(&mut repaired, state.expected, id);
            fscks += 1;
        }
    }
    assert!(
        run.changes() > 300 && fscks > fscks_min,
        "{} changes, {fscks} volumes for e2fsck",
        run.changes()
    );
    seen.assert(&format!("cuts, ext2 {name}"));
}

#[test]
fn cuts_lose_nothing_that_was_fsynced_on_small_blocks() {
    cut_everywhere(4000, &Format::default(), 5);
}

#[test]
fn cuts_lose_nothing_that_was_fsynced_on_large_blocks() {
    cut_everywhere(
        10_000,
        &Format {
            block: Some(4096),
            ..Format::default()
        },
        3,
    );
}

#[test]
fn cuts_never_show_what_took_the_place_of_something_else() {
    cut_run(
        &record(
            400,
            &Format {
                inode_ratio: Some(2048),
                ..Format::default()
            },
            |story| churn(story, 300, 16 * 1024),
        ),
        "little space",
        6,
    );
}

#[test]
fn a_length_never_covers_what_was_cut_off_or_is_not_linked() {
    cut_run(&record(5000, &Format::default(), lengths), "lengths", 4);
}
