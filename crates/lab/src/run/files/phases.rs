//! A run's phases as its program names them: how long each took, what it moved, and what it cost
//! below.
//!
//! *Promises.* A phase lasts from the begin of its first call to the end of its last one: to the
//! moment at which the program has what it waited for. Traffic to the disk and the flash counts
//! until the next phase begins. So actors at work in between count to the phase that left them the
//! work.

use crate::play::regions::Region;
use crate::result::FlashRow;
use crate::run::flash::causes;
use nandlab_ftl::Tally;
use nandlab_sim::Nanos;
use nandlab_workload::files::FileCall;
use std::collections::BTreeMap;

/// Requests to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads, each counted once in every part of the volume that it touches.
    pub reads: u64,
    /// Bytes that reads returned.
    pub bytes_read: u64,
    /// Write calls that were served.
    pub writes: u64,
    /// Bytes that writes accepted.
    pub bytes_written: u64,
}

impl Traffic {
    pub(super) fn add(&mut self, is_write: bool, times: u64, bytes: u64) {
        if is_write {
            self.writes += times;
            self.bytes_written += bytes;
        } else {
            self.reads += times;
            self.bytes_read += bytes;
        }
    }
}

/// What passed below the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// Requests by part of the volume.
    pub parts: BTreeMap<Region, Traffic>,
    /// Flushes that the device served.
    pub flushes: u64,
    /// Calls of `remap` that the device served.
    pub remaps: u64,
    /// Sectors that they moved.
    pub remapped_sectors: u64,
}

impl Below {
    /// What has passed since an earlier look.
    fn since(&self, before: &Self) -> Self {
        let part = |(region, now): (&Region, &Traffic)| {
            let then = before.parts.get(region).copied().unwrap_or_default();
            let traffic = Traffic {
                reads: now.reads - then.reads,
                bytes_read: now.bytes_read - then.bytes_read,
                writes: now.writes - then.writes,
                bytes_written: now.bytes_written - then.bytes_written,
            };
            (traffic != Traffic::default()).then_some((*region, traffic))
        };
        Self {
            parts: self.parts.iter().filter_map(part).collect(),
            flushes: self.flushes - before.flushes,
            remaps: self.remaps - before.remaps,
            remapped_sectors: self.remapped_sectors - before.remapped_sectors,
        }
    }
}

/// The figures of one phase of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseOutcome {
    /// Its name; `unmount` for what followed the last call.
    pub name: &'static str,
    /// When its first call began, virtual ns.
    pub first: Nanos,
    /// When its last call ended.
    pub last: Nanos,
    /// File calls that the phase made.
    pub calls: u64,
    /// Bytes that calls read.
    pub bytes_read: u64,
    /// Bytes that calls wrote.
    pub bytes_written: u64,
    /// Flash operations by cause.
    pub causes: Vec<FlashRow>,
    /// Requests to the disk.
    pub below: Below,
}

impl PhaseOutcome {
    /// Returns the virtual time of the phase in seconds.
    pub fn seconds(&self) -> f64 {
        (self.last - self.first) as f64 / 1e9
    }

    /// Bytes that calls moved, in a second; none if it took no time.
    pub fn bandwidth(&self) -> Option<f64> {
        (self.last > self.first)
            .then(|| (self.bytes_read + self.bytes_written) as f64 / self.seconds())
    }
}

/// The phases of a run while it runs.
pub struct Phases {
    done: Vec<PhaseOutcome>,
    /// The one that is under way, and what was below when it began.
    current: Option<(PhaseOutcome, Tally, Below)>,
}

impl Phases {
    pub fn new() -> Self {
        Self {
            done: Vec::new(),
            current: None,
        }
    }

    /// Whether a call of this phase begins another than the one under way.
    pub fn is_new(&self, name: &'static str) -> bool {
        self.current
            .as_ref()
            .is_none_or(|(phase, ..)| phase.name != name)
    }

    /// The first call of a phase begins.
    pub fn begin(&mut self, name: &'static str, at: Nanos, tally: &Tally, below: &Below) {
        self.end(tally, below);
        let phase = PhaseOutcome {
            name,
            first: at,
            last: at,
            calls: 0,
            bytes_read: 0,
            bytes_written: 0,
            causes: Vec::new(),
            below: Below::default(),
        };
        self.current = Some((phase, *tally, below.clone()));
    }

    /// A call of the phase under way has ended.
    pub fn called(&mut self, call: &FileCall, at: Nanos) {
        let Some((phase, ..)) = &mut self.current else {
            return;
        };
        phase.calls += 1;
        phase.last = at;
        match *call {
            FileCall::Read { length, .. } => phase.bytes_read += length,
            FileCall::Write { length, .. } => phase.bytes_written += length,
            _ => {}
        }
    }

    fn end(&mut self, tally: &Tally, below: &Below) {
        if let Some((mut phase, before, below_before)) = self.current.take() {
            phase.causes = causes(&before, tally);
            phase.below = below.since(&below_before);
            self.done.push(phase);
        }
    }

    /// The last phase, which has no calls, ended.
    pub fn finish(mut self, at: Nanos, tally: &Tally, below: &Below) -> Vec<PhaseOutcome> {
        if let Some((phase, ..)) = &mut self.current {
            phase.last = at;
        }
        self.end(tally, below);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_ftl::Cause;
    use nandlab_workload::files::FileId;

    #[test]
    fn a_phase_ends_with_its_last_call_and_counts_below_until_the_next_begins() {
        let mut phases = Phases::new();
        let mut tally = Tally::default();
        let mut below = Below::default();
        let file = FileId(1);
        tally.of(Cause::Host).programs = 100;
        assert!(phases.is_new("write"));
        phases.begin("write", 10, &tally, &below);
        phases.called(
            &FileCall::Write {
                file,
                offset: 0,
                length: 4096,
                version: 0,
            },
            30,
        );
        phases.called(&FileCall::Fsync { file }, 50);
        tally.of(Cause::Host).programs = 108;
        below.parts.entry(Region::Journal).or_default().writes = 3;
        below.flushes = 2;
        assert!(!phases.is_new("write"));
        phases.begin("read", 70, &tally, &below);
        phases.called(
            &FileCall::Read {
                file,
                offset: 0,
                length: 100,
            },
            80,
        );
        phases.begin("unmount", 80, &tally, &below);
        tally.of(Cause::Host).programs = 109;
        let done = phases.finish(95, &tally, &below);
        let reported = |p: &PhaseOutcome| {
            (
                p.name,
                p.first,
                p.last,
                p.calls,
                p.bytes_read,
                p.bytes_written,
            )
        };
        assert_eq!(reported(&done[0]), ("write", 10, 50, 2, 0, 4096));
        assert_eq!(
            (
                done[0].causes[0].programs,
                done[0].below.flushes,
                done[0].below.parts[&Region::Journal].writes
            ),
            (8, 2, 3)
        );
        assert_eq!(
            (done[0].bandwidth(), done[0].seconds()),
            (Some(4096.0 / 40e-9), 40e-9)
        );
        assert_eq!(
            (reported(&done[1]), done[1].causes.len(), &done[1].below),
            (("read", 70, 80, 1, 100, 0), 0, &Below::default())
        );
        assert_eq!(
            (
                reported(&done[2]),
                done[2].causes[0].programs,
                done[2].bandwidth()
            ),
            (("unmount", 80, 95, 0, 0, 0), 1, Some(0.0))
        );
    }
}
