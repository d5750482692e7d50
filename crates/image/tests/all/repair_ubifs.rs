//! A repair makes a damaged UBIFS anew, in its own place, and lists each loss. The nodes of a
//! volume show its past.
//!
//! Needs mtd-utils; fails saying so.

use crate::ubifs::{SHAPES, in_ubi_of, opened, packed, shapes};
use nandlab_image::check::{Severity, Verdict, check};
use nandlab_image::convert::convert;
use nandlab_image::history::History;
use nandlab_image::place::Place;
use nandlab_image::repair::{Repaired, repair};
use nandlab_image::volume::{Access, Mounted, Opening, Volume};
use nandlab_mtd::ImageFormat;
use nandlab_testkit::host;
use nandlab_ubifs::format::{Kind, node};
use nandlab_ubifs::{Bare, Format, Ubifs, format};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};
use std::fs::{self, File};
use std::path::Path;

const NOW: Time = Time::new(1_700_000_000);

fn repaired(image: &Path) -> Repaired {
    repair(image, &Opening::default(), NOW).unwrap()
}

/// The places and lengths of all nodes of a type.
fn nodes(bytes: &[u8], kind: Kind) -> Vec<(usize, usize)> {
    let found = (0..bytes.len()).step_by(8).filter_map(|at| {
        let (header, _) = node(&bytes[at..], 2 << 20, 8).ok()?;
        (header.kind == kind).then_some((at, header.len as usize))
    });
    found.collect()
}

/// Flips a bit of every index node.
fn without_index(bytes: &mut [u8]) {
    let all = nodes(bytes, Kind::Index);
    assert!(all.len() > 10);
    all.iter().for_each(|(at, len)| bytes[at + len / 2] ^= 2);
}

/// Checks that an image is sound and holds the host's tree. Returns the number of the volume.
fn assert_holds(image: &Path, scratch: &Path) -> [u8; 16] {
    let mut volume = opened(image, &Opening::default());
    let fs = volume.fs().unwrap();
    host::compare(fs, Ino::ROOT, &scratch.join("tree"), &[]);
    let checked = check(&mut volume).unwrap();
    assert_eq!(checked.verdict(), Verdict::Sound, "{checked:?}");
    assert!(checked.worst() <= Some(Severity::Note), "{checked:?}");
    uuid(&volume)
}

fn uuid(volume: &Volume) -> [u8; 16] {
    match &volume.mounted {
        Some(Mounted::Ubifs(fs)) => fs.head().uuid,
        _ => panic!("{volume:?}"),
    }
}

#[test]
fn a_file_of_mkfs_is_made_anew_with_its_number_and_becomes_longer_if_it_must() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    for (shape, compressor) in shapes(["lzo", "zlib", "zstd"]) {
        packed(scratch.path(), shape, compressor);
        let before = uuid(&opened(&image, &Opening::default()));
        let mut bytes = fs::read(&image).unwrap();
        without_index(&mut bytes);
        fs::write(&image, &bytes).unwrap();
        let outcome = repaired(&image);
        assert!(outcome.replaced && outcome.lost.is_empty(), "{outcome:?}");
        assert_eq!(assert_holds(&image, scratch.path()), before);
        assert!(fs::read(&image).unwrap().len() >= bytes.len());
    }
}

/// The code of the spare bytes is right again, and so are UBI's headers.
#[test]
fn a_volume_of_ubi_is_made_anew_also_in_a_dump_with_spare_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let ubi = scratch.path().join("ubi");
    let dump = scratch.path().join("dump");
    let shape = SHAPES[1];
    packed(scratch.path(), shape, "lzo");
    in_ubi_of(scratch.path(), shape, &ubi, "vol_size=16MiB\n");
    let before = uuid(&opened(&ubi, &Opening::default()));
    // The second time over a volume that was longer in use than the new one.
    for _ in 0..2 {
        let mut bytes = fs::read(&ubi).unwrap();
        without_index(&mut bytes);
        fs::write(&ubi, &bytes).unwrap();
        let outcome = repaired(&ubi);
        assert!(outcome.replaced && outcome.lost.is_empty(), "{outcome:?}");
        assert_eq!(assert_holds(&ubi, scratch.path()), before);
    }
    let mut bytes = fs::read(&ubi).unwrap();
    without_index(&mut bytes);
    fs::write(&ubi, &bytes).unwrap();
    let plain = ImageFormat {
        page: 2048,
        oob: 0,
        pages_per_block: 64,
        layout: nandlab_mtd::Layout::Raw,
        ecc: None,
    };
    let spare = ImageFormat::linux(2048, 64, 64, Some("hamming".parse().unwrap())).unwrap();
    convert(&Place::file(&ubi), plain, &dump, spare).unwrap();
    let outcome = repaired(&dump);
    assert!(outcome.replaced && outcome.lost.is_empty(), "{outcome:?}");
    assert_eq!(assert_holds(&dump, scratch.path()), before);
    let volume = opened(&dump, &Opening::default());
    assert_eq!(volume.looked_into, Some(1), "the volume before it is there");
}

