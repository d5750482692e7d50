//! The real kernel sees our trees as we do, and we see its.

use crate::common;
use crate::common::{assert_clean, bytes, load, manifest, mkdir, mount, put, ram, save};
use nandlab_ext::{Format, format};
use nandlab_oracle::manifest::differences;
use nandlab_oracle::{Disk, Oracle};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time};
use std::time::Duration;

/// A guest without hardware support beside other tests is slow.
const PATIENCE: Duration = Duration::from_secs(900);

/// A bit of everything that the format has.
fn plant(fs: &mut impl FileSystem) {
    let clock = Time {
        secs: 1_234_567_890,
        nanos: 123_456_789,
    };
    let by = Caller {
        uid: 70_000,
        gid: 80_000,
        now: clock,
    };
    let dir = mkdir(fs, Ino::ROOT, "directory of many");
    let below = mkdir(fs, dir, "below");
    for number in 0..700 {
        put(
            fs,
            dir,
            &format!("one of many files with a rather long name {number:03}"),
            &bytes(number, number as usize * 7),
        );
    }
    for number in (0..700).step_by(3) {
        fs.unlink(
            dir,
            format!("one of many files with a rather long name {number:03}").as_bytes(),
            clock,
        )
        .unwrap();
    }
    for (number, length) in [1usize, 4096, 12 * 4096, 300_000, 1_500_000]
        .into_iter()
        .enumerate()
    {
        put(
            fs,
            below,
            &format!("of {length}"),
            &bytes(number as u64, length),
        );
    }
    let sparse = put(fs, Ino::ROOT, "sparse", b"beginning");
    fs.write(sparse, 3_000_000, b"middle", clock).unwrap();
    fs.write(sparse, 5_000_000, b"end", clock).unwrap();
    let cut = put(fs, Ino::ROOT, "cut", &bytes(9, 900_000));
    for size in [700_001, 5000, 1_000_000] {
        fs.setattr(
            cut,
            &SetAttr {
                size: Some(size),
                ..SetAttr::default()
            },
            clock,
        )
        .unwrap();
    }
    fs.symlink(below, b"fast", b"../of 1", by).unwrap();
    fs.symlink(below, b"slow", &[b'x'; 200], by).unwrap();
    fs.create(below, b"fifo", NewNode::Fifo, 0o600, by).unwrap();
    fs.create(below, b"socket", NewNode::Socket, 0o600, by)
        .unwrap();
    fs.create(
        below,
        b"old device",
        NewNode::Block { device: (8, 17) },
        0o660,
        by,
    )
    .unwrap();
    fs.create(
        below,
        b"new device",
        NewNode::Character {
            device: (300, 70_000),
        },
        0o660,
        by,
    )
    .unwrap();
    fs.link(sparse, below, b"another name of sparse", clock)
        .unwrap();
    fs.setxattr(sparse, b"user.small", b"value", SetXattr::Any, clock)
        .unwrap();
    fs.setxattr(sparse, b"user.large", &[7; 500], SetXattr::Any, clock)
        .unwrap();
    fs.rename(
        (dir, b"below"),
        (Ino::ROOT, b"moved up"),
        Rename::Replace,
        clock,
    )
    .unwrap();
    let all = SetAttr {
        mode: Some(0o4751),
        uid: Some(100_000),
        gid: Some(5),
        mtime: Some(clock),
        ..SetAttr::default()
    };
    fs.setattr(cut, &all, clock).unwrap();
}

/// The kernel edits what it finds.
const EDIT: &str = r#"
    edit() { # DEVICE KEY TYPE
        mount -t $3 $1 /mnt && manifest /mnt $2-found || { echo "$2 failed"; exit 1; }
        mkdir -p "/mnt/made by the kernel/deep/deeper" && cd "/mnt/made by the kernel" &&
            head -c 1400000 /dev/urandom > random && printf short > "deep/a longer name.txt" &&
            dd if=/dev/zero of=sparse bs=1 count=1 seek=2500000 2>/dev/null &&
            i=0; while [ $i -lt 400 ]; do echo $i > "a name of the kernel, rather long so that blocks fill $i" || exit 1; i=$((i+1)); done
        i=0; while [ $i -lt 400 ]; do rm "a name of the kernel, rather long so that blocks fill $i" || exit 1; i=$((i+7)); done
        i=0; while [ $i -lt 150 ]; do echo $i > "/mnt/directory of many/one more of the kernel in the index $i" || exit 1; i=$((i+1)); done
        ln -s target link && ln -s "$(head -c 150 /dev/zero | tr '\0' y)" longlink && ln random hardlink && mknod device b 300 70000 && mkfifo fifo &&
            touch -d @1000000000 random && mv random "deep/deeper/moved random" && chown 90000:3 sparse && chmod 2755 deep &&
            rm "/mnt/directory of many/one of many files with a rather long name 001" && truncate -s 1234 /mnt/cut && cd / &&
            manifest /mnt $2-left && umount /mnt || { echo "$2 failed"; exit 1; }
    }
