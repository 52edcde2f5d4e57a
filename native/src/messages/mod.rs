//! Messages of a batch in columns.

pub(crate) mod kept_messages;
pub(crate) mod message_rows;
pub(crate) mod opened_messages;
pub(crate) mod opener;
pub(crate) mod recent_batches;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lz4::block::decompress_to_buffer;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyString, PyType};
use pyo3::IntoPyObjectExt;
use sha2::{Digest, Sha256};

use crate::caught;
use crate::encoding::json::{self, Times};
use crate::encoding::payload_text::PayloadForm;
use crate::encoding::wire::Bytes;
use crate::messages::kept_messages::{Batch, Message, Own};
use crate::messages::recent_batches::RecentBatches;
use crate::schema::tables::Range;

const MILLISECOND: i64 = 1_000_000;
/// Number of property names that are remembered, and the longest of them.
const NAMES_MAX: usize = 1024;
const NAME_MAX_BYTES: usize = 64;
/// Maximum number of properties of a message: for more, only the reference knows which are the same.
const PROPERTIES_MAX: usize = 32;
/// Room that is allocated at once for the metadata of a batch, and the minimum bytes of a message in it.
const METADATA_ROOM_BYTES: usize = 4096;
const MESSAGE_MIN_BYTES: usize = 6;
/// Number of names of a batch that are known to be plain without a lookup in the table.
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

/// Reader of batches. It knows which names of properties are plain: not those of credentials, nor others that Python looks for.
#[pyclass(frozen, module = "pulsarscope_native")]
pub struct BatchReader {
    is_plain: Py<PyAny>,
    properties: bool,
    pub digests: bool,
    /// Form of payloads, if they are requested.
    pub form: Option<PayloadForm>,
    pub bounds: Bounds,
    names: Mutex<HashMap<String, bool>>,
    recent: Mutex<RecentBatches>,
}

/// Maximum number of messages and bytes of a batch that is opened without Python, and of the payload of a message, if payloads are
/// requested.
pub type Bounds = (i64, i64);

/// An opened batch: its columns, its size, and the sum of the sizes of its payloads.
pub struct Opened<'py> {
    pub columns: Bound<'py, PyDict>,
    pub payloads: i64,
    pub size: i64,
}

