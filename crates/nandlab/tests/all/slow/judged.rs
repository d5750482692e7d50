//! States that power cuts leave, for the real kernel and the checkers. `nandlab crash --keep` writes
//! them, the kernel recovers each and lists its tree, and we list ours. Each of two guests judges
//! half of them in one boot.
//!
//! The explorer holds our tree against the promise. So a kernel that finds the same tree vouches
//! for both: for what we wrote before the cut, and for our recovery.

use crate::command::Lab;
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Report};
use nandlab_testkit::manifest::listed;
use nandlab_testkit::share::whole_or;
use nandlab_testkit::{kernel, tools};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;

/// So many cuts of each cell, if another number of them is wanted.
const CUTS: &str = "NANDLAB_JUDGED_CUTS";
/// Images lie at multiples of this on the guest's disk.
const UNIT: u64 = 64 << 10;
const NANDSIM: &str = "id_bytes=0x20,0xa2,0x00,0x05 parts=64";

/// The layers below a disk.
const LAYERS: [&str; 5] = ["page", "BAST", "SAST", "FAST", "NFTL"];
const RUNS: [&str; 2] = ["mixed", "two calls"];
/// Names of the matrix, and the kernel's.
const DISKS: [(&str, &str); 6] = [
    ("ext2", "ext2"),
    ("ext3 journal", "ext3"),
    ("ext3 ordered", "ext3"),
    ("ext3 writeback", "ext3"),
    ("FAT12", "vfat"),
    ("F2FS", "f2fs"),
];
const REMAPPED: [&str; 4] = [
    "ext3 journal remap",
    "ext3 journal remap-late",
    "ext3 ordered remap",
    "ext3 writeback remap",
];
const UBI: [&str; 2] = ["UBI scan", "UBI fastmap"];

/// A cell of the matrix as the kernel takes it.
struct Cell {
    name: String,
    kind: &'static str,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |system: &str, below: &str, kind| {
        let named = |run: &str| Cell {
            name: format!("{system}, {below}, {run}"),
            kind,
        };
        cells.extend(RUNS.map(named));
    };
    for (system, kind) in DISKS {
        LAYERS.iter().for_each(|layer| add(system, layer, kind));
    }
    REMAPPED
        .iter()
        .for_each(|system| add(system, "page", "ext3"));
    UBI.iter().for_each(|below| add("UBIFS", below, "ubifs"));
    cells
}

/// A state on its way to the kernel.
struct State {
    key: String,
    /// The cell and the state's name, to make it again.
    name: String,
    kind: &'static str,
    place: u64,
    bytes: u64,
    /// The tree that we find, if all of it can be read.
    ours: Option<Manifest>,
}

/// The disk of a guest, and the states on it, side by side.
struct Shelf {
    path: PathBuf,
    disk: File,
    states: Vec<State>,
    /// Where the next state goes.
    end: u64,
}

impl Shelf {
    fn new(path: PathBuf) -> Self {
        let disk = File::create_new(&path).unwrap();
        Self {
            path,
            disk,
            states: Vec::new(),
            end: 0,
        }
    }

    /// Takes the file of a state.
    fn take(&mut self, cell: &Cell, path: &Path) {
        let bytes = fs::read(path).unwrap();
        let stem = path.file_stem().unwrap().to_string_lossy();
        write(&self.disk, self.end * UNIT, &bytes);
        self.states.push(State {
            key: format!("s{}", self.states.len()),
            name: format!("{}: {stem}", cell.name),
            kind: cell.kind,
            place: self.end,
            bytes: bytes.len() as u64,
            ours: tree(path),
        });
        self.end += (bytes.len() as u64).div_ceil(UNIT);
        self.disk.set_len(self.end * UNIT).unwrap();
        fs::remove_file(path).unwrap();
    }
}

/// The states of all cells, in equal parts.
fn kept(lab: &Lab) -> [Shelf; 2] {
    let asked = std::env::var(CUTS);
    // A third of the cells meets every file system and every layer.
    let every = if asked.is_ok() { 1 } else { whole_or(1, 3) };
    let cuts = asked.unwrap_or_else(|_| "1".into());
    let mut shelves = ["one", "two"].map(|name| Shelf::new(lab.path(name)));
    let mut turn = [0, 1].into_iter().cycle();
    for cell in cells().into_iter().step_by(every) {
        for path in kept_of(lab, &cell, &cuts) {
            shelves[turn.next().unwrap()].take(&cell, &path);
        }
    }
    shelves
}

