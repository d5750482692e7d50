//! What can go wrong, and why a medium is refused.

use crate::format::{Expected, FieldError};
use nandlab_mtd::{Geometry, MtdError};
use nandlab_sim::{Finding, MediumFault, Place};

/// A request that was not served, or a medium that was not attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UbiError {
    /// The flash failed in a way that UBI cannot recover from.
    #[error(transparent)]
    Mtd(#[from] MtdError),
    /// A structure on flash is sound and yet impossible.
    #[error("PEB {peb}: {error}")]
    Refused {
        /// The physical erase block.
        peb: u32,
        /// What is wrong there.
        error: FieldError,
    },
    /// The medium as a whole is not a UBI device that could be attached.
    #[error("{what}: found {found}, expected {expected}")]
    Medium {
        /// What was looked at.
        what: &'static str,
        /// The value that the medium has.
        found: u64,
        /// What it should be.
        expected: &'static str,
    },
    /// A parameter of the request is out of range.
    #[error("{what} is {found}, expected {expected}")]
    Invalid {
        /// The name of the argument.
        what: &'static str,
        /// The value that the caller passed.
        found: u64,
        /// What it should be.
        expected: &'static str,
    },
    /// There is no such volume.
    #[error("no volume {0}")]
    NoVolume(u32),
    /// Another volume has the name.
    #[error("volume {0} has that name already")]
    NameTaken(u32),
    /// Every slot of the volume table is taken.
    #[error("no space for another volume in the table of {0}")]
    TableFull(u32),
    /// Too few erase blocks are free.
    #[error("{needed} erase blocks needed, {available} available")]
    NoSpace {
        /// Erase blocks asked for.
        needed: u32,
        /// Erase blocks that are not reserved.
        available: u32,
    },
    /// The contents of a logical erase block cannot be read, or have the wrong checksum.
    #[error("volume {volume}, LEB {lnum}: contents lost")]
    Lost {
        /// The id of the volume.
        volume: u32,
        /// The logical erase block.
        lnum: u32,
    },
    /// An update of the volume was begun and not finished: there is nothing to read or write.
    #[error("volume {0}: an update was not finished")]
    Updating(u32),
    /// The device takes no writes any more.
    #[error("read-only: {0}")]
    ReadOnly(&'static str),
    /// UBI broke its own rules.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

impl UbiError {
    /// The error as a cause; it was met at `place` unless it names a place of its own.
    #[cold]
    pub(crate) fn fault(&self, place: Place, geometry: &Geometry) -> MediumFault {
        let rule = |what, found, expected| {
            let finding = Finding::Rule { found, expected };
            MediumFault::new(place, what).with(finding)
        };
        match *self {
            Self::Mtd(error) => error.fault(geometry),
            Self::Refused { peb, error } => {
                let finding = match error.expected {
                    Expected::Value(expected) => Finding::Value {
                        found: error.found,
                        expected,
                    },
                    Expected::Rule(expected) => Finding::Rule {
                        found: error.found,
                        expected,
                    },
                };
                MediumFault::new(Place::Block(peb), error.field).with(finding)
            }
            Self::Medium {
                what,
                found,
                expected,
            }
            | Self::Invalid {
                what,
                found,
                expected,
            } => rule(what, found, expected),
            Self::NoVolume(volume) => rule("volume", volume.into(), "one that exists"),
            Self::NameTaken(volume) => rule("volume", volume.into(), "a name of its own"),
            Self::TableFull(slots) => rule("volumes", slots.into(), "a free slot of the table"),
            Self::NoSpace { needed, available } => {
                let finding = Finding::Value {
                    found: available.into(),
                    expected: needed.into(),
                };
                MediumFault::new(place, "free erase blocks").with(finding)
            }
            Self::Lost { volume, lnum: leb } => {
                MediumFault::new(Place::Leb { volume, leb }, "contents lost")
            }
            Self::Updating(_) => MediumFault::new(place, "an update was not finished"),
            Self::ReadOnly(why) | Self::Internal(why) => MediumFault::new(place, why),
        }
    }
}

/// The request's parameter must fit the rule.
pub(crate) fn require(
    fine: bool,
    what: &'static str,
    found: u64,
    expected: &'static str,
) -> Result<(), UbiError> {
    if fine {
        Ok(())
    } else {
        Err(UbiError::Invalid {
            what,
            found,
            expected,
        })
    }
}
