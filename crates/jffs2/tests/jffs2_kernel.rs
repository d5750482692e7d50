//! The real jffs2 driver sees our trees as we do, and we see its, on NOR and NAND; mkfs.jffs2's images read equal; jffs2dump finds nothing wrong with ours.
//!
//! Needs the tools of `nandlab-oracle`, and mtd-utils; fails naming the Debian package that is missing.

mod common;

use common::{NAND, NOW, bytes, manifest, mkdir, nand, nor, nor_of, printed, put, read_only, text, tool};
use nandlab_jffs2::{Choice, Compression, Endian, Entry as Planted, Format, Jffs2, Made, Options, Severity, format, populate};
use nandlab_mtd::Image;
use nandlab_oracle::manifest::{Entry, Kind, Manifest, differences};
use nandlab_oracle::{Disk, Oracle};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time, path};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const BLOCKS: u32 = 64;
const BLOCK: u32 = 128 * 1024;
/// Random calls that fill a medium several times over.
const AGE: u64 = 15_000;

/// Names, contents and kinds of all sorts, some of which came about by detours.
fn plant(fs: &mut impl FileSystem) {
    let now = Time::new(1_234_567_890);
    let by = Caller { uid: 1000, gid: 100, now };
    let dir = mkdir(fs, Ino::ROOT, "a directory");
    let below = mkdir(fs, dir, "below");
    for (number, name) in (0u64..).zip(["plain", "größer", "\u{1F600}", ".hidden", "with\nnewline"]) {
        for place in [Ino::ROOT, dir, below] {
            put(fs, place, name, &text(number, (number * number * 3001) as usize));
        }
    }
    put(fs, dir, "noise", &bytes(1, 150_000));
    put(fs, dir, "zeros", &[0; 50_000]);
    let file = put(fs, below, "rewritten", &text(7, 40_000));
    for step in 0..60u64 {
        let at = nandlab_sim::mix(5, step) % 39_000;
        fs.write(file, at, &bytes(step, 900), now).unwrap();
    }
    fs.setattr(file, &SetAttr { size: Some(30_001), ..SetAttr::default() }, now).unwrap();
    fs.write(file, 35_000, b"behind a gap", now).unwrap();
    fs.setattr(file, &SetAttr { size: Some(90_000), mode: Some(0o4750), uid: Some(7), ..SetAttr::default() }, now).unwrap();
    fs.setxattr(file, b"user.of a file", b"a value", SetXattr::Any, now).unwrap();
    let sparse = put(fs, Ino::ROOT, "sparse", b"");
    fs.write(sparse, 5_000_000, b"end", now).unwrap();
    for node in [NewNode::Fifo, NewNode::Socket, NewNode::Character { device: (1, 3) }, NewNode::Block { device: (300, 70_000) }] {
        let name = format!("{:?}", node.kind());
        fs.create(dir, name.as_bytes(), node, 0o640, by).unwrap();
    }
    fs.symlink(dir, b"link", b"../somewhere/else", by).unwrap();
    fs.symlink(dir, b"long link", &[b'x'; 254], by).unwrap();
    fs.link(file, Ino::ROOT, b"second name", now).unwrap();
    for number in 0..150 {
        put(fs, below, &format!("one of many {number}"), &text(number, number as usize * 9));
    }
    for number in (0..150).step_by(3) {
        fs.unlink(below, format!("one of many {number}").as_bytes(), now).unwrap();
    }
    fs.rename((dir, b"below"), (Ino::ROOT, b"moved up"), Rename::Replace, now).unwrap();
    fs.rename((Ino::ROOT, b"plain"), (dir, b"plain"), Rename::Replace, now).unwrap();
    for ino in [dir, below, Ino::ROOT] {
        fs.setattr(ino, &SetAttr { mtime: Some(Time::new(1_300_000_000)), ..SetAttr::default() }, now).unwrap();
    }
}

