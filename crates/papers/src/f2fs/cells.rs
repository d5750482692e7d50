//! Runs of F2FS and of our ext4, live, and of the real ext4, whose requests were recorded: the same
//! calls on the same device.
//!
//! In a run only the device takes time, and each file system waits where it flushes. The kernel's
//! instructions were counted apart ([`processor`]) and are added to the phases.

use super::work::{AGEING, SET_UP, Work};
use super::{processor, rival};
use crate::PaperError;
use crate::runs::{Described, described};
use nandlab_block::{BlockDevice, Lba};
use nandlab_lab::run::{precondition, run_unproven};
use nandlab_stack::Stack;
use nandlab_workload::Op;
use nandlab_workload::files::{FileCall, FileCalls};
use std::fmt::Display;

/// The device and F2FS on it.
pub const EMMC: Described = described!("f2fs/emmc.toml");
/// Bytes of the longest write of a replay.
pub const PIECE: usize = 1 << 20;

/// A phase of a run, of either file system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    pub name: &'static str,
    /// Virtual seconds of the device.
    pub device: f64,
    /// Instructions of the kernel.
    pub instructions: f64,
    pub calls: u64,
    /// Bytes that calls read and wrote.
    pub bytes: u64,
}

impl Phase {
    /// Seconds of the device and of a processor with so many cycles an instruction.
    fn seconds(&self, cycles: f64) -> f64 {
        self.device + processor::seconds(self.instructions, cycles)
    }
}

/// The phases of a run in order; those of one name that follow each other are one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phases(pub Vec<Phase>);

impl Phases {
    /// The phases of this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Phase> {
        self.0.iter().filter(move |phase| phase.name == name)
    }

    /// The phases that are measured: not those that prepare.
    pub fn reported(&self) -> impl Iterator<Item = &Phase> {
        self.0.iter().filter(|phase| is_reported(phase))
    }

    /// Seconds of all phases of this name.
    pub fn seconds(&self, name: &str) -> f64 {
        let phases = self.named(name);
        phases.map(|phase| phase.seconds(processor::USUAL)).sum()
    }

    /// Seconds of the device in all phases of this name.
    pub fn device(&self, name: &str) -> f64 {
        self.named(name).map(|phase| phase.device).sum()
    }

    /// Seconds of all phases that are measured, with so many cycles an instruction.
    pub fn measured(&self, cycles: f64) -> f64 {
        self.reported().map(|phase| phase.seconds(cycles)).sum()
    }

    /// Bytes a second in the phases of this name, with so many cycles an instruction.
    pub fn rate(&self, name: &str, cycles: f64) -> f64 {
        let bytes: u64 = self.named(name).map(|phase| phase.bytes).sum();
        let seconds: f64 = self.named(name).map(|phase| phase.seconds(cycles)).sum();
        bytes as f64 / seconds
    }

    /// Adds the instructions that the kernel took for this work, on the file system of this index.
    fn with_processor(mut self, work: &Work, system: usize) -> Result<Self, PaperError> {
        let mut seen: Vec<&str> = Vec::new();
        for phase in self.0.iter_mut().filter(|phase| is_reported(phase)) {
            // The counts are of all phases of one name.
            if seen.contains(&phase.name) {
                continue;
            }
            seen.push(phase.name);
            let counted = processor::counted(work, phase.name);
            let missing = || PaperError::wrong(work.key, format!("{}: not counted", phase.name));
            phase.instructions = counted.ok_or_else(missing)?[system];
        }
        Ok(self)
    }
}

fn is_reported(phase: &Phase) -> bool {
    ![AGEING, SET_UP, "unmount"].contains(&phase.name)
}

/// The calls of a work.
fn calls(work: &Work) -> Result<Box<dyn FileCalls>, PaperError> {
    work.open()
        .map_err(|error| PaperError::wrong(work.key, error))
}

