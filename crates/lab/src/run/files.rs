//! The run loop of a workload on files: one program, whose calls go through the file system to the disk, one after another.
//!
//! The processor's costs, if the stack has a processor, are spent where they arise: with each call, each request, each operation of the chip. At the end the file
//! system is unmounted and mounted again, and every file compared with what the calls must have left.

use super::driven::{Costs, Driven};
use super::flash::{self, Snapshot};
use super::meter::Meter;
use super::{Blocks, Measured, Outcome, Progress, RunError, Server, WATCH_EVERY};
use crate::Experiment;
use crate::play::regions::Writes;
use crate::play::{Player, verify};
use crate::result::RunResult;
use nandlab_block::{BlockDevice, Lba};
use nandlab_nand::Contents;
use nandlab_sim::Nanos;
use nandlab_stack::{FsDescription, HostDescription, Stack};
use nandlab_vfs::{FileSystem as _, Ino, Time};
use nandlab_workload::camera::{CameraMs500, CameraSpec, INDEX};
use nandlab_workload::files::{Expected, FileCall, FileCalls};
use nandlab_workload::{Op, Request};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// When runs begin, in seconds since 1970: 2010-01-01.
const EPOCH: i64 = 1_262_304_000;
/// Calls between two looks at the watch.
const WATCH_CALLS: u64 = WATCH_EVERY / 8;

/// A run on files, and what it asked of the disk.
pub struct FilesOutcome {
    /// As of any run.
    pub outcome: Outcome,
    /// What was written to which part of the volume.
    pub writes: Writes,
    /// Every request below the file system from its mount on, byte offsets counting from the partition's first sector; empty unless they were to be kept.
    pub requests: Vec<Request>,
    /// How many of these the mount made, before the workload began.
    pub mounting: usize,
    /// What the calls cost by themselves, ns.
    pub calls_ns: Nanos,
}

/// How far a run has come.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Mount,
    Play,
    Over,
}

/// What passes below the file system.
struct Stream {
    phase: Phase,
    keep: bool,
    mounting: usize,
    /// What the call that is under way writes to clusters.
    clusters: &'static str,
    /// First byte of the partition.
    start: u64,
    requests: Vec<Request>,
    writes: Writes,
}

impl Stream {
    fn begin(&mut self) {
        (self.phase, self.mounting) = (Phase::Play, self.requests.len());
    }

    fn see(&mut self, op: Op, offset: u64, length: u64, sector: u64) {
        let offset = offset.saturating_sub(self.start);
        if op == Op::Write && self.phase == Phase::Play {
            self.writes.write(offset / sector, length / sector, self.clusters);
        }
        if self.keep && self.phase != Phase::Over {
            self.requests.push(if op == Op::Flush { Request::flush(0) } else { Request { op, at: 0, offset, length } });
        }
    }
}

/// What calls cost, ns.
#[derive(Clone, Copy, Default)]
struct CallCosts {
    create: Nanos,
    remove: Nanos,
    write: Nanos,
    fsync: Nanos,
    other: Nanos,
}

impl CallCosts {
    fn of(host: Option<&HostDescription>) -> Self {
        let cost = |host: &HostDescription| Self {
            create: host.instructions("create"),
            remove: host.instructions("remove"),
            write: host.instructions("write"),
            fsync: host.instructions("fsync"),
            other: host.instructions("call"),
        };
        host.map_or(Self::default(), cost)
    }

    fn of_call(&self, call: &FileCall) -> Nanos {
        match call {
            FileCall::Create { .. } => self.create,
            FileCall::Remove { .. } => self.remove,
            FileCall::Write { .. } | FileCall::Read { .. } => self.write,
            FileCall::Fsync { .. } | FileCall::Sync => self.fsync,
            _ => self.other,
        }
    }
}

/// What a call is in the statistics of requests; none if it is none of these.
fn request_of(call: &FileCall) -> Option<Request> {
    match *call {
        FileCall::Read { offset, length, .. } => Some(Request { op: Op::Read, at: 0, offset, length }),
        FileCall::Write { offset, length, .. } => Some(Request { op: Op::Write, at: 0, offset, length }),
        FileCall::Fsync { .. } | FileCall::Sync => Some(Request::flush(0)),
        _ => None,
    }
}

/// A moment as a file system knows it.
fn time(at: Nanos) -> Time {
    Time { secs: EPOCH + (at / 1_000_000_000) as i64, nanos: (at % 1_000_000_000) as u32 }
}