"#;

#[test]
fn the_kernel_and_we_see_the_same_trees_both_ways() {
    let scratch = tempfile::tempdir().unwrap();
    let base = Format::default();
    let choices = [
        ("small", "ext2", 32 * 1024, Format { ..base.clone() }),
        (
            "large",
            "ext2",
            64 * 1024,
            Format {
                block: Some(4096),
                ..base.clone()
            },
        ),
        (
            "middle",
            "ext3",
            48 * 1024,
            Format {
                block: Some(2048),
                journal: true,
                ..base
            },
        ),
    ];
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let (mut guest, mut script, mut ours) = (
        oracle.guest().timeout(PATIENCE),
        format!("{EDIT}\nmp ext4\n"),
        Vec::new(),
    );
    for ((name, kind, kib, choices), device) in choices.iter().zip(["vda", "vdb", "vdc"]) {
        let mut disk = ram(*kib);
        format(&mut disk, choices).unwrap();
        let mut ext = mount(&mut disk);
        plant(&mut ext);
        ext.unmount().unwrap();
        assert_clean(&mut disk, name);
        ours.push(manifest(&mut mount(&mut disk)));
        let path = scratch.path().join(name);
        save(&mut disk, &path);
        guest = guest.disk(Disk::File(path));
        script += &format!("edit /dev/{device} {name} {kind}\n");
    }
    let report = guest.script(script).run().unwrap().success().unwrap();
    for ((name, ..), ours) in choices.iter().zip(ours) {
        assert!(ours.len() > 400, "a tree worth comparing");
        assert_eq!(
            differences(&ours, &report.manifests[&format!("{name}-found")]),
            "",
            "{name}: our tree, as the kernel sees it"
        );
        let mut disk = load(&scratch.path().join(name));
        assert_clean(&mut disk, name);
        let mut ext = mount(&mut disk);
        let ours = manifest(&mut ext);
        assert_eq!(
            differences(&report.manifests[&format!("{name}-left")], &ours),
            "",
            "{name}: the kernel's tree, as we see it"
        );
        assert!(
            ours.keys().any(|path| path.ends_with("moved random")),
            "{name}"
        );
        // Its indexed directories are ours to go on with.
        let dir = nandlab_vfs::path::resolve(&mut ext, b"made by the kernel")
            .unwrap()
            .ino;
        for number in 0..300 {
            put(
                &mut ext,
                dir,
                &format!("added to the kernel's index {number}"),
                b"",
            );
        }
        ext.unmount().unwrap();
        assert_clean(&mut disk, &format!("{name}: gone on with"));
    }
}

/// The power goes while the journal holds what is not at home, and a file is open that has no name.
const CRASH: &str = r#"
    mp ext4
    mount -t ext3 -o commit=1000 /dev/vda /mnt && cd /mnt || exit 1
    i=0; while [ $i -lt 300 ]; do echo $i > "in the journal $i" || exit 1; i=$((i+1)); done
    mkdir gone && head -c 500000 /dev/urandom > large && ln -s somewhere link && touch gone/a gone/b || exit 1
    head -c 300000 /dev/urandom > orphan && exec 5< orphan && rm orphan && rm -r gone && rm "in the journal 7" && cd / || exit 1
    sync && manifest /mnt left
    cp /dev/vda /dev/vdb 2>/dev/null || dd if=/dev/vda of=/dev/vdb bs=1M || exit 1
"#;

#[test]
fn a_volume_that_the_kernel_left_in_a_crash_is_recovered() {
    let scratch = tempfile::tempdir().unwrap();
    let (mounted, copy) = (scratch.path().join("mounted"), scratch.path().join("copy"));
    let mut disk = ram(32 * 1024);
    format(
        &mut disk,
        &Format {
            journal: true,
            ..Format::default()
        },
    )
    .unwrap();
    save(&mut disk, &mounted);
    save(&mut ram(32 * 1024), &copy);
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let guest = oracle
        .guest()
        .timeout(PATIENCE)
        .disk(Disk::File(mounted))
        .disk(Disk::File(copy.clone()));
    let report = guest.script(CRASH).run().unwrap().success().unwrap();
    let mut disk = load(&copy);
    assert!(common::read_only(&mut disk).is_read_only());
    assert!(
        common::needs_recovery(&mut disk),
        "the kernel left a journal that needs recovery"
    );
    let mut sector = [0; 512];
    nandlab_block::BlockDevice::read(&mut disk, nandlab_block::Lba(2), &mut sector).unwrap();
    assert_ne!(sector[232..236], [0; 4], "and an orphan");
    let mut ext = mount(&mut disk);
    assert_eq!(
        differences(&report.manifests["left"], &manifest(&mut ext)),
        "",
        "what was synced"
    );
    ext.unmount().unwrap();
    assert_clean(&mut disk, "recovered");
}
