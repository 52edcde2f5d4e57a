//! Compiled reader of Pulsar's frames of the data path, to the very values of the Python one.
//!
//! It reads what is plain: known fields, whole messages, a payload with a right checksum. Of anything else it returns None, and the
//! Python reader, which is the reference, reads that frame. Its tables come from the Python package, so both have one source.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

/// Number of the agreement with the Python package: arguments of `Reader`, and what `read_frames` takes and returns.
const CONTRACT: u32 = 1;

const CHECKSUM_MAGIC: [u8; 2] = [0x0e, 0x01];
const BROKER_ENTRY_METADATA_MAGIC: [u8; 2] = [0x0e, 0x02];
const FIELDS_MAX: usize = 64;
const TAGS_MAX: u32 = 4096;
const NO_ROW: u8 = u8::MAX;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Int64,
    Int32,
    Uint32,
    Bool,
    Enum,
    String,
    Bytes,
    Message,
}

const KINDS: [Kind; 8] = [Kind::Int64, Kind::Int32, Kind::Uint32, Kind::Bool, Kind::Enum, Kind::String, Kind::Bytes, Kind::Message];

struct Field {
    name: Py<PyString>,
    kind: Kind,
    repeated: bool,
    names: HashMap<u64, Py<PyString>>,
    inner: usize,
}

struct Plan {
    row_of_tag: Vec<u8>,
    fields: Vec<Field>,
    required: u64,
    hides_value: bool,
}

struct Command {
    name: Py<PyString>,
    tag: u8,
    plan: usize,
    payload: bool,
}

/// A reader of frames; holds nothing but tables and remembered texts.
#[pyclass(frozen)]
struct Reader {
    plans: Vec<Plan>,
    commands: HashMap<u8, Command>,
    metadata: usize,
    entry_metadata: usize,
    plain_key: Py<PyAny>,
    checksum: Py<PyAny>,
    row: Py<PyAny>,
    attachment: Py<PyAny>,
    ok: Py<PyString>,
    good: Py<PyString>,
    texts_max: usize,
    depth_max: u32,
    texts: Mutex<HashMap<Vec<u8>, Py<PyString>>>,
    keys: Mutex<HashMap<Vec<u8>, Py<PyString>>>,
}

/// Columns of a frame: command, fields, broker_entry_metadata, checksum, metadata; and the place of its payload.
struct Parts<'py> {
    values: [Bound<'py, PyAny>; 5],
    payload_at: Option<usize>,
}

/// None: the bytes are not plain.
type Plain<T> = PyResult<Option<T>>;

type FieldRow = (u32, Py<PyString>, usize, bool, HashMap<u64, Py<PyString>>, usize, bool);