/// The phases of a stream, without their times.
pub fn phases_of(work: &Work) -> Result<Phases, PaperError> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut calls = calls(work)?;
    while let Some(call) = calls.next() {
        if phases
            .last()
            .is_none_or(|phase| phase.name != calls.phase())
        {
            phases.push(Phase {
                name: calls.phase(),
                ..Phase::default()
            });
        }
        let Some(phase) = phases.last_mut() else {
            continue;
        };
        phase.calls += 1;
        if let FileCall::Read { length, .. } | FileCall::Write { length, .. } = call {
            phase.bytes += length;
        }
    }
    Ok(Phases(phases))
}

/// Settings with which our ext4 takes the place of F2FS.
pub const LIVE: [&str; 5] = [
    "fs.type=ext4",
    "fs.segments-per-section=",
    "fs.sections-per-zone=",
    "fs.discard=",
    "fs.ordered=",
];

/// A file system of ours takes the calls; it costs what this one of [`processor`] costs.
pub fn live(work: &Work, settings: &[&str], system: usize) -> Result<Phases, PaperError> {
    let mut calls = calls(work)?;
    let run = run_unproven(&EMMC.with(settings)?, &mut *calls)
        .map_err(|error| PaperError::Run(work.key.into(), error.into()))?;
    let phase = |phase: &nandlab_lab::run::PhaseOutcome| Phase {
        name: phase.name,
        device: phase.seconds(),
        instructions: 0.0,
        calls: phase.calls,
        bytes: phase.bytes_read + phase.bytes_written,
    };
    Phases(run.phases.iter().map(phase).collect()).with_processor(work, system)
}

/// What ext4 asked of the disk for this work, on the same device.
pub fn replayed(work: &Work, settings: &[&str]) -> Result<Phases, PaperError> {
    let wrong = |what: &dyn Display| PaperError::wrong(format!("ext4, {}", work.key), what);
    let experiment = EMMC.with(settings)?;
    let mut stack = Stack::build(&experiment.stack).map_err(|error| wrong(&error))?;
    let clock = stack.clock.clone();
    let device = stack.disk().map_err(|error| wrong(&error))?;
    let prepared = precondition(device, &clock, &experiment.run, &mut |_| ());
    prepared.map_err(|error| PaperError::Run(work.key.into(), error.into()))?;
    let mut phases = phases_of(work)?;
    let mut at = None;
    let mut began = 0;
    let mut buffer = vec![0; PIECE];
    for request in rival::requests(work)? {
        if let Some(number) = rival::mark(work, &request) {
            let now = clock.now();
            if let Some(before) = at.replace(number).filter(|before| *before != number) {
                let count = phases.0.len();
                let phase: &mut Phase = phases
                    .0
                    .get_mut(before)
                    .ok_or_else(|| wrong(&format!("mark {before}, expected {count} phases")))?;
                phase.device = (now - began) as f64 / 1e9;
            }
            began = now;
            continue;
        }
        serve(device, &request, &mut buffer)
            .map_err(|error| wrong(&format!("{request:?}: {error}")))?;
    }
    if at != Some(phases.0.len()) {
        let count = phases.0.len();
        return Err(wrong(&format!("last mark {at:?}, expected {count}")));
    }
    phases.with_processor(work, processor::EXT4)
}

/// Sends a request to the device through a buffer of [`PIECE`] bytes.
pub fn serve(
    device: &mut dyn BlockDevice,
    request: &nandlab_workload::Request,
    buffer: &mut [u8],
) -> Result<(), nandlab_block::BlockError> {
    let sector = u64::from(device.geometry().sector);
    let first = request.offset;
    let end = request.offset + request.length;
    match request.op {
        Op::Flush => device.flush(),
        Op::Discard => device.discard(Lba(first / sector), request.length / sector),
        Op::Read | Op::Write => (first..end).step_by(PIECE).try_for_each(|offset| {
            let part = &mut buffer[..(end - offset).min(PIECE as u64) as usize];
            if request.op == Op::Read {
                return device.read(Lba(offset / sector), part);
            }
            part.fill(0);
            device.write(Lba(offset / sector), part)
        }),
    }
}
