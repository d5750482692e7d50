//! Static wear levelling: data at rest leaves a little-worn block for a worn free one, so that the
//! little-worn one wears too.
//!
//! *How.* Now and then, by the erases done, the most worn free block is compared with the least
//! worn data block of which no page is in a log. If they differ by more than the threshold, a full
//! merge takes the data over; so a cut meets the rules of merges, and nothing else. A block becomes
//! worn only by passing through the pool, so the free blocks are the ones to look at: one that is
//! worn and holds data at rest already is where it should be.
//!
//! The anchor's block is never erased and takes no part. A block found erased by an attach counts
//! as worn as the average.

use super::shared::Core;
use crate::Cause;
use nandlab_block::BlockError;
use nandlab_mtd::Mtd;

/// Erases between two moves while the spread is too wide: as many blocks are freed for the host's
/// traffic.
const BETWEEN_MOVES: u32 = 8;

impl<M: Mtd> Core<M> {
    /// Moves one logical block if it is time to look and the spread is too wide.
    #[inline]
    pub fn level(&mut self) -> Result<(), BlockError> {
        if self.erases_until_levelling > 0 || self.options.wear_threshold == 0 {
            Ok(())
        } else {
            self.level_now()
        }
    }

    #[cold]
    fn level_now(&mut self) -> Result<(), BlockError> {
        // Else not before a good part of the array has been erased again.
        self.erases_until_levelling = self.blocks.good() / 4 + 1;
        // A chip that is nearly worn out has no block to spare.
        let (Some(worn), Ok(_)) = (self.blocks.most_worn_free(), self.log_limit()) else {
            return Ok(());
        };
        match self.blocks.coldest(|lbn| self.maps.logged(lbn) == 0) {
            Some((erases, lbn)) if worn.saturating_sub(erases) > self.options.wear_threshold => {
                self.erases_until_levelling = BETWEEN_MOVES;
                self.full_merge(lbn, None, Cause::Wear)
            }
            _ => Ok(()),
        }
    }
}
