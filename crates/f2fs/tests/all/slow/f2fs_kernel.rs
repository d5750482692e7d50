//! The real kernel sees our trees as we do, and we see its.

use crate::common;
use crate::common::chain::{CASES, volume};
use crate::common::full::{Aging, FULL};
use crate::common::{
    assert_clean, attributes, bytes, load, made_by_mkfs, manifest, mkdir, mount, put, ram, save,
};
use nandlab_f2fs::{F2fs, Finding, Format, InPlace, Options, Policy, format};
use nandlab_oracle::manifest::{Kind, Manifest, differences};
use nandlab_oracle::{Disk, Oracle};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time};
use std::time::Duration;

/// A guest without hardware support beside other tests is slow.
const PATIENCE: Duration = Duration::from_secs(900);

/// Without the times of directories, which are as the checkpoint has them or as a recovery sets
/// them.
fn no_times(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    for entry in manifest
        .values_mut()
        .filter(|entry| entry.kind == Kind::Directory)
    {
        (entry.mtime, entry.mtime_nanos) = (0, 0);
    }
    manifest
}

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
    let choices = [
        ("defaults", 80, Format::default()),
        (
            "sections",
            160,
            Format {
                segs_per_sec: 2,
                ..Format::default()
            },
        ),
    ];
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let (mut guest, mut script, mut ours) = (
        oracle.guest().timeout(PATIENCE),
        format!("{EDIT}\nmp f2fs\n"),
        Vec::new(),
    );
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
        assert_eq!(
            differences(&ours, &report.manifests[&format!("{name}-found")]),
            "",
            "{name}: our tree, as the kernel sees it"
        );
        let mut disk = load(&scratch.path().join(name));
        assert_clean(&mut disk, name);
        let mut f2fs = mount(&mut disk);
        let ours = manifest(&mut f2fs);
        assert_eq!(
            differences(&report.manifests[&format!("{name}-left")], &ours),
            "",
            "{name}: the kernel's tree, as we see it"
        );
        assert!(
            ours.keys().any(|path| path.ends_with("moved random")),
            "{name}"
        );
        // Its directories are ours to go on with.
        let dir = nandlab_vfs::path::resolve(&mut f2fs, b"made by the kernel")
            .unwrap()
            .ino;
        for number in 0..300 {
            put(
                &mut f2fs,
                dir,
                &format!("added to the kernel's levels {number}"),
                b"",
            );
        }
        f2fs.unmount().unwrap();
        assert_clean(&mut disk, &format!("{name}: gone on with"));
    }
}

/// The kernel's volume in the middle of its use: a checkpoint, an orphan, and fsyncs behind that.
/// What was not fsynced is not in `kept`.
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
    let guest = oracle
        .guest()
        .timeout(PATIENCE)
        .disk(Disk::File(mounted))
        .disk(Disk::File(copy.clone()));
    let report = guest.script(CRASH).run().unwrap().success().unwrap();
    let mut disk = load(&copy);
    let mut f2fs = common::read_only(&mut disk);
    assert_eq!(
        differences(
            &no_times(&report.manifests["left"]),
            &no_times(&manifest(&mut f2fs))
        ),
        "",
        "what was fsynced, in memory"
    );
    assert!(
        f2fs.check().unwrap().findings.contains(&Finding::InUse),
        "the kernel did not unmount"
    );
    let mut f2fs = mount(&mut disk);
    assert_eq!(
        differences(
            &no_times(&report.manifests["left"]),
            &no_times(&manifest(&mut f2fs))
        ),
        "",
        "what was fsynced"
    );
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
        let file = put(
            &mut f2fs,
            dir,
            &format!("new {number}"),
            &bytes(number, (number * number * 3000) as usize),
        );
        f2fs.setxattr(
            file,
            b"user.name",
            &[number as u8; 250],
            SetXattr::Any,
            clock,
        )
        .unwrap();
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
    let report = oracle
        .guest()
        .timeout(PATIENCE)
        .disk(Disk::File(path.clone()))
        .script(script)
        .run()
        .unwrap()
        .success()
        .unwrap();
    let (found, ours) = (no_times(&report.manifests["found"]), no_times(&ours));
    assert!(ours.len() > 20);
    assert_eq!(
        differences(&ours, &found),
        "",
        "what the kernel recovers is what we recover"
    );
    let mut disk = load(&path);
    assert_clean(&mut disk, "recovered by the kernel");
}

