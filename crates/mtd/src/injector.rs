//! Makes chosen operations fail or report bit errors, makes blocks bad, and hangs the array on a
//! power rail.
//!
//! *Promises.* The fault plan alone decides what fails, whatever the array below does. A program or
//! an erase that fails has not reached the array or, where the fault says so, been done in full:
//! both are contents that the contract calls undefined. *Knows nothing of* torn pages, wear or
//! error correction: those are the chip model's.

use crate::fault::Strike;
use crate::{
    Block, Corrected, Fault, Geometry, Hook, Hooked, Mtd, MtdError, Outcome, Page, Request,
};
use alloc::{collections::BTreeSet, vec::Vec};
use nandlab_sim::{Rail, mix};

/// The fault plan of an array.
#[derive(Clone, Debug)]
pub struct Faults {
    geometry: Geometry,
    list: Vec<Fault>,
    bad: BTreeSet<u32>,
    rail: Option<Rail>,
    late: Option<Strike>,
}

/// An array with a fault plan.
pub type FaultInjector<M> = Hooked<M, Faults>;

impl<M: Mtd> Hooked<M, Faults> {
    /// No faults yet, and power for ever.
    pub fn new(inner: M) -> Self {
        let geometry = inner.geometry().clone();
        Self::with(
            inner,
            Faults {
                geometry,
                list: Vec::new(),
                bad: BTreeSet::new(),
                rail: None,
                late: None,
            },
        )
    }

    /// One more fault. Of several that match an operation the one added first decides.
    pub fn add(&mut self, fault: Fault) {
        self.hook.list.push(fault);
    }

    /// The block is bad from the factory: it can be read, not programmed or erased. The array below
    /// does not know.
    pub fn add_factory_bad(&mut self, block: Block) {
        self.hook.bad.insert(block.0);
    }

    /// Hangs the array on `rail`: every program, copy, erase and bad-block mark takes a step before
    /// it begins, and everything fails while the power is off. A cut falls between operations. Not
    /// for a chip that is on the rail itself.
    pub fn powered_by(mut self, rail: Rail) -> Self {
        self.hook.rail = Some(rail);
        self
    }
}

impl Faults {
    fn power(&self, request: &Request) -> Result<(), MtdError> {
        match (&self.rail, request) {
            (None, _) => Ok(()),
            (
                Some(rail),
                Request::Program { .. }
                | Request::Copy { .. }
                | Request::Erase(_)
                | Request::MarkBad(_),
            ) => Ok(rail.step()?),
            (Some(rail), _) => Ok(rail.powered()?),
        }
    }

    fn refuse_bad(&self, request: &Request) -> Result<(), MtdError> {
        let block = match *request {
            Request::Program { page, .. } | Request::Copy { to: page, .. } => {
                self.geometry.block_of(page)
            }
            Request::Erase(block) => block,
            _ => return Ok(()),
        };
        if self.is_bad(block) {
            Err(MtdError::BadBlock(block))
        } else {
            Ok(())
        }
    }
}

impl Hook for Faults {
    fn before(&mut self, request: &Request) -> Result<(), MtdError> {
        self.power(request)?;
        self.refuse_bad(request)?;
        // All matching faults count the operation, so that adding one does not shift another.
        let mut struck = None;
        for fault in &mut self.list {
            let strike = fault.strikes(request);
            struck = struck.or(strike);
        }
        if let Some(Strike::Fail(error)) = struck {
            return Err(error);
        }
        self.late = struck;
        Ok(())
    }

    fn after(&mut self, _: &Request, outcome: Outcome) -> Outcome {
        match (self.late.take(), outcome?) {
            (Some(Strike::Fail(error) | Strike::FailLate(error)), _) => Err(error),
            (Some(Strike::Report(injected)), seen) => Ok(Corrected {
                bits: injected.bits.max(seen.bits),
            }),
            (None, seen) => Ok(seen),
        }
    }

    /// Flips a bit in every 32 bytes, chosen by the page.
    fn damage(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) {
        for (index, part) in data.chunks_mut(32).chain(oob.chunks_mut(32)).enumerate() {
            let word = mix(u64::from(page.0), index as u64) as usize;
            part[word / 8 % part.len()] ^= 1 << (word % 8);
        }
    }

