//! The real kernel sees our trees as we do, and we see its.

mod common;

use common::{assert_clean, bytes, load, manifest, mkdir, mount, put, ram, save};
use nandlab_f2fs::{Finding, Format, format};
use nandlab_oracle::manifest::differences;
use nandlab_oracle::{Disk, Oracle};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time};
use std::time::Duration;

/// A guest without hardware support beside other tests is slow.
const PATIENCE: Duration = Duration::from_secs(900);

/// A bit of everything that the format has.
fn plant(fs: &mut impl FileSystem) {
    let clock = Time { secs: 1_234_567_890, nanos: 123_456_789 };
    let by = Caller { uid: 70_000, gid: 80_000, now: clock };
    let dir = mkdir(fs, Ino::ROOT, "directory of many");
    let below = mkdir(fs, dir, "below");
    for number in 0..700 {
        put(fs, dir, &format!("one of many files with a rather long name {number:03}"), &bytes(number, number as usize * 7));
    }
    for number in (0..700).step_by(3) {
        fs.unlink(dir, format!("one of many files with a rather long name {number:03}").as_bytes(), clock).unwrap();
    }
    for (number, length) in [1usize, 4096, 12 * 4096, 300_000, 1_500_000].into_iter().enumerate() {
        put(fs, below, &format!("of {length}"), &bytes(number as u64, length));
    }
    let sparse = put(fs, Ino::ROOT, "sparse", b"beginning");
    fs.write(sparse, 3_000_000, b"middle", clock).unwrap();
    fs.write(sparse, 5_000_000, b"end", clock).unwrap();
    let cut = put(fs, Ino::ROOT, "cut", &bytes(9, 900_000));
    for size in [700_001, 5000, 1_000_000] {
        fs.setattr(cut, &SetAttr { size: Some(size), ..SetAttr::default() }, clock).unwrap();
    }
    fs.symlink(below, b"fast", b"../of 1", by).unwrap();
    fs.symlink(below, b"slow", &[b'x'; 200], by).unwrap();
    fs.create(below, b"fifo", NewNode::Fifo, 0o600, by).unwrap();
    fs.create(below, b"socket", NewNode::Socket, 0o600, by).unwrap();
    fs.create(below, b"old device", NewNode::Block { device: (8, 17) }, 0o660, by).unwrap();
    fs.create(below, b"new device", NewNode::Character { device: (300, 70_000) }, 0o660, by).unwrap();
    fs.link(sparse, below, b"another name of sparse", clock).unwrap();
    fs.setxattr(sparse, b"user.small", b"value", SetXattr::Any, clock).unwrap();
    fs.setxattr(sparse, b"user.large", &[7; 500], SetXattr::Any, clock).unwrap();
    fs.rename((dir, b"below"), (Ino::ROOT, b"moved up"), Rename::Replace, clock).unwrap();
    let all = SetAttr { mode: Some(0o4751), uid: Some(100_000), gid: Some(5), mtime: Some(clock), ..SetAttr::default() };
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
    let choices = [("defaults", 80, Format::default()), ("sections", 160, Format { segs_per_sec: 2, ..Format::default() })];
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let (mut guest, mut script, mut ours) = (oracle.guest().timeout(PATIENCE), format!("{EDIT}\nmp f2fs\n"), Vec::new());
    for ((name, mib, choices), device) in choices.iter().zip(["vda", "vdb"]) {
        let mut disk = ram(*mib * 1024);
        format(&mut disk, choices).unwrap();
        let mut f2fs = mount(&mut disk);
        plant(&mut f2fs);
        f2fs.unmount().unwrap();
        assert_clean(&mut disk, name);
        ours.push(manifest(&mut mount(&mut disk)));
        let path = scratch.path().join(name);
        save(&mut disk, &path);
        guest = guest.disk(Disk::File(path));
        script += &format!("edit /dev/{device} {name} f2fs\n");
    }
    let report = guest.script(script).run().unwrap().success().unwrap();
    for ((name, ..), ours) in choices.iter().zip(ours) {
        assert!(ours.len() > 400, "a tree worth comparing");
        assert_eq!(differences(&ours, &report.manifests[&format!("{name}-found")]), "", "{name}: our tree, as the kernel sees it");
        let mut disk = load(&scratch.path().join(name));
        assert_clean(&mut disk, name);
        let mut f2fs = mount(&mut disk);
        let ours = manifest(&mut f2fs);
        assert_eq!(differences(&report.manifests[&format!("{name}-left")], &ours), "", "{name}: the kernel's tree, as we see it");
        assert!(ours.keys().any(|path| path.ends_with("moved random")), "{name}");
        // Its directories are ours to go on with.
        let dir = nandlab_vfs::path::resolve(&mut f2fs, b"made by the kernel").unwrap().ino;
        for number in 0..300 {
            put(&mut f2fs, dir, &format!("added to the kernel's levels {number}"), b"");
        }
        f2fs.unmount().unwrap();
        assert_clean(&mut disk, &format!("{name}: gone on with"));
    }
}

