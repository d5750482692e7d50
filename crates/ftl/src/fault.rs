//! Errors of the flash as the host sees them, and the state of a layer that must stop.
//!
//! *Promises.* An error keeps its cause: the layer, and the page and block on the flash.

use nandlab_block::{BlockError, Lba};
use nandlab_mtd::{Geometry, MtdError};
use nandlab_sim::{MediumFault, Place};

/// What is wrong with a page whose contents were lost before.
pub(crate) const MARKED: &str = "marked as lost";

/// A layer's name, and the error that stopped the layer.
#[derive(Debug)]
pub struct Health {
    layer: &'static str,
    stopped: Option<BlockError>,
    /// The last program or erase that failed and was survived.
    failed: Option<MediumFault>,
}

impl Health {
    /// A layer of this name that works.
    pub fn new(layer: &'static str) -> Self {
        Self {
            layer,
            stopped: None,
            failed: None,
        }
    }

    /// A program or an erase failed; the layer goes on without the block.
    #[cold]
    pub fn failed(&mut self, error: MtdError, geometry: &Geometry) {
        self.failed = Some(error.fault(geometry));
    }

    /// No good block is left; the last failure says why.
    #[cold]
    pub fn worn_out(&self) -> BlockError {
        BlockError::WornOut(self.failed.map(|fault| fault.in_layer(self.layer)))
    }

    /// Refuses every request once the layer has stopped.
    #[inline]
    pub fn check(&self) -> Result<(), BlockError> {
        // By reference: an error is long, and this is asked at each request.
        match &self.stopped {
            None => Ok(()),
            Some(error) => Err(*error),
        }
    }

    /// The host's error. A broken rule, or an answer that the layer did not expect, stops the
    /// layer: its next steps cannot be trusted.
    #[cold]
    pub fn fault(&mut self, error: MtdError, geometry: &Geometry) -> BlockError {
        match error {
            MtdError::PowerCut => BlockError::PowerCut,
            MtdError::ReadOnly(cause) => BlockError::ReadOnly(cause),
            MtdError::Backing(why) => BlockError::Backing(why),
            _ => self.stop(BlockError::Internal(
                error.fault(geometry).in_layer(self.layer),
            )),
        }
    }

    /// The layer broke a rule of its own, and stops.
    #[cold]
    pub fn broken(&mut self, what: &'static str) -> BlockError {
        self.stop(BlockError::internal(self.layer, what))
    }

    /// Stops the layer with this error.
    #[cold]
    pub fn stop(&mut self, error: BlockError) -> BlockError {
        self.stopped = Some(error);
        error
    }

    /// The loss of a sector to an error of the flash.
    #[cold]
    pub fn lost_to(&self, lba: u64, error: MtdError, geometry: &Geometry) -> BlockError {
        self.lost(lba, error.fault(geometry))
    }

    /// A sector whose contents were lost before.
    #[cold]
    pub fn lost_before(&self, lba: u64, place: Place) -> BlockError {
        self.lost(lba, MediumFault::new(place, MARKED))
    }

    /// The loss of a sector to a fault.
    #[cold]
    pub fn lost(&self, lba: u64, fault: MediumFault) -> BlockError {
        BlockError::lost_to(Lba(lba), fault.in_layer(self.layer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use nandlab_mtd::Page;
    use nandlab_sim::Chain;

    #[test]
    fn an_illegal_use_stops_the_layer_and_names_page_and_block() {
        let geometry = Geometry::single_die(512, 16, 32, 8);
        let mut health = Health::new("page mapping");
        let error = health.fault(MtdError::Illegal(Page(70), "programmed twice"), &geometry);
        assert_eq!(
            Chain(&error).to_string(),
            "internal error: page mapping: page 70 in block 2: programmed twice"
        );
        assert_eq!(health.check(), Err(error));
    }

    #[test]
    fn a_power_cut_and_a_lost_sector_stop_nothing() {
        let geometry = Geometry::single_die(512, 16, 32, 8);
        let mut health = Health::new("NFTL");
        let cut = health.fault(MtdError::PowerCut, &geometry);
        let lost = health.lost_to(9, MtdError::Uncorrectable(Page(1)), &geometry);
        assert_eq!((cut, health.check()), (BlockError::PowerCut, Ok(())));
        assert_eq!(
            Chain(&lost).to_string(),
            "sector 9: contents lost to a media error: NFTL: page 1 in block 0: uncorrectable"
        );
    }
}
