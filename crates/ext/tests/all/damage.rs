//! Each kind of volume under small damage. A digest of all answers shows when one of them changes.

use crate::common::{NOW, bytes, mkdir, mount, put, ram};
use nandlab_block::Ram;
use nandlab_ext::{Ext, Format, Options, format};
use nandlab_testkit::disk::metadata;
use nandlab_testkit::hostile::{struck, use_up};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{Caller, FileSystem, Ino, SetAttr, SetXattr, Sync};

/// A volume that nobody unmounted: with an index, extents or block pointers, attributes, files
/// without a name, and calls behind the last commit.
fn volume(choices: &Format) -> Ram {
    let choices = Format {
        block: Some(1024),
        inode_ratio: Some(8192),
        journal_blocks: choices.journal.then_some(1024),
        ..choices.clone()
    };
    let mut disk = ram(if choices.journal { 3000 } else { 1200 });
    format(&mut disk, &choices).unwrap();
    let mut ext = mount(&mut disk);
    let many = mkdir(&mut ext, Ino::ROOT, "many");
    for number in 0..60 {
        let name = format!("a file with a long name, so that an index is needed {number}");
        put(&mut ext, many, &name, &bytes(number, 100));
    }
    let large = put(&mut ext, many, "LARGE", &bytes(1, 120_000));
    ext.setxattr(large, b"user.outside", &[5; 300], SetXattr::Any, NOW)
        .unwrap();
    ext.symlink(many, b"slow", &[b's'; 100], Caller::root(NOW))
        .unwrap();
    ext.sync().unwrap();
    let pieces = put(&mut ext, many, "PIECES", b"");
    for index in 0..90 {
        ext.write(pieces, index * 2048, b"a piece", NOW).unwrap();
    }
    ext.fsync(pieces, Sync::All).unwrap();
    // A mount has to end this file, which nobody has let go.
    put(&mut ext, many, "GONE", &bytes(2, 9000));
    ext.unlink(many, b"GONE", NOW).unwrap();
    let shorter = SetAttr {
        size: Some(30_000),
        ..SetAttr::default()
    };
    ext.setattr(large, &shorter, NOW).unwrap();
    ext.sync().unwrap();
    ext.write(large, 29_000, &bytes(3, 4000), NOW).unwrap();
    ext.fsync(large, Sync::All).unwrap();
    drop(ext);
    disk
}

/// Everything that a caller sees of a volume, and the volume in the end.
fn outcome(disk: &mut Ram) -> Media {
    let mut seen = Media::default();
    let looks = Options {
        read_only: true,
        ..Options::default()
    };
    seen.note_or(Ext::mount(&mut *disk, looks), |mut ext, seen| {
        seen.note(&ext.check());
        seen.note(ext.layout());
    });
    let small = Options {
        cache_bytes: 16 * 1024,
        ..Options::default()
    };
    seen.note_or(Ext::mount(&mut *disk, small), |mut ext, seen| {
        seen.add(use_up(&mut ext, 24));
    });
    seen.disk(disk)
}

#[test]
fn every_answer_to_small_damage_is_a_kept_one() {
    let plain = Format::default();
    let journaled = Format {
        journal: true,
        ..plain.clone()
    };
    let ext4 = Format {
        ext4: true,
        ..journaled.clone()
    };
    let fast = Format {
        fast_commit: true,
        ..ext4.clone()
    };
    let kinds = [
        ("ext2", plain),
        ("ext3", journaled),
        ("ext4", ext4),
        ("ext4, fast", fast),
    ];
    // The last has all that the two before it have; `hostile.rs` strikes ext2.
    for (name, choices) in kinds.into_iter().skip(whole_or(0, 3)) {
        let mut disk = volume(&choices);
        let places = metadata(&mut disk, 1024);
        let mut all = outcome(&mut disk.clone());
        all.add(struck(&disk, (&[1024, 2048], 256), 200, outcome));
        all.add(struck(&disk, (&places, 1024), 400, outcome));
        all.assert(&format!("damage, {name}"));
    }
}
