//! File systems as the explorer needs them: made, mounted, checked, and taken off their disk.

use super::oracle::Promise;
use nandlab_block::BlockDevice;
use nandlab_ext::{Ext, Finding, Mode};
use nandlab_f2fs::F2fs;
use nandlab_fat::Fat;
use nandlab_vfs::FileSystem;

/// What the judge has to know of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// What it promises.
    pub promise: Promise,
    /// Bytes of the pieces that it allocates.
    pub block: usize,
    /// Files may have several names, and holes.
    pub is_unix: bool,
    /// Directories in one that has just been made.
    pub directories: &'static [&'static str],
    /// A write may be there in part, its file as long as that.
    pub by_parts: bool,
    /// Names come before contents that wait: a file that was not fsynced may be there without what
    /// was written to it.
    pub late: bool,
}

/// A kind of file system, with its options.
pub trait Volume: Sync {
    /// What there is to know of it.
    fn nature(&self) -> Nature;

    /// Makes one on a disk. Durable on return.
    fn format(&self, disk: &mut dyn BlockDevice) -> Result<(), String>;

    /// Comes back, however it was left.
    fn mount<'a, D: BlockDevice + 'a>(&self, disk: D) -> Result<Box<dyn Mounted<D> + 'a>, String>;
}

/// A mounted file system on the disk `D`.
pub trait Mounted<D>: FileSystem {
    /// Says what a check finds that a power cut may not leave where this is promised.
    fn damage(&mut self, promise: Promise) -> Result<Vec<String>, String>;

    /// Whether it may be written although the power went: otherwise a check that mends comes first.
    fn goes_on(&mut self) -> bool;

    /// The disk as it is now, without a further write.
    fn into_disk(self: Box<Self>) -> D;
}

/// Volumes of FAT.
#[derive(Clone, Debug, Default)]
pub struct FatVolume {
    /// How it is made.
    pub format: nandlab_fat::Format,
    /// How it is mounted.
    pub options: nandlab_fat::Options,
}

impl Volume for FatVolume {
    fn nature(&self) -> Nature {
        Nature {
            promise: Promise::Fsynced,
            block: 512,
            is_unix: false,
            directories: &[],
            by_parts: false,
            late: false,
        }
    }

    fn format(&self, mut disk: &mut dyn BlockDevice) -> Result<(), String> {
        nandlab_fat::format(&mut disk, &self.format).map_err(|e| e.to_string())?;
        disk.flush().map_err(|e| e.to_string())
    }

    fn mount<'a, D: BlockDevice + 'a>(&self, disk: D) -> Result<Box<dyn Mounted<D> + 'a>, String> {
        Ok(Box::new(
            Fat::mount(disk, self.options).map_err(|e| e.to_string())?,
        ))
    }
}

/// What the order of a commit leaves under two names: a file that was being renamed. It must be
/// mended before the volume is written.
fn is_double(finding: &nandlab_fat::Finding) -> bool {
    matches!(finding, nandlab_fat::Finding::TwoNames { .. })
}

impl<D: BlockDevice> Mounted<D> for Fat<D> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, String> {
        let report = self.check().map_err(|e| e.to_string())?;
        let damage =
            |finding: &&nandlab_fat::Finding| finding.severity() == nandlab_fat::Severity::Damage;
        Ok(report
            .findings
            .iter()
            .filter(damage)
            .map(ToString::to_string)
            .collect())
    }

    fn goes_on(&mut self) -> bool {
        self.check()
            .is_ok_and(|report| !report.findings.iter().any(is_double))
    }

    fn into_disk(self: Box<Self>) -> D {
        self.into_parts().0
    }
}

/// Volumes of ext2 and ext3.
#[derive(Clone, Debug, Default)]
pub struct ExtVolume {
    /// How it is made.
    pub format: nandlab_ext::Format,
    /// How it is mounted.
    pub options: nandlab_ext::Options,
}