#[test]
fn the_kernel_recovers_nodes_in_each_order_to_what_we_recover() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("orders");
    let mut disk = volume(&CASES.iter().copied().enumerate().collect::<Vec<_>>());
    save(&mut disk, &path);
    let ours = manifest(&mut common::read_only(&mut disk));
    assert_eq!(
        ours.len(),
        1 + CASES.iter().filter(|case| case.found.is_some()).count()
    );
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let script = "mp f2fs; mount -t f2fs /dev/vda /mnt && manifest /mnt found && umount /mnt";
    let report = oracle
        .guest()
        .timeout(PATIENCE)
        .disk(Disk::File(path.clone()))
        .script(script)
        .run()
        .unwrap()
        .success()
        .unwrap();
    assert_eq!(
        differences(&no_times(&report.manifests["found"]), &no_times(&ours)),
        ""
    );
    assert_clean(&mut load(&path), "recovered by the kernel");
}

/// Random calls on each much-used volume.
const CALLS: u64 = 20_000;

#[test]
fn the_kernel_sees_what_many_calls_made_of_volumes_that_are_nearly_full() {
    let base = Options {
        cleaning_interval: 1_000_000_000,
        ..Options::default()
    };
    let sets = [
        (
            "six-logs",
            Options {
                background: Policy::CostBenefit,
                ..base
            },
        ),
        (
            "four-logs",
            Options {
                logs: 4,
                threaded: false,
                ..base
            },
        ),
        (
            "two-logs",
            Options {
                logs: 2,
                in_place: InPlace::Above(70),
                ..base
            },
        ),
    ];
    let scratch = tempfile::tempdir().unwrap();
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let mut guest = oracle
        .guest()
        .timeout(PATIENCE)
        .file("/xattrs", attributes::program());
    let (mut script, mut ours) = (format!("{}mp f2fs\n", attributes::FUNCTION), Vec::new());
    for (seed, ((name, options), device)) in (41..).zip(sets.into_iter().zip('a'..)) {
        let mut disk = ram(96 * 1024);
        format(&mut disk, &Format::default()).unwrap();
        let mut f2fs = F2fs::mount(&mut disk, options).unwrap();
        let mut aging = Aging::new(&mut f2fs, seed);
        aging.run(&mut f2fs, CALLS);
        aging.model.release(&mut f2fs);
        let counts = f2fs.counts();
        println!("{name}: {} % full, {counts:?}", aging.percent());
        assert!(aging.percent() >= FULL && counts.cleaned_background > 0);
        assert!(
            counts.threaded > 1000 || counts.cleaned > 20,
            "{name}: {counts:?}"
        );
        f2fs.unmount().unwrap();
        drop(f2fs);
        assert_clean(&mut disk, name);
        let mut f2fs = mount(&mut disk);
        ours.push((name, manifest(&mut f2fs), attributes::seen(&mut f2fs)));
        drop(f2fs);
        let path = scratch.path().join(name);
        save(&mut disk, &path);
        guest = guest.disk(Disk::File(path));
        script += &format!(
            "mount -t f2fs /dev/vd{device} /mnt && manifest /mnt {name} && attributes /mnt {name} && umount /mnt || exit 1\n"
        );
    }
    let report = guest.script(script).run().unwrap().success().unwrap();
    for (name, tree, named) in ours {
        assert!(
            tree.len() > 60 && named.len() > 5,
            "{name}: a tree worth comparing"
        );
        assert_eq!(
            differences(&tree, &report.manifests[name]),
            "",
            "{name}: our tree, as the kernel sees it"
        );
        assert!(
            attributes::told(&report.files[&format!("{name}-attributes")]) == named,
            "{name}: extended attributes"
        );
        assert_clean(&mut load(&scratch.path().join(name)), name);
    }
}

