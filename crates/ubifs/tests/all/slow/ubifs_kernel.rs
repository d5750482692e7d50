//! Volumes that the real kernel wrote, on chips of each page size, with each compressor: unmounted,
//! cut with a full journal and deleted files still open, and recovered. Our tree is the kernel's,
//! which is asked after it has mounted the same bytes. Without its superblock, master nodes, log,
//! properties or index, a scan finds the same tree.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use crate::chips::{Chip, Dump, mounted};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Guest, Report};
use nandlab_testkit::manifest::manifest;
use nandlab_testkit::share::whole_or;
use nandlab_testkit::{kernel, tools, xattrs};
use nandlab_ubifs::format::{Kind, node};
use nandlab_ubifs::{LebError, LebShape, Lebs, UbiLebs, Ubifs};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const FUNCTIONS: &str = include_str!("life.sh");
const COMPRESSORS: [&str; 4] = ["none", "lzo", "zlib", "zstd"];
const STATES: [&str; 3] = ["clean", "cut", "after"];
/// Dumps lie at multiples of this.
const UNIT: usize = 64 << 10;

/// A sample has zlib only. `churned_kernel` has zstd.
fn compressors() -> &'static [&'static str] {
    &COMPRESSORS[whole_or(0..COMPRESSORS.len(), 2..3)]
}

#[test]
#[ignore = "takes a minute; pages of 2 KiB are always tried: `cargo xtask test whole` runs it"]
fn trees_on_pages_of_512_bytes_are_the_kernels() {
    judge(Chip {
        page: 512,
        block: 16 << 10,
        blocks: 768,
        nandsim: "id_bytes=0x98,0x73",
    });
}

#[test]
fn trees_on_pages_of_2_kib_are_the_kernels() {
    judge(Chip {
        page: 2048,
        block: 128 << 10,
        blocks: 100,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x15",
    });
}

#[test]
#[ignore = "takes a minute; pages of 2 KiB are always tried: `cargo xtask test whole` runs it"]
fn trees_on_pages_of_4_kib_are_the_kernels() {
    judge(Chip {
        page: 4096,
        block: 256 << 10,
        blocks: 60,
        nandsim: "id_bytes=0x20,0xa2,0x00,0x26",
    });
}

/// A guest with the tools of UBI, and a disk for dumps.
pub fn guest(disk: &Path) -> Guest {
    let programs = [
        "nandwrite",
        "nanddump",
        "ubiattach",
        "ubidetach",
        "ubimkvol",
    ];
    let guest = programs.iter().fold(kernel::guest(), |guest, program| {
        guest.program(Path::new("/usr/sbin").join(program))
    });
    guest
        .file("/xattrs", xattrs::program())
        .memory(900)
        .disk(Disk::File(disk.into()))
}