/// The kernel looks at what is there, and goes on: overwrites, removes, moves, fills and collects.
const EDIT: &str = r#"
    edit() { # MTD KEY
        mount -t jffs2 $1 /mnt && manifest /mnt $2-found || { echo "$2 failed"; return 1; }
        mkdir -p "/mnt/by the kernel/deep" && cd "/mnt/by the kernel" &&
            head -c 100000 /dev/urandom > random && printf short > deep/short && cp -a "/mnt/a directory/zeros" copied &&
            for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dd if=/dev/urandom of=again bs=10k count=20 2>/dev/null; done &&
            printf x | dd of=random bs=1 seek=500 conv=notrunc 2>/dev/null && truncate -s 70000 random && truncate -s 2000000 random &&
            ln random "second name" && ln -s /etc/passwd link && mknod null c 1 3 && mkfifo fifo && rm deep/short && mv deep moved &&
            rm -r "/mnt/moved up/one of many 1" "/mnt/a directory/noise" && mv "/mnt/second name" "/mnt/third name" && chmod 1777 moved &&
            touch -d @1000000000 copied && cd / && manifest /mnt $2-left && sync && cat /dev/$1 > /tmp/live && send $2-live /tmp/live && umount /mnt || { echo "$2 failed"; return 1; }
        dmesg -c | grep -i jffs2 > /tmp/said; send $2-said /tmp/said
    }
"#;

/// A medium of ours as a file, after so many random calls; if there were any, cut off while in use.
fn planted<B: nandlab_sim::Backing>(mtd: Image<B>, options: Options, calls: u64) -> (B, Manifest) {
    let mut fs = Jffs2::mount(mtd, options).unwrap();
    let rules =
        Rules { owners: false, ctimes: false, exchange: false, symlinks: false, file_bytes_max: 60_000, inodes_max: 100, ..Rules::unix() };
    let mut model = Model::new(1, rules);
    model.run(&mut fs, calls).unwrap_or_else(|mismatch| panic!("{mismatch} {:?}", fs.fault()));
    plant(&mut fs);
    match calls {
        0 => fs.unmount().unwrap(),
        // As a power cut leaves it: what waits for its page is lost, files that were open have no name.
        _ => {
            let file = path::resolve(&mut fs, b"a directory/noise").unwrap().ino;
            for step in 0..40 {
                fs.write(file, step * 3000, &bytes(step, 700), NOW).unwrap();
                put(&mut fs, Ino::ROOT, &format!("late {step}"), &text(step, 200));
            }
            fs.unlink(Ino::ROOT, b"late 3", NOW).unwrap();
        }
    }
    let mut again = Jffs2::mount(fs.into_mtd(), Options { read_only: true, ..options }).unwrap();
    let seen = manifest(&mut again);
    let report = again.check().unwrap();
    assert!(report.worst() <= (calls > 0).then_some(Severity::Waste), "{:?}", report.findings);
    (again.into_mtd().into_backing(), seen)
}

/// The kernel drops a removed name's entry with the time of its directory that is in it (a FIXME in `jffs2_garbage_collect_deletion_dirent`).
fn without_directory_times(mut tree: Manifest) -> Manifest {
    tree.values_mut().filter(|entry| entry.kind == Kind::Directory).for_each(|entry| entry.mtime = 0);
    tree
}

fn assert_same(what: &str, expected: &Manifest, found: &Manifest) {
    assert!(expected.len() > 100, "{what}: a tree worth comparing");
    assert_eq!(differences(expected, found), "", "{what}");
}

