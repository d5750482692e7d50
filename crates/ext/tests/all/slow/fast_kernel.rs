//! Fast commits of the real kernel: it writes them and loses its power, and we recover the tree
//! that it recovers itself.

use crate::common::fast::{HEAD, TAIL, Tag, tags};
use crate::common::{
    NOW, assert_clean, bytes, made_by_mke2fs, manifest, mkdir, mount, needs_recovery, put,
};
use nandlab_block::{BlockDevice, Lba, Ram, WriteLog};
use nandlab_ext::{Ext, Options};
use nandlab_oracle::manifest::{Kind, Manifest, differences};
use nandlab_testkit::disk::{poke, ram};
use nandlab_testkit::kernel::Volumes;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Ino, Rename, SetAttr, Sync};
use std::collections::BTreeMap;

/// MiB of a volume.
const MIB: u64 = 16;
/// Copies that the second disk has space for.
const CUTS_MAX: u64 = 40;

/// Shell: `recover COPIES COUNT NAME [keep]` lets the kernel recover and list each copy. The
/// recovered copies take their places if asked.
const RECOVER: &str = r#"
    MIB=16
    recover() { # COPIES COUNT NAME [keep]
        n=0
        while [ $n -lt $2 ]; do
            dd if=$1 of=/tmp/live bs=1M skip=$((n * MIB)) count=$MIB 2> /dev/null || exit 1
            losetup /dev/loop0 /tmp/live || exit 1
            if mount -t ext4 /dev/loop0 /mnt
            then manifest /mnt $3-$n; umount /mnt
            else say refused $3-$n
            fi
            losetup -d /dev/loop0
            [ -z "$4" ] ||
                dd if=/tmp/live of=$1 bs=1M seek=$((n * MIB)) conv=notrunc 2> /dev/null || exit 1
            n=$((n + 1))
        done
    }
    mp ext4 && mp loop || exit 1
"#;

/// Shell: `work DEVICE COPIES OPTIONS NAME` uses a copy of the volume in memory. Behind each fsync
/// it copies the volume to the second disk, as a power cut there leaves it. Then the kernel recovers
/// each copy and lists it.
const WORK: &str = r#"
    cuts=0
    calls=0
    cut() { # makes two copies in $each calls
        calls=$((calls + 1))
        [ $((calls % each)) -lt 2 ] || return 0
        dd if=/tmp/live of=$copies bs=1M seek=$((cuts * MIB)) conv=notrunc 2> /dev/null || exit 1
        cuts=$((cuts + 1))
    }
    fsynced() { dd if=/dev/null of="$1" conv=notrunc,fsync 2> /dev/null || exit 1; }
    kept() { fsynced "$1"; cut; }
    rand() { head -c $1 /dev/urandom; }
    work() { # DEVICE COPIES OPTIONS NAME
        copies=$2; cuts=0
        dd if=$1 of=/tmp/live bs=1M 2> /dev/null || exit 1
        losetup /dev/loop0 /tmp/live || exit 1
        mount -t ext4 -o commit=600$3 /dev/loop0 /mnt && cd /mnt && mkdir d e || exit 1
        rand 5000 > d/old; rand 3000 > d/gone; rand 70000 > d/long; rand 9000 > e/twin; ln e/twin d/twin
        rand 3000 > d/over; rand 40000 > d/punched; mkdir e/empty
        sync; cut
        rand 3000 > d/new; kept d/new
        rand 2000 >> d/new; kept d/new
        rand 1000 >> d/old; kept d/old
        rand 777 > e/second; rand 1777 > e/third; kept e/third
        ln d/old e/linked; kept d/old
        rm d/gone; rand 10 > d/small; kept d/small
        mv d/old e/moved; kept e/moved
        mv e/second d/over; kept d/over
        truncate -s 1234 d/long; kept d/long
        truncate -s 50000 d/long; kept d/long
        dd if=/dev/urandom of=d/sparse bs=1000 seek=100 count=3 2> /dev/null; kept d/sparse
        n=0; while [ $n -lt 12 ]; do
            dd if=/dev/urandom of=d/pieces bs=1024 seek=$((n * 3)) count=1 conv=notrunc 2> /dev/null
            n=$((n + 1))
        done
        kept d/pieces
        rm d/twin; rand 100 >> e/twin; kept e/twin
        sync
        mkdir d/dir; rand 100 > d/dir/file; kept d/dir/file
        mkdir d/dir/inner; rand 100 > d/dir/inner/file; kept d/dir/inner/file
        rmdir e/empty; rand 50 > d/beside; kept d/beside
        sync
        n=0; while [ $n -lt 40 ]; do
            file="d/one of many files with a long name $n"
            rand $((n * 50)) > "$file"; fsynced "$file"; n=$((n + 1))
        done
        cut
        n=0; while [ $n -lt 40 ]; do
            mv "d/one of many files with a long name $n" "e/moved file with a long name $n"
            n=$((n + 2))
        done
        kept "e/moved file with a long name 2"
        sync; rm d/pieces; rand 500 > d/again; kept d/again
        rand 20000 > d/again; kept d/again
        chmod 600 d/again; chown 70000:80000 d/again; touch -d @1234567890 d/again; kept d/again
        n=0; while [ $n -lt 300 ]; do echo $n > d/f$n; n=$((n + 1)); done; kept d/f1
        ln -s target d/link; ln -s $(head -c 100 /dev/zero | tr '\0' x) d/far; mkfifo d/fifo; kept d/f1
        sync; rand 10 >> d/f1; kept d/f1
        exec 5> d/open; rand 9000 >&5; rm d/open; fsynced /proc/self/fd/5; cut; exec 5>&-
        rand 700 > d/last; kept d/last
        cd /; umount /mnt; losetup -d /dev/loop0
        recover $copies $cuts $4
        say cuts-$4 $cuts; rm /tmp/live
    }
