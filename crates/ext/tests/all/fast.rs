//! Fast commits in the journal: a power cut in their replay, or within one of them, leaves the tree
//! behind one of them. The real kernel judges in `slow/fast_kernel.rs`.

use crate::common::fast::{CREATE, LINK, UNLINK, Writer, image, number};
use crate::common::{NOW, assert_clean, bytes, made_by_mke2fs, manifest, mkdir, mount, put};
use nandlab_block::{BlockDevice, Cuts, Lba, Ram, Record, WriteLog};
use nandlab_ext::{Checkpoint, Ext, Mode, Options, SeededBug, SeededJournalBug, Severity};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_testkit::bugs::{NOT_SHRUNK, assert_row};
use nandlab_testkit::cuts::held;
use nandlab_testkit::disk::word;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{FileSystem, Ino, path};

const BLOCK: u64 = 1024;
/// The root directory's number on the medium.
const ROOT: u32 = 2;
/// Free inodes, and the first of free blocks.
const NEW: u32 = 200;
const FREE: u32 = 7000;
const FILE: u16 = 0o100_644;
const DIRECTORY: u16 = 0o40_755;
/// Chooses the sectors that arrive.
const SEED: u64 = 5;

/// An unmounted volume with files that fast commits change.
fn base() -> Ram {
    let features = "fast_commit,^metadata_csum,^64bit";
    let mut disk = made_by_mke2fs(8 * 1024, &["-t", "ext4", "-b", "1024", "-O", features]);
    let mut ext = mount(&mut disk);
    let dir = mkdir(&mut ext, Ino::ROOT, "d");
    let old = put(&mut ext, dir, "old", &bytes(1, 6000));
    for piece in 4..9 {
        ext.write(old, piece * 4096, b"piece", NOW).unwrap();
    }
    put(&mut ext, dir, "gone", &bytes(2, 30_000));
    // The block behind its only one is free.
    mkdir(&mut ext, Ino::ROOT, "grows");
    ext.unmount().unwrap();
    drop(ext);
    for block in 0..200 {
        let at = Lba(u64::from(FREE + block) * BLOCK / 512);
        disk.write(at, &[block as u8; BLOCK as usize]).unwrap();
    }
    disk
}

