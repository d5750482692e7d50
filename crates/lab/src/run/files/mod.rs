//! The run loop of a workload on files: one program, whose calls go through the file system to the
//! disk, one after another.
//!
//! The processor's costs, if the stack has a processor, are spent where they arise: with each call,
//! each request, each operation of the chip. Dirty data in memory is written when Linux would
//! ([`actors`]), if the stack has a memory. At the end the file system is unmounted and mounted
//! again, and every file compared with what the calls must have left.
//!
//! | module | its one idea |
//! |---|---|
//! | [`base`] | what is below the file system: a disk, or flash itself |
//! | [`top`] | what the program calls: the file system, or the write-back routine in front of it |
//! | [`mod@live`] | calls of real programs instead of a workload's |
//! | [`costs`] | what calls cost the processor |
//! | [`actors`] | pdflush, kupdate, commit timers |
//! | [`stream`] | requests to the disk, by part of the volume |
//! | [`phases`] | what each phase of the program took |

mod actors;
mod base;
mod costs;
mod live;
mod phases;
mod stream;
mod top;

pub use live::{Live, live};
pub use phases::{Below, PhaseOutcome, Traffic};

use super::meter::Meter;
use super::{Measured, Outcome, Progress, RunError, WATCH_EVERY};
use crate::Experiment;
use crate::play::regions::Writes;
use crate::play::{Player, verify};
use crate::result::RunResult;
use crate::workload::FileWorkload;
use actors::Actors;
use base::Volume;
use costs::CallCosts;
use nandlab_nand::Contents;
use nandlab_pagecache::flusher::Flushed;
use nandlab_pagecache::write_back::Tally;
use nandlab_sim::{Clock, Nanos};
use nandlab_stack::{FsDescription, Mounted, Stack};
use nandlab_vfs::{Ino, Time};
use nandlab_workload::files::{Expected, FileCall, FileCalls};
use nandlab_workload::{Op, Request};
use phases::Phases;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use stream::Stream;
use top::Top;

/// When runs begin, in seconds since 1970: 2010-01-01.
const EPOCH: i64 = 1_262_304_000;
/// Calls between two looks at the watch.
const WATCH_CALLS: u64 = WATCH_EVERY / 8;

/// A run on files, and what it asked of the disk.
pub struct FilesOutcome {
    /// As of any run.
    pub outcome: Outcome,
    /// The phases in the order of the program, `unmount` as the last.
    pub phases: Vec<PhaseOutcome>,
    /// What was written to which part of the volume, before the unmount.
    pub writes: Writes,
    /// Every request below the file system from its mount on, byte offsets counting from the
    /// partition's first sector; empty unless they were to be kept.
    pub requests: Vec<Request>,
    /// How many of these the mount made, before the workload began.
    pub mounting: usize,
    /// What the calls cost by themselves, ns.
    pub calls_ns: Nanos,
    /// What was written back by whom.
    pub flushed: Flushed,
    /// What the write-back routine has deferred, in elements.
    pub deferred: Tally,
    /// How long each read, write and flush took, in order; empty unless they were to be kept.
    pub latencies: Vec<Latency>,
}

impl FilesOutcome {
    /// The phases of this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &PhaseOutcome> {
        self.phases.iter().filter(move |phase| phase.name == name)
    }
}

/// How long a call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The phase it belongs to.
    pub phase: &'static str,
    /// The kind of the call.
    pub op: Op,
    /// Virtual time from its begin to its end, ns.
    pub ns: Nanos,
}

/// A moment as a file system knows it.
fn moment(at: Nanos) -> Time {
    Time {
        secs: EPOCH + (at / 1_000_000_000) as i64,
        nanos: (at % 1_000_000_000) as u32,
    }
}

/// And back; what lies before the run is its beginning.
fn nanos(time: Time) -> Nanos {
    let secs = u64::try_from(time.secs.saturating_sub(EPOCH)).ok();
    secs.map_or(0, |secs| {
        secs.saturating_mul(1_000_000_000)
            .saturating_add(time.nanos.into())
    })
}

/// What a call is in the statistics of requests; none if it is none of these.
fn request_of(call: &FileCall) -> Option<Request> {
    match *call {
        FileCall::Read { offset, length, .. } => Some(Request {
            op: Op::Read,
            at: 0,
            offset,
            length,
        }),
        FileCall::Write { offset, length, .. } => Some(Request {
            op: Op::Write,
            at: 0,
            offset,
            length,
        }),
        FileCall::Fsync { .. } | FileCall::Fdatasync { .. } | FileCall::Sync => {
            Some(Request::flush(0))
        }
        _ => None,
    }
}

