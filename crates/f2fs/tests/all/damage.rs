//! Volumes under small damage. A digest of all answers shows when one of them changes.

use crate::common::{NOW, bytes, mkdir, put, ram};
use crate::hostile::{blocks_of_pack, seal};
use nandlab_block::Ram;
use nandlab_f2fs::{F2fs, Format, Options, format};
use nandlab_testkit::disk::metadata;
use nandlab_testkit::hostile::{struck, use_up};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Ino, SetXattr, Sync};

/// A volume that nobody unmounted, with a file without a name and fsyncs behind its last
/// checkpoint.
fn volume(options: Options) -> Ram {
    let mut disk = ram(60 * 1024);
    format(&mut disk, &Format::default()).unwrap();
    let mut f2fs = F2fs::mount(&mut disk, options).unwrap();
    let many = mkdir(&mut f2fs, Ino::ROOT, "many");
    for number in 0..60 {
        let name = format!("a file with a long name, so that levels are needed {number}");
        put(&mut f2fs, many, &name, &bytes(number, 10));
    }
    let large = put(&mut f2fs, many, "LARGE", &bytes(1, 100_000));
    f2fs.write(large, 9_000_000, &bytes(2, 10_000), NOW)
        .unwrap();
    f2fs.setxattr(large, b"user.outside", &[5; 300], SetXattr::Any, NOW)
        .unwrap();
    put(&mut f2fs, many, "GONE", &bytes(3, 9000));
    f2fs.unlink(many, b"GONE", NOW).unwrap();
    f2fs.sync().unwrap();
    for number in 0..4 {
        let name = format!("new {number}");
        let file = put(
            &mut f2fs,
            many,
            &name,
            &bytes(number, 9000 * number as usize),
        );
        f2fs.fsync(file, Sync::All).unwrap();
    }
    f2fs.write(large, 50_000, &bytes(4, 9000), NOW).unwrap();
    f2fs.fsync(large, Sync::All).unwrap();
    drop(f2fs);
    disk
}

/// Everything that a caller sees of a volume, and of what a mount has left.
fn outcome(disk: &mut Ram) -> Media {
    let mut seen = Media::default();
    look(disk, &mut seen);
    let small = Options {
        cache_bytes: 64 * 1024,
        ..Options::default()
    };
    seen.note_or(F2fs::mount(&mut *disk, small), |mut f2fs, seen| {
        seen.add(use_up(&mut f2fs, 24));
        seen.note(&f2fs.counts());
    });
    look(disk, &mut seen);
    seen
}

fn look(disk: &mut Ram, seen: &mut Media) {
    let looks = Options {
        read_only: true,
        ..Options::default()
    };
    seen.note_or(F2fs::mount(&mut *disk, looks), |mut f2fs, seen| {
        seen.note(&f2fs.check());
        seen.note(f2fs.layout());
        seen.note(&f2fs.valid_blocks().collect::<Vec<_>>());
    });
}

/// Makes the checksums of both checkpoints right again first.
fn sealed(disk: &mut Ram) -> Media {
    for pack in 0..2 {
        for block in blocks_of_pack(disk, pack) {
            seal(disk, block);
        }
    }
    outcome(disk)
}

#[test]
fn every_answer_to_small_damage_is_a_kept_one() {
    let plain = Options::default();
    let blocks = Options {
        inline_data: false,
        inline_names: false,
        ..plain
    };
    let kinds = [("inline", plain), ("blocks", blocks)];
    for (name, options) in kinds.into_iter().skip(whole_or(0, 1)) {
        let mut disk = volume(options);
        let places = metadata(&mut disk, 4096);
        let packs: Vec<u64> = (0..2)
            .flat_map(|pack| blocks_of_pack(&mut disk, pack))
            .collect();
        let summaries: Vec<u64> = packs
            .iter()
            .flat_map(|block| (0..4).map(move |number| block + number * 4096))
            .collect();
        let mut all = outcome(&mut disk.clone());
        all.add(struck(&disk, (&[1024, 5120], 256), 60, outcome));
        all.add(struck(&disk, (&packs, 256), 100, sealed));
        all.add(struck(&disk, (&summaries, 4096), 60, sealed));
        all.add(struck(&disk, (&places, 400), 100, outcome));
        all.add(struck(&disk, (&places, 4096), 100, outcome));
        all.assert(&format!("damage, f2fs {name}"));
    }
}
