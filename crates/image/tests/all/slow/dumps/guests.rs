//! Two boots for all cells of a code: one makes the dumps, one judges dumps that are written to
//! chips again.
//!
//! *Promises.* A dump comes with the tree and the volumes as the kernel read them. Chips of one
//! boot follow each other; nothing is kept between runs.

use super::cell::{Age, Cell, Medium};
use nandlab_oracle::manifest::Manifest;
use nandlab_oracle::{Disk, Guest, Report};
use nandlab_testkit::{kernel, tools};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const FUNCTIONS: &str = include_str!("life.sh");
const PROGRAMS: [&str; 9] = [
    "nandwrite",
    "nanddump",
    "flash_erase",
    "ubiattach",
    "ubidetach",
    "ubimkvol",
    "ubirmvol",
    "ubiupdatevol",
    "ubiblock",
];
/// Dumps lie at multiples of this on the disk.
const UNIT: usize = 64 * 1024;
/// Length of the known bytes.
const NOISE: usize = 1 << 20;
/// The static volume's bytes in [`noise`].
pub const CONFIG: std::ops::Range<usize> = 10_000..260_001;

/// Bytes that host and guest know.
pub fn noise() -> Vec<u8> {
    nandlab_testkit::files::bytes(20, NOISE)
}

/// What the kernel reads from a chip.
#[derive(Clone, Debug)]
pub struct Truth {
    pub tree: Manifest,
    /// SHA-256 of the static and of the dynamic volume, if the medium is UBI.
    pub volumes: Option<[String; 2]>,
}

/// A chip's raw pages.
#[derive(Clone, Debug)]
pub struct Dump {
    pub cell: Cell,
    pub bytes: Vec<u8>,
    /// The page that is torn.
    pub torn: Option<usize>,
    /// The truth; there is none yet of a dump that was cut.
    pub truth: Option<Truth>,
}

/// What the kernel says of a dump that was written to a chip.
#[derive(Clone, Debug)]
pub struct Judged {
    pub truth: Truth,
    /// Bits that the driver corrected, steps that it could not correct, and lines of its log.
    pub complaints: Vec<String>,
}

fn guest(scratch: &Path) -> Guest {
    let guest = PROGRAMS.iter().fold(kernel::guest(), |guest, program| {
        guest.program(Path::new("/usr/sbin").join(program))
    });
    guest
        .file("/noise", noise())
        .memory(800)
        .disk(Disk::File(scratch.join("disk")))
}

fn boot(guest: Guest, script: &str) -> Report {
    let modules = "mp mtdblock && mp jffs2 && mp ubi && mp ext4 && mp loop && mount -t debugfs d /sys/kernel/debug || exit 1\n";
    kernel::boot(guest.script([FUNCTIONS, modules, script].concat()))
}

/// An empty volume of ext3.
fn ext3(scratch: &Path) -> Vec<u8> {
    let path = scratch.join("ext3");
    let arguments = [
        "-q", "-t", "ext3", "-b", "1024", "-J", "size=1", "-N", "160",
    ];
    let target = [tools::text(&path), "2560"];
    tools::succeed("e2fsprogs", "mke2fs", &[&arguments[..], &target].concat());
    fs::read(path).unwrap()
}

fn life(cell: Cell, place: usize) -> String {
    let age = format!("{:?}", cell.age).to_lowercase();
    let chip = cell.chip();
    match (cell.medium, cell.age) {
        (Medium::Jffs2, _) => {
            let bad = cell.bad().map(|bad| bad.to_string()).unwrap_or_default();
            format!("{chip} && jffs2 {cell} {place} {age} {bad}")
        }
        (Medium::Ubi, Age::Aged) => {
            let empty = cell.blocks_empty();
            format!("{chip} parts={empty} && ubi {cell} {place} {age} mtd0 mtd1")
        }
        (Medium::Ubi, _) => format!("{chip} && ubi {cell} {place} {age} mtd0"),
    }
}

