//! The real kernel sees our trees as we do, and we see its.

use crate::common;
use crate::common::chain::{CASES, volume};
use crate::common::full::{Aging, FULL};
use crate::common::{assert_clean, bytes, made_by_mkfs, manifest, mkdir, mount, put, ram};
use nandlab_block::Ram;
use nandlab_f2fs::{F2fs, Finding, Format, InPlace, Options, Policy, format};
use nandlab_oracle::manifest::{Kind, Manifest, differences};
use nandlab_testkit::kernel::{BothWays, EDIT, Volumes, listed, plant};
use nandlab_testkit::share::whole_or;
use nandlab_testkit::xattrs;
use nandlab_vfs::{FileSystem, Ino, SetXattr, Time};

/// Shell: loads the kernel's driver.
const F2FS: &str = "mp f2fs || exit 1\n";

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

fn formatted(mib: u64, choices: &Format) -> Ram {
    let mut disk = ram(mib * 1024);
    format(&mut disk, choices).unwrap();
    disk
}

#[test]
fn the_kernel_and_we_see_the_same_trees_both_ways() {
    let sections = Format {
        segs_per_sec: 2,
        ..Format::default()
    };
    let both = BothWays {
        mount: &|disk| Box::new(mount(disk)),
        assert_clean,
        plant,
        prelude: format!("{EDIT}\n{F2FS}"),
        kept: |tree| tree,
        entries_min: 400,
        landmark: "moved random",
    };
    let mut volumes = vec![
        ("defaults", "f2fs", formatted(80, &Format::default())),
        ("sections", "f2fs", formatted(160, &sections)),
    ];
    volumes.truncate(whole_or(2, 1));
    both.run(volumes);
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
    let mut volumes = Volumes::new("");
    let nothing = |_: &str| String::new();
    volumes.add("mounted", &mut formatted(64, &Format::default()), nothing);
    volumes.add("copy", &mut ram(64 * 1024), |_| CRASH.into());
    let report = volumes.boot();
    let mut disk = volumes.load("copy");
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
    let mut disk = formatted(64, &Format::default());
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
    let mut volumes = Volumes::new(F2FS);
    volumes.add_listed("found", &mut disk, "f2fs");
    let report = volumes.boot();
    let found = no_times(&report.manifests["found"]);
    let ours = no_times(&ours);
    assert!(ours.len() > 20);
    assert_eq!(
        differences(&ours, &found),
        "",
        "what the kernel recovers is what we recover"
    );
    assert_clean(&mut volumes.load("found"), "recovered by the kernel");
}

#[test]
fn the_kernel_recovers_nodes_in_each_order_to_what_we_recover() {
    let mut disk = volume(&CASES.iter().copied().enumerate().collect::<Vec<_>>());
    let ours = manifest(&mut common::read_only(&mut disk));
    assert_eq!(
        ours.len(),
        1 + CASES.iter().filter(|case| case.found.is_some()).count()
    );
    let mut volumes = Volumes::new(F2FS);
    volumes.add_listed("found", &mut disk, "f2fs");
    let report = volumes.boot();
    assert_eq!(
        differences(&no_times(&report.manifests["found"]), &no_times(&ours)),
        ""
    );
    assert_clean(&mut volumes.load("found"), "recovered by the kernel");
}

/// Random calls on each much-used volume.
fn calls() -> u64 {
    whole_or(20_000, 5_000)
}

#[test]
fn the_kernel_sees_what_many_calls_made_of_volumes_that_are_nearly_full() {
    let base = Options {
        cleaning_interval: 1_000_000_000,
        cleaning_idle: 0,
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
    let mut volumes = Volumes::new([xattrs::FUNCTION, F2FS].concat());
    volumes.file("/xattrs", xattrs::program());
    let mut ours = Vec::new();
    for (seed, (name, options)) in (41..).zip(sets).step_by(whole_or(1, 2)) {
        let mut disk = formatted(96, &Format::default());
        let mut f2fs = F2fs::mount(&mut disk, options).unwrap();
        let mut aging = Aging::new(&mut f2fs, seed);
        aging.run(&mut f2fs, calls());
        aging.model.release(&mut f2fs);
        let counts = f2fs.counts();
        println!("{name}: {} % full, {counts:?}", aging.percent());
        assert!(aging.percent() >= FULL && counts.cleaned_background > 0);
        assert!(
            counts.threaded > whole_or(1000, 200) || counts.cleaned > whole_or(20, 4),
            "{name}: {counts:?}"
        );
        f2fs.unmount().unwrap();
        drop(f2fs);
        assert_clean(&mut disk, name);
        let mut f2fs = mount(&mut disk);
        ours.push((name, manifest(&mut f2fs), xattrs::seen(&mut f2fs)));
        drop(f2fs);
        volumes.add(name, &mut disk, |device| {
            format!(
                "mount -t f2fs {device} /mnt && manifest /mnt {name} && attributes /mnt {name} && umount /mnt || exit 1\n"
            )
        });
    }
    let report = volumes.boot();
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
            xattrs::sent(&report.files[&format!("{name}-attributes")]) == named,
            "{name}: extended attributes"
        );
        assert_clean(&mut volumes.load(name), name);
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
            [ $n = READY ] && echo > /tmp/$2
        done
    }
    mp f2fs || exit 1
"#;

#[test]
fn we_recover_what_the_kernel_left_when_it_was_killed_to_the_tree_that_it_recovers() {
    let kinds = [
        ("defaults", "rw"),
        ("log-only", "mode=lfs"),
        ("bare", "noinline_data,noinline_dentry,active_logs=4"),
    ];
    let kinds = &kinds[..whole_or(3, 1)];
    let ready = whole_or("200", "90");
    let mut volumes = Volumes::new(WORK.replace("READY", ready));
    for &(name, options) in kinds {
        volumes.add(name, &mut made_by_mkfs(64, &[]), |device| {
            format!("work {device} {name} {options} &\n")
        });
    }
    let names: Vec<_> = kinds.iter().map(|(name, _)| *name).collect();
    volumes.kill_when_ready(&names);

    volumes.shell(F2FS);
    let mut ours = Vec::new();
    for &(name, options) in kinds {
        let mut disk = volumes.load(name);
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
        volumes.attach(name, |device| {
            listed(name, device, &format!("f2fs -o {options}"))
        });
    }
    let report = volumes.boot();
    for (name, ours) in ours {
        assert!(ours.len() > 40, "{name}: a tree worth comparing");
        assert_eq!(
            differences(&no_times(&report.manifests[name]), &ours),
            "",
            "{name}: the kernel's recovery and ours"
        );
    }
}
