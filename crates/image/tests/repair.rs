//! What is repaired satisfies the judge that comes with the format; what is not stays as it is.
//!
//! Needs e2fsprogs, dosfstools and f2fs-tools; fails saying so.

mod common;

use common::{archive, differences, extracted, formats, held, made, tree};
use nandlab_block::Image as Disk;
use nandlab_image::check::{Severity, check};
use nandlab_image::file::ImageFile;
use nandlab_image::make::{Format, Making, make};
use nandlab_image::repair::{Repaired, repair};
use nandlab_image::tree::{Data, Entry, Node, Tree};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_sim::mix;
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};
use std::fs;
use std::path::Path;
use std::process::Command;

const NOW: Time = Time::new(1_700_000_000);

/// What the format's own judge says, changing nothing; nothing if it is content.
fn judged(image: &Path, name: &str) -> Option<String> {
    let (package, program, options): (_, _, &[&str]) = match name {
        "ext2" | "ext3" => ("e2fsprogs", "/sbin/e2fsck", &["-fn"]),
        "f2fs" => ("f2fs-tools", "/sbin/fsck.f2fs", &["--dry-run"]),
        _ => ("dosfstools", "/sbin/fsck.vfat", &["-n", "-V"]),
    };
    let output = Command::new(program).args(options).arg(image).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: apt-get install {package}"));
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (!output.status.success()).then_some(text)
}

fn plain(scratch: &Path) -> Tree {
    let mut tree = Tree::default();
    for number in 0..40usize {
        let (path, contents) = (scratch.join(format!("contents {number}")), common::bytes(number as u64, number * 500));
        fs::write(&path, &contents).unwrap();
        let name = format!("directory {}/a file with a name {number}", number % 3);
        let entry = Entry { node: Node::File { size: contents.len() as u64 }, mode: 0o644, ..Entry::directory(name.as_bytes()) };
        tree.push(entry, Data::whole(path, contents.len() as u64));
    }
    tree.settle().unwrap();
    tree
}

fn images(scratch: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let fat = ("fat", Format::Fat(nandlab_fat::Format::default()));
    let kept = formats().into_iter().chain([fat]).filter(|(name, _)| *name != "jffs2");
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
        let (reserved, sectors) = (short(14), short(22));
        return (reserved..reserved + 2 * sectors).map(|sector| sector * 512).collect();
    }
    let block = 1024usize << bytes[1048];
    let descriptor = if block == 1024 { 2048 } else { block };
    let parts = [(long(descriptor), 1), (long(descriptor + 4), 1), (long(descriptor + 8), 4)];
    let blocks = parts.into_iter().flat_map(|(first, count)| (first * block..(first + count) * block).step_by(512));
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
    for (name, good) in images(scratch.path()).into_iter().filter(|(name, _)| *name != "f2fs") {
        let structure = derived(name, &good);
        let (mut mended, mut left) = (0, 0);
        for seed in 0..60 {
            let mut bytes = good.clone();
            for edit in 0..1 + mix(seed, 0) % 3 {
                let number = |which: u64| mix(mix(seed, edit + 1), which);
                let at = structure[(number(0) % structure.len() as u64) as usize] + (number(1) % 512) as usize;
                bytes[at] ^= 1 << (number(2) % 8);
            }
            fs::write(&image, &bytes).unwrap();
            let outcome = repaired(&image);
            let after = fs::read(&image).unwrap();
            if outcome.replaced {
                mended += 1;
                assert_ne!(outcome.after.worst(), Some(Severity::Damage), "{name}, seed {seed}: {outcome:?}");
                discontent.extend(judged(&image, name).map(|said| format!("{name}, seed {seed}: {:?}\n{said}", outcome.before)));
            } else {
                left += usize::from(!outcome.before.findings.is_empty());
                assert!(after == bytes, "{name}, seed {seed}: not repaired and yet changed");
            }
        }
        println!("{name}: {mended} mended, {left} left as they are");
        assert!(mended > 0, "{name}: {mended} repaired");
    }
    assert!(discontent.is_empty(), "{}", discontent.join("\n"));
}