/// Makes the dumps of all cells in one boot.
pub fn dumps(cells: &[Cell]) -> Vec<Dump> {
    let scratch = tempfile::tempdir().unwrap();
    let total: usize = cells.iter().map(|cell| cell.raw_bytes()).sum();
    let disk = File::create(scratch.path().join("disk")).unwrap();
    disk.set_len(total as u64).unwrap();
    let mut script = String::new();
    let mut place = 0;
    for cell in cells {
        script += &format!(
            "{} || {{ echo {cell} failed; dmesg | tail -20; exit 1; }}\nsay {cell}-seconds $(cat /proc/uptime)\n",
            life(*cell, place / UNIT)
        );
        place += cell.raw_bytes();
    }
    let guest = guest(scratch.path()).file("/ext3", ext3(scratch.path()));
    let report = boot(guest, &script);
    println!("{:#?}", report.values);
    let disk = File::open(scratch.path().join("disk")).unwrap();
    let mut place = 0;
    let mut dumps = Vec::new();
    for &cell in cells {
        let mut bytes = vec![0; cell.raw_bytes()];
        let found = report.value(&format!("{cell}-bytes"));
        assert_eq!(found, Some(&*bytes.len().to_string()), "{cell}");
        disk.read_exact_at(&mut bytes, place).unwrap();
        place += bytes.len() as u64;
        let truth = (cell.age != Age::Cut).then(|| truth(&report, &cell.to_string(), cell.medium));
        dumps.push(Dump {
            cell,
            bytes,
            torn: None,
            truth,
        });
    }
    dumps
}

fn truth(report: &Report, key: &str, medium: Medium) -> Truth {
    let volume = |name: &str| {
        let said = report.value(&format!("{key}-{name}")).unwrap_or_default();
        said.split(' ').next().unwrap_or_default().to_owned()
    };
    Truth {
        tree: report.manifests[key].clone(),
        volumes: (medium == Medium::Ubi).then(|| ["config", "root"].map(volume)),
    }
}

/// Writes dumps to erased chips in one boot, raw and with the writer's own parity off, and asks the
/// kernel. Each dump has a name.
pub fn judge(dumps: &[(String, Cell, &[u8])]) -> Vec<Judged> {
    let scratch = tempfile::tempdir().unwrap();
    let disk = File::create(scratch.path().join("disk")).unwrap();
    let mut script = String::new();
    let mut place = 0;
    for (key, cell, bytes) in dumps {
        disk.write_all_at(bytes, place).unwrap();
        let chip = cell.chip();
        let medium = format!("{:?}", cell.medium).to_lowercase();
        let at = place as usize / UNIT;
        let len = bytes.len();
        script += &format!(
            "{chip} && written {at} {len} && judged {key} {medium} || {{ echo {key} failed; dmesg | tail -20; exit 1; }}\n"
        );
        place += bytes.len() as u64;
    }
    let report = boot(guest(scratch.path()), &script);
    let judged = dumps.iter().map(|(key, cell, _)| Judged {
        truth: truth(&report, key, cell.medium),
        complaints: complaints(&report, key),
    });
    judged.collect()
}

fn complaints(report: &Report, key: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (what, usual) in [("corrected", "0"), ("failures", "0"), ("complaints", "")] {
        let said = report.values.get(&format!("{key}-{what}"));
        let lines = said.into_iter().flatten();
        all.extend(
            lines
                .filter(|line| *line != usual)
                .map(|line| format!("{what}: {line}")),
        );
    }
    all
}

/// Says whether nandsim makes chips of these shapes with BCH.
pub fn refuse_bch(cells: [Cell; 2]) -> [bool; 2] {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("disk"), vec![0; UNIT]).unwrap();
    let made = cells.map(|cell| {
        let chip = cell.chip();
        format!("{chip} bch=4 2>/dev/null && say {cell} yes || say {cell} no\n")
    });
    let report = boot(guest(scratch.path()), &(made.concat() + "true\n"));
    cells.map(|cell| report.value(&cell.to_string()) == Some("no"))
}
