//! Columns of numbers that numpy and Arrow read where they lie, without a copy.

use crate::failure::NandlabError;
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::sync::Arc;

/// A column of numbers.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Column(ArrayRef);

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Where numpy finds the numbers. They are read-only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (kind, address) = place(&self.0)?;
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.0.len(),))?;
        interface.set_item("typestr", kind)?;
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }
}

/// The numpy type of a column and the address of its numbers.
fn place(array: &ArrayRef) -> PyResult<(&'static str, usize)> {
    match array.data_type() {
        DataType::UInt64 => Ok(("<u8", address(array.as_primitive::<UInt64Type>().values()))),
        DataType::UInt32 => Ok(("<u4", address(array.as_primitive::<UInt32Type>().values()))),
        DataType::Float64 => Ok(("<f8", address(array.as_primitive::<Float64Type>().values()))),
        DataType::Float32 => Ok(("<f4", address(array.as_primitive::<Float32Type>().values()))),
        other => Err(NandlabError::new_err(format!("a column of type {other}"))),
    }
}

fn address<T>(values: &[T]) -> usize {
    values.as_ptr().addr()
}

/// Columns of one length, with names.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Table(RecordBatch);

impl Table {
    pub fn new(columns: Vec<(&'static str, ArrayRef)>) -> PyResult<Self> {
        RecordBatch::try_from_iter(columns)
            .map(Self)
            .map_err(refused)
    }
}

fn refused(error: ArrowError) -> PyErr {
    NandlabError::new_err(error.to_string())
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        let schema = self.0.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    fn __getitem__(&self, name: &str) -> PyResult<Column> {
        let column = self.0.column_by_name(name);
        let column = column.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        Ok(Column(Arc::clone(column)))
    }

    /// The table for pandas, polars, pyarrow and duckdb (Arrow's PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer answer with its own types.
        _ = requested_schema;
        let batches = [Ok(self.0.clone())];
        let reader = RecordBatchIterator::new(batches, self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
