//! A page as Python gets it, from any flash.

use nandlab_mtd::{Geometry, Mtd, MtdError, Page};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;

/// Data, spare bytes, and whether the error correction could repair them.
pub struct Found {
    data: Vec<u8>,
    oob: Vec<u8>,
    is_whole: bool,
}

/// The same as objects of Python.
pub type Bytes<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, bool);

impl Found {
    pub fn into_bytes(self, py: Python<'_>) -> Bytes<'_> {
        let data = PyBytes::new(py, &self.data);
        (data, PyBytes::new(py, &self.oob), self.is_whole)
    }
}

/// Reads a page. One beyond correction is found, and not whole.
pub fn read(flash: &mut impl Mtd, page: Page) -> Result<Found, MtdError> {
    let mut data = vec![0; flash.geometry().page as usize];
    let mut oob = vec![0; flash.geometry().oob as usize];
    let is_whole = match flash.read(page, &mut data, &mut oob) {
        Ok(_) => true,
        Err(MtdError::Uncorrectable(_)) => false,
        Err(error) => return Err(error),
    };
    Ok(Found {
        data,
        oob,
        is_whole,
    })
}

/// The shape of flash, by name.
pub fn shape(geometry: &Geometry) -> BTreeMap<&'static str, u32> {
    BTreeMap::from([
        ("page", geometry.page),
        ("oob", geometry.oob),
        ("pages_per_block", geometry.pages_per_block),
        ("blocks", geometry.blocks),
        ("dies", geometry.dies),
    ])
}
