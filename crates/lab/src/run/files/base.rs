//! What a file system stands on while a program runs, behind a driver that takes the processor's
//! time.
//!
//! *Knows nothing of* whether it is a disk or flash: the stack decides that, and the driver of
//! either kind can be watched ([`Probe`]).

use super::stream::Stream;
use crate::Experiment;
use crate::run::chip_map::Blocks;
use crate::run::driven::{Costs, Driven, Seen};
use crate::run::driven_flash::DrivenFlash;
use crate::run::snapshot::Snapshot;
use crate::run::{Progress, RunError, precondition};
use nandlab_block::BlockDevice;
use nandlab_ftl::Tally;
use nandlab_nand::Chip;
use nandlab_sim::Clock;
use nandlab_stack::layer::ChipFlash;
use nandlab_stack::{Below, Description, Device, Direct, Driver, MountedStack, Processor, Stack};
use nandlab_vfs::FileSystem;
use std::cell::RefCell;
use std::rc::Rc;

/// What lies below a mounted file system, to be looked at.
pub trait Probe {
    /// Flash operations so far, by cause.
    fn tally(&self) -> Tally;

    /// The flash at this moment.
    fn snapshot(&self) -> Snapshot;

    /// The last operations on the chip, oldest first.
    fn recent(&self) -> Vec<String>;
}

impl Probe for Driven<'_> {
    fn tally(&self) -> Tally {
        *self.device().tally()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::of(&*self.device())
    }

    fn recent(&self) -> Vec<String> {
        self.device().medium().recent()
    }
}

impl Probe for DrivenFlash<'_> {
    fn tally(&self) -> Tally {
        Self::tally(self)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn recent(&self) -> Vec<String> {
        Self::recent(self)
    }
}

/// The driver of a run: it takes the processor's time, and shows every request to the stream.
struct Watched<'a> {
    costs: Option<Costs>,
    processor: Option<Processor>,
    clock: Clock,
    stream: Rc<RefCell<Stream>>,
    /// What it drives, once it has been asked for.
    probe: Option<Box<dyn Probe + 'a>>,
}

impl<'a> Driver<'a> for Watched<'a> {
    fn disk(&mut self, device: &'a mut dyn Device) -> Box<dyn BlockDevice + 'a> {
        let seen = self.stream.clone();
        let watcher = Box::new(move |event: &Seen<'_>| seen.borrow_mut().see(event));
        let disk = Driven::new(device, &self.clock, self.costs, watcher);
        self.probe = Some(Box::new(disk.clone()));
        Box::new(disk)
    }

    fn flash(&mut self, chip: &'a mut Chip) -> Box<dyn ChipFlash + 'a> {
        let flash = DrivenFlash::new(chip, &self.clock, self.processor.is_some());
        self.probe = Some(Box::new(flash.clone()));
        Box::new(flash)
    }

    fn processor(&self) -> Option<Processor> {
        self.processor.clone()
    }
}

/// A mounted file system, and what is below.
pub struct Volume<'a> {
    pub stack: MountedStack<'a>,
    pub below: Box<dyn Probe + 'a>,
}

/// Builds what is described, and makes the file system unless what was loaded is to stay.
pub fn open(described: &Description) -> Result<Stack, RunError> {
    let mut stack = Stack::build(described)?;
    if stack.is_new() {
        stack.make_fs()?;
    }
    Ok(stack)
}

/// Builds what the experiment describes, writes what is to be there before, and makes the file
/// system. On flash itself nothing is written before.
pub fn build(experiment: &Experiment, watch: &mut dyn FnMut(Progress)) -> Result<Stack, RunError> {
    let mut stack = Stack::build(&experiment.stack)?;
    let clock = stack.clock.clone();
    if let Below::Disk(device) = &mut stack.below {
        precondition(&mut **device, &clock, &experiment.run, watch)?;
    } else if !stack.is_new() {
        return Ok(stack);
    }
    stack.make_fs()?;
    Ok(stack)
}

/// Mounts, with the processor's costs.
pub fn mount<'a>(
    stack: &'a mut Stack,
    described: &Description,
    seed: u64,
    stream: &Rc<RefCell<Stream>>,
) -> Result<Volume<'a>, RunError> {
    let clock = stack.clock.clone();
    let processor = described.host.clone().map(|host| Processor {
        host,
        clock: clock.clone(),
    });
    let mut driver = Watched {
        costs: Costs::of(described),
        processor,
        clock,
        stream: stream.clone(),
        probe: None,
    };
    let stack = stack.mount(seed, &mut driver)?;
    let below = driver
        .probe
        .expect("the stack has asked for a disk or flash");
    Ok(Volume { stack, below })
}

/// Mounts once more, without costs, lets the caller look, and unmounts.
pub fn look_again(
    stack: &mut Stack,
    seed: u64,
    look: impl FnOnce(&mut dyn FileSystem) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let MountedStack {
        mut mounted,
        finish,
    } = stack.mount(seed, &mut Direct)?;
    let fs = &mut *mounted.fs;
    let looked = look(fs).and_then(|()| fs.unmount().map_err(RunError::Unmount));
    looked.map_err(|error| error.explained(fs, Vec::new()))?;
    Ok(finish()?)
}

/// Looks at the blocks, and puts it all away.
pub fn close(stack: Stack) -> Result<(Blocks, Chip), RunError> {
    let blocks = match &stack.below {
        Below::Disk(device) => Blocks::of(&**device),
        Below::Flash(chip) => Blocks::of_chip(chip),
    };
    Ok((blocks, stack.close()?))
}
