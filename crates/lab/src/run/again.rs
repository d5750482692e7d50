//! The requests of a run on files once more, on another stack, without the file system: for sweeps,
//! since what a file system asks of its disk does not depend on what lies below.

use super::driven::{Costs, Driven};
use super::error::Stopped;
use super::flash::{causes, merges};
use super::snapshot::Snapshot;
use super::{FilesOutcome, Progress, RunError, precondition};
use crate::Experiment;
use crate::result::{FlashRow, Merges};
use nandlab_block::{BlockDevice as _, Lba};
use nandlab_ftl::Tally;
use nandlab_nand::Contents;
use nandlab_sim::Nanos;
use nandlab_stack::{BuildError, Stack};
use nandlab_workload::{Op, Request};

/// What came of it.
#[derive(Clone, Debug)]
pub struct Again {
    /// From the first request to the end of the last, without the calls' own costs, ns.
    pub ns: Nanos,
    /// Flash operations by cause.
    pub causes: Vec<FlashRow>,
    /// Merges and folds of the translation layer.
    pub merges: Merges,
    /// Everything the layer did, formatting and filling included.
    pub tally: Tally,
}

/// Serves the requests of `run`, from the mount on, on the stack of `experiment` behind the same
/// mkfs; page contents are kept only for UBI, whose headers are contents.
pub fn run_again(experiment: &Experiment, run: &FilesOutcome) -> Result<Again, RunError> {
    if run.phases.iter().any(|phase| phase.below.remaps > 0) {
        return Err(RunError::Remapped);
    }
    let mut experiment = experiment.clone();
    if !experiment.stack.ftl.layer.needs_contents {
        experiment.stack.chip.spec.contents = Contents::Dropped;
    }
    let fs = experiment.stack.fs.clone().ok_or(RunError::NoFileSystem)?;
    let mut stack = Stack::build(&experiment.stack)?;
    let clock = stack.clock.clone();
    let sector = stack.sector();
    let options = &experiment.run;
    precondition(stack.disk()?, &clock, options, &mut |_: Progress| ())?;
    stack.make_fs()?;
    let disk = Driven::new(
        stack.disk()?,
        &clock,
        Costs::of(&experiment.stack),
        Box::new(|_| ()),
    );
    let mut partition = fs.partition(disk.clone()).map_err(BuildError::from)?;
    let mut data = Vec::new();
    let mut serve = |number: usize, request: &Request| {
        let lba = Lba(request.offset / sector);
        data.resize(request.length as usize, 0);
        let served = match request.op {
            Op::Write => partition.write(lba, &data),
            Op::Read => partition.read(lba, &mut data),
            Op::Flush => partition.flush(),
            Op::Discard => partition.discard(lba, request.length / sector),
        };
        let number = number as u64 + 1;
        served.map_err(|error| {
            RunError::Stopped(Box::new(Stopped {
                phase: "run",
                number,
                request: *request,
                error,
                recent: Vec::new(),
            }))
        })
    };
    let (mounting, playing) = run.requests.split_at(run.mounting);
    mounting
        .iter()
        .enumerate()
        .try_for_each(|(number, request)| serve(number, request))?;
    let before = Snapshot::of(&*disk.device());
    clock.wait_until(before.horizon());
    let began = clock.now();
    playing
        .iter()
        .enumerate()
        .try_for_each(|(number, request)| serve(number, request))?;
    let tally = *disk.device().tally();
    Ok(Again {
        ns: clock.now() - began,
        causes: causes(before.tally(), &tally),
        merges: merges(before.tally(), &tally),
        tally,
    })
}
