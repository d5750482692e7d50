//! The `[fs]` section: which file system lies on the stack, and where.
//!
//! *Promises.* A file system from another crate takes part in everything that ours do. It needs an
//! [`FsLayer`] that makes and mounts it, and an [`FsKind`] that reads its keys.
//! [`Registry::with_file_system`](crate::Registry::with_file_system) adds the kind. For one on a
//! disk, [`DiskFs`] is all of that in one trait.

mod ext;
mod f2fs;
mod fat;
mod jffs2;
mod own;
mod parts;
mod structure;
mod ubifs;

pub use ext::ExtDescription;
pub use f2fs::F2fsDescription;
pub use fat::FatDescription;
pub use jffs2::{Jffs2Description, Worked};
pub use nandlab_fat::Layout as FatLayout;
pub use own::{DiskFs, DiskFsKind};
pub use parts::{ExtParts, Parts, Region, Undivided};
pub use ubifs::UbifsDescription;

use crate::layer::{ChipFlash, Device, Processor};
use crate::value::Size;
use crate::{DescriptionError, Document, HostDescription, MemoryDescription, Section, Setting};
use nandlab_block::{BlockDevice, BlockError, Lba, Partition};
use nandlab_nand::Beside;
use nandlab_sim::Nanos;
use nandlab_vfs::{FileSystem, Volume};
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A file system as described.
#[derive(Clone, Debug)]
pub struct FsDescription {
    /// How it is made and mounted.
    pub layer: Arc<dyn FsLayer>,
    /// The partition that the file system lies on.
    pub place: FsPlace,
    /// To say where a value stands that the disk turns out not to allow.
    section: Section,
}

/// The partition of a file system on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsPlace {
    /// Its first sector of 512 bytes.
    pub start: u64,
    /// Its bytes. `None`: to the end of the disk.
    pub size: Option<u64>,
}

impl FsPlace {
    /// Takes `start-sector` and `size`.
    pub fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let start = section.or("start-sector", 0u64)?;
        if start >> 32 != 0 {
            return Err(section.refuse("start-sector", &start.to_string(), "a sector below 2^32"));
        }
        let size = section.given::<Size>("size")?.map(|size| size.0);
        Ok(Self { start, size })
    }
}

/// A disk below a file system. Every disk is a box of this type, so that each file system is
/// compiled once.
pub trait Disk: BlockDevice {
    /// The device of which this is a part, unless the disk is lent.
    fn into_device(self: Box<Self>) -> Option<Box<dyn Device>>;

    /// The memory beside the chip of that device.
    fn beside(&self) -> Option<Beside> {
        None
    }
}

impl Disk for Partition<Box<dyn Device>> {
    fn into_device(self: Box<Self>) -> Option<Box<dyn Device>> {
        Some(self.into_inner())
    }

    fn beside(&self) -> Option<Beside> {
        self.inner().medium().beside()
    }
}

impl Disk for Partition<Box<dyn BlockDevice + '_>> {
    fn into_device(self: Box<Self>) -> Option<Box<dyn Device>> {
        None
    }
}

impl<D: BlockDevice + ?Sized> Disk for &mut D {
    fn into_device(self: Box<Self>) -> Option<Box<dyn Device>> {
        None
    }
}

/// What a file system lies on.
pub enum Medium<'a> {
    /// A disk, or a partition of one.
    Disk(Box<dyn Disk + 'a>),
    /// Raw flash without a translation layer.
    Flash(Box<dyn ChipFlash + 'a>),
}

/// The machine in which a file system is mounted.
#[derive(Default)]
pub struct Machine<'a> {
    /// For choices that Linux leaves to its clock.
    pub seed: u64,
    /// The processor whose time the file system's own work takes, if any.
    pub processor: Option<Processor>,
    /// The memory that limits caches, if any.
    pub memory: Option<MemoryDescription>,
    /// Memory that survives power cuts, for the file system's metadata.
    pub nvram: Option<Box<dyn BlockDevice + 'a>>,
    /// The flash is a managed volume (see [`FlashLayer::is_volume`](crate::layer::FlashLayer)).
    pub on_volume: bool,
}

/// A mounted file system, and where its parts lie.
pub struct Mounted<'a> {
    /// The file system, ready for calls.
    pub fs: Box<dyn FileSystem + 'a>,
    /// Its parts, in sectors of its partition.
    pub parts: Arc<dyn Parts>,
}

/// Why a file system's own code failed.
pub type FsFailure = Box<dyn Error + Send + Sync>;

