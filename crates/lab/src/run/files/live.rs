//! Calls of real programs instead of a workload's: the stack of an experiment, mounted, in somebody
//! else's hands.
//!
//! The file system's and the device's work take virtual time as in a run; what the callers compute,
//! and when they call, is theirs.

use super::base::{self, Probe, Volume};
use super::stream::Stream;
use super::top::Top;
use crate::run::RunError;
use nandlab_ftl::Tally;
use nandlab_nand::Contents;
use nandlab_sim::Clock;
use nandlab_stack::{Description, Stack};
use nandlab_vfs::FileSystem;
use std::cell::RefCell;
use std::rc::Rc;

/// What is below a mounted file system, to be looked at while it is used.
pub struct Live<'a> {
    below: Box<dyn Probe + 'a>,
    clock: Clock,
}

impl Live<'_> {
    /// What the flash has done so far, by cause.
    pub fn tally(&self) -> Tally {
        self.below.tally()
    }

    /// The stack's virtual time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Builds the described stack and mounts its file system, which is new unless the chip was loaded
/// with one. Passes both to `hands`, which unmounts. Then saves the chip where the description
/// says.
///
/// The seed is for choices that Linux leaves to its clock.
pub fn live<T>(
    described: &Description,
    seed: u64,
    hands: impl FnOnce(&mut dyn FileSystem, &Live<'_>) -> T,
) -> Result<T, RunError> {
    if described.fs.is_none() {
        return Err(RunError::NoFileSystem);
    }
    if described.chip.spec.contents == Contents::Dropped {
        return Err(RunError::NoContents);
    }
    let mut stack = base::open(described)?;
    let outcome = with_mounted(&mut stack, described, seed, hands)?;
    base::close(stack)?;
    Ok(outcome)
}

fn with_mounted<T>(
    stack: &mut Stack,
    described: &Description,
    seed: u64,
    hands: impl FnOnce(&mut dyn FileSystem, &Live<'_>) -> T,
) -> Result<T, RunError> {
    let clock = stack.clock.clone();
    let stream = Rc::new(RefCell::new(Stream::new(false, 0, stack.sector())));
    let Volume { stack, below } = base::mount(stack, described, seed, &stream)?;
    let fs = stack.mounted.fs;
    let mut top = Top::new(fs, described.write_back, described.host.as_ref(), &clock);
    let live = Live { below, clock };
    let outcome = hands(top.fs(), &live);
    (stack.finish)()?;
    Ok(outcome)
}
