//! F2FS as a recipe for a volume, and what of it survives a power cut.

use crate::{F2fs, Format, Options, Severity};
use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{Mounted, Nature, Promise, Volume, VolumeError};

/// A volume of F2FS with its options.
#[derive(Clone, Debug, Default)]
pub struct F2fsVolume {
    /// How it is made.
    pub format: Format,
    /// How it is mounted.
    pub options: Options,
}

impl<D: BlockDevice + 'static> Volume<D> for F2fsVolume {
    /// A checkpoint makes names and lengths durable, but not dirty contents, as in Linux.
    fn nature(&self, disk: &D) -> Nature {
        Nature {
            promise: Promise::Fsynced,
            sector: disk.geometry().sector as usize,
            block: 4096,
            is_unix: true,
            directories: &[],
            by_parts: false,
            late: true,
            lags: false,
        }
    }

    fn format(&self, disk: &mut D) -> Result<(), VolumeError> {
        crate::format(&mut *disk, &self.format)?;
        Ok(disk.flush()?)
    }

    fn mount(&self, disk: D) -> Result<Box<dyn Mounted<D>>, VolumeError> {
        Ok(Box::new(F2fs::mount(disk, self.options)?))
    }
}

impl<D: BlockDevice> Mounted<D> for F2fs<D> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, VolumeError> {
        let findings = self.check()?.findings;
        let damage = findings
            .iter()
            .filter(|finding| finding.severity() == Severity::Damage);
        Ok(damage.map(ToString::to_string).collect())
    }

    fn into_medium(self: Box<Self>) -> D {
        self.into_device()
    }
}
