//! What is repaired satisfies the judge that comes with the format; what is not stays as it is.
//!
//! Needs e2fsprogs, dosfstools and f2fs-tools; fails saying so.

use crate::common;
use crate::common::{
    archive, derange, differences, extracted, formats, held, judged, made, plain, tree,
};
use nandlab_block::Image as Disk;
use nandlab_image::check::{Severity, check};
use nandlab_image::file::ImageFile;
use nandlab_image::make::{Format, Making, make};
use nandlab_image::repair::{Repaired, repair};
use nandlab_image::tree::{Data, Entry, Node, Tree};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_sim::mix;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};
use std::fs;
use std::path::Path;

const NOW: Time = Time::new(1_700_000_000);

fn images(scratch: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let fat = ("fat", Format::Fat(nandlab_fat::Format::default()));
    let kept = formats()
        .into_iter()
        .chain([fat])
        .filter(|(name, _)| *name != "jffs2");
    let tree = plain(scratch);
    kept.map(|(name, format)| {
        made(&tree, format, &scratch.join(name), 1);
        (name, fs::read(scratch.join(name)).unwrap())
    })
    .collect()
}

/// Sectors of bitmaps, counts, tables and inodes.
fn derived(name: &str, bytes: &[u8]) -> Vec<usize> {
    let long = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    if name == "fat" {
        let reserved = short(14);
        let sectors = short(22);
        return (reserved..reserved + 2 * sectors)
            .map(|sector| sector * 512)
            .collect();
    }
    let block = 1024usize << bytes[1048];
    let descriptor = if block == 1024 { 2048 } else { block };
    let parts = [
        (long(descriptor), 1),
        (long(descriptor + 4), 1),
        (long(descriptor + 8), 4),
    ];
    let blocks = parts
        .into_iter()
        .flat_map(|(first, count)| (first * block..(first + count) * block).step_by(512));
    blocks.chain([descriptor]).collect()
}

fn repaired(image: &Path) -> Repaired {
    repair(image, &Opening::default(), NOW).unwrap()
}

#[test]
fn what_is_repaired_satisfies_the_judge_and_the_rest_stays_as_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let mut discontent = Vec::new();
    for (name, good) in images(scratch.path())
        .into_iter()
        .filter(|(name, _)| *name != "f2fs")
    {
        let structure = derived(name, &good);
        let mut repairs = 0;
        let mut left = 0;
        for seed in 0..whole_or(60, 20) {
            let mut bytes = good.clone();
            for edit in 0..1 + mix(seed, 0) % 3 {
                let number = |which: u64| mix(mix(seed, edit + 1), which);
                let at = structure[(number(0) % structure.len() as u64) as usize]
                    + (number(1) % 512) as usize;
                bytes[at] ^= 1 << (number(2) % 8);
            }
            fs::write(&image, &bytes).unwrap();
            let outcome = repaired(&image);
            let after = fs::read(&image).unwrap();
            if outcome.replaced {
                repairs += 1;
                assert_ne!(
                    outcome.after.worst(),
                    Some(Severity::Damage),
                    "{name}, seed {seed}: {outcome:?}"
                );
                discontent.extend(
                    judged(&image, name)
                        .map(|said| format!("{name}, seed {seed}: {:?}\n{said}", outcome.before)),
                );
            } else {
                left += usize::from(!outcome.before.findings.is_empty());
                assert!(
                    after == bytes,
                    "{name}, seed {seed}: not repaired and yet changed"
                );
            }
        }
        println!("{name}: {repairs} repaired, {left} left as they are");
        assert!(repairs > 0, "{name}: {repairs} repaired");
    }
    assert!(discontent.is_empty(), "{}", discontent.join("\n"));
}

#[test]
fn what_follows_from_something_else_is_made_right_and_nothing_is_lost() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, good) in images(scratch.path()) {
        let image = scratch.path().join("image");
        let mut bytes = good.clone();
        derange(name, &mut bytes);
        fs::write(&image, &bytes).unwrap();
        let outcome = repaired(&image);
        assert!(
            outcome.replaced && !outcome.before.findings.is_empty(),
            "{name}: {outcome:?}"
        );
        assert_eq!(outcome.after.findings, [], "{name}");
        assert_eq!(judged(&image, name), None, "{name}");
        let before = scratch.path().join("good");
        fs::write(&before, &good).unwrap();
        let trees = [&before, &image].map(|image| held(&extracted(image), scratch.path()));
        assert_eq!(differences(&trees[0], &trees[1]), "", "{name}");
    }
}

#[test]
fn journals_logs_and_orphans_of_a_mount_that_never_ended_are_brought_to_an_end() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, _) in images(scratch.path()) {
        let image = scratch.path().join(name);
        let disk = Disk::new(ImageFile::open_writable(&image).unwrap(), 512).unwrap();
        match name {
            "fat" => {
                left_open(nandlab_fat::Fat::mount(disk, nandlab_fat::Options::default()).unwrap())
            }
            "f2fs" => left_open(
                nandlab_f2fs::F2fs::mount(disk, nandlab_f2fs::Options::default()).unwrap(),
            ),
            _ => left_open(nandlab_ext::Ext::mount(disk, nandlab_ext::Options::default()).unwrap()),
        }
        let outcome = repaired(&image);
        assert!(outcome.replaced, "{name}: {outcome:?}");
        assert_eq!(
            (&outcome.after.findings[..], judged(&image, name)),
            (&[][..], None),
            "{name}"
        );
        let mut volume = Volume::open(&image, &Opening::default(), Access::Read).unwrap();
        let found = nandlab_image::walk::one(volume.fs().unwrap(), b"synced").unwrap();
        assert_eq!(found.1.size(), 5000, "{name}: what was synced is there");
    }
}

