//! The real vfat driver sees our trees as we do, and we see its.

use crate::common::{assert_clean, bytes, mkdir, mount, put, ram};
use nandlab_fat::{Bits, Format, format};
use nandlab_oracle::Manifest;
use nandlab_testkit::kernel::BothWays;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Ino, Rename, SetAttr, Time};
use std::path::Path;

/// The root has no times on the medium.
fn without_root_time(mut manifest: Manifest) -> Manifest {
    if let Some(root) = manifest.get_mut(Path::new(".")) {
        (root.mtime, root.mtime_nanos) = (0, 0);
    }
    manifest
}

/// Names and contents that meet every rule, and some that came about by detours.
fn plant(fs: &mut dyn FileSystem) {
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
    let volumes = [
        ("fat12", 3000, Bits::Fat12, None),
        ("fat16", 32 * 1024, Bits::Fat16, None),
        ("fat32", 64 * 1024, Bits::Fat32, Some(b"NANDLAB".to_vec())),
    ];
    let tried = volumes.into_iter().step_by(whole_or(1, 2));
    let volumes = tried.map(|(name, kib, bits, label)| {
        let mut disk = ram(kib);
        let choices = Format {
            bits: Some(bits),
            label,
            ..Format::default()
        };
        format(&mut disk, &choices).unwrap();
        (name, "vfat", disk)
    });
    let both = BothWays {
        mount: &|disk| Box::new(mount(disk)),
        assert_clean,
        plant,
        prelude: format!("{EDIT}\nmp vfat; mp nls_cp437; mp nls_iso8859-1; mp nls_ascii\n"),
        kept: without_root_time,
        entries_min: 100,
        landmark: "Moved Random",
    };
    both.run(volumes.collect());
}