/// The inode of a path as a tag holds it, with other links and another length.
fn changed(disk: &mut Ram, number: u32, links: u16, size: u32) -> Vec<u8> {
    let table = u64::from(word(disk, 2048 + 8)) * BLOCK;
    let at = table + u64::from(number - 1) * 256;
    let words = (0..40).map(|index| word(disk, at + 4 * index));
    let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    bytes[26..28].copy_from_slice(&links.to_le_bytes());
    bytes[4..8].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// The block that holds the names of the directory `/grows`.
fn block_of_names(disk: &mut Ram, dir: u32) -> u32 {
    let root = changed(disk, dir, 2, 1024)[40..100].to_vec();
    u32::from_le_bytes(root[20..24].try_into().unwrap())
}

/// Writes fast commits; returns the bytes behind each.
fn fast_commits(disk: &mut Ram) -> (Writer, Vec<usize>) {
    let numbers = ["/d", "/d/old", "/d/gone", "/grows"];
    let [dir, old, gone, grows] = numbers.map(|path| number(&mut mount(&mut *disk), path));
    let behind = block_of_names(disk, grows) + 1;
    let kept = changed(disk, old, 1, 40_000);
    let mut writer = Writer::new(disk);
    let mut ends = Vec::new();
    let file = |links| image(FILE, links, 3000, 77);
    writer.inode(NEW, &file(1)).add(NEW, 0, 3, FREE);
    writer
        .name(CREATE, ROOT, NEW, b"new")
        .inode(NEW, &file(1))
        .tail();
    ends.push(writer.bytes().len());
    writer.inode(NEW + 1, &image(DIRECTORY, 2, 1024, 78));
    writer
        .name(CREATE, dir, NEW + 1, b"dir")
        .inode(NEW + 2, &file(1));
    writer
        .add(NEW + 2, 0, 3, FREE + 3)
        .name(CREATE, NEW + 1, NEW + 2, b"inner");
    writer.inode(NEW + 2, &file(1)).tail();
    ends.push(writer.bytes().len());
    writer
        .name(UNLINK, dir, gone, b"gone")
        .name(LINK, ROOT, old, b"second");
    writer.name(UNLINK, dir, old, b"old").del(old, 1, 3);
    for piece in 0..8 {
        writer.add(old, 20 + 2 * piece, 1, FREE + 10 + 2 * piece);
    }
    writer.inode(old, &kept).tail();
    ends.push(writer.bytes().len());
    for count in 0..12 {
        let name = [b'a' + count as u8; 200];
        writer
            .inode(NEW + 10 + count, &file(1))
            .name(CREATE, grows, NEW + 10 + count, &name);
        writer.add(NEW + 10 + count, 0, 3, behind + 3 * count);
        writer.inode(NEW + 10 + count, &file(1));
        if count % 4 == 3 {
            writer.tail();
            ends.push(writer.bytes().len());
        }
    }
    (writer, ends)
}

fn options(checkpoint: Checkpoint, seeded_bug: Option<SeededBug>) -> Options {
    Options {
        checkpoint,
        seeded_bug,
        ..Options::default()
    }
}

/// Mounts, lists, and unmounts unless `dropped`; gives the tree and what went to the disk.
fn replayed(disk: Ram, options: Options, dropped: bool) -> Result<(Manifest, Vec<Record>), String> {
    let mut ext = Ext::mount(WriteLog::new(disk), options).map_err(|error| error.to_string())?;
    let tree = manifest(&mut ext);
    let report = ext.check().map_err(|error| error.to_string())?;
    let mut findings = report.findings.iter();
    // Without a journal, a cut leaves work for a check.
    let least = match options.mode {
        Mode::Unjournaled => Severity::Damage,
        _ => Severity::Waste,
    };
    if let Some(finding) = findings.find(|finding| finding.severity() >= least) {
        return Err(finding.to_string());
    }
    if !dropped {
        ext.unmount().map_err(|error| error.to_string())?;
    }
    Ok((tree, ext.into_device().into_parts().1))
}

/// Cuts the power at each write of a replay, and again in each `step`th replay that follows. Gives
/// the states up to the first that has another tree.
fn explore(
    disk: &Ram,
    options: Options,
    expected: &Manifest,
    step: usize,
) -> (u64, Result<(), String>) {
    let mut states = 1;
    let mut judge = |disk: Ram| {
        states += 1;
        let (tree, records) = replayed(disk, options, true)?;
        match differences(expected, &tree) {
            none if none.is_empty() => Ok(records),
            different => Err(different),
        }
    };
    let mut run = || {
        let (_, records) = replayed(disk.clone(), options, false)?;
        for (index, first) in Cuts::new(&records, disk.clone(), SEED, 4).enumerate() {
            let (id, first) = first.map_err(|error| error.to_string())?;
            let records = judge(first.clone()).map_err(|error| format!("{id:?}: {error}"))?;
            if index % step > 0 {
                continue;
            }
            for second in Cuts::new(&records, first, SEED, 2) {
                let (again, second) = second.map_err(|error| error.to_string())?;
                judge(second).map_err(|error| format!("{id:?}, {again:?}: {error}"))?;
            }
        }
        Ok(())
    };
    let outcome = run();
    (states, outcome)
}

/// The step from one replay with a second cut to the next, and the fewest states of a test.
fn share() -> (usize, u64) {
    whole_or((1, 300), (7, 60))
}

/// A volume with all fast commits, and its tree behind their replay.
fn whole() -> (Ram, Manifest) {
    let mut disk = base();
    let (writer, _) = fast_commits(&mut disk);
    writer.write(&mut disk, writer.bytes().len());
    let (tree, _) = replayed(disk.clone(), Options::default(), true).unwrap();
    (disk, tree)
}

#[test]
fn a_replay_makes_the_changes_of_all_fast_commits() {
    let (mut disk, tree) = whole();
    let mut ext = mount(&mut disk);
    let block = |block: u32| vec![block as u8; BLOCK as usize];
    let expected = [block(0), block(1), block(2)].concat();
    assert_eq!(held(&mut ext, "/new").unwrap(), expected[..3000]);
    let expected = [block(3), block(4), block(5)].concat();
    assert_eq!(held(&mut ext, "/d/dir/inner").unwrap(), expected[..3000]);
    let second = held(&mut ext, "/second").unwrap();
    assert_eq!(second[..1024], bytes(1, 6000)[..1024]);
    assert_eq!(second[1024..4096], [0; 3072]);
    assert_eq!(second[22 * 1024..23 * 1024], block(12));
    for gone in ["/d/gone", "/d/old"] {
        assert_eq!(held(&mut ext, gone), None);
    }
    let names = tree.keys().filter(|path| path.starts_with("./grows"));
    assert_eq!(names.count(), 1 + 12);
    let dir = path::resolve(&mut ext, b"/d").unwrap();
    assert_eq!(dir.links, 3);
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut disk, "after the replay");
    let (again, _) = replayed(disk, Options::default(), true).unwrap();
    assert_eq!(differences(&tree, &again), "");
}

