//! Counts requests. *Knows nothing of* time, or of who caused them.

use crate::{Hook, Hooked, Outcome, Request};

/// Requests that an array served, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages read with their data.
    pub reads: u64,
    /// Pages of which only the OOB was read.
    pub oob_reads: u64,
    /// Pages programmed with data.
    pub programs: u64,
    /// Pages of which only the OOB was programmed.
    pub oob_programs: u64,
    /// Pages copied; they are neither reads nor programs here.
    pub copies: u64,
    /// Blocks whose erase was requested.
    pub erases: u64,
    /// Blocks whose bad mark was read.
    pub bad_checks: u64,
    /// Blocks marked bad by the caller.
    pub bad_marks: u64,
    /// Calls of [`Mtd::fence`](crate::Mtd::fence) that were served.
    pub fences: u64,
    /// Calls of [`Mtd::sync`](crate::Mtd::sync) that were served.
    pub syncs: u64,
    /// Reads and copies in which bits were corrected; they count as reads and copies too.
    pub corrected: u64,
    /// Requests that failed; they count nowhere else.
    pub failed: u64,
}

/// An array with a tally beside it.
pub type Counter<M> = Hooked<M, Counts>;

impl<M> Hooked<M, Counts> {
    /// Wraps an array, with all counters at zero.
    pub fn new(inner: M) -> Self {
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

impl Counts {
    fn of(&mut self, request: &Request) -> &mut u64 {
        match request {
            Request::Read { data: true, .. } => &mut self.reads,
            Request::Read { data: false, .. } => &mut self.oob_reads,
            Request::Program { data: true, .. } => &mut self.programs,
            Request::Program { data: false, .. } => &mut self.oob_programs,
            Request::Copy { .. } => &mut self.copies,
            Request::Erase(_) => &mut self.erases,
            Request::IsBad(_) => &mut self.bad_checks,
            Request::MarkBad(_) => &mut self.bad_marks,
            Request::Fence(_) => &mut self.fences,
            Request::Sync => &mut self.syncs,
        }
    }
}

impl Hook for Counts {
    fn after(&mut self, request: &Request, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(corrected) => {
                *self.of(request) += 1;
                self.corrected += u64::from(corrected.bits > 0);
            }
            Err(_) => self.failed += 1,
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Fault, FaultInjector, Image, ImageFormat, Issued, Layout, Mtd, Page};
    use alloc::vec;

    #[test]
    fn requests_count_once_under_their_kind_and_failures_apart() {
        let format = ImageFormat {
            page: 512,
            oob: 16,
            pages_per_block: 4,
            layout: Layout::LinuxSmallPage,
            ecc: None,
        };
        let mut faulty =
            FaultInjector::new(Image::new(vec![0xFF; format.bytes(2) as usize], format).unwrap());
        faulty.add(Fault::corrected(Page(1)..=Page(1), 3));
        let mut array = Counter::new(faulty);
        array.program(Page(0), &[1; 512], &[2]).unwrap();
        array.program(Page(1), &[], &[2]).unwrap();
        array.read(Page(0), &mut [0; 512], &mut []).unwrap();
        array.read(Page(1), &mut [], &mut [0]).unwrap();
        array.copy(Page(1), Page(2), &mut [], &[]).unwrap();
        array.read(Page(8), &mut [], &mut [0]).unwrap_err();
        array.fence(Issued(0));
        array.sync().unwrap();
        array.erase(Block(0)).unwrap();
        array.mark_bad(Block(0)).unwrap();
        assert!(array.is_bad(Block(0)).unwrap());
        array.erase(Block(0)).unwrap_err();
        let expected = Counts {
            reads: 1,
            oob_reads: 1,
            programs: 1,
            oob_programs: 1,
            copies: 1,
            erases: 1,
            bad_checks: 1,
            bad_marks: 1,
            fences: 1,
            syncs: 1,
            corrected: 2,
            failed: 2,
        };
        assert_eq!(
            (array.reset(), array.counts()),
            (expected, Counts::default())
        );
    }
}
