//! FAT in `[fs]`.

use super::{
    DiskPart, FsDescription, FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted,
    Recipe, disk,
};
use crate::beside::BesideChip;
use crate::value::Size;
use crate::{DescriptionError, Section};
use nandlab_fat::{Bits, Fat, FatVolume, Format, Options};
use nandlab_vfs::{self as vfs, Nature, Volume, VolumeError};
use std::sync::Arc;

/// The values of `fs.type`. Without a number mkfs chooses.
const TYPES: [&str; 4] = ["fat", "fat12", "fat16", "fat32"];

pub(super) struct FatKind;

impl FsKind for FatKind {
    fn names(&self) -> Vec<&'static str> {
        TYPES.to_vec()
    }

    fn keys(&self) -> Vec<KeyGroup> {
        vec![KeyGroup {
            keys: &["cluster", "root-entries", "align"],
            types: &TYPES,
            needs: "type = \"fat\"",
        }]
    }

    fn shared(&self) -> &'static [&'static str] {
        &["start-sector", "size", "sync", "barriers"]
    }

    fn take(
        &self,
        name: &str,
        section: &mut Section,
    ) -> Result<(Arc<dyn FsLayer>, FsPlace), DescriptionError> {
        let bits = match name {
            "fat12" => Some(Bits::Fat12),
            "fat16" => Some(Bits::Fat16),
            "fat32" => Some(Bits::Fat32),
            _ => None,
        };
        let mut fat = FatDescription::take_units(section, bits)?;
        let place = FsPlace::take(section)?;
        fat.take_rest(section, place.start)?;
        Ok((Arc::new(fat), place))
    }
}

/// The settings of FAT in a description.
#[derive(Clone, Debug)]
pub struct FatDescription {
    /// How it is made.
    pub format: Format,
    /// How it is mounted.
    pub mount: Options,
}

impl FatDescription {
    /// Takes what stands before the partition, in the order of settings.
    pub(super) fn take_units(
        section: &mut Section,
        bits: Option<Bits>,
    ) -> Result<Self, DescriptionError> {
        const SECTOR: u64 = FsDescription::SECTOR;
        let fine =
            |Size(bytes): &Size| bytes.is_power_of_two() && (SECTOR..=128 * SECTOR).contains(bytes);
        let cluster = section.given::<Size>("cluster")?;
        if let Some(size) = cluster.filter(|size| !fine(size)) {
            return Err(section.refuse(
                "cluster",
                &size.0.to_string(),
                "a power of two from 512 to 65536 bytes",
            ));
        }
        let root_entries = section.given("root-entries")?;
        let cluster_sectors = cluster.map(|Size(bytes)| (bytes / SECTOR) as u32);
        let format = Format {
            bits,
            cluster_sectors,
            root_entries,
            ..Format::default()
        };
        Ok(Self {
            format,
            mount: Options::default(),
        })
    }

    /// And what follows it.
    pub(super) fn take_rest(
        &mut self,
        section: &mut Section,
        start: u64,
    ) -> Result<(), DescriptionError> {
        self.mount.barriers = section.or("barriers", self.mount.barriers)?;
        self.mount.sync = section.or("sync", self.mount.sync)?;
        self.format.hidden_sectors = start as u32;
        self.format.align = section.or("align", self.format.align)?;
        Ok(())
    }
}

impl FatDescription {
    fn volume(&self) -> FatVolume {
        FatVolume {
            format: self.format.clone(),
            options: self.mount,
        }
    }
}

impl FsLayer for FatDescription {
    fn name(&self) -> &'static str {
        "fat"
    }

    fn knows_nvram(&self) -> bool {
        true
    }

    fn make(&self, medium: Medium<'_>, _: &Section) -> Result<(), FsError> {
        let mut disk = disk(medium, self.name())?;
        nandlab_fat::format(&mut disk, &self.format).map_err(FsError::make)?;
        Ok(())
    }

    fn mount<'a>(&self, medium: Medium<'a>, machine: Machine<'a>) -> Result<Mounted<'a>, FsError> {
        let mut options = self.mount;
        if let Some(memory) = machine.memory {
            options.cache_bytes = memory.clean_bytes();
            options.dirty_bytes_max = memory.dirty_bytes_max();
        }
        let disk = disk(medium, self.name())?;
        let Some(nvram) = machine.nvram else {
            let fat = Fat::mount(disk, options).map_err(FsError::mount)?;
            let parts = Arc::new(*fat.layout());
            let fs = Box::new(fat);
            return Ok(Mounted { parts, fs });
        };
        let fat = Fat::mount_with_nvram(disk, nvram, options).map_err(FsError::mount)?;
        let parts = Arc::new(*fat.layout());
        let fs = Box::new(fat);
        Ok(Mounted { parts, fs })
    }

    fn recipe(&self, _: u64, _: bool) -> Option<Recipe> {
        Some(Recipe::Disk(Box::new(self.volume())))
    }

    fn recipe_with_nvram(&self) -> Option<Recipe> {
        Some(Recipe::Disk(Box::new(NvramVolume(self.volume()))))
    }
}

/// A volume whose metadata is in the memory beside the chip.
struct NvramVolume(FatVolume);

impl Volume<DiskPart> for NvramVolume {
    fn nature(&self, disk: &DiskPart) -> Nature {
        self.0.nature(disk)
    }

    fn format(&self, disk: &mut DiskPart) -> Result<(), VolumeError> {
        self.0.format(disk)
    }

    fn mount(&self, disk: DiskPart) -> Result<Box<dyn vfs::Mounted<DiskPart>>, VolumeError> {
        let nvram = BesideChip::of(disk.beside())?;
        let fat = Fat::mount_with_nvram(disk, nvram, self.0.options)?;
        Ok(Box::new(fat))
    }
}
