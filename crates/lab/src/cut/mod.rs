//! An experiment as a subject of the crash explorer: the stack that it describes, and the first
//! operations of its workload, on the disk or on the files of its file system.
//!
//! Operations are served one after another; arrival times and queue depth play no part. Page data
//! is kept in memory, whatever the description says.

mod files;
mod keep;
pub mod matrix;

use crate::Experiment;
use crate::experiment::Precondition;
use crate::workload::{CutWorkload, OpenError, WorkloadDescription};
use files::{Described, OnFlash, Partitioned, file_operations, recipe, recipe_with_nvram};
use keep::Keep;
use nandlab_crash::files::{mixed, sequences};
use nandlab_crash::{
    CrashError, CrashReport, Disk, FileOp, Files, Id, Plan, Subject, Violation, Workload,
    chip_of_state, chips_of_states, explore_watched, operations, replay,
};
use nandlab_mtd::LayerError;
use nandlab_nand::{Chip, ChipSpec, Contents};
use nandlab_pagecache::write_back::{Deferred, Settings};
use nandlab_stack::build::new_chip;
use nandlab_stack::fs::Recipe;
use nandlab_stack::layer::ChipFlash;
use nandlab_stack::{BuildError, FsDescription, Translation};
use nandlab_vfs::Volume;
use nandlab_workload::{SpecError, WorkloadError};
use std::path::{Path, PathBuf};

/// The most bytes of a chip: its disk is read whole in every state.
const MAX_BYTES: u64 = 8 << 30;

/// An experiment ready to be explored.
pub struct Prepared {
    case: Box<dyn Explored>,
    keep: Keep,
    /// The workload goes on after these operations.
    pub cut_short: bool,
}

