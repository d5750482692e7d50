//! Power cuts at every write of a mixed run: what was fsynced is there under its name, nothing is
//! damaged, and going on works.

use crate::common;
use crate::common::{bytes, fsck, mkdir, mount, put, ram, read_only};
use nandlab_block::{BlockDevice, CutId, Nvram, Ram, Record, WriteLog};
use nandlab_fat::{Bits, Fat, Finding, Format, Options, Severity, format};
use nandlab_sim::{Rail, mix};
use nandlab_vfs::{FileSystem, Ino, Rename, SetAttr, Sync, Time, path};
use std::collections::BTreeMap;

/// What must be there after a cut: for each path the contents, once so many changes had been made.
/// A file that is being changed again may have either contents, or anything while it is none of
/// these.
#[derive(Clone, Debug, PartialEq)]
enum Promise {
    /// Exactly this.
    Holds(Vec<u8>),
    /// It may be there or not, whole or in part.
    Open,
    /// This file is at one of these two paths, or both.
    Either(String, Vec<u8>),
    /// This stretch at the beginning, whatever follows.
    Begins(Vec<u8>),
    /// Exactly this, or nothing: removed, which is not durable yet.
    Gone(Vec<u8>),
    /// This, or only so much of it: cut short, which is not durable yet.
    Cut(Vec<u8>, usize),
}

type Promises = BTreeMap<String, Promise>;

/// A mixed run, with what it promises at each number of changes.
struct Run {
    records: Vec<Record>,
    base: Ram,
    promises: Vec<(usize, Promises)>,
}

struct Story<'a> {
    fat: Fat<WriteLog<&'a mut Ram>>,
    promises: Vec<(usize, Promises)>,
    now: Promises,
    dirs: BTreeMap<String, Ino>,
}

