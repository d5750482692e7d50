//! A medium that counts its operations for a layer above.

use crate::{Cause, Tally};
use nandlab_mtd::{Block, Corrected, Geometry, Issued, Mtd, MtdError, Page};

/// A medium that counts each operation under the cause that is set.
#[derive(Debug)]
pub struct Tallied<M> {
    medium: M,
    tally: Tally,
    /// What the operations from here on are for.
    pub cause: Cause,
}

impl<M> Tallied<M> {
    /// Counts from zero, under [`Cause::Attach`].
    pub fn new(medium: M) -> Self {
        Self {
            medium,
            tally: Tally::default(),
            cause: Cause::Attach,
        }
    }

    /// Returns the medium below the counters.
    pub fn inner(&self) -> &M {
        &self.medium
    }

    /// Gives the medium back.
    pub fn into_inner(self) -> M {
        self.medium
    }

    /// The counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The counts so far, to add pages that the host wrote.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

impl<M: Mtd> Mtd for Tallied<M> {
    fn geometry(&self) -> &Geometry {
        self.medium.geometry()
    }

    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        self.tally.of(self.cause).reads += 1;
        self.medium.read(page, data, oob)
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.tally.of(self.cause).programs += 1;
        self.medium.program(page, data, oob)
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        self.tally.of(self.cause).copies += 1;
        self.medium.copy(from, to, head, tail)
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        self.tally.of(self.cause).erases += 1;
        self.medium.erase(block)
    }

    fn slc_pages(&self) -> Option<u32> {
        self.medium.slc_pages()
    }

    fn erase_slc(&mut self, block: Block) -> Result<(), MtdError> {
        self.tally.of(self.cause).erases += 1;
        self.medium.erase_slc(block)
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        self.medium.is_bad(block)
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        self.medium.mark_bad(block)
    }

    fn issued(&self) -> Issued {
        self.medium.issued()
    }

    fn fence(&mut self, mark: Issued) {
        self.medium.fence(mark);
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        self.medium.sync()
    }
}