/// Unwrap a value, or return None: the data are left to Python.
macro_rules! plain {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Return the range of a text that ends at a place.
fn range(text: &str, end: usize) -> Range {
    ((end - text.len()) as u32, end as u32)
}

impl BatchReader {
    /// Read `count` messages. None for what is left to the reference: other fields, another order, too few or too many bytes.
    fn batch(&self, py: Python<'_>, data: &[u8], count: usize, sequence_id: Option<i64>) -> PyResult<Option<Batch>> {
        let room = if self.form.is_some() { data.len() } else { data.len().min(METADATA_ROOM_BYTES) };
        let mut batch = Batch { metadata: Vec::with_capacity(room), ..Batch::default() };
        batch.messages.reserve(count.min(data.len() / MESSAGE_MIN_BYTES));
        let mut rest = Bytes(data);
        for _ in 0..count {
            let size = plain!(rest.u32());
            let metadata = plain!(rest.take(u64::from(size)));
            let start = batch.metadata.len();
            batch.metadata.extend_from_slice(metadata);
            let mut message = plain!(self.message(py, metadata, start, sequence_id, &mut batch)?);
            let payload = plain!(rest.take(u64::from(message.size)));
            if self.digests {
                batch.digests.push(Sha256::digest(payload).into());
            }
            message.payload = self.form.map(|form| batch.add_payload(&form.of(payload)));
            batch.messages.push(message);
        }
        batch.metadata.extend_from_slice(&[b' '; crate::encoding::padded::STEP]);
        batch.metadata.shrink_to_fit(); // batches may wait for their receipts
        Ok(rest.0.is_empty().then_some(batch))
    }

    /// Read the metadata of a message, which begin at `start` in those of the batch.
    fn message(
        &self,
        py: Python<'_>,
        metadata: &[u8],
        start: usize,
        sequence_id: Option<i64>,
        batch: &mut Batch,
    ) -> PyResult<Option<Message>> {
        let end = start + metadata.len();
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
                PROPERTIES => {
                    let pair = plain!(rest.take(value));
                    plain!(self.property(py, pair, end - rest.0.len(), first as usize, batch)?);
                }
                PARTITION_KEY => {
                    let key = plain!(text(plain!(rest.take(value))));
                    message.key = Some(range(key, end - rest.0.len()));
                }
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

    /// Take a property, which ends at `end` in the metadata of the batch, of the message whose pairs begin at `first`.
    pub fn property(&self, py: Python<'_>, pair: &[u8], end: usize, first: usize, batch: &mut Batch) -> PyResult<Option<()>> {
        let mut rest = Bytes(pair);
        let mut next = |tag| {
            let there = rest.varint()? == tag;
            let size = rest.varint()?;
            let text = text(rest.take(size)?).filter(|_| there)?;
            Some((text, range(text, end - rest.0.len())))
        };
        let ((name, name_range), (_, value_range)) = (plain!(next(KEY)), plain!(next(VALUE)));
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
        if batch.pairs[first..].iter().any(|(other, _)| batch.bytes(*other) == name.as_bytes()) {
            return Ok(None);
        }
        if self.properties {
            batch.pairs.push((name_range, value_range));
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
    /// `is_plain`: tells whether the name of a property is plain; `properties`, `digests`: whether they are requested; `form`: form of
    /// payloads, if they are requested; `bounds`: see `Bounds`.
    #[new]
    fn new(is_plain: Py<PyAny>, properties: bool, digests: bool, form: Option<&str>, bounds: Bounds) -> PyResult<Self> {
        let unknown = |name| PyValueError::new_err(format!("unknown form of payloads: {name}"));
        let form = form.map(|name| PayloadForm::named(name).ok_or_else(|| unknown(name))).transpose()?;
        Ok(BatchReader { is_plain, properties, digests, form, bounds, names: Mutex::default(), recent: Mutex::default() })
    }

    /// Return the columns of the messages of a batch by the names of `MessageRow`; None if one of them is not plain.
    fn read<'py>(&self, data: &Bound<'py, PyBytes>, count: usize, sequence_id: Option<i64>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = data.py();
        caught(|| {
            let batch = plain!(self.batch(py, data.as_bytes(), count, sequence_id)?);
            Ok(Some(self.columns(py, &Arc::new(batch))?))
        })
    }
}

impl BatchReader {
    fn columns<'py>(&self, py: Python<'py>, batch: &Arc<Batch>) -> PyResult<Bound<'py, PyDict>> {
        let kinds = [
            (intern!(py, "batch_index"), Kind::Index, true),
            (intern!(py, "payload_size"), Kind::Size, true),
            (intern!(py, "key"), Kind::Key, true),
            (intern!(py, "sequence_id"), Kind::SequenceId, true),
            (intern!(py, "properties"), Kind::Properties, self.properties),
            (intern!(py, "payload_sha256"), Kind::Digest, self.digests),
            (intern!(py, "payload"), Kind::Payload, self.form.is_some()),
        ];
        columns_of(py, batch, kinds)
    }

    /// Open the batch of a payload that is not compressed (`codec` is None), or compressed by LZ4 with a known size. `payload`: checksum of
    /// the frame, and payload bytes; `room`: scratch memory that is kept. None for what is left to Python.
    pub fn open<'py>(
        &self,
        py: Python<'py>,
        (checksum, payload): (u32, &[u8]),
        codec: (Option<&str>, i64),
        messages: (i64, Option<i64>),
        room: &mut Vec<u8>,
    ) -> PyResult<Option<Opened<'py>>> {
        let (codec, uncompressed) = codec;
        let (count, sequence_id) = messages;
        let size = match codec {
            None => payload.len() as i64,
            Some("LZ4") if uncompressed > 0 => uncompressed,
            _ => return Ok(None),
        };
        if count > self.bounds.0 || size > self.bounds.1 {
            return Ok(None);
        }
        let form = (codec.map(|_| size), count, sequence_id);
        let known = self.recent.lock().ok().and_then(|recent| recent.find(checksum, payload, form));
        let batch = match known {
            Some(batch) => batch,
            None => {
                let data = plain!(decompressed(payload, codec.map(|_| size as usize), room));
                let batch = Arc::new(plain!(self.batch(py, data, count as usize, sequence_id)?));
                if let Ok(mut recent) = self.recent.lock() {
                    recent.keep(checksum, payload, form, &batch);
                }
                batch
            }
        };
        let payloads = batch.messages.iter().map(|message| i64::from(message.size)).sum();
        Ok(Some(Opened { columns: self.columns(py, &batch)?, payloads, size }))
    }
}

/// Return the SHA-256 of bytes in hexadecimal digits.
#[pyfunction]
pub fn sha256_hex(data: &[u8]) -> String {
    let mut digits = Vec::with_capacity(64);
    json::digits(&Sha256::digest(data).into(), &mut digits);
    String::from_utf8(digits).unwrap_or_default()
}

/// Return a payload that is not compressed (`size` is None), or compressed by LZ4 with a known size; None if it does not have this size.
fn decompressed<'a>(payload: &'a [u8], size: Option<usize>, room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let Some(size) = size else { return Some(payload) };
    if room.len() < size {
        room.resize(size, 0);
    }
    let out = &mut room[..size];
    let length = decompress_to_buffer(payload, Some(i32::try_from(size).ok()?), out).ok()?;
    (length == size).then_some(out)
}

