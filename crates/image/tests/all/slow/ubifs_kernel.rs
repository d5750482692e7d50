//! The real kernel mounts two UBIFS volumes of one UBI image of ours, with all of its own checks at
//! work. It sees the trees that went in and writes more; we see what it left. Without their index
//! our repair makes both volumes anew, and the kernel mounts them with the trees that it left.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use super::image_kernel::expected;
use crate::common::{archive, asks_for_fixup, held, made, plain, tree};
use nandlab_image::check::{Severity, check};
use nandlab_image::make::Format;
use nandlab_image::repair::repair;
use nandlab_image::tree::Tree;
use nandlab_image::ubinize::{Device, ubinize};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Report};
use nandlab_testkit::manifest::manifest;
use nandlab_testkit::share::whole_or;
use nandlab_testkit::xattrs::{self, Attributes};
use nandlab_testkit::{kernel, tools};
use nandlab_ubifs::format::{Kind, node};
use nandlab_vfs::Time;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Dumps lie at multiples of this.
const UNIT: u64 = 64 << 10;
/// Where a volume header tells of a copy.
const COPY_FLAG: usize = 6;
const NOW: Time = Time::new(1_700_000_000);
const NAMES: [&str; 2] = ["root", "second"];

/// The chip of an image, and the choices of its first volume.
struct Case {
    key: &'static str,
    page: u32,
    block: u32,
    blocks: u64,
    nandsim: &'static str,
    version: u32,
    compressor: u16,
    fixup: Fixup,
}

/// Who erases the free space of the volumes.
#[derive(Clone, Copy, PartialEq)]
enum Fixup {
    /// No flash programmer wrote it.
    Nobody,
    Kernel,
    /// The kernel, after an edit of ours.
    KernelLater,
}

const CASES: [Case; 4] = [
    Case {
        key: "small-pages-lzo",
        page: 512,
        block: 16 << 10,
        blocks: 1024,
        nandsim: "id_bytes=0x98,0x73",
        version: 4,
        compressor: 1,
        fixup: Fixup::Nobody,
    },
    Case {
        key: "zlib",
        page: 2048,
        block: 128 << 10,
        blocks: 128,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x15",
        version: 5,
        compressor: 2,
        fixup: Fixup::Kernel,
    },
    Case {
        key: "none",
        page: 2048,
        block: 128 << 10,
        blocks: 128,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x15",
        version: 4,
        compressor: 0,
        fixup: Fixup::Nobody,
    },
    Case {
        key: "large-pages-zstd",
        page: 4096,
        block: 256 << 10,
        blocks: 120,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x26",
        version: 5,
        compressor: 3,
        fixup: Fixup::KernelLater,
    },
];

impl Case {
    fn bytes(&self) -> u64 {
        u64::from(self.block) * self.blocks
    }

    /// Makes both volumes, and a UBI image of them in which both have room to grow.
    fn image(&self, scratch: &Path, trees: &[Tree; 2]) -> Vec<u8> {
        let leb = self.block - 2 * self.page;
        let mut config =
            String::from("[data]\nmode=ubi\nvol_id=5\nvol_size=100KiB\nvol_name=data\n");
        for (id, (name, tree)) in NAMES.into_iter().zip(trees).enumerate() {
            let choices = nandlab_ubifs::Format {
                page: Some(self.page),
                version: self.version,
                compressor: self.compressor,
                lebs_max: Some(2000),
                ..Default::default()
            };
            let format = Format::Ubifs {
                choices,
                leb,
                fixup: self.fixup != Fixup::Nobody,
            };
            made(tree, format, &scratch.join(name), 2);
            config += &format!("[{name}]\nmode=ubi\nimage={name}\nvol_id={id}\nvol_name={name}\n");
            let third = format!("vol_size={}KiB\n", self.bytes() / 3 / 1024);
            config += ["vol_flags=autoresize\n", &third][id];
        }
        let description = scratch.join("config");
        fs::write(&description, config).unwrap();
        let device = Device {
            block: self.block,
            page: self.page,
            sub_page: self.page,
            image_seq: 3,
        };
        let image = scratch.join("ubi");
        ubinize(&description, device, &image).unwrap();
        if self.fixup == Fixup::KernelLater {
            NAMES.iter().for_each(|name| rewrite(&image, name));
        }
        let mut bytes = fs::read(image).unwrap();
        assert!(bytes.len() as u64 <= self.bytes(), "{}", self.key);
        bytes.resize(self.bytes() as usize, 0xFF);
        bytes
    }

    fn script(&self, place: u64) -> String {
        let key = self.key;
        let count = self.bytes() / UNIT;
        let page = self.page;
        let nandsim = self.nandsim;
        let blocks = self.blocks;
        format!(
            "volumes {key} {place} {count} {page} {nandsim} parts={blocks} || \
             {{ echo {key} failed; \
             dmesg | grep -iE .ubifs. | head -60; exit 1; }}\n"
        )
    }
}

/// All cases, or the first one. The kernel erases no free space there: UBI guards what it copies
/// then, and no repair would be needed.
fn cases() -> &'static [Case] {
    &CASES[..whole_or(4, 1)]
}

