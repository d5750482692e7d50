//! Power cuts at every write of a mixed run: what was fsynced is there under its name, nothing is
//! damaged, and going on works.

use crate::common;
use crate::common::{bytes, mkdir, mount, put, read_only};
use nandlab_block::{BlockDevice, CutId, Ram, Record, WriteLog};
use nandlab_ext::{Ext, Finding, Format, format};
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
    /// So much of this, or more: longer, which is not durable yet.
    Grown(usize, Vec<u8>),
}

type Promises = BTreeMap<String, Promise>;

/// A mixed run, with what it promises at each number of changes.
struct Run {
    records: Vec<Record>,
    base: Ram,
    promises: Vec<(usize, Promises)>,
}

struct Story<'a> {
    ext: Ext<WriteLog<&'a mut Ram>>,
    promises: Vec<(usize, Promises)>,
    now: Promises,
    dirs: BTreeMap<String, Ino>,
}

impl Story<'_> {
    /// From now on this is promised.
    fn promise(&mut self) {
        let changes = self.ext.device_mut().records().len();
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
            &mut self.ext,
            dir,
            std::str::from_utf8(&name).unwrap(),
            data,
        );
        self.ext.fsync(file, Sync::All).unwrap();
        self.ext.forget(file, 1);
        self.set(path, Promise::Holds(data.to_vec()));
    }

    /// Appends in fsynced pieces, as a camera does.
    fn append(&mut self, path: &str, piece: usize, count: usize) {
        let Promise::Holds(mut data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let file = self.ext.lookup(dir, &name).unwrap().ino;
        for index in 0..count {
            let more = bytes(mix(data.len() as u64, index as u64), piece);
            self.set(path, Promise::Begins(data.clone()));
            self.ext
                .write(file, data.len() as u64, &more, common::NOW)
                .unwrap();
            self.ext
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
        self.ext.forget(file, 1);
    }

    /// Written but not made durable; other files' fsyncs come in between.
    fn scribble(&mut self, path: &str, length: usize) {
        let (dir, name) = self.dir(path);
        self.set(path, Promise::Open);
        let file = put(
            &mut self.ext,
            dir,
            std::str::from_utf8(&name).unwrap(),
            &bytes(length as u64, length),
        );
        self.ext.forget(file, 1);
    }

    fn unlink(&mut self, path: &str) {
        let (dir, name) = self.dir(path);
        let gone = match self.now[path].clone() {
            Promise::Holds(data) => Promise::Gone(data),
            _ => Promise::Open,
        };
        self.set(path, gone);
        self.ext.unlink(dir, &name, common::NOW).unwrap();
    }

    fn truncate(&mut self, path: &str, size: usize, durable: bool) {
        let Promise::Holds(data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let file = self.ext.lookup(dir, &name).unwrap().ino;
        self.set(path, Promise::Cut(data.clone(), size));
        self.ext
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
            self.ext.fsync(file, Sync::All).unwrap();
            self.set(path, Promise::Holds(data[..size].to_vec()));
        }
        self.ext.forget(file, 1);
    }

    /// Makes a file longer, which nobody makes durable.
    fn grow(&mut self, path: &str, piece: usize) {
        let Promise::Holds(mut data) = self.now[path].clone() else {
            panic!("{path} is not settled")
        };
        let (dir, name) = self.dir(path);
        let (file, size) = (self.ext.lookup(dir, &name).unwrap().ino, data.len());
        let more = bytes(size as u64, piece);
        data.extend(&more);
        self.set(path, Promise::Grown(size, data));
        self.ext
            .write(file, size as u64, &more, common::NOW)
            .unwrap();
        self.ext.forget(file, 1);
    }

    /// Makes a file durable that is longer now.
    fn fsync(&mut self, path: &str) {
        let Promise::Grown(_, data) = self.now[path].clone() else {
            panic!("{path} is not longer")
        };
        let (dir, name) = self.dir(path);
        let file = self.ext.lookup(dir, &name).unwrap().ino;
        self.ext.fsync(file, Sync::All).unwrap();
        self.ext.forget(file, 1);
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
        self.ext
            .rename(
                (old, &old_name),
                (new, &new_name),
                Rename::Replace,
                common::NOW,
            )
            .unwrap();
        self.ext.sync().unwrap();
        self.now.remove(from);
        self.set(to, Promise::Holds(data));
    }

    fn mkdir(&mut self, path: &str) {
        let (dir, name) = self.dir(path);
        let ino = mkdir(&mut self.ext, dir, std::str::from_utf8(&name).unwrap());
        self.dirs.insert(path.into(), ino);
    }
}

/// Makes a run on a volume of these choices.
fn record(kib: u64, choices: &Format, tell: fn(&mut Story<'_>)) -> Run {
    // A torn block of names is what the format cannot mend: the device writes blocks whole.
    let sector = choices.block.unwrap_or(1024);
    let mut disk = Ram::new(sector, kib * 1024 / u64::from(sector));
    format(&mut disk, choices).unwrap();
    let base = disk.clone();
    let mut story = Story {
        ext: mount(WriteLog::new(&mut disk)),
        promises: vec![(0, Promises::new())],
        now: Promises::new(),
        dirs: BTreeMap::from([(String::new(), Ino::ROOT)]),
    };
    tell(&mut story);
    story.ext.unmount().unwrap();
    let promises = story.promises;
    let log = story.ext.into_device();
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
    story.ext.write_back(1 << 20, Time::MAX).unwrap();
    story.ext.sync().unwrap();
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
            let room = story.ext.statfs().unwrap().free as usize * 1024;
            story.create("/ballast", &bytes(6, room - 16 * 1024));
        }
    }
}

