//! Power cuts at every write of a mixed run: what was fsynced is there under its name, nothing is
//! damaged, and going on works.

use crate::common;
use crate::common::{bytes, mkdir, mount, put, read_only};
use nandlab_block::{BlockDevice, CutId, Ram, Record, WriteLog};
use nandlab_f2fs::{F2fs, Finding, Format, InPlace, Options, format};
use nandlab_sim::mix;
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
    /// As the last, and the rest may be zeros in part: it is overwritten in place.
    Zeroed(Vec<u8>, usize),
}

type Promises = BTreeMap<String, Promise>;

/// A mixed run, with what it promises at each number of changes.
struct Run {
    records: Vec<Record>,
    base: Ram,
    promises: Vec<(usize, Promises)>,
}

struct Story<'a> {
    f2fs: F2fs<WriteLog<&'a mut Ram>>,
    promises: Vec<(usize, Promises)>,
    now: Promises,
    dirs: BTreeMap<String, Ino>,
    in_place: bool,
}

impl<'a> Story<'a> {
    fn begin(disk: &'a mut Ram, options: Options, now: Promises) -> Self {
        let f2fs = F2fs::mount(WriteLog::new(disk), options).unwrap();
        let (dirs, in_place) = (
            BTreeMap::from([(String::new(), Ino::ROOT)]),
            options.in_place != InPlace::Never,
        );
        Self {
            f2fs,
            promises: vec![(0, now.clone())],
            now,
            dirs,
            in_place,
        }
    }
}

