//! The real vfat driver sees our trees as we do, and we see its.

use crate::common::{assert_clean, bytes, load, mkdir, mount, put, ram, save};
use nandlab_fat::{Bits, Format, format};
use nandlab_oracle::manifest::{Entry, Kind, Manifest, differences};
use nandlab_oracle::{Disk, Oracle};
use nandlab_vfs::{FileSystem, FileType, Ino, Rename, SetAttr, Time, tree};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What we see, in the form in which the kernel tells what it sees.
fn manifest(fs: &mut impl FileSystem) -> Manifest {
    let entry = |entry: tree::Entry| {
        let kind = match entry.attr.kind {
            FileType::Directory => Kind::Directory,
            _ => {
                let sha256 = Sha256::digest(&entry.contents)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                Kind::File {
                    size: entry.attr.size,
                    sha256,
                }
            }
        };
        let (attr, mtime) = (entry.attr, entry.attr.mtime);
        Entry {
            kind,
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            links: 1,
            mtime: mtime.secs,
            mtime_nanos: mtime.nanos,
        }
    };
    let path = |path: Vec<u8>| match path.is_empty() {
        true => PathBuf::from("."),
        false => Path::new(".").join(OsStr::from_bytes(&path)),
    };
    tree::snapshot(fs)
        .unwrap()
        .into_iter()
        .map(|(name, found)| (path(name), entry(found)))
        .collect()
}

/// The root has no times on the medium.
fn without_root_time(mut manifest: Manifest) -> Manifest {
    if let Some(root) = manifest.get_mut(Path::new(".")) {
        (root.mtime, root.mtime_nanos) = (0, 0);
    }
    manifest
}

/// Names and contents that meet every rule, and some that came about by detours.
fn plant(fs: &mut impl FileSystem) {
    let mut clock = Time::new(1_234_567_890);
    let names = [
        "SHORT.TXT",
        "lower.txt",
        "Mixed.Case",
        "a name with blanks.and.dots",
        "größer",
        "日本語",
        "😀 beyond the plane",
        ".hidden",
        "x+y",
    ];
    let dir = mkdir(fs, Ino::ROOT, "Directory of many");
    let below = mkdir(fs, dir, "below");
    for (number, name) in (0u64..).zip(names) {
        for place in [Ino::ROOT, dir, below] {
            put(
                fs,
                place,
                name,
                &bytes(number, (number * number * 1000) as usize),
            );
        }
    }
    for number in 0..120 {
        put(
            fs,
            dir,
            &format!("one of many files {number:03}"),
            &bytes(number, number as usize * 7),
        );
    }
    for number in (0..120).step_by(3) {
        fs.unlink(
            dir,
            format!("one of many files {number:03}").as_bytes(),
            clock,
        )
        .unwrap();
    }
    fs.rename(
        (dir, b"below"),
        (Ino::ROOT, b"moved up"),
        Rename::Replace,
        clock,
    )
    .unwrap();
    fs.rename(
        (dir, "größer".as_bytes()),
        (below, b"taken along with a long name"),
        Rename::Replace,
        clock,
    )
    .unwrap();
    fs.rename(
        (Ino::ROOT, b"x+y"),
        (Ino::ROOT, b"SHORT.TXT"),
        Rename::Replace,
        clock,
    )
    .unwrap();
    let locked = fs.lookup(Ino::ROOT, b"lower.txt").unwrap().ino;
    fs.setattr(
        locked,
        &SetAttr {
            mode: Some(0o555),
            ..SetAttr::default()
        },
        clock,
    )
    .unwrap();
    for name in ["SHORT.TXT", "Mixed.Case"] {
        clock.secs += 86_402 * 365;
        let ino = fs.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
        fs.setattr(
            ino,
            &SetAttr {
                mtime: Some(clock),
                ..SetAttr::default()
            },
            clock,
        )
        .unwrap();
    }
}

/// The kernel edits what it finds.
const EDIT: &str = r#"
    edit() { # DEVICE KEY
        mount -t vfat -o utf8,tz=UTC $1 /mnt && manifest /mnt $2-found || { echo "$2 failed"; exit 1; }
        mkdir -p "/mnt/made by the kernel/deep/deeper" && cd "/mnt/made by the kernel" &&
            head -c 100000 /dev/urandom > random && printf short > "deep/A Longer Name.txt" && printf x > UPPER.TXT && printf y > lower.txt &&
            printf z > MiXed.Txt && printf s > "sparse" && dd if=/dev/zero of=sparse bs=1 count=1 seek=50000 2>/dev/null &&
            for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i > "a clash of names $i"; done &&
            printf u > "größer und länger" && touch -d @1000000000 random && mv random "deep/deeper/Moved Random" &&
            rm "/mnt/Directory of many/one of many files 001" && chmod 555 UPPER.TXT && cd / &&
            manifest /mnt $2-left && umount /mnt || { echo "$2 failed"; exit 1; }
    }
"#;

#[test]
fn the_kernel_and_we_see_the_same_trees_both_ways() {
    let scratch = tempfile::tempdir().unwrap();
    let choices = [
        (
            "fat12",
            3000,
            Format {
                bits: Some(Bits::Fat12),
                ..Format::default()
            },
        ),
        (
            "fat16",
            32 * 1024,
            Format {
                bits: Some(Bits::Fat16),
                ..Format::default()
            },
        ),
        (
            "fat32",
            64 * 1024,
            Format {
                bits: Some(Bits::Fat32),
                label: Some(b"NANDLAB".to_vec()),
                ..Format::default()
            },
        ),
    ];
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let (mut guest, mut script, mut ours) = (
        oracle.guest(),
        format!("{EDIT}\nmp vfat; mp nls_cp437; mp nls_iso8859-1; mp nls_ascii\n"),
        Vec::new(),
    );
    for ((name, kib, choices), device) in choices.iter().zip(["vda", "vdb", "vdc"]) {
        let mut disk = ram(*kib);
        format(&mut disk, choices).unwrap();
        let mut fat = mount(&mut disk);
        plant(&mut fat);
        fat.unmount().unwrap();
        assert_clean(&mut disk, name);
        ours.push(without_root_time(manifest(&mut mount(&mut disk))));
        let path = scratch.path().join(name);
        save(&mut disk, &path);
        guest = guest.disk(Disk::File(path));
        script += &format!("edit /dev/{device} {name}\n");
    }
    let report = guest.script(script).run().unwrap().success().unwrap();
    for ((name, ..), ours) in choices.iter().zip(ours) {
        assert!(ours.len() > 100, "a tree worth comparing");
        let theirs = without_root_time(report.manifests[&format!("{name}-found")].clone());
        assert_eq!(
            differences(&ours, &theirs),
            "",
            "{name}: our tree, as the kernel sees it"
        );
        let mut disk = load(&scratch.path().join(name));
        assert_clean(&mut disk, name);
        let theirs = without_root_time(report.manifests[&format!("{name}-left")].clone());
        let ours = without_root_time(manifest(&mut mount(&mut disk)));
        assert_eq!(
            differences(&theirs, &ours),
            "",
            "{name}: the kernel's tree, as we see it"
        );
        assert!(
            ours.keys().any(|path| path.ends_with("Moved Random")),
            "{name}"
        );
    }
}
