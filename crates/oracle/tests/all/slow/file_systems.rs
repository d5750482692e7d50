//! The kernel's own file systems keep a tree over a remount: the ground on which images of ours are
//! judged.

use nandlab_oracle::{Disk, Oracle, Report, manifest};
use std::fs::File;
use std::path::Path;

fn oracle() -> Oracle {
    Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"))
}

/// Shell functions: a tree that every file system can hold, and one that needs owners, links and
/// devices. JFFS2 keeps a time for its root only if it is set.
const TREES: &str = r#"
    plain() {
        mkdir -p /mnt/d/e && head -c 100000 /dev/urandom > /mnt/d/random && printf short > "/mnt/d/e/a longer name.txt" &&
            : > /mnt/d/empty && touch -d @1000000000 /mnt/d/e/*
    }
    unix() {
        plain && ln -s ../d/random /mnt/link && ln /mnt/d/empty /mnt/twin && mknod -m 600 /mnt/null c 1 3 && mkfifo -m 640 /mnt/pipe &&
            chown 1000:100 /mnt/d/empty && chmod 2750 /mnt/d && touch -d @1100000000 /mnt
    }
    remounted() { # TYPE DEVICE TREE
        mount -t $1 $2 /mnt && $3 && manifest /mnt $1-before && umount /mnt &&
            mount -t $1 $2 /mnt && manifest /mnt $1-after && umount /mnt || { echo "$1 failed"; exit 1; }
    }
"#;

fn assert_kept(report: &Report, kind: &str, entries: usize) {
    let [before, after] =
        ["before", "after"].map(|when| &report.manifests[&format!("{kind}-{when}")]);
    assert_eq!(before.len(), entries, "{kind}: {before:#?}");
    assert_eq!(manifest::differences(before, after), "", "{kind}");
    assert!(
        before[Path::new("./d/random")]
            .to_string()
            .contains("file 100000 "),
        "{kind}"
    );
}

#[test]
fn vfat_f2fs_and_ext4_keep_a_tree() {
    let scratch = tempfile::tempdir().unwrap();
    let mut guest = oracle().guest();
    for name in ["vfat", "f2fs", "ext4"] {
        let image = scratch.path().join(name);
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        guest = guest
            .disk(Disk::File(image))
            .program(format!("/usr/sbin/mkfs.{name}"));
    }
    let script = r#"
        mp vfat; mp f2fs; mp ext4
        /usr/sbin/mkfs.vfat /dev/vda >/dev/null && remounted vfat /dev/vda plain
        /usr/sbin/mkfs.f2fs -q /dev/vdb >/dev/null && remounted f2fs /dev/vdb unix
        /usr/sbin/mkfs.ext4 -qF /dev/vdc && remounted ext4 /dev/vdc unix
    "#;
    let report = guest
        .script([TREES, script].concat())
        .run()
        .unwrap()
        .success()
        .unwrap();
    println!("{:?}\n{}", report.wall, report.console);
    assert_kept(&report, "vfat", 6);
    assert_kept(&report, "f2fs", 10);
    // mkfs.ext4 makes lost+found.
    assert_kept(&report, "ext4", 11);
}

#[test]
#[ignore = "tests the kernel, not us: `cargo xtask test whole` runs it"]
fn jffs2_keeps_a_tree_and_takes_the_same_virtual_time_each_time() {
    let script = r#"
        mp nandsim id_bytes=0xec,0xf1,0x00,0x15 do_delays=1 && mp mtdblock && mp jffs2 || exit 1
        say chip "$(cat /sys/class/mtd/mtd0/writesize) $(cat /sys/class/mtd/mtd0/erasesize) $(cat /sys/class/mtd/mtd0/size)"
        remounted jffs2 /dev/mtdblock0 unix
        mount -t jffs2 /dev/mtdblock0 /mnt || exit 1
        now() { awk '/^now at/ { print $3 }' /proc/timer_list; }
        start=$(now); dd if=/dev/zero of=/mnt/zeros bs=4k count=64 2>/dev/null; end=$(now)
        say date "$(date +%Y-%m-%d)"
        say start $start
        say nanoseconds $((end - start))
    "#;
    let boot = || {
        oracle()
            .guest()
            .icount(3)
            .script([TREES, script].concat())
            .run()
            .unwrap()
            .success()
            .unwrap()
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(boot);
        (boot(), second.join().unwrap())
    });
    println!("{:?}\n{}", first.wall, first.console);
    assert_kept(&first, "jffs2", 10);
    assert_eq!(first.value("chip"), Some("2048 131072 134217728"));
    assert_eq!(first.value("date"), Some("2020-01-01"));
    assert_eq!(first.values, second.values);
    let tree = &first.manifests["jffs2-after"];
    let same = &second.manifests["jffs2-after"];
    assert_eq!(
        manifest::differences(tree, same),
        "",
        "times and random bytes"
    );
    println!(
        "start {:?}, 256 KiB of zeros took {:?} ns",
        first.value("start"),
        first.value("nanoseconds")
    );
    let nanoseconds: u64 = first.value("nanoseconds").unwrap().parse().unwrap();
    assert!(
        (1_000_000..10_000_000_000).contains(&nanoseconds),
        "{nanoseconds}"
    );
}
