//! Power cuts at every write of a mixed run: what was fsynced is there under its name, nothing is
//! damaged, and going on works.

use crate::common;

use crate::common::{fsck, mount, ram, read_only};
use nandlab_block::{CutId, Nvram, Ram, WriteLog};
use nandlab_fat::{Bits, Fat, Finding, Format, Options, Severity, format};
use nandlab_sim::{Rail, mix};
use nandlab_testkit::cuts::{
    Expectations, Run, Story, assert_kept, assert_went_on, churn, go_on, mixed_with,
};
use nandlab_testkit::files::{NOW, bytes, put};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{Fault as _, FileSystem, Ino, Sync, path};

type Logged = Fat<WriteLog<Ram>>;

/// Makes a run on a volume of these choices.
fn record(kib: u64, choices: &Format, tell: impl FnOnce(&mut Story<Logged>)) -> Run {
    let mut disk = ram(kib);
    format(&mut disk, choices).unwrap();
    let fat = mount(WriteLog::new(disk.clone()));
    let changes = |fat: &mut Logged| fat.device_mut().records().len();
    Run::record(disk, Story::new(fat, changes, Expectations::new()), tell)
}

/// All kinds of changes, with space enough.
fn mixed(story: &mut Story<Logged>) {
    mixed_with(story, |story| {
        story.regrow("/reuse 3", 4100, 9000);
        story.regrow("/reuse 5", 600, 700);
    });
}

/// Names that go and come again at once, elsewhere in their directory.
fn again(story: &mut Story<Logged>) {
    story.mkdir("/d");
    let long = |number: u64| format!("/d/one of several names of some length, number {number}");
    for number in 0..32 {
        story.create(&long(number), &bytes(number, 600));
        story.create(&format!("/D{number}"), &bytes(number, 30));
    }
    for number in (0..32).step_by(2) {
        // The second takes the slots of the first, where there is no space for it otherwise.
        for name in [
            long(number),
            long(number + 1),
            format!("/D{number}"),
            format!("/D{}", number + 1),
        ] {
            story.unlink(&name);
        }
        story.create(&long(number + 1), &bytes(100 + number, 900));
        story.create(&format!("/D{}", number + 1), &bytes(200 + number, 40));
    }
}

/// The findings that a cut may not leave. A rename between sectors may leave both names, an
/// unfinished new entry its short name.
fn damage(disk: &mut Ram) -> Vec<Finding> {
    damage_of(read_only(disk).check().unwrap().findings)
}

fn damage_of(findings: Vec<Finding>) -> Vec<Finding> {
    findings
        .into_iter()
        .filter(|finding| finding.severity() == Severity::Damage)
        .collect()
}

/// Another mount goes on: makes, fills and removes files, and everything promised is still there.
fn assert_goes_on(disk: &mut Ram, expected: &Expectations, id: &str) {
    let mut fat = mount(&mut *disk);
    if fat.statfs().unwrap().free * u64::from(fat.layout().cluster_bytes()) < 12 * 1024 {
        // As full as the story left it, with what the cut wasted.
        return;
    }
    go_on(&mut fat, id);
    fat.unmount().unwrap();
    assert_went_on(&mut mount(&mut *disk), expected, id, false);
    assert_eq!(damage(disk), [], "{id}: after going on");
}

/// fsck.vfat complains of what a cut left; it must not speak of two files sharing clusters.
fn assert_fsck_agrees(disk: &mut Ram, id: &str) {
    let (_, text) = fsck(disk);
    let shared = text.contains("share clusters")
        || text.contains("Bad cluster")
        || text.contains("unallocated cluster");
    assert!(!shared, "{id}: {text}");
}

fn cut_everywhere(kib: u64, choices: &Format, variants: u32) {
    let run = record(kib, choices, mixed);
    cut_run(&run, &format!("{kib} KiB, {:?}", choices.bits), variants);
}

