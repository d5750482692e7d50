//! The run loop itself: a feed of requests served by a device in virtual time, and measured.
//!
//! *Works on* any [`Device`], also one from another crate.

use super::chip_map::Blocks;
use super::error::Stopped;
use super::flash::Measured;
use super::meter::Meter;
use super::payload::{self, Payload};
use super::slots::Slots;
use super::snapshot::Snapshot;
use super::steady::Steady;
use super::{Progress, RunError};
use crate::experiment::{MeasureFrom, Precondition, RunOptions};
use crate::result::RunResult;
use crate::workload::{BATCH, Feed};
use nandlab_block::{BlockError, Lba};
use nandlab_mtd::Mtd as _;
use nandlab_nand::Contents;
use nandlab_sim::{Clock, Nanos};
use nandlab_stack::Device;
use nandlab_workload::pattern::{Amount, Order, Pattern};
use nandlab_workload::{Op, Request, Spec};
use std::convert::Infallible;

/// Requests between two looks at the watch; a multiple of the batch.
pub(super) const WATCH_EVERY: u64 = 1 << 16;

/// How many requests ahead the device learns of.
const AHEAD: usize = 8;

/// The raw figures of a measured run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The result, without a name and without settings.
    pub result: RunResult,
    /// Measuring began where it was asked to. If not, everything was measured.
    pub steady: bool,
}

/// Runs a workload on any device and returns the numbers.
///
/// `clock` is the clock of the chip below the device. `watch` is notified of progress from time to
/// time. Requests that the device refuses are counted; an error that leaves nothing to trust ends
/// the run.
pub fn measure(
    device: &mut dyn Device,
    clock: &Clock,
    feed: &mut dyn Feed,
    options: &RunOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<Run, RunError> {
    let measured = Server::new(&mut *device, clock, options.seed).measure(feed, options, watch)?;
    let steady = measured.steady;
    let result = measured.result(&Blocks::of(&*device), device.medium());
    Ok(Run { result, steady })
}

/// Writes what is to be on a device before a workload. Durable on return.
pub fn precondition(
    device: &mut dyn Device,
    clock: &Clock,
    options: &RunOptions,
    watch: &mut dyn FnMut(Progress),
) -> Result<(), RunError> {
    Server::new(device, clock, options.seed).precondition(options, watch)
}

/// Requests on their way to the device. The last ones wait until it has learned of those behind
/// them.
struct Queue {
    requests: Vec<Request>,
    /// The device may serve so many of them.
    ready: usize,
}

impl Queue {
    fn new() -> Self {
        Self {
            requests: Vec::with_capacity(BATCH + AHEAD),
            ready: 0,
        }
    }

    /// Lets go of the requests before, and draws up to [`BATCH`] more. Gives whether
    /// there may be others behind them, and the outcome.
    fn refill<E>(
        &mut self,
        draw: impl FnOnce(&mut Vec<Request>) -> Result<(), E>,
    ) -> (bool, Result<(), E>) {
        self.requests.drain(..self.ready);
        let waiting = self.requests.len();
        let drawn = draw(&mut self.requests);
        let more = drawn.is_ok() && self.requests.len() - waiting == BATCH;
        self.ready = self.requests.len() - if more { AHEAD } else { 0 };
        (more, drawn)
    }
}

/// The stack at work.
struct Server<'a> {
    device: &'a mut dyn Device,
    clock: &'a Clock,
    payload: Payload,
    sector_shift: u32,
    phase: &'static str,
    served: u64,
}

impl<'a> Server<'a> {
    fn new(device: &'a mut dyn Device, clock: &'a Clock, seed: u64) -> Self {
        let spec = device.medium().spec();
        let kept = (spec.contents == Contents::Kept).then_some(spec.geometry.page as usize);
        let sector_shift = device.geometry().sector.trailing_zeros();
        Self {
            device,
            clock,
            payload: Payload::new(seed, kept),
            sector_shift,
            phase: "run",
            served: 0,
        }
    }

    /// The request at `at` is next: the device learns of one behind it.
    #[inline]
    fn announce(&mut self, queue: &Queue, at: usize) -> Request {
        if let Some(later) = queue.requests.get(at + AHEAD) {
            self.device.expect(Lba(later.offset >> self.sector_shift));
        }
        queue.requests[at]
    }

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

    fn stopped(&self, request: &Request, error: BlockError) -> RunError {
        RunError::Stopped(Box::new(Stopped {
            phase: self.phase,
            number: self.served + 1,
            request: *request,
            error,
            recent: self.device.medium().recent(),
        }))
    }

    /// Whether the run can go on after a refusal.
    #[cold]
    fn survive(&self, request: &Request, error: BlockError) -> Result<(), RunError> {
        match error {
            BlockError::PowerCut | BlockError::Internal(_) | BlockError::Backing(_) => {
                Err(self.stopped(request, error))
            }
            _ => Ok(()),
        }
    }

    /// Writes what is to be there before the workload; durable on return.
    fn precondition(
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
        let mut queue = Queue::new();
        let mut more = true;
        while more {
            (more, _) = queue.refill(|into| {
                into.extend(std::iter::from_fn(|| pattern.draw()).take(BATCH));
                Ok::<_, Infallible>(())
            });
            for at in 0..queue.ready {
                let request = self.announce(&queue, at);
                if let Err(error) = self.serve(&request) {
                    self.survive(&request, error)?;
                    return Err(self.stopped(&request, error));
                }
                self.count_served(total, watch);
            }
        }
        Ok(())
    }

    fn count_served(&mut self, total: u64, watch: &mut dyn FnMut(Progress)) {
        self.served += 1;
        if self.served.is_multiple_of(WATCH_EVERY) {
            watch(Progress {
                phase: self.phase,
                share: self.served as f64 / total as f64,
            });
        }
    }

    /// Gives the device the time until `start` in which neither it nor the host has anything to do.
    fn idle_until(&mut self, start: Nanos) -> Result<(), RunError> {
        loop {
            let free = self.device.medium().issued().0.max(self.clock.now());
            if free >= start {
                return Ok(());
            }
            self.clock.set(free);
            match self.device.idle() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return self.survive(&Request::flush(start), error),
            }
        }
    }

    /// Serves the workload to its end.
    fn measure(
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
        let mut queue = Queue::new();
        let mut drawn_before = 0;
        loop {
            let (more, drawn) = queue.refill(|into| feed.draw(into));
            for at in 0..queue.ready {
                let request = &self.announce(&queue, at);
                let (start, from) = slots.issue(request.at);
                if options.open_loop {
                    self.idle_until(start)?;
                }
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
            if !more {
                break;
            }
            drawn_before += BATCH as u64;
            if drawn_before.is_multiple_of(WATCH_EVERY) {
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
