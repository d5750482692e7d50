//! A file system of your own: configured in TOML, measured, reported, and cut.
//!
//! Files live in memory. Each sync writes the tree, as one snapshot, to the next slot of the disk.
//! A mount takes the newest snapshot with a right checksum. Only names, links and contents last.
//!
//! Run it with `cargo run --example my_fs`. Then put a bug in: replace `sequence % self.slots` by
//! `0`. Each sync now overwrites the only good snapshot. The crash explorer finds the lost files.

use nandlab_block::{BlockDevice, Lba};
use nandlab_crash::Plan;
use nandlab_lab::{Experiment, cut::Prepared, report, run, table, workload::Workloads};
use nandlab_sim::mix;
use nandlab_stack::{DescriptionError, DiskFs, Document, Registry, Section};
use nandlab_vfs::{Caller, Errno, FileSystem, FileType, Ino, MemFs, NewNode};
use nandlab_vfs::{Promise, Sync, Time, VolumeError, delegate, path, tree};
use serde_json::{Deserializer, to_vec};
use std::{collections::BTreeMap, error::Error, fs, path::Path, process::ExitCode};

/// Sequence number; path, inode number, "is a directory" and contents of each name.
type Snapshot = (u64, Vec<(Vec<u8>, u64, bool, Vec<u8>)>);

#[derive(Clone, Debug)]
struct Snapshots {
    slots: u64,
}

impl DiskFs for Snapshots {
    const NAME: &'static str = "snapshots";
    const KEYS: &'static [&'static str] = &["slots"];
    const PROMISE: Promise = Promise::Atomic;
    type Mounted<D: BlockDevice> = Open<D>;

    fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let slots = section.checked("slots", 2, |n| (2..=8).contains(n), "2 to 8")?;
        Ok(Self { slots })
    }

    fn format<D: BlockDevice>(&self, disk: &mut D) -> Result<(), VolumeError> {
        let mut open = self.mount(disk)?; // Goes on counting, so that no old snapshot wins.
        open.files = MemFs::new(open.disk.geometry().bytes(), Time::default());
        Ok(open.sync()?)
    }

    fn mount<D: BlockDevice>(&self, mut disk: D) -> Result<Open<D>, VolumeError> {
        let step = disk.geometry().sectors / self.slots;
        let mut newest = Snapshot::default();
        let mut bytes = vec![0; step as usize * disk.geometry().sector as usize];
        for slot in 0..self.slots {
            disk.read(Lba(slot * step), &mut bytes)?;
            let mut stored = Deserializer::from_slice(&bytes).into_iter::<(u64, Snapshot)>();
            match stored.next() {
                Some(Ok((sum, found))) if sum == checksum(&found)? => newest = newest.max(found),
                _ => (),
            }
        }
        let by = Caller::default();
        let mut files = MemFs::new(disk.geometry().bytes(), by.now);
        let mut inodes = BTreeMap::new();
        for (path, number, is_dir, contents) in newest.1 {
            let (dir, name) = path::parent(&mut files, &path)?;
            let node = [NewNode::File, NewNode::Directory][usize::from(is_dir)];
            let ino = match inodes.get(&number) {
                Some(ino) => files.link(*ino, dir, name, by.now)?.ino,
                None => files.create(dir, name, node, 0o755, by)?.ino,
            };
            inodes.insert(number, ino);
            if !is_dir && files.write(ino, 0, &contents, by.now)? < contents.len() {
                return Err(Errno::NoSpace.into());
            }
            files.forget(ino, 1);
            files.forget(dir, 1);
        }
        Ok(Open {
            files,
            disk,
            slots: self.slots,
            sequence: newest.0,
        })
    }

    fn into_disk<D: BlockDevice>(open: Open<D>) -> D {
        open.disk
    }
}

fn checksum(snapshot: &Snapshot) -> serde_json::Result<u64> {
    let bytes = to_vec(snapshot)?;
    Ok(bytes.iter().fold(0, |sum, byte| mix(sum, u64::from(*byte))))
}

struct Open<D> {
    files: MemFs,
    disk: D,
    slots: u64,
    sequence: u64,
}

impl<D: BlockDevice> FileSystem for Open<D> {
    delegate! { [self.files] lookup forget getattr setattr create link unlink rmdir rename
        readlink read write readdir statfs
    }

    fn fsync(&mut self, _: Ino, _: Sync) -> Result<(), Errno> {
        self.sync()
    }

    fn sync(&mut self) -> Result<(), Errno> {
        let sequence = self.sequence + 1;
        let mut names = Vec::new();
        for (path, node) in tree::snapshot(&mut self.files)?.into_iter().skip(1) {
            let is_dir = node.attr.kind == FileType::Directory;
            names.push((path, node.attr.ino.0, is_dir, node.contents));
        }
        let snapshot = (sequence, names);
        let stored = checksum(&snapshot).and_then(|sum| to_vec(&(sum, snapshot)));
        let mut bytes = stored.map_err(|_| Errno::Io)?;
        let step = self.disk.geometry().sectors / self.slots;
        let sector = self.disk.geometry().sector as usize;
        bytes.resize(bytes.len().next_multiple_of(sector), b' ');
        if bytes.len() as u64 > step * sector as u64 {
            return Err(Errno::NoSpace);
        }
        let place = Lba(sequence % self.slots * step);
        self.disk.write(place, &bytes).map_err(|_| Errno::Io)?;
        self.disk.flush().map_err(|_| Errno::Io)?;
        self.sequence = sequence;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), Errno> {
        self.sync()?;
        self.files.unmount()
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let registry = Registry::standard().with_file_system(Snapshots::kind());
    let text = include_str!("my_fs.toml");
    let document = Document::parse("my_fs.toml", Path::new("."), text, &[])?;
    let experiment = Experiment::take_with(document, &registry, &Workloads::standard())?;
    let outcome = run(&experiment, &mut |_| ())?;
    println!("{}", table::compare(std::slice::from_ref(&outcome)));
    fs::write(
        "my_fs.html",
        report::html("my_fs", &[outcome.result], &[outcome.cost]),
    )?;
    let report = Prepared::new(&experiment, 16)?.explore(&Plan::default(), &|_, _| ())?;
    println!("{report}");
    Ok(ExitCode::from(u8::from(report.violations_total > 0)))
}