/// An experiment that cannot be explored.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A setting that the explorer cannot follow.
    #[error("{key}: found {found}, expected {expected}")]
    Setting {
        /// The setting as `section.key`.
        key: &'static str,
        /// The value of the setting.
        found: String,
        /// The values that can be cut.
        expected: &'static str,
    },
    /// The chip cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The layer cannot be formatted.
    #[error(transparent)]
    Format(#[from] LayerError),
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

/// A subject and its operations, of whatever kind.
trait Explored {
    fn operations(&self) -> Vec<String>;

    fn explore(
        &self,
        plan: &Plan,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<CrashReport, CrashError>;

    fn replay(&self, plan: &Plan, id: &Id) -> Result<Option<Violation>, CrashError>;

    fn chip(&self, plan: &Plan, id: &Id) -> Result<Chip, CrashError>;

    fn chips(
        &self,
        plan: &Plan,
        take: &mut dyn FnMut(&Id, Chip) -> Result<(), LayerError>,
    ) -> Result<(), CrashError>;
}

struct Case<S: Subject> {
    subject: S,
    workload: Workload<S::Op>,
}

impl<S: Subject> Explored for Case<S> {
    fn operations(&self) -> Vec<String> {
        self.workload.ops.iter().map(ToString::to_string).collect()
    }

    fn explore(
        &self,
        plan: &Plan,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<CrashReport, CrashError> {
        explore_watched(&self.subject, &self.workload, plan, progress)
    }

    fn replay(&self, plan: &Plan, id: &Id) -> Result<Option<Violation>, CrashError> {
        replay(&self.subject, &self.workload.ops, plan, id)
    }

    fn chip(&self, plan: &Plan, id: &Id) -> Result<Chip, CrashError> {
        chip_of_state(&self.subject, &self.workload.ops, plan, id)
    }

    fn chips(
        &self,
        plan: &Plan,
        take: &mut dyn FnMut(&Id, Chip) -> Result<(), LayerError>,
    ) -> Result<(), CrashError> {
        chips_of_states(&self.subject, &self.workload, plan, take)
    }
}

impl Prepared {
    /// The experiment's stack with the first `limit` operations of its workload: on its file
    /// system, or on its disk if it has none.
    pub fn new(experiment: &Experiment, limit: usize) -> Result<Self, PrepareError> {
        match &experiment.stack.fs {
            None => Self::on_disk(experiment, limit),
            Some(fs) => Self::on_files(experiment, fs, limit),
        }
    }

    /// The operations, in words.
    pub fn operations(&self) -> Vec<String> {
        self.case.operations()
    }

    /// Cuts the power everywhere, and tells `progress` how many cuts of how many are done.
    pub fn explore(
        &self,
        plan: &Plan,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<CrashReport, CrashError> {
        self.case.explore(plan, progress)
    }

    /// Makes one state again.
    pub fn replay(&self, plan: &Plan, id: &Id) -> Result<Option<Violation>, CrashError> {
        self.case.replay(plan, id)
    }

    /// Writes one state into a file of `directory`, before the file system is mounted: the part of
    /// the disk on which it lies, after the recovery of the translation layer, or a dump of the
    /// chip. Gives the path.
    pub fn keep(&self, plan: &Plan, id: &Id, directory: &Path) -> Result<PathBuf, CrashError> {
        let chip = self.case.chip(plan, id)?;
        let kept = self.keep.state(id, chip, directory);
        kept.map_err(|why| CrashError::Taken(id.to_string(), why))
    }

    /// As [`keep`](Self::keep) for each distinct state after one cut. Gives their number.
    pub fn keep_all(&self, plan: &Plan, directory: &Path) -> Result<u64, CrashError> {
        let mut count = 0;
        self.case.chips(plan, &mut |id, chip| {
            count += 1;
            self.keep.state(id, chip, directory).map(drop)
        })?;
        Ok(count)
    }

    fn of<S: Subject + 'static>(
        subject: S,
        (workload, cut_short): (Workload<S::Op>, bool),
        keep: Keep,
    ) -> Self {
        Self {
            case: Box::new(Case { subject, workload }),
            keep,
            cut_short,
        }
    }

    fn on_disk(experiment: &Experiment, limit: usize) -> Result<Self, PrepareError> {
        let subject = Disk {
            chip: chip(experiment)?,
            layer: translation(experiment),
        };
        let geometry = subject.geometry()?;
        let sector = u64::from(geometry.sector);
        let seed = experiment.run.seed;
        let (mut feed, _) = experiment.workload.open(geometry.bytes(), sector, seed)?;
        let ops = operations(&mut *feed, &geometry, limit)?;
        let cut_short = ops.len() == limit && feed.next()?.is_some();
        let keep = Keep::disk(subject.layer.clone());
        Ok(Self::of(subject, (Workload::whole(&ops), cut_short), keep))
    }

    fn on_files(
        experiment: &Experiment,
        fs: &FsDescription,
        limit: usize,
    ) -> Result<Self, PrepareError> {
        let settings = experiment.stack.write_back.map(|routine| routine.settings);
        if settings.is_some() && !fs.is_on_flash() {
            return Err(PrepareError::Setting {
                key: "write-back.deferred",
                found: "true".into(),
                expected: "false: deferred writes are followed through cuts on fs.type = \"jffs2\" \
                           only",
            });
        }
        let chip = chip(experiment)?;
        let layer = translation(experiment);
        let is_volume = layer.flash.as_ref().is_some_and(|flash| flash.is_volume());
        let nvram = experiment.stack.nvram.as_ref();
        let holds_metadata = nvram.is_some_and(|nvram| nvram.cache().is_none());
        let recipe = if holds_metadata {
            recipe_with_nvram(fs)?
        } else {
            recipe(fs, experiment.run.seed, is_volume)?
        };
        let ops = operations_on_files(experiment, limit)?;
        Ok(match recipe {
            Recipe::Disk(recipe) => {
                let fs = fs.clone();
                let volume = Described {
                    fs: fs.clone(),
                    recipe,
                };
                let layer = Partitioned { layer, fs };
                let keep = if holds_metadata {
                    Keep::refused("the disk alone lacks the metadata, which is in the memory")
                } else {
                    Keep::disk(layer.clone())
                };
                Self::of(
                    Files {
                        chip,
                        layer,
                        volume,
                    },
                    ops,
                    keep,
                )
            }
            Recipe::Flash(recipe) => {
                let flash = layer.flash.ok_or(BuildError::NoFlash(layer.name))?;
                let layer = OnFlash(flash);
                let volume = deferred(recipe, settings);
                Self::of(
                    Files {
                        chip,
                        layer,
                        volume,
                    },
                    ops,
                    Keep::dump(experiment.stack.chip.dump),
                )
            }
        })
    }
}

/// The described layer, with the memory beside the chip if there is one.
fn translation(experiment: &Experiment) -> Translation {
    let layer = experiment.stack.ftl.layer.clone();
    match experiment.stack.nvram {
        Some(nvram) => layer.with_nvram(nvram),
        None => layer,
    }
}

type OnFlashVolume = Box<dyn Volume<Box<dyn ChipFlash>> + Sync>;

/// A volume behind the write-back routine, if there is one.
fn deferred(volume: OnFlashVolume, settings: Option<Settings>) -> OnFlashVolume {
    match settings {
        None => volume,
        Some(settings) => Box::new(Deferred { volume, settings }),
    }
}

/// The first `limit` operations of a workload on files, or all of its sequences, and whether it
/// goes on.
fn operations_on_files(
    experiment: &Experiment,
    limit: usize,
) -> Result<(Workload<FileOp>, bool), PrepareError> {
    let seed = experiment.run.seed;
    Ok(match &experiment.workload {
        WorkloadDescription::Cuts(CutWorkload::Mixed(count)) => {
            let count = *count as usize;
            (
                Workload::whole(&mixed(seed, limit.min(count))),
                count > limit,
            )
        }
        WorkloadDescription::Cuts(CutWorkload::Sequences { length, sample }) => {
            (sequences(*length, *sample, seed), false)
        }
        workload => match workload.files() {
            Some(files) => {
                let mut calls = files.open(seed)?;
                let ops = file_operations(&mut *calls, limit);
                (Workload::whole(&ops), calls.next().is_some())
            }
            None => (Workload::whole(&[]), false),
        },
    })
}

/// The chip of an experiment that can be explored, with its data in memory.
fn chip(experiment: &Experiment) -> Result<ChipSpec, PrepareError> {
    refuse_unsuitable(experiment)?;
    let mut chip = experiment.stack.chip.clone();
    chip.contents_file = None;
    chip.spec.contents = Contents::Kept;
    // Whether there is memory for it.
    new_chip(&chip)?;
    Ok(chip.spec)
}

/// Refuses whatever leaves the contents of a sector unknown at the beginning.
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
