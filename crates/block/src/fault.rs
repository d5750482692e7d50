//! Makes chosen requests fail, and hangs the device on a power rail.
//!
//! *Promises.* A request that fails has either not reached the device below or, where the fault
//! says so, been served in full: the fault plan alone decides. *Knows nothing of* torn writes: see
//! [`WriteLog`](crate::WriteLog).

use crate::{BlockError, Hook, Hooked, Lba, Op, Request};
use alloc::vec::Vec;
use core::ops::Range;
use nandlab_sim::{Rail, Schedule};

/// One way to fail.
#[derive(Clone, Debug)]
pub struct Fault {
    op: Op,
    sectors: Range<u64>,
    when: Schedule,
    error: BlockError,
    served: bool,
}

impl Fault {
    /// Every request of this kind fails with `error` before it reaches the device.
    pub fn new(op: Op, error: BlockError) -> Self {
        Self {
            op,
            sectors: 0..u64::MAX,
            when: Schedule::always(),
            error,
            served: false,
        }
    }

    /// Reading any of `sectors` fails for good with [`BlockError::Lost`] of the first of them.
    pub fn lost(sectors: Range<u64>) -> Self {
        Self::new(Op::Read, BlockError::lost(Lba(sectors.start))).within(sectors)
    }

    /// Only requests that touch one of `sectors`. Flush and remap match whatever these are.
    pub fn within(self, sectors: Range<u64>) -> Self {
        Self { sectors, ..self }
    }

    /// Only those of the matching requests that `when` picks, counted from zero.
    pub fn when(self, when: Schedule) -> Self {
        Self { when, ..self }
    }

    /// The device serves the request, the caller hears of a failure all the same.
    pub fn served(self) -> Self {
        Self {
            served: true,
            ..self
        }
    }

    /// The error with which this fault answers `request`, if it does.
    fn strikes(&mut self, request: &Request) -> Option<BlockError> {
        let end = request.lba.0.saturating_add(request.sectors);
        let anywhere = matches!(request.op, Op::Flush | Op::Remap);
        let matches = request.op == self.op
            && (anywhere || request.lba.0 < self.sectors.end && self.sectors.start < end);
        (matches && self.when.fires()).then(|| match self.error {
            BlockError::Lost { cause, .. } => BlockError::Lost {
                lba: Lba(request.lba.0.max(self.sectors.start)),
                cause,
            },
            error => error,
        })
    }
}

/// The fault plan of a device.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    list: Vec<Fault>,
    rail: Option<Rail>,
    late: Option<BlockError>,
}

/// A device with a fault plan.
pub type FaultInjector<D> = Hooked<D, Faults>;

impl<D> Hooked<D, Faults> {
    /// No faults yet, and power for ever.
    pub fn new(inner: D) -> Self {
        Self::with(inner, Faults::default())
    }

    /// One more fault. Of several that match a request the one added first decides.
    pub fn add(&mut self, fault: Fault) {
        self.hook.list.push(fault);
    }

    /// Hangs the device on `rail`: every write, flush, discard and remap takes a step before it
    /// begins, and everything fails while the power is off. A cut falls between requests.
    pub fn powered_by(mut self, rail: Rail) -> Self {
        self.hook.rail = Some(rail);
        self
    }
}

impl Hook for Faults {
    fn before(&mut self, request: &Request) -> Result<(), BlockError> {
        match &self.rail {
            Some(rail) if request.op == Op::Read => rail.powered()?,
            Some(rail) => rail.step()?,
            None => {}
        }
        // All matching faults count the request, so that adding one does not shift another.
        let mut struck = None;
        for fault in &mut self.list {
            let error = fault.strikes(request).map(|error| (error, fault.served));
            struck = struck.or(error);
        }
        match struck {
            Some((error, false)) => Err(error),
            Some((error, true)) => {
                self.late = Some(error);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn after(&mut self, _: &Request, outcome: Result<(), BlockError>) -> Result<(), BlockError> {
        match self.late.take() {
            Some(error) => outcome.and(Err(error)),
            None => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDevice, Ram};

    fn disk(faults: impl IntoIterator<Item = Fault>) -> FaultInjector<Ram> {
        let mut disk = FaultInjector::new(Ram::new(512, 16));
        faults.into_iter().for_each(|fault| disk.add(fault));
        disk
    }

    fn first_byte(disk: &mut impl BlockDevice, lba: u64) -> u8 {
        let mut buf = [0; 512];
        disk.read(Lba(lba), &mut buf).unwrap();
        buf[0]
    }

    #[test]
    fn the_nth_request_of_a_kind_fails_and_changes_nothing() {
        let mut disk =
            disk([Fault::new(Op::Write, BlockError::WornOut(None)).when(Schedule::nth(1))]);
        let outcomes = [1, 2, 3].map(|i| disk.write(Lba(i), &[9; 512]));
        assert_eq!(outcomes, [Ok(()), Err(BlockError::WornOut(None)), Ok(())]);
        assert_eq!([1, 2, 3].map(|i| first_byte(&mut disk, i)), [9, 0, 9]);
    }

    #[test]
    fn a_served_fault_changes_the_medium_and_reports_failure() {
        let mut disk = disk([Fault::new(Op::Write, BlockError::WornOut(None)).served()]);
        assert_eq!(
            disk.write(Lba(1), &[9; 512]),
            Err(BlockError::WornOut(None))
        );
        assert_eq!(first_byte(&mut disk, 1), 9);
    }

    #[test]
    fn a_lost_range_fails_every_read_that_touches_it_and_no_other() {
        let mut disk = disk([Fault::lost(5..9)]);
        let lost = |lba| Err(BlockError::lost(Lba(lba)));
        assert_eq!(disk.read(Lba(3), &mut [0; 2 * 512]), Ok(()));
        assert_eq!(disk.read(Lba(3), &mut [0; 3 * 512]), lost(5));
        assert_eq!(disk.read(Lba(8), &mut [0; 512]), lost(8));
        assert_eq!(disk.read(Lba(9), &mut [0; 512]), Ok(()));
        assert_eq!(disk.write(Lba(5), &[0; 512]), Ok(()));
    }

    #[test]
    fn faults_count_their_requests_independently() {
        let worn = Fault::new(Op::Flush, BlockError::WornOut(None)).when(Schedule::listed([0, 2]));
        let unsupported =
            Fault::new(Op::Flush, BlockError::Unsupported).when(Schedule::listed([0, 1]));
        let mut disk = disk([worn, unsupported]);
        let outcomes = [(); 4].map(|()| disk.flush());
        assert_eq!(
            outcomes,
            [
                Err(BlockError::WornOut(None)),
                Err(BlockError::Unsupported),
                Err(BlockError::WornOut(None)),
                Ok(())
            ]
        );
    }

    #[test]
    fn the_rail_steps_with_every_change_and_its_cut_stops_reads_too() {
        let rail = Rail::new();
        let mut disk = disk([]).powered_by(rail.clone());
        rail.cut_at(3);
        assert_eq!(
            (disk.write(Lba(0), &[1; 512]), first_byte(&mut disk, 0)),
            (Ok(()), 1)
        );
        assert_eq!((disk.flush(), disk.discard(Lba(0), 1)), (Ok(()), Ok(())));
        assert_eq!(disk.write(Lba(0), &[2; 512]), Err(BlockError::PowerCut));
        assert_eq!(disk.read(Lba(0), &mut [0; 512]), Err(BlockError::PowerCut));
        rail.restore();
        assert_eq!((first_byte(&mut disk, 0), rail.steps()), (0, 3));
    }
}
