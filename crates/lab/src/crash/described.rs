//! An experiment as a subject: the stack that it describes, and the first operations of its
//! workload; on the disk, or on the files of its file system.
//!
//! Operations are served one after another, whenever the one before has returned: arrival times and
//! queue depth play no part. Page data is kept in memory, whatever the description says.

use super::disk::{Disk, Layer, operations};
use super::files::{DescribedVolume, FileOp, Files, FlashFiles, file_operations, mixed};
use super::subject::Subject;
use crate::Experiment;
use crate::experiment::Precondition;
use crate::workload::{OpenError, WorkloadDescription};
use nandlab_block::{BlockDevice, Partition};
use nandlab_nand::{Chip, ChipSpec, Contents};
use nandlab_stack::build::{attach_on, format_on, new_chip};
use nandlab_stack::fs::Volume;
use nandlab_stack::{ChipDescription, Device, FsDescription, Scheme};
use nandlab_workload::{SpecError, WorkloadError};

/// The most bytes of a chip: its disk is read whole in every state.
const MAX_BYTES: u64 = 8 << 30;

/// A described translation layer on its chip.
#[derive(Clone, Debug)]
pub struct Described {
    chip: ChipDescription,
    scheme: Scheme,
}

/// The part of a described disk on which the file system lies.
#[derive(Clone, Debug)]
pub struct DescribedPart {
    disk: Described,
    fs: FsDescription,
}

