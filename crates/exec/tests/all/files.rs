//! File systems that are programs: their trees, their power cuts and their failures.

use crate::guests::{fatfs_guest, files, files_of_the_tests, littlefs_guest};
use nandlab_crash::files::mixed;
use nandlab_crash::{
    Cuts, FileOp, Files, Kind, Plan, SecondLevel, assert_found, assert_survives, explore,
};
use nandlab_exec::FileProgram;
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_sim::Chain;
use nandlab_stack::fs::{FsLayer, Machine, Medium};
use nandlab_stack::layer::{BareChip, ChipFlash, FlashLayer};
use nandlab_vfs::{
    Caller, Errno, FileSystem, Ino, Mounted, Nature, NewNode, SetAttr, Sync, Time, Volume, tree,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No layer: the chip as the flash of a file system.
#[derive(Clone, Debug)]
struct Raw;

impl Layer<Chip> for Raw {
    type Device = Box<dyn ChipFlash>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(BareChip.format_chip(chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(BareChip.attach_chip(chip)?)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_chip().unwrap()
    }
}

fn spec(blocks: u32) -> ChipSpec {
    let mut spec = preset::find("slc-2k").unwrap().spec();
    spec.geometry.page = 512;
    spec.geometry.pages_per_block = 8;
    spec.geometry.blocks = blocks;
    spec
}

fn flash(blocks: u32) -> Box<dyn ChipFlash> {
    Box::new(Chip::new(spec(blocks)).unwrap())
}

fn subject(program: FileProgram) -> Files<Raw, FileProgram> {
    Files {
        chip: spec(256),
        layer: Raw,
        volume: program,
    }
}

fn plan(cuts: u64) -> Plan {
    Plan {
        cuts: Cuts::Sample(cuts),
        second: SecondLevel::Every(16),
        ..Plan::default()
    }
}

#[test]
fn littlefs_as_a_program_keeps_its_files_at_every_cut() {
    let scratch = tempfile::tempdir().unwrap();
    let subject = subject(littlefs_guest(scratch.path()));
    let report = assert_survives(&subject, &mixed(7, 60), &plan(150));
    assert!(report.states >= 150, "{report}");
}

/// FatFs frees the clusters of a truncated file before its entry has the new length.
#[test]
fn fatfs_keeps_its_files_at_every_cut_but_those_within_a_truncation() {
    let scratch = tempfile::tempdir().unwrap();
    let subject = Files {
        chip: spec(64),
        ..subject(fatfs_guest(scratch.path()))
    };
    let ops = mixed(7, 60);
    let is_truncation = |op: &FileOp| matches!(op, FileOp::Truncate { .. });
    let others: Vec<FileOp> = ops
        .iter()
        .filter(|op| !is_truncation(op))
        .cloned()
        .collect();
    let plan = Plan {
        second: SecondLevel::Every(128),
        ..plan(60)
    };
    let report = assert_survives(&subject, &others, &plan);
    assert!(report.states >= 60, "{report}");
    let Some(FileOp::Truncate { path, .. }) = ops.iter().find(|op| is_truncation(op)) else {
        panic!("no truncation");
    };
    let path = || path.clone();
    let truncated = [
        FileOp::Create { path: path() },
        FileOp::Append {
            path: path(),
            length: 3000,
            seed: 1,
        },
        FileOp::Fsync { path: path() },
        FileOp::Truncate {
            path: path(),
            length: 700,
        },
    ];
    let plan = Plan {
        cuts: Cuts::Sample(150),
        second: SecondLevel::Off,
        shrink_states: 0,
        ..plan
    };
    let report = explore(&subject, &truncated, &plan).unwrap();
    let mut found = report.violations.iter();
    assert!(found.len() > 0, "{report}");
    assert!(found.all(|one| one.host.contains("truncate")), "{report}");
}

/// A file system that mounts once.
struct MountsOnce {
    program: FileProgram,
    mounts: AtomicU64,
}

impl Volume<Box<dyn ChipFlash>> for MountsOnce {
    fn nature(&self, flash: &Box<dyn ChipFlash>) -> Nature {
        self.program.nature(flash)
    }

    fn format(&self, flash: &mut Box<dyn ChipFlash>) -> Result<(), LayerError> {
        self.program.format(flash)
    }

    fn mount(
        &self,
        flash: Box<dyn ChipFlash>,
    ) -> Result<Box<dyn Mounted<Box<dyn ChipFlash>>>, LayerError> {
        match self.mounts.fetch_add(1, Relaxed) {
            0 => Volume::mount(&self.program, flash),
            _ => Err("no volume".into()),
        }
    }
}

#[test]
fn a_mount_that_fails_between_operations_is_a_violation_with_its_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let subject = Files {
        chip: spec(256),
        layer: Raw,
        volume: MountsOnce {
            program: files(scratch.path(), str::to_owned),
            mounts: AtomicU64::new(0),
        },
    };
    let plan = Plan {
        shrink_states: 0,
        ..plan(1)
    };
    let report = explore(&subject, &[FileOp::Remount], &plan).unwrap();
    let found = report.violations.first().unwrap();
    assert_eq!(found.kind, Kind::Attach);
    assert_eq!(found.what, "mounting again: no volume");
}

#[test]
fn a_file_system_in_python_survives_and_without_its_second_half_it_is_caught() {
    let scratch = tempfile::tempdir().unwrap();
    let program = files(scratch.path(), str::to_owned);
    assert_survives(&subject(program), &mixed(7, 20), &plan(20));
    let scratch = tempfile::tempdir().unwrap();
    let halves = "self.sequence % 2";
    let program = files(scratch.path(), |text| text.replace(halves, "0"));
    assert_found(&subject(program), &mixed(7, 20), &plan(20));
}

/// The root of a mounted program: a file system on 16 blocks.
fn mounted(program: &FileProgram) -> Box<dyn FileSystem> {
    let mut flash = flash(16);
    program.format(&mut flash).unwrap();
    FsLayer::mount(program, Medium::Flash(flash), Machine::default())
        .unwrap()
        .fs
}

fn make(fs: &mut dyn FileSystem, dir: Ino, name: &str, node: NewNode<'_>) -> Result<Ino, Errno> {
    let by = Caller::root(Time::default());
    Ok(fs.create(dir, name.as_bytes(), node, 0o644, by)?.ino)
}

#[test]
fn calls_by_inode_reach_the_program_as_paths() {
    let scratch = tempfile::tempdir().unwrap();
    let mut fs = mounted(&files(scratch.path(), str::to_owned));
    let fs = &mut *fs;
    let now = Time::default();
    let dir = make(fs, Ino::ROOT, "dir", NewNode::Directory).unwrap();
    let file = make(fs, dir, "file", NewNode::File).unwrap();
    assert_eq!(make(fs, dir, "file", NewNode::File), Err(Errno::Exists));
    assert_eq!(make(fs, file, "x", NewNode::File), Err(Errno::NotDirectory));
    assert_eq!(make(fs, dir, "p", NewNode::Fifo), Err(Errno::NotPermitted));
    assert_eq!(fs.write(file, 3, b"abc", now), Ok(3));
    assert_eq!(fs.write(dir, 0, b"abc", now), Err(Errno::IsDirectory));
    let how = Default::default();
    fs.rename((Ino::ROOT, b"dir"), (Ino::ROOT, b"moved"), how, now)
        .unwrap();
    assert_eq!(fs.getattr(file).unwrap().size, 6);
    assert_eq!(fs.rmdir(Ino::ROOT, b"moved", now), Err(Errno::NotEmpty));
    assert_eq!(fs.unlink(Ino::ROOT, b"moved", now), Err(Errno::IsDirectory));
    let into_itself = fs.rename((Ino::ROOT, b"moved"), (dir, b"x"), how, now);
    assert_eq!(into_itself, Err(Errno::Invalid));
    let long = SetAttr {
        size: Some(1 << 32),
        ..SetAttr::default()
    };
    assert_eq!(fs.setattr(file, &long, now), Err(Errno::FileTooBig));
    let found = tree::snapshot(fs).unwrap();
    assert_eq!(found[&b"moved/file"[..]].contents, b"\0\0\0abc");
    fs.unlink(dir, b"file", now).unwrap();
    assert_eq!(fs.getattr(file), Err(Errno::Stale));
    assert!(fs.statfs().unwrap().free > 0);
    fs.fsync(dir, Sync::All).unwrap();
    fs.unmount().unwrap();
    assert_eq!(fs.sync(), Err(Errno::Io));
}

#[test]
fn a_write_that_fits_nowhere_is_refused_and_the_file_system_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let mut fs = mounted(&files(scratch.path(), str::to_owned));
    let file = make(&mut *fs, Ino::ROOT, "file", NewNode::File).unwrap();
    let now = Time::default();
    assert_eq!(fs.write(file, 0, &[7; 60_000], now), Err(Errno::NoSpace));
    assert_eq!(fs.write(file, 0, &[7; 600], now), Ok(600));
    let mut read = [0; 700];
    assert_eq!(fs.read(file, 0, &mut read), Ok(600));
}

