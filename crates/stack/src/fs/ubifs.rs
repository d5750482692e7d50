//! UBIFS in `[fs]`, on a volume of UBI.

use super::{
    FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted, Recipe, Undivided, flash,
};
use crate::layer::ChipFlash;
use crate::{DescriptionError, Section};
use nandlab_pagecache::PageCache;
use nandlab_ubifs::{Format, LebError, LebShape, Lebs, Ubifs, UbifsVolume, format};
use nandlab_vfs::{Nature, Promise, Volume, VolumeError};
use std::sync::Arc;

/// Bytes of clean pages kept in memory where no memory is described, as with JFFS2.
const CACHE_BYTES: u64 = 1 << 20;

pub(super) struct UbifsKind;

impl FsKind for UbifsKind {
    fn names(&self) -> Vec<&'static str> {
        vec!["ubifs"]
    }

    fn keys(&self) -> Vec<KeyGroup> {
        vec![KeyGroup {
            keys: &["compr", "double-hash", "fanout"],
            types: &["ubifs"],
            needs: "type = \"ubifs\"",
        }]
    }

    fn shared(&self) -> &'static [&'static str] {
        &[]
    }

    fn take(
        &self,
        _: &str,
        section: &mut Section,
    ) -> Result<(Arc<dyn FsLayer>, FsPlace), DescriptionError> {
        let ubifs = UbifsDescription::take(section)?;
        Ok((Arc::new(ubifs), FsPlace::default()))
    }
}

/// The settings of UBIFS in a description.
#[derive(Clone, Copy, Debug)]
pub struct UbifsDescription {
    /// How it is made.
    pub format: Format,
}

impl UbifsDescription {
    fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let usual = Format::default();
        let compressors = [("lzo", 1), ("zlib", 2), ("zstd", 3), ("none", 0)];
        let compressor = section.choice("compr", &compressors, usual.compressor)?;
        let version = if section.or("double-hash", false)? {
            5
        } else {
            4
        };
        let fits = |fanout: &u32| (3..=256).contains(fanout);
        let fanout = section.checked("fanout", usual.fanout, fits, "3 to 256")?;
        let format = Format {
            version,
            compressor,
            fanout,
            ..usual
        };
        Ok(Self { format })
    }
}

impl FsLayer for UbifsDescription {
    fn name(&self) -> &'static str {
        "ubifs"
    }

    fn is_on_flash(&self) -> bool {
        true
    }

    fn formats_volumes(&self) -> bool {
        true
    }

    fn make(&self, medium: Medium<'_>, _: &Section) -> Result<(), FsError> {
        let lebs = VolumeLebs::new(flash(medium, self.name())?)?;
        format(lebs, &self.format).map_err(FsError::make)?;
        Ok(())
    }

    fn mount<'a>(&self, medium: Medium<'a>, machine: Machine<'a>) -> Result<Mounted<'a>, FsError> {
        let lebs = VolumeLebs::new(flash(medium, self.name())?)?;
        let ubifs = Ubifs::mount_writable(lebs).map_err(FsError::mount)?;
        let clean = machine.memory.map(|memory| memory.clean_bytes());
        Ok(Mounted {
            fs: Box::new(PageCache::new(ubifs, clean.unwrap_or(CACHE_BYTES))),
            parts: Arc::new(Undivided { sectors: 0 }),
        })
    }

    fn recipe(&self, _: u64, _: bool) -> Option<Recipe> {
        Some(Recipe::Flash(Box::new(*self)))
    }
}

/// The logical blocks of a volume.
struct VolumeLebs<'a> {
    flash: Box<dyn ChipFlash + 'a>,
    shape: LebShape,
}

impl<'a> VolumeLebs<'a> {
    fn new(mut flash: Box<dyn ChipFlash + 'a>) -> Result<Self, FsError> {
        match flash.lebs().map(|lebs| lebs.shape()) {
            Some(shape) => Ok(Self { flash, shape }),
            None => Err(FsError::Medium {
                found: "ubifs",
                expected: "flash without UBI (ftl.scheme = \"ubi\")",
            }),
        }
    }

    fn lebs(&mut self) -> Result<&mut dyn Lebs, LebError> {
        self.flash.lebs().ok_or(LebError::ReadOnly)
    }
}

impl Lebs for VolumeLebs<'_> {
    fn shape(&self) -> LebShape {
        self.shape
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.lebs()?.read(lnum, offs, buf)
    }

    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.lebs()?.write(lnum, offs, bytes)
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.lebs()?.change(lnum, bytes)
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        self.lebs()?.unmap(lnum)
    }

    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        self.lebs()?.renew(lnum)
    }

    fn sync(&mut self) -> Result<(), LebError> {
        self.lebs()?.sync()
    }
}

/// For the crash explorer.
impl Volume<Box<dyn ChipFlash>> for UbifsDescription {
    fn nature(&self, _: &Box<dyn ChipFlash>) -> Nature {
        UbifsVolume::NATURE
    }

    fn format(&self, flash: &mut Box<dyn ChipFlash>) -> Result<(), VolumeError> {
        format(VolumeLebs::new(Box::new(&mut **flash))?, &self.format)?;
        Ok(())
    }

    fn mount(
        &self,
        flash: Box<dyn ChipFlash>,
    ) -> Result<Box<dyn nandlab_vfs::Mounted<Box<dyn ChipFlash>>>, VolumeError> {
        Ok(Box::new(Ubifs::mount_writable(VolumeLebs::new(flash)?)?))
    }
}

impl nandlab_vfs::Mounted<Box<dyn ChipFlash>> for Ubifs<VolumeLebs<'static>> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, VolumeError> {
        Ok(self.damages())
    }

    fn into_medium(self: Box<Self>) -> Box<dyn ChipFlash> {
        self.into_lebs().flash
    }
}
