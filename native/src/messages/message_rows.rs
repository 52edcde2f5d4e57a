//! Rows with the values that messages share, as Python objects.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::IntoPyObjectExt;

use crate::encoding::wire::Range;
use crate::messages::kept_messages::Batch;
use crate::schema::named::Sent;
use crate::schema::tables::Tables;

pub const PRODUCE: &str = "produce";
pub const DELIVER: &str = "deliver";

/// Ledger, entry and partition of a message id; None for missing ones.
pub type Place = (Option<i64>, Option<i64>, Option<i64>);

/// Values of a message row in addition to those of the frame and the session.
#[derive(Default)]
pub struct RowValues<'py> {
    pub producer: Option<Bound<'py, PyAny>>,
    pub sequence: Option<i64>,
    pub id: Option<Place>,
    pub claimed: Option<i64>,
    pub published: Option<i64>,
    pub broker_time: Option<i64>,
    pub index: Option<i64>,
    pub redelivered: Option<i64>,
    pub codec: Option<Bound<'py, PyAny>>,
}

/// Return the row with the values that messages share. `of`: source, file, connection, protocol and direction; `frame`: that of the first
/// message; `names`: direction, topic, subscription, number of the producer or consumer.
pub fn row<'py>(
    py: Python<'py>,
    row_type: &Bound<'py, PyAny>,
    of: &[Py<PyAny>; 5],
    frame: &Sent,
    names: (&str, Option<Bound<'py, PyString>>, Option<Bound<'py, PyString>>, i64),
    values: RowValues<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let codec = values.codec.unwrap_or_else(|| intern!(py, "NONE").clone().into_any());
    let (direction, topic, subscription, number) = names;
    let (producer, consumer) = if direction == PRODUCE { (Some(number), None) } else { (None, Some(number)) };
    let [source, _, connection, protocol, _] = of;
    let (ledger, entry, partition) = values.id.unwrap_or_default();
    let none = || py.None().into_bound(py);
    macro_rules! values {
        ($($value:expr),* $(,)?) => { [$($value.into_bound_py_any(py)?),*] };
    }
    let of_frame = values![source, frame.file, frame.packet, frame.sub, frame.time, connection, protocol];
    let of_session =
        values![direction, topic, subscription, producer, consumer, values.producer, values.sequence, ledger, entry, partition];
    let (claimed, published, broker_time, index) = (values.claimed, values.published, values.broker_time, values.index);
    let of_batch = values![none(), claimed, none(), none(), none(), none(), published, none(), none(), broker_time, index];
    let rest = values![values.redelivered, none(), none(), codec, false];
    let values: Vec<_> = of_frame.into_iter().chain(of_session).chain(of_batch).chain(rest).collect(); // all others are absent
    let row = row_type.call1(PyTuple::new(py, values)?)?;
    row.setattr(intern!(py, "status"), intern!(py, "ok"))?;
    Ok(row)
}

/// Return the name of the producer of the first message.
pub fn producer_name<'py>(py: Python<'py>, tables: Option<&Tables>, batch: &Batch, name: Option<Range>) -> Option<Bound<'py, PyAny>> {
    let range = name?;
    let known = tables.and_then(|tables| tables.text(py, batch.bytes(range)));
    Some(known.unwrap_or_else(|| PyString::new(py, batch.text(range))).into_any())
}