/// Works until it is killed: names, contents, cuts, removals, now and then an fsync or a sync.
const WORK: &str = r#"
    work() { # DEVICE DIRECTORY OPTIONS
        mkdir /$2 && mount -t f2fs -o $3 $1 /$2 && cd /$2 && mkdir a b || exit 1
        n=0
        while :; do
            n=$((n + 1))
            echo $n > "a/number $n"; head -c $((n * 977 % 70000)) /dev/urandom > b/$((n % 40))
            mv "a/number $n" b/moved-$((n % 100)); ln -s "number $n" a/link-$n
            [ $((n % 3)) = 0 ] && truncate -s $((n * 31 % 9000)) b/$((n * 7 % 40))
            [ $((n % 4)) = 0 ] && rm -f a/link-$((n - 3)) b/$((n * 3 % 40))
            [ $((n % 5)) = 0 ] && dd if=/dev/urandom of=a/synced-$((n % 20)) bs=1000 seek=$((n % 30)) count=3 conv=fsync,notrunc 2> /dev/null
            [ $((n % 7)) = 0 ] && dd if=/dev/urandom of=b/new-$n bs=9000 count=1 conv=fsync 2> /dev/null
            [ $n = 60 ] && sync
            [ $n = 200 ] && echo > /tmp/$2
        done
    }
    mp f2fs || exit 1
"#;

#[test]
fn we_recover_what_the_kernel_left_when_it_was_killed_to_the_tree_that_it_recovers() {
    let scratch = tempfile::tempdir().unwrap();
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let volumes = [
        ("defaults", "rw"),
        ("log-only", "mode=lfs"),
        ("bare", "noinline_data,noinline_dentry,active_logs=4"),
    ];
    let (mut guest, mut script, mut until) = (
        oracle.guest().timeout(PATIENCE),
        WORK.to_string(),
        String::new(),
    );
    for ((name, options), device) in volumes.iter().zip('a'..) {
        save(&mut made_by_mkfs(64, &[]), &scratch.path().join(name));
        guest = guest.disk(Disk::File(scratch.path().join(name)));
        script += &format!("work /dev/vd{device} {name} {options} &\n");
        until += &format!("while [ ! -e /tmp/{name} ]; do sleep 1; done\n");
    }
    let mut running = guest
        .script(script + &until + "say ready yes\nsleep 900\n")
        .spawn()
        .unwrap();
    running.wait_for("ready", PATIENCE).unwrap();
    running.kill();
    assert!(running.wait().unwrap().qemu_killed);

    let (mut guest, mut script, mut ours) = (
        oracle.guest().timeout(PATIENCE),
        "mp f2fs || exit 1\n".to_string(),
        Vec::new(),
    );
    for ((name, options), device) in volumes.iter().zip('a'..) {
        let path = scratch.path().join(name);
        let mut disk = load(&path);
        let mut f2fs = common::read_only(&mut disk);
        let tree = no_times(&manifest(&mut f2fs));
        drop(f2fs);
        let mut f2fs = mount(&mut disk);
        assert_eq!(
            differences(&tree, &no_times(&manifest(&mut f2fs))),
            "",
            "{name}: in memory and on the medium"
        );
        f2fs.unmount().unwrap();
        assert_clean(&mut disk, name);
        ours.push((name, tree));
        guest = guest.disk(Disk::File(path));
        script += &format!(
            "mount -t f2fs -o {options} /dev/vd{device} /mnt && manifest /mnt {name} && umount /mnt || exit 1\n"
        );
    }
    let report = guest.script(script).run().unwrap().success().unwrap();
    for (name, ours) in ours {
        assert!(ours.len() > 40, "{name}: a tree worth comparing");
        assert_eq!(
            differences(&no_times(&report.manifests[*name]), &ours),
            "",
            "{name}: the kernel's recovery and ours"
        );
    }
}