#[test]
fn a_repair_lists_each_range_that_it_could_not_read() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    packed(scratch.path(), SHAPES[0], "none");
    let mut bytes = fs::read(&image).unwrap();
    let contents = fs::read(scratch.path().join("tree/etc/of 4097")).unwrap();
    let is_first = |at: usize| bytes[at + 48..].starts_with(&contents[..4096]);
    let all = nodes(&bytes, Kind::Data);
    let (at, _) = all.into_iter().find(|(at, _)| is_first(*at)).unwrap();
    bytes[at + 100] ^= 1;
    fs::write(&image, &bytes).unwrap();
    let outcome = repaired(&image);
    assert!(outcome.replaced, "{outcome:?}");
    let lost: Vec<String> = outcome.lost.list.iter().map(ToString::to_string).collect();
    let is_listed = |loss: &String| loss.contains("bytes 0 to 4096 cannot be read");
    assert!(lost.iter().any(is_listed), "{lost:?}");
    let mut volume = opened(&image, &Opening::default());
    assert_eq!(check(&mut volume).unwrap().verdict(), Verdict::Sound);
    let fs = volume.fs().unwrap();
    let file = nandlab_vfs::path::resolve(fs, b"etc/of 4097").unwrap();
    let mut found = vec![1; 4097];
    assert_eq!(fs.read(file.ino, 0, &mut found), Ok(4097));
    assert!(found[..4096].iter().all(|byte| *byte == 0) && found[4096] == contents[4096]);
}

#[test]
fn a_file_without_its_superblock_is_read_and_not_repaired() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    packed(scratch.path(), SHAPES[1], "zstd");
    let mut bytes = fs::read(&image).unwrap();
    bytes[..4096].fill(0);
    fs::write(&image, &bytes).unwrap();
    assert!(Volume::open(&image, &Opening::default(), Access::Read).is_err());
    let salvage = Opening {
        salvage: true,
        ..Opening::default()
    };
    let mut volume = opened(&image, &salvage);
    let fs = volume.fs().unwrap();
    host::compare(fs, Ino::ROOT, &scratch.path().join("tree"), &[]);
    assert_eq!(check(&mut volume).unwrap().verdict(), Verdict::Damaged);
    let outcome = repaired(&image);
    assert!(!outcome.replaced && fs::read(&image).unwrap() == bytes);
    let last = outcome.after.findings.last().unwrap().to_string();
    assert!(last.contains("the superblock is gone"), "{last}");
}

#[test]
fn the_past_of_ubifs_has_deleted_files_and_former_versions() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let leb = 15_872;
    let bytes = vec![0xFF; 100 * leb];
    let choices = Format {
        page: Some(512),
        now: Time::new(1_000_000_000),
        ..Format::default()
    };
    let lebs = format(Bare::with(bytes, leb as u32, 100), &choices).unwrap();
    let mut ubifs = Ubifs::mount_writable(lebs).unwrap();
    let at = |round: u8| Time::new(1_000_000_000 + i64::from(round) * 100);
    let by = Caller::root(at(0));
    let dir = ubifs
        .create(Ino::ROOT, b"dir", NewNode::Directory, 0o755, by)
        .unwrap();
    let file = ubifs
        .create(dir.ino, b"report", NewNode::File, 0o640, by)
        .unwrap();
    for round in 1..=3u8 {
        ubifs
            .write(file.ino, 0, &vec![round; 9000], at(round))
            .unwrap();
        ubifs.fsync(file.ino, Sync::All).unwrap();
    }
    ubifs.unlink(dir.ino, b"report", at(4)).unwrap();
    ubifs.forget(file.ino, 1);
    ubifs.unmount().unwrap();
    fs::write(&image, ubifs.into_lebs().into_bytes()).unwrap();
    let mut volume = opened(&image, &Opening::default());
    let history = History::read(&mut volume).unwrap();
    let [deleted] = &history.deleted()[..] else {
        panic!("{:?}", history.deleted());
    };
    assert_eq!(
        (deleted.path.to_string(), deleted.size),
        ("/dir/report".into(), 9000)
    );
    assert_eq!((deleted.mtime, deleted.mode), (at(3).secs, 0o640));
    let events = history.events();
    let removed = events
        .iter()
        .find(|event| event.what == "name removed")
        .unwrap();
    assert_eq!(
        (removed.time, removed.path.to_string()),
        (at(4).secs, "/dir/report".into())
    );
    let mut found = Vec::new();
    for event in events
        .iter()
        .filter(|event| event.what.contains("bytes 8192 to 9000 written"))
    {
        let path = scratch.path().join("found");
        let to = File::create(&path).unwrap();
        let until = Some(event.version);
        let missing = history
            .contents(&mut volume, deleted.ino, until, &to)
            .unwrap();
        assert_eq!(missing, 0);
        found.push((event.time, fs::read(path).unwrap()));
    }
    let expected: Vec<_> = (1..=3u8)
        .map(|round| (at(round).secs, vec![round; 9000]))
        .collect();
    assert!(found == expected, "{events:#?}");
}
