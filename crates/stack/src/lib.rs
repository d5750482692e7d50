//! The one room that knows every layer: a description in, a running stack out.
//!
//! *Promises.* A description is checked whole before anything is built: an unknown key, a wrong type or an impossible value is an error
//! that names file, line, column, key, what was found and what was expected. Every setting in effect is listed, defaults included. What is built
//! from one description behaves alike for ever.
//!
//! *In terms of* `nand`, `ftl`, `mtd`, `block`, and files of the operating system. *Knows nothing of* workloads, measurements, or how a description is used.
//!
//! | module | its one idea |
//! |---|---|
//! | [`document`], [`section`] | TOML with places and overrides; keys taken one by one, the rest refused |
//! | [`value`], [`units`] | what a key may hold: numbers, sizes, times, choices |
//! | [`chip`], [`ftl`] | the sections that describe a stack |
//! | [`build`] | a description becomes a stack |
//! | [`dump`] | chips as `nanddump -o` and `nandwrite -o` exchange them |
//! | [`file`] | files that hold an image or page data |

#![forbid(unsafe_code)]

pub mod build;
pub mod chip;
pub mod document;
pub mod dump;
mod error;
pub mod file;
pub mod ftl;
pub mod section;
mod setting;
mod suggest;
pub mod units;
pub mod value;

pub use build::{BuildError, Device, Stack};
pub use chip::ChipDescription;
pub use document::Document;
pub use error::{DescriptionError, Place};
pub use ftl::{Format, FtlDescription, Scheme};
pub use section::Section;
pub use setting::{Origin, Setting};

/// A whole stack, described and checked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The flash.
    pub chip: ChipDescription,
    /// The translation layer on it.
    pub ftl: FtlDescription,
    /// Every setting in effect.
    pub settings: Vec<Setting>,
}

impl Description {
    /// Takes the sections of a stack out of `document`; what else it holds is the caller's business, who ends with [`Document::finish`].
    pub fn take(document: &mut Document) -> Result<Self, DescriptionError> {
        let (chip, mut settings) = ChipDescription::take(document)?;
        let (ftl, more) = FtlDescription::take(document, &chip)?;
        settings.extend(more);
        Ok(Self { chip, ftl, settings })
    }
}
