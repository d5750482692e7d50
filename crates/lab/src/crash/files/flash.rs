//! JFFS2 on flash itself, or on a volume of UBI's, as a subject; writing at once or behind the
//! write-back routine.

use super::oracle::{FilesOracle, Promise};
use super::volume::{Mounted, Nature};
use super::{Device, FileOp, go_on, perform, started};
use crate::crash::subject::{Failure, GoOn, Subject};
use nandlab_jffs2::{Finding, Jffs2, Severity};
use nandlab_mtd::Mtd;
use nandlab_nand::{Chip, ChipSpec};
use nandlab_pagecache::write_back::{Settings, WriteBack};
use nandlab_stack::BuildError;
use nandlab_stack::fs::{Jffs2Description, Worked};
use nandlab_stack::ubi::{OnChip, UbiDescription, UbiFlash};
use nandlab_vfs::Time;

/// A file system on a chip, as a subject.
#[derive(Clone, Debug)]
pub struct FlashFiles {
    /// The chip.
    pub chip: ChipSpec,
    /// UBI on it, if there is one.
    pub ubi: Option<UbiDescription>,
    /// The file system.
    pub fs: Jffs2Description,
    /// The routine in front of it.
    pub write_back: Option<Settings>,
    /// For choices that Linux leaves to its clock.
    pub seed: u64,
}

impl FlashFiles {
    /// What there is to know of it.
    pub fn nature(&self) -> Nature {
        Nature {
            promise: Promise::Fsynced,
            // A node is there or not; nodes of a long write are there from the first on.
            block: self.fs.node_bytes as usize,
            is_unix: true,
            directories: &[],
            by_parts: true,
            late: self.write_back.is_some(),
        }
    }

    fn mount(&self, chip: Chip) -> Result<Box<dyn Mounted<Chip>>, String> {
        match &self.ubi {
            None => self.mount_on(chip),
            Some(ubi) => self.mount_on(volume(ubi, chip).map_err(|e| e.to_string())?),
        }
    }

    fn mount_on<M: OnChip + 'static>(&self, chip: M) -> Result<Box<dyn Mounted<Chip>>, String> {
        let worked = self
            .fs
            .mount(chip, self.seed, None)
            .map_err(|e| e.to_string())?;
        Ok(match self.write_back {
            None => Box::new(worked),
            // Nothing takes time here: a pass ends with its threshold.
            Some(settings) => Box::new(WriteBack::new(worked, never as fn() -> Time, settings)),
        })
    }
}

fn volume(ubi: &UbiDescription, chip: Chip) -> Result<UbiFlash<Chip>, BuildError> {
    UbiFlash::new(ubi, ubi.attach(chip, None)?, None)
}

fn never() -> Time {
    Time::MIN
}

impl Subject for FlashFiles {
    type Device = Device<Chip>;
    type Op = FileOp;
    type Oracle = FilesOracle;

    fn formatted(&self) -> Result<(Chip, FilesOracle), String> {
        let mut chip = Chip::new(self.chip.clone()).map_err(|e| e.to_string())?;
        match &self.ubi {
            None => self.fs.make(&mut chip).map_err(|e| e.to_string())?,
            // A new volume reads as erased, which is an empty file system.
            Some(ubi) => {
                chip = ubi
                    .format(chip)
                    .map_err(|e| e.to_string())?
                    .detach()
                    .map_err(|e| e.to_string())?
            }
        }
        Ok((chip, FilesOracle::new(self.nature(), 1)))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, String> {
        let now = started(&chip);
        Device::new(self.mount(chip)?, now)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_disk()
    }

    fn apply(
        &self,
        device: &mut Self::Device,
        op: &FileOp,
        _: &FilesOracle,
    ) -> Result<(), Failure> {
        perform(device, op, |chip| self.mount(chip))
    }

    fn go_on(&self, device: &Self::Device, going_on: GoOn) -> Vec<FileOp> {
        go_on(device, going_on)
    }
}

fn damage<M: Mtd>(fs: &mut Jffs2<M>) -> Result<Vec<String>, String> {
    let report = fs.check().map_err(|e| e.to_string())?;
    // A torn node is what a cut leaves, and does not count.
    let matters = |finding: &&Finding| {
        finding.severity() == Severity::Damage && !matches!(finding, Finding::Node { .. })
    };
    Ok(report
        .findings
        .iter()
        .filter(matters)
        .map(ToString::to_string)
        .collect())
}

impl<M: OnChip> Mounted<Chip> for Worked<M> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, String> {
        damage(self.inner_mut())
    }

    fn goes_on(&mut self) -> bool {
        true
    }

    fn into_disk(self: Box<Self>) -> Chip {
        self.into_inner().into_mtd().into_chip()
    }
}

impl<M: OnChip, C: Fn() -> Time> Mounted<Chip> for WriteBack<Worked<M>, C> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, String> {
        // What waits is no business of the medium.
        damage(self.inner_mut().inner_mut())
    }

    fn goes_on(&mut self) -> bool {
        true
    }

    fn into_disk(self: Box<Self>) -> Chip {
        self.into_inner().into_inner().into_mtd().into_chip()
    }
}
