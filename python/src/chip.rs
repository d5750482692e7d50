//! A chip to drive by hand, and the states that a power cut of its operations can leave.

use crate::failure::{ChipError, guarded_here, raised};
use nandlab_crash::{Cut, Phase};
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_nand::{ChipSpec, LoggedKind, LoggedOp, preset};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
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
        Self(Mutex::new(State { chip, before: None }))
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
    fn new(preset_name: &str, shape: BTreeMap<String, u32>, seed: u64) -> PyResult<Self> {
        let spec = described(preset_name, &shape, seed).map_err(PyValueError::new_err)?;
        let chip = nandlab_nand::Chip::new(spec);
        let chip = chip.map_err(|error| raised(ChipError::new_err, &error))?;
        Ok(Self::of(chip))
    }

    /// Its shape by name.
    #[getter]
    fn geometry(&self) -> BTreeMap<&'static str, u32> {
        let state = self.state();
        let g = state.chip.geometry();
        BTreeMap::from([
            ("page", g.page),
            ("oob", g.oob),
            ("pages_per_block", g.pages_per_block),
            ("blocks", g.blocks),
            ("dies", g.dies),
        ])
    }

    /// Data and spare bytes of a page as read, and whether the error correction could repair them.
    fn read<'py>(
        &self,
        py: Python<'py>,
        page: u32,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, bool)> {
        let (data, oob, whole) = self.call(|chip| {
            let mut data = vec![0; chip.geometry().page as usize];
            let mut oob = vec![0; chip.geometry().oob as usize];
            match chip.read(Page(page), &mut data, &mut oob) {
                Ok(_) => Ok((data, oob, true)),
                Err(MtdError::Uncorrectable(_)) => Ok((data, oob, false)),
                Err(error) => Err(error),
            }
        })?;
        Ok((PyBytes::new(py, &data), PyBytes::new(py, &oob), whole))
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
        Ok(Self::of(forked(&self.state().chip)?))
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
            LoggedKind::Erase(block) => ("erase", first(block)),
            LoggedKind::MarkBad(block) => ("mark bad", first(block)),
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

fn forked(chip: &nandlab_nand::Chip) -> PyResult<nandlab_nand::Chip> {
    let fork = chip.fork();
    fork.map_err(|error| raised(ChipError::new_err, &error))
}

fn described(name: &str, shape: &BTreeMap<String, u32>, seed: u64) -> Result<ChipSpec, String> {
    let known: Vec<&str> = preset::ALL.iter().map(|preset| preset.name).collect();
    let found = preset::find(name);
    let wrong = || format!("preset: found {name}, expected one of {}", known.join(", "));
    let mut spec = found.ok_or_else(wrong)?.spec();
    spec.seed = seed;
    let geometry = &mut spec.geometry;
    for (key, number) in shape {
        match &key[..] {
            "page" => geometry.page = *number,
            "oob" => geometry.oob = *number,
            "pages_per_block" => geometry.pages_per_block = *number,
            "blocks" => geometry.blocks = *number,
            "dies" => geometry.dies = *number,
            other => return Err(format!("{other}: no number of a chip's geometry")),
        }
    }
    geometry.write_unit = geometry.write_unit.min(geometry.page);
    Ok(spec)
}