#[test]
fn a_cut_anywhere_in_a_replay_and_another_in_the_next_leave_all_fast_commits() {
    let (disk, tree) = whole();
    let (step, states_min) = share();
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap, Checkpoint::RemapLate] {
        let (states, outcome) = explore(&disk, options(checkpoint, None), &tree, step);
        println!("{checkpoint:?}: {states} states");
        assert_eq!(outcome, Ok(()));
        assert!(states > states_min, "{states} states");
    }
}

#[test]
fn a_volume_that_is_then_written_without_its_journal_has_all_fast_commits() {
    let (disk, tree) = whole();
    let unjournaled = Options {
        mode: Mode::Unjournaled,
        ..Options::default()
    };
    let (step, states_min) = share();
    let (states, outcome) = explore(&disk, unjournaled, &tree, step);
    println!("{states} states");
    assert_eq!(outcome, Ok(()));
    assert!(states > states_min, "{states} states");
}

/// Trees behind no fast commit, behind the first, and so on.
fn trees(base: &Ram, writer: &Writer, ends: &[usize]) -> Vec<Manifest> {
    let ends = [0].iter().chain(ends);
    let trees = ends.map(|end| {
        let mut disk = base.clone();
        writer.write(&mut disk, *end);
        replayed(disk, Options::default(), true).unwrap().0
    });
    trees.collect()
}

/// Tears the fast commits at each sector. Gives the states up to the first with another tree than
/// that behind the last fast commit that is whole.
fn tear(options: Options) -> (u64, Result<(), String>) {
    let mut disk = base();
    let (writer, ends) = fast_commits(&mut disk);
    let trees = trees(&disk, &writer, &ends);
    let mut states = 0;
    for end in (0..=writer.bytes().len()).step_by(512) {
        states += 1;
        let mut disk = disk.clone();
        writer.write(&mut disk, end);
        // The padding behind the sum of a tail may be missing.
        let whole = ends.iter().filter(|whole| {
            let sum = writer.bytes()[..**whole]
                .iter()
                .rposition(|byte| *byte != 0);
            sum.unwrap() < end
        });
        let outcome = replayed(disk, options, true).and_then(|(tree, _)| {
            match differences(&trees[whole.count()], &tree) {
                none if none.is_empty() => Ok(()),
                different => Err(format!("{end}: {different}")),
            }
        });
        if outcome.is_err() {
            return (states, outcome);
        }
    }
    (states, Ok(()))
}

#[test]
fn a_cut_while_fast_commits_are_written_leaves_those_that_are_whole() {
    let (states, outcome) = tear(Options::default());
    assert_eq!(outcome, Ok(()));
    assert!(states >= 16, "{states} states");
}

