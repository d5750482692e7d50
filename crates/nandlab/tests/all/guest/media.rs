//! Our side of the media: the layer attached to a dump, disks read out, trees listed, lives that
//! leave interesting media behind.

use super::noise;
use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_fat::{Fat, Options};
use nandlab_ftl::{
    Ftl as _,
    nftl::{Nftl, NftlOptions},
};
use nandlab_mtd::{FaultInjector, Image, ImageFormat, Layout};
use nandlab_oracle::manifest::{Entry, Kind, Manifest};
use nandlab_sim::{Rail, mix};
use nandlab_vfs::{Caller, FileSystem, FileType, Ino, NewNode, SetAttr, Sync, Time, tree};
use sha2::{Digest, Sha256};
use std::{
    ffi::OsStr,
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The flash of `docram.c`: so many erase blocks of so many pages.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub units: u32,
    pub pages: u32,
}

/// A flash that hangs on a power rail.
pub type Powered = FaultInjector<Image<Vec<u8>>>;

impl Shape {
    fn format(self) -> ImageFormat {
        ImageFormat {
            page: 512,
            oob: 16,
            pages_per_block: self.pages,
            layout: Layout::DiskOnChip,
            ecc: None,
        }
    }

    /// The flash that a dump holds.
    pub fn load(self, dump: &[u8]) -> Image<Vec<u8>> {
        assert_eq!(
            dump.len() as u64,
            self.format().bytes(self.units),
            "bytes of the dump"
        );
        Image::new(dump.to_vec(), self.format()).unwrap()
    }

    pub fn erased(self) -> Image<Vec<u8>> {
        self.load(&vec![0xFF; self.format().bytes(self.units) as usize])
    }

    /// The disk that our layer finds in a dump.
    pub fn attach(self, dump: &[u8]) -> Nftl<Image<Vec<u8>>> {
        Nftl::attach(self.load(dump), NftlOptions::default())
            .unwrap_or_else(|error| panic!("the layer does not attach: {error}"))
    }
}

/// Every sector of a disk.
pub fn read_out(disk: &mut impl BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; disk.geometry().bytes() as usize];
    disk.read(Lba(0), &mut bytes).unwrap();
    bytes
}

/// The sectors in which two disks are not the same.
pub fn differences(left: &[u8], right: &[u8]) -> Vec<usize> {
    assert_eq!(left.len(), right.len(), "bytes of the disks");
    let sectors = left.chunks(512).zip(right.chunks(512)).enumerate();
    sectors
        .filter(|(_, (left, right))| left != right)
        .map(|(number, _)| number)
        .collect()
}

/// The chains of more than no unit that nftldump has listed (`Virtual Unit #7: 12, 34`), each by
/// its virtual unit, with the number of its units.
pub fn listed_chains(listed: &[u8]) -> Vec<(usize, usize)> {
    let lines = str::from_utf8(listed)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("Virtual Unit #")?.split_once(": "));
    let present = lines.filter(|(_, units)| *units != "Not present");
    present
        .map(|(number, units)| (number.parse().unwrap(), units.split(',').count()))
        .collect()
}

/// The sectors of a disk as nftldump writes them: those of units that are not there are left out.
pub fn as_dumped(disk: &[u8], shape: Shape, chains: &[(usize, usize)]) -> Vec<u8> {
    let bytes = shape.pages as usize * 512;
    chains
        .iter()
        .flat_map(|(number, _)| &disk[number * bytes..][..bytes])
        .copied()
        .collect()
}

