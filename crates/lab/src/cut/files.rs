//! What an experiment describes: its file system as a volume on a part of its disk, and its calls
//! on files as operations.

use super::PrepareError;
use nandlab_block::BlockDevice;
use nandlab_crash::FileOp;
use nandlab_crash::files::Path;
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::Chip;
use nandlab_sim::mix;
use nandlab_stack::fs::{DiskPart, Recipe};
use nandlab_stack::layer::ChipFlash;
use nandlab_stack::{FlashLayer, FsDescription, Medium, Translation};
use nandlab_vfs::{Mounted, Nature, Volume, VolumeError};
use nandlab_workload::files::{FileCall, FileCalls};
use std::sync::Arc;

/// The part of a described disk on which the file system lies.
#[derive(Clone, Debug)]
pub(super) struct Partitioned {
    pub layer: Translation,
    pub fs: FsDescription,
}

impl Layer<Chip> for Partitioned {
    type Device = DiskPart;

    fn format(&self, chip: Chip) -> Result<DiskPart, LayerError> {
        Ok(Box::new(self.fs.partition(self.layer.format(chip)?)?))
    }

    fn attach(&self, chip: Chip) -> Result<DiskPart, LayerError> {
        Ok(Box::new(self.fs.partition(self.layer.attach(chip)?)?))
    }

    fn power_off(&self, device: DiskPart) -> Chip {
        self.layer
            .power_off(device.into_device().expect("made from a device here"))
    }
}

/// The described layer as flash.
#[derive(Clone, Debug)]
pub(super) struct OnFlash(pub Arc<dyn FlashLayer>);

impl Layer<Chip> for OnFlash {
    type Device = Box<dyn ChipFlash>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(self.0.format_chip(chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        Ok(self.0.attach_chip(chip)?)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_chip().expect("made from a chip here")
    }
}

/// A described file system on a disk.
pub(super) struct Described {
    pub fs: FsDescription,
    pub recipe: Box<dyn Volume<DiskPart> + Sync>,
}

impl Volume<DiskPart> for Described {
    fn nature(&self, disk: &DiskPart) -> Nature {
        self.recipe.nature(disk)
    }

    /// As `run` makes it, with sizes that depend on the disk.
    fn format(&self, disk: &mut DiskPart) -> Result<(), VolumeError> {
        self.fs.make(Medium::Disk(Box::new(&mut *disk)))?;
        Ok(disk.flush()?)
    }

    fn mount(&self, disk: DiskPart) -> Result<Box<dyn Mounted<DiskPart>>, VolumeError> {
        self.recipe.mount(disk)
    }
}

/// The file system's recipe. Fails if it offers none.
pub(super) fn recipe(
    fs: &FsDescription,
    seed: u64,
    on_volume: bool,
) -> Result<Recipe, PrepareError> {
    fs.layer
        .recipe(seed, on_volume)
        .ok_or_else(|| PrepareError::Setting {
            key: "fs.type",
            found: fs.name().into(),
            expected: "a file system that says what it promises after a power cut",
        })
}

/// The same with its metadata in the memory beside the chip.
pub(super) fn recipe_with_nvram(fs: &FsDescription) -> Result<Recipe, PrepareError> {
    fs.layer
        .recipe_with_nvram()
        .ok_or_else(|| PrepareError::Setting {
            key: "nvram.holds",
            found: "metadata".into(),
            expected: "a file system that says what it promises with its metadata there",
        })
}

/// The first `limit` changes and syncs of a stream of calls. What only looks, or only computes, is
/// left out.
pub(super) fn file_operations(calls: &mut dyn FileCalls, limit: usize) -> Vec<FileOp> {
    let mut ops = Vec::new();
    while ops.len() < limit
        && let Some(call) = calls.next()
    {
        let path: Path = call
            .file()
            .map_or("".into(), |file| calls.name(file).into());
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        ops.extend(match call {
            FileCall::Create { .. } => Some(FileOp::Create { path }),
            FileCall::Write {
                file,
                offset,
                length,
                version,
            } => {
                let seed = mix(mix(file.0.into(), version.into()), offset);
                Some(FileOp::Overwrite {
                    path,
                    offset: small(offset),
                    length: small(length),
                    seed,
                })
            }
            FileCall::Truncate { length, .. } => Some(FileOp::Truncate {
                path,
                length: small(length),
            }),
            FileCall::Fsync { .. } => Some(FileOp::Fsync { path }),
            FileCall::Fdatasync { .. } => Some(FileOp::Fdatasync { path }),
            FileCall::Remove { .. } => Some(FileOp::Unlink { path }),
            FileCall::Sync => Some(FileOp::Sync),
            FileCall::Open { .. }
            | FileCall::Close { .. }
            | FileCall::Read { .. }
            | FileCall::Compute { .. } => None,
        });
    }
    ops
}
