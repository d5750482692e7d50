//! The `[fs]` section: which file system lies on the disk, and where.

mod ext;
mod f2fs;
mod fat;
mod jffs2;
mod parts;

pub use ext::ExtDescription;
pub use f2fs::F2fsDescription;
pub use fat::FatDescription;
pub use jffs2::{Jffs2Description, Worked};
pub use nandlab_ext::Region as ExtRegion;
pub use nandlab_fat::Layout as FatLayout;
pub use parts::{ExtParts, Parts};

use crate::value::Size;
use crate::{DescriptionError, Document, HostDescription, MemoryDescription, Section, Setting};
use nandlab_block::{BlockDevice, BlockError, Lba, Partition};
use nandlab_ext::ExtError;
use nandlab_f2fs::F2fsError;
use nandlab_fat::{Bits, FatError};
use nandlab_jffs2::Jffs2Error;
use nandlab_mtd::Mtd;
use nandlab_pagecache::PageCache;
use nandlab_sim::Clock;
use nandlab_vfs::FileSystem;

/// A file system as described.
#[derive(Clone, Debug)]
pub struct FsDescription {
    /// How it is made and mounted.
    pub volume: Volume,
    /// The first sector of its partition.
    pub start: u64,
    /// Bytes of its partition; none: to the end of the disk.
    pub size: Option<u64>,
    /// To say where a value stands that the disk turns out not to allow.
    section: Section,
}

/// The file systems.
#[derive(Clone, Debug)]
pub enum Volume {
    /// FAT12, FAT16, FAT32.
    Fat(FatDescription),
    /// ext2, ext3.
    Ext(ExtDescription),
    /// F2FS.
    F2fs(F2fsDescription),
    /// JFFS2, on flash without a translation layer.
    Jffs2(Jffs2Description),
}