/// Unwrap a `Plain`, or return that the bytes are not plain.
macro_rules! plain {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

/// Bytes of which no more than the rest can be taken.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for index in 0..10 {
            let byte = *self.0.get(index)?;
            value |= u64::from(byte & 127) << (7 * index);
            if byte < 128 {
                self.0 = self.0.get(index + 1..)?;
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(size).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn magic(&mut self, magic: [u8; 2]) -> bool {
        let there = self.0.starts_with(&magic);
        if there {
            self.0 = &self.0[2..];
        }
        there
    }
}

impl Plan {
    fn new(rows: Vec<FieldRow>, hides_value: bool, plans: usize) -> PyResult<Self> {
        let mut plan = Plan { row_of_tag: Vec::new(), fields: Vec::new(), required: 0, hides_value };
        for (tag, name, kind, repeated, names, inner, required) in rows {
            let index = plan.fields.len();
            let known = KINDS.get(kind).copied();
            if tag >= TAGS_MAX || index >= FIELDS_MAX || known.is_none() || (known == Some(Kind::Message) && inner >= plans) {
                return Err(PyValueError::new_err("unknown form of a table"));
            }
            if plan.row_of_tag.len() <= tag as usize {
                plan.row_of_tag.resize(tag as usize + 1, NO_ROW);
            }
            plan.row_of_tag[tag as usize] = index as u8;
            if required {
                plan.required |= 1 << index;
            }
            plan.fields.push(Field { name, kind: KINDS[kind], repeated, names, inner });
        }
        Ok(plan)
    }

    fn row(&self, tag: u64) -> Option<usize> {
        let row = *self.row_of_tag.get(usize::try_from(tag).ok()?)?;
        (row != NO_ROW).then_some(row as usize)
    }
}

impl Reader {
    /// Read a message as a dict of its fields in wire order.
    fn message<'py>(&self, py: Python<'py>, data: &[u8], plan: usize, depth: u32) -> Plain<Bound<'py, PyDict>> {
        if depth > self.depth_max {
            return Ok(None);
        }
        let plan = &self.plans[plan];
        let out = PyDict::new(py);
        let mut rest = Bytes(data);
        let mut seen = 0u64;
        while !rest.0.is_empty() {
            let row = plain!(rest.varint().and_then(|tag| plan.row(tag)));
            let field = &plan.fields[row];
            let twice = seen & 1 << row != 0;
            seen |= 1 << row;
            let number = plain!(rest.varint());
            let name = field.name.bind(py);
            let value: Bound<'py, PyAny> = match field.kind {
                Kind::Int64 => (number as i64).into_pyobject(py)?.into_any(),
                Kind::Int32 => (number as i32).into_pyobject(py)?.into_any(),
                Kind::Uint32 => (number as u32).into_pyobject(py)?.into_any(),
                Kind::Bool => (number != 0).into_pyobject(py)?.to_owned().into_any(),
                Kind::Enum => plain!(field.names.get(&number)).bind(py).clone().into_any(),
                Kind::String => {
                    let raw = plain!(rest.take(number));
                    if plan.hides_value && row == 0 {
                        plain!(self.key(py, raw)?).into_any()
                    } else {
                        plain!(self.text(py, raw)).into_any()
                    }
                }
                Kind::Bytes => PyBytes::new(py, plain!(rest.take(number))).into_any(),
                Kind::Message if twice && !field.repeated => return Ok(None),
                Kind::Message => plain!(self.message(py, plain!(rest.take(number)), field.inner, depth + 1)?).into_any(),
            };
            if !field.repeated {
                out.set_item(name, value)?;
            } else if !twice {
                out.set_item(name, PyList::new(py, [value])?)?;
            } else if let Some(items) = out.get_item(name)? {
                items.cast::<PyList>()?.append(value)?;
            }
        }
        Ok((seen & plan.required == plan.required).then_some(out))
    }

    /// Return a text, the short ones from memory: neighbours share most of them.
    fn text<'py>(&self, py: Python<'py>, raw: &[u8]) -> Option<Bound<'py, PyString>> {
        if raw.len() > 64 {
            return Some(PyString::new(py, std::str::from_utf8(raw).ok()?));
        }
        let mut texts = self.texts.lock().ok()?;
        if let Some(text) = texts.get(raw) {
            return Some(text.bind(py).clone());
        }
        let text = PyString::new(py, std::str::from_utf8(raw).ok()?);
        if texts.len() >= self.texts_max {
            texts.clear();
        }
        texts.insert(raw.to_vec(), text.clone().unbind());
        Some(text)
    }

    /// Return the name of a property, if it is not that of a credential, which only the reference masks.
    fn key<'py>(&self, py: Python<'py>, raw: &[u8]) -> Plain<Bound<'py, PyString>> {
        let known = self.keys.lock().ok().and_then(|keys| keys.get(raw).map(|key| key.clone_ref(py)));
        if let Some(key) = known {
            return Ok(Some(key.into_bound(py)));
        }
        let text = plain!(std::str::from_utf8(raw).ok());
        let key = PyString::new(py, text);
        if !self.plain_key.call1(py, (&key,))?.extract::<bool>(py)? {
            return Ok(None);
        }
        if raw.len() <= 64 {
            if let Ok(mut keys) = self.keys.lock() {
                if keys.len() >= self.texts_max {
                    keys.clear();
                }
                keys.insert(raw.to_vec(), key.clone().unbind());
            }
        }
        Ok(Some(key))
    }

    fn parts<'py>(&self, py: Python<'py>, frame: &[u8]) -> Plain<Parts<'py>> {
        let mut rest = Bytes(frame);
        plain!(rest.u32());
        let size = plain!(rest.u32());
        let command = plain!(rest.take(u64::from(size)));
        let (&[type_tag, number, tag, body], fields) = plain!(command.split_first_chunk::<4>());
        let known = plain!(self.commands.get(&number));
        if type_tag != 8 || tag != known.tag || body > 127 || usize::from(body) != fields.len() {
            return Ok(None);
        }
        let none = py.None().into_bound(py);
        let name = known.name.bind(py).clone().into_any();
        if !known.payload {
            if !rest.0.is_empty() {
                return Ok(None);
            }
            let fields = plain!(self.message(py, fields, known.plan, 0)?).into_any();
            return Ok(Some(Parts { values: [name, fields, none.clone(), none.clone(), none], payload_at: None }));
        }
        let mut entry = none;
        if rest.magic(BROKER_ENTRY_METADATA_MAGIC) {
            let size = plain!(rest.u32());
            let raw = plain!(rest.take(u64::from(size)));
            entry = plain!(self.message(py, raw, self.entry_metadata, 0)?).into_any();
        }
        if !rest.magic(CHECKSUM_MAGIC) {
            return Ok(None);
        }
        let stored = plain!(rest.u32());
        if crc32c::crc32c(rest.0) != stored {
            return Ok(None);
        }
        let size = plain!(rest.u32());
        let raw = plain!(rest.take(u64::from(size)));
        let payload_at = frame.len() - rest.0.len();
        let fields = plain!(self.message(py, fields, known.plan, 0)?).into_any();
        let metadata = plain!(self.message(py, raw, self.metadata, 0)?).into_any();
        let text = PyString::new(py, &format!("{stored:08x}"));
        let checksum = self.checksum.bind(py).call1((self.good.bind(py), &text, &text))?;
        Ok(Some(Parts { values: [name, fields, entry, checksum, metadata], payload_at: Some(payload_at) }))
    }
}

