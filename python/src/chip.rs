//! A chip to drive by hand, and the states that a power cut of its operations can leave.

use crate::failure::{ChipError, guarded_here, raised};
use crate::page::{self, Bytes};
use nandlab_crash::{Cut, Phase};
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_nand::preset::{self, Shape};
use nandlab_nand::{LoggedKind, LoggedOp};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A chip, and a fork of it from when its log began.
struct State {
    chip: nandlab_nand::Chip,
    before: Option<nandlab_nand::Chip>,
}

/// A NAND chip in virtual time.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Chip(Mutex<State>);

/// The operations of a chip, in order.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Log {
    before: Mutex<nandlab_nand::Chip>,
    ops: Vec<LoggedOp>,
    pages_per_block: u32,
}

impl Chip {
    fn of(chip: nandlab_nand::Chip) -> Self {
        Self::with_log(chip, None)
    }

    /// A chip whose log began when it was as `before`.
    pub fn with_log(chip: nandlab_nand::Chip, before: Option<nandlab_nand::Chip>) -> Self {
        Self(Mutex::new(State { chip, before }))
    }

    /// An independent copy of what it is now.
    pub fn copied(&self) -> PyResult<nandlab_nand::Chip> {
        forked(&self.state().chip)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call of the chip; its error names the page or the block.
    fn call<T>(
        &self,
        work: impl FnOnce(&mut nandlab_nand::Chip) -> Result<T, MtdError>,
    ) -> PyResult<T> {
        guarded_here(|| {
            let outcome = work(&mut self.state().chip);
            outcome.map_err(|error| raised(ChipError::new_err, &error))
        })
    }
}

#[pymethods]
impl Chip {
    /// A chip like a preset, fresh from the factory; `shape` replaces numbers of its geometry.
    #[new]
    fn new(preset_name: &str, shape: Geometry, seed: u64) -> PyResult<Self> {
        let spec = preset::shaped(preset_name, &shape.0);
        let mut spec = spec.map_err(|error| PyValueError::new_err(error.to_string()))?;
        spec.seed = seed;
        let chip = nandlab_nand::Chip::new(spec);
        let chip = chip.map_err(|error| raised(ChipError::new_err, &error))?;
        Ok(Self::of(chip))
    }

    /// Its shape by name.
    #[getter]
    fn geometry(&self) -> BTreeMap<&'static str, u32> {
        page::shape(self.state().chip.geometry())
    }

    /// Data and spare bytes of a page as read, and whether the error correction could repair them.
    fn read<'py>(&self, py: Python<'py>, page: u32) -> PyResult<Bytes<'py>> {
        self.call(|chip| page::read(chip, Page(page)))
            .map(|found| found.into_bytes(py))
    }

    fn program(&self, page: u32, data: &[u8], oob: &[u8]) -> PyResult<()> {
        self.call(|chip| chip.program(Page(page), data, oob))
    }

    fn erase(&self, block: u32) -> PyResult<()> {
        self.call(|chip| chip.erase(Block(block)))
    }

    fn is_bad(&self, block: u32) -> PyResult<bool> {
        self.call(|chip| chip.is_bad(Block(block)))
    }

    fn mark_bad(&self, block: u32) -> PyResult<()> {
        self.call(|chip| chip.mark_bad(Block(block)))
    }

    fn sync(&self) -> PyResult<()> {
        self.call(|chip| chip.sync())
    }

    /// Virtual time in nanoseconds.
    #[getter]
    fn now_ns(&self) -> u64 {
        self.state().chip.clock().now()
    }

    /// Operations since the chip was made.
    #[getter]
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let c = self.state().chip.counts();
        BTreeMap::from([
            ("reads", c.reads),
            ("oob_reads", c.oob_reads),
            ("programs", c.programs),
            ("oob_programs", c.oob_programs),
            ("copies", c.copies),
            ("erases", c.erases),
            ("corrected_bits", c.corrected_bits),
            ("uncorrectable", c.uncorrectable),
            ("failures", c.failures),
        ])
    }

    /// An independent copy.
    fn fork(&self) -> PyResult<Self> {
        self.copied().map(Self::of)
    }

    /// Keeps every operation that changes the chip from now on.
    fn start_log(&self) -> PyResult<()> {
        let mut state = self.state();
        state.before = Some(forked(&state.chip)?);
        state.chip.start_log();
        Ok(())
    }

    /// The operations since `start_log`.
    fn take_log(&self) -> PyResult<Log> {
        let mut state = self.state();
        let before = state.before.take();
        let before = before.ok_or_else(|| ChipError::new_err("the chip keeps no log"))?;
        Ok(Log {
            before: Mutex::new(before),
            ops: state.chip.take_log(),
            pages_per_block: state.chip.geometry().pages_per_block,
        })
    }
}

