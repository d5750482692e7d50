//! What an experiment describes: its file system as a volume on a part of its disk, and its calls
//! on files as operations.

use nandlab_block::{BlockDevice, Partition};
use nandlab_crash::FileOp;
use nandlab_crash::files::Path;
use nandlab_ext::ExtVolume;
use nandlab_f2fs::F2fsVolume;
use nandlab_fat::FatVolume;
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::Chip;
use nandlab_sim::mix;
use nandlab_stack::fs::Volume as Kind;
use nandlab_stack::{Device, FsDescription, Scheme};
use nandlab_vfs::{Mounted, Nature, Volume, VolumeError};
use nandlab_workload::files::{FileCall, FileCalls};

type Part = Partition<Box<dyn Device>>;

/// The part of a described disk on which the file system lies.
#[derive(Clone, Debug)]
pub(super) struct Partitioned {
    pub scheme: Scheme,
    pub fs: FsDescription,
}

impl Layer<Chip> for Partitioned {
    type Device = Part;

    fn format(&self, chip: Chip) -> Result<Part, LayerError> {
        Ok(self.fs.partition(self.scheme.format(chip)?)?)
    }

    fn attach(&self, chip: Chip) -> Result<Part, LayerError> {
        Ok(self.fs.partition(self.scheme.attach(chip)?)?)
    }

    fn power_off(&self, device: Part) -> Chip {
        self.scheme.power_off(device.into_inner())
    }
}

/// A described file system on a disk.
#[derive(Clone, Debug)]
pub(super) struct Described(pub FsDescription);

impl Described {
    fn recipe(&self) -> Box<dyn Volume<Part>> {
        match self.0.volume.clone() {
            Kind::Fat(fat) => Box::new(FatVolume {
                format: fat.format,
                options: fat.mount,
            }),
            Kind::Ext(ext) => Box::new(ExtVolume {
                format: ext.format,
                options: ext.mount,
            }),
            Kind::F2fs(f2fs) => Box::new(F2fsVolume {
                format: f2fs.format,
                options: f2fs.mount,
            }),
            Kind::Jffs2(_) => unreachable!("lies on flash"),
        }
    }
}

impl Volume<Part> for Described {
    fn nature(&self, disk: &Part) -> Nature {
        self.recipe().nature(disk)
    }

    /// As `run` makes it, with sizes that depend on the disk.
    fn format(&self, disk: &mut Part) -> Result<(), VolumeError> {
        self.0.make(disk)?;
        Ok(disk.flush()?)
    }

    fn mount(&self, disk: Part) -> Result<Box<dyn Mounted<Part>>, VolumeError> {
        self.recipe().mount(disk)
    }
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
