//! A described stack, formatted on a chip of its own or attached to another.

use crate::chip::{self, forked};
use crate::failure::{DescriptionError, RunError, raised};
use crate::plugin::Description;
use nandlab_lab::Experiment;
use nandlab_nand::Chip;
use nandlab_stack::{BuildError, Stack};
use pyo3::prelude::*;

/// A stack, and a fork of its chip from when the chip's log began.
pub struct Held {
    pub stack: Stack,
    pub before: Option<Chip>,
    pub seed: u64,
}

impl Held {
    /// The described stack: on this chip, or formatted on a fresh one. `format` makes what lies on
    /// the layer.
    pub fn new(
        description: Description,
        chip: Option<Chip>,
        is_logged: bool,
        format: impl FnOnce(&mut Stack) -> Result<(), BuildError>,
    ) -> PyResult<Self> {
        let taken = description.parts().and_then(|(document, registry, kinds)| {
            Experiment::take_stack_with(document, &registry, &kinds)
        });
        let (described, seed) = taken.map_err(|error| raised(DescriptionError::new_err, &error))?;
        if described.nvram.is_some() {
            let text = "nvram.holds: a stack that you drive by hand has no memory beside its chip";
            return Err(DescriptionError::new_err(text));
        }
        let failed = |error: BuildError| raised(RunError::new_err, &error);
        let mut chip = match chip {
            Some(chip) => chip,
            None => {
                let mut fresh = Stack::build(&described).map_err(failed)?;
                format(&mut fresh).map_err(failed)?;
                forked(&fresh.into_chip())?
            }
        };
        let before = is_logged.then(|| forked(&chip)).transpose()?;
        if is_logged {
            chip.start_log();
        }
        let stack = Stack::attach(&described, chip).map_err(failed)?;
        Ok(Self {
            stack,
            before,
            seed,
        })
    }

    /// The chip as it is, with its log.
    pub fn into_chip(self) -> chip::Chip {
        chip::Chip::with_log(self.stack.into_chip(), self.before)
    }
}