#[test]
fn the_kernel_mounts_each_volume_of_a_ubi_image_of_ours() {
    let scratch = tempfile::tempdir().unwrap();
    let mut first = tree(scratch.path(), true);
    // UBIFS has no access lists.
    let attributes = first.entries.iter_mut().map(|(entry, _)| &mut entry.xattrs);
    attributes.for_each(|all| all.retain(|(name, _)| !name.starts_with(b"system.")));
    let trees = [first, plain(scratch.path())];
    let wanted = trees
        .each_ref()
        .map(|tree| expected(&held(&archive(tree), scratch.path()), false));
    let path = scratch.path().join("disk");
    let disk = File::create(&path).unwrap();
    let mut script = String::from(include_str!("../../../../ubifs/tests/all/slow/life.sh"));
    script += include_str!("../../../../ubifs/tests/all/slow/ours.sh");
    script += include_str!("volumes.sh");
    script += "mp ubi && mp ubifs && mount -t debugfs d /sys/kernel/debug || exit 1\n";
    let mut place = 0;
    for case in cases() {
        let bytes = case.image(scratch.path(), &trees);
        disk.write_all_at(&bytes, place).unwrap();
        script += &case.script(place / UNIT);
        place += case.bytes();
    }
    let report = kernel::boot(guest(&path).script(script));
    let disk = File::open(path).unwrap();
    let mut place = 0;
    for case in cases() {
        let mut dump = vec![0; case.bytes() as usize];
        disk.read_exact_at(&mut dump, place).unwrap();
        place += case.bytes();
        let image = scratch.path().join("dump");
        fs::write(&image, dump).unwrap();
        for (name, tree) in NAMES.into_iter().zip(&wanted) {
            let key = format!("{}-{name}", case.key);
            assert_same(&report, &key, tree);
            assert_left(&report, &format!("{key}-after"), name, &image);
        }
    }
    judge_repairs(scratch.path(), &disk, &report);
}

/// Damages the volumes that the kernel left, repairs them, and lets the kernel mount them again.
fn judge_repairs(scratch: &Path, left: &File, before: &Report) {
    let path = scratch.join("repaired");
    let disk = File::create(&path).unwrap();
    let mut script = String::from(include_str!("../../../../ubifs/tests/all/slow/life.sh"));
    script += include_str!("../../../../ubifs/tests/all/slow/ours.sh");
    script += include_str!("volumes.sh");
    script += "mp ubi && mp ubifs && mount -t debugfs d /sys/kernel/debug || exit 1\n";
    let mut place = 0;
    let mut damaged = 0;
    for case in cases() {
        let mut dump = vec![0; case.bytes() as usize];
        left.read_exact_at(&mut dump, place).unwrap();
        let image = scratch.join("dump");
        fs::write(&image, without_index(dump, case)).unwrap();
        for name in NAMES {
            let outcome = repair(&image, &of(name), NOW).unwrap();
            let is_damaged = outcome.before.worst() == Some(Severity::Damage);
            let is_whole = outcome.replaced && outcome.lost.is_empty();
            assert!(is_whole || !is_damaged, "{outcome:?}");
            damaged += u32::from(is_damaged);
        }
        disk.write_all_at(&fs::read(&image).unwrap(), place)
            .unwrap();
        script += &case.script(place / UNIT);
        place += case.bytes();
    }
    assert!(damaged >= whole_or(2, 1), "{damaged}");
    println!("{damaged} volumes repaired");
    let report = kernel::boot(guest(&path).script(script));
    for (case, name) in cases()
        .iter()
        .flat_map(|case| NAMES.map(|name| (case, name)))
    {
        let key = format!("{}-{name}", case.key);
        let left = &before.manifests[&format!("{key}-after")];
        assert_eq!(differences(left, &report.manifests[&key]), "", "{key}");
    }
}

/// Flips a bit of index nodes in a dump without spare bytes: of all but those in blocks that a
/// change copied whole, since UBI has a checksum of these.
fn without_index(mut dump: Vec<u8>, case: &Case) -> Vec<u8> {
    for peb in dump.chunks_mut(case.block as usize) {
        let is_copy = peb[case.page as usize + COPY_FLAG] == 1;
        for at in (0..peb.len()).step_by(8).filter(|_| !is_copy) {
            if let Ok((header, _)) = node(&peb[at..], 2 << 20, 8)
                && header.kind == Kind::Index
            {
                peb[at + header.len as usize / 2] ^= 2;
            }
        }
    }
    dump
}

fn of(name: &str) -> Opening {
    Opening {
        volume: Some(name.into()),
        ..Opening::default()
    }
}

/// Mounts a volume so that it may be written, and unmounts it.
fn rewrite(image: &Path, name: &str) {
    let mut volume = Volume::open(image, &of(name), Access::Write).unwrap();
    volume.close().unwrap();
}

fn guest(disk: &Path) -> nandlab_oracle::Guest {
    let programs = ["nandwrite", "nanddump", "ubiattach", "ubidetach"];
    let guest = programs.iter().fold(kernel::guest(), |guest, program| {
        guest.program(tools::find("mtd-utils", program))
    });
    let life = include_str!("../../../../ubifs/tests/all/slow/life.c");
    guest
        .file("/life", tools::compiled(life))
        .file("/xattrs", xattrs::program())
        .memory(900)
        .disk(Disk::File(disk.into()))
}

/// Asserts that the kernel saw a tree of ours.
fn assert_same(report: &Report, key: &str, ours: &(Manifest, Attributes)) {
    assert_eq!(differences(&ours.0, &report.manifests[key]), "", "{key}");
    let seen = xattrs::sent(&report.files[&format!("{key}-attributes")]);
    assert_eq!(xattrs::differences(&ours.1, &seen), "", "{key}");
}

/// Asserts that we see what the kernel left in a volume, and that it is sound.
fn assert_left(report: &Report, key: &str, name: &str, image: &Path) {
    let mut volume = Volume::open(image, &of(name), Access::Read).unwrap();
    assert!(!asks_for_fixup(&volume), "{key}");
    let fs = volume.fs().unwrap();
    let left = (manifest(fs), xattrs::seen(fs));
    assert_same(report, key, &left);
    let checked = check(&mut volume).unwrap();
    // UBI notes blocks that it has not erased yet.
    assert!(
        checked.worst() <= Some(Severity::Note),
        "{key}: {checked:?}"
    );
}