impl Story<'_> {
    /// From now on this is promised.
    fn promise(&mut self) {
        let changes = self.f2fs.device_mut().records().len();
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
            &mut self.f2fs,
            dir,
            std::str::from_utf8(&name).unwrap(),
            data,
        );
        self.f2fs.fsync(file, Sync::All).unwrap();
        self.f2fs.forget(file, 1);
        self.set(path, Promise::Holds(data.to_vec()));
    }

    /// Appends in fsynced pieces, as a camera does.
    fn append(&mut self, path: &str, piece: usize, count: usize) {
        let Promise::Holds(mut data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let file = self.f2fs.lookup(dir, &name).unwrap().ino;
        for index in 0..count {
            let more = bytes(mix(data.len() as u64, index as u64), piece);
            self.set(path, Promise::Begins(data.clone()));
            self.f2fs
                .write(file, data.len() as u64, &more, common::NOW)
                .unwrap();
            self.f2fs
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
        self.f2fs.forget(file, 1);
    }

    /// Written but not made durable; other files' fsyncs come in between.
    fn scribble(&mut self, path: &str, length: usize) {
        let (dir, name) = self.dir(path);
        self.set(path, Promise::Open);
        let file = put(
            &mut self.f2fs,
            dir,
            std::str::from_utf8(&name).unwrap(),
            &bytes(length as u64, length),
        );
        self.f2fs.forget(file, 1);
    }

    fn unlink(&mut self, path: &str) {
        let (dir, name) = self.dir(path);
        let gone = match self.now[path].clone() {
            Promise::Holds(data) => Promise::Gone(data),
            _ => Promise::Open,
        };
        self.set(path, gone);
        self.f2fs.unlink(dir, &name, common::NOW).unwrap();
    }

    fn truncate(&mut self, path: &str, size: usize, durable: bool) {
        let Promise::Holds(data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let file = self.f2fs.lookup(dir, &name).unwrap().ino;
        let cut = if self.in_place {
            Promise::Zeroed
        } else {
            Promise::Cut
        };
        self.set(path, cut(data.clone(), size));
        self.f2fs
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
            self.f2fs.fsync(file, Sync::All).unwrap();
            self.set(path, Promise::Holds(data[..size].to_vec()));
        }
        self.f2fs.forget(file, 1);
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
        self.f2fs
            .rename(
                (old, &old_name),
                (new, &new_name),
                Rename::Replace,
                common::NOW,
            )
            .unwrap();
        self.f2fs.sync().unwrap();
        self.now.remove(from);
        self.set(to, Promise::Holds(data));
    }

    /// The next section, when it is time.
    fn clean_background(&mut self) {
        let before = self.f2fs.counts().cleaned_background;
        while self.f2fs.counts().cleaned_background == before {
            let nothing = |f2fs: &F2fs<_>| {
                panic!(
                    "nothing to clean: {:?}, {:?}",
                    f2fs.counts(),
                    f2fs.valid_blocks().collect::<Vec<_>>()
                )
            };
            let due = self.f2fs.due().unwrap_or_else(|| nothing(&self.f2fs));
            self.f2fs.work(due).unwrap();
        }
    }

    fn mkdir(&mut self, path: &str) {
        let (dir, name) = self.dir(path);
        let ino = mkdir(&mut self.f2fs, dir, std::str::from_utf8(&name).unwrap());
        self.dirs.insert(path.into(), ino);
    }
}

/// Makes a run on a volume of these choices.
fn record(mib: u64, choices: &Format, options: Options, tell: fn(&mut Story<'_>)) -> Run {
    record_behind(mib, choices, options, |_| (), tell)
}

/// Makes a run behind another that is not cut. The device writes blocks whole: no checksum would
/// tell a torn node.
fn record_behind(
    mib: u64,
    choices: &Format,
    options: Options,
    before: fn(&mut Story<'_>),
    tell: fn(&mut Story<'_>),
) -> Run {
    let mut disk = Ram::new(4096, mib * 256);
    format(&mut disk, choices).unwrap();
    let mut story = Story::begin(&mut disk, options, Promises::new());
    before(&mut story);
    story.f2fs.unmount().unwrap();
    let now = story.now;
    drop(story.f2fs);
    let base = disk.clone();
    let mut story = Story::begin(&mut disk, options, now);
    tell(&mut story);
    println!("{:?}", story.f2fs.counts());
    story.f2fs.unmount().unwrap();
    let promises = story.promises;
    let log = story.f2fs.into_device();
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
    story.f2fs.write_back(1 << 20, Time::MAX).unwrap();
    story.f2fs.sync().unwrap();
    story.create("/last", &bytes(9, 20_000));
}

/// Little room, so that what is freed is taken again at once.
fn churn(story: &mut Story<'_>) {
    story.mkdir("/d");
    for round in 0..30u64 {
        story.create(
            &format!("/d/kept for a while {round}"),
            &bytes(round, 6000 + 6000 * (round as usize % 4)),
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
            let room = story.f2fs.statfs().unwrap().free as usize * 4096;
            story.create("/ballast", &bytes(6, room - 160 * 1024));
        }
    }
}

/// Sections half full of what stays.
fn scatter(story: &mut Story<'_>) {
    let name = |number: u64| format!("old {number}");
    for number in 0..220 {
        let file = put(
            &mut story.f2fs,
            Ino::ROOT,
            &name(number),
            &bytes(number, 40_000),
        );
        story.f2fs.forget(file, 1);
    }
    story.f2fs.write_back(u64::MAX, Time::MAX).unwrap();
    for number in (0..220).step_by(2) {
        story
            .f2fs
            .unlink(Ino::ROOT, name(number).as_bytes(), common::NOW)
            .unwrap();
        story.now.insert(
            format!("/{}", name(number + 1)),
            Promise::Holds(bytes(number + 1, 40_000)),
        );
    }
}

/// Cleaning in the background while files are made durable, written back in part, changed and
/// removed.
fn tidy(story: &mut Story<'_>) {
    story.create("/new 0", &bytes(0, 9000));
    story.clean_background();
    story.create("/new 1", &bytes(1, 9000));
    story.truncate("/old 3", 10_000, true);
    story.append("/old 5", 3000, 2);
    story.unlink("/old 7");
    // Half of what cleaning made wait.
    story.f2fs.write_back(100 * 4096, Time::new(0)).unwrap();
    story.create("/new 2", &bytes(2, 9000));
    story.f2fs.sync().unwrap();
    story.clean_background();
    story.scribble("/scribble", 20_000);
    story.f2fs.write_back(1 << 30, Time::MAX).unwrap();
    story.append("/old 9", 5000, 3);
    story.rename("/old 11", "/old 13");
    for number in 3..8 {
        story.create(&format!("/new {number}"), &bytes(number, 30_000));
    }
    story.f2fs.sync().unwrap();
    story.create("/last", &bytes(9, 20_000));
    let counts = story.f2fs.counts();
    assert!(
        counts.cleaned_background == 2 && counts.moved_background > 200,
        "{counts:?}"
    );
}

/// Hardly a clean section, nothing quite full.
fn crowd(story: &mut Story<'_>) {
    story.create("/large", &bytes(1, 11 << 20));
    let file = story.f2fs.lookup(Ino::ROOT, b"large").unwrap().ino;
    let mut round = 0;
    while story.f2fs.counts().cleaned < 3 {
        for number in 0..40 {
            let place = mix(round, number) % 1400 * 4096;
            story
                .f2fs
                .write(file, place, &bytes(mix(round, number), 4096), common::NOW)
                .unwrap();
        }
        story.f2fs.fsync(file, Sync::All).unwrap();
        round += 1;
    }
    story.f2fs.forget(file, 1);
    let data = held(&mut story.f2fs, "/large").unwrap();
    story.now.insert("/large".into(), Promise::Holds(data));
}

/// Little is written, and sections must be cleaned for it.
fn squeeze(story: &mut Story<'_>) {
    let mut number = 0;
    while story.f2fs.counts().cleaned < 2 {
        number += 1;
        story.create(&format!("/squeezed {number}"), &bytes(number, 30_000));
        if number > 2 {
            story.unlink(&format!("/squeezed {}", number - 2));
        }
        assert!(number < 200, "{:?}", story.f2fs.counts());
    }
    story.create("/last", &bytes(9, 20_000));
}

fn held<D: BlockDevice>(f2fs: &mut F2fs<D>, path: &str) -> Option<Vec<u8>> {
    let attr = path::resolve(f2fs, path.as_bytes()).ok()?;
    let data = nandlab_vfs::tree::contents(f2fs, attr.ino);
    f2fs.forget(attr.ino, 1);
    data.ok()
}

fn assert_kept<D: BlockDevice>(f2fs: &mut F2fs<D>, promises: &Promises, id: &str) {
    for (path, promise) in promises {
        let found = held(f2fs, path);
        let kept = match promise {
            Promise::Open => true,
            Promise::Holds(data) => found.as_ref() == Some(data),
            Promise::Gone(data) => found.as_ref().is_none_or(|found| found == data),
            Promise::Cut(data, size) => found
                .as_ref()
                .is_some_and(|found| found == data || found == &data[..*size]),
            Promise::Zeroed(data, size) => found.as_ref().is_some_and(|found| {
                let zeros = |found: &[u8]| {
                    found
                        .iter()
                        .zip(&data[*size..])
                        .all(|(found, before)| *found == 0 || found == before)
                };
                found.starts_with(&data[..*size])
                    && (found.len() == *size || found.len() == data.len() && zeros(&found[*size..]))
            }),
            Promise::Begins(data) => found.as_ref().is_some_and(|found| found.starts_with(data)),
            Promise::Either(other, data) => {
                found.as_ref() == Some(data) || held(f2fs, other).as_ref() == Some(data)
            }
        };
        assert!(
            kept,
            "{id}: {path} holds {:?} bytes, promised {promise:.60?}",
            found.map(|data| data.len())
        );
    }
}

/// What a cut may not leave, once what was durable behind the checkpoint is recovered: anything.
fn damage(disk: &mut Ram) -> Vec<Finding> {
    let report = read_only(disk).check().unwrap();
    report
        .findings
        .into_iter()
        .filter(|finding| *finding != Finding::InUse)
        .collect()
}

/// Another mount goes on: makes, fills and removes files, and everything promised is still there.
fn assert_goes_on(disk: &mut Ram, promises: &Promises, id: &str) {
    let mut f2fs = mount(&mut *disk);
    assert_kept(&mut f2fs, promises, id);
    for number in 0..6 {
        let file = put(
            &mut f2fs,
            Ino::ROOT,
            &format!("afterwards {number}"),
            &bytes(number, 1200),
        );
        f2fs.fsync(file, Sync::All)
            .unwrap_or_else(|error| panic!("{id}: {error} {:?}", f2fs.fault()));
        f2fs.forget(file, 1);
    }
    f2fs.unlink(Ino::ROOT, b"afterwards 3", common::NOW)
        .unwrap();
    // And ends without an unmount.
    f2fs.sync().unwrap();
    let mut f2fs = mount(&mut *disk);
    assert_kept(&mut f2fs, promises, id);
    assert_eq!(
        held(&mut f2fs, "/afterwards 5"),
        Some(bytes(5, 1200)),
        "{id}"
    );
    f2fs.unmount().unwrap();
    common::assert_clean(disk, &format!("{id}: after going on"));
}

/// Recovery itself is cut at every write, and begun again.
fn assert_recovers_again(disk: &Ram, promises: &Promises, id: &str) {
    let mut log = WriteLog::new(disk.clone());
    F2fs::mount(&mut log, Options::default()).unwrap();
    for state in log.cuts(disk.clone(), 5, 3) {
        let (again, mut disk) = state.unwrap();
        let id = format!("{id}, recovery {again:?}");
        assert_kept(&mut read_only(&mut disk), promises, &id);
        assert_eq!(damage(&mut disk), [], "{id}");
    }
}

/// Judges one of so many states that cuts may leave; of those with `sample` above 1 by a full check
/// only one of so many.
fn cut_run(run: &Run, name: &str, variants: u32, every: u64, sample: u64) {
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
        let word = mix(cut as u64, u64::from(variant));
        if !(word >> 32).is_multiple_of(every) {
            continue;
        }
        let id = format!("{name} cut {cut} variant {variant}");
        // What was promised by the last change before the cut: every promise made after it came
        // later.
        let at = promises.partition_point(|(changes, _)| *changes <= cut);
        let now = &promises[at - 1].1;
        assert_kept(&mut read_only(&mut disk), now, &id);
        if word.is_multiple_of(sample) {
            assert_eq!(damage(&mut disk), [], "{id}");
        }
        if word.is_multiple_of(101) {
            assert_recovers_again(&disk, now, &id);
        }
        if word.is_multiple_of(40) {
            assert_goes_on(&mut disk, now, &id);
            fscks += 1;
        }
    }
    println!(
        "{name}: {} changes, {fscks} volumes for fsck.f2fs",
        records.len()
    );
    assert!(records.len() > 300 && fscks > 10);
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
    let bare = Options {
        logs: 4,
        inline_data: false,
        inline_names: false,
        ..defaults
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
fn cuts_lose_nothing_while_room_is_little() {
    for threaded in [true, false] {
        let options = Options {
            threaded,
            ..Options::default()
        };
        cut_run(
            &record(60, &Format::default(), options, churn),
            &format!("little room, threaded {threaded}"),
            1,
            3,
            3,
        );
    }
}