/// What a call of a misbehaving program leads to: its number, and the words for a reader.
fn failure(name: &str) -> (Errno, String) {
    let scratch = tempfile::tempdir().unwrap();
    let mut fs = mounted(&files_of_the_tests("misbehaving_files.py", scratch.path()));
    let error = tree::names(&mut *fs, Ino::ROOT)
        .and_then(|_| fs.lookup(Ino::ROOT, name.as_bytes()))
        .and_then(|attr| {
            let mut bytes = [0; 8];
            fs.read(attr.ino, 0, &mut bytes)
        })
        .unwrap_err();
    let cause = fs.cause().map(|cause| Chain(&cause).to_string());
    (error, cause.unwrap_or_default())
}

#[test]
fn a_program_that_breaks_the_rules_of_files_is_an_error_with_its_call() {
    let expected = [
        (
            "raises",
            "read of inode 2: the program failed to read: RuntimeError: lost the file",
        ),
        ("ends", "read of inode 2: the program ended within `read`"),
        (
            "long",
            "read of inode 2: found 9 bytes from the program within `read`, expected as many as \
             asked for",
        ),
        (
            "kind",
            "lookup \"kind\" in inode 1: found kind 7 from the program within `stat`, expected 1 \
             for a file or 2 for a directory",
        ),
    ];
    for (name, message) in expected {
        assert_eq!(failure(name), (Errno::Io, message.into()), "{name}");
    }
    // A refusal has a number, and there is no more to say.
    assert_eq!(failure("refuses"), (Errno::Access, String::new()));
}

#[test]
fn a_list_that_is_no_list_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let program = files_of_the_tests("misbehaving_files.py", scratch.path());
    let mut fs = mounted(&program);
    for (dir, found) in [
        ("slash", "\"\\x01a/b\""),
        ("nameless", "\"\\x01\""),
        ("endless", "a name without an end"),
    ] {
        let dir = fs.lookup(Ino::ROOT, dir.as_bytes()).unwrap().ino;
        assert_eq!(tree::names(&mut *fs, dir).map(drop), Err(Errno::Io));
        let cause = Chain(&fs.cause().unwrap()).to_string();
        let message = format!("found {found} from the program within `list`, expected a kind");
        assert!(cause.contains(&message), "{cause}");
    }
}