/// An experiment ready to be explored.
#[derive(Clone, Debug)]
pub struct Prepared<S: Subject> {
    /// The stack.
    pub subject: S,
    /// What the host does.
    pub ops: Vec<S::Op>,
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
    /// The workload on files cannot be as described.
    #[error(transparent)]
    Files(#[from] SpecError),
}

impl Prepared<Disk<Described>> {
    /// The experiment's disk with the first `limit` operations of its workload.
    pub fn new(experiment: &Experiment, limit: usize) -> Result<Self, PrepareError> {
        let subject = Disk(Described::new(experiment)?);
        let geometry = subject.geometry().map_err(PrepareError::Format)?;
        let (mut feed, _) = experiment.workload.open(
            geometry.bytes(),
            u64::from(geometry.sector),
            experiment.run.seed,
        )?;
        let ops = operations(&mut *feed, &geometry, limit)?;
        let cut_short = ops.len() == limit && feed.next()?.is_some();
        Ok(Self {
            subject,
            ops,
            cut_short,
        })
    }
}

impl Prepared<Files<DescribedPart, DescribedVolume>> {
    /// The experiment's file system with the first `limit` operations of its workload; none if it
    /// has no file system on a disk.
    pub fn files(experiment: &Experiment, limit: usize) -> Result<Option<Self>, PrepareError> {
        let Some(fs) = experiment.stack.fs.clone().filter(|fs| !fs.is_on_flash()) else {
            return Ok(None);
        };
        if experiment.stack.write_back.is_some() {
            let expected =
                "false: deferred writes are followed through cuts on fs.type = \"jffs2\" only";
            return Err(PrepareError::Setting {
                key: "write-back.deferred",
                found: "true".into(),
                expected,
            });
        }
        let layer = DescribedPart {
            disk: Described::new(experiment)?,
            fs: fs.clone(),
        };
        let bytes = layer
            .format()
            .map_err(PrepareError::Format)?
            .geometry()
            .bytes();
        let (ops, cut_short) = operations_on_files(experiment, limit)?;
        Ok(Some(Self {
            subject: Files {
                layer,
                volume: DescribedVolume::new(fs, bytes),
            },
            ops,
            cut_short,
        }))
    }
}

impl Prepared<FlashFiles> {
    /// The experiment's file system on flash itself, likewise; none if it has no such.
    pub fn on_flash(experiment: &Experiment, limit: usize) -> Result<Option<Self>, PrepareError> {
        let Some(Volume::Jffs2(fs)) = experiment.stack.fs.as_ref().map(|fs| fs.volume.clone())
        else {
            return Ok(None);
        };
        refuse_unsuitable(experiment)?;
        let chip = ChipSpec {
            contents: Contents::Kept,
            ..experiment.stack.chip.spec.clone()
        };
        let write_back = experiment.stack.write_back.map(|routine| routine.settings);
        let (ops, cut_short) = operations_on_files(experiment, limit)?;
        let ubi = if let Scheme::Ubi(ubi) = &experiment.stack.ftl.scheme {
            Some(ubi.clone())
        } else {
            None
        };
        Ok(Some(Self {
            subject: FlashFiles {
                chip,
                ubi,
                fs,
                write_back,
                seed: experiment.run.seed,
            },
            ops,
            cut_short,
        }))
    }
}

/// The first `limit` operations of a workload on files, and whether it goes on.
fn operations_on_files(
    experiment: &Experiment,
    limit: usize,
) -> Result<(Vec<FileOp>, bool), PrepareError> {
    Ok(match &experiment.workload {
        WorkloadDescription::Mixed(count) => (
            mixed(experiment.run.seed, limit.min(*count as usize)),
            *count as usize > limit,
        ),
        workload => match workload.files() {
            Some(files) => {
                let mut calls = files.open(experiment.run.seed)?;
                let ops = file_operations(&mut *calls, limit);
                (ops, calls.next().is_some())
            }
            None => (Vec::new(), false),
        },
    })
}

impl Described {
    /// The disk of an experiment that can be explored.
    fn new(experiment: &Experiment) -> Result<Self, PrepareError> {
        refuse_unsuitable(experiment)?;
        let mut chip = experiment.stack.chip.clone();
        chip.contents_file = None;
        chip.spec.contents = Contents::Kept;
        Ok(Self {
            chip,
            scheme: experiment.stack.ftl.scheme.clone(),
        })
    }
}

/// What every sector holds must be known from the beginning.
fn refuse_unsuitable(experiment: &Experiment) -> Result<(), PrepareError> {
    let refuse = |key, found, expected| {
        Err(PrepareError::Setting {
            key,
            found,
            expected,
        })
    };
    let chip = &experiment.stack.chip;
    let bytes = chip.spec.geometry.bytes();
    if bytes > MAX_BYTES {
        return refuse(
            "chip.blocks",
            format!("a chip of {bytes} bytes"),
            "at most 8 GiB, since the disk is read whole in every state",
        );
    }
    if chip.spec.superblock.is_some() {
        return refuse(
            "chip.superblock",
            "true".into(),
            "false: in which order the dies of a superblock have ended at a cut is not modelled",
        );
    }
    if let Some(path) = &chip.load {
        return refuse(
            "chip.load",
            path.display().to_string(),
            "none: cuts are explored from a freshly formatted chip on",
        );
    }
    if let Some(path) = &chip.save {
        return refuse(
            "chip.save",
            path.display().to_string(),
            "none: an exploration leaves many chips, none of them the one to keep",
        );
    }
    if experiment.stack.nvram.is_some() {
        return refuse(
            "nvram.holds",
            "a memory".into(),
            "nothing: what is in a memory beside the chip is not followed through cuts",
        );
    }
    if experiment.run.precondition != Precondition::None {
        let found = format!("{:?}", experiment.run.precondition).to_lowercase();
        return refuse(
            "run.precondition",
            found,
            "none: whatever is written is part of the run that is cut",
        );
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

impl DescribedPart {
    fn part(&self, disk: Box<dyn Device>) -> Result<Partition<Box<dyn Device>>, String> {
        self.fs.partition(disk).map_err(|e| e.to_string())
    }
}

impl Layer for DescribedPart {
    type Device = Partition<Box<dyn Device>>;

    fn format(&self) -> Result<Self::Device, String> {
        self.part(self.disk.format()?)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, String> {
        self.part(self.disk.attach(chip)?)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        self.disk.power_off(device.into_inner())
    }
}
