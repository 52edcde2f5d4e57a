//! Messages of a batch in columns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyType};
use pyo3::IntoPyObjectExt;
use sha2::{Digest, Sha256};

use crate::caught;
use crate::json::{self, Times};
use crate::tables::Range;
use crate::wire::Bytes;

const MILLISECOND: i64 = 1_000_000;
/// Names of properties that are remembered, and the longest of them.
const NAMES_MAX: usize = 1024;
const NAME_MAX_BYTES: usize = 64;
/// Properties of a message, at most: of more the reference knows which are the same.
const PROPERTIES_MAX: usize = 32;
/// Room for texts of a batch that is made at once, and the least bytes that a message has in it.
const TEXTS_MAX_BYTES: usize = 4096;
const MESSAGE_MIN_BYTES: usize = 6;
/// Names of a batch that are known to be plain without a look into the table.
const BATCH_NAMES_MAX: usize = 8;

/// Tags of SingleMessageMetadata, in the order of their numbers, and of KeyValue.
const PROPERTIES: u64 = 10;
const PARTITION_KEY: u64 = 18;
const PAYLOAD_SIZE: u64 = 24;
const EVENT_TIME: u64 = 40;
const KEY_IS_BYTES: u64 = 48;
const SEQUENCE_ID: u64 = 64;
const NULL_VALUE: u64 = 72;
const NULL_KEY: u64 = 80;
const KEY: u64 = 10;
const VALUE: u64 = 18;

#[derive(Default)]
struct Message {
    key: Option<Range>,
    /// Of the pairs of the batch.
    properties: Range,
    size: u32,
    sequence_id: Option<i64>,
    event_time: Option<i64>,
    key_is_bytes: Option<bool>,
    null_value: Option<bool>,
}

/// What is kept of the messages of a batch; ranges are those of `texts`.
#[derive(Default)]
struct Batch {
    texts: String,
    pairs: Vec<(Range, Range)>,
    messages: Vec<Message>,
    digests: Vec<[u8; 32]>,
    plain_names: Vec<String>,
}

impl Batch {
    fn text(&self, range: Range) -> &str {
        &self.texts[range.0 as usize..range.1 as usize]
    }

    fn keep(&mut self, text: &str) -> Range {
        let start = self.texts.len() as u32;
        self.texts.push_str(text);
        (start, self.texts.len() as u32)
    }
}

/// Reader of batches. It holds which names of properties are plain: not those of credentials, nor of what else Python looks for.
#[pyclass(frozen, module = "pulsarscope_native")]
pub struct BatchReader {
    is_plain: Py<PyAny>,
    properties: bool,
    digests: bool,
    names: Mutex<HashMap<String, bool>>,
}