#[test]
fn the_kernel_and_we_see_the_same_trees_both_ways() {
    let scratch = tempfile::tempdir().unwrap();
    let classic = Options { compression: Compression::CLASSIC, summary: false, ..Options::default() };
    let media = [
        ("nor", planted(nor(BLOCKS, BLOCK), classic, 0)),
        ("nor-lists", planted(nor(BLOCKS, BLOCK), Options::default(), 0)),
        ("nor-aged", planted(nor(BLOCKS, BLOCK), classic, AGE)),
        ("nand", planted(nand(NAND, BLOCKS), classic, 0)),
        ("nand-lists", planted(nand(NAND, BLOCKS), Options::default(), 0)),
        ("nand-aged", planted(nand(NAND, BLOCKS), Options { compression: Compression::NONE, ..Options::default() }, AGE)),
    ];
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let mut guest =
        oracle.guest().program("/usr/sbin/nandwrite").program("/usr/sbin/nanddump").program("/usr/sbin/flash_erase").memory(1500);
    let mut script = format!(
        "{EDIT}\nmp mtdram total_size=8192 erase_size=128 && mp mtdblock && mp jffs2 && mp nandsim id_bytes=0xec,0xf1,0x00,0x15 parts={BLOCKS} || exit 1\ncat /proc/mtd\n"
    );
    for ((name, (image, _)), disk) in media.iter().zip(["vda", "vdb", "vdc", "vdd", "vde", "vdf"]) {
        fs::write(scratch.path().join(name), image).unwrap();
        guest = guest.disk(Disk::File(scratch.path().join(name)));
        script += &match name.starts_with("nor") {
            true => format!(
                "/usr/sbin/flash_erase -q /dev/mtd0 0 0; dd if=/dev/{disk} of=/dev/mtd0 bs=128k 2>/dev/null && edit mtd0 {name} && cat /dev/mtd0 > /tmp/dump && send {name} /tmp/dump || exit 1\n"
            ),
            false => format!(
                "/usr/sbin/flash_erase -q /dev/mtd1 0 0; cat /dev/{disk} > /tmp/image && /usr/sbin/nandwrite -q --oob /dev/mtd1 /tmp/image >/dev/null && edit mtd1 {name} && /usr/sbin/nanddump -q --oob --bb=dumpbad -f /tmp/dump /dev/mtd1 && send {name} /tmp/dump || exit 1\n"
            ),
        };
    }
    let report = guest.script(script).run().unwrap();
    println!("{}", report.console);
    let report = report.success().unwrap();
    for (name, (_, ours)) in &media {
        assert_same(&format!("{name}: our tree, as the kernel sees it"), ours, &report.manifests[&format!("{name}-found")]);
        let said = String::from_utf8_lossy(&report.files[&format!("{name}-said")]).into_owned();
        // The node that the cut tore is told.
        let usual = |line: &&str| {
            line.contains("version 2.2")
                || line.contains("complete building xattr")
                || name.ends_with("aged") && line.contains("wrong data CRC")
        };
        let complaint = said.lines().find(|line| !usual(line));
        assert_eq!(complaint, None, "{name}");
        let dump = report.files[*name].clone();
        let theirs = &without_directory_times(report.manifests[&format!("{name}-left")].clone());
        let (left, worst) = if name.starts_with("nor") {
            let mut fs = read_only(nor_of(dump, BLOCK));
            (manifest(&mut fs), fs.check().unwrap().worst())
        } else {
            let mut fs = read_only(Image::new(dump, NAND).unwrap());
            (manifest(&mut fs), fs.check().unwrap().worst())
        };
        assert_same(&format!("{name}: the kernel's tree, as we see it"), theirs, &without_directory_times(left));
        // While it was mounted; of NAND the data alone, without the spare areas.
        let live = nor_of(report.files[&format!("{name}-live")].clone(), BLOCK);
        let live = manifest(&mut Jffs2::mount(live, Options { read_only: true, ..Options::default() }).unwrap());
        assert_same(&format!("{name}: the kernel's tree in use"), theirs, &without_directory_times(live));
        assert!(worst <= Some(Severity::Waste), "{name}: {worst:?}");
    }
}

/// A directory of the host.
fn grow(root: &Path) {
    fs::create_dir_all(root.join("dir/deep")).unwrap();
    for (number, name) in (0u64..).zip(["empty", "text", "dir/noise", "dir/deep/zeros", "größer", "one", "dir/mixed"]) {
        let data = match number {
            0 => vec![],
            1 => text(1, 100_000),
            2 => bytes(2, 60_000),
            3 => vec![0; 33_333],
            5 => vec![1],
            _ => [text(3, 5000), bytes(3, 5000)].concat(),
        };
        fs::write(root.join(name), data).unwrap();
    }
    fs::hard_link(root.join("text"), root.join("dir/second name")).unwrap();
    std::os::unix::fs::symlink("../text", root.join("dir/link")).unwrap();
    fs::set_permissions(root.join("one"), fs::Permissions::from_mode(0o4711)).unwrap();
}

/// The tree of a directory of the host, without the times of directories and the owners, which mkfs.jffs2 does not keep.
fn of_host(root: &Path, at: &Path, tree: &mut Manifest) {
    let meta = fs::symlink_metadata(root.join(at)).unwrap();
    let kind = match meta.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Symlink { target: fs::read_link(root.join(at)).unwrap() },
        _ => {
            let sha256 = Sha256::digest(fs::read(root.join(at)).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
            Kind::File { size: meta.len(), sha256 }
        }
    };
    let (links, mtime) = if meta.is_dir() { (1, 0) } else { (meta.nlink() as u32, meta.mtime()) };
    tree.insert(at.into(), Entry { kind, mode: (meta.mode() & 0o7777) as u16, uid: 0, gid: 0, links, mtime, mtime_nanos: 0 });
    if meta.is_dir() {
        for entry in fs::read_dir(root.join(at)).unwrap() {
            of_host(root, &at.join(entry.unwrap().file_name()), tree);
        }
    }
}

