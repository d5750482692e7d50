//! ext4 beside the real kernel: each reads, and recovers, what the other left.

use super::journaled_kernel::{EXT4, Left, used_with, work};
use super::kernel::{assert_seen_alike, both_ways};
use crate::common::{
    NOW, assert_clean, made_by_mke2fs, manifest, mkdir, mount, needs_recovery, put,
};
use nandlab_ext::{Ext, Mode, Options};
use nandlab_oracle::manifest::differences;
use nandlab_testkit::kernel::{Volumes, listed};
use nandlab_testkit::share::{is_whole, whole_or};
use nandlab_vfs::model::Rules;
use nandlab_vfs::{FileSystem, Ino, Rename, SetAttr};

/// Random calls on each volume.
fn calls() -> u64 {
    whole_or(20_000, 3_000)
}

/// Names of volumes, and what mke2fs gets for them.
const VOLUMES: [(&str, &[&str]); 9] = [
    ("inline", &["-t", "ext4", "-b", "1024", "-O", "inline_data"]),
    ("small", &["-t", "ext4", "-b", "1024"]),
    ("large", &["-t", "ext4", "-b", "4096"]),
    (
        "narrow",
        &[
            "-t",
            "ext4",
            "-b",
            "1024",
            "-O",
            "^64bit,^metadata_csum,uninit_bg",
        ],
    ),
    (
        "plain",
        &[
            "-t",
            "ext4",
            "-b",
            "4096",
            "-O",
            "^metadata_csum,^flex_bg,^resize_inode,meta_bg",
        ],
    ),
    (
        "orphans",
        &[
            "-t",
            "ext4",
            "-b",
            "4096",
            "-O",
            "orphan_file,metadata_csum_seed,large_dir",
        ],
    ),
    (
        "unjournaled",
        &["-t", "ext4", "-b", "4096", "-O", "^has_journal"],
    ),
    ("fast", &["-t", "ext4", "-b", "1024", "-O", "fast_commit"]),
    (
        "fast-large",
        &["-t", "ext4", "-b", "4096", "-O", "fast_commit"],
    ),
];