/// Return from a function with None where there is none: what is read is for Python.
macro_rules! plain {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl BatchReader {
    /// Read so many messages. None of what is left to the reference: other fields, another order, bytes too few or too many.
    fn batch(&self, py: Python<'_>, data: &[u8], count: usize, sequence_id: Option<i64>) -> PyResult<Option<Batch>> {
        let mut batch = Batch { texts: String::with_capacity(data.len().min(TEXTS_MAX_BYTES)), ..Batch::default() };
        batch.messages.reserve(count.min(data.len() / MESSAGE_MIN_BYTES));
        let mut rest = Bytes(data);
        for _ in 0..count {
            let size = plain!(rest.u32());
            let metadata = plain!(rest.take(u64::from(size)));
            let message = plain!(self.message(py, metadata, sequence_id, &mut batch)?);
            let payload = plain!(rest.take(u64::from(message.size)));
            if self.digests {
                batch.digests.push(Sha256::digest(payload).into());
            }
            batch.messages.push(message);
        }
        Ok(rest.0.is_empty().then_some(batch))
    }

    fn message(&self, py: Python<'_>, metadata: &[u8], sequence_id: Option<i64>, batch: &mut Batch) -> PyResult<Option<Message>> {
        let first = batch.pairs.len() as u32;
        let mut message = Message { sequence_id, properties: (first, first), ..Message::default() };
        let (mut rest, mut last, mut sized) = (Bytes(metadata), 0, false);
        while !rest.0.is_empty() {
            let tag = plain!(rest.varint());
            if tag < last || (tag == last && tag != PROPERTIES) {
                return Ok(None);
            }
            last = tag;
            let value = plain!(rest.varint());
            match tag {
                PROPERTIES => plain!(self.property(py, plain!(rest.take(value)), first as usize, batch)?),
                PARTITION_KEY => message.key = Some(batch.keep(plain!(std::str::from_utf8(plain!(rest.take(value))).ok()))),
                PAYLOAD_SIZE => {
                    message.size = plain!(i32::try_from(value).ok()) as u32;
                    sized = true;
                }
                EVENT_TIME => {
                    let milliseconds = plain!(i64::try_from(value).ok().filter(|value| *value < i64::MAX / MILLISECOND));
                    message.event_time = (milliseconds > 0).then_some(milliseconds * MILLISECOND);
                }
                SEQUENCE_ID => message.sequence_id = Some(value as i64),
                KEY_IS_BYTES | NULL_VALUE | NULL_KEY if value > 1 => return Ok(None),
                KEY_IS_BYTES => message.key_is_bytes = Some(value == 1),
                NULL_VALUE => message.null_value = Some(value == 1),
                NULL_KEY => (),
                _ => return Ok(None),
            }
        }
        message.properties.1 = batch.pairs.len() as u32;
        Ok(sized.then_some(message))
    }

    /// Take a property of the message whose pairs begin at `first`.
    fn property(&self, py: Python<'_>, pair: &[u8], first: usize, batch: &mut Batch) -> PyResult<Option<()>> {
        let mut rest = Bytes(pair);
        let mut text = |tag| {
            let there = rest.varint()? == tag;
            let size = rest.varint()?;
            std::str::from_utf8(rest.take(size)?).ok().filter(|_| there)
        };
        let (name, value) = (plain!(text(KEY)), plain!(text(VALUE)));
        let known = batch.pairs.len() - first;
        if !rest.0.is_empty() || known >= PROPERTIES_MAX {
            return Ok(None);
        }
        if !batch.plain_names.iter().any(|plain| plain == name) {
            if !self.is_plain(py, name)? {
                return Ok(None);
            }
            if batch.plain_names.len() < BATCH_NAMES_MAX {
                batch.plain_names.push(name.to_owned());
            }
        }
        if batch.pairs[first..].iter().any(|(other, _)| batch.text(*other) == name) {
            return Ok(None);
        }
        if self.properties {
            let pair = (batch.keep(name), batch.keep(value));
            batch.pairs.push(pair);
        }
        Ok(Some(()))
    }

    fn is_plain(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        if let Some(known) = self.names.lock().ok().and_then(|names| names.get(name).copied()) {
            return Ok(known);
        }
        let plain = self.is_plain.call1(py, (name,))?.extract(py)?;
        if let (true, Ok(mut names)) = (name.len() <= NAME_MAX_BYTES, self.names.lock()) {
            if names.len() < NAMES_MAX {
                names.insert(name.to_owned(), plain);
            }
        }
        Ok(plain)
    }
}

#[pymethods]
impl BatchReader {
    /// `is_plain`: tells whether the name of a property is; `properties`, `digests`: whether they are asked for.
    #[new]
    fn new(is_plain: Py<PyAny>, properties: bool, digests: bool) -> Self {
        BatchReader { is_plain, properties, digests, names: Mutex::default() }
    }

    /// Return the columns of the messages of a batch by the names of `MessageRow`; None where one of them is not plain.
    fn read<'py>(&self, data: &Bound<'py, PyBytes>, count: usize, sequence_id: Option<i64>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = data.py();
        caught(|| {
            let batch = Arc::new(plain!(self.batch(py, data.as_bytes(), count, sequence_id)?));
            let columns = PyDict::new(py);
            let has = |test: fn(&Message) -> bool| batch.messages.iter().any(test);
            let kinds = [
                ("batch_index", Kind::Index, true),
                ("payload_size", Kind::Size, true),
                ("key", Kind::Key, true),
                ("sequence_id", Kind::SequenceId, true),
                ("properties", Kind::Properties, self.properties),
                ("payload_sha256", Kind::Digest, self.digests),
                ("key_is_bytes", Kind::KeyIsBytes, has(|message| message.key_is_bytes.is_some())),
                ("event_time", Kind::EventTime, has(|message| message.event_time.is_some())),
                ("null_value", Kind::NullValue, has(|message| message.null_value.is_some())),
            ];
            for (name, kind, _) in kinds.into_iter().filter(|(_, _, there)| *there) {
                columns.set_item(name, MessageColumn { batch: batch.clone(), kind })?;
            }
            Ok(Some(columns))
        })
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Index,
    Size,
    Key,
    SequenceId,
    Properties,
    Digest,
    KeyIsBytes,
    EventTime,
    NullValue,
}

/// A value as a cell of a column: a number, a flag, or a text that was appended if it is there.
pub enum Cell {
    Number(Option<i64>),
    Flag(Option<bool>),
    Text(bool),
}

/// A column of the messages of a batch: a sequence of values, each made when it is asked for.
#[pyclass(sequence, frozen, module = "pulsarscope_native")]
pub struct MessageColumn {
    batch: Arc<Batch>,
    kind: Kind,
}

impl MessageColumn {
    fn value<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let message = &self.batch.messages[index];
        match self.kind {
            Kind::Index => index.into_bound_py_any(py),
            Kind::Size => message.size.into_bound_py_any(py),
            Kind::Key => message.key.map(|key| self.batch.text(key)).into_bound_py_any(py),
            Kind::SequenceId => message.sequence_id.into_bound_py_any(py),
            Kind::Properties => {
                let pairs = self.pairs(message);
                if pairs.is_empty() {
                    return Ok(py.None().into_bound(py));
                }
                let properties = PyDict::new(py);
                for (name, value) in pairs {
                    properties.set_item(self.batch.text(*name), self.batch.text(*value))?;
                }
                Ok(properties.into_any())
            }
            Kind::Digest => {
                let mut text = Vec::with_capacity(64);
                json::digits(&self.batch.digests[index], &mut text);
                String::from_utf8_lossy(&text).into_bound_py_any(py)
            }
            Kind::KeyIsBytes => message.key_is_bytes.into_bound_py_any(py),
            Kind::EventTime => message.event_time.into_bound_py_any(py),
            Kind::NullValue => message.null_value.into_bound_py_any(py),
        }
    }

    pub fn len(&self) -> usize {
        self.batch.messages.len()
    }

    /// Return a value; a text, which properties are, too, is appended.
    pub fn cell(&self, index: usize, out: &mut Vec<u8>) -> Cell {
        let Some(message) = self.batch.messages.get(index) else { return Cell::Text(false) };
        match self.kind {
            Kind::Index => Cell::Number(Some(index as i64)),
            Kind::Size => Cell::Number(Some(i64::from(message.size))),
            Kind::SequenceId => Cell::Number(message.sequence_id),
            Kind::EventTime => Cell::Number(message.event_time),
            Kind::KeyIsBytes => Cell::Flag(message.key_is_bytes),
            Kind::NullValue => Cell::Flag(message.null_value),
            Kind::Key => Cell::Text(message.key.map(|key| out.extend_from_slice(self.batch.text(key).as_bytes())).is_some()),
            Kind::Properties => Cell::Text(self.write(index, &mut Times::default(), out)),
            Kind::Digest => {
                json::digits(&self.batch.digests[index], out);
                Cell::Text(true)
            }
        }
    }

    fn pairs(&self, message: &Message) -> &[(Range, Range)] {
        &self.batch.pairs[message.properties.0 as usize..message.properties.1 as usize]
    }

    /// Append a value as JSON and return true; false of one that is absent.
    pub fn write(&self, index: usize, times: &mut Times, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.batch.messages.get(index) else { return false };
        let put_bool = |value: Option<bool>, out: &mut Vec<u8>| value.map(|value| json::boolean(value, out)).is_some();
        match self.kind {
            Kind::Index => json::number(index as i64, out),
            Kind::Size => json::number(i64::from(message.size), out),
            Kind::Key => return message.key.map(|key| json::string(self.batch.text(key), out)).is_some(),
            Kind::SequenceId => return message.sequence_id.map(|id| json::number(id, out)).is_some(),
            Kind::Properties => {
                let pairs = self.pairs(message);
                for (place, (name, value)) in pairs.iter().enumerate() {
                    out.push(if place == 0 { b'{' } else { b',' });
                    json::string(self.batch.text(*name), out);
                    out.push(b':');
                    json::string(self.batch.text(*value), out);
                }
                if pairs.is_empty() {
                    return false;
                }
                out.push(b'}');
            }
            Kind::Digest => {
                out.push(b'"');
                json::digits(&self.batch.digests[index], out);
                out.push(b'"');
            }
            Kind::KeyIsBytes => return put_bool(message.key_is_bytes, out),
            Kind::EventTime => return message.event_time.map(|time| times.write(time, out)).is_some(),
            Kind::NullValue => return put_bool(message.null_value, out),
        }
        true
    }

    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, (0..self.batch.messages.len()).map(|index| self.value(py, index)).collect::<PyResult<Vec<_>>>()?)
    }
}

#[pymethods]
impl MessageColumn {
    fn __len__(&self) -> usize {
        self.batch.messages.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        crate::pieces::item(index, self.batch.messages.len(), |place| self.value(py, place))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.list(py)?.try_iter()
    }

    /// The list that Python goes on with.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyList>,))> {
        Ok((py.get_type::<PyList>(), (self.list(py)?,)))
    }
}