/// Runs `files` on the stack of `experiment`; keeps the requests to the disk if asked to.
pub fn run_files(
    experiment: &Experiment,
    files: &dyn FileWorkload,
    keep: bool,
    watch: &mut dyn FnMut(Progress),
) -> Result<FilesOutcome, RunError> {
    let mut calls = files
        .open(experiment.run.seed)
        .map_err(RunError::Precondition)?;
    run_calls(experiment, &mut *calls, keep, watch)
}

/// Runs a stream of calls, whatever the workload of `experiment` is.
pub fn run_calls(
    experiment: &Experiment,
    calls: &mut dyn FileCalls,
    keep: bool,
    watch: &mut dyn FnMut(Progress),
) -> Result<FilesOutcome, RunError> {
    run_whole(experiment, calls, (keep, true), watch)
}

/// The same without comparing files at the end: where they hold zeros, which would show little, on
/// volumes that take long to read.
pub fn run_unproven(
    experiment: &Experiment,
    calls: &mut dyn FileCalls,
) -> Result<FilesOutcome, RunError> {
    run_whole(experiment, calls, (false, false), &mut |_| ())
}

fn run_whole(
    experiment: &Experiment,
    calls: &mut dyn FileCalls,
    (keep, proven): (bool, bool),
    watch: &mut dyn FnMut(Progress),
) -> Result<FilesOutcome, RunError> {
    let began = Instant::now();
    let fs = experiment.stack.fs.as_ref().ok_or(RunError::NoFileSystem)?;
    if experiment.stack.chip.spec.contents == Contents::Dropped {
        return Err(RunError::NoContents);
    }
    let mut stack = base::build(experiment, watch)?;
    let stream = Rc::new(RefCell::new(Stream::new(
        keep,
        fs.place.start * FsDescription::SECTOR,
        stack.sector(),
    )));
    let played = play(experiment, fs, calls, (&mut stack, &stream, keep), watch)?;
    let Played {
        measured,
        expected,
        calls_ns,
        phases,
        flushed,
        deferred,
        latencies,
    } = played;
    if proven {
        prove(experiment.run.seed, &mut stack, calls, &expected)?;
    }
    let (blocks, chip) = base::close(stack)?;
    let result = RunResult {
        name: experiment.name.clone(),
        settings: experiment.settings.clone(),
        ..measured.result(&blocks, &chip)
    };
    let outcome = Outcome {
        result,
        cost: crate::cost::since(began),
        notes: notes(&phases),
        problem: false,
    };
    let stream = Rc::into_inner(stream)
        .expect("the stack is gone, and with it the watcher")
        .into_inner();
    let (requests, mounting, writes) = stream.into_parts().expect("the volume was mounted");
    Ok(FilesOutcome {
        outcome,
        phases,
        writes,
        requests,
        mounting,
        calls_ns,
        flushed,
        deferred,
        latencies,
    })
}

/// What each phase took, if there are several.
fn notes(phases: &[PhaseOutcome]) -> Vec<String> {
    let moved = |phase: &&PhaseOutcome| phase.bytes_read + phase.bytes_written > 0;
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let note = |phase: &PhaseOutcome| {
        let bytes = (phase.bytes_read + phase.bytes_written) as f64;
        let rate = phase
            .bandwidth()
            .map_or(String::new(), |rate| format!(": {:.3} MiB/s", mib(rate)));
        format!(
            "phase {}: {:.1} MiB in {:.3} s{rate}",
            phase.name,
            mib(bytes),
            phase.seconds()
        )
    };
    let reported: Vec<String> = phases.iter().filter(moved).map(note).collect();
    if reported.len() > 1 {
        reported
    } else {
        Vec::new()
    }
}

/// The figures of one played stream.
struct Played {
    measured: Measured,
    /// What must be found.
    expected: Expected,
    /// What the calls cost by themselves.
    calls_ns: Nanos,
    phases: Vec<PhaseOutcome>,
    flushed: Flushed,
    deferred: Tally,
    latencies: Vec<Latency>,
}

