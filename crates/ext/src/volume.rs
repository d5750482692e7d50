//! ext2, ext3 and ext4 as recipes for a volume, and what of each survives a power cut.

use crate::{Ext, Finding, Format, Mode, Options, Severity};
use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{Mounted, Nature, Promise, Volume, VolumeError};

/// A volume of ext2, ext3 or ext4 with its options.
#[derive(Clone, Debug, Default)]
pub struct ExtVolume {
    /// How it is made.
    pub format: Format,
    /// How it is mounted.
    pub options: Options,
}

impl ExtVolume {
    fn promise(&self) -> Promise {
        match self.options.mode {
            _ if !self.format.journal => Promise::Fsynced,
            Mode::Unjournaled => Promise::Fsynced,
            Mode::Journal => Promise::Atomic,
            Mode::Ordered => Promise::Ordered,
            Mode::Writeback => Promise::Metadata,
        }
    }
}

impl<D: BlockDevice + 'static> Volume<D> for ExtVolume {
    fn nature(&self, disk: &D) -> Nature {
        // As `format` chooses.
        let usual = if disk.geometry().bytes() < 512 << 20 {
            1024
        } else {
            4096
        };
        Nature {
            promise: self.promise(),
            sector: disk.geometry().sector as usize,
            block: self.format.block.unwrap_or(usual) as usize,
            is_unix: true,
            directories: &["lost+found"],
            by_parts: false,
            late: false,
            lags: self.options.delayed_allocation,
        }
    }

    fn format(&self, disk: &mut D) -> Result<(), VolumeError> {
        crate::format(&mut *disk, &self.format)?;
        Ok(disk.flush()?)
    }

    /// Without a journal, only a volume that was unmounted is mounted for writing. Any other needs
    /// a check first, as ext2 demands.
    fn mount(&self, disk: D) -> Result<Box<dyn Mounted<D>>, VolumeError> {
        if self.promise() != Promise::Fsynced {
            return Ok(Box::new(Ext::mount(disk, self.options)?));
        }
        let read_only = Options {
            read_only: true,
            ..self.options
        };
        let looked_at = Ext::mount(disk, read_only)?;
        if looked_at.is_marked_in_use() {
            return Ok(Box::new(looked_at));
        }
        Ok(Box::new(Ext::mount(looked_at.into_device(), self.options)?))
    }
}

impl<D: BlockDevice> Mounted<D> for Ext<D> {
    fn damage(&mut self, promise: Promise) -> Result<Vec<String>, VolumeError> {
        let findings = self.check()?.findings;
        let damage = findings.iter().filter(|finding| match promise {
            Promise::Fsynced => finding.is_loss(),
            Promise::Atomic | Promise::Ordered | Promise::Metadata => {
                finding.severity() > Severity::Note
            }
        });
        Ok(damage.map(ToString::to_string).collect())
    }

    fn goes_on(&mut self) -> bool {
        !self.is_read_only()
    }

    fn into_medium(self: Box<Self>) -> D {
        self.into_device()
    }
}

impl Finding {
    /// Whether no repair is possible without a loss. ext2 promises that no power cut leaves such a
    /// finding.
    pub fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::CrossLink { .. }
                | Self::Stray { .. }
                | Self::FreeBlock { .. }
                | Self::FreeInode { .. }
                | Self::Unreadable { .. }
        )
    }
}
