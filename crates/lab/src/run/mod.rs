//! The run loop: builds the stack, writes what is to be there before, serves the workload in
//! virtual time, measures.
//!
//! *Closed loop*: as many slots as the queue is deep, each with its own time; the earliest goes
//! next, and a request is issued when its slot is free. *Open loop*: a request is issued when it
//! arrives, or when one of a limited number of slots is free; its latency counts from its arrival.
//!
//! Memory does not depend on the number of requests. A request costs nothing beyond the stack's own
//! work but the arithmetic here: no allocation, two dynamic calls to the device.

mod again;
mod chip_map;
mod driven;
mod driven_flash;
mod error;
mod files;
mod flash;
mod meter;
mod payload;
mod series;
mod slots;
mod steady;

pub use again::{Again, run_again};
pub use error::RunError;
pub use files::{
    Below, FilesOutcome, Latency, Live, PhaseOutcome, Traffic, live, run_calls, run_files,
    run_unproven,
};
pub use steady::Steady;

use crate::experiment::{Experiment, MeasureFrom, Precondition, RunOptions};
use crate::result::{Cost, RunResult, Setting};
use crate::workload::{BATCH, Decided, Feed};
use chip_map::Blocks;
use flash::Snapshot;
use meter::Meter;
use nandlab_block::{BlockError, Lba};
use nandlab_nand::Contents;
use nandlab_sim::Clock;
use nandlab_stack::{Device, Stack};
use nandlab_workload::pattern::{Amount, Order, Pattern};
use nandlab_workload::{Op, Request, Spec};
use payload::Payload;
use slots::Slots;
use std::time::Instant;

/// Requests between two looks at the watch; a multiple of the batch.
const WATCH_EVERY: u64 = 1 << 16;

/// How far ahead the device is told which request will come.
const AHEAD: usize = 2;

/// A run's result, and what surrounds it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured; a function of the experiment alone.
    pub result: RunResult,
    /// What it cost to find out.
    pub cost: Cost,
    /// What a reader of the result should know.
    pub notes: Vec<String>,
    /// Whether something went wrong that the result has to be read with: refused requests, a steady
    /// state that never came.
    pub problem: bool,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is going on.
    pub phase: &'static str,
    /// Share of the phase done, 0 to 1.
    pub share: f64,
}

/// Runs an experiment; `watch` is told about progress from time to time.
pub fn run(experiment: &Experiment, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, RunError> {
    if let Some(files) = experiment.workload.files() {
        return Ok(run_files(experiment, files, false, watch)?.outcome);
    }
    let began = Instant::now();
    let mut stack = Stack::build(&experiment.stack)?;
    let geometry = *stack.device.geometry();
    let mut server = Server::new(&mut *stack.device, &stack.clock, experiment);
    server.precondition(&experiment.run, watch)?;
    let (mut feed, decided) = experiment.workload.open(
        geometry.bytes(),
        u64::from(geometry.sector),
        experiment.run.seed,
    )?;
    let measured = server.measure(&mut *feed, &experiment.run, watch)?;
    let mut notes = feed.notes();
    if !measured.steady {
        notes.push(
            "write amplification never settled: everything was measured, from the first request on"
                .into(),
        );
    }
    let blocks = Blocks::of(&*stack.device);
    let mut chip = stack.close()?;
    let (map, wear) = blocks.draw(&mut chip);
    let span = measured.meter.span();
    let flash = flash::measured(&measured, chip.spec(), wear, blocks.good(&map));
    let (host, series) = measured
        .meter
        .finish(&measured.after, chip.spec().geometry.page);
    let settings = with_decided(experiment, decided);
    let result = RunResult {
        name: experiment.name.clone(),
        settings,
        host,
        flash,
        series,
        chip: map,
        simulated_ns: span,
    };
    let problem = result.host.failed > 0 || !measured.steady;
    Ok(Outcome {
        result,
        cost: crate::cost::since(began),
        notes,
        problem,
    })
}

/// The settings, with those that the device decided.
fn with_decided(experiment: &Experiment, decided: Decided) -> Vec<Setting> {
    let decided = decided.into_iter().map(|(key, value)| Setting {
        key,
        value,
        origin: "default".into(),
    });
    experiment.settings.iter().cloned().chain(decided).collect()
}

/// A workload served, and the flash around it.
pub(crate) struct Measured {
    meter: Meter,
    before: Snapshot,
    after: Snapshot,
    /// Measuring began where it was asked to.
    steady: bool,
}

/// The stack at work.
pub(crate) struct Server<'a> {
    device: &'a mut dyn Device,
    clock: &'a Clock,
    payload: Payload,
    sector_shift: u32,
    phase: &'static str,
    served: u64,
}

impl<'a> Server<'a> {
    pub fn new(device: &'a mut dyn Device, clock: &'a Clock, experiment: &Experiment) -> Self {
        let spec = &experiment.stack.chip.spec;
        let kept = (spec.contents == Contents::Kept).then_some(spec.geometry.page as usize);
        let sector_shift = device.geometry().sector.trailing_zeros();
        Self {
            device,
            clock,
            payload: Payload::new(experiment.run.seed, kept),
            sector_shift,
            phase: "run",
            served: 0,
        }
    }