impl Volume for ExtVolume {
    fn nature(&self) -> Nature {
        let promise = match self.options.mode {
            _ if !self.format.journal => Promise::Fsynced,
            Mode::Unjournaled => Promise::Fsynced,
            Mode::Journal => Promise::Atomic,
            Mode::Ordered => Promise::Ordered,
            Mode::Writeback => Promise::Structure,
        };
        Nature {
            promise,
            block: self.format.block.unwrap_or(1024) as usize,
            is_unix: true,
            directories: &["lost+found"],
            by_parts: false,
            late: false,
        }
    }

    fn format(&self, mut disk: &mut dyn BlockDevice) -> Result<(), String> {
        nandlab_ext::format(&mut disk, &self.format).map_err(|e| e.to_string())?;
        disk.flush().map_err(|e| e.to_string())
    }

    /// Without a journal only a volume that was unmounted is written; others are for a check first,
    /// as ext2 asks.
    fn mount<'a, D: BlockDevice + 'a>(&self, disk: D) -> Result<Box<dyn Mounted<D> + 'a>, String> {
        let mount = |disk, options| Ext::mount(disk, options).map_err(|e| e.to_string());
        if self.nature().promise != Promise::Fsynced {
            return Ok(Box::new(mount(disk, self.options)?));
        }
        let looked_at = mount(
            disk,
            nandlab_ext::Options {
                read_only: true,
                ..self.options
            },
        )?;
        if looked_at.is_marked_in_use() {
            return Ok(Box::new(looked_at));
        }
        Ok(Box::new(mount(looked_at.into_device(), self.options)?))
    }
}

impl<D: BlockDevice> Mounted<D> for Ext<D> {
    fn damage(&mut self, promise: Promise) -> Result<Vec<String>, String> {
        use Finding::{CrossLink, FreeBlock, FreeInode, Stray, Unreadable};
        let report = self.check().map_err(|e| e.to_string())?;
        let is_damage = |finding: &&Finding| match promise {
            Promise::Fsynced => {
                matches!(
                    finding,
                    CrossLink { .. }
                        | Stray { .. }
                        | FreeBlock { .. }
                        | FreeInode { .. }
                        | Unreadable { .. }
                )
            }
            Promise::Atomic | Promise::Ordered | Promise::Structure => {
                finding.severity() > nandlab_ext::Severity::Note
            }
        };
        Ok(report
            .findings
            .iter()
            .filter(is_damage)
            .map(ToString::to_string)
            .collect())
    }

    fn goes_on(&mut self) -> bool {
        !self.is_read_only()
    }

    fn into_disk(self: Box<Self>) -> D {
        self.into_device()
    }
}

/// Volumes of F2FS.
#[derive(Clone, Debug, Default)]
pub struct F2fsVolume {
    /// How it is made.
    pub format: nandlab_f2fs::Format,
    /// How it is mounted.
    pub options: nandlab_f2fs::Options,
}

impl Volume for F2fsVolume {
    fn nature(&self) -> Nature {
        // A checkpoint takes names and lengths down, not the contents that wait: as in Linux.
        Nature {
            promise: Promise::Fsynced,
            block: 4096,
            is_unix: true,
            directories: &[],
            by_parts: false,
            late: true,
        }
    }

    fn format(&self, mut disk: &mut dyn BlockDevice) -> Result<(), String> {
        nandlab_f2fs::format(&mut disk, &self.format).map_err(|e| e.to_string())?;
        disk.flush().map_err(|e| e.to_string())
    }

    fn mount<'a, D: BlockDevice + 'a>(&self, disk: D) -> Result<Box<dyn Mounted<D> + 'a>, String> {
        Ok(Box::new(
            F2fs::mount(disk, self.options).map_err(|e| e.to_string())?,
        ))
    }
}

impl<D: BlockDevice> Mounted<D> for F2fs<D> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, String> {
        let report = self.check().map_err(|e| e.to_string())?;
        Ok(report
            .findings
            .iter()
            .filter(|finding| finding.severity() == nandlab_f2fs::Severity::Damage)
            .map(ToString::to_string)
            .collect())
    }

    fn goes_on(&mut self) -> bool {
        true
    }

    fn into_disk(self: Box<Self>) -> D {
        self.into_device()
    }
}