/// A file system that cannot be made or mounted.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// The description has none.
    #[error("fs.type: found \"none\", expected a file system")]
    None,
    /// Its partition is not on the disk.
    #[error(transparent)]
    Place(#[from] DescriptionError),
    /// The disk below refused a request.
    #[error("fs: {0}")]
    Device(#[from] BlockError),
    /// It cannot be made so.
    #[error("fs: mkfs: {0}")]
    Make(#[source] FsFailure),
    /// It cannot be mounted.
    #[error("fs: mount: {0}")]
    Mount(#[source] FsFailure),
    /// It is for the other kind of medium.
    #[error("fs.type: found \"{found}\", expected a file system for {expected}")]
    Medium {
        /// The medium that the stack offers.
        found: &'static str,
        /// The medium that the file system needs.
        expected: &'static str,
    },
    /// Its metadata cannot be kept in a memory.
    #[error(
        "nvram.holds: found \"metadata\", expected a file system of type \"fat\", the only one that keeps its metadata there"
    )]
    Nvram,
}

impl FsError {
    /// The error of a format.
    pub fn make(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Make(Box::new(error))
    }

    /// The error of a mount.
    pub fn mount(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Mount(Box::new(error))
    }
}

/// A file system with its options.
pub trait FsLayer: Any + fmt::Debug + Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Whether it lies on flash itself rather than on a disk.
    fn is_on_flash(&self) -> bool {
        false
    }

    /// Whether a new managed volume has to be formatted, too
    /// (see [`FlashLayer::is_volume`](crate::layer::FlashLayer)).
    fn formats_volumes(&self) -> bool {
        false
    }

    /// Whether its metadata can live in memory that survives power cuts.
    fn knows_nvram(&self) -> bool {
        false
    }

    /// What each written page costs the processor besides the call.
    fn page_cost(&self, _host: &HostDescription) -> Nanos {
        0
    }

    /// Makes the file system. `section` names the place of a value that the medium does not allow.
    fn make(&self, medium: Medium<'_>, section: &Section) -> Result<(), FsError>;

    /// Mounts the file system.
    fn mount<'a>(&self, medium: Medium<'a>, machine: Machine<'a>) -> Result<Mounted<'a>, FsError>;

    /// The file system as the crash explorer takes it, with its promise. `None`: it is measured,
    /// but not cut. The arguments are those of a [`Machine`].
    fn recipe(&self, _seed: u64, _on_volume: bool) -> Option<Recipe> {
        None
    }

    /// The same with its metadata in the memory beside the chip, if it [can](Self::knows_nvram).
    fn recipe_with_nvram(&self) -> Option<Recipe> {
        None
    }
}

/// A part of a disk of the stack.
pub type DiskPart = Box<dyn Disk>;

/// A file system for the crash explorer.
pub enum Recipe {
    /// On a part of a disk.
    Disk(Box<dyn Volume<DiskPart> + Sync>),
    /// A volume that lies on flash.
    Flash(Box<dyn Volume<Box<dyn ChipFlash>> + Sync>),
}

/// A kind of file system that `fs.type` can name.
pub trait FsKind: Send + Sync {
    /// The values of `fs.type`.
    fn names(&self) -> Vec<&'static str>;

    /// Keys that only this kind takes, in groups, each with the condition that messages give.
    fn keys(&self) -> Vec<KeyGroup> {
        Vec::new()
    }

    /// Which of [`SHARED_KEYS`] it takes.
    fn shared(&self) -> &'static [&'static str];

    /// Takes its keys. `name` is the value of `fs.type`.
    fn take(
        &self,
        name: &str,
        section: &mut Section,
    ) -> Result<(Arc<dyn FsLayer>, FsPlace), DescriptionError>;
}

/// Keys of `[fs]` that some values of `fs.type` take.
#[derive(Clone, Copy, Debug)]
pub struct KeyGroup {
    /// The names of the keys.
    pub keys: &'static [&'static str],
    /// The values of `fs.type` that take them.
    pub types: &'static [&'static str],
    /// The condition, as messages give it.
    pub needs: &'static str,
}

/// Keys that several kinds of file systems take, with the condition that messages give.
pub const SHARED_KEYS: [(&str, &str); 4] = [
    ("start-sector", "a file system on a disk"),
    ("size", "a file system on a disk"),
    ("sync", "a file system that has such an option"),
    ("barriers", "a file system that has such an option"),
];

/// Our own file systems, in the order in which messages list them.
pub(crate) fn standard() -> Vec<Arc<dyn FsKind>> {
    vec![
        Arc::new(fat::FatKind),
        Arc::new(ext::ExtKind),
        Arc::new(jffs2::Jffs2Kind),
        Arc::new(f2fs::F2fsKind),
        Arc::new(ubifs::UbifsKind),
    ]
}

impl FsDescription {
    /// Bytes of a sector, as partition tables count.
    pub const SECTOR: u64 = 512;