/// Runs `camera` on the stack of `experiment`; keeps the requests to the disk if told so.
pub fn run_files(
    experiment: &Experiment,
    camera: &CameraSpec,
    keep: bool,
    watch: &mut dyn FnMut(Progress),
) -> Result<FilesOutcome, RunError> {
    let began = Instant::now();
    let fs = experiment.stack.fs.as_ref().ok_or(RunError::NoFileSystem)?;
    if experiment.stack.chip.spec.contents == Contents::Dropped {
        return Err(RunError::NoContents);
    }
    let mut stack = Stack::build(&experiment.stack)?;
    Server::new(&mut *stack.device, &stack.clock, experiment).precondition(&experiment.run, watch)?;
    let layout = fs.make(&mut fs.partition(&mut stack.device)?)?;
    let start = fs.start * FsDescription::SECTOR;
    let stream = Stream { phase: Phase::Mount, keep, mounting: 0, clusters: "", start, requests: Vec::new(), writes: Writes::new(layout) };
    let stream = Rc::new(RefCell::new(stream));
    let (measured, expected, calls_ns) = play(experiment, fs, camera, &mut stack, &stream, watch)?;
    prove(fs, &mut stack, camera, &expected)?;
    let blocks = Blocks::of(&*stack.device);
    let mut chip = stack.close()?;
    let (map, wear) = blocks.draw(&mut chip);
    let span = measured.meter.span();
    let flash = flash::measured(&measured, chip.spec(), wear, blocks.good(&map));
    let (host, series) = measured.meter.finish(&measured.after, chip.spec().geometry.page);
    let settings = experiment.settings.clone();
    let result = RunResult { name: experiment.name.clone(), settings, host, flash, series, chip: map, simulated_ns: span };
    let outcome = Outcome { result, cost: crate::cost::since(began), notes: Vec::new(), problem: false };
    let Stream { requests, mounting, writes, .. } =
        Rc::into_inner(stream).expect("the stack is gone, and with it the watcher").into_inner();
    Ok(FilesOutcome { outcome, writes, requests, mounting, calls_ns })
}

/// Mounts, plays every call, unmounts; what is measured ends with the last call. Gives what must be found, and what the calls cost by themselves.
fn play(
    experiment: &Experiment,
    fs: &FsDescription,
    camera: &CameraSpec,
    stack: &mut Stack,
    stream: &Rc<RefCell<Stream>>,
    watch: &mut dyn FnMut(Progress),
) -> Result<(Measured, Expected, Nanos), RunError> {
    let (clock, host) = (stack.clock.clone(), experiment.stack.host.as_ref());
    let (seen, sector) = (stream.clone(), u64::from(stack.device.geometry().sector));
    let watcher = move |op, lba: Lba, sectors: u64| seen.borrow_mut().see(op, lba.0 * sector, sectors * sector, sector);
    let disk = Driven::new(&mut *stack.device, &clock, Costs::of(&experiment.stack), Box::new(watcher));
    let nvram = stack.nvram.as_mut().map(|nvram| Box::new(nvram) as Box<dyn BlockDevice>);
    let mut mounted = fs.mount(Box::new(fs.partition(disk.clone())?), nvram)?;
    let mut calls = CameraMs500::new(camera.clone()).map_err(RunError::Precondition)?;
    let (mut player, mut expected) = (Player::new(Ino::ROOT), Expected::new(calls.contents()));
    let (costs, mut calls_ns) = (CallCosts::of(host), 0);
    let (mut meter, before) = (Meter::new(experiment.run.series_interval), Snapshot::of(&*disk.device()));
    clock.wait_until(before.horizon());
    stream.borrow_mut().begin();
    while let Some(call) = calls.next() {
        let from = clock.now();
        if meter.is_due(from) {
            meter.roll(from, disk.device().tally());
        }
        stream.borrow_mut().clusters = if call.file() == Some(INDEX) { "index" } else { "photos" };
        clock.spend(costs.of_call(&call));
        calls_ns += costs.of_call(&call);
        player.step(&mut mounted.fs, &calls, &call, time(from))?;
        expected.apply(&call)?;
        meter.until(clock.now());
        if let Some(request) = request_of(&call) {
            meter.served(&request, from, clock.now());
        }
        if player.played().calls().is_multiple_of(WATCH_CALLS) {
            watch(Progress { phase: "run", share: calls.share_done() });
        }
    }
    stream.borrow_mut().phase = Phase::Over;
    let after = Snapshot::of(&*disk.device());
    mounted.fs.unmount().map_err(RunError::Unmount)?;
    Ok((Measured { meter, before, after, steady: true }, expected, calls_ns))
}

/// Mounts once more, without costs, and compares every file.
fn prove(fs: &FsDescription, stack: &mut Stack, camera: &CameraSpec, expected: &Expected) -> Result<(), RunError> {
    let nvram = stack.nvram.as_mut().map(|nvram| Box::new(nvram) as Box<dyn BlockDevice>);
    let mut mounted = fs.mount(Box::new(fs.partition(&mut stack.device)?), nvram)?;
    let calls = CameraMs500::new(camera.clone()).map_err(RunError::Precondition)?;
    verify(&mut mounted.fs, Ino::ROOT, expected, &calls)?;
    mounted.fs.unmount().map_err(RunError::Unmount)
}
