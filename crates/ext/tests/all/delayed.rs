//! Delayed allocation: what reaches the disk when, what callers see meanwhile, and a full volume.

use crate::common::{NOW, assert_clean, mount, put, ram};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Ext, Format, Mode, Options, SeededBug, format};
use nandlab_sim::mix;
use nandlab_testkit::model::Rounds;
use nandlab_vfs::model::Rules;
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Rename, SetAttr, Sync, Time};

fn options() -> Options {
    Options {
        delayed_allocation: true,
        ..Options::default()
    }
}

fn formatted(kib: u64, block: u32) -> Ram {
    let choices = Format {
        journal: true,
        journal_blocks: Some(1024),
        ext4: true,
        block: Some(block),
        ..Format::default()
    };
    let mut disk = ram(kib);
    format(&mut disk, &choices).unwrap();
    disk
}

fn delayed(disk: Ram) -> Ext<Ram> {
    Ext::mount(disk, options()).unwrap()
}

fn contents(fs: &mut dyn FileSystem, path: &str) -> Vec<u8> {
    let file = nandlab_vfs::path::resolve(fs, path.as_bytes()).unwrap();
    let mut all = vec![0; file.size as usize];
    let read = fs.read(file.ino, 0, &mut all).unwrap();
    assert_eq!(read, all.len());
    all
}

/// Pages of the disk that begin with a pattern.
fn pages_of(ext: &mut Ext<Ram>, pattern: &[u8]) -> usize {
    let disk = ext.device_mut();
    let mut all = vec![0; disk.geometry().bytes() as usize];
    disk.read(Lba(0), &mut all).unwrap();
    let pages = all.chunks(1024);
    pages.filter(|page| page.starts_with(pattern)).count()
}

/// Pages of 1 KiB that begin with a pattern.
fn patterned(pattern: &[u8], pages: usize) -> Vec<u8> {
    let mut page = pattern.to_vec();
    page.resize(1024, 0x55);
    page.repeat(pages)
}

fn resize(ext: &mut Ext<Ram>, file: Ino, size: u64) {
    let change = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    ext.setattr(file, &change, NOW).unwrap();
}

#[test]
fn an_fsync_writes_the_contents_of_its_own_file_only() {
    let mut ext = delayed(formatted(16 << 10, 1024));
    let one = put(&mut ext, Ino::ROOT, "one", &patterned(b"ONE", 9));
    let two = put(&mut ext, Ino::ROOT, "two", &patterned(b"TWO", 9));
    assert_eq!([b"ONE", b"TWO"].map(|p| pages_of(&mut ext, p)), [0, 0]);
    ext.fsync(two, Sync::All).unwrap();
    assert_eq!([b"ONE", b"TWO"].map(|p| pages_of(&mut ext, p)), [0, 9]);
    ext.fsync(one, Sync::Data).unwrap();
    assert_eq!(pages_of(&mut ext, b"ONE"), 9);
    let mut later = mount(ext.into_device());
    assert_eq!(contents(&mut later, "/one"), patterned(b"ONE", 9));
}

#[test]
fn a_commit_leaves_contents_that_replace_others_in_place() {
    let mut ext = delayed(formatted(16 << 10, 1024));
    let one = put(&mut ext, Ino::ROOT, "one", &patterned(b"ONE", 9));
    let two = put(&mut ext, Ino::ROOT, "two", b"");
    ext.fsync(one, Sync::All).unwrap();
    ext.write(one, 0, &patterned(b"NEXT", 9), NOW).unwrap();
    ext.fsync(two, Sync::All).unwrap();
    assert_eq!(pages_of(&mut ext, b"NEXT"), 0);
    assert_eq!(ext.due(), Some(Time::new(NOW.secs + 30)));
    ext.work(Time::new(NOW.secs + 30)).unwrap();
    assert_eq!(pages_of(&mut ext, b"NEXT"), 9);
}

#[test]
fn contents_of_a_removed_file_never_reach_the_disk() {
    let mut ext = delayed(formatted(16 << 10, 1024));
    let free = ext.statfs().unwrap().free;
    let gone = put(&mut ext, Ino::ROOT, "gone", &patterned(b"GONE", 50));
    assert_eq!(ext.statfs().unwrap().free, free - 50);
    ext.unlink(Ino::ROOT, b"gone", NOW).unwrap();
    ext.forget(gone, 1);
    let cut = put(&mut ext, Ino::ROOT, "cut", &patterned(b"CUT", 50));
    resize(&mut ext, cut, 1024);
    ext.sync().unwrap();
    assert_eq!(
        [&b"GONE"[..], b"CUT"].map(|p| pages_of(&mut ext, p)),
        [0, 1]
    );
    assert_eq!(ext.statfs().unwrap().free, free - 1);
}

#[test]
fn what_replaces_a_file_is_written_with_its_name() {
    let mut ext = delayed(formatted(16 << 10, 1024));
    let other = put(&mut ext, Ino::ROOT, "other", b"");
    put(&mut ext, Ino::ROOT, "old", &patterned(b"OLD", 3));
    put(&mut ext, Ino::ROOT, "new", &patterned(b"NEW", 3));
    let to = (Ino::ROOT, &b"old"[..]);
    ext.rename((Ino::ROOT, b"new"), to, Rename::Replace, NOW)
        .unwrap();
    assert_eq!([b"OLD", b"NEW"].map(|p| pages_of(&mut ext, p)), [0, 3]);
    let file = put(&mut ext, Ino::ROOT, "cut", &patterned(b"CUT", 3));
    resize(&mut ext, file, 0);
    ext.write(file, 0, &patterned(b"AGAIN", 3), NOW).unwrap();
    ext.fsync(other, Sync::All).unwrap();
    assert_eq!(
        [&b"CUT"[..], b"AGAIN"].map(|p| pages_of(&mut ext, p)),
        [0, 3]
    );
}

