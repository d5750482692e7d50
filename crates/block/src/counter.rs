//! Counts requests and sectors. *Knows nothing of* time.

use crate::{BlockError, Hook, Hooked, Op, Request};

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests that the disk served.
    pub requests: u64,
    /// Sectors they moved (pairs, for a remap).
    pub sectors: u64,
    /// Requests that failed; they count nowhere else.
    pub failed: u64,
}

/// Requests that a disk served, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of `BlockDevice::read` that were served.
    pub reads: Count,
    /// Calls of `BlockDevice::write` that were served.
    pub writes: Count,
    /// Calls of `BlockDevice::flush` that were served.
    pub flushes: Count,
    /// Calls of `BlockDevice::discard` that were served.
    pub discards: Count,
    /// Calls of `BlockDevice::remap` that were served.
    pub remaps: Count,
}

/// A device with a tally beside it.
pub type Counter<D> = Hooked<D, Counts>;

impl<D> Hooked<D, Counts> {
    /// Wraps a disk, with all counters at zero.
    pub fn new(inner: D) -> Self {
        Self::with(inner, Counts::default())
    }

    /// The tally so far.
    pub fn counts(&self) -> Counts {
        self.hook
    }

    /// The tally so far; the next begins at zero.
    pub fn reset(&mut self) -> Counts {
        core::mem::take(&mut self.hook)
    }
}

impl Hook for Counts {
    fn after(
        &mut self,
        request: &Request,
        outcome: Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let count = match request.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush => &mut self.flushes,
            Op::Discard => &mut self.discards,
            Op::Remap => &mut self.remaps,
        };
        match outcome {
            Ok(()) => {
                count.requests += 1;
                count.sectors += request.sectors;
            }
            Err(_) => count.failed += 1,
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDevice, Lba, Ram, Remap};

    #[test]
    fn requests_count_once_under_their_kind_and_failures_apart() {
        let mut disk = Counter::new(Ram::new(512, 8));
        disk.write(Lba(0), &[0; 3 * 512]).unwrap();
        disk.write(Lba(3), &[0; 512]).unwrap();
        disk.read(Lba(0), &mut [0; 1024]).unwrap();
        disk.discard(Lba(0), 5).unwrap();
        disk.flush().unwrap();
        disk.read(Lba(8), &mut [0; 512]).unwrap_err();
        disk.remap(&[Remap {
            from: Lba(0),
            to: Lba(8),
        }])
        .unwrap_err();
        let expected = Counts {
            reads: Count {
                requests: 1,
                sectors: 2,
                failed: 1,
            },
            writes: Count {
                requests: 2,
                sectors: 4,
                failed: 0,
            },
            flushes: Count {
                requests: 1,
                sectors: 0,
                failed: 0,
            },
            discards: Count {
                requests: 1,
                sectors: 5,
                failed: 0,
            },
            remaps: Count {
                requests: 0,
                sectors: 0,
                failed: 1,
            },
        };
        assert_eq!((disk.reset(), disk.counts()), (expected, Counts::default()));
    }
}
