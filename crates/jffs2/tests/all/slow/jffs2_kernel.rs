//! The real jffs2 driver sees our trees as we do, also after much work on a medium that is nearly
//! full, and we see its, on NOR and NAND.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use crate::common::{
    NAND, NOW, bytes, manifest, mkdir, nand, nor, nor_of, percent_full, put, read_only,
    small_rules, text, without_directory_times,
};
use crate::guest;
use crate::guest::{Attributes, attribute_differences, attributes, attributes_of};
use nandlab_jffs2::{Compression, Jffs2, Options, Severity};
use nandlab_mtd::{Counter, Image, Mtd};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Report};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time, path};
use std::fs;

const BLOCKS: u32 = 64;
const BLOCK: u32 = 128 * 1024;
/// Random calls that fill a medium several times over.
const AGE: u64 = 20_000;
/// How full the medium is meanwhile, in percent.
const FULL: u64 = 91;
/// Bytes of a file that is there to fill it.
const BALLAST: usize = 40_000;

/// Names, contents and kinds of all sorts, some of which came about by detours.
fn plant(fs: &mut impl FileSystem) {
    let now = Time::new(1_234_567_890);
    let by = Caller {
        uid: 1000,
        gid: 100,
        now,
    };
    let dir = mkdir(fs, Ino::ROOT, "a directory");
    let below = mkdir(fs, dir, "below");
    for (number, name) in (0u64..).zip(["plain", "größer", "\u{1F600}", ".hidden", "with\nnewline"])
    {
        for place in [Ino::ROOT, dir, below] {
            put(
                fs,
                place,
                name,
                &text(number, (number * number * 3001) as usize),
            );
        }
    }
    put(fs, dir, "noise", &bytes(1, 150_000));
    put(fs, dir, "zeros", &[0; 50_000]);
    let file = put(fs, below, "rewritten", &text(7, 40_000));
    for step in 0..60u64 {
        let at = nandlab_sim::mix(5, step) % 39_000;
        fs.write(file, at, &bytes(step, 900), now).unwrap();
    }
    fs.setattr(
        file,
        &SetAttr {
            size: Some(30_001),
            ..SetAttr::default()
        },
        now,
    )
    .unwrap();
    fs.write(file, 35_000, b"behind a gap", now).unwrap();
    fs.setattr(
        file,
        &SetAttr {
            size: Some(90_000),
            mode: Some(0o4750),
            uid: Some(7),
            ..SetAttr::default()
        },
        now,
    )
    .unwrap();
    fs.setxattr(file, b"user.of a file", b"a value", SetXattr::Any, now)
        .unwrap();
    for (ino, length) in [(file, 3000), (dir, 20), (below, 0)] {
        fs.setxattr(ino, b"trusted.long", &bytes(8, length), SetXattr::Any, now)
            .unwrap();
        fs.setxattr(ino, b"security.shared", b"by several", SetXattr::Any, now)
            .unwrap();
        fs.setxattr(ino, b"user.replaced", &bytes(9, 100), SetXattr::Any, now)
            .unwrap();
        fs.setxattr(ino, b"user.replaced", &bytes(10, 50), SetXattr::Any, now)
            .unwrap();
        fs.setxattr(ino, b"user.removed", b"not for long", SetXattr::Any, now)
            .unwrap();
        fs.removexattr(ino, b"user.removed", now).unwrap();
    }
    let sparse = put(fs, Ino::ROOT, "sparse", b"");
    fs.write(sparse, 5_000_000, b"end", now).unwrap();
    for node in [
        NewNode::Fifo,
        NewNode::Socket,
        NewNode::Character { device: (1, 3) },
        NewNode::Block {
            device: (300, 70_000),
        },
    ] {
        let name = format!("{:?}", node.kind());
        fs.create(dir, name.as_bytes(), node, 0o640, by).unwrap();
    }
    fs.symlink(dir, b"link", b"../somewhere/else", by).unwrap();
    fs.symlink(dir, b"long link", &[b'x'; 254], by).unwrap();
    fs.link(file, Ino::ROOT, b"second name", now).unwrap();
    for number in 0..150 {
        put(
            fs,
            below,
            &format!("one of many {number}"),
            &text(number, number as usize * 9),
        );
    }
    for number in (0..150).step_by(3) {
        fs.unlink(below, format!("one of many {number}").as_bytes(), now)
            .unwrap();
    }
    fs.rename(
        (dir, b"below"),
        (Ino::ROOT, b"moved up"),
        Rename::Replace,
        now,
    )
    .unwrap();
    fs.rename((Ino::ROOT, b"plain"), (dir, b"plain"), Rename::Replace, now)
        .unwrap();
    for ino in [dir, below, Ino::ROOT] {
        fs.setattr(
            ino,
            &SetAttr {
                mtime: Some(Time::new(1_300_000_000)),
                ..SetAttr::default()
            },
            now,
        )
        .unwrap();
    }
}

