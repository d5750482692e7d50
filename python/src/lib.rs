//! The compiled half of the Python package `nandlab`: experiments, images, stacks to drive by hand,
//! and the command. The other half, in Python, gives results their types and draws them.

mod arrow;
mod chip;
mod experiment;
mod failure;
mod flash;
mod fs;
mod ftl;
mod image;
mod page;
mod plugin;
mod stack;
mod study;

use pyo3::prelude::*;

/// Compiled half of the package; use `nandlab`.
#[pymodule]
mod _nandlab {
    #[pymodule_export]
    use super::arrow::{Column, Table};
    #[pymodule_export]
    use super::chip::{Chip, Log};
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::experiment::{Experiment, Outcome};
    #[pymodule_export]
    use super::failure::{
        ChipError, DescriptionError, ImageError, InternalError, NandlabError, RunError,
    };
    #[pymodule_export]
    use super::flash::Flash;
    #[pymodule_export]
    use super::fs::FileSystem;
    #[pymodule_export]
    use super::ftl::Ftl;
    #[pymodule_export]
    use super::image::Image;
    #[pymodule_export]
    use super::study::{crash, paper};
}

/// Runs the command with these arguments, the first of which is its name. Returns its exit status.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> PyResult<u8> {
    failure::guarded(py, || Ok(nandlab::command(arguments)))
}