/// The kernel's volume in the middle of its use: a checkpoint, an orphan, and fsyncs behind that. What was not fsynced is not in `kept`.
const CRASH: &str = r#"
    durable() { dd if=/dev/null of=$1 conv=notrunc,fsync 2>/dev/null; }
    mp f2fs
    mount -t f2fs /dev/vda /mnt && cd /mnt || exit 1
    i=0; while [ $i -lt 300 ]; do echo $i > "before the checkpoint $i" || exit 1; i=$((i+1)); done
    head -c 300000 /dev/urandom > orphan && exec 5< orphan && rm orphan
    head -c 500000 /dev/urandom > large && ln -s somewhere link && mkdir kept && sync || exit 1
    for i in 1 2 3 4 5 6 7 8; do
        head -c $((i*i*20000)) /dev/urandom > kept/$i && durable kept/$i || exit 1
    done
    echo tiny > kept/tiny && durable kept/tiny
    dd if=/dev/urandom of=large bs=4096 seek=10 count=30 conv=notrunc 2>/dev/null && durable large
    dd if=/dev/urandom of=kept/8 bs=1000 seek=300 count=3 conv=notrunc 2>/dev/null && durable kept/8
    cd / && manifest /mnt left
    echo lost > /mnt/kept/lost
    dd if=/dev/vda of=/dev/vdb bs=1M iflag=direct 2>/dev/null || dd if=/dev/vda of=/dev/vdb bs=1M || exit 1
"#;

#[test]
fn a_volume_that_the_kernel_left_in_a_crash_is_recovered() {
    let scratch = tempfile::tempdir().unwrap();
    let (mounted, copy) = (scratch.path().join("mounted"), scratch.path().join("copy"));
    let mut disk = ram(64 * 1024);
    format(&mut disk, &Format::default()).unwrap();
    save(&mut disk, &mounted);
    save(&mut ram(64 * 1024), &copy);
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let guest = oracle.guest().timeout(PATIENCE).disk(Disk::File(mounted)).disk(Disk::File(copy.clone()));
    let report = guest.script(CRASH).run().unwrap().success().unwrap();
    let mut disk = load(&copy);
    // Directories' times are as the checkpoint has them.
    let no_times = |manifest: &nandlab_oracle::Manifest| {
        let mut manifest = manifest.clone();
        for entry in manifest.values_mut().filter(|entry| entry.kind == nandlab_oracle::manifest::Kind::Directory) {
            (entry.mtime, entry.mtime_nanos) = (0, 0);
        }
        manifest
    };
    let mut f2fs = common::read_only(&mut disk);
    assert_eq!(differences(&no_times(&report.manifests["left"]), &no_times(&manifest(&mut f2fs))), "", "what was fsynced, in memory");
    assert!(f2fs.check().unwrap().findings.contains(&Finding::InUse), "the kernel did not unmount");
    let mut f2fs = mount(&mut disk);
    assert_eq!(differences(&no_times(&report.manifests["left"]), &no_times(&manifest(&mut f2fs))), "", "what was fsynced");
    f2fs.unmount().unwrap();
    assert_clean(&mut disk, "recovered");
}

#[test]
fn a_volume_that_we_left_in_a_crash_is_recovered_by_the_kernel() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("ours");
    let mut disk = ram(64 * 1024);
    format(&mut disk, &Format::default()).unwrap();
    let mut f2fs = mount(&mut disk);
    let clock = Time::new(1_234_567_890);
    let dir = mkdir(&mut f2fs, Ino::ROOT, "kept");
    let old = put(&mut f2fs, dir, "old", &bytes(1, 700_000));
    let orphan = put(&mut f2fs, dir, "orphan", &bytes(2, 300_000));
    f2fs.unlink(dir, b"orphan", clock).unwrap();
    f2fs.sync().unwrap();
    for number in 0..20 {
        let file = put(&mut f2fs, dir, &format!("new {number}"), &bytes(number, (number * number * 3000) as usize));
        f2fs.setxattr(file, b"user.name", &[number as u8; 250], SetXattr::Any, clock).unwrap();
        f2fs.fsync(file, nandlab_vfs::Sync::All).unwrap();
    }
    f2fs.write(old, 3000, &bytes(9, 200_000), clock).unwrap();
    f2fs.fsync(old, nandlab_vfs::Sync::Data).unwrap();
    assert!(f2fs.counts().roll_forwards > 20);
    put(&mut f2fs, dir, "lost", &bytes(3, 5000));
    f2fs.forget(orphan, 1);
    drop(f2fs);
    let ours = manifest(&mut common::read_only(&mut disk));
    save(&mut disk, &path);
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let script = "mp f2fs; mount -t f2fs /dev/vda /mnt && manifest /mnt found && umount /mnt";
    let report = oracle.guest().timeout(PATIENCE).disk(Disk::File(path.clone())).script(script).run().unwrap().success().unwrap();
    let mut found = report.manifests["found"].clone();
    let mut ours = ours;
    for tree in [&mut found, &mut ours] {
        for entry in tree.values_mut().filter(|entry| entry.kind == nandlab_oracle::manifest::Kind::Directory) {
            (entry.mtime, entry.mtime_nanos) = (0, 0);
        }
    }
    assert!(ours.len() > 20);
    assert_eq!(differences(&ours, &found), "", "what the kernel recovers is what we recover");
    let mut disk = load(&path);
    assert_clean(&mut disk, "recovered by the kernel");
}