/// The kernel looks at what is there, and goes on: overwrites, removes, moves, fills and collects.
const EDIT: &str = r#"
    edit() { # MTD KEY
        mount -t jffs2 $1 /mnt && manifest /mnt $2-found && attributes /mnt $2-found || { echo "$2 failed"; return 1; }
        # Room, where there is little.
        find /mnt -name "ballast [34]*" -exec rm "{}" ";"
        mkdir -p "/mnt/by the kernel/deep" && cd "/mnt/by the kernel" &&
            head -c 100000 /dev/urandom > random && printf short > deep/short && cp -a "/mnt/a directory/zeros" copied &&
            for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dd if=/dev/urandom of=again bs=10k count=20 2>/dev/null; done &&
            printf x | dd of=random bs=1 seek=500 conv=notrunc 2>/dev/null && truncate -s 70000 random && truncate -s 2000000 random &&
            ln random "second name" && ln -s /etc/passwd link && mknod null c 1 3 && mkfifo fifo && rm deep/short && mv deep moved &&
            rm -r "/mnt/moved up/one of many 1" "/mnt/a directory/noise" && mv "/mnt/second name" "/mnt/third name" && chmod 1777 moved &&
            touch -d @1000000000 copied && cd / && manifest /mnt $2-left && attributes /mnt $2-left && sync && cat /dev/$1 > /tmp/live && send $2-live /tmp/live && umount /mnt || { echo "$2 failed"; df /mnt; return 1; }
        dmesg -c | grep -i jffs2 > /tmp/said; send $2-said /tmp/said
    }
"#;

/// A medium of ours as a file, what we read of it, and whether it had been used much and cut off.
struct Planted {
    name: &'static str,
    aged: bool,
    image: Vec<u8>,
    tree: Manifest,
    attributes: Attributes,
}

/// A medium that is new, or old.
fn planted(name: &'static str, mtd: Image<Vec<u8>>, options: Options, aged: bool) -> Planted {
    let mut fs = Jffs2::mount(Counter::new(mtd), options).unwrap();
    let bottom = if aged { Some(age(&mut fs, name)) } else { None };
    plant(&mut fs);
    match bottom {
        None => fs.unmount().unwrap(),
        // As a power cut leaves it: bytes that were buffered for a page are lost, files that were
        // open have no name.
        Some(bottom) => {
            fill(&mut fs, bottom);
            let file = path::resolve(&mut fs, b"a directory/noise").unwrap().ino;
            for step in 0..40 {
                fs.write(file, step * 3000, &bytes(step, 700), NOW).unwrap();
                put(
                    &mut fs,
                    Ino::ROOT,
                    &format!("late {step}"),
                    &text(step, 200),
                );
            }
            fs.unlink(Ino::ROOT, b"late 3", NOW).unwrap();
            assert!(
                percent_full(&mut fs) >= FULL - 1,
                "{name}: {} percent full",
                percent_full(&mut fs)
            );
        }
    }
    let mut again = Jffs2::mount(
        fs.into_mtd().into_inner(),
        Options {
            read_only: true,
            ..options
        },
    )
    .unwrap();
    let tree = manifest(&mut again);
    let attributes = attributes_of(&mut again);
    let report = again.check().unwrap();
    assert!(
        report.worst() <= aged.then_some(Severity::Waste),
        "{name}: {:?}",
        report.findings
    );
    Planted {
        name,
        aged,
        image: again.into_mtd().into_backing(),
        tree,
        attributes,
    }
}