/// The volumes that a test tries, each with a seed. The samples of the tests here have each feature
/// once: those of `small` and `narrow` are on volumes that the kernel leaves when it is killed.
fn tried(
    sample: &'static [&'static str],
) -> impl Iterator<Item = (u64, (&'static str, &'static [&'static str]))> {
    let is_tried = move |name| is_whole() || sample.contains(&name);
    (1..)
        .zip(VOLUMES)
        .filter(move |(_, (name, _))| is_tried(name))
}

fn rules() -> Rules {
    Rules {
        // Attributes of three names need more than a block of 1 KiB and an inode.
        xattrs: false,
        ..Rules::unix()
    }
}

#[test]
fn the_kernel_and_we_see_the_same_trees_of_ext4_both_ways() {
    let volume = |(name, options): (&'static str, &[&str])| {
        (name, "ext4", made_by_mke2fs(64 * 1024, options))
    };
    let tried = tried(&["inline"]);
    both_ways().run(tried.map(|(_, shape)| volume(shape)).collect());
}

#[test]
fn the_kernel_reads_an_ext4_that_we_used_and_recovers_what_we_left_in_its_journal() {
    let mut volumes = Volumes::new(EXT4);
    let mut ours = Vec::new();
    for (seed, (name, options)) in tried(&["plain", "orphans", "unjournaled", "fast"]) {
        for (left, delayed_allocation) in [
            (Left::Unmounted, false),
            (Left::Crashed, false),
            (Left::Unmounted, true),
            (Left::Crashed, true),
        ] {
            let may_delay = ["small", "large", "fast"].contains(&name);
            if delayed_allocation && !may_delay || name == "unjournaled" && left == Left::Crashed {
                continue;
            }
            let ways = Options {
                fast_commit: name.starts_with("fast"),
                delayed_allocation,
                ..Options::default()
            };
            let name = format!("{name}-{left:?}-{delayed_allocation}");
            let mut disk = made_by_mke2fs(96 * 1024, options);
            used_with(&mut disk, ways, left, (seed, rules(), calls()));
            assert_eq!(needs_recovery(&mut disk), left == Left::Crashed);
            volumes.add_listed(&name, &mut disk, "ext4");
            let mut ext = mount(&mut disk);
            ours.push((name.clone(), manifest(&mut ext)));
            ext.unmount().unwrap();
            assert_clean(&mut disk, &name);
        }
    }
    assert_seen_alike(&mut volumes, ours);
}

#[test]
fn we_recover_what_the_kernel_left_of_ext4_when_it_was_killed() {
    let volumes_left = [
        ("ordered", VOLUMES[1]),
        ("journal", VOLUMES[5]),
        ("writeback", VOLUMES[3]),
    ];
    let mut volumes = Volumes::new(work());
    for (mode, (name, options)) in volumes_left {
        let mut disk = made_by_mke2fs(48 * 1024, options);
        volumes.add(name, &mut disk, |device| {
            format!("work {device} /{name} {mode} ext4 {name} &\n")
        });
    }
    volumes.kill_when_ready(&volumes_left.map(|(_, (name, _))| name));

    volumes.shell(EXT4);
    let mut ours = Vec::new();
    for (_, (name, _)) in volumes_left {
        let mut disk = volumes.load(name);
        assert!(needs_recovery(&mut disk));
        let options = Options {
            mode: Mode::Ordered,
            ..Options::default()
        };
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        ours.push((name, manifest(&mut ext)));
        ext.unmount().unwrap();
        assert_clean(&mut disk, name);
        volumes.attach(name, |device| listed(name, device, "ext4"));
    }
    let report = volumes.boot();
    for (name, ours) in ours {
        assert!(
            ours.len() > whole_or(100, 60),
            "{name}: a tree worth comparing"
        );
        assert_eq!(
            differences(&report.manifests[name], &ours),
            "",
            "{name}: the kernel's recovery and ours"
        );
    }
}

/// Files of the kernel whose contents lie in inodes, attributes in inodes of their own, extents
/// that were never written, deep trees.
const FEATURES: &str = r#"
    features() { # DEVICE NAME EXTENTS
        mount -t ext4 $1 /mnt && cd /mnt && mkdir tiny small || exit 1
        for n in 1 40 59 60 61 100 140; do
            head -c $n /dev/urandom > small/bytes-$n || exit 1
            ln -s $(head -c $n /dev/zero | tr '\0' x) small/link-$n || exit 1
        done
        mkdir small/dir small/dir/below && echo hello > small/dir/a-file || exit 1
        for n in 1 2 3 4 5 6; do echo $n > small/dir/name-$n; done
        fallocate -l 300000 never && echo beginning > part && fallocate -o 50000 -l 90000 part || exit 1
        dd if=/dev/urandom of=part bs=1000 seek=70 count=5 conv=notrunc 2> /dev/null || exit 1
        n=0; while [ $n -lt $3 ]; do
            dd if=/dev/zero of=deep bs=1024 seek=$((n * 2)) count=1 conv=notrunc 2> /dev/null; n=$((n+1))
        done
        rmdir tiny && cd / && manifest /mnt $2 && umount /mnt || exit 1
    }
    mp ext4 || exit 1
"#;

/// Extents of the file `deep`. A root has space for 4 and a block of 1 KiB for 84: more than 336
/// need two levels.
fn extents(volume: &str) -> u32 {
    let sample = if volume == "extents" { 350 } else { 10 };
    whole_or(900, sample)
}

#[test]
fn we_see_inline_data_unwritten_extents_and_deep_trees_of_the_kernel() {
    let cases: [(&str, &[&str]); 4] = [
        (
            "inline",
            &["-t", "ext4", "-b", "1024", "-O", "inline_data,ea_inode"],
        ),
        (
            "inline-large",
            &[
                "-t",
                "ext4",
                "-b",
                "4096",
                "-O",
                "inline_data,^metadata_csum",
            ],
        ),
        (
            "inline-summed",
            &["-t", "ext4", "-b", "1024", "-O", "inline_data"],
        ),
        ("extents", &["-t", "ext4", "-b", "1024"]),
    ];
    let mut volumes = Volumes::new(FEATURES);
    for (name, options) in cases {
        let mut disk = made_by_mke2fs(32 * 1024, options);
        volumes.add(name, &mut disk, |device| {
            let extents = extents(name);
            format!("features {device} {name} {extents}\n")
        });
    }
    let report = volumes.boot();
    volumes.shell(EXT4);
    let mut edited = Vec::new();
    for (name, _) in cases {
        let mut disk = volumes.load(name);
        assert_clean(&mut disk, name);
        let mut ext = mount(&mut disk);
        assert_eq!(ext.is_read_only(), name == "inline");
        assert_eq!(
            differences(&report.manifests[name], &manifest(&mut ext)),
            "",
            "{name}"
        );
        if !ext.is_read_only() {
            edit(&mut ext);
            ext.unmount().unwrap();
            drop(ext);
            assert_clean(&mut disk, &format!("{name}, edited"));
            edited.push((name, manifest(&mut mount(&mut disk))));
            volumes.add_listed(name, &mut disk, "ext4");
        }
    }
    let report = volumes.boot();
    for (name, ours) in edited {
        let theirs = &report.manifests[name];
        assert_eq!(differences(&ours, theirs), "", "{name}, edited");
    }
}

/// Changes what lies in inodes: files grow and shrink, names come, go and move.
fn edit(ext: &mut dyn FileSystem) {
    let find = |ext: &mut dyn FileSystem, path: &str| {
        nandlab_vfs::path::resolve(ext, path.as_bytes())
            .unwrap()
            .ino
    };
    let small = find(ext, "/small");
    for (length, bytes) in [(1, 5u64), (40, 60), (59, 4), (60, 600), (61, 3), (140, 170)] {
        let file = find(ext, &format!("/small/bytes-{length}"));
        match bytes % 2 {
            0 => _ = ext.write(file, bytes, b"more of it", NOW).unwrap(),
            _ => {
                let size = SetAttr {
                    size: Some(bytes),
                    ..SetAttr::default()
                };
                ext.setattr(file, &size, NOW).unwrap();
            }
        }
    }
    let dir = find(ext, "/small/dir");
    ext.rename((dir, b"name-4"), (small, b"moved"), Rename::Replace, NOW)
        .unwrap();
    ext.rename((dir, b"below"), (Ino::ROOT, b"below"), Rename::Replace, NOW)
        .unwrap();
    put(ext, dir, "one more name", b"contents");
    let below = find(ext, "/below");
    mkdir(ext, below, "inner");
    ext.unlink(dir, b"name-2", NOW).unwrap();
    ext.unlink(small, b"link-40", NOW).unwrap();
    ext.unlink(small, b"link-100", NOW).unwrap();
    ext.unlink(small, b"bytes-100", NOW).unwrap();
}
