//! Damaged and forged volumes: no panic, no endless loop, little memory.

use crate::made::{COMPRESSORS, made};
use nandlab_block::{BlockDevice as _, Ram};
use nandlab_sim::mix;
use nandlab_squashfs::Squashfs;
use nandlab_testkit::disk::{poke, word};
use nandlab_testkit::hostile::{strike, use_up};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::report::Severity;
use nandlab_vfs::{Errno, FileSystem, Ino};
use std::fs;

/// A volume with few large files, so that its tables are hit often.
fn small(options: &[&str]) -> Ram {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..40u64 {
        let name = format!("directory {}", number % 4);
        fs::create_dir_all(dir.path().join(&name)).unwrap();
        let contents = nandlab_testkit::files::bytes(number, number as usize * 300);
        fs::write(
            dir.path().join(name).join(format!("a file {number}")),
            contents,
        )
        .unwrap();
    }
    std::os::unix::fs::symlink("directory 1", dir.path().join("link")).unwrap();
    made(dir.path(), options)
}

/// Mounts, goes through everything in two ways. Returns whether anything is wrong.
fn use_it(disk: Ram) -> bool {
    let Ok(mut fs) = Squashfs::mount(disk) else {
        return true;
    };
    let report = fs.check().unwrap();
    use_up(&mut fs, 300);
    report.worst() == Some(Severity::Damage)
}

#[test]
fn two_thousand_damaged_volumes_neither_panic_nor_hang() {
    let plain = ["-noI", "-noX", "-b", "4096"];
    let mut found = 0;
    for (index, compressor) in COMPRESSORS.iter().enumerate() {
        for options in [
            &["-comp", compressor][..],
            &[&["-comp", compressor][..], &plain].concat(),
        ] {
            let disk = small(options);
            let used = disk.geometry().bytes();
            for seed in 0..whole_or(170, 48) {
                let mut disk = disk.clone();
                for number in 0..1 + seed % 4 {
                    let word = mix(index as u64 * 1000 + seed, number);
                    // The superblock, the tables at the end, anywhere.
                    let at = match seed % 3 {
                        0 => word % 96,
                        1 => used - 1 - word % used.min(6000),
                        _ => word % used,
                    };
                    strike(&mut disk, at, mix(word, 1));
                }
                found += usize::from(use_it(disk));
            }
        }
    }
    let least = whole_or(600, 160);
    assert!(found > least, "{found} were found damaged");
}

#[test]
fn damaged_contents_are_damage_with_their_path_and_byte() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..30_000u64)
        .map(|line| format!("{} {line}\n", mix(3, line) % 999))
        .collect();
    fs::write(dir.path().join("a file"), lines).unwrap();
    for compressor in COMPRESSORS {
        let mut disk = made(dir.path(), &["-comp", compressor, "-no-fragments"]);
        poke(&mut disk, 200, &[0xFF; 3000]);
        let mut fs = Squashfs::mount(disk).unwrap();
        let report = fs.check().unwrap();
        let reported: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            report.worst(),
            Some(Severity::Damage),
            "{compressor}: {reported:?}"
        );
        assert!(
            reported[0].starts_with("/a file: contents: byte "),
            "{compressor}: {reported:?}"
        );
        assert!(
            report.findings[0].place().is_some_and(|at| at < 200),
            "{compressor}: {reported:?}"
        );
        let ino = fs.lookup(Ino::ROOT, b"a file").unwrap().ino;
        assert_eq!(fs.read(ino, 0, &mut [0; 9]), Err(Errno::Unclean));
    }
}

#[test]
fn tables_that_lie_outside_are_refused_at_their_field() {
    let disk = small(&[]);
    for at in [48, 56, 64, 72, 80, 88] {
        let mut disk = disk.clone();
        poke(&mut disk, at, &(1u64 << 40).to_le_bytes());
        let reported = Squashfs::mount(disk).unwrap_err().to_string();
        assert!(
            reported.starts_with(&format!("byte {at}: the table of ")),
            "{reported}"
        );
    }
}

#[test]
fn a_forged_length_of_a_file_takes_no_memory() {
    // Plain inodes: a file's length is 28 bytes behind its inode's beginning.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), nandlab_testkit::files::bytes(1, 9000)).unwrap();
    let mut disk = made(dir.path(), &["-noI", "-noX", "-b", "4096", "-no-fragments"]);
    let table = u64::from(word(&mut disk, 64));
    let size = (0..400)
        .map(|at| table + 2 + at)
        .find(|at| word(&mut disk, *at) == 9000)
        .unwrap();
    poke(&mut disk, size, &u32::MAX.to_le_bytes());
    let mut fs = Squashfs::mount(disk).unwrap();
    let ino = fs.lookup(Ino::ROOT, b"a").unwrap().ino;
    let mut buf = [0; 64];
    assert_eq!(fs.read(ino, 0, &mut buf), Ok(64));
    assert_eq!(fs.read(ino, 4_000_000_000, &mut buf), Err(Errno::Unclean));
    let cause = fs.cause().unwrap();
    assert!(
        cause.at.is_some() && cause.what().contains("expected"),
        "{cause}"
    );
    assert_eq!(fs.check().unwrap().worst(), Some(Severity::Damage));
}

#[test]
fn a_directory_within_itself_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("outer/inner")).unwrap();
    fs::write(dir.path().join("outer/inner/file"), "x").unwrap();
    let mut disk = made(dir.path(), &["-noI", "-noX"]);
    // The listing of `inner` becomes that of `outer`: both inodes are plain, 32 bytes each.
    let table = u64::from(word(&mut disk, 64)) + 2;
    let end = u64::from(word(&mut disk, 72));
    let inodes: Vec<u64> = (table..end - 32)
        .filter(|at| word(&mut disk, *at) & 0xFFFF == 1 && word(&mut disk, at + 20) > 1)
        .collect();
    let offsets: Vec<(u64, u32)> = inodes
        .iter()
        .map(|at| (*at, word(&mut disk, at + 24)))
        .collect();
    let mut damage = 0;
    for (to, _) in &offsets {
        for (_, value) in &offsets {
            let mut disk = disk.clone();
            poke(&mut disk, to + 24, &value.to_le_bytes());
            damage += usize::from(use_it(disk));
        }
    }
    assert!(damage > 0);
}
