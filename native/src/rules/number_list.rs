//! A list of numbers for rules, most of which need few of them as Python objects.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

#[pyclass(sequence, frozen, module = "pulsarscope_native")]
pub struct NumberList(pub Vec<i64>);

#[pymethods]
impl NumberList {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Return a number; negative indexes count from the end.
    fn __getitem__(&self, index: isize) -> PyResult<i64> {
        let index = if index < 0 { self.0.len().wrapping_add_signed(index) } else { index as usize };
        self.0.get(index).copied().ok_or_else(|| PyIndexError::new_err("no such number"))
    }
}
