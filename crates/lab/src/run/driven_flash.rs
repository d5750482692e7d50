//! Flash as a file system on a real processor sees it: the driver waits for the chip before it
//! returns.
//!
//! The handle can be cloned: one goes into the file system, the other watches. What the driver's
//! instructions take is part of the chip's times.

use super::snapshot::Snapshot;
use nandlab_ftl::{Cause, CauseCounts, Tally};
use nandlab_mtd::{Block, Corrected, Geometry, Issued, Mtd, MtdError, Page};
use nandlab_nand::Chip;
use nandlab_sim::Clock;
use nandlab_stack::layer::ChipFlash;
use std::cell::RefCell;
use std::rc::Rc;

/// A chip that is waited for, if there is a processor to wait.
#[derive(Clone)]
pub struct DrivenFlash<'a> {
    shared: Rc<RefCell<Shared<'a>>>,
    geometry: Geometry,
    clock: Clock,
    waits: bool,
}

struct Shared<'a> {
    chip: &'a mut Chip,
    tally: Tally,
}

impl<'a> DrivenFlash<'a> {
    /// The chip on its clock.
    pub fn new(chip: &'a mut Chip, clock: &Clock, waits: bool) -> Self {
        let geometry = chip.geometry().clone();
        let shared = Shared {
            chip,
            tally: Tally::default(),
        };
        Self {
            shared: Rc::new(RefCell::new(shared)),
            geometry,
            clock: clock.clone(),
            waits,
        }
    }

    /// What the chip has done so far: everything counts as the file system's.
    pub fn tally(&self) -> Tally {
        self.shared.borrow().tally
    }

    /// The chip at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared.borrow();
        Snapshot::of_chip(shared.chip, shared.tally)
    }

    /// The last operations on the chip, oldest first.
    pub fn recent(&self) -> Vec<String> {
        self.shared.borrow().chip.recent()
    }

    fn operate<T>(
        &mut self,
        count: impl FnOnce(&mut CauseCounts),
        operate: impl FnOnce(&mut Chip) -> Result<T, MtdError>,
    ) -> Result<T, MtdError> {
        let shared = &mut *self.shared.borrow_mut();
        let outcome = operate(shared.chip);
        count(shared.tally.of(Cause::Host));
        if self.waits {
            self.clock.wait_until(shared.chip.issued().0);
        }
        outcome
    }
}

impl ChipFlash for DrivenFlash<'_> {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

impl Mtd for DrivenFlash<'_> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        let whole = !data.is_empty();
        self.operate(
            |counts| {
                *(if whole {
                    &mut counts.reads
                } else {
                    &mut counts.oob_reads
                }) += 1
            },
            |chip| chip.read(page, data, oob),
        )
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        let whole = !data.is_empty();
        self.operate(
            |counts| {
                *(if whole {
                    &mut counts.programs
                } else {
                    &mut counts.oob_programs
                }) += 1
            },
            |chip| chip.program(page, data, oob),
        )
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        self.operate(
            |counts| counts.copies += 1,
            |chip| chip.copy(from, to, head, tail),
        )
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        self.operate(|counts| counts.erases += 1, |chip| chip.erase(block))
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        self.operate(|_| (), |chip| chip.is_bad(block))
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        self.operate(|_| (), |chip| chip.mark_bad(block))
    }

    fn issued(&self) -> Issued {
        self.shared.borrow().chip.issued()
    }

    fn fence(&mut self, mark: Issued) {
        self.shared.borrow_mut().chip.fence(mark);
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        self.shared.borrow_mut().chip.sync()
    }
}