#[test]
fn a_file_of_f2fs_that_has_lost_its_name_gets_one() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let contents = scratch.path().join("contents");
    let lost = common::bytes(5, 9000);
    fs::write(&contents, &lost).unwrap();
    let mut tree = Tree::default();
    // More names than an inode holds; one of a directory, too.
    for number in 0..300 {
        let name = format!("directory/a file of many {number:03}");
        let entry = Entry {
            node: Node::File { size: 9000 },
            mode: 0o640,
            ..Entry::directory(name.as_bytes())
        };
        tree.push(entry, Data::whole(contents.clone(), 9000));
    }
    tree.push(
        Entry {
            mode: 0o755,
            ..Entry::directory(b"directory/a directory of many/below")
        },
        Data::default(),
    );
    tree.normalize().unwrap();
    made(
        &tree,
        Format::F2fs(nandlab_f2fs::Format::default()),
        &image,
        1,
    );
    let mut bytes = fs::read(&image).unwrap();
    for name in [&b"a file of many 123"[..], b"a directory of many"] {
        // A block of names: a bit for each slot of eight bytes, then entries, then the names.
        const NAMES: usize = 30 + 214 * 11;
        let mut places = (0..bytes.len()).filter(|at| {
            bytes[*at..].starts_with(name)
                && at % 4096 >= NAMES
                && (at % 4096 - NAMES).is_multiple_of(8)
        });
        let at = places.next().unwrap();
        let block = at / 4096 * 4096;
        let slot = (at % 4096 - NAMES) / 8;
        (slot..slot + name.len().div_ceil(8))
            .for_each(|slot| bytes[block + slot / 8] &= !(1 << (slot % 8)));
    }
    fs::write(&image, &bytes).unwrap();
    let outcome = repaired(&image);
    assert!(
        outcome.replaced && outcome.after.findings.is_empty(),
        "{outcome:?}"
    );
    assert_eq!(
        outcome
            .before
            .findings
            .iter()
            .filter(|one| one.what.contains("has no name"))
            .count(),
        2,
        "{:?}",
        outcome.before
    );
    assert_eq!(judged(&image, "f2fs"), None);
    let found = held(&extracted(&image), scratch.path());
    let below: Vec<_> = found
        .iter()
        .filter(|(entry, _)| entry.path.starts_with(b"lost+found/#"))
        .collect();
    assert!(
        below.iter().any(|(_, contents)| *contents == lost),
        "{below:?}"
    );
    assert!(
        below
            .iter()
            .any(|(entry, _)| entry.path.ends_with(b"/below")),
        "{below:?}"
    );
}

/// Writes, syncs, removes a file that is open, and goes away without an end.
fn left_open<F: FileSystem>(mut fs: F) {
    let by = Caller::root(NOW);
    let file = fs
        .create(Ino::ROOT, b"synced", NewNode::File, 0o600, by)
        .unwrap()
        .ino;
    assert_eq!(fs.write(file, 0, &[7; 5000], NOW), Ok(5000));
    let open = fs
        .create(Ino::ROOT, b"open", NewNode::File, 0o600, by)
        .unwrap()
        .ino;
    assert_eq!(fs.write(open, 0, &[7; 5000], NOW), Ok(5000));
    fs.sync().unwrap();
    fs.unlink(Ino::ROOT, b"open", NOW).unwrap();
    fs.fsync(file, Sync::All).unwrap();
}

#[test]
fn jffs2_says_that_it_cannot_be_repaired_and_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let format = formats()
        .into_iter()
        .find(|(name, _)| *name == "jffs2")
        .unwrap()
        .1;
    made(&plain(scratch.path()), format, &image, 1);
    let mut bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0x55);
    fs::write(&image, &bytes).unwrap();
    let outcome = repaired(&image);
    assert!(
        !outcome.replaced
            && outcome
                .after
                .findings
                .last()
                .unwrap()
                .what
                .contains("extract --salvage"),
        "{outcome:?}"
    );
    assert!(fs::read(&image).unwrap() == bytes);
}

#[test]
fn a_superblock_comes_back_from_its_copy() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let tree = tree(scratch.path(), false);
    let format = Format::Ext(nandlab_ext::Format {
        block: Some(1024),
        ..Default::default()
    });
    make(
        tree.clone(),
        Making {
            format,
            size: Some(20 << 20),
            lossy: false,
            threads: 1,
            progress: &mut |_| {},
        },
        &image,
    )
    .unwrap();
    let mut bytes = fs::read(&image).unwrap();
    assert!(
        bytes.len() > 9 << 20,
        "{} bytes: more than one group",
        bytes.len()
    );
    bytes[1024..3072].fill(0);
    fs::write(&image, &bytes).unwrap();
    assert!(Volume::open(&image, &Opening::default(), Access::Read).is_err());
    let mut volume = Volume::open(
        &image,
        &Opening {
            salvage: true,
            ..Opening::default()
        },
        Access::Read,
    )
    .unwrap();
    assert!(
        volume
            .troubles
            .iter()
            .any(|trouble| trouble.contains("taken from their copies")),
        "{:?}",
        volume.troubles
    );
    assert!(check(&mut volume).is_ok());
    let outcome = repaired(&image);
    assert!(
        outcome.replaced && judged(&image, "ext2").is_none(),
        "{outcome:?}"
    );
    let mut found = held(&extracted(&image), scratch.path());
    found.retain(|(entry, _)| entry.path != b"lost+found");
    assert_eq!(
        differences(&held(&archive(&tree), scratch.path()), &found),
        ""
    );
}