#[derive(Clone, Copy)]
pub enum Kind {
    Index,
    Size,
    Key,
    SequenceId,
    Properties,
    Digest,
    Payload,
    KeyIsBytes,
    EventTime,
    NullValue,
    Own(Own),
}

/// A value as a cell of a column: a number, a flag, or whether there is a text, which was appended.
pub enum Cell {
    Number(Option<i64>),
    Flag(Option<bool>),
    Text(bool),
}

/// Return those of the given columns that have values, followed by those that few messages have.
pub fn columns_of<'py>(
    py: Python<'py>,
    batch: &Arc<Batch>,
    given: impl IntoIterator<Item = (&'py Bound<'py, PyString>, Kind, bool)>,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let has = |test: fn(&Message) -> bool| batch.messages.iter().any(test);
    let optional = [
        (intern!(py, "key_is_bytes"), Kind::KeyIsBytes, has(|message| message.key_is_bytes.is_some())),
        (intern!(py, "event_time"), Kind::EventTime, has(|message| message.event_time.is_some())),
        (intern!(py, "null_value"), Kind::NullValue, has(|message| message.null_value.is_some())),
    ];
    for (name, kind, _) in given.into_iter().chain(optional).filter(|(_, _, there)| *there) {
        columns.set_item(name, MessageColumn { batch: batch.clone(), kind })?;
    }
    Ok(columns)
}

/// A column of the messages of a batch: a sequence of values, each made on access.
#[pyclass(sequence, frozen, module = "pulsarscope_native")]
pub struct MessageColumn {
    pub batch: Arc<Batch>,
    pub kind: Kind,
}

impl MessageColumn {
    fn own(&self, own: Own, index: usize) -> Option<i64> {
        self.batch.singles.get(index).and_then(|single| own.of(single))
    }

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
            Kind::Payload => message.payload.map(|text| self.batch.text(text)).into_bound_py_any(py),
            Kind::KeyIsBytes => message.key_is_bytes.into_bound_py_any(py),
            Kind::EventTime => message.event_time.into_bound_py_any(py),
            Kind::NullValue => message.null_value.into_bound_py_any(py),
            Kind::Own(own) => self.own(own, index).into_bound_py_any(py),
        }
    }

    pub fn len(&self) -> usize {
        self.batch.messages.len()
    }

    /// Return a value; a text is appended, as are properties.
    pub fn cell(&self, index: usize, out: &mut Vec<u8>) -> Cell {
        let Some(message) = self.batch.messages.get(index) else { return Cell::Text(false) };
        let put_text =
            |text: Option<Range>, out: &mut Vec<u8>| Cell::Text(text.map(|text| out.extend_from_slice(self.batch.bytes(text))).is_some());
        match self.kind {
            Kind::Index => Cell::Number(Some(index as i64)),
            Kind::Size => Cell::Number(Some(i64::from(message.size))),
            Kind::SequenceId => Cell::Number(message.sequence_id),
            Kind::EventTime => Cell::Number(message.event_time),
            Kind::KeyIsBytes => Cell::Flag(message.key_is_bytes),
            Kind::NullValue => Cell::Flag(message.null_value),
            Kind::Own(own) => Cell::Number(self.own(own, index)),
            Kind::Key => put_text(message.key, out),
            Kind::Payload => put_text(message.payload, out),
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

    /// Append a value as JSON and return true; false if it is absent.
    pub fn write(&self, index: usize, times: &mut Times, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.batch.messages.get(index) else { return false };
        let put_text = |text: Option<Range>, out: &mut Vec<u8>| text.map(|text| json::string_in(&self.batch.metadata, text, out)).is_some();
        let put_bool = |value: Option<bool>, out: &mut Vec<u8>| value.map(|value| json::boolean(value, out)).is_some();
        match self.kind {
            Kind::Index => json::number(index as i64, out),
            Kind::Size => json::number(i64::from(message.size), out),
            Kind::Key => return put_text(message.key, out),
            Kind::Payload => return put_text(message.payload, out),
            Kind::SequenceId => return message.sequence_id.map(|id| json::number(id, out)).is_some(),
            Kind::Properties => {
                let pairs = self.pairs(message);
                for (place, (name, value)) in pairs.iter().enumerate() {
                    out.push(if place == 0 { b'{' } else { b',' });
                    json::string_in(&self.batch.metadata, *name, out);
                    out.push(b':');
                    json::string_in(&self.batch.metadata, *value, out);
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
            Kind::Own(own) if own.is_time() => return self.own(own, index).map(|time| times.write(time, out)).is_some(),
            Kind::Own(own) => return self.own(own, index).map(|number| json::number(number, out)).is_some(),
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
        crate::capture::pieces::item(index, self.batch.messages.len(), |place| self.value(py, place))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.list(py)?.try_iter()
    }

    /// Pickle as the list that Python continues with.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyList>,))> {
        Ok((py.get_type::<PyList>(), (self.list(py)?,)))
    }
}
