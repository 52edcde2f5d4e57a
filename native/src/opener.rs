//! What opens the payloads of a connection.

use pyo3::prelude::*;

use crate::messages::BatchReader;

/// What opens payloads: the opener of Python, and a reader of batches where that may be used, with the bytes that each byte of a compressed
/// payload may give.
#[derive(Clone, FromPyObject)]
pub struct Opener<'py> {
    #[pyo3(item(0))]
    pub python: Bound<'py, PyAny>,
    #[pyo3(item(1))]
    pub batches: Option<(Bound<'py, BatchReader>, i64)>,
}