#[test]
fn images_of_mkfs_read_equal_in_both_orders_with_every_compressor_with_and_without_lists() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, image, listed) = (scratch.path().join("root"), scratch.path().join("image"), scratch.path().join("listed"));
    grow(&root);
    let mut expected = Manifest::new();
    of_host(&root, Path::new("."), &mut expected);
    let off = |names: &[&str]| names.iter().flat_map(|name| ["-x", *name]).map(String::from).collect::<Vec<_>>();
    let choices = [
        ("zlib", off(&["rtime", "lzo"])),
        ("rtime", off(&["zlib", "lzo"])),
        ("lzo", [off(&["zlib", "rtime"]), vec!["-X".into(), "lzo".into()]].concat()),
        ("size", ["-m", "size", "-X", "lzo"].map(String::from).to_vec()),
        ("none", ["-m", "none"].map(String::from).to_vec()),
    ];
    for (name, options) in choices {
        for order in ["-l", "-b"] {
            for markers in [true, false] {
                let mut arguments =
                    vec!["-q", "-U", "-p", "-e", "64KiB", order, "-r", root.to_str().unwrap(), "-o", image.to_str().unwrap()];
                arguments.extend(options.iter().map(String::as_str));
                arguments.extend((!markers).then_some("-n"));
                arguments.remove(0);
                let made = tool("mkfs.jffs2", &arguments);
                assert!(made.status.success(), "{arguments:?}: {}", printed(&made));
                let mut sum = vec!["-p", "-e", "64KiB", order, "-i", image.to_str().unwrap(), "-o", listed.to_str().unwrap()];
                sum.extend((!markers).then_some("-n"));
                let summed = tool("sumtool", &sum);
                assert!(summed.status.success(), "{}", printed(&summed));
                for path in [&image, &listed] {
                    let mut dump = fs::read(path).unwrap();
                    dump.resize(dump.len() + 8 * 64 * 1024, 0xFF);
                    let what = format!("{name} {order} {}", path.display());
                    let mut mounted = read_only(nor_of(dump, 64 * 1024));
                    assert_eq!(mounted.endian(), if order == "-l" { Endian::Little } else { Endian::Big });
                    let found = without_directory_times(manifest(&mut mounted));
                    assert_eq!(differences(&expected, &found), "", "{what}");
                    let report = mounted.check().unwrap();
                    assert_eq!(report.worst(), None, "{what}: {:?}", report.findings);
                }
            }
        }
    }
}

#[test]
fn jffs2dump_finds_nothing_wrong_with_what_we_make() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let (long, noise) = (text(1, 50_000), bytes(2, 20_000));
    let entry = |path: &'static [u8], made| Planted {
        path,
        made,
        mode: 0o755,
        owner: (1, 2),
        mtime: Time::new(1_000_000_000),
        xattrs: &[(b"user.k", b"v")],
    };
    let entries = [
        entry(b"", Made::Node(NewNode::Directory)),
        entry(b"dir", Made::Node(NewNode::Directory)),
        entry(b"dir/text", Made::File(&long)),
        entry(b"dir/noise", Made::File(&noise)),
        entry(b"link", Made::Node(NewNode::Symlink { target: b"dir/text" })),
        entry(b"again", Made::Link(b"dir/text")),
    ];
    for (endian, order) in [(Endian::Little, "-l"), (Endian::Big, "-b")] {
        for summary in [false, true] {
            let by_size = Compression { choice: Choice::Size, ..Compression::LINUX };
            let choices = Format { endian, summary, compression: by_size, ..Format::default() };
            let made = || populate(nor(12, 64 * 1024), &choices, entries.clone()).unwrap().into_backing();
            let image = made();
            assert!(image == made(), "the same entries give the same bytes");
            fs::write(&path, &image).unwrap();
            let dumped = printed(&tool("jffs2dump", &["-c", order, path.to_str().unwrap()]));
            assert!(dumped.matches("Inode").count() > 15 && dumped.matches("Dirent").count() == 5, "{dumped}");
            assert!(!dumped.to_lowercase().contains("wrong") && !dumped.contains("Unknown"), "{dumped}");
            let mut fs = read_only(nor_of(image, 64 * 1024));
            let seen = manifest(&mut fs);
            assert_eq!(seen.len(), 6);
            assert_eq!(seen[Path::new("./dir")].mtime, 1_000_000_000);
            assert_eq!(seen[Path::new("./again")].links, 2);
        }
    }
    // An empty one.
    let mut empty = read_only(format(nor(12, 64 * 1024), &Format::default()).unwrap());
    assert_eq!(manifest(&mut empty).len(), 1);
}
