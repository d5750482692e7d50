//! Flash as a layer written in Python sees it: the chip below it, lent for the length of a call.

use crate::failure::{ChipError, guarded_here, raised};
use crate::page::{self, Bytes};
use nandlab_ftl::{Cause, Tallied};
use nandlab_mtd::{Block, Geometry, Mtd, MtdError, Page};
use nandlab_nand::{Chip, preset};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::mem::swap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The chip, or another one that takes its place while it is not lent.
struct Loan {
    flash: Tallied<Chip>,
    is_lent: bool,
    failure: Option<MtdError>,
}

/// Flash below a layer.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Flash {
    loan: Mutex<Loan>,
    geometry: Geometry,
}

impl Flash {
    pub fn new(geometry: &Geometry) -> PyResult<Self> {
        let shape = preset::Shape {
            blocks: Some(1),
            pages_per_block: Some(1),
            ..preset::Shape::default()
        };
        let refused = |error: &(dyn std::error::Error + 'static)| raised(ChipError::new_err, error);
        let spec = preset::shaped("slc-2k", &shape).map_err(|error| refused(&error))?;
        let stand_in = Chip::new(spec).map_err(|error| refused(&error))?;
        let loan = Loan {
            flash: Tallied::new(stand_in),
            is_lent: false,
            failure: None,
        };
        Ok(Self {
            loan: Mutex::new(loan),
            geometry: geometry.clone(),
        })
    }

    fn loan(&self) -> MutexGuard<'_, Loan> {
        self.loan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(&self, flash: &mut Tallied<Chip>, is_lent: bool) {
        let mut loan = self.loan();
        swap(&mut loan.flash, flash);
        loan.is_lent = is_lent;
    }

    /// Lends the flash for the length of a call.
    pub fn during<T>(&self, flash: &mut Tallied<Chip>, call: impl FnOnce() -> T) -> T {
        self.loan().failure = None;
        self.exchange(flash, true);
        let outcome = call();
        self.exchange(flash, false);
        outcome
    }

    /// The last failure of the flash in the last loan.
    pub fn take_failure(&self) -> Option<MtdError> {
        self.loan().failure.take()
    }

    fn call<T>(&self, work: impl FnOnce(&mut Tallied<Chip>) -> Result<T, MtdError>) -> PyResult<T> {
        guarded_here(|| {
            let mut loan = self.loan();
            if !loan.is_lent {
                let text = "the flash of a layer is there while a call of the layer runs";
                return Err(ChipError::new_err(text));
            }
            work(&mut loan.flash).map_err(|failure| {
                loan.failure = Some(failure);
                raised(ChipError::new_err, &failure)
            })
        })
    }
}

#[pymethods]
impl Flash {
    #[getter]
    fn geometry(&self) -> BTreeMap<&'static str, u32> {
        page::shape(&self.geometry)
    }

    fn read<'py>(&self, py: Python<'py>, page: u32) -> PyResult<Bytes<'py>> {
        self.call(|flash| page::read(flash, Page(page)))
            .map(|found| found.into_bytes(py))
    }

    fn program(&self, page: u32, data: &[u8], oob: &[u8]) -> PyResult<()> {
        self.call(|flash| flash.program(Page(page), data, oob))
    }

    fn copy(&self, source: u32, target: u32, oob: &[u8]) -> PyResult<()> {
        self.call(|flash| {
            flash
                .copy(Page(source), Page(target), &mut [], oob)
                .map(drop)
        })
    }

    fn erase(&self, block: u32) -> PyResult<()> {
        self.call(|flash| flash.erase(Block(block)))
    }

    fn is_bad(&self, block: u32) -> PyResult<bool> {
        self.call(|flash| flash.is_bad(Block(block)))
    }

    fn mark_bad(&self, block: u32) -> PyResult<()> {
        self.call(|flash| flash.mark_bad(Block(block)))
    }

    /// Orders the next operation behind all that were issued.
    fn fence(&self) -> PyResult<()> {
        self.call(|flash| {
            flash.fence(flash.issued());
            Ok(())
        })
    }

    fn sync(&self) -> PyResult<()> {
        self.call(Mtd::sync)
    }

    /// What the next operations are for, as reports name it.
    #[getter]
    fn get_cause(&self) -> &'static str {
        self.loan().flash.cause.name()
    }

    #[setter]
    fn set_cause(&self, name: &str) -> PyResult<()> {
        let found = Cause::ALL.into_iter().find(|cause| cause.name() == name);
        let names = Cause::ALL.map(Cause::name).join(", ");
        let wrong =
            || PyValueError::new_err(format!("cause: found {name}, expected one of {names}"));
        self.loan().flash.cause = found.ok_or_else(wrong)?;
        Ok(())
    }
}