fn cut_run(run: &Run, name: &str, variants: u32) {
    let mut fscks = 0;
    let mut seen = Media::default();
    for mut state in run.states(name, variants) {
        let CutId { cut, variant } = state.id;
        let disk = &mut state.disk;
        let id = &state.name;
        if state.word.is_multiple_of(whole_or(1, 5)) {
            assert_kept(&mut read_only(disk), state.expected, id);
        }
        let findings = read_only(disk).check().unwrap().findings;
        seen.note(&findings);
        let is_double = findings
            .iter()
            .any(|finding| matches!(finding, Finding::TwoNames { .. }));
        assert_eq!(damage_of(findings), [], "{id}");
        if state.word.is_multiple_of(whole_or(40, 80)) && !is_double {
            assert_fsck_agrees(disk, id);
            fscks += 1;
        }
        let every = whole_or(8, 40);
        if mix(u64::from(variant), cut as u64).is_multiple_of(every) && !is_double {
            assert_goes_on(disk, state.expected, id);
        }
    }
    assert!(
        run.changes() > 300 && fscks > whole_or(10, 2),
        "{} changes, {fscks} volumes for fsck.vfat",
        run.changes()
    );
    seen.assert(&format!("cuts, fat {name}"));
}

#[test]
fn cuts_lose_nothing_that_was_fsynced_on_fat16() {
    cut_everywhere(
        3000,
        &Format {
            bits: Some(Bits::Fat16),
            cluster_sectors: Some(1),
            ..Format::default()
        },
        6,
    );
    cut_everywhere(
        10_000,
        &Format {
            bits: Some(Bits::Fat16),
            cluster_sectors: Some(4),
            ..Format::default()
        },
        4,
    );
}

#[test]
fn cuts_lose_nothing_that_was_fsynced_on_fat32() {
    cut_everywhere(
        3000,
        &Format {
            bits: Some(Bits::Fat32),
            ..Format::default()
        },
        6,
    );
    cut_everywhere(
        4000,
        &Format {
            bits: Some(Bits::Fat32),
            cluster_sectors: Some(8),
            ..Format::default()
        },
        3,
    );
}

#[test]
fn cuts_lose_nothing_that_was_fsynced_on_fat12_while_entries_lie_in_one_sector() {
    // 341 entries end in the first sector: clusters of 2 KiB, the story takes fewer.
    cut_everywhere(
        1000,
        &Format {
            bits: Some(Bits::Fat12),
            cluster_sectors: Some(4),
            ..Format::default()
        },
        6,
    );
}

#[test]
fn cuts_never_show_what_took_the_place_of_something_else() {
    let small = Format {
        bits: Some(Bits::Fat32),
        cluster_sectors: Some(1),
        reserved: Some(4),
        ..Format::default()
    };
    cut_run(
        &record(140, &small, |story| churn(story, 300, 16 * 1024)),
        "little space",
        8,
    );
}

#[test]
fn cuts_never_leave_a_name_twice_that_went_and_came_again() {
    // Its root has clusters too, of one sector: entries cross sectors, and whole entries lie in
    // different ones.
    cut_run(
        &record(
            2000,
            &Format {
                bits: Some(Bits::Fat32),
                cluster_sectors: Some(1),
                ..Format::default()
            },
            again,
        ),
        "again",
        4,
    );
}

#[test]
fn a_name_that_comes_again_in_its_place_waits_for_nothing() {
    let mut disk = ram(3000);
    format(&mut disk, &Format::default()).unwrap();
    let mut fat = mount(WriteLog::new(&mut disk));
    for name in ["lock", "a lock with a name of some length"] {
        put(&mut fat, Ino::ROOT, name, b"");
        fat.sync().unwrap();
        let before = fat.device_mut().records().len();
        for _ in 0..3 {
            fat.unlink(Ino::ROOT, name.as_bytes(), NOW).unwrap();
            put(&mut fat, Ino::ROOT, name, b"");
        }
        assert_eq!(fat.device_mut().records().len(), before, "{name}");
    }
}