#[pymethods]
impl Reader {
    /// `plans`: of each message its rows and whether it has values that only its key says to be secret, the key first; `commands`: number,
    /// name, tag, plan, presence of a payload.
    #[new]
    #[pyo3(signature = (plans, commands, metadata, entry_metadata, plain_key, checksum, row, attachment, texts_max, depth_max))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        plans: Vec<(Vec<FieldRow>, bool)>,
        commands: Vec<(u8, Py<PyString>, u8, usize, bool)>,
        metadata: usize,
        entry_metadata: usize,
        plain_key: Py<PyAny>,
        checksum: Py<PyAny>,
        row: Py<PyAny>,
        attachment: Py<PyAny>,
        texts_max: usize,
        depth_max: u32,
    ) -> PyResult<Self> {
        let count = plans.len();
        if metadata >= count || entry_metadata >= count || commands.iter().any(|command| command.3 >= count) {
            return Err(PyValueError::new_err("a table is missing"));
        }
        let plans = plans.into_iter().map(|(rows, hides)| Plan::new(rows, hides, count)).collect::<PyResult<_>>()?;
        let commands =
            commands.into_iter().map(|(number, name, tag, plan, payload)| (number, Command { name, tag, plan, payload })).collect();
        Ok(Reader {
            plans,
            commands,
            metadata,
            entry_metadata,
            plain_key,
            checksum,
            row,
            attachment,
            ok: PyString::intern(py, "ok").unbind(),
            good: PyString::intern(py, "good").unbind(),
            texts_max,
            depth_max,
            texts: Mutex::default(),
            keys: Mutex::default(),
        })
    }

    /// Read plain frames from `position` on into rows, until one that is not plain, is not whole or is too large.
    ///
    /// `names`: source, file, connection, protocol, direction; `at`: base of the data in the stream, floor of moments, size of the largest
    /// frame, packet and sub of the latest name; `pieces`: with the offset behind each; `kept`: of payloads, of whole frames.
    /// Returns the new position, packet and sub, and the exception that ended it. A panic is a RuntimeError.
    #[pyo3(signature = (data, position, names, at, pieces, kept, out))]
    #[allow(clippy::too_many_arguments)]
    fn read_frames<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyBytes>,
        position: usize,
        names: [Bound<'py, PyAny>; 5],
        at: (u64, i64, usize, i64, u32),
        pieces: (Bound<'py, PyList>, Bound<'py, PyList>),
        kept: (bool, bool),
        out: (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyDict>),
    ) -> (usize, i64, u32, Option<PyErr>) {
        let (base, floor, largest, packet, sub) = at;
        let mut run = Run { names, base, floor, largest, pieces, kept, out, position, packet, sub };
        let error = match catch_unwind(AssertUnwindSafe(|| run.read(py, self, data.as_bytes()))) {
            Ok(result) => result.err(),
            Err(_) => Some(PyRuntimeError::new_err("the compiled reader panicked")),
        };
        (run.position, run.packet, run.sub, error)
    }
}