/// The files of a cell's states.
fn kept_of(lab: &Lab, cell: &Cell, cuts: &str) -> Vec<PathBuf> {
    let mut args = Vec::from(["crash", "--matrix", "--only", &cell.name, "--cuts", cuts]);
    args.extend(["--keep", "kept"]);
    if cell.kind == "ubifs" {
        // nandsim has no smaller blocks on pages of 2 KiB.
        args.extend(["--set", "chip.pages-per-block=32"]);
        args.extend(["--set", "ubi.volume-size=1500 KiB"]);
        args.extend(["--set", "chip.oob-layout=none"]);
    }
    lab.exits(0, &args);
    let directory = lab.path("kept").join(&cell.name);
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Writes all that is not zero.
fn write(disk: &File, at: u64, bytes: &[u8]) {
    for (part, at) in bytes
        .chunks(UNIT as usize)
        .zip((at..).step_by(UNIT as usize))
    {
        if part.iter().any(|byte| *byte != 0) {
            disk.write_all_at(part, at).unwrap();
        }
    }
}

/// The tree of an image as we recover it.
fn tree(path: &Path) -> Option<Manifest> {
    let volume = Volume::open(path, &Opening::default(), Access::Read);
    let mut volume = volume.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    listed(volume.fs().unwrap()).ok()
}

fn script(states: &[State]) -> String {
    let mut script = String::from(include_str!("judged.sh"));
    for State {
        key,
        kind,
        place,
        bytes,
        ..
    } in states
    {
        script += &match *kind {
            "ubifs" => format!("judged {key} on_ubi {place} {} {NANDSIM}\n", bytes / UNIT),
            kind => format!("judged {key} on_disk {kind} {place}\n"),
        };
    }
    script
}

/// What is compared of a tree.
fn compared(kind: &str, manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    if kind == "vfat" {
        // Owners, modes and zone are those of the mount.
        for entry in manifest.values_mut() {
            entry.mode = 0;
            entry.mtime = 0;
            entry.mtime_nanos = 0;
        }
    }
    if let ("f2fs", Some(root)) = (kind, manifest.get_mut(Path::new("."))) {
        // To roll a name forward changes its directory, at the time of the recovery.
        root.mtime = 0;
        root.mtime_nanos = 0;
    }
    manifest
}

/// What is wrong with a state, in the kernel's eyes.
fn wrong(state: &State, report: &Report) -> Option<String> {
    let said = |what: &str| report.value(&format!("{}-{what}", state.key));
    if said("refused").is_some() {
        return Some(format!("not mounted: {:?}", said("said")));
    }
    let theirs = report.manifests.get(&state.key);
    match (&state.ours, theirs.filter(|_| said("unreadable").is_none())) {
        (None, None) => None,
        (Some(_), None) => Some(format!("the kernel cannot read all: {:?}", said("said"))),
        (None, Some(_)) => Some("we cannot read all".into()),
        (Some(ours), Some(theirs)) => {
            let ours = compared(state.kind, ours);
            let theirs = compared(state.kind, theirs);
            Some(differences(&ours, &theirs)).filter(|different| !different.is_empty())
        }
    }
}

/// The checker's words on a volume that the kernel has recovered and unmounted, if it has any. Cuts
/// of ext2 and FAT leave work for a checker, and UBIFS has none for images.
fn complaints(state: &State, disk: &File, scratch: &Path) -> Option<String> {
    let [package, program, looks] = match state.kind {
        "ext3" => ["e2fsprogs", "e2fsck", "-fn"],
        "f2fs" => ["f2fs-tools", "fsck.f2fs", "--dry-run"],
        _ => return None,
    };
    let mut bytes = vec![0; state.bytes as usize];
    disk.read_exact_at(&mut bytes, state.place * UNIT).unwrap();
    let file = File::create(scratch).unwrap();
    file.set_len(state.bytes).unwrap();
    write(&file, 0, &bytes);
    let output = tools::run(package, program, &[looks, tools::text(scratch)]);
    (!output.status.success()).then(|| tools::printed(&output))
}

/// What the kernel and the checkers said of a shelf's states.
#[derive(Default)]
struct Verdicts {
    faults: Vec<String>,
    /// States by the kernel's name of the format.
    counts: BTreeMap<&'static str, usize>,
}

fn judged(shelf: &Shelf, scratch: &Path) -> Verdicts {
    let programs = ["nandwrite", "ubiattach", "ubidetach"];
    let guest = programs.iter().fold(kernel::guest(), |guest, program| {
        guest.program(Path::new("/usr/sbin").join(program))
    });
    let guest = guest.memory(900).disk(Disk::File(shelf.path.clone()));
    let report = kernel::boot(guest.script(script(&shelf.states)));
    let disk = File::open(&shelf.path).unwrap();
    let mut verdicts = Verdicts::default();
    for state in &shelf.states {
        *verdicts.counts.entry(state.kind).or_default() += 1;
        let found = [wrong(state, &report), complaints(state, &disk, scratch)];
        let faults = found.into_iter().flatten();
        verdicts
            .faults
            .extend(faults.map(|why| format!("{}: {why}", state.name)));
    }
    verdicts
}

#[test]
fn the_kernel_recovers_what_cuts_leave_to_the_trees_that_we_recover() {
    let lab = Lab::new();
    let shelves = kept(&lab);
    let scratch = ["first", "second"].map(|name| lab.path(name));
    let verdicts: Vec<Verdicts> = thread::scope(|scope| {
        let guests: Vec<_> = shelves
            .iter()
            .zip(&scratch)
            .map(|(shelf, path)| scope.spawn(move || judged(shelf, path)))
            .collect();
        let ends = guests.into_iter().map(|guest| guest.join().unwrap());
        ends.collect()
    });
    for Verdicts { counts, .. } in &verdicts {
        println!("states: {counts:?}");
    }
    let states: usize = shelves.iter().map(|shelf| shelf.states.len()).sum();
    assert!(states >= whole_or(60, 20), "{states} states");
    let faults: Vec<&str> = verdicts
        .iter()
        .flat_map(|verdicts| verdicts.faults.iter().map(String::as_str))
        .collect();
    assert!(
        faults.is_empty(),
        "{} of {states}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