"#;

/// Names of volumes, what mke2fs gets for them, and options of the mount.
const VOLUMES: [(&str, &[&str], &str); 3] = [
    (
        "small",
        &["-t", "ext4", "-b", "1024", "-O", "fast_commit"],
        "",
    ),
    (
        "large",
        &[
            "-t",
            "ext4",
            "-b",
            "4096",
            "-O",
            "fast_commit,^64bit,^metadata_csum",
        ],
        "",
    ),
    (
        "writeback",
        &[
            "-t",
            "ext4",
            "-b",
            "1024",
            "-O",
            "fast_commit,orphan_file,metadata_csum_seed",
        ],
        ",data=writeback",
    ),
];

/// The volumes that a test tries.
fn tried() -> &'static [(&'static str, &'static [&'static str], &'static str)] {
    &VOLUMES[..whole_or(VOLUMES.len(), 1)]
}

/// The time of a directory is that of the replay.
fn kept(mut tree: Manifest) -> Manifest {
    for entry in tree
        .values_mut()
        .filter(|entry| entry.kind == Kind::Directory)
    {
        (entry.mtime, entry.mtime_nanos) = (0, 0);
    }
    tree
}

/// The tree without contents: those of the mode *ordered* are overwritten in place.
fn shape(tree: &Manifest) -> Manifest {
    let mut tree = tree.clone();
    for entry in tree.values_mut() {
        if let Kind::File { sha256, .. } = &mut entry.kind {
            sha256.clear();
        }
    }
    tree
}

fn copy(disk: &mut Ram, number: u64) -> Ram {
    let mut to = ram(MIB * 1024);
    let mut data = vec![0; 1 << 20];
    for part in 0..MIB {
        disk.read(Lba((number * MIB + part) * 2048), &mut data)
            .unwrap();
        to.write(Lba(part * 2048), &data).unwrap();
    }
    to
}

/// Our recovery of a copy, which both checks like.
fn recovered(mut disk: Ram, what: &str) -> Manifest {
    assert!(needs_recovery(&mut disk), "{what}");
    let mut ext = mount(&mut disk);
    let tree = kept(manifest(&mut ext));
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut disk, what);
    // The fast commits are void by now.
    let mut again: Ext<_> = mount(&mut disk);
    assert_eq!(
        differences(&tree, &kept(manifest(&mut again))),
        "",
        "{what}, again"
    );
    tree
}

/// The first tag, and the last of each fast commit.
fn ends(tags: &[Tag]) -> (&Tag, Vec<&Tag>) {
    let tails = tags.iter().filter(|tag| tag.kind == TAIL).collect();
    assert_eq!(tags[0].kind, HEAD);
    (&tags[0], tails)
}

