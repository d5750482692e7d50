//! What can go wrong on raw flash.

use crate::{Block, Geometry, Page};
use nandlab_sim::{BackingError, Finding, LayerFault, MediumFault, Place, PowerCut};

/// An operation that did not happen, or not as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MtdError {
    /// More bit errors than the error correction can correct, or a torn page. The data returned are
    /// as read.
    #[error("{0}: uncorrectable")]
    Uncorrectable(Page),
    /// The chip reported a failed program.
    #[error("{0}: program failed")]
    ProgramFailed(Page),
    /// The chip reported a failed erase.
    #[error("{0}: erase failed")]
    EraseFailed(Block),
    /// The block is marked bad.
    #[error("{0} is marked bad")]
    BadBlock(Block),
    /// The power is off.
    #[error("power cut")]
    PowerCut,
    /// The address lies outside the array.
    #[error("{0} is outside the array")]
    OutOfRange(Page),
    /// The buffers have the wrong length for this array.
    #[error("buffer of {found} bytes, expected {expected}")]
    BadLength {
        /// The length that the caller passed, in bytes.
        found: usize,
        /// The page or OOB length, the most that is accepted.
        expected: usize,
    },
    /// The caller broke a rule of NAND flash: a bug above, never an event of the medium.
    #[error("illegal use of {0}: {1}")]
    Illegal(Page, &'static str),
    /// The medium takes no writes. If a layer stopped writing, its fault says why.
    #[error("read-only medium")]
    ReadOnly(#[source] Option<LayerFault>),
    /// The file that backs the medium failed.
    #[error("backing file: {0}")]
    Backing(&'static str),
    /// The medium is itself a layer, and that layer failed.
    #[error("{0}: refused by the layer below")]
    Below(Page, #[source] LayerFault),
}

impl MtdError {
    /// The error as a cause, with the erase block of its page.
    #[cold]
    pub fn fault(self, geometry: &Geometry) -> MediumFault {
        let at = |page: Page| Place::Page {
            page: page.0,
            block: geometry.block_of(page).0,
        };
        let (place, what) = match self {
            Self::Uncorrectable(page) => (at(page), "uncorrectable"),
            Self::ProgramFailed(page) => (at(page), "program failed"),
            Self::EraseFailed(block) => (Place::Block(block.0), "erase failed"),
            Self::BadBlock(block) => (Place::Block(block.0), "marked bad"),
            Self::PowerCut => (Place::Whole, "power cut"),
            Self::OutOfRange(page) => (at(page), "outside the array"),
            Self::BadLength { found, expected } => {
                let finding = Finding::Value {
                    found: found as u64,
                    expected: expected as u64,
                };
                return MediumFault::new(Place::Whole, "buffer length").with(finding);
            }
            Self::Illegal(page, why) => (at(page), why),
            Self::ReadOnly(None) => (Place::Whole, "read-only"),
            Self::Backing(why) => (Place::Whole, why),
            Self::Below(_, fault) | Self::ReadOnly(Some(fault)) => return fault.cause,
        };
        MediumFault::new(place, what)
    }
}

impl From<PowerCut> for MtdError {
    fn from(_: PowerCut) -> Self {
        Self::PowerCut
    }
}

impl From<BackingError> for MtdError {
    fn from(error: BackingError) -> Self {
        Self::Backing(error.reason())
    }
}
