//! The file system with its clockwork: one thread that answers the queue, writes back, and keeps
//! the pace.

use super::{Options, attributes::time};
use nandlab_pagecache::flusher::Flusher;
use nandlab_sim::{Clock, Nanos};
use nandlab_vfs::{Errno, FileSystem, Time};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The requests in the queue.
pub type Request = Box<dyn FnOnce(&mut Served<'_>) + Send>;

/// The longest rest without a look at what is due.
const REST_MAX: Duration = Duration::from_secs(1);

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There may be more.
    Served,
    /// Nobody can ask any more.
    Ended,
}

/// A file system that is served.
pub struct Served<'a> {
    fs: &'a mut dyn FileSystem,
    flusher: Flusher,
    read_only: bool,
    stats: Option<Box<dyn FnMut() -> String + 'a>>,
    pace: Option<Pace>,
    /// The first failure of what nobody waited for.
    fault: Option<Errno>,
}

/// Virtual time held against the wall's.
struct Pace {
    clock: Clock,
    /// Virtual time, and the wall's, at the beginning.
    from: (Nanos, Instant),
}

impl Pace {
    fn real(&self) -> Nanos {
        self.from
            .0
            .saturating_add(u64::try_from(self.from.1.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

pub fn now() -> Time {
    time(SystemTime::now())
}

impl<'a> Served<'a> {
    pub fn new(fs: &'a mut dyn FileSystem, options: Options<'a>) -> Self {
        let Options {
            read_only,
            limits,
            stats,
            pace,
            ..
        } = options;
        let pace = pace.map(|clock| Pace {
            from: (clock.now(), Instant::now()),
            clock,
        });
        Self {
            fs,
            flusher: Flusher::new(limits, now()),
            read_only,
            stats,
            pace,
            fault: None,
        }
    }

    /// Answers one request, or does what is due.
    pub fn step(&mut self, requests: &Receiver<Request>) -> Step {
        let rest = self
            .due()
            .map_or(REST_MAX, |due| until(due, now()).min(REST_MAX));
        match requests.recv_timeout(rest) {
            Ok(request) => request(self),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Step::Ended,
        }
        if self.due().is_some_and(|due| due <= now()) {
            self.at_its_time();
            let outcome = self.flusher.wake(self.fs, &mut now);
            self.note(outcome);
        }
        Step::Served
    }

    /// When work falls due. A server that writes nothing rests, and so does one whose writing has
    /// failed once.
    fn due(&self) -> Option<Time> {
        let writes = !self.read_only && self.fault.is_none();
        self.flusher.next(self.fs).filter(|_| writes)
    }

    /// Makes a call; returns when it would have ended on the device.
    pub fn call<T>(&mut self, verb: impl FnOnce(&mut dyn FileSystem) -> T) -> T {
        self.at_its_time();
        let outcome = verb(self.fs);
        if let Some(pace) = &self.pace {
            thread::sleep(Duration::from_nanos(
                pace.clock.now().saturating_sub(pace.real()),
            ));
        }
        outcome
    }

    /// A program has written: above the limit, it waits for what is written back.
    pub fn wrote(&mut self, offset: u64, bytes: u64) {
        let outcome = self.flusher.wrote(self.fs, offset, bytes);
        self.note(outcome);
    }

    /// The statistics as they are.
    pub fn stats(&mut self) -> String {
        self.stats
            .as_mut()
            .map_or_else(String::new, |stats| stats())
    }

    /// Unmounts the file system.
    pub fn end(self) -> Result<(), Errno> {
        self.fs.unmount()?;
        self.fault.map_or(Ok(()), Err)
    }

    /// The device has been idle since its last call.
    fn at_its_time(&self) {
        if let Some(pace) = &self.pace {
            pace.clock.wait_until(pace.real());
        }
    }

    fn note(&mut self, outcome: Result<(), Errno>) {
        self.fault = self.fault.or(outcome.err());
    }
}

/// How long it is from `now` to `due`.
fn until(due: Time, now: Time) -> Duration {
    let nanos = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    Duration::from_nanos(u64::try_from(nanos(due) - nanos(now)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_vfs::MemFs;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn what_is_past_is_due_at_once() {
        assert_eq!(
            until(
                Time::new(5),
                Time {
                    secs: 3,
                    nanos: 500_000_000
                }
            ),
            Duration::from_millis(1500)
        );
        assert_eq!(until(Time::MIN, Time::MAX), Duration::ZERO);
    }

    #[test]
    fn a_server_that_writes_nothing_rests() {
        for (read_only, fault) in [(false, None), (true, None), (false, Some(Errno::Io))] {
            let mut fs = MemFs::new(1 << 20, Time::new(0));
            let mut served = Served::new(
                &mut fs,
                Options {
                    read_only,
                    ..Options::default()
                },
            );
            served.note(fault.map_or(Ok(()), Err));
            let rests = read_only || fault.is_some();
            assert_eq!(served.due().is_none(), rests, "{read_only} {fault:?}");
        }
    }

    #[test]
    fn with_a_pace_a_call_takes_as_long_as_on_the_device() {
        let clock = Clock::new();
        let mut fs = MemFs::new(1 << 20, Time::new(0));
        let mut served = Served::new(
            &mut fs,
            Options {
                pace: Some(clock.clone()),
                ..Options::default()
            },
        );
        let began = Instant::now();
        served.call(|_| clock.spend(30_000_000));
        assert!(began.elapsed() >= Duration::from_millis(30));
        // A clock that lags behind has been idle.
        thread::sleep(Duration::from_millis(5));
        served.call(|_| ());
        assert!(clock.now() >= 35_000_000);
    }

    #[test]
    fn it_ends_when_nobody_can_ask() {
        let mut fs = MemFs::new(1 << 20, Time::new(0));
        let (queue, requests) = sync_channel::<Request>(1);
        let mut served = Served::new(&mut fs, Options::default());
        queue
            .send(Box::new(|served| {
                served.call(|fs| assert!(fs.statfs().is_ok()))
            }))
            .unwrap();
        assert_eq!(served.step(&requests), Step::Served);
        drop(queue);
        assert_eq!(served.step(&requests), Step::Ended);
        served.end().unwrap();
    }
}