    fn is_bad(&self, block: Block) -> bool {
        self.bad.contains(&block.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, ImageFormat, Layout};
    use alloc::vec;
    use nandlab_sim::Schedule;

    type Faulty = FaultInjector<Image<Vec<u8>>>;

    fn array(faults: impl IntoIterator<Item = Fault>) -> Faulty {
        let format = ImageFormat {
            page: 512,
            oob: 16,
            pages_per_block: 4,
            layout: Layout::LinuxSmallPage,
            ecc: None,
        };
        let mut array =
            FaultInjector::new(Image::new(vec![0xFF; format.bytes(4) as usize], format).unwrap());
        faults.into_iter().for_each(|fault| array.add(fault));
        array
    }

    fn program(array: &mut Faulty, page: u32) -> Result<(), MtdError> {
        array.program(Page(page), &[0; 512], &[0])
    }

    fn read(array: &mut Faulty, page: u32) -> (Outcome, [u8; 512]) {
        let mut data = [0xAA; 512];
        (array.read(Page(page), &mut data, &mut []), data)
    }

    #[test]
    fn the_nth_program_fails_wherever_it_goes_and_a_listed_page_fails_whenever() {
        let mut array = array([
            Fault::program(..).when(Schedule::nth(2)),
            Fault::program(Page(1)..=Page(1)),
        ]);
        let outcomes = [0, 1, 2, 3, 1].map(|page| program(&mut array, page).err());
        let failed = |page| Some(MtdError::ProgramFailed(Page(page)));
        assert_eq!(outcomes, [None, failed(1), failed(2), None, failed(1)]);
        assert_eq!(
            (read(&mut array, 2).1, read(&mut array, 3).1),
            ([0xFF; 512], [0; 512])
        );
    }

    #[test]
    fn a_failure_can_come_after_the_deed() {
        let mut array = array([
            Fault::program(Page(1)..Page(2)).done(),
            Fault::erase(..).done().when(Schedule::first(1)),
        ]);
        assert_eq!(
            (program(&mut array, 1), read(&mut array, 1).1),
            (Err(MtdError::ProgramFailed(Page(1))), [0; 512])
        );
        assert_eq!(
            (array.erase(Block(0)), read(&mut array, 1).1),
            (Err(MtdError::EraseFailed(Block(0))), [0xFF; 512])
        );
        assert_eq!(array.erase(Block(0)), Ok(()));
    }

    #[test]
    fn an_erase_that_fails_leaves_the_block() {
        let mut array = array([Fault::erase(Block(1)..=Block(2))]);
        program(&mut array, 4).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|b| array.erase(Block(b)).is_ok()),
            [true, false, false, true]
        );
        assert_eq!(read(&mut array, 4).1, [0; 512]);
    }

    #[test]
    fn an_uncorrectable_page_gives_damaged_data_until_its_fault_passes() {
        let mut array = array([Fault::uncorrectable(Page(0)..=Page(0)).when(Schedule::first(2))]);
        program(&mut array, 0).unwrap();
        for _ in 0..2 {
            let (outcome, data) = read(&mut array, 0);
            assert_eq!(
                (outcome, data.iter().filter(|b| **b != 0).count()),
                (Err(MtdError::Uncorrectable(Page(0))), 512 / 32)
            );
        }
        assert_eq!(read(&mut array, 0), (Ok(Corrected::default()), [0; 512]));
    }

    #[test]
    fn damage_below_stays_as_it_was_read() {
        let mut array = array([Fault::uncorrectable(..)]);
        program(&mut array, 0).unwrap();
        let mut above = FaultInjector::new(&mut array);
        let mut once = [0; 512];
        let mut twice = [0; 512];
        above.read(Page(0), &mut twice, &mut []).unwrap_err();
        array.read(Page(0), &mut once, &mut []).unwrap_err();
        assert_eq!(once, twice);
    }

    #[test]
    fn a_copy_fails_as_the_read_or_the_program_it_is_made_of() {
        let mut array = array([
            Fault::uncorrectable(Page(0)..=Page(0)),
            Fault::program(Page(9)..=Page(9)),
            Fault::corrected(.., 4),
        ]);
        program(&mut array, 0).unwrap();
        let mut copy = |from, to| array.copy(Page(from), Page(to), &mut [], &[]);
        assert_eq!(copy(0, 8), Err(MtdError::Uncorrectable(Page(0))));
        assert_eq!(copy(1, 9), Err(MtdError::ProgramFailed(Page(9))));
        assert_eq!(copy(1, 10), Ok(Corrected { bits: 4 }));
        assert_eq!(read(&mut array, 8).1, [0xFF; 512]);
    }

    #[test]
    fn a_factory_bad_block_can_be_read_and_nothing_else() {
        let mut array = array([]);
        array.add_factory_bad(Block(2));
        assert_eq!(
            [1, 2, 3].map(|b| array.is_bad(Block(b)).unwrap()),
            [false, true, false]
        );
        let bad = Err(MtdError::BadBlock(Block(2)));
        assert_eq!((program(&mut array, 8), array.erase(Block(2))), (bad, bad));
        assert_eq!(
            array.copy(Page(0), Page(11), &mut [], &[]),
            bad.map(|()| Corrected::default())
        );
        assert_eq!(read(&mut array, 8).1, [0xFF; 512]);
    }

    #[test]
    fn the_rail_steps_with_every_change_and_its_cut_stops_everything() {
        let rail = Rail::new();
        let mut array = array([]).powered_by(rail.clone());
        rail.cut_at(4);
        program(&mut array, 0).unwrap();
        read(&mut array, 0).0.unwrap();
        array.copy(Page(0), Page(1), &mut [], &[]).unwrap();
        array.erase(Block(1)).unwrap();
        array.sync().unwrap();
        array.mark_bad(Block(3)).unwrap();
        let cut = Err(MtdError::PowerCut);
        assert_eq!(
            (program(&mut array, 2), array.erase(Block(0)), array.sync()),
            (cut, cut, cut)
        );
        assert_eq!(
            (read(&mut array, 0).0.err(), array.is_bad(Block(0)).err()),
            (cut.err(), cut.err())
        );
        rail.restore();
        assert_eq!((read(&mut array, 2).1, rail.steps()), ([0xFF; 512], 4));
    }
}