/// A file system that cannot be made or mounted.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// Its partition is not on the disk.
    #[error(transparent)]
    Place(#[from] DescriptionError),
    /// The disk refused.
    #[error("fs: {0}")]
    Device(#[from] BlockError),
    /// It cannot be made so.
    #[error("fs: mkfs: {0}")]
    FatFormat(#[from] nandlab_fat::FormatError),
    /// It cannot be made so.
    #[error("fs: mkfs: {0}")]
    ExtFormat(#[from] nandlab_ext::FormatError),
    /// It cannot be mounted.
    #[error("fs: mount: {0}")]
    FatMount(#[from] FatError),
    /// It cannot be mounted.
    #[error("fs: mount: {0}")]
    ExtMount(#[from] ExtError),
    /// It cannot be made so.
    #[error("fs: mkfs: {0}")]
    F2fsFormat(#[from] nandlab_f2fs::FormatError),
    /// It cannot be mounted.
    #[error("fs: mount: {0}")]
    F2fsMount(#[from] F2fsError),
    /// It cannot be made or mounted.
    #[error("fs: {0}")]
    Jffs2(#[from] Jffs2Error),
    /// It is for the other kind of medium.
    #[error("fs.type: found \"{found}\", expected a file system for {expected}")]
    Medium {
        /// Its name.
        found: &'static str,
        /// What there is.
        expected: &'static str,
    },
    /// Its metadata cannot be kept in a memory.
    #[error(
        "nvram.holds: found \"metadata\", expected a file system of type \"fat\", the only one that keeps its metadata there"
    )]
    Nvram,
}

/// A mounted file system, and where its parts lie.
pub struct Mounted<'a> {
    /// The file system.
    pub fs: Box<dyn FileSystem + 'a>,
    /// Its parts, in sectors of its partition.
    pub parts: Parts,
}

/// The values of `fs.type`.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Fat(Option<Bits>),
    /// With a journal or without.
    Ext(bool),
    Jffs2,
    F2fs,
}

impl FsDescription {
    /// Bytes of a sector, as partition tables count.
    pub const SECTOR: u64 = 512;

    /// Takes `[fs]` out of a document; none if there is no file system.
    pub(crate) fn take(
        document: &mut Document,
    ) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("fs");
        let types = [
            ("none", None),
            ("fat", Some(Kind::Fat(None))),
            ("fat12", Some(Kind::Fat(Some(Bits::Fat12)))),
            ("fat16", Some(Kind::Fat(Some(Bits::Fat16)))),
            ("fat32", Some(Kind::Fat(Some(Bits::Fat32)))),
            ("ext2", Some(Kind::Ext(false))),
            ("ext3", Some(Kind::Ext(true))),
            ("jffs2", Some(Kind::Jffs2)),
            ("f2fs", Some(Kind::F2fs)),
        ];
        let Some(kind) = section.choice("type", &types, None)? else {
            let all = KEYS
                .iter()
                .flat_map(|(keys, _)| *keys)
                .chain(&PLACE_KEYS)
                .chain(&["sync", "barriers"]);
            section.inapplicable(
                &all.copied().collect::<Vec<_>>(),
                "a type of file system (fs.type)",
            )?;
            return Ok((None, section.finish()?));
        };
        kind.refuse_others(&mut section)?;
        let (volume, (start, size)) = match kind {
            Kind::Fat(bits) => {
                let mut fat = FatDescription::take_units(&mut section, bits)?;
                let place = place(&mut section)?;
                fat.take_rest(&mut section, place.0)?;
                (Volume::Fat(fat), place)
            }
            Kind::Ext(journal) => (
                Volume::Ext(ExtDescription::take(&mut section, journal)?),
                place(&mut section)?,
            ),
            Kind::F2fs => (
                Volume::F2fs(F2fsDescription::take(&mut section)?),
                place(&mut section)?,
            ),
            Kind::Jffs2 => (
                Volume::Jffs2(Jffs2Description::take(&mut section)?),
                (0, None),
            ),
        };
        let description = Self {
            volume,
            start,
            size,
            section: section.clone(),
        };
        Ok((Some(description), section.finish()?))
    }

    /// The page cache is as large as the memory has it.
    pub(crate) fn with_memory(mut self, memory: &MemoryDescription) -> Self {
        let caches = match &mut self.volume {
            Volume::Jffs2(jffs2) => {
                jffs2.cache_bytes = memory.clean_bytes();
                return self;
            }
            Volume::Fat(fat) => (&mut fat.mount.cache_bytes, &mut fat.mount.waiting_bytes_max),
            Volume::Ext(ext) => (&mut ext.mount.cache_bytes, &mut ext.mount.waiting_bytes_max),
            Volume::F2fs(f2fs) => (
                &mut f2fs.mount.cache_bytes,
                &mut f2fs.mount.waiting_bytes_max,
            ),
        };
        (*caches.0, *caches.1) = (memory.clean_bytes(), memory.waiting_bytes_max());
        self
    }

    /// Flash is a volume of UBI's: no block is ever half erased, and no spare area says so.
    pub(crate) fn on_volume(mut self) -> Self {
        if let Volume::Jffs2(jffs2) = &mut self.volume {
            jffs2.mount.medium = Some(nandlab_jffs2::Medium::Unmarked);
        }
        self
    }

    /// Whether its metadata can live in a non-volatile memory.
    pub(crate) fn knows_nvram(&self) -> bool {
        matches!(self.volume, Volume::Fat(_))
    }

    /// Whether it lies on flash itself, without a translation layer.
    pub fn is_on_flash(&self) -> bool {
        matches!(self.volume, Volume::Jffs2(_))
    }

    /// Makes the file system on bare flash.
    pub fn make_on_flash(&self, mtd: &mut dyn Mtd) -> Result<(), FsError> {
        match &self.volume {
            Volume::Jffs2(jffs2) => jffs2.make(mtd),
            _ => Err(self.not_for("flash without a translation layer")),
        }
    }

    /// Mounts what is on bare flash, for a processor if its work is to take time on a clock; the
    /// seed is for choices that Linux leaves to its clock.
    pub fn mount_on_flash<'a>(
        &self,
        mtd: Box<dyn Mtd + 'a>,
        seed: u64,
        driven: Option<(HostDescription, Clock)>,
    ) -> Result<Box<dyn FileSystem + 'a>, FsError> {
        match &self.volume {
            Volume::Jffs2(jffs2) => Ok(Box::new(PageCache::new(
                jffs2.mount(mtd, seed, driven)?,
                jffs2.cache_bytes,
            ))),
            _ => Err(self.not_for("flash without a translation layer")),
        }
    }

    fn not_for(&self, expected: &'static str) -> FsError {
        let found = match &self.volume {
            Volume::Fat(_) => "fat",
            Volume::Ext(_) => "ext",
            Volume::F2fs(_) => "f2fs",
            Volume::Jffs2(_) => "jffs2",
        };
        FsError::Medium { found, expected }
    }

    /// The file system's part of a disk.
    pub fn partition<D: BlockDevice>(&self, disk: D) -> Result<Partition<D>, FsError> {
        let g = *disk.geometry();
        let sector = u64::from(g.sector);
        let start = self.start * Self::SECTOR / sector;
        if !(self.start * Self::SECTOR).is_multiple_of(sector) || start >= g.sectors {
            let expected = format!(
                "a place on the disk of {} sectors of {sector} bytes",
                g.sectors
            );
            return Err(self
                .section
                .refuse("start-sector", &self.start.to_string(), &expected)
                .into());
        }
        let room = (g.sectors - start) * sector;
        let size = self.size.unwrap_or(room);
        if size == 0 || size > room || !size.is_multiple_of(sector) {
            let expected = format!(
                "whole sectors of {sector} bytes, {room} bytes at most behind the start sector"
            );
            return Err(self
                .section
                .refuse("size", &size.to_string(), &expected)
                .into());
        }
        Ok(Partition::new(disk, Lba(start), size / sector)?)
    }

    /// Makes the file system on its partition.
    pub fn make(&self, partition: &mut dyn BlockDevice) -> Result<(), FsError> {
        match &self.volume {
            Volume::Fat(fat) => fat.make(partition),
            Volume::Ext(ext) => ext.make(partition, &self.section),
            Volume::F2fs(f2fs) => f2fs.make(partition),
            Volume::Jffs2(_) => Err(self.not_for("a disk")),
        }
    }

    /// Mounts what is on the partition, with its metadata in `nvram` if there is one.
    pub fn mount<'a>(
        &self,
        partition: Box<dyn BlockDevice + 'a>,
        nvram: Option<Box<dyn BlockDevice + 'a>>,
    ) -> Result<Mounted<'a>, FsError> {
        match (&self.volume, nvram) {
            (Volume::Fat(fat), nvram) => fat.mount(partition, nvram),
            (Volume::Ext(ext), None) => ext.mount(partition),
            (Volume::F2fs(f2fs), None) => f2fs.mount(partition),
            (Volume::Ext(_) | Volume::F2fs(_), Some(_)) => Err(FsError::Nvram),
            (Volume::Jffs2(_), _) => Err(self.not_for("a disk")),
        }
    }
}