/// Mounts, plays every call, unmounts; what is measured ends with the last call.
fn play(
    experiment: &Experiment,
    fs: &FsDescription,
    calls: &mut dyn FileCalls,
    (stack, stream, keep): (&mut Stack, &Rc<RefCell<Stream>>, bool),
    watch: &mut dyn FnMut(Progress),
) -> Result<Played, RunError> {
    let described = &experiment.stack;
    let clock = stack.clock.clone();
    let layer = &*fs.layer;
    let Volume { stack, below } = base::mount(stack, described, experiment.run.seed, stream)?;
    let Mounted { fs, parts } = stack.mounted;
    let host = described.host.as_ref();
    let mut top = Top::new(fs, described.write_back, host, &clock);
    let before = below.snapshot();
    clock.wait_until(before.horizon());
    // What is written later than it was called for belongs to no call.
    let apart = parts.writes_at_once() && described.memory.is_none();
    let mut program = Program {
        clock: clock.clone(),
        costs: CallCosts::of(host, Some(layer)),
        calls_ns: 0,
        player: Player::new(Ino::ROOT),
        expected: Expected::new(calls.contents()),
        actors: Actors::new(described.memory.as_ref(), &clock),
    };
    let mut meter = Meter::new(experiment.run.series_interval);
    let mut phases = Phases::new();
    let mut latencies = Vec::new();
    stream.borrow_mut().begin(parts);
    while let Some(call) = calls.next() {
        // An actor that came due during the last call has the processor first: the program waits
        // for its call.
        let asked = clock.now();
        if let Err(errno) = program.actors.wake(top.fs()) {
            return Err(RunError::WriteBack(errno).explained(top.fs(), below.recent()));
        }
        let from = clock.now();
        if meter.is_due(from) {
            meter.roll(from, &below.tally());
        }
        if phases.is_new(calls.phase()) {
            phases.begin(calls.phase(), from, &below.tally(), &stream.borrow().below);
        }
        if let Some(file) = call.file().filter(|_| apart) {
            stream.borrow_mut().group = calls.group(file);
        }
        if let Err(error) = program.call(&mut top, calls, &call) {
            return Err(error.explained(top.fs(), below.recent()));
        }
        phases.called(&call, clock.now());
        meter.until(clock.now());
        if let Some(request) = request_of(&call) {
            meter.served(&request, asked, clock.now());
            if keep {
                latencies.push(Latency {
                    phase: calls.phase(),
                    op: request.op,
                    ns: clock.now() - asked,
                });
            }
        }
        if program.player.played().calls().is_multiple_of(WATCH_CALLS) {
            watch(Progress {
                phase: "run",
                share: calls.share_done(),
            });
        }
    }
    stream.borrow_mut().end();
    let after = below.snapshot();
    phases.begin(
        "unmount",
        clock.now(),
        after.tally(),
        &stream.borrow().below,
    );
    if let Err(errno) = top.fs().unmount() {
        return Err(RunError::Unmount(errno).explained(top.fs(), below.recent()));
    }
    (stack.finish)()?;
    let phases = phases.finish(clock.now(), &below.tally(), &stream.borrow().below);
    let Program {
        expected,
        calls_ns,
        actors,
        ..
    } = program;
    let measured = Measured {
        meter,
        before,
        after,
        steady: true,
    };
    Ok(Played {
        measured,
        expected,
        calls_ns,
        phases,
        flushed: actors.flushed(),
        deferred: top.deferred(),
        latencies,
    })
}

/// The program and those who work beside it.
struct Program<'a> {
    clock: Clock,
    costs: CallCosts<'a>,
    /// What the calls cost by themselves so far.
    calls_ns: Nanos,
    player: Player,
    expected: Expected,
    actors: Actors,
}

impl Program<'_> {
    /// Makes one call, to its end: what a writer must write back itself is part of it.
    fn call(
        &mut self,
        top: &mut Top<'_>,
        calls: &dyn FileCalls,
        call: &FileCall,
    ) -> Result<(), RunError> {
        let from = self.clock.now();
        let cost = self.costs.of_call(call);
        self.calls_ns += cost;
        if let FileCall::Compute { .. } = call {
            self.actors
                .compute(top.fs(), cost)
                .map_err(RunError::WriteBack)?;
        } else {
            self.clock.spend(cost);
        }
        self.player.step(top.fs(), calls, call, moment(from))?;
        top.called();
        self.expected.apply(call)?;
        if let FileCall::Write { offset, length, .. } = *call {
            self.actors
                .wrote(top.fs(), offset, length)
                .map_err(RunError::WriteBack)?;
        }
        self.clock
            .spend(self.costs.of_ticks(from, self.clock.now()));
        Ok(())
    }
}

/// Mounts once more, without costs, and compares every file.
fn prove(
    seed: u64,
    stack: &mut Stack,
    calls: &dyn FileCalls,
    expected: &Expected,
) -> Result<(), RunError> {
    base::look_again(stack, seed, |mut mounted| {
        Ok(verify(&mut mounted, Ino::ROOT, expected, calls).map(|_| ())?)
    })
}