/// The same files as in the paper's album, metadata in the memory, the power off at every step of
/// flash or memory.
#[test]
fn nothing_is_lost_while_the_memory_holds_the_metadata() {
    let run = |rail: &Rail,
               disk: &mut Ram,
               memory: &mut Nvram,
               done: &mut Vec<(String, Vec<u8>)>|
     -> Result<(), nandlab_vfs::Errno> {
        let device = nandlab_block::FaultInjector::new(disk).powered_by(rail.clone());
        let mut fat = Fat::mount_with_nvram(device, memory, Options::default())
            .map_err(|error| error.errno())?;
        let by = nandlab_vfs::Caller::root(NOW);
        let dir = fat.mkdir(Ino::ROOT, b"album", 0o755, by)?.ino;
        for number in 0..12u64 {
            let name = format!("/album/photo number {number}");
            let mut data = Vec::new();
            let file = fat
                .create(
                    dir,
                    &name.as_bytes()[7..],
                    nandlab_vfs::NewNode::File,
                    0o644,
                    by,
                )?
                .ino;
            for piece in 0..6 {
                let more = bytes(mix(number, piece), 512);
                done.retain(|(path, _)| *path != name);
                done.push((name.clone(), data.clone()));
                fat.write(file, data.len() as u64, &more, NOW)?;
                fat.fsync(file, Sync::All)?;
                data.extend(more);
                done.pop();
                done.push((name.clone(), data.clone()));
            }
            if number % 4 == 3 {
                done.retain(|(path, _)| *path != format!("/album/photo number {}", number - 1));
                fat.unlink(dir, format!("photo number {}", number - 1).as_bytes(), NOW)?;
            }
        }
        fat.unmount()
    };
    // A memory that holds everything, and one that must evict.
    for sectors in [2048, 112] {
        let make = |rail: &Rail| {
            let mut disk = ram(8 * 1024);
            format(
                &mut disk,
                &Format {
                    bits: Some(Bits::Fat16),
                    cluster_sectors: Some(1),
                    ..Format::default()
                },
            )
            .unwrap();
            (disk, Nvram::new(64, sectors, rail.clone()))
        };
        let rail = Rail::new();
        let (mut disk, mut memory) = make(&rail);
        run(&rail, &mut disk, &mut memory, &mut Vec::new()).unwrap();
        common::assert_clean(&mut disk, "after unmount");
        let steps = rail.steps();
        for cut in (0..steps).step_by(7) {
            let rail = Rail::new();
            let mut done = Vec::new();
            let (mut disk, mut memory) = make(&rail);
            rail.cut_at(cut);
            assert!(run(&rail, &mut disk, &mut memory, &mut done).is_err());
            rail.restore();
            let mut fat =
                Fat::mount_with_nvram(&mut disk, &mut memory, Options::default()).unwrap();
            for (path, data) in &done {
                let attr = path::resolve(&mut fat, path.as_bytes())
                    .map(|attr| nandlab_vfs::tree::contents(&mut fat, attr.ino));
                let kept = attr
                    .clone()
                    .is_ok_and(|found| found.is_ok_and(|found| found.starts_with(data)));
                assert!(
                    kept || data.is_empty(),
                    "{sectors} sectors, cut {cut} of {steps}: {path}, {} bytes: {attr:.60?}",
                    data.len()
                );
            }
            let worst = fat
                .check()
                .unwrap()
                .findings
                .into_iter()
                .filter(|f| f.severity() == Severity::Damage)
                .collect::<Vec<_>>();
            assert_eq!(worst, [], "{sectors} sectors, cut {cut}");
            fat.unmount().unwrap();
            assert_eq!(
                damage(&mut disk),
                [],
                "{sectors} sectors, cut {cut}: on flash"
            );
        }
    }
}
