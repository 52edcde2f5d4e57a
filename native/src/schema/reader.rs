//! The reader of frames: tables, and the types of the rows.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::schema::tables::{CommandRow, Names, PlanRow, Tables};

/// Reader of frames; it holds tables, cached texts, and the types of rows.
#[pyclass(frozen, module = "pulsarscope_native")]
pub struct Reader {
    pub tables: Tables,
    pub checksum: Py<PyAny>,
    pub row: Py<PyAny>,
    pub attachment: Py<PyAny>,
    pub sent: Py<PyAny>,
    pub exchange: Py<PyAny>,
    pub ok: Py<PyString>,
    pub good: Py<PyString>,
}

#[pymethods]
impl Reader {
    /// `plans`, `commands`, `metadata`, `entry_metadata`, `secrets`, `names`, `bounds` (number of cached texts, depth of messages): see
    /// `Tables::new`; `types`: types of checksums, rows, attachments, waiting SENDs, and exchange rows.
    #[new]
    #[pyo3(signature = (plans, commands, metadata, entry_metadata, secrets, names, types, bounds))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        plans: Vec<PlanRow<'_>>,
        commands: Vec<CommandRow<'_>>,
        metadata: usize,
        entry_metadata: usize,
        secrets: (Py<PyAny>, Py<PyAny>),
        names: Names,
        types: [Bound<'_, PyAny>; 5],
        bounds: (usize, u32),
    ) -> PyResult<Self> {
        let [checksum, row, attachment, sent, exchange] = types.map(Bound::unbind);
        let tables = Tables::new(py, plans, commands, metadata, entry_metadata, secrets, &names, bounds.0, bounds.1)?;
        let text = |text| PyString::intern(py, text).unbind();
        Ok(Reader { tables, checksum, row, attachment, sent, exchange, ok: text("ok"), good: text("good") })
    }
}
