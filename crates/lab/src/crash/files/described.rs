//! What an experiment describes: its file system as a volume, and its calls on files as operations.

use super::op::{FileOp, Path};
use super::volume::{ExtVolume, F2fsVolume, FatVolume, Mounted, Nature, Volume};
use nandlab_block::BlockDevice;
use nandlab_sim::mix;
use nandlab_stack::{FsDescription, fs::Volume as Kind};
use nandlab_workload::files::{FileCall, FileCalls};

/// A described file system.
#[derive(Clone, Debug)]
pub struct DescribedVolume {
    fs: FsDescription,
    /// Bytes of its partition.
    bytes: u64,
}

impl DescribedVolume {
    /// On a partition of so many bytes.
    pub(in crate::crash) fn new(fs: FsDescription, bytes: u64) -> Self {
        Self { fs, bytes }
    }
}

impl Volume for DescribedVolume {
    fn nature(&self) -> Nature {
        match &self.fs.volume {
            // Formatting refuses JFFS2 first: it has no disk.
            Kind::Jffs2(_) | Kind::Fat(_) => FatVolume::default().nature(),
            Kind::F2fs(f2fs) => F2fsVolume {
                format: f2fs.format.clone(),
                options: f2fs.mount,
            }
            .nature(),
            Kind::Ext(ext) => {
                // mke2fs's choice.
                let usual = if self.bytes < 512 << 20 { 1024 } else { 4096 };
                let block = ext.format.block.unwrap_or(usual) as usize;
                Nature {
                    block,
                    ..ExtVolume {
                        format: ext.format.clone(),
                        options: ext.mount,
                    }
                    .nature()
                }
            }
        }
    }

    fn format(&self, disk: &mut dyn BlockDevice) -> Result<(), String> {
        self.fs.make(disk).map_err(|e| e.to_string())?;
        disk.flush().map_err(|e| e.to_string())
    }

    fn mount<'a, D: BlockDevice + 'a>(&self, disk: D) -> Result<Box<dyn Mounted<D> + 'a>, String> {
        match &self.fs.volume {
            Kind::Fat(fat) => FatVolume {
                format: fat.format.clone(),
                options: fat.mount,
            }
            .mount(disk),
            Kind::Ext(ext) => ExtVolume {
                format: ext.format.clone(),
                options: ext.mount,
            }
            .mount(disk),
            Kind::Jffs2(_) => {
                Err("fs.type: found \"jffs2\", expected a file system on a disk".into())
            }
            Kind::F2fs(f2fs) => F2fsVolume {
                format: f2fs.format.clone(),
                options: f2fs.mount,
            }
            .mount(disk),
        }
    }
}

/// The first `limit` changes and syncs of a stream of calls. What only looks, or only computes, is
/// left out.
pub(in crate::crash) fn file_operations(calls: &mut dyn FileCalls, limit: usize) -> Vec<FileOp> {
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