/// Judges the copies of one volume; counts those with fast commits, the kinds of their tags, and
/// the copies whose last fast commit it tears.
fn judge(name: &str, copies: &mut Ram, theirs: &BTreeMap<String, Manifest>, cuts: u64) -> Seen {
    let mut seen = Seen::default();
    let mut before: Option<(Vec<Tag>, Manifest)> = None;
    for number in 0..cuts {
        let what = format!("{name}-{number}");
        let mut disk = copy(copies, number);
        let tags = tags(&mut disk);
        let ours = recovered(disk.clone(), &what);
        match theirs.get(&what) {
            Some(theirs) => {
                let theirs = kept(theirs.clone());
                assert_eq!(
                    differences(&theirs, &ours),
                    "",
                    "{what}: the kernel's recovery and ours"
                );
                seen.alike += 1;
            }
            None => seen.refused += 1,
        }
        if tags.is_empty() {
            before = None;
            continue;
        }
        seen.fast += 1;
        tags.iter()
            .for_each(|tag| *seen.kinds.entry(tag.kind).or_default() += 1);
        let (head, tails) = ends(&tags);
        if let Some((old, tree)) = &before
            && ends(old).0.value == head.value
            && ends(old).1.len() + 1 == tails.len()
        {
            // A cut within the last fast commit leaves those before it.
            poke(&mut disk, tails[tails.len() - 1].at + 8, &[0x5A; 4]);
            let torn = recovered(disk, &format!("{what}, torn"));
            assert_eq!(differences(&shape(tree), &shape(&torn)), "", "{what}, torn");
            seen.torn += 1;
        }
        before = Some((tags, ours));
    }
    seen
}

/// Copies that a test has judged.
#[derive(Debug, Default)]
struct Seen {
    fast: u32,
    alike: u32,
    refused: u32,
    torn: u32,
    kinds: BTreeMap<u16, u32>,
}

#[test]
fn we_recover_the_fast_commits_that_the_kernel_left_to_the_tree_that_it_recovers() {
    let (each, fewest) = whole_or((2, (20, 8, 25)), (6, (5, 2, 6)));
    let mut volumes = Volumes::new(format!("each={each}\n{RECOVER}{WORK}"));
    for &(name, options, mode) in tried() {
        let mut source = String::new();
        let mut disk = made_by_mke2fs(MIB * 1024, options);
        volumes.add(name, &mut disk, |device| {
            source = device.into();
            String::new()
        });
        let copies = format!("{name} copies");
        volumes.add(&copies, &mut ram(CUTS_MAX * MIB * 1024), |device| {
            format!("work {source} {device} '{mode}' {name}\n")
        });
    }
    let report = volumes.boot();
    for (name, ..) in tried() {
        let cuts = report
            .value(&format!("cuts-{name}"))
            .unwrap()
            .parse()
            .unwrap();
        let mut copies = volumes.load(&format!("{name} copies"));
        let seen = judge(name, &mut copies, &report.manifests, cuts);
        println!("{name}: {cuts} cuts, {seen:?}");
        let (fast, torn, alike) = fewest;
        assert!(seen.fast >= fast && seen.torn >= torn, "{seen:?}");
        // Linux refuses its own fast commits of an open file without a name.
        assert!(seen.alike >= alike && seen.refused <= 2, "{seen:?}");
        assert!(
            (1..=9).all(|kind| seen.kinds.contains_key(&kind)),
            "{seen:?}"
        );
    }
}

/// Puts volumes behind each other on a disk.
fn put_copies(volumes: &[Ram]) -> Ram {
    let mut copies = ram(CUTS_MAX * MIB * 1024);
    let mut data = vec![0; 1 << 20];
    for (number, volume) in (0..).zip(volumes) {
        let mut volume = volume.clone();
        for part in 0..MIB {
            volume.read(Lba(part * 2048), &mut data).unwrap();
            let at = Lba((number * MIB + part) * 2048);
            copies.write(at, &data).unwrap();
        }
    }
    copies
}

/// A user of files who fsyncs, and the disk as a cut leaves it behind each fsync.
struct User {
    ext: Ext<WriteLog<Ram>>,
    base: Ram,
    cuts: Vec<usize>,
}