    /// Serves one request.
    #[inline]
    fn serve(&mut self, request: &Request) -> Result<(), BlockError> {
        let lba = Lba(request.offset >> self.sector_shift);
        match request.op {
            Op::Write if request.length <= payload::BYTES => {
                self.device.write(lba, self.payload.write(request.length))
            }
            Op::Read if request.length <= payload::BYTES => {
                self.device.read(lba, self.payload.read(request.length))
            }
            Op::Flush => self.device.flush(),
            Op::Discard => self
                .device
                .discard(lba, request.length >> self.sector_shift),
            _ => self.serve_long(request),
        }
    }

    /// A read or write longer than the buffer, piece by piece.
    #[cold]
    fn serve_long(&mut self, request: &Request) -> Result<(), BlockError> {
        let end = request.offset + request.length;
        (request.offset..end)
            .step_by(payload::BYTES as usize)
            .try_for_each(|offset| {
                let length = payload::BYTES.min(end - offset);
                self.serve(&Request {
                    offset,
                    length,
                    ..*request
                })
            })
    }

    /// Whether the run can go on after a refusal.
    #[cold]
    fn survive(&self, request: &Request, error: BlockError) -> Result<(), RunError> {
        match error {
            BlockError::PowerCut | BlockError::Internal(_) | BlockError::Backing(_) => {
                Err(RunError::Stopped {
                    phase: self.phase,
                    number: self.served + 1,
                    request: *request,
                    error,
                    recent: self.device.medium().recent(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Writes what is to be there before the workload; durable on return.
    pub fn precondition(
        &mut self,
        options: &RunOptions,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), RunError> {
        if options.precondition_zero {
            let usual = std::mem::replace(&mut self.payload, Payload::zero());
            let outcome = self.prepare(options, watch);
            self.payload = usual;
            return outcome;
        }
        self.prepare(options, watch)
    }

    fn prepare(
        &mut self,
        options: &RunOptions,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), RunError> {
        self.phase = "precondition";
        let times = options.precondition_overwrites;
        match options.precondition {
            Precondition::None => {}
            Precondition::Sequential => self.fill(Order::Sequential, times, options.seed, watch)?,
            Precondition::Random => {
                self.fill(Order::Sequential, 1, options.seed, watch)?;
                self.fill(Order::Uniform, times, options.seed, watch)?;
            }
        }
        let outcome = self.device.flush();
        outcome.or_else(|error| self.survive(&Request::flush(0), error))
    }

    /// Overwrites the whole device page by page; every page must be taken.
    fn fill(
        &mut self,
        order: Order,
        times: u64,
        seed: u64,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(), RunError> {
        let geometry = *self.device.geometry();
        let page = u64::from(geometry.page);
        let seed = nandlab_sim::mix(seed, 0x7072_6563);
        let spec = Spec {
            order,
            block: page,
            align: page,
            amount: Amount::Overwrites(times),
            seed,
            ..Spec::new(geometry.bytes())
        };
        let mut pattern = Pattern::new(&spec).map_err(RunError::Precondition)?;
        let total = pattern.remaining();
        (self.served, self.phase) = (0, "precondition");
        while let Some(request) = pattern.draw() {
            if let Err(error) = self.serve(&request) {
                self.survive(&request, error)?;
                return Err(RunError::Unprepared { request, error });
            }
            self.served += 1;
            if self.served.is_multiple_of(WATCH_EVERY) {
                watch(Progress {
                    phase: self.phase,
                    share: self.served as f64 / total as f64,
                });
            }
        }
        Ok(())
    }

    /// Serves the workload to its end.
    pub fn measure(
        &mut self,
        feed: &mut dyn Feed,
        options: &RunOptions,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Measured, RunError> {
        (self.served, self.phase) = (0, "run");
        let mut slots = Slots::new(options, self.clock.now());
        let mut meter = Meter::new(options.series_interval);
        let mut before = Snapshot::of(self.device);
        let mut steady = (options.measure_from == MeasureFrom::Steady)
            .then(|| Steady::new(self.device.geometry().bytes()));
        let mut round_at = steady.as_ref().map_or(u64::MAX, Steady::round_at);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            let drawn = feed.draw(&mut batch);
            for (at, request) in batch.iter().enumerate() {
                if let Some(next) = batch.get(at + AHEAD) {
                    self.device.expect(Lba(next.offset >> self.sector_shift));
                }
                let (start, from) = slots.issue(request.at);
                if meter.is_due(from) {
                    meter.roll(from, self.device.tally());
                }
                self.clock.set(start);
                let outcome = self.serve(request);
                let end = self.clock.now();
                slots.complete(end);
                match outcome {
                    Ok(()) => meter.served(request, from, end),
                    Err(error) => {
                        self.survive(request, error)?;
                        meter.failed(request, error, end);
                    }
                }
                self.served += 1;
                if meter.written() >= round_at {
                    let now = Snapshot::of(self.device);
                    if steady
                        .as_mut()
                        .is_none_or(|rounds| rounds.is_over(now.programs(), meter.written()))
                    {
                        (steady, before, meter) = (None, now, Meter::new(options.series_interval));
                    }
                    round_at = steady.as_ref().map_or(u64::MAX, Steady::round_at);
                }
            }
            drawn.map_err(|error| RunError::workload(feed, error))?;
            if batch.len() < BATCH {
                break;
            }
            if self.served.is_multiple_of(WATCH_EVERY) {
                watch(Progress {
                    phase: self.phase,
                    share: feed.share_done(),
                });
            }
        }
        let after = Snapshot::of(self.device);
        Ok(Measured {
            meter,
            before,
            after,
            steady: steady.is_none(),
        })
    }
}

#[cfg(test)]
mod tests;
