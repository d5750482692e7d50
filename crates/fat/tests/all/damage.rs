//! Each kind of volume under small damage. A digest of all answers shows when one of them changes.

use crate::common::{bytes, mkdir, mount, put, ram};
use nandlab_block::{Nvram, Ram};
use nandlab_fat::{Bits, Fat, Format, Options, format};
use nandlab_sim::Rail;
use nandlab_testkit::hostile::{struck, use_up};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Ino};

/// A volume that nobody unmounted, and the places of its sectors with structure.
fn volume(bits: Bits) -> (Ram, Vec<u64>) {
    let mut disk = ram(if bits == Bits::Fat32 { 2000 } else { 2500 });
    let choices = Format {
        bits: Some(bits),
        cluster_sectors: Some(if bits == Bits::Fat12 { 2 } else { 1 }),
        ..Format::default()
    };
    let layout = format(&mut disk, &choices).unwrap();
    let mut fat = mount(&mut disk);
    let dir = mkdir(&mut fat, Ino::ROOT, "directory with a long name");
    for number in 0..20 {
        let name = format!("file number {number}");
        put(&mut fat, dir, &name, &bytes(number, 300 * number as usize));
    }
    put(&mut fat, Ino::ROOT, "LARGE", &bytes(1, 60_000));
    fat.sync().unwrap();
    drop(fat);
    let end = u64::from(layout.data_start) + 8;
    (disk, (0..end).map(|sector| sector * 512).collect())
}

/// Everything that a caller sees of a volume, and the volume in the end.
fn outcome(disk: &mut Ram) -> Media {
    let mut seen = Media::default();
    let looks = Options {
        read_only: true,
        ..Options::default()
    };
    seen.note_or(Fat::mount(&mut *disk, looks), |mut fat, seen| {
        seen.note(&fat.check());
        seen.note(fat.layout());
    });
    let small = Options {
        cache_bytes: 16 * 1024,
        ..Options::default()
    };
    seen.note_or(Fat::mount(&mut *disk, small), |mut fat, seen| {
        seen.add(use_up(&mut fat, 24));
    });
    seen.disk(disk)
}

#[test]
fn every_answer_to_small_damage_is_a_kept_one() {
    // The last has the most structure.
    let kinds = [Bits::Fat12, Bits::Fat16, Bits::Fat32];
    for bits in kinds.into_iter().skip(whole_or(0, 2)) {
        let (disk, places) = volume(bits);
        let mut all = outcome(&mut disk.clone());
        all.add(struck(&disk, (&[0], 128), 300, outcome));
        all.add(struck(&disk, (&places, 512), 400, outcome));
        all.assert(&format!("damage, fat {bits:?}"));
    }
}

#[test]
fn every_answer_to_damage_of_the_memory_is_a_kept_one() {
    let (disk, places) = volume(Bits::Fat16);
    let mut memory = Nvram::new(512, 64, Rail::new());
    let mut written = disk.clone();
    let mounted = Fat::mount_with_nvram(&mut written, &mut memory, Options::default());
    let mut fat = mounted.unwrap();
    put(&mut fat, Ino::ROOT, "new", &bytes(2, 20_000));
    fat.sync().unwrap();
    drop(fat);
    let outcome = |disk: &mut Ram| {
        let mut seen = Media::default();
        let mut memory = memory.clone();
        let mounted = Fat::mount_with_nvram(&mut *disk, &mut memory, Options::default());
        seen.note_or(mounted, |mut fat, seen| {
            seen.note(&fat.check());
            seen.add(use_up(&mut fat, 12));
        });
        seen.disk(disk)
    };
    struck(&written, (&places, 512), 200, outcome).assert("damage, fat memory");
}