impl User {
    fn synced(&mut self, file: Ino) {
        self.ext.fsync(file, Sync::All).unwrap();
        self.cuts.push(self.ext.device_mut().records().len());
    }

    fn put(&mut self, dir: Ino, name: &str, seed: u64, length: usize) -> Ino {
        let file = put(&mut self.ext, dir, name, &bytes(seed, length));
        self.synced(file);
        file
    }

    /// Files come, grow, get other names and go.
    fn work(&mut self) {
        let dir = mkdir(&mut self.ext, Ino::ROOT, "d");
        let first = self.put(dir, "first", 1, 5000);
        let gone = self.put(dir, "gone", 2, 3000);
        let over = self.put(Ino::ROOT, "over", 3, 9000);
        for piece in 2..9 {
            self.ext
                .write(first, piece * 7000, &bytes(piece, 1500), NOW)
                .unwrap();
            self.synced(first);
        }
        self.ext.link(first, Ino::ROOT, b"linked", NOW).unwrap();
        self.synced(first);
        self.ext.unlink(dir, b"gone", NOW).unwrap();
        self.ext.forget(gone, 1);
        self.synced(first);
        let to = (Ino::ROOT, &b"over"[..]);
        self.ext
            .rename((dir, b"first"), to, Rename::Replace, NOW)
            .unwrap();
        self.ext.forget(over, 1);
        self.synced(first);
        for number in 0..12 {
            let name = format!("{number} of many files with names that fill a directory {number}");
            self.put(dir, &name, number, 300 * number as usize);
        }
        let mode = SetAttr {
            mode: Some(0o600),
            uid: Some(70_000),
            ..SetAttr::default()
        };
        self.ext.setattr(first, &mode, NOW).unwrap();
        self.synced(first);
        let short = SetAttr {
            size: Some(10_001),
            ..SetAttr::default()
        };
        self.ext.setattr(first, &short, NOW).unwrap();
        self.synced(first);
        self.ext
            .write(first, 20_000, b"behind a hole", NOW)
            .unwrap();
        self.synced(first);
    }

    /// The volumes that cuts leave.
    fn left(self) -> Vec<Ram> {
        let records = self.ext.into_device().into_parts().1;
        let cuts = self.cuts.iter().step_by(whole_or(1, 5));
        let left = cuts.map(|cut| {
            let mut disk = self.base.clone();
            for record in &records[..*cut] {
                record.apply(&mut disk).unwrap();
            }
            disk
        });
        left.collect()
    }
}

fn left_by_us(options: &[&str]) -> Vec<Ram> {
    let base = made_by_mke2fs(MIB * 1024, options);
    let options = Options {
        fast_commit: true,
        ..Options::default()
    };
    let ext = Ext::mount(WriteLog::new(base.clone()), options).unwrap();
    let cuts = Vec::new();
    let mut user = User { ext, base, cuts };
    user.work();
    user.left()
}

#[test]
fn the_kernel_recovers_the_fast_commits_that_we_left_to_the_tree_that_we_recover() {
    let mut volumes = Volumes::new(RECOVER);
    let mut left = Vec::new();
    for &(name, options, _) in tried() {
        let own = left_by_us(options);
        let count = own.len();
        volumes.add(name, &mut put_copies(&own), |device| {
            format!("recover {device} {count} {name} keep\n")
        });
        left.push((name, own));
    }
    let report = volumes.boot();
    assert_eq!(report.values.get("refused"), None, "{}", report.console);
    for (name, own) in left {
        let mut theirs = volumes.load(name);
        let mut fast = 0;
        for (number, mut disk) in (0..).zip(own) {
            let what = format!("{name}-{number}");
            fast += u32::from(tags(&mut disk).iter().any(|tag| tag.kind == TAIL));
            let ours = recovered(disk, &what);
            let tree = kept(report.manifests[&what].clone());
            assert_eq!(
                differences(&ours, &tree),
                "",
                "{what}: our recovery and the kernel's"
            );
            assert_clean(
                &mut copy(&mut theirs, number),
                &format!("{what}, by the kernel"),
            );
        }
        println!("{name}: {fast} with fast commits");
        assert!(fast >= whole_or(20, 4), "{fast}");
    }
}