/// What file systems on a disk have.
const PLACE_KEYS: [&str; 2] = ["start-sector", "size"];
/// What only some file systems have, and which.
const KEYS: [(&[&str], &str); 5] = [
    (&fat::KEYS, "type = \"fat\""),
    (&ext::KEYS, "type = \"ext2\" or \"ext3\""),
    (&ext::JOURNAL_KEYS, "type = \"ext3\""),
    (&f2fs::KEYS, "type = \"f2fs\""),
    (&jffs2::KEYS, "type = \"jffs2\""),
];

impl Kind {
    /// Refuses keys that only other file systems understand.
    fn refuse_others(self, section: &mut Section) -> Result<(), DescriptionError> {
        let own: &[usize] = match self {
            Self::Fat(_) => &[0],
            Self::Ext(false) => &[1],
            Self::Ext(true) => &[1, 2],
            Self::F2fs => &[3],
            Self::Jffs2 => &[4],
        };
        for (_, (keys, needs)) in KEYS.iter().enumerate().filter(|(at, _)| !own.contains(at)) {
            section.inapplicable(keys, needs)?;
        }
        match self {
            Self::Jffs2 => section.inapplicable(
                &["start-sector", "size", "barriers"],
                "a file system on a disk",
            ),
            Self::F2fs => section.inapplicable(
                &["sync", "barriers"],
                "a file system that has such an option",
            ),
            Self::Fat(_) | Self::Ext(_) => Ok(()),
        }
    }
}

/// The partition: first sector and bytes.
fn place(section: &mut Section) -> Result<(u64, Option<u64>), DescriptionError> {
    let start = section.or("start-sector", 0u64)?;
    if start >> 32 != 0 {
        return Err(section.refuse("start-sector", &start.to_string(), "a sector below 2^32"));
    }
    Ok((start, section.given::<Size>("size")?.map(|size| size.0)))
}

#[cfg(test)]
mod tests;
