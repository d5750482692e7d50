//! The program as a file system: `[fs]` with `type = "program"`.

use crate::mounted::Files;
use crate::process::Process;
use crate::wire;
use nandlab_mtd::Mtd;
use nandlab_stack::fs::{
    FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted, Recipe, Undivided, flash,
};
use nandlab_stack::layer::ChipFlash;
use nandlab_stack::{DescriptionError, Section};
use nandlab_vfs::{self as vfs, Nature, Promise, Volume, VolumeError};
use std::path::PathBuf;
use std::sync::Arc;

/// The name of the file system, and the value of `fs.type`.
const NAME: &str = "program";

/// A program that is a file system on flash.
#[derive(Clone, Debug)]
pub struct FileProgram {
    process: Arc<Process>,
    promise: Promise,
}

impl FileProgram {
    /// The program in this file. It starts with the first file system.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            process: Arc::new(Process::new(path.into())),
            promise: Promise::Fsynced,
        }
    }
}

impl FsKind for FileProgram {
    fn names(&self) -> Vec<&'static str> {
        vec![NAME]
    }

    fn keys(&self) -> Vec<KeyGroup> {
        vec![KeyGroup {
            keys: &["promise"],
            types: &[NAME],
            needs: "type = \"program\"",
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
        let promises = [
            ("fsynced", Promise::Fsynced),
            ("ordered", Promise::Ordered),
            ("atomic", Promise::Atomic),
        ];
        let promise = section.choice("promise", &promises, self.promise)?;
        let process = self.process.clone();
        Ok((Arc::new(Self { process, promise }), FsPlace::default()))
    }
}

impl FsLayer for FileProgram {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_on_flash(&self) -> bool {
        true
    }

    fn formats_volumes(&self) -> bool {
        true
    }

    fn make(&self, medium: Medium<'_>, _: &Section) -> Result<(), FsError> {
        let flash = flash(medium, NAME)?;
        Files::begin(&self.process, flash, wire::FORMAT).map_err(FsError::make)?;
        Ok(())
    }

    fn mount<'a>(&self, medium: Medium<'a>, _: Machine<'a>) -> Result<Mounted<'a>, FsError> {
        let flash = flash(medium, NAME)?;
        let fs = Files::begin(&self.process, flash, wire::ATTACH).map_err(FsError::mount)?;
        Ok(Mounted {
            fs: Box::new(fs),
            parts: Arc::new(Undivided { sectors: 0 }),
        })
    }

    fn recipe(&self, _: u64, _: bool) -> Option<Recipe> {
        Some(Recipe::Flash(Box::new(self.clone())))
    }
}

impl Volume<Box<dyn ChipFlash>> for FileProgram {
    /// A write is a call for each 64 KiB.
    fn nature(&self, flash: &Box<dyn ChipFlash>) -> Nature {
        Nature {
            promise: self.promise,
            sector: 1,
            block: flash.geometry().page as usize,
            is_unix: false,
            directories: &[],
            by_parts: true,
            late: false,
            lags: false,
        }
    }

    fn format(&self, flash: &mut Box<dyn ChipFlash>) -> Result<(), VolumeError> {
        let lent: Box<dyn ChipFlash + '_> = Box::new(&mut **flash);
        Files::begin(&self.process, lent, wire::FORMAT)?;
        Ok(())
    }

    fn mount(
        &self,
        flash: Box<dyn ChipFlash>,
    ) -> Result<Box<dyn vfs::Mounted<Box<dyn ChipFlash>>>, VolumeError> {
        Ok(Box::new(Files::begin(&self.process, flash, wire::ATTACH)?))
    }
}

impl vfs::Mounted<Box<dyn ChipFlash>> for Files<Box<dyn ChipFlash>> {
    /// The protocol has no check.
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, VolumeError> {
        Ok(Vec::new())
    }

    fn into_medium(self: Box<Self>) -> Box<dyn ChipFlash> {
        self.into_flash()
    }
}
