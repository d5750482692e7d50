//! ext4 at its limits beside the real kernel: large directories, files of 16 TiB, trees of
//! extents with four levels. We make them, the kernel reads and changes them, and we read on.

use super::journaled_kernel::EXT4;
use crate::common::{NOW, assert_clean, bytes, made_by_mke2fs, mkdir, mount, put};
use nandlab_block::Ram;
use nandlab_ext::{Ext, Options};
use nandlab_testkit::kernel::Volumes;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Ino};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Names of one directory.
fn names() -> u32 {
    whole_or(200_000, 12_000)
}

/// Names that one file may have; Linux takes 65,000.
const LINKS: u32 = 50_000;
/// The kernel changes two names in so many.
const STEP: u32 = 4000;
/// Blocks of a file, none beside another. A root has space for 4 entries and a block for 84, so
/// three levels below the root begin at 4 * 84 * 84 + 1 extents.
const BLOCKS: u64 = 28_225;
/// The last block of a file in blocks of 4 KiB: Linux leaves one number out.
const LAST: u64 = (1 << 32) - 2;

fn sum(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A mount that keeps as much dirty data as a machine would.
fn mounted(disk: &mut Ram) -> Ext<&mut Ram> {
    let options = Options {
        dirty_bytes_max: 16 << 20,
        cache_bytes: 32 << 20,
        ..Options::default()
    };
    Ext::mount(disk, options).unwrap()
}

/// A name of `length` bytes.
fn name(number: u32, length: usize) -> String {
    format!("{number:-<length$}")
}

/// The names of `/many`, sorted, each with a newline, as `ls` prints them.
fn listed(ext: &mut dyn FileSystem) -> (usize, String) {
    let many = ext.lookup(Ino::ROOT, b"many").unwrap().ino;
    let mut names = Vec::new();
    ext.readdir(many, 0, &mut |entry| {
        names.push([entry.name, b"\n"].concat());
        true
    })
    .unwrap();
    names.retain(|name| name != b".\n" && name != b"..\n");
    names.sort();
    (names.len(), sum(&names.concat()))
}

fn with_many_names(disk: &mut Ram, count: u32, length: usize) {
    let mut ext = mounted(disk);
    let many = mkdir(&mut ext, Ino::ROOT, "many");
    let mut file = Ino::ROOT;
    for number in 0..count {
        let name = name(number, length);
        match number % LINKS {
            0 => file = put(&mut ext, many, &name, b"contents"),
            _ => _ = ext.link(file, many, name.as_bytes(), NOW).unwrap(),
        }
    }
    ext.unmount().unwrap();
}

/// Shell: `names DEVICE KEY COUNT LENGTH` looks up some names, lists all, and changes some.
const NAMES_SHELL: &str = r#"
    name() { printf "%s" $1; n=${#1}; while [ $n -lt $2 ]; do printf -; n=$((n+1)); done; }
    names() {
        mount -t ext4 $1 /mnt && cd /mnt/many || exit 1
        at=0; while [ $at -lt $3 ]; do
            [ -f "$(name $at $4)" ] || { say missing $at; exit 1; }
            at=$((at+4000))
        done
        say $2-found $(ls | sha256sum)
        at=500; while [ $at -lt $3 ]; do
            mv "$(name $at $4)" "kernel-$at" || exit 1
            rm "$(name $((at+1)) $4)" || exit 1
            at=$((at+4000))
        done
        say $2-left $(ls | sha256sum)
        cd / && umount /mnt || exit 1
    }
"#;

#[test]
fn the_kernel_and_we_use_directories_of_very_many_names() {
    // Short names fill two levels of blocks of 1 KiB, long ones need the three of `large_dir`.
    let cases: [(&str, &[&str], u32, usize); 3] = [
        ("short", &["-t", "ext4", "-b", "1024"], names(), 6),
        (
            "long",
            &["-t", "ext4", "-b", "1024", "-O", "large_dir"],
            names(),
            120,
        ),
        ("large-blocks", &["-t", "ext4", "-b", "4096"], names(), 40),
    ];
    let mut volumes = Volumes::new(EXT4);
    volumes.shell(NAMES_SHELL);
    let mut ours = Vec::new();
    let cases = &cases[..whole_or(cases.len(), 2)];
    for &(case, options, count, length) in cases {
        let mut disk = made_by_mke2fs(96 * 1024, options);
        with_many_names(&mut disk, count, length);
        assert_clean(&mut disk, case);
        let (found, digest) = listed(&mut mount(&mut disk));
        assert_eq!(found, count as usize, "{case}");
        ours.push(digest);
        volumes.add(case, &mut disk, |device| {
            format!("names {device} {case} {count} {length}\n")
        });
    }
    let report = volumes.boot();
    let said = |key: String| {
        report
            .value(&key)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .to_string()
    };
    for (&(case, _, count, length), ours) in cases.iter().zip(ours) {
        assert_eq!(said(format!("{case}-found")), ours, "{case}");
        let mut disk = volumes.load(case);
        assert_clean(&mut disk, case);
        let mut ext = mounted(&mut disk);
        let (left, digest) = listed(&mut ext);
        assert_eq!(left, (count - count / STEP) as usize, "{case}");
        assert_eq!(said(format!("{case}-left")), digest, "{case}");
        // All names go, those of the kernel too.
        let many = ext.lookup(Ino::ROOT, b"many").unwrap().ino;
        for number in 0..count {
            let name = match number % STEP {
                500 => format!("kernel-{number}"),
                501 => continue,
                _ => name(number, length),
            };
            ext.unlink(many, name.as_bytes(), NOW).unwrap();
        }
        ext.rmdir(Ino::ROOT, b"many", NOW).unwrap();
        ext.unmount().unwrap();
        drop(ext);
        assert_clean(&mut disk, case);
    }
}

/// Writes every other block from the end, so that each extent comes before all others.
fn with_deep_tree(disk: &mut Ram) -> Vec<u8> {
    let mut ext = mounted(disk);
    let file = put(&mut ext, Ino::ROOT, "deep", b"");
    let mut contents = vec![0; (2 * BLOCKS as usize - 1) * 1024];
    for number in (0..BLOCKS).rev() {
        let data = bytes(number, 1024);
        let at = 2 * number * 1024;
        assert_eq!(ext.write(file, at, &data, NOW), Ok(1024));
        contents[at as usize..][..1024].copy_from_slice(&data);
    }
    ext.unmount().unwrap();
    contents
}

fn with_sparse_file(disk: &mut Ram) -> Vec<u8> {
    let mut ext = mounted(disk);
    let file = put(&mut ext, Ino::ROOT, "sparse", b"");
    let data = bytes(7, 4096);
    assert_eq!(ext.write(file, LAST * 4096, &data, NOW), Ok(4096));
    // No byte more fits.
    assert!(ext.write(file, (LAST + 1) * 4096, &data, NOW).is_err());
    ext.unmount().unwrap();
    data
}

const FILES_SHELL: &str = r#"
    deep() {
        mount -t ext4 $1 /mnt && cd /mnt || exit 1
        say deep-found $(sha256sum < deep)
        n=0; while [ $n -lt 200 ]; do
            at=$((n * 100 + 1))
            dd if=/dev/zero of=deep bs=1024 seek=$at count=1 conv=notrunc 2> /dev/null || exit 1
            n=$((n+step))
        done
        say deep-left $(sha256sum < deep)
        cd / && umount /mnt || exit 1
    }
    sparse() {
        mount -t ext4 $1 /mnt && cd /mnt || exit 1
        say sparse-size $(stat -c %s sparse)
        say sparse-found $(dd if=sparse bs=4096 skip=4294967294 2> /dev/null | sha256sum)
        say sparse-hole $(dd if=sparse bs=4096 skip=4294967293 count=1 2> /dev/null | sha256sum)
        echo begin | dd of=sparse conv=notrunc 2> /dev/null || exit 1
        cd / && umount /mnt || exit 1
    }
"#;

#[test]
fn the_kernel_and_we_use_trees_of_four_levels_and_files_of_16_tib() {
    let mut volumes = Volumes::new(EXT4);
    volumes.shell(&format!("step={}\n{FILES_SHELL}", whole_or(1, 5)));
    let mut deep = made_by_mke2fs(64 * 1024, &["-t", "ext4", "-b", "1024"]);
    let contents = with_deep_tree(&mut deep);
    assert_clean(&mut deep, "deep");
    assert_eq!(depth(&mut deep, "/deep"), 3);
    volumes.add("deep", &mut deep, |device| format!("deep {device}\n"));
    let mut sparse = made_by_mke2fs(16 * 1024, &["-t", "ext4", "-b", "4096"]);
    let last = with_sparse_file(&mut sparse);
    assert_clean(&mut sparse, "sparse");
    volumes.add("sparse", &mut sparse, |device| format!("sparse {device}\n"));

    let report = volumes.boot();
    let said = |key: &str| report.value(key).unwrap().split(' ').next().unwrap();
    assert_eq!(said("deep-found"), sum(&contents));
    assert_eq!(said("sparse-size"), ((LAST + 1) * 4096).to_string());
    assert_eq!(
        (said("sparse-found"), said("sparse-hole")),
        (&*sum(&last), &*sum(&[0; 4096]))
    );
    let mut deep = volumes.load("deep");
    assert_clean(&mut deep, "deep");
    let mut ext = mounted(&mut deep);
    let file = ext.lookup(Ino::ROOT, b"deep").unwrap().ino;
    let mut found = vec![0; contents.len()];
    assert_eq!(ext.read(file, 0, &mut found), Ok(contents.len()));
    assert_eq!(said("deep-left"), sum(&found));
    // The tree goes, level by level.
    ext.unlink(Ino::ROOT, b"deep", NOW).unwrap();
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut deep, "deep");
    let mut sparse = volumes.load("sparse");
    assert_clean(&mut sparse, "sparse");
    let mut ext = mounted(&mut sparse);
    let file = ext.lookup(Ino::ROOT, b"sparse").unwrap().ino;
    let mut found = vec![0; 4096];
    assert_eq!(ext.read(file, LAST * 4096, &mut found), Ok(4096));
    assert!(found == last);
    assert_eq!(
        (ext.read(file, 0, &mut found), &found[..7]),
        (Ok(4096), &b"begin\n\0"[..])
    );
}

/// Levels below the root of a file's tree of extents, as debugfs sees them.
fn depth(disk: &mut Ram, path: &str) -> u32 {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    nandlab_testkit::disk::save(disk, &image);
    let request = format!("dump_extents -n {path}");
    let out = crate::common::tool("debugfs", &["-R", &request, image.to_str().unwrap()]);
    let text = String::from_utf8(out.stdout).unwrap();
    // " 0/ 3   1/  4 ...": the level of a line, and the last level.
    let line = text.lines().nth(1).unwrap();
    let last = line
        .split('/')
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    last.parse().unwrap()
}
