//! The opener of payloads of a connection.

use pyo3::intern;
use pyo3::prelude::*;

use crate::messages::BatchReader;

/// Opener of payloads: that of Python, and a reader of batches if it may be used, with the maximum output per byte of a compressed payload.
#[derive(Clone)]
pub struct Opener<'py> {
    pub python: Bound<'py, PyAny>,
    pub batches: Option<(Bound<'py, BatchReader>, i64)>,
}

impl<'py> FromPyObject<'_, 'py> for Opener<'py> {
    type Error = PyErr;

    fn extract(opener: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let batches = opener.getattr(intern!(opener.py(), "compiled"))?.extract()?;
        Ok(Opener { python: opener.to_owned(), batches })
    }
}