#[test]
fn fast_commits_of_an_earlier_transaction_are_not_replayed() {
    let mut disk = base();
    let (tree, _) = replayed(disk.clone(), Options::default(), true).unwrap();
    let (writer, _) = fast_commits(&mut disk);
    writer.write(&mut disk, writer.bytes().len());
    writer.begin_log_with(&mut disk, writer.tid() + 1);
    let (found, _) = replayed(disk, Options::default(), true).unwrap();
    assert_eq!(differences(&tree, &found), "");
}

#[test]
fn every_rule_that_a_replay_leaves_out_is_found() {
    use SeededBug::{FastBlocksReused, FastTailIgnored, Journal, ReplayDivided};
    let (disk, tree) = whole();
    for bug in [
        Journal(SeededJournalBug::FastLogClosed),
        ReplayDivided,
        FastBlocksReused,
    ] {
        let options = options(Checkpoint::Copy, Some(bug));
        is_found(bug, explore(&disk, options, &tree, 1));
    }
    let bug = FastTailIgnored;
    is_found(bug, tear(options(Checkpoint::Copy, Some(bug))));
}

fn is_found(bug: SeededBug, (states, outcome): (u64, Result<(), String>)) {
    let error = outcome.expect_err("a bug that no state shows");
    println!("{bug:?}: {states} states, {error}");
    match bug {
        SeededBug::Journal(bug) => assert_row("jbd", bug, states, NOT_SHRUNK),
        bug => assert_row("ext4", bug, states, NOT_SHRUNK),
    }
}

/// The error of a mount, after a tag that makes no sense.
fn refused(add: impl FnOnce(&mut Writer, [u32; 4])) -> String {
    let mut disk = base();
    let numbers = ["/d", "/d/old", "/d/gone", "/grows"];
    let numbers = numbers.map(|path| number(&mut mount(&mut disk), path));
    let mut writer = Writer::new(&mut disk);
    add(&mut writer, numbers);
    writer.tail();
    writer.write(&mut disk, writer.bytes().len());
    let error = Ext::mount(&mut disk, Options::default()).map(drop);
    let error = error.expect_err("a tag that makes no sense").to_string();
    // A second mount finds the same volume.
    let again = Ext::mount(&mut disk, Options::default()).map(drop);
    assert_eq!(again.unwrap_err().to_string(), error);
    error
}