/// A call of `Reader::read_frames`.
struct Run<'py> {
    names: [Bound<'py, PyAny>; 5],
    base: u64,
    floor: i64,
    largest: usize,
    pieces: (Bound<'py, PyList>, Bound<'py, PyList>),
    kept: (bool, bool),
    out: (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyDict>),
    position: usize,
    packet: i64,
    sub: u32,
}

impl<'py> Run<'py> {
    fn read(&mut self, py: Python<'py>, reader: &Reader, data: &[u8]) -> PyResult<()> {
        let none = py.None().into_bound(py);
        let ok = reader.ok.bind(py).clone().into_any();
        let [source, file, connection, protocol, direction] = self.names.clone();
        let (pieces, ends) = self.pieces.clone();
        let (rows, moments, attachments) = self.out.clone();
        let (mut index, mut piece_end) = (0, i64::MIN);
        let (mut packet, mut time, mut moment) = (none.clone(), none.clone(), none.clone());
        while let Some(size) = data.get(self.position..).and_then(|rest| Bytes(rest).u32()) {
            let size = size as usize + 4;
            if size > self.largest {
                break;
            }
            let Some(frame) = data.get(self.position..self.position + size) else { break };
            let Some(parts) = reader.parts(py, frame)? else { break };
            let offset = self.base + self.position as u64;
            let stop = offset as i64 + size as i64;
            if stop > piece_end {
                index = first_at_least(&ends, index, stop)?;
                piece_end = ends.get_item(index)?.extract()?;
                let piece = pieces.get_item(index)?.cast_into::<PyTuple>()?;
                packet = piece.get_item(1)?;
                time = piece.get_item(2)?;
                moment = piece.get_item(3)?.extract::<i64>()?.max(self.floor).into_pyobject(py)?.into_any();
                let number = packet.extract()?;
                if number != self.packet {
                    self.packet = number;
                    self.sub = 0;
                }
            }
            if self.kept.1 || (self.kept.0 && parts.payload_at.is_some()) {
                let payload = parts.payload_at.filter(|_| self.kept.0).map(|at| PyBytes::new(py, &frame[at..]));
                let raw = self.kept.1.then(|| PyBytes::new(py, frame));
                attachments.set_item(rows.len(), reader.attachment.bind(py).call1((py.None(), payload, raw))?)?;
            }
            self.sub += 1;
            let payload_size = match parts.payload_at {
                Some(at) => (size - at).into_pyobject(py)?.into_any(),
                None => none.clone(),
            };
            let sub = self.sub.into_pyobject(py)?.into_any();
            let [name, fields, entry, checksum, metadata] = parts.values;
            let n = || none.clone();
            let row = PyTuple::new(
                py,
                [
                    source.clone(),
                    file.clone(),
                    packet.clone(),
                    sub,
                    time.clone(),
                    connection.clone(),
                    protocol.clone(),
                    direction.clone(),
                    offset.into_pyobject(py)?.into_any(),
                    size.into_pyobject(py)?.into_any(),
                    name,
                    fields,
                    entry,
                    checksum,
                    metadata,
                    payload_size,
                    n(),
                    n(),
                    n(),
                    n(),
                    n(),
                    n(),
                    ok.clone(),
                ],
            )?;
            rows.append(reader.row.bind(py).call1(row)?)?;
            moments.append(&moment)?;
            self.position += size;
        }
        Ok(())
    }
}

/// Return the index, from `first` on, of the first number that is at least `least`; the next one most of the time.
fn first_at_least(numbers: &Bound<'_, PyList>, first: usize, least: i64) -> PyResult<usize> {
    let (mut low, mut high, mut step) = (first, numbers.len(), 1);
    while low + step < high {
        if numbers.get_item(low + step - 1)?.extract::<i64>()? >= least {
            high = low + step - 1;
            break;
        }
        low += step;
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if numbers.get_item(middle)?.extract::<i64>()? < least {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[pymodule]
fn pulsarscope_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    std::panic::set_hook(Box::new(|_| ())); // a panic is an exception, which says so
    module.add("CONTRACT", CONTRACT)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Reader>()
}