fn judge(chip: Chip) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("disk");
    let bytes = chip.bytes();
    let step = bytes / UNIT;
    let disk = File::create(&path).unwrap();
    let dumps = compressors().len() * STATES.len();
    disk.set_len((bytes * dumps) as u64).unwrap();
    let guest = guest(&path).file("/life", tools::compiled(include_str!("life.c")));
    let mut script = String::from(FUNCTIONS);
    script += "mp ubi && mp ubifs && mount -t debugfs d /sys/kernel/debug || exit 1\n";
    for (index, compressor) in compressors().iter().enumerate() {
        let place = index * STATES.len() * step;
        let (nandsim, blocks) = (chip.nandsim, chip.blocks);
        script += &format!(
            "life {compressor} {place} {step} {compressor} {nandsim} parts={blocks} || {{ echo \
             {compressor} failed; dmesg | tail -20; exit 1; }}\n"
        );
    }
    let report = kernel::boot(guest.script(script));
    let disk = File::open(path).unwrap();
    let mut wrong = Vec::new();
    for (index, compressor) in compressors().iter().enumerate() {
        for (state_index, state) in STATES.iter().enumerate() {
            let key = format!("{compressor}-{state}");
            assert_eq!(
                report.value(&format!("{key}-bytes")),
                Some(&*bytes.to_string())
            );
            let mut dump = vec![0; bytes];
            let place = (index * STATES.len() + state_index) * bytes;
            disk.read_exact_at(&mut dump, place as u64).unwrap();
            if let Err(why) = same(&report, &key, chip, dump) {
                wrong.push(format!("{} {key}: {why}", chip.page));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Compares what we see in a dump with what the kernel saw.
fn same(report: &Report, key: &str, chip: Chip, dump: Vec<u8>) -> Result<(), String> {
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(kept).unwrap();
    std::fs::write(kept.join(format!("ubifs-{}-{key}", chip.page)), &dump).unwrap();
    let mut fs = mounted(chip, dump).map_err(|error| error.to_string())?;
    let journal = *fs.journal();
    println!("{} {key}: {journal:?}", chip.page);
    let is_cut = key.ends_with("cut");
    if journal.in_use != is_cut || is_cut && (journal.nodes < 200 || journal.orphans < 2) {
        return Err(format!(
            "{journal:?}, expected a full journal after a cut only"
        ));
    }
    let differ = differences(&report.manifests[key], &manifest(&mut fs));
    if !differ.is_empty() {
        return Err(differ.lines().take(6).collect::<Vec<_>>().join("\n"));
    }
    let attributes = xattrs::sent(&report.files[&format!("{key}-attributes")]);
    if xattrs::seen(&mut fs) != attributes || attributes.len() < 4 {
        return Err(format!("{} attributes differ", attributes.len()));
    }
    let checked = fs.check();
    if !checked.findings.is_empty() {
        let said = checked.findings.iter().map(ToString::to_string);
        return Err(said.take(6).collect::<Vec<_>>().join("\n"));
    }
    salvaged(fs, &report.manifests[key], key)
}

/// A volume without some of its logical blocks.
struct Wiped {
    lebs: UbiLebs<Dump>,
    gone: BTreeSet<u32>,
}

impl Lebs for Wiped {
    fn shape(&self) -> LebShape {
        self.lebs.shape()
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        if self.gone.contains(&lnum) {
            buf.fill(0);
            return Ok(());
        }
        self.lebs.read(lnum, offs, buf)
    }
}

/// Wipes each area of a volume, and compares what a scan finds with what the kernel saw.
fn salvaged(fs: Ubifs<UbiLebs<Dump>>, expected: &Manifest, key: &str) -> Result<(), String> {
    let here = fs.head().geometry;
    let mut lebs = fs.into_lebs();
    let index = index_blocks(&mut lebs, here.lebs, here.fanout);
    let areas: [(&str, BTreeSet<u32>); 6] = [
        ("superblock", BTreeSet::from([0])),
        ("masters", BTreeSet::from([1, 2])),
        ("log", (here.log_first()..here.lpt_first()).collect()),
        (
            "properties",
            (here.lpt_first()..here.orphan_first()).collect(),
        ),
        ("index", index.clone()),
        (
            "all of them",
            (0..here.orphan_first()).chain(index).collect(),
        ),
    ];
    for (area, gone) in areas {
        let blocks = gone.len();
        let mut fs = Ubifs::salvage(Wiped { lebs, gone }).map_err(|error| error.to_string())?;
        let told = fs.reconnect().findings;
        let found = manifest(&mut fs);
        let differ = differences(expected, &found);
        println!(
            "{key} without {area}: {} entries, {blocks} blocks gone",
            found.len()
        );
        if !differ.is_empty() || !told.is_empty() {
            let lines = differ.lines().take(8).collect::<Vec<_>>().join("\n");
            return Err(format!("without {area}: {told:?} {lines}"));
        }
        lebs = fs.into_lebs().lebs;
    }
    Ok(())
}

/// The blocks that begin with an index node.
fn index_blocks(lebs: &mut UbiLebs<Dump>, count: u32, fanout: u32) -> BTreeSet<u32> {
    let leb = lebs.shape().leb_bytes;
    let mut bytes = vec![0; leb as usize];
    let mut begins = |lnum: u32| {
        lebs.read(lnum, 0, &mut bytes).unwrap();
        let first = node(&bytes, leb, fanout);
        first.is_ok_and(|(header, _)| header.kind == Kind::Index)
    };
    (0..count).filter(|lnum| begins(*lnum)).collect()
}