type Bad = (&'static str, Box<dyn FnOnce(&mut Writer, [u32; 4])>);

#[test]
fn a_tag_that_makes_no_sense_is_an_error_with_its_place() {
    let file = || image(FILE, 1, 3000, 77);
    let own = move |writer: &mut Writer| {
        writer.inode(NEW, &file());
    };
    let named = |name: &'static [u8]| -> Bad {
        (
            "name is",
            Box::new(move |w, [dir, ..]| {
                own(w);
                w.name(CREATE, dir, NEW, name);
            }),
        )
    };
    let cases: Vec<Bad> = vec![
        (
            "length of a tag is 15, expected 16",
            Box::new(|w, _| _ = w.tag(1, &[0; 15])),
        ),
        (
            "length of a tag is 13, expected 12",
            Box::new(|w, _| _ = w.tag(2, &[0; 13])),
        ),
        (
            "length of a tag is 8, expected 9",
            Box::new(|w, _| _ = w.tag(3, &[0; 8])),
        ),
        (
            "length of a tag is 100, expected 132",
            Box::new(|w, _| _ = w.tag(6, &[0; 100])),
        ),
        (
            "kind of a tag is 10, expected 1 to 9",
            Box::new(|w, _| _ = w.tag(10, &[0; 4])),
        ),
        (
            "length of an inode is 300",
            Box::new(|w, _| _ = w.inode(NEW, &[0; 300])),
        ),
        ("mode is 0", Box::new(|w, _| _ = w.inode(NEW, &[0; 160]))),
        (
            "features of fast commits is 1",
            Box::new(|w, _| {
                let head = [1u32.to_le_bytes(), w.tid().to_le_bytes()].concat();
                w.tag(9, &head);
            }),
        ),
        (
            "inode is 8, expected an inode of the volume",
            Box::new(|w, _| _ = w.inode(8, &[0; 160])),
        ),
        (
            "inode is 999999",
            Box::new(|w, [dir, ..]| _ = w.name(UNLINK, dir, 999_999, b"x")),
        ),
        (
            "inode is 0",
            Box::new(|w, [_, old, ..]| _ = w.name(LINK, 0, old, b"x")),
        ),
        (
            "blocks of an extent is 8190",
            Box::new(|w, [_, old, ..]| _ = w.add(old, 9, 9, 8190)),
        ),
        (
            "blocks of an extent is 3",
            Box::new(|w, [_, old, ..]| _ = w.add(old, 9, 1, 3)),
        ),
        (
            "length of an extent is 0",
            Box::new(|w, [_, old, ..]| _ = w.add(old, 9, 0, FREE)),
        ),
        (
            "mode of the inode is 16877",
            Box::new(|w, [dir, ..]| _ = w.add(dir, 9, 1, FREE)),
        ),
        (
            "generation is 77",
            Box::new(move |w, [_, old, ..]| _ = w.inode(old, &file())),
        ),
        (
            "inode of a new name is 200",
            Box::new(|w, [dir, ..]| {
                w.name(CREATE, dir, NEW, b"x");
            }),
        ),
        (
            "inode of the directory is",
            Box::new(|w, [_, old, gone, _]| {
                w.name(LINK, old, gone, b"x");
            }),
        ),
        (
            "inode of a second name is",
            Box::new(|w, [dir, _, _, grows]| {
                w.name(LINK, dir, grows, b"x");
            }),
        ),
        (
            "inode of a new name is",
            Box::new(|w, [dir, _, _, grows]| {
                w.name(CREATE, grows, dir, b"up");
            }),
        ),
        (
            "inode of the directory is 200",
            Box::new(|w, _| {
                w.inode(NEW, &image(DIRECTORY, 2, 1024, 7));
                w.inode(NEW + 1, &image(DIRECTORY, 2, 1024, 7));
                w.name(CREATE, NEW, NEW + 1, b"x")
                    .name(CREATE, NEW + 1, NEW, b"x");
            }),
        ),
        (
            "inode of a name is",
            Box::new(|w, [dir, old, ..]| _ = w.name(LINK, dir, old, b"gone")),
        ),
        (
            "inode of a removed name is",
            Box::new(|w, [dir, ..]| {
                w.name(UNLINK, ROOT, dir, b"d");
            }),
        ),
        named(b"a/b"),
        named(b"."),
        named(b"a\0b"),
    ];
    let mut writer_block = 0;
    for (expected, add) in cases {
        let error = refused(add);
        assert!(error.contains(expected), "{error}, expected {expected}");
        let place: u32 = error
            .strip_prefix("block ")
            .and_then(|rest| rest.split(',').next())
            .unwrap()
            .parse()
            .unwrap();
        assert!(writer_block == 0 || writer_block == place, "{error}");
        writer_block = place;
    }
}

#[test]
fn blocks_of_another_file_are_not_taken() {
    let error = refused(|writer, [_, old, _, grows]| {
        let mut disk = base();
        let block = block_of_names(&mut disk, grows);
        writer.add(old, 9, 1, block);
    });
    assert!(
        error.contains("bit of something free is 1, expected 0"),
        "{error}"
    );
}

#[test]
fn changed_bytes_of_fast_commits_never_panic() {
    let mut disk = base();
    let (mut writer, _) = fast_commits(&mut disk);
    let disk = disk;
    let mut survived = 0;
    for round in 0..400u64 {
        let mut disk = disk.clone();
        let at = nandlab_sim::mix(3, round) as usize % writer.bytes().len();
        writer.flip(at, 1 << (round % 8));
        writer.write(&mut disk, writer.bytes().len());
        if let Ok(mut ext) = Ext::mount(&mut disk, Options::default()) {
            survived += 1;
            _ = ext.check();
            _ = ext.unmount();
        }
        writer.flip(at, 1 << (round % 8));
    }
    assert!(survived > 20, "{survived}");
}
