//! FAT as a recipe for a volume, and what of it survives a power cut.

use crate::{Fat, Finding, Format, Options, Severity};
use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{Mounted, Nature, Promise, Volume, VolumeError};

/// A volume of FAT with its options.
#[derive(Clone, Debug, Default)]
pub struct FatVolume {
    /// How it is made.
    pub format: Format,
    /// How it is mounted.
    pub options: Options,
}

impl<D: BlockDevice + 'static> Volume<D> for FatVolume {
    fn nature(&self, disk: &D) -> Nature {
        Nature {
            promise: Promise::Fsynced,
            sector: disk.geometry().sector as usize,
            block: 512,
            is_unix: false,
            directories: &[],
            by_parts: false,
            late: false,
            lags: false,
        }
    }

    fn format(&self, disk: &mut D) -> Result<(), VolumeError> {
        crate::format(disk, &self.format)?;
        Ok(disk.flush()?)
    }

    fn mount(&self, disk: D) -> Result<Box<dyn Mounted<D>>, VolumeError> {
        Ok(Box::new(Fat::mount(disk, self.options)?))
    }
}

impl<D: BlockDevice, N: BlockDevice> Mounted<D> for Fat<D, N> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, VolumeError> {
        let findings = self.check()?.findings;
        let damage = findings
            .iter()
            .filter(|finding| finding.severity() == Severity::Damage);
        Ok(damage.map(ToString::to_string).collect())
    }

    /// A cut within a rename may leave both names. One has to be removed before the volume is
    /// written.
    fn goes_on(&mut self) -> bool {
        let is_double = |finding: &Finding| matches!(finding, Finding::TwoNames { .. });
        self.check()
            .is_ok_and(|report| !report.findings.iter().any(is_double))
    }

    fn into_medium(self: Box<Self>) -> D {
        self.into_parts().0
    }
}
