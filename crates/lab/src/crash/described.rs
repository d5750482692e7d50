//! An experiment as a subject: the stack that it describes, and the first operations of its workload.
//!
//! Operations are served one after another, whenever the one before has returned: arrival times and queue depth play no part. Page
//! data is kept in memory, whatever the description says.

use super::disk::{Disk, DiskOp, Layer, operations};
use crate::Experiment;
use crate::experiment::Precondition;
use crate::workload::OpenError;
use nandlab_nand::{Chip, Contents};
use nandlab_stack::build::{attach_on, format_on, new_chip};
use nandlab_stack::{ChipDescription, Device, Scheme};
use nandlab_workload::WorkloadError;

/// The most bytes of a chip: its disk is read whole in every state.
const MAX_BYTES: u64 = 8 << 30;

/// A described translation layer on its chip.
#[derive(Clone, Debug)]
pub struct Described {
    chip: ChipDescription,
    scheme: Scheme,
}

/// An experiment ready to be explored.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The stack.
    pub subject: Disk<Described>,
    /// What the host does.
    pub ops: Vec<DiskOp>,
    /// The workload goes on after these operations.
    pub cut_short: bool,
}

/// An experiment that cannot be explored.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A setting that the explorer cannot follow.
    #[error("{key}: found {found}, expected {expected}")]
    Setting {
        /// `section.key`.
        key: &'static str,
        /// Its value.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// The stack cannot be built.
    #[error("{0}")]
    Format(String),
    /// The workload cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The workload cannot go on.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

impl Prepared {
    /// The experiment's stack with the first `limit` operations of its workload.
    pub fn new(experiment: &Experiment, limit: usize) -> Result<Self, PrepareError> {
        refuse_unsuitable(experiment)?;
        let mut chip = experiment.stack.chip.clone();
        chip.contents_file = None;
        chip.spec.contents = Contents::Kept;
        let subject = Disk(Described { chip, scheme: experiment.stack.ftl.scheme.clone() });
        let geometry = subject.geometry().map_err(PrepareError::Format)?;
        let (mut feed, _) = experiment.workload.open(geometry.bytes(), u64::from(geometry.sector), experiment.run.seed)?;
        let ops = operations(&mut *feed, &geometry, limit)?;
        let cut_short = ops.len() == limit && feed.next()?.is_some();
        Ok(Self { subject, ops, cut_short })
    }
}

/// What every sector holds must be known from the beginning.
fn refuse_unsuitable(experiment: &Experiment) -> Result<(), PrepareError> {
    let refuse = |key, found, expected| Err(PrepareError::Setting { key, found, expected });
    let chip = &experiment.stack.chip;
    let bytes = chip.spec.geometry.bytes();
    if bytes > MAX_BYTES {
        return refuse("chip.blocks", format!("a chip of {bytes} bytes"), "at most 8 GiB, since the disk is read whole in every state");
    }
    if let Some(path) = &chip.load {
        return refuse("chip.load", path.display().to_string(), "none: cuts are explored from a freshly formatted chip on");
    }
    if let Some(path) = &chip.save {
        return refuse("chip.save", path.display().to_string(), "none: an exploration leaves many chips, none of them the one to keep");
    }
    if experiment.stack.nvram.is_some() {
        return refuse("nvram.holds", "a memory".into(), "nothing: what is in a memory beside the chip is not followed through cuts");
    }
    if experiment.run.precondition != Precondition::None {
        let found = format!("{:?}", experiment.run.precondition).to_lowercase();
        return refuse("run.precondition", found, "none: whatever is written is part of the run that is cut");
    }
    Ok(())
}

impl Layer for Described {
    type Device = Box<dyn Device>;

    fn format(&self) -> Result<Self::Device, String> {
        let chip = new_chip(&self.chip).map_err(|e| e.to_string())?;
        format_on(&self.scheme, chip).map_err(|e| e.to_string())
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, String> {
        attach_on(&self.scheme, chip).map_err(|e| e.to_string())
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_chip()
    }
}
