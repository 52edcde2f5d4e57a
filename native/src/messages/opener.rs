//! What opens the payloads of a connection.

use pyo3::intern;
use pyo3::prelude::*;

use crate::messages::BatchReader;

/// What opens payloads: the opener of Python, and a reader of batches where that may be used, with the bytes that each byte of a compressed
/// payload may give.
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