/// Random calls on a medium that is nearly full all the time. Gives the directory with what fills
/// it, deeper than the calls reach.
fn age<M: Mtd>(fs: &mut Jffs2<Counter<M>>, name: &str) -> Ino {
    const STRETCH: u64 = 40;
    let rules = Rules {
        file_bytes_max: 30_000,
        inodes_max: 90,
        ..small_rules()
    };
    let mut model = Model::new(1, rules);
    let deep = |fs: &mut dyn FileSystem| {
        (0..6).fold(Ino::ROOT, |dir, _| {
            fs.mkdir(dir, b"deep", 0o755, Caller::root(NOW))
                .unwrap()
                .ino
        })
    };
    let bottom = deep(fs);
    let judged = deep(model.judge());
    let mut most = 0;
    let mut sum = 0;
    let mut number = 0u64;
    for _ in 0..AGE / STRETCH {
        while percent_full(fs) < FULL {
            for (fs, dir) in [
                (&mut *fs as &mut dyn FileSystem, bottom),
                (model.judge(), judged),
            ] {
                ballast(fs, dir, number);
            }
            number += 1;
        }
        while percent_full(fs) > FULL + 1 && number > 0 {
            number -= 1;
            for (fs, dir) in [
                (&mut *fs as &mut dyn FileSystem, bottom),
                (model.judge(), judged),
            ] {
                fs.unlink(dir, format!("ballast {number}").as_bytes(), NOW)
                    .unwrap();
            }
        }
        model
            .run(fs, STRETCH)
            .unwrap_or_else(|mismatch| panic!("{name}: {mismatch} {:?}", fs.fault()));
        (most, sum) = (most.max(percent_full(fs)), sum + percent_full(fs));
    }
    let mean = sum / (AGE / STRETCH);
    let passes = fs.worked().passes;
    let erases = fs.mtd_mut().counts().erases;
    println!(
        "{name}: {AGE} calls, {passes} passes of the collector, {erases} erases, {mean} percent full on the average, {most} at most"
    );
    assert!(mean + 3 >= FULL, "{name}: {mean} percent full");
    assert!(
        passes > AGE / 10 && erases > u64::from(BLOCKS),
        "{name}: {passes} passes, {erases} erases"
    );
    model.release(fs);
    // Space for the planted nodes.
    for number in (0..number)
        .rev()
        .take_while(|number| number % 16 != 0 || *number == 0)
    {
        fs.unlink(bottom, format!("ballast {number}").as_bytes(), NOW)
            .unwrap();
    }
    bottom
}

fn ballast(fs: &mut dyn FileSystem, dir: Ino, number: u64) {
    let file = fs
        .create(
            dir,
            format!("ballast {number}").as_bytes(),
            NewNode::File,
            0o644,
            Caller::root(NOW),
        )
        .unwrap()
        .ino;
    assert_eq!(fs.write(file, 0, &bytes(number, BALLAST), NOW), Ok(BALLAST));
    fs.forget(file, 1);
}

/// Fills the medium up again.
fn fill<M: Mtd>(fs: &mut Jffs2<M>, dir: Ino) {
    for number in 1000.. {
        if percent_full(fs) >= FULL {
            return;
        }
        ballast(fs, dir, number);
    }
}

fn assert_same(what: &str, expected: &Manifest, found: &Manifest) {
    assert!(expected.len() > 100, "{what}: a tree worth comparing");
    assert_eq!(differences(expected, found), "", "{what}");
}

