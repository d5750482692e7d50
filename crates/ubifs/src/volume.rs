//! UBIFS on UBI as a recipe for a volume, and what of it survives a power cut.

use crate::{Finding, Format, Lebs, Switches, UbiLebs, Ubifs};
use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use nandlab_mtd::Mtd;
use nandlab_ubi::{Options, Ubi, UbiError, VolumeSpec};
use nandlab_vfs::report::{Finding as _, Severity};
use nandlab_vfs::{Mounted, Nature, Promise, Volume, VolumeError};

/// A flash whose only UBI volume has UBIFS.
#[derive(Clone, Copy, Debug, Default)]
pub struct UbifsVolume {
    /// How UBI is attached.
    pub ubi: Options,
    /// How UBIFS is made.
    pub format: Format,
    /// UBI's thread erases and moves after each call that writes.
    pub works: bool,
    /// Only tests set these.
    #[doc(hidden)]
    pub switches: Switches,
}

/// The name of the UBI volume.
const NAME: &str = "ubifs";

impl UbifsVolume {
    /// A block of a file is there or not. Contents and inodes go to different heads of the journal.
    pub const NATURE: Nature = Nature {
        promise: Promise::Fsynced,
        sector: 1,
        block: 4096,
        is_unix: true,
        directories: &[],
        by_parts: true,
        late: true,
        lags: false,
    };

    /// Mounts the volume, and tells its type.
    pub fn mounted<M: Mtd>(&self, mtd: M) -> Result<Ubifs<UbiLebs<M>>, VolumeError> {
        let ubi = Ubi::attach(mtd, self.ubi)?;
        let id = ubi.find_volume(NAME).ok_or(UbiError::NoVolume(0))?;
        let mut lebs = UbiLebs::new(ubi, id)?;
        lebs.works = self.works;
        Ok(Ubifs::mount_switched(lebs, self.switches)?)
    }
}

impl<M: Mtd + 'static> Volume<M> for UbifsVolume {
    fn nature(&self, _: &M) -> Nature {
        Self::NATURE
    }

    fn format(&self, mtd: &mut M) -> Result<(), VolumeError> {
        let mut ubi = Ubi::format(mtd, self.ubi)?;
        let spec = VolumeSpec {
            name: NAME.into(),
            lebs: ubi.info().available,
            ..VolumeSpec::default()
        };
        let id = ubi.create_volume(&spec)?;
        let lebs = crate::format(UbiLebs::new(ubi, id)?, &self.format)?;
        lebs.into_ubi().detach()?;
        Ok(())
    }

    fn mount(&self, mtd: M) -> Result<Box<dyn Mounted<M>>, VolumeError> {
        Ok(Box::new(self.mounted(mtd)?))
    }
}

impl<L: Lebs> Ubifs<L> {
    /// Checks the volume, and returns what a power cut may not leave. The properties are those of
    /// the last commit.
    pub fn damages(&mut self) -> Vec<String> {
        let findings = self.check().findings;
        let is_damage = |finding: &&Finding| finding.severity() >= Severity::Waste;
        let damage = findings.iter().filter(is_damage);
        damage.map(ToString::to_string).collect()
    }
}

impl<M: Mtd> Mounted<M> for Ubifs<UbiLebs<M>> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, VolumeError> {
        Ok(self.damages())
    }

    fn into_medium(self: Box<Self>) -> M {
        self.into_lebs().into_ubi().into_medium()
    }
}
