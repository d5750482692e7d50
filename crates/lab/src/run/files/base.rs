//! What a file system stands on while a program runs: a disk, or flash itself.

use super::stream::Stream;
use crate::Experiment;
use crate::run::chip_map::Blocks;
use crate::run::driven::{Costs, Driven};
use crate::run::driven_flash::DrivenFlash;
use crate::run::flash::Snapshot;
use crate::run::{Progress, RunError, Server};
use nandlab_block::BlockDevice;
use nandlab_ftl::Tally;
use nandlab_mtd::Mtd;
use nandlab_nand::Chip;
use nandlab_sim::Clock;
use nandlab_stack::{
    BareFlash, BuildError, Description, FsDescription, Parts, Scheme, Stack, UbiFlash,
};
use nandlab_vfs::FileSystem;
use std::cell::RefCell;
use std::rc::Rc;

/// What is below the file system.
pub enum Base {
    /// A translation layer.
    Disk(Box<Stack>),
    /// None.
    Flash(Box<BareFlash>),
}

/// What is below a mounted file system, to be looked at.
pub enum Beneath<'a> {
    Disk(Driven<'a>),
    /// With UBI's volume on it, if that is where the file system lies.
    Flash(DrivenFlash<'a>, Option<UbiFlash<DrivenFlash<'a>>>),
}

impl Beneath<'_> {
    /// What the flash has done so far.
    pub fn tally(&self) -> Tally {
        match self {
            Self::Disk(disk) => *disk.device().tally(),
            Self::Flash(flash, _) => flash.tally(),
        }
    }

    /// The flash at this moment.
    pub fn snapshot(&self) -> Snapshot {
        match self {
            Self::Disk(disk) => Snapshot::of(&*disk.device()),
            Self::Flash(flash, _) => flash.snapshot(),
        }
    }

    /// The file system is unmounted: what lies between it and the chip finishes its work.
    pub fn settle(&self) -> Result<(), RunError> {
        match self {
            Self::Flash(_, Some(volume)) => Ok(volume.settle().map_err(BuildError::from)?),
            _ => Ok(()),
        }
    }
}

/// A mounted file system, its parts, and what is below.
pub struct Volume<'a> {
    pub fs: Box<dyn FileSystem + 'a>,
    pub parts: Parts,
    pub below: Beneath<'a>,
}

impl Base {
    /// Builds what the experiment describes, and makes the file system unless what was loaded is to
    /// stay.
    pub fn open(described: &Description, fs: &FsDescription) -> Result<Self, RunError> {
        if fs.is_on_flash() {
            return Self::flash(described, fs);
        }
        let mut stack = Box::new(Stack::build(described)?);
        if stack.was_formatted(described) {
            fs.make(&mut fs.partition(&mut stack.device)?)?;
        }
        Ok(Self::Disk(stack))
    }

    fn flash(described: &Description, fs: &FsDescription) -> Result<Self, RunError> {
        let mut flash = Box::new(BareFlash::build(described)?);
        if flash.is_to_be_formatted(described) {
            flash.make(described, fs)?;
        }
        Ok(Self::Flash(flash))
    }