/// The tree of a FAT volume as the kernel would list it, without the time of the root, which is not
/// on the medium.
pub fn fat_manifest(disk: impl BlockDevice) -> Manifest {
    let mut fat = Fat::mount(
        disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap();
    let entry = |entry: tree::Entry| {
        let kind = match entry.attr.kind {
            FileType::Directory => Kind::Directory,
            _ => Kind::File {
                size: entry.attr.size,
                sha256: Sha256::digest(&entry.contents)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            },
        };
        let attr = entry.attr;
        let mtime = entry.attr.mtime;
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
    let path = |path: Vec<u8>| {
        if path.is_empty() {
            PathBuf::from(".")
        } else {
            Path::new(".").join(OsStr::from_bytes(&path))
        }
    };
    without_root_time(
        &tree::snapshot(&mut fat)
            .unwrap()
            .into_iter()
            .map(|(name, found)| (path(name), entry(found)))
            .collect(),
    )
}

pub fn without_root_time(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    if let Some(root) = manifest.get_mut(Path::new(".")) {
        (root.mtime, root.mtime_nanos) = (0, 0);
    }
    manifest
}

const NOW: Time = Time::new(1_000_000_000);

/// A FAT volume of ours with files that are written over again and again, each time durably: chains
/// of several units are left behind.
pub fn fat_life(shape: Shape, options: NftlOptions) -> Image<Vec<u8>> {
    let mut disk = Nftl::format(shape.erased(), options).unwrap();
    nandlab_fat::format(&mut disk, &nandlab_fat::Format::default()).unwrap();
    let mut fat = Fat::mount(&mut disk, Options::default()).unwrap();
    let noise = noise(1 << 20);
    let dir = fat
        .mkdir(Ino::ROOT, b"Directory of ours", 0o755, Caller::root(NOW))
        .unwrap()
        .ino;
    for round in 0..5u64 {
        for number in 0..24u64 {
            let place = if number % 2 == 0 { dir } else { Ino::ROOT };
            let name = format!("file number {number}");
            let file = match fat.lookup(place, name.as_bytes()) {
                Ok(attr) => attr.ino,
                Err(_) => {
                    fat.create(
                        place,
                        name.as_bytes(),
                        NewNode::File,
                        0o644,
                        Caller::root(NOW),
                    )
                    .unwrap()
                    .ino
                }
            };
            let from = mix(round, number) as usize % 900_000;
            let length = mix(number, round / 2) as usize % 40_000;
            let mut done = 0;
            while done < length {
                done += fat
                    .write(file, done as u64, &noise[from + done..from + length], NOW)
                    .unwrap();
            }
            fat.setattr(
                file,
                &SetAttr {
                    mtime: Some(NOW),
                    ..SetAttr::default()
                },
                NOW,
            )
            .unwrap();
            fat.fsync(file, Sync::All).unwrap();
        }
    }
    fat.unmount().unwrap();
    drop(fat);
    disk.into_medium()
}

/// A life that a power cut ended.
pub struct Cut {
    pub dump: Vec<u8>,
    /// What was written and flushed, by sector.
    pub kept: Vec<Vec<u8>>,
    /// The sector that was being written.
    pub torn: usize,
}

/// A write that folded a chain.
#[derive(Clone, Debug)]
pub struct Fold {
    pub in_place: bool,
    /// Operations of the flash since the disk was formatted.
    pub steps: Range<u64>,
}

/// Sectors written in no order, each flushed, until the power goes at operation `step` of the
/// flash; or to the end, and then all writes that folded a chain once. Now and then the medium is
/// attached again: what looks free in it is not trusted then, so that chains are folded to other
/// units.
pub fn random_life(
    shape: Shape,
    options: &NftlOptions,
    step: Option<u64>,
) -> Result<Vec<Fold>, Cut> {
    const WRITES: u64 = 1500;
    let rail = Rail::new();
    let mut disk = Nftl::format(
        Powered::new(shape.erased()).powered_by(rail.clone()),
        options.clone(),
    )
    .unwrap();
    let begun = rail.steps();
    if let Some(step) = step {
        rail.cut_at(begun + step);
    }
    let mut kept = vec![vec![0; 512]; disk.geometry().sectors as usize];
    let mut found = Vec::new();
    for number in 0..WRITES {
        if number % 400 == 399 {
            disk = Nftl::attach(disk.into_medium(), options.clone())
                .expect("no cut between two writes");
        }
        // Most writes go to few sectors, so that chains grow and folds have sectors to copy.
        let sector = mix(7, number)
            % if number % 4 == 0 {
                kept.len() as u64
            } else {
                kept.len() as u64 / 8
            };
        let data: Vec<u8> = (0..64)
            .flat_map(|word| mix(number, word).to_le_bytes())
            .collect();
        let start = rail.steps() - begun;
        let before = disk.tally().merges;
        match disk.write(Lba(sector), &data).and_then(|()| disk.flush()) {
            Ok(()) => kept[sector as usize] = data,
            Err(BlockError::PowerCut) => {
                let dump = disk.into_medium().into_inner().into_backing();
                return Err(Cut {
                    dump,
                    kept,
                    torn: sector as usize,
                });
            }
            Err(error) => panic!("sector {sector}: {error}"),
        }
        let after = disk.tally().merges;
        let folds = [
            after.folds_in_place - before.folds_in_place,
            after.folds_elsewhere - before.folds_elsewhere,
        ];
        if folds == [1, 0] || folds == [0, 1] {
            found.push(Fold {
                in_place: folds[0] == 1,
                steps: start..rail.steps() - begun,
            });
        }
    }
    Ok(found)
}