    /// Takes `[fs]` out of a document. `None` if there is no file system.
    pub(crate) fn take(
        document: &mut Document,
        kinds: &[Arc<dyn FsKind>],
    ) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("fs");
        let mut types = vec![("none", None)];
        for kind in kinds {
            let names = kind.names().into_iter();
            types.extend(names.map(|name| (name, Some(Chosen { kind, name }))));
        }
        let Some(Chosen { kind, name }) = section.choice("type", &types, None)? else {
            refuse_all(&mut section, kinds)?;
            return Ok((None, section.finish()?));
        };
        refuse_others(&mut section, kinds, &**kind, name)?;
        let (layer, place) = kind.take(name, &mut section)?;
        let description = Self {
            layer,
            place,
            section: section.clone(),
        };
        Ok((Some(description), section.finish()?))
    }

    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        self.layer.name()
    }

    /// Whether it lies on flash itself, without a translation layer.
    pub fn is_on_flash(&self) -> bool {
        self.layer.is_on_flash()
    }

    /// The file system's part of a disk.
    pub fn partition<D: BlockDevice>(&self, disk: D) -> Result<Partition<D>, FsError> {
        let geometry = *disk.geometry();
        let sector = u64::from(geometry.sector);
        let first = self.place.start * Self::SECTOR;
        let start = first / sector;
        if !first.is_multiple_of(sector) || start >= geometry.sectors {
            return Err(self.beyond(&geometry));
        }
        let space = (geometry.sectors - start) * sector;
        let size = self.place.size.unwrap_or(space);
        if size == 0 || size > space || !size.is_multiple_of(sector) {
            let expected = format!(
                "whole sectors of {sector} bytes, {space} bytes at most behind the start sector"
            );
            let found = size.to_string();
            return Err(self.section.refuse("size", &found, &expected).into());
        }
        Ok(Partition::new(disk, Lba(start), size / sector)?)
    }

    /// The error for a start sector that is no place on the disk.
    fn beyond(&self, geometry: &nandlab_block::BlockGeometry) -> FsError {
        let sectors = geometry.sectors;
        let sector = geometry.sector;
        let expected = format!("a place on the disk of {sectors} sectors of {sector} bytes");
        let found = self.place.start.to_string();
        let section = &self.section;
        section.refuse("start-sector", &found, &expected).into()
    }

    /// Makes the file system.
    pub fn make(&self, medium: Medium<'_>) -> Result<(), FsError> {
        self.layer.make(medium, &self.section)
    }

    /// Mounts the file system.
    pub fn mount<'a>(
        &self,
        medium: Medium<'a>,
        machine: Machine<'a>,
    ) -> Result<Mounted<'a>, FsError> {
        if machine.nvram.is_some() && !self.layer.knows_nvram() {
            return Err(FsError::Nvram);
        }
        self.layer.mount(medium, machine)
    }
}

/// A kind, and the name by which it was chosen.
#[derive(Clone, Copy)]
struct Chosen<'k> {
    kind: &'k Arc<dyn FsKind>,
    name: &'static str,
}

impl PartialEq for Chosen<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The disk, for a file system that lies on one.
pub(crate) fn disk<'a>(
    medium: Medium<'a>,
    found: &'static str,
) -> Result<Box<dyn Disk + 'a>, FsError> {
    match medium {
        Medium::Disk(disk) => Ok(disk),
        Medium::Flash(_) => Err(FsError::Medium {
            found,
            expected: "flash without a translation layer",
        }),
    }
}

/// The flash, for a file system that lies on flash. `found` is the name of the file system.
pub fn flash<'a>(
    medium: Medium<'a>,
    found: &'static str,
) -> Result<Box<dyn ChipFlash + 'a>, FsError> {
    match medium {
        Medium::Flash(flash) => Ok(flash),
        Medium::Disk(_) => Err(FsError::Medium {
            found,
            expected: "a disk",
        }),
    }
}

/// Refuses every key, because there is no file system.
fn refuse_all(section: &mut Section, kinds: &[Arc<dyn FsKind>]) -> Result<(), DescriptionError> {
    let own = kinds.iter().flat_map(|kind| kind.keys());
    let own = own.flat_map(|group| group.keys.iter().copied());
    let all: Vec<&'static str> = own.chain(SHARED_KEYS.map(|(key, _)| key)).collect();
    section.inapplicable(&all, "a type of file system (fs.type)")
}

/// Refuses keys that the chosen file system does not take.
fn refuse_others(
    section: &mut Section,
    kinds: &[Arc<dyn FsKind>],
    chosen: &dyn FsKind,
    name: &str,
) -> Result<(), DescriptionError> {
    for group in kinds.iter().flat_map(|kind| kind.keys()) {
        if !group.types.contains(&name) {
            section.inapplicable(group.keys, group.needs)?;
        }
    }
    for (key, needs) in SHARED_KEYS {
        if !chosen.shared().contains(&key) {
            section.inapplicable(&[key], needs)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