#[pymethods]
impl Log {
    fn __len__(&self) -> usize {
        self.ops.len()
    }

    /// An operation: its kind, the page or the block's first page, when it began and ended.
    fn operation(&self, index: usize) -> PyResult<(&'static str, u32, u64, u64)> {
        let op = self.op(index)?;
        let first = |block: Block| block.0 * self.pages_per_block;
        let (kind, page) = match op.kind {
            LoggedKind::Program { page, .. } => ("program", page.0),
            LoggedKind::Copy { to, .. } => ("copy", to.0),
            LoggedKind::Erase(block) | LoggedKind::EraseSlc(block) => ("erase", first(block)),
            LoggedKind::MarkBad(block) => ("mark bad", first(block)),
            LoggedKind::Line { line, .. } => ("line", line),
        };
        Ok((kind, page, op.start, op.end))
    }

    /// The chip as a cut at an operation leaves it, powered up again, and the time of the cut.
    fn cut(&self, index: usize, phase: &str, word: u32, seed: u64) -> PyResult<(Chip, u64)> {
        self.op(index)?;
        let phase = match phase {
            "before" => Phase::Before,
            "torn" => Phase::Torn,
            "after" => Phase::After,
            other => {
                let text = format!("phase: found {other}, expected before, torn or after");
                return Err(PyValueError::new_err(text));
            }
        };
        let base = forked(&self.before.lock().unwrap_or_else(PoisonError::into_inner))?;
        let cut = Cut {
            op: index,
            phase,
            word,
        };
        guarded_here(|| {
            let state = cut.state(base, &self.ops, seed);
            let state = state.map_err(|error| raised(ChipError::new_err, &error))?;
            let instant = || ChipError::new_err("the operation takes no time: it cannot be torn");
            let (at, chip) = state.ok_or_else(instant)?;
            Ok((Chip::of(chip), at))
        })
    }
}

impl Log {
    fn op(&self, index: usize) -> PyResult<&LoggedOp> {
        let beyond = || {
            let text = format!("operation {index} of a log of {}", self.ops.len());
            PyIndexError::new_err(text)
        };
        self.ops.get(index).ok_or_else(beyond)
    }
}

pub fn forked(chip: &nandlab_nand::Chip) -> PyResult<nandlab_nand::Chip> {
    let fork = chip.fork();
    fork.map_err(|error| raised(ChipError::new_err, &error))
}

/// Numbers of a geometry, by name.
struct Geometry(Shape);

impl FromPyObject<'_, '_> for Geometry {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let mut numbers: BTreeMap<String, u32> = given.extract()?;
        let shape = Shape {
            page: numbers.remove("page"),
            oob: numbers.remove("oob"),
            pages_per_block: numbers.remove("pages_per_block"),
            blocks: numbers.remove("blocks"),
            dies: numbers.remove("dies"),
        };
        match numbers.first_key_value() {
            None => Ok(Self(shape)),
            Some((other, _)) => {
                let text = format!("{other}: no number of a chip's geometry");
                Err(PyValueError::new_err(text))
            }
        }
    }
}