    /// Builds what the experiment describes, writes what is to be there before, and makes the file
    /// system.
    pub fn build(
        experiment: &Experiment,
        fs: &FsDescription,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Self, RunError> {
        if fs.is_on_flash() {
            return Self::flash(&experiment.stack, fs);
        }
        let mut stack = Box::new(Stack::build(&experiment.stack)?);
        Server::new(&mut *stack.device, &stack.clock, experiment)
            .precondition(&experiment.run, watch)?;
        fs.make(&mut fs.partition(&mut stack.device)?)?;
        Ok(Self::Disk(stack))
    }

    /// The virtual time of it all.
    pub fn clock(&self) -> Clock {
        match self {
            Self::Disk(stack) => stack.clock.clone(),
            Self::Flash(flash) => flash.clock.clone(),
        }
    }

    /// Bytes of a sector; of flash, of a page.
    pub fn sector(&self) -> u64 {
        match self {
            Self::Disk(stack) => stack.device.geometry().sector.into(),
            Self::Flash(flash) => flash.chip.spec().geometry.page.into(),
        }
    }

    /// Mounts, with the processor's costs.
    pub fn mount<'a>(
        &'a mut self,
        described: &Description,
        fs: &FsDescription,
        seed: u64,
        stream: &Rc<RefCell<Stream>>,
    ) -> Result<Volume<'a>, RunError> {
        let clock = self.clock();
        match self {
            Self::Disk(stack) => {
                let seen = stream.clone();
                let disk = Driven::new(
                    &mut *stack.device,
                    &clock,
                    Costs::of(described),
                    Box::new(move |event| seen.borrow_mut().see(event)),
                );
                let nvram = stack
                    .nvram
                    .as_mut()
                    .map(|nvram| Box::new(nvram) as Box<dyn BlockDevice>);
                let mounted = fs.mount(Box::new(fs.partition(disk.clone())?), nvram)?;
                Ok(Volume {
                    fs: mounted.fs,
                    parts: mounted.parts,
                    below: Beneath::Disk(disk),
                })
            }
            Self::Flash(flash) => {
                let below = DrivenFlash::new(&mut flash.chip, &clock, described.host.is_some());
                let driven = described.host.clone().map(|host| (host, clock));
                let volume = match &described.ftl.scheme {
                    Scheme::Ubi(ubi) => {
                        let device = ubi.attach(
                            below.clone(),
                            driven.as_ref().map(|(host, clock)| (host, clock)),
                        )?;
                        Some(UbiFlash::new(ubi, device, driven.clone())?)
                    }
                    _ => None,
                };
                let mtd: Box<dyn Mtd> = match &volume {
                    Some(volume) => Box::new(volume.clone()),
                    None => Box::new(below.clone()),
                };
                let fs = fs.mount_on_flash(mtd, seed, driven)?;
                Ok(Volume {
                    fs,
                    parts: Parts::Untold { sectors: 0 },
                    below: Beneath::Flash(below, volume),
                })
            }
        }
    }

    /// Mounts once more, without costs, lets somebody look, and unmounts.
    pub fn look_again(
        &mut self,
        experiment: &Experiment,
        fs: &FsDescription,
        look: impl FnOnce(&mut dyn FileSystem) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let (mut mounted, volume) = match self {
            Self::Disk(stack) => {
                let nvram = stack
                    .nvram
                    .as_mut()
                    .map(|nvram| Box::new(nvram) as Box<dyn BlockDevice>);
                (
                    fs.mount(Box::new(fs.partition(&mut stack.device)?), nvram)?
                        .fs,
                    None,
                )
            }
            Self::Flash(flash) => match &experiment.stack.ftl.scheme {
                Scheme::Ubi(ubi) => {
                    let volume = UbiFlash::new(ubi, ubi.attach(&mut flash.chip, None)?, None)?;
                    (
                        fs.mount_on_flash(Box::new(volume.clone()), experiment.run.seed, None)?,
                        Some(volume),
                    )
                }
                _ => (
                    fs.mount_on_flash(Box::new(&mut flash.chip), experiment.run.seed, None)?,
                    None,
                ),
            },
        };
        look(&mut *mounted)?;
        mounted.unmount().map_err(RunError::Unmount)?;
        Ok(volume.map_or(Ok(()), |volume| volume.settle().map_err(BuildError::from))?)
    }

    /// Looks at the blocks, and puts it all away.
    pub fn close(self) -> Result<(Blocks, Chip), RunError> {
        Ok(match self {
            Self::Disk(stack) => (Blocks::of(&*stack.device), stack.close()?),
            Self::Flash(flash) => (Blocks::of_chip(&flash.chip), flash.close()?),
        })
    }
}