/// Files with and without blocks of numbers that are cut short and grow while others are made
/// durable.
fn lengths(story: &mut Story<'_>) {
    for round in 0..16u64 {
        let (path, turn) = (format!("/file {round}"), round as usize);
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

fn held<D: BlockDevice>(ext: &mut Ext<D>, path: &str) -> Option<Vec<u8>> {
    let attr = path::resolve(ext, path.as_bytes()).ok()?;
    let data = nandlab_vfs::tree::contents(ext, attr.ino);
    ext.forget(attr.ino, 1);
    data.ok()
}

/// Whether these are the bytes; where e2fsck has mended, perhaps up to the end of the last block.
fn are(found: &[u8], data: &[u8], mended: bool) -> bool {
    let rest = found.strip_prefix(data);
    rest.is_some_and(|rest| {
        rest.is_empty() || mended && rest.len() < 4096 && rest.iter().all(|byte| *byte == 0)
    })
}

fn assert_kept<D: BlockDevice>(ext: &mut Ext<D>, promises: &Promises, id: &str, mended: bool) {
    for (path, promise) in promises {
        let found = held(ext, path);
        let kept = match promise {
            Promise::Open => true,
            Promise::Holds(data) => found.as_ref() == Some(data),
            Promise::Gone(data) => found.as_ref().is_none_or(|found| found == data),
            // e2fsck makes a file as long as the blocks that are linked still.
            Promise::Cut(data, size) => found.as_ref().is_some_and(|found| {
                let between = mended && found.len() >= *size && data.starts_with(found);
                between || are(found, data, mended) || are(found, &data[..*size], mended)
            }),
            Promise::Grown(least, data) => found.as_ref().is_some_and(|found| {
                let most = found.len().min(data.len());
                found.len() >= *least && are(found, &data[..most], mended)
            }),
            Promise::Begins(data) => found.as_ref().is_some_and(|found| found.starts_with(data)),
            Promise::Either(other, data) => {
                found.as_ref() == Some(data) || held(ext, other).as_ref() == Some(data)
            }
        };
        assert!(
            kept,
            "{id}: {path} holds {:?} bytes, promised {promise:.60?}",
            found.map(|data| data.len())
        );
    }
}

/// The findings that a cut may not leave: what no check could mend without a loss.
fn damage(disk: &mut Ram) -> Vec<Finding> {
    let report = read_only(disk).check().unwrap();
    let lasting = |finding: &Finding| {
        matches!(
            finding,
            Finding::CrossLink { .. }
                | Finding::Stray { .. }
                | Finding::FreeBlock { .. }
                | Finding::FreeInode { .. }
                | Finding::Unreadable { .. }
        )
    };
    report.findings.into_iter().filter(lasting).collect()
}

/// Another mount goes on: makes, fills and removes files, and everything promised is still there.
fn assert_goes_on(disk: &mut Ram, promises: &Promises, id: &str) {
    let mut ext = mount(&mut *disk);
    if ext.statfs().unwrap().free * u64::from(ext.layout().block) < 12 * 1024 {
        // As full as that the story left it, with what the cut wasted.
        return;
    }
    for number in 0..6 {
        let file = put(
            &mut ext,
            Ino::ROOT,
            &format!("afterwards {number}"),
            &bytes(number, 1200),
        );
        ext.fsync(file, Sync::All)
            .unwrap_or_else(|error| panic!("{id}: {error} {:?}", ext.fault()));
    }
    ext.unlink(Ino::ROOT, b"afterwards 3", common::NOW).unwrap();
    ext.unmount().unwrap();
    let mut ext = mount(&mut *disk);
    assert_kept(&mut ext, promises, id, true);
    assert_eq!(
        held(&mut ext, "/afterwards 5"),
        Some(bytes(5, 1200)),
        "{id}"
    );
    ext.unmount().unwrap();
    common::assert_clean(disk, &format!("{id}: after going on"));
}

/// e2fsck mends what a cut left, and keeps everything promised.
fn assert_fsck_mends(disk: &mut Ram, promises: &Promises, id: &str) -> Ram {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    common::save(disk, &path);
    let output = common::tool("e2fsck", &["-fy", path.to_str().unwrap()]);
    let text = common::printed(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{id}: {text}");
    assert!(!text.contains("multiply-claimed"), "{id}: {text}");
    let mut mended = common::load(&path);
    assert_kept(
        &mut read_only(&mut mended),
        promises,
        &format!("{id} after e2fsck: {text}"),
        true,
    );
    common::assert_clean(&mut mended, id);
    mended
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
        assert_kept(&mut read_only(&mut disk), now, &id, false);
        assert_eq!(damage(&mut disk), [], "{id}");
        if mix(cut as u64, u64::from(variant)).is_multiple_of(12) {
            // As on a real machine: a check, then on with it.
            let mut mended = assert_fsck_mends(&mut disk, now, &id);
            assert_goes_on(&mut mended, now, &id);
            fscks += 1;
        }
    }
    assert!(
        records.len() > 300 && fscks > 10,
        "{} changes, {fscks} volumes for e2fsck",
        records.len()
    );
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
            churn,
        ),
        "little room",
        6,
    );
}

#[test]
fn a_length_never_covers_what_was_cut_off_or_is_not_linked() {
    cut_run(&record(5000, &Format::default(), lengths), "lengths", 4);
}