#[test]
fn contents_are_written_when_they_are_old_or_too_many() {
    let mut ext = delayed(formatted(32 << 10, 1024));
    put(&mut ext, Ino::ROOT, "old", &patterned(b"OLD", 3));
    let at = |secs| Time::new(NOW.secs + secs);
    for secs in [5, 29] {
        ext.work(at(secs)).unwrap();
        assert_eq!(pages_of(&mut ext, b"OLD"), 0);
    }
    assert_eq!(ext.due(), Some(at(30)));
    ext.work(at(30)).unwrap();
    assert_eq!(pages_of(&mut ext, b"OLD"), 3);
    let most = options().dirty_bytes_max as usize / 1024;
    put(&mut ext, Ino::ROOT, "first", &patterned(b"FIRST", most));
    assert_eq!(pages_of(&mut ext, b"FIRST"), 0);
    put(&mut ext, Ino::ROOT, "second", &patterned(b"SECOND", 1));
    assert_eq!(
        [&b"FIRST"[..], b"SECOND"].map(|p| pages_of(&mut ext, p)),
        [most, 0]
    );
}

#[test]
fn contents_in_holes_are_read_before_they_have_blocks() {
    let mut ext = delayed(formatted(16 << 10, 1024));
    let file = put(&mut ext, Ino::ROOT, "file", &[1; 1500]);
    ext.fsync(file, Sync::All).unwrap();
    let mut expected = vec![0; 9000];
    expected[..1500].fill(1);
    for (at, length, byte) in [(8000, 1000, 2), (4000, 3000, 3), (1400, 200, 4)] {
        ext.write(file, at, &vec![byte; length], NOW).unwrap();
        expected[at as usize..at as usize + length].fill(byte);
    }
    assert_eq!(contents(&mut ext, "/file"), expected);
    assert_eq!(ext.getattr(file).unwrap().size, 9000);
    assert_eq!(ext.next_data(file, 2048).unwrap(), 3072);
    ext.unmount().unwrap();
    let mut disk = ext.into_device();
    assert_eq!(contents(&mut mount(&mut disk), "/file"), expected);
    assert_clean(&mut disk, "holes");
}

/// Writes pages far apart until the volume is full; returns the accepted writes.
fn fill(ext: &mut Ext<Ram>, seed: u64, gap: u64) -> Vec<(Ino, u64)> {
    let mut accepted = Vec::new();
    for number in 0.. {
        let name = format!("{number}");
        let by = Caller::root(NOW);
        let new = match ext.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by) {
            Ok(new) => new.ino,
            Err(error) => {
                assert_eq!(error, Errno::NoSpace);
                break;
            }
        };
        for step in 0..mix(seed, number) % 900 {
            let at = step * gap * 1024;
            match ext.write(new, at, &patterned(&at.to_le_bytes(), 1), NOW) {
                Ok(1024) => accepted.push((new, at)),
                outcome => {
                    assert_eq!(outcome, Err(Errno::NoSpace));
                    return accepted;
                }
            }
        }
    }
    accepted
}

#[test]
fn what_a_full_volume_accepted_can_be_written_back() {
    for (seed, gap) in [(1, 1), (2, 2), (3, 3)] {
        let mut ext = delayed(formatted(8 << 10, 1024));
        let accepted = fill(&mut ext, seed, gap);
        ext.sync().unwrap();
        // A block with its node may not fit.
        assert!(ext.statfs().unwrap().free < 4);
        for (file, at) in accepted {
            let mut page = [0; 1024];
            ext.read(file, at, &mut page).unwrap();
            assert_eq!(page[..], patterned(&at.to_le_bytes(), 1)[..]);
        }
        ext.unmount().unwrap();
        assert_clean(&mut ext.into_device(), &format!("full {seed}"));
    }
}

#[test]
fn without_a_reservation_a_full_volume_loses_what_it_accepted() {
    let options = Options {
        seeded_bug: Some(SeededBug::DelayedUnreserved),
        dirty_bytes_max: 16 << 20,
        ..options()
    };
    let mut ext = Ext::mount(formatted(8 << 10, 1024), options).unwrap();
    let file = put(&mut ext, Ino::ROOT, "file", b"");
    let data = patterned(b"LOST", 10_000);
    assert_eq!(ext.write(file, 0, &data, NOW), Ok(data.len()));
    assert_eq!(ext.sync(), Err(Errno::NoSpace));
}

/// Random calls with remounts, beside the reference.
fn compare(block: u32, options: Options, seed: u64) {
    let mut disk = formatted(64 << 10, block);
    let mut ext = mount(&mut disk);
    ext.rmdir(Ino::ROOT, b"lost+found", NOW).unwrap();
    ext.unmount().unwrap();
    drop(ext);
    let rounds = Rounds {
        mount: &|disk| Box::new(Ext::mount(disk, options).unwrap()),
        assert_clean,
        rules: Rules {
            xattrs: block > 1024,
            ..Rules::unix()
        },
        seed,
        rounds: 4,
        steps: 5000,
    };
    rounds.run(&mut disk);
}

#[test]
fn random_calls_answer_like_the_reference() {
    compare(1024, options(), 1);
    compare(4096, options(), 2);
}

#[test]
fn random_calls_answer_like_the_reference_in_other_modes_and_with_little_memory() {
    let writeback = Options {
        mode: Mode::Writeback,
        ..options()
    };
    compare(2048, writeback, 3);
    let tight = Options {
        cache_bytes: 8192,
        dirty_bytes_max: 16_384,
        ..options()
    };
    compare(1024, tight, 4);
}