#[test]
fn the_kernel_and_we_see_the_same_trees_both_ways() {
    let scratch = tempfile::tempdir().unwrap();
    let classic = Options {
        compression: Compression::CLASSIC,
        summary: false,
        ..Options::default()
    };
    let plain = Options {
        compression: Compression::NONE,
        ..Options::default()
    };
    let kinds = [
        ("nor", classic, false),
        ("nor-lists", Options::default(), false),
        ("nor-aged", classic, true),
        ("nand", classic, false),
        ("nand-lists", Options::default(), false),
        ("nand-aged", plain, true),
    ];
    // A sample has a new NOR flash and an old NAND.
    let tried = kinds.into_iter().skip(whole_or(0, 1));
    let media: Vec<Planted> = tried
        .step_by(whole_or(1, 4))
        .map(|(name, options, aged)| match name.starts_with("nor") {
            true => planted(name, nor(BLOCKS, BLOCK), options, aged),
            false => planted(name, nand(NAND, BLOCKS), options, aged),
        })
        .collect();
    let mut machine = guest::guest("");
    let mut script = format!(
        "mp mtdram total_size=8192 erase_size=128 && mp mtdblock && mp jffs2 && mp nandsim id_bytes=0xec,0xf1,0x00,0x15 parts={BLOCKS} || exit 1\ncat /proc/mtd\n"
    );
    for (medium, disk) in media.iter().zip(["vda", "vdb", "vdc", "vdd", "vde", "vdf"]) {
        let name = medium.name;
        fs::write(scratch.path().join(name), &medium.image).unwrap();
        machine = machine.disk(Disk::File(scratch.path().join(name)));
        let (kind, mtd) = if name.starts_with("nor") {
            ("nor", "mtd0")
        } else {
            ("nand", "mtd1")
        };
        script += &format!(
            "{kind}_from {mtd} /dev/{disk} && edit {mtd} {name} && {kind}_into {mtd} /tmp/dump && send {name} /tmp/dump && say seconds {name} $(cat /proc/uptime) || exit 1\n"
        );
    }
    let report = guest::boot(machine.script([guest::FUNCTIONS, EDIT, &script].concat()));
    println!("{:#?}", report.values);
    for medium in &media {
        compare_found(&report, medium);
        let name = medium.name;
        let dump = report.files[medium.name].clone();
        match name.starts_with("nor") {
            true => compare_left(&report, name, read_only(nor_of(dump, BLOCK))),
            false => compare_left(&report, name, read_only(Image::new(dump, NAND).unwrap())),
        }
    }
}

/// Our medium, as the kernel saw it.
fn compare_found(report: &Report, medium: &Planted) {
    let Planted {
        name,
        aged,
        tree,
        attributes: ours,
        ..
    } = medium;
    assert_same(
        &format!("{name}: our tree, as the kernel sees it"),
        tree,
        &report.manifests[&format!("{name}-found")],
    );
    assert!(ours.len() >= 10, "{name}: attributes worth comparing");
    let found = attributes(&report.files[&format!("{name}-found-attributes")]);
    assert_eq!(
        attribute_differences(ours, &found),
        "",
        "{name}: our attributes, as the kernel sees them"
    );
    let said = String::from_utf8_lossy(&report.files[&format!("{name}-said")]).into_owned();
    // The node that the cut tore is reported. Whether the kernel finds space for a list of its own
    // depends on when its timer writes.
    let usual = |line: &&str| {
        line.contains("version 2.2")
            || line.contains("complete building xattr")
            || line.contains("Summary too big")
            || *aged && line.contains("wrong data CRC")
    };
    assert_eq!(said.lines().find(|line| !usual(line)), None, "{name}");
}

/// What the kernel left, as we see it.
fn compare_left<M: Mtd>(report: &Report, name: &str, mut fs: Jffs2<M>) {
    let theirs = &without_directory_times(report.manifests[&format!("{name}-left")].clone());
    let left = manifest(&mut fs);
    assert!(
        fs.check().unwrap().worst() <= Some(Severity::Waste),
        "{name}"
    );
    assert_same(
        &format!("{name}: the kernel's tree, as we see it"),
        theirs,
        &without_directory_times(left),
    );
    let attributes = attributes(&report.files[&format!("{name}-left-attributes")]);
    assert_eq!(
        attribute_differences(&attributes, &attributes_of(&mut fs)),
        "",
        "{name}: the kernel's attributes"
    );
    // While it was mounted; of NAND the data alone, without the spare areas.
    let live = nor_of(report.files[&format!("{name}-live")].clone(), BLOCK);
    let live = manifest(
        &mut Jffs2::mount(
            live,
            Options {
                read_only: true,
                ..Options::default()
            },
        )
        .unwrap(),
    );
    assert_same(
        &format!("{name}: the kernel's tree in use"),
        theirs,
        &without_directory_times(live),
    );
}
