//! Causes of errors: what went wrong, where on the medium, and in which layer.
//!
//! *Promises.* Causes are `Copy` and allocate nothing, so that errors on hot paths can carry them.
//! Each link is a [`core::error::Error`] whose `source` is the link below it.

use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;

/// A place on a medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The fault has no single place.
    #[default]
    Whole,
    /// A page of the flash array.
    Page {
        /// Its number in the array.
        page: u32,
        /// The erase block that holds the page.
        block: u32,
    },
    /// An erase block of the flash array.
    Block(u32),
    /// A logical erase block of a volume.
    Leb {
        /// The id of the UBI volume.
        volume: u32,
        /// The logical erase block.
        leb: u32,
    },
    /// A sector of a disk.
    Sector(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("medium"),
            Self::Page { page, block } => write!(f, "page {page} in block {block}"),
            Self::Block(block) => write!(f, "block {block}"),
            Self::Leb { volume, leb } => write!(f, "volume {volume}, LEB {leb}"),
            Self::Sector(sector) => write!(f, "sector {sector}"),
        }
    }
}

/// A value that was found, and the one expected instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// One value would have been right.
    Value {
        /// The value that was read.
        found: u64,
        /// The value that should be there.
        expected: u64,
    },
    /// Any value that keeps a rule would have been right.
    Rule {
        /// The value that was read.
        found: u64,
        /// The rule that the value breaks.
        expected: &'static str,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { found, expected } => write!(f, "found {found}, expected {expected}"),
            Self::Rule { found, expected } => write!(f, "found {found}, expected {expected}"),
        }
    }
}

/// A fault at a place of the medium: the last link of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediumFault {
    /// Where it was met.
    pub place: Place,
    /// What is wrong there.
    pub what: &'static str,
    /// The value that shows it, if one does.
    pub finding: Option<Finding>,
}

impl MediumFault {
    /// A fault that no single value shows.
    pub fn new(place: Place, what: &'static str) -> Self {
        Self {
            place,
            what,
            finding: None,
        }
    }

    /// The same fault with the value that shows it.
    pub fn with(self, finding: Finding) -> Self {
        Self {
            finding: Some(finding),
            ..self
        }
    }

    /// The link above: `layer` met this fault.
    pub fn in_layer(self, layer: &'static str) -> LayerFault {
        LayerFault { layer, cause: self }
    }
}

impl fmt::Display for MediumFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        self.finding
            .map_or(Ok(()), |finding| write!(f, ": {finding}"))
    }
}

impl Error for MediumFault {}

/// A layer that met a fault: the link between an error and its place on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer}")]
pub struct LayerFault {
    /// The layer's name, such as "page mapping".
    pub layer: &'static str,
    /// The error of the medium below.
    #[source]
    pub cause: MediumFault,
}

/// Prints an error and all its sources in one line, separated by colons.
///
/// A source that the text before it already has is left out, so that an error may repeat its source
/// in its own text.
///
/// ```
/// use nandlab_sim::{Chain, MediumFault, Place};
///
/// let place = Place::Page { page: 67, block: 1 };
/// let fault = MediumFault::new(place, "uncorrectable").in_layer("page mapping");
/// assert_eq!(
///     Chain(&fault).to_string(),
///     "page mapping: page 67 in block 1: uncorrectable"
/// );
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl<'a> Chain<'a> {
    /// The error and its sources, from the top down.
    pub fn links(self) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
        let mut next = Some(self.0);
        core::iter::from_fn(move || {
            let link = next?;
            next = link.source();
            Some(link)
        })
    }
}

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        for link in self.links() {
            let text = link.to_string();
            if line.is_empty() {
                line = text;
            } else if !line.contains(&text) {
                line = line + ": " + &text;
            }
        }
        f.write_str(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_names_layer_place_and_values() {
        let finding = Finding::Value {
            found: 3,
            expected: 512,
        };
        let fault = MediumFault::new(Place::Block(7), "buffer length").with(finding);
        assert_eq!(
            Chain(&fault.in_layer("mtdblock")).to_string(),
            "mtdblock: block 7: buffer length: found 3, expected 512"
        );
    }
}