impl Story<'_> {
    /// From now on this is promised.
    fn promise(&mut self) {
        let changes = self.fat.device_mut().records().len();
        self.promises.push((changes, self.now.clone()));
    }

    fn set(&mut self, path: &str, promise: Promise) {
        self.now.insert(path.into(), promise);
        self.promise();
    }

    fn dir(&self, path: &str) -> (Ino, Vec<u8>) {
        let (dir, name) = path.rsplit_once('/').unwrap();
        (self.dirs[dir], name.as_bytes().to_vec())
    }

    fn create(&mut self, path: &str, data: &[u8]) {
        let (dir, name) = self.dir(path);
        self.set(path, Promise::Open);
        let file = put(
            &mut self.fat,
            dir,
            std::str::from_utf8(&name).unwrap(),
            data,
        );
        self.fat.fsync(file, Sync::All).unwrap();
        self.fat.forget(file, 1);
        self.set(path, Promise::Holds(data.to_vec()));
    }

    /// Appends in fsynced pieces, as a camera does.
    fn append(&mut self, path: &str, piece: usize, count: usize) {
        let Promise::Holds(mut data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let file = self.fat.lookup(dir, &name).unwrap().ino;
        for index in 0..count {
            let more = bytes(mix(data.len() as u64, index as u64), piece);
            self.set(path, Promise::Begins(data.clone()));
            self.fat
                .write(file, data.len() as u64, &more, common::NOW)
                .unwrap();
            self.fat
                .fsync(
                    file,
                    if index % 2 == 0 {
                        Sync::Data
                    } else {
                        Sync::All
                    },
                )
                .unwrap();
            data.extend(more);
            self.set(path, Promise::Holds(data.clone()));
        }
        self.fat.forget(file, 1);
    }

    /// Written but not made durable; other files' fsyncs come in between.
    fn scribble(&mut self, path: &str, length: usize) {
        let (dir, name) = self.dir(path);
        self.set(path, Promise::Open);
        let file = put(
            &mut self.fat,
            dir,
            std::str::from_utf8(&name).unwrap(),
            &bytes(length as u64, length),
        );
        self.fat.forget(file, 1);
    }

    fn unlink(&mut self, path: &str) {
        let (dir, name) = self.dir(path);
        let gone = match self.now[path].clone() {
            Promise::Holds(data) => Promise::Gone(data),
            _ => Promise::Open,
        };
        self.set(path, gone);
        self.fat.unlink(dir, &name, common::NOW).unwrap();
    }

    fn truncate(&mut self, path: &str, size: usize, durable: bool) {
        let Promise::Holds(data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let file = self.fat.lookup(dir, &name).unwrap().ino;
        self.set(path, Promise::Cut(data.clone(), size));
        self.fat
            .setattr(
                file,
                &SetAttr {
                    size: Some(size as u64),
                    ..SetAttr::default()
                },
                common::NOW,
            )
            .unwrap();
        if durable {
            self.fat.fsync(file, Sync::All).unwrap();
            self.set(path, Promise::Holds(data[..size].to_vec()));
        }
        self.fat.forget(file, 1);
    }

    /// Cuts a file short and makes it longer than it was, durable at once.
    fn regrow(&mut self, path: &str, size: usize, piece: usize) {
        let Promise::Holds(mut data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let file = self.fat.lookup(dir, &name).unwrap().ino;
        data.truncate(size);
        self.set(path, Promise::Begins(data.clone()));
        self.fat
            .setattr(
                file,
                &SetAttr {
                    size: Some(size as u64),
                    ..SetAttr::default()
                },
                common::NOW,
            )
            .unwrap();
        let more = bytes(size as u64, piece);
        self.fat
            .write(file, size as u64, &more, common::NOW)
            .unwrap();
        self.fat.fsync(file, Sync::All).unwrap();
        self.fat.forget(file, 1);
        data.extend(more);
        self.set(path, Promise::Holds(data));
    }

    /// Moves a file that is settled, to where nothing or a settled file is.
    fn rename(&mut self, from: &str, to: &str) {
        let Promise::Holds(data) = self.now[from].clone() else {
            panic!("{from} is not settled")
        };
        let ((old, old_name), (new, new_name)) = (self.dir(from), self.dir(to));
        self.now.insert(to.into(), Promise::Open);
        self.now
            .insert(from.into(), Promise::Either(to.into(), data.clone()));
        self.promise();
        self.fat
            .rename(
                (old, &old_name),
                (new, &new_name),
                Rename::Replace,
                common::NOW,
            )
            .unwrap();
        self.fat.sync().unwrap();
        self.now.remove(from);
        self.set(to, Promise::Holds(data));
    }

    fn mkdir(&mut self, path: &str) {
        let (dir, name) = self.dir(path);
        let ino = mkdir(&mut self.fat, dir, std::str::from_utf8(&name).unwrap());
        self.dirs.insert(path.into(), ino);
    }
}

/// Makes a run on a volume of these choices.
fn record(kib: u64, choices: &Format, tell: fn(&mut Story<'_>)) -> Run {
    let mut disk = ram(kib);
    format(&mut disk, choices).unwrap();
    let base = disk.clone();
    let mut story = Story {
        fat: mount(WriteLog::new(&mut disk)),
        promises: vec![(0, Promises::new())],
        now: Promises::new(),
        dirs: BTreeMap::from([(String::new(), Ino::ROOT)]),
    };
    tell(&mut story);
    story.fat.unmount().unwrap();
    let promises = story.promises;
    let (log, _) = story.fat.into_parts();
    Run {
        records: log.into_parts().1,
        base,
        promises,
    }
}

/// All kinds of changes, with room enough.
fn mixed(story: &mut Story<'_>) {
    story.create("/first", &bytes(1, 3000));
    story.scribble("/never synced", 30_000);
    story.mkdir("/a directory");
    story.mkdir("/a directory/below");
    for number in 0..25 {
        // Long names, so that directories grow and entries cross sectors.
        story.create(
            &format!("/a directory/below/a file with quite a long name, number {number}"),
            &bytes(number, 700 * number as usize),
        );
    }
    story.append("/first", 512, 40);
    story.rename("/first", "/a directory/renamed");
    story.scribble("/a directory/scribble", 100_000);
    for number in 0..8 {
        story.unlink(&format!(
            "/a directory/below/a file with quite a long name, number {}",
            number * 3
        ));
        story.create(&format!("/reuse {number}"), &bytes(100 + number, 9000));
    }
    story.truncate("/a directory/renamed", 5000, true);
    story.append("/a directory/renamed", 3000, 5);
    story.rename("/reuse 1", "/reuse 2");
    story.rename(
        "/a directory/below/a file with quite a long name, number 1",
        "/a directory/below/b",
    );
    story.truncate("/reuse 5", 0, true);
    story.append("/reuse 5", 2500, 3);
    story.regrow("/reuse 3", 4100, 9000);
    story.regrow("/reuse 5", 600, 700);
    story.fat.write_back(1 << 20, Time::MAX).unwrap();
    story.fat.sync().unwrap();
    story.create("/last", &bytes(9, 20_000));
}

/// Little room, so that what is freed is taken again at once.
fn churn(story: &mut Story<'_>) {
    story.mkdir("/d");
    for round in 0..30u64 {
        story.create(
            &format!("/d/kept for a while {round}"),
            &bytes(round, 6000 + 300 * (round as usize % 4)),
        );
        story.create(&format!("/cut {round}"), &bytes(round + 50, 8000));
        if round >= 3 {
            // Not durable until the next create makes it so, while that takes the space.
            story.unlink(&format!("/d/kept for a while {}", round - 3));
            story.truncate(
                &format!("/cut {}", round - 3),
                700 * (round as usize % 3),
                false,
            );
        }
        if round >= 5 {
            story.unlink(&format!("/cut {}", round - 5));
        }
        if round == 6 {
            // From here on there is no room for a round but what the round before freed.
            let room = story.fat.statfs().unwrap().free as usize * 512;
            story.create("/ballast", &bytes(6, room - 16 * 1024));
        }
    }
}

/// Names that go and come again at once, elsewhere in their directory.
fn again(story: &mut Story<'_>) {
    story.mkdir("/d");
    let long = |number: u64| format!("/d/one of several names of some length, number {number}");
    for number in 0..32 {
        story.create(&long(number), &bytes(number, 600));
        story.create(&format!("/D{number}"), &bytes(number, 30));
    }
    for number in (0..32).step_by(2) {
        // The second takes the slots of the first, where there is no room for it otherwise.
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

fn held<D: BlockDevice>(fat: &mut Fat<D>, path: &str) -> Option<Vec<u8>> {
    let attr = path::resolve(fat, path.as_bytes()).ok()?;
    let data = nandlab_vfs::tree::contents(fat, attr.ino);
    fat.forget(attr.ino, 1);
    data.ok()
}

fn assert_kept<D: BlockDevice>(fat: &mut Fat<D>, promises: &Promises, id: &str) {
    for (path, promise) in promises {
        let found = held(fat, path);
        let kept = match promise {
            Promise::Open => true,
            Promise::Holds(data) => found.as_ref() == Some(data),
            Promise::Gone(data) => found.as_ref().is_none_or(|found| found == data),
            Promise::Cut(data, size) => found
                .as_ref()
                .is_some_and(|found| found == data || found == &data[..*size]),
            Promise::Begins(data) => found.as_ref().is_some_and(|found| found.starts_with(data)),
            Promise::Either(other, data) => {
                found.as_ref() == Some(data) || held(fat, other).as_ref() == Some(data)
            }
        };
        assert!(
            kept,
            "{id}: {path} holds {:?} bytes, promised {promise:.60?}",
            found.map(|data| data.len())
        );
    }
}

/// The findings that a cut may not leave. A rename between sectors may leave both names, an
/// unfinished new entry its short name.
fn damage(disk: &mut Ram) -> Vec<Finding> {
    let report = read_only(disk).check().unwrap();
    report
        .findings
        .into_iter()
        .filter(|finding| finding.severity() == Severity::Damage)
        .collect()
}

/// Another mount goes on: makes, fills and removes files, and everything promised is still there.
fn assert_goes_on(disk: &mut Ram, promises: &Promises, id: &str) {
    let mut fat = mount(&mut *disk);
    if fat.statfs().unwrap().free * u64::from(fat.layout().cluster_bytes()) < 12 * 1024 {
        // As full as that the story left it, with what the cut wasted.
        return;
    }
    for number in 0..6 {
        let file = put(
            &mut fat,
            Ino::ROOT,
            &format!("afterwards {number}"),
            &bytes(number, 1200),
        );
        fat.fsync(file, Sync::All)
            .unwrap_or_else(|error| panic!("{id}: {error} {:?}", fat.fault()));
    }
    fat.unlink(Ino::ROOT, b"afterwards 3", common::NOW).unwrap();
    fat.unmount().unwrap();
    let mut fat = mount(&mut *disk);
    assert_kept(&mut fat, promises, id);
    assert_eq!(
        held(&mut fat, "/afterwards 5"),
        Some(bytes(5, 1200)),
        "{id}"
    );
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
    cut_run(
        &record(kib, choices, mixed),
        &format!("{choices:?}"),
        variants,
    );
}

fn cut_run(run: &Run, choices: &str, variants: u32) {
    let (
        Run {
            records,
            base,
            promises,
        },
        mut fscks,
    ) = (run, 0);
    for state in nandlab_block::Cuts::new(records, base.clone(), 7, variants) {
        let (CutId { cut, variant }, mut disk) = state.unwrap();
        let id = format!("{choices} cut {cut} variant {variant}");
        // What was promised by the last change before the cut: every promise made after it came
        // later.
        let at = promises.partition_point(|(changes, _)| *changes <= cut);
        let now = &promises[at - 1].1;
        assert_kept(&mut read_only(&mut disk), now, &id);
        let double = read_only(&mut disk)
            .check()
            .unwrap()
            .findings
            .iter()
            .any(|finding| matches!(finding, Finding::TwoNames { .. }));
        assert_eq!(damage(&mut disk), [], "{id}");
        if mix(cut as u64, u64::from(variant)).is_multiple_of(40) && !double {
            assert_fsck_agrees(&mut disk, &id);
            fscks += 1;
        }
        if mix(u64::from(variant), cut as u64).is_multiple_of(8) && !double {
            assert_goes_on(&mut disk, now, &id);
        }
    }
    assert!(
        records.len() > 300 && fscks > 10,
        "{} changes, {fscks} volumes for fsck.vfat",
        records.len()
    );
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
    cut_run(&record(140, &small, churn), "little room", 8);
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
            fat.unlink(Ino::ROOT, name.as_bytes(), common::NOW).unwrap();
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
        let by = nandlab_vfs::Caller::root(common::NOW);
        let dir = fat.mkdir(Ino::ROOT, b"album", 0o755, by)?.ino;
        for number in 0..12u64 {
            let (name, mut data) = (format!("/album/photo number {number}"), Vec::new());
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
                fat.write(file, data.len() as u64, &more, common::NOW)?;
                fat.fsync(file, Sync::All)?;
                data.extend(more);
                done.pop();
                done.push((name.clone(), data.clone()));
            }
            if number % 4 == 3 {
                done.retain(|(path, _)| *path != format!("/album/photo number {}", number - 1));
                fat.unlink(
                    dir,
                    format!("photo number {}", number - 1).as_bytes(),
                    common::NOW,
                )?;
            }
        }
        fat.unmount()
    };
    // A memory that holds everything, and one that must evict.
    for sectors in [256, 14] {
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
            (disk, Nvram::new(512, sectors, rail.clone()))
        };
        let rail = Rail::new();
        let (mut disk, mut memory) = make(&rail);
        run(&rail, &mut disk, &mut memory, &mut Vec::new()).unwrap();
        common::assert_clean(&mut disk, "after unmount");
        let steps = rail.steps();
        for cut in (0..steps).step_by(3) {
            let (rail, mut done) = (Rail::new(), Vec::new());
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
