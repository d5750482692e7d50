//! A translation layer, driven request by request.

use crate::chip::{self, Chip, forked};
use crate::failure::{ChipError, RunError, guarded, raised};
use crate::plugin::Description;
use crate::stack::Held;
use nandlab_block::{BlockDevice as _, BlockError, Lba};
use nandlab_stack::layer::Device;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::sync::{Mutex, TryLockError};

/// A translation layer on its chip, while the power is on.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Ftl(Mutex<Option<Held>>);

/// Operations of one cause, by name.
type Counts = BTreeMap<&'static str, u64>;

impl Ftl {
    /// Works on the stack. Locks are taken without the interpreter's, since a layer in Python
    /// takes that.
    fn held<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Option<Held>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        guarded(py, || match self.0.try_lock() {
            Ok(mut held) => work(&mut held),
            Err(TryLockError::Poisoned(held)) => work(&mut held.into_inner()),
            Err(TryLockError::WouldBlock) => Err(ChipError::new_err(
                "another call of this layer is under way",
            )),
        })
    }

    fn disk<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn Device) -> Result<T, BlockError> + Send,
    ) -> PyResult<T> {
        self.held(py, |held| {
            let held = held.as_mut().ok_or_else(off)?;
            let disk = held.stack.disk();
            let disk = disk.map_err(|error| raised(RunError::new_err, &error))?;
            work(disk).map_err(|error| raised(RunError::new_err, &error))
        })
    }
}

/// The error of a stack whose power is off.
pub fn off() -> PyErr {
    ChipError::new_err("the power is off; make a new object with the chip")
}

#[pymethods]
impl Ftl {
    #[new]
    fn new(
        py: Python<'_>,
        description: Description,
        chip: Option<&Chip>,
        log: bool,
    ) -> PyResult<Self> {
        let chip = chip.map(Chip::copied).transpose()?;
        guarded(py, || {
            let mut held = Held::new(description, chip, log, |_| Ok(()))?;
            let disk = held.stack.disk().map(drop);
            disk.map_err(|error| raised(RunError::new_err, &error))?;
            Ok(Self(Mutex::new(Some(held))))
        })
    }

    /// Bytes of a sector, sectors, and bytes of a flash page.
    #[getter]
    fn geometry(&self, py: Python<'_>) -> PyResult<(u32, u64, u32)> {
        self.disk(py, |disk| {
            let g = disk.geometry();
            Ok((g.sector, g.sectors, g.page))
        })
    }

    fn read<'py>(&self, py: Python<'py>, sector: u64, count: u64) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.disk(py, |disk| {
            disk.geometry().check_sectors(Lba(sector), count)?;
            let bytes = count * u64::from(disk.geometry().sector);
            let mut data = vec![0; bytes as usize];
            disk.read(Lba(sector), &mut data)?;
            Ok(data)
        })?;
        Ok(PyBytes::new(py, &data))
    }

    fn write(&self, py: Python<'_>, sector: u64, data: &[u8]) -> PyResult<()> {
        self.disk(py, |disk| disk.write(Lba(sector), data))
    }

    fn discard(&self, py: Python<'_>, sector: u64, count: u64) -> PyResult<()> {
        self.disk(py, |disk| disk.discard(Lba(sector), count))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.disk(py, |disk| disk.flush())
    }

    fn detach(&self, py: Python<'_>) -> PyResult<()> {
        self.disk(py, |disk| disk.detach())
    }

    /// Flash operations by cause, causes without any left out.
    #[getter]
    fn causes(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, Counts>> {
        self.disk(py, |disk| {
            let rows = disk.tally().rows().map(|(cause, counts)| {
                let numbers = BTreeMap::from([
                    ("reads", counts.reads),
                    ("programs", counts.programs),
                    ("copies", counts.copies),
                    ("erases", counts.erases),
                ]);
                (cause.name(), numbers)
            });
            let happened = |(_, row): &(_, Counts)| row.values().any(|number| *number > 0);
            Ok(rows.filter(happened).collect())
        })
    }

    #[getter]
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.disk(py, |disk| Ok(disk.medium().clock().now()))
    }

    /// A copy of the chip as it is now.
    #[getter]
    fn chip(&self, py: Python<'_>) -> PyResult<Chip> {
        self.held(py, |held| {
            let held = held.as_ref().ok_or_else(off)?;
            Ok(chip::Chip::with_log(forked(held.stack.chip())?, None))
        })
    }

    /// Ends the layer, and gives its chip as it is, with its log.
    fn power_off(&self, py: Python<'_>) -> PyResult<Chip> {
        self.held(py, |held| held.take().map(Held::into_chip).ok_or_else(off))
    }
}