#[test]
fn what_follows_from_something_else_is_made_right_and_nothing_is_lost() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, good) in images(scratch.path()) {
        let image = scratch.path().join("image");
        let mut bytes = good.clone();
        match name {
            // The first group's bitmap of blocks, which its descriptor names, and its counts.
            "ext2" | "ext3" => {
                let block = 1024usize << bytes[1048];
                let descriptor = if block == 1024 { 2048 } else { block };
                let bitmap = u32::from_le_bytes(bytes[descriptor..descriptor + 4].try_into().unwrap()) as usize * block;
                bytes[bitmap] = 0;
                bytes[bitmap + block / 16] ^= 0xFF;
                bytes[descriptor + 12] ^= 0x55;
                bytes[1024 + 12] ^= 0x77;
            }
            // The second copy of the table.
            "fat" => {
                let reserved = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
                let sectors = usize::from(u16::from_le_bytes([bytes[22], bytes[23]]));
                let second = (reserved + sectors) * 512;
                bytes[second + 3..second + 60].fill(0);
            }
            // The number of links in the node of a file: its name is in it.
            _ => {
                let name = b"a file with a name 7\0";
                let at = bytes.windows(name.len()).position(|window| window == name).unwrap() / 4096 * 4096;
                let inode = (at..bytes.len()).step_by(4096).find(|at| bytes[at + 92..].starts_with(name)).unwrap();
                bytes[inode + 12] = 9;
            }
        }
        fs::write(&image, &bytes).unwrap();
        let outcome = repaired(&image);
        assert!(outcome.replaced && !outcome.before.findings.is_empty(), "{name}: {outcome:?}");
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
            "fat" => left_open(nandlab_fat::Fat::mount(disk, nandlab_fat::Options::default()).unwrap()),
            "f2fs" => left_open(nandlab_f2fs::F2fs::mount(disk, nandlab_f2fs::Options::default()).unwrap()),
            _ => left_open(nandlab_ext::Ext::mount(disk, nandlab_ext::Options::default()).unwrap()),
        }
        let outcome = repaired(&image);
        assert!(outcome.replaced, "{name}: {outcome:?}");
        assert_eq!((&outcome.after.findings[..], judged(&image, name)), (&[][..], None), "{name}");
        let mut volume = Volume::open(&image, &Opening::default(), Access::Read).unwrap();
        let found = nandlab_image::walk::one(volume.fs().unwrap(), b"synced").unwrap();
        assert_eq!(found.1.size(), 5000, "{name}: what was synced is there");
    }
}

/// Writes, syncs, removes a file that is open, and goes away without an end.
fn left_open<F: FileSystem>(mut fs: F) {
    let by = Caller::root(NOW);
    let file = fs.create(Ino::ROOT, b"synced", NewNode::File, 0o600, by).unwrap().ino;
    assert_eq!(fs.write(file, 0, &[7; 5000], NOW), Ok(5000));
    let open = fs.create(Ino::ROOT, b"open", NewNode::File, 0o600, by).unwrap().ino;
    assert_eq!(fs.write(open, 0, &[7; 5000], NOW), Ok(5000));
    fs.sync().unwrap();
    fs.unlink(Ino::ROOT, b"open", NOW).unwrap();
    fs.fsync(file, Sync::All).unwrap();
}

#[test]
fn jffs2_says_that_it_cannot_be_repaired_and_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let format = formats().into_iter().find(|(name, _)| *name == "jffs2").unwrap().1;
    made(&plain(scratch.path()), format, &image, 1);
    let mut bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0x55);
    fs::write(&image, &bytes).unwrap();
    let outcome = repaired(&image);
    assert!(!outcome.replaced && outcome.after.findings.last().unwrap().what.contains("extract --salvage"), "{outcome:?}");
    assert!(fs::read(&image).unwrap() == bytes);
}

#[test]
fn a_superblock_comes_back_from_its_copy() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let tree = tree(scratch.path(), false);
    let format = Format::Ext(nandlab_ext::Format { block: Some(1024), ..Default::default() });
    make(tree.clone(), Making { format, size: Some(20 << 20), lossy: false, threads: 1, progress: &mut |_| {} }, &image).unwrap();
    let mut bytes = fs::read(&image).unwrap();
    assert!(bytes.len() > 9 << 20, "{} bytes: more than one group", bytes.len());
    bytes[1024..3072].fill(0);
    fs::write(&image, &bytes).unwrap();
    assert!(Volume::open(&image, &Opening::default(), Access::Read).is_err());
    let mut volume = Volume::open(&image, &Opening { salvage: true, ..Opening::default() }, Access::Read).unwrap();
    assert!(volume.troubles.iter().any(|trouble| trouble.contains("taken from their copies")), "{:?}", volume.troubles);
    assert!(check(&mut volume).is_ok());
    let outcome = repaired(&image);
    assert!(outcome.replaced && judged(&image, "ext2").is_none(), "{outcome:?}");
    let mut found = held(&extracted(&image), scratch.path());
    found.retain(|(entry, _)| entry.path != b"lost+found");
    assert_eq!(differences(&held(&archive(&tree), scratch.path()), &found), "");
}
