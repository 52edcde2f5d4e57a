//! Tables of the messages and commands of Pulsar, made from those of the Python package: both have one source.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::encoding::json;
use crate::encoding::padded::Padded;
use crate::encoding::wire::Bytes;
pub use crate::encoding::wire::Range;
pub use crate::schema::numbers::Numbers;
use crate::schema::plans::{Kind, Plan};
pub use crate::schema::plans::{Names, PlanRow, Role, Text, Value};

pub struct Command {
    pub name: Text,
    /// The name, and the key of the fields after it, in JSON.
    pub line: Padded,
    pub kind: CommandKind,
    tag: Vec<u8>,
    pub plan: usize,
    pub payload: bool,
    /// Its part in a conversation; needed only if that is read as a whole.
    pub part: Part,
    /// Whether the request, together with its response, is an anchor.
    pub anchoring: bool,
}

/// The part of a command of `CommandKind::Other` in a conversation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Part {
    Connect,
    Connected,
    Producer(u8),
    Subscribe(u8),
    /// A request with the number of its response.
    Asks(u8),
    ProducerSuccess,
    Answers,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CommandKind {
    Send,
    Receipt,
    Message,
    Ack,
    Flow,
    Other,
}

/// Ledger, entry and index in the batch of a message id.
pub type MessageId = (i64, i64, i64);

/// The tables, and cached texts.
pub struct Tables {
    plans: Vec<Plan>,
    commands: Vec<Option<Command>>,
    pub metadata: usize,
    pub entry_metadata: usize,
    /// Name of the command SEND.
    pub send: Text,
    plain_key: Py<PyAny>,
    redacted: Py<PyAny>,
    texts_max: usize,
    depth_max: u32,
    texts: Mutex<HashMap<Vec<u8>, Py<PyString>>>,
    keys: Mutex<HashMap<Vec<u8>, Py<PyString>>>,
}

/// Parts of a frame, as ranges from its start on.
#[derive(Clone)]
pub struct Parts {
    pub command: u8,
    pub fields: Range,
    pub entry: Option<Range>,
    pub metadata: Option<Range>,
    pub checksum: u32,
    /// 0 in a frame without a payload.
    pub payload_at: u32,
    pub numbers: Numbers,
}

/// None if the bytes are not plain.
pub type Plain<T> = PyResult<Option<T>>;

pub type CommandRow<'py> = (u8, Bound<'py, PyString>, Vec<u8>, usize, bool, u8, bool);

const CHECKSUM_MAGIC: [u8; 2] = [0x0e, 0x01];
const BROKER_ENTRY_METADATA_MAGIC: [u8; 2] = [0x0e, 0x02];

/// Unwrap a `Plain`, or return that the bytes are not plain.
macro_rules! plain {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl Tables {
    /// `plans`: the rows of each message, and whether it has values that only its key marks as secret, with the key first; `commands`:
    /// number, name, tag, plan, presence of a payload, number of the response with its request_id or 0, whether it is an anchor; and
    /// functions that tell whether a key is plain, and that describe a credential.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        py: Python<'_>,
        plans: Vec<PlanRow<'_>>,
        commands: Vec<CommandRow<'_>>,
        metadata: usize,
        entry_metadata: usize,
        (plain_key, redacted): (Py<PyAny>, Py<PyAny>),
        names: &Names,
        texts_max: usize,
        depth_max: u32,
    ) -> PyResult<Self> {
        let send = Text::new(&PyString::intern(py, "SEND"))?;
        let count = plans.len();
        if metadata >= count || entry_metadata >= count || commands.iter().any(|command| command.3 >= count) {
            return Err(PyValueError::new_err("a table is missing"));
        }
        let plans: Vec<Plan> = plans.into_iter().map(|plan| Plan::new(plan, count, names)).collect::<PyResult<_>>()?;
        let mut by_number: Vec<Option<Command>> = (0..256).map(|_| None).collect();
        for (number, name, tag, plan, payload, response, anchoring) in commands {
            let name = Text::new(&name)?;
            let kind = match name.json.as_slice() {
                b"\"SEND\"" => CommandKind::Send,
                b"\"SEND_RECEIPT\"" => CommandKind::Receipt,
                b"\"MESSAGE\"" => CommandKind::Message,
                b"\"ACK\"" => CommandKind::Ack,
                b"\"FLOW\"" => CommandKind::Flow,
                _ => CommandKind::Other,
            };
            let part = match (name.json.as_slice(), response) {
                (b"\"CONNECT\"", _) => Part::Connect,
                (b"\"CONNECTED\"", _) => Part::Connected,
                (b"\"PRODUCER_SUCCESS\"", _) => Part::ProducerSuccess,
                (_, 0) => Part::Answers,
                (b"\"PRODUCER\"", _) => Part::Producer(response),
                (b"\"SUBSCRIBE\"", _) => Part::Subscribe(response),
                _ => Part::Asks(response),
            };
            let line = Padded::of(&[b",\"command\":", name.json.as_slice(), b",\"fields\":"].concat());
            by_number[usize::from(number)] = Some(Command { name, line, kind, tag, plan, payload, part, anchoring });
        }
        Ok(Tables {
            plans,
            commands: by_number,
            metadata,
            entry_metadata,
            send,
            plain_key,
            redacted,
            texts_max,
            depth_max,
            texts: Mutex::default(),
            keys: Mutex::default(),
        })
    }

    #[inline]
    pub fn command(&self, number: u8) -> Option<&Command> {
        self.commands[usize::from(number)].as_ref()
    }

    /// Return which numbers belong to commands with these names.
    pub fn chosen(&self, names: &HashSet<String>) -> [bool; 256] {
        let quoted = |command: &Command| std::str::from_utf8(&command.name.json).is_ok_and(|name| names.contains(name.trim_matches('"')));
        let mut chosen = [false; 256];
        if !names.is_empty() {
            for (number, command) in self.commands.iter().enumerate() {
                chosen[number] = command.as_ref().is_some_and(quoted);
            }
        }
        chosen
    }

    /// Split a whole frame, and check that it is plain: known fields, none of them repeated, texts in UTF-8, a payload with a correct
    /// checksum. `any`: accept any command in the tables, not only those of the data path.
    pub fn parts(&self, py: Python<'_>, frame: &[u8], any: bool) -> Plain<Parts> {
        self.parts_of_head(py, frame, frame.len(), any, |start| crc32c::crc32c(&frame[start..]))
    }

    /// Split a frame of `size` bytes, of which the first ones are given: the same result if they include command and metadata, None
    /// otherwise. `checksum` returns that of the frame from a place on.
    pub fn parts_of_head(&self, py: Python<'_>, frame: &[u8], size: usize, any: bool, checksum: impl FnOnce(usize) -> u32) -> Plain<Parts> {
        let is_whole = frame.len() == size;
        let mut rest = Bytes(frame);
        plain!(rest.u32());
        let size = plain!(rest.u32());
        let command = plain!(rest.take(u64::from(size)));
        let (&[type_tag, number], behind) = plain!(command.split_first_chunk::<2>());
        let known = plain!(self.command(number));
        let mut body = Bytes(plain!(behind.strip_prefix(known.tag.as_slice())));
        let length = plain!(body.varint());
        let (fields, start) = (body.0, (8 + command.len() - body.0.len()) as u32);
        let minimal = start as usize == 11 + known.tag.len() + usize::from(length >= 128);
        let is_read = any || known.kind != CommandKind::Other;
        if type_tag != 8 || !is_read || length != fields.len() as u64 || !minimal {
            return Ok(None);
        }
        let mut parts = Parts {
            command: number,
            fields: (start, start + fields.len() as u32),
            entry: None,
            metadata: None,
            checksum: 0,
            payload_at: 0,
            numbers: Numbers::default(),
        };
        plain!(self.check(py, fields, known.plan, 0, &mut parts.numbers)?);
        parts.numbers.name = None; // that of a command is a field like others
        if !known.payload {
            return Ok((is_whole && rest.0.is_empty()).then_some(parts));
        }
        if rest.magic(BROKER_ENTRY_METADATA_MAGIC) {
            let size = plain!(rest.u32());
            let start = (frame.len() - rest.0.len()) as u32;
            let raw = plain!(rest.take(u64::from(size)));
            parts.entry = Some((start, start + size));
            plain!(self.check(py, raw, self.entry_metadata, 0, &mut Numbers::default())?);
        }
        if !rest.magic(CHECKSUM_MAGIC) {
            return Ok(None);
        }
        parts.checksum = plain!(rest.u32());
        if checksum(frame.len() - rest.0.len()) != parts.checksum {
            return Ok(None);
        }
        let size = plain!(rest.u32());
        let start = (frame.len() - rest.0.len()) as u32;
        let raw = plain!(rest.take(u64::from(size)));
        parts.metadata = Some((start, start + size));
        parts.payload_at = start + size;
        let mut of_metadata = Numbers::default();
        plain!(self.check(py, raw, self.metadata, 0, &mut of_metadata)?);
        parts.numbers.messages = of_metadata.messages;
        parts.numbers.name = of_metadata.name.map(|(from, to)| (start + from, start + to));
        parts.numbers.wrapped = of_metadata.wrapped;
        parts.numbers.rare |= of_metadata.rare;
        parts.numbers.loud |= of_metadata.loud;
        parts.numbers.published = of_metadata.published;
        parts.numbers.properties = of_metadata.properties;
        parts.numbers.replicated = of_metadata.replicated;
        parts.numbers.compressed = of_metadata.compressed;
        parts.numbers.uncompressed = of_metadata.uncompressed;
        if known.kind == CommandKind::Message {
            parts.numbers.sequence = of_metadata.sequence;
        }
        Ok(Some(parts))
    }

    /// Check that a message is plain, so that `message` and `write` can read it, and keep some of its numbers.
    fn check(&self, py: Python<'_>, data: &[u8], plan: usize, depth: u32, numbers: &mut Numbers) -> Plain<()> {
        if depth > self.depth_max {
            return Ok(None);
        }
        let plan = &self.plans[plan];
        let mut rest = Bytes(data);
        let mut seen = 0u64;
        let mut last = usize::MAX;
        while !rest.0.is_empty() {
            let row = plain!(rest.varint().and_then(|tag| plan.row(tag)));
            let field = &plan.fields[row];
            if seen & 1 << row != 0 && !(field.repeated && row == last) {
                return Ok(None);
            }
            seen |= 1 << row;
            last = row;
            let number = plain!(rest.varint());
            if depth == 0 {
                numbers.loud |= field.loud;
            }
            if field.role != Role::Other {
                match (depth, field.role) {
                    (0, role) => numbers.keep(role, || field.kind.number(number)),
                    (1, Role::LedgerId) => numbers.ledger = field.kind.number(number),
                    (1, Role::EntryId) => numbers.entry = field.kind.number(number),
                    (_, Role::AckSet) => numbers.ack_set = true,
                    _ => {}
                }
            }
            match field.kind {
                Kind::Int64 | Kind::Int32 | Kind::Uint32 | Kind::Bool => {}
                Kind::Enum => {
                    plain!(field.names.get(&number));
                }
                Kind::String => {
                    let raw = plain!(rest.take(number));
                    if plan.hides_value && row == 0 {
                        plain!(self.key(py, raw)?);
                    } else if !raw.is_ascii() {
                        plain!(std::str::from_utf8(raw).ok());
                    }
                    if field.role == Role::ProducerName && depth == 0 {
                        let end = (data.len() - rest.0.len()) as u32;
                        numbers.name = Some((end - raw.len() as u32, end));
                    }
                }
                Kind::Bytes | Kind::SecretString | Kind::SecretBytes => {
                    plain!(rest.take(number));
                }
                Kind::Message => {
                    let raw = plain!(rest.take(number));
                    plain!(self.check(py, raw, field.inner, depth + 1, numbers)?);
                }
            }
        }
        Ok((seen & plan.required == plan.required).then_some(()))
    }

    /// Pass the fields of a checked message that have a role.
    pub fn visit<'a>(&'a self, data: &'a [u8], plan: usize, mut take: impl FnMut(Role, Value<'a>)) -> Option<()> {
        let plan = &self.plans[plan];
        let mut rest = Bytes(data);
        while !rest.0.is_empty() {
            let field = &plan.fields[rest.varint().and_then(|tag| plan.row(tag))?];
            let number = rest.varint()?;
            let value = match field.kind {
                Kind::Int64 | Kind::Int32 | Kind::Uint32 => Value::Number(field.kind.number(number)),
                Kind::Bool => Value::Flag(number != 0),
                Kind::Enum => Value::Name(&field.names.get(&number)?.json),
                Kind::String => Value::Text(rest.take(number)?),
                Kind::Bytes | Kind::SecretString | Kind::SecretBytes => {
                    rest.take(number)?;
                    Value::Other
                }
                Kind::Message => Value::Message(rest.take(number)?, field.inner),
            };
            if field.role != Role::Other {
                take(field.role, value);
            }
        }
        Some(())
    }

    /// Return ledger, entry and index in the batch (−1 if absent) of a checked message id.
    pub fn message_id(&self, data: &[u8], plan: usize) -> Option<MessageId> {
        let (mut ledger, mut entry, mut index) = (None, None, -1);
        self.visit(data, plan, |role, value| match (role, value) {
            (Role::LedgerId, Value::Number(number)) => ledger = Some(number),
            (Role::EntryId, Value::Number(number)) => entry = Some(number),
            (Role::BatchIndex, Value::Number(number)) => index = number,
            _ => {}
        })?;
        Some((ledger?, entry?, index))
    }

    /// Read a checked message as a dict of its fields in wire order.
    pub fn message<'py>(&self, py: Python<'py>, data: &[u8], plan: usize) -> Plain<Bound<'py, PyDict>> {
        let plan = &self.plans[plan];
        let out = PyDict::new(py);
        let mut rest = Bytes(data);
        let mut items: Option<(usize, Bound<'py, PyList>)> = None;
        while !rest.0.is_empty() {
            let row = plain!(rest.varint().and_then(|tag| plan.row(tag)));
            let field = &plan.fields[row];
            let number = plain!(rest.varint());
            let value: Bound<'py, PyAny> = match field.kind {
                Kind::Int64 => (number as i64).into_pyobject(py)?.into_any(),
                Kind::Int32 => (number as i32).into_pyobject(py)?.into_any(),
                Kind::Uint32 => (number as u32).into_pyobject(py)?.into_any(),
                Kind::Bool => (number != 0).into_pyobject(py)?.to_owned().into_any(),
                Kind::Enum => plain!(field.names.get(&number)).text.bind(py).clone().into_any(),
                Kind::String => plain!(self.text(py, plain!(rest.take(number)))).into_any(),
                Kind::Bytes => PyBytes::new(py, plain!(rest.take(number))).into_any(),
                Kind::SecretBytes if number == 0 => PyBytes::new(py, b"").into_any(),
                Kind::SecretString | Kind::SecretBytes => self.redacted(py, plain!(rest.take(number)))?,
                Kind::Message => plain!(self.message(py, plain!(rest.take(number)), field.inner)?).into_any(),
            };
            if !field.repeated {
                out.set_item(field.name.text.bind(py), value)?;
                continue;
            }
            match &items {
                Some((of_row, list)) if *of_row == row => list.append(value)?,
                _ => {
                    let list = PyList::new(py, [value])?;
                    out.set_item(field.name.text.bind(py), &list)?;
                    items = Some((row, list));
                }
            }
        }
        Ok(Some(out))
    }

    /// Write a checked message as a JSON object with its fields in wire order.
    pub fn write(&self, py: Python<'_>, data: &[u8], plan: usize, out: &mut Vec<u8>) -> Option<()> {
        let plan = &self.plans[plan];
        let mut rest = Bytes(data);
        let mut last = usize::MAX;
        if data.is_empty() {
            out.push(b'{');
        }
        while !rest.0.is_empty() {
            let row = rest.varint().and_then(|tag| plan.row(tag))?;
            let field = &plan.fields[row];
            let number = rest.varint()?;
            if row == last {
                out.pop(); // the end of the list
                out.push(b',');
            } else {
                field.opening[usize::from(last != usize::MAX)].append(out);
            }
            match field.kind {
                Kind::Int64 => json::number(number as i64, out),
                Kind::Int32 => json::number(i64::from(number as i32), out),
                Kind::Uint32 => json::number(i64::from(number as u32), out),
                Kind::Bool => json::boolean(number != 0, out),
                Kind::Enum => field.names.get(&number)?.padded.append(out),
                Kind::String => json::string_of(rest.take(number)?, out)?,
                Kind::Bytes => json::bytes(rest.take(number)?, out),
                Kind::Message => self.write(py, rest.take(number)?, field.inner, out)?,
                Kind::SecretString | Kind::SecretBytes => {
                    json::string(&self.redacted(py, rest.take(number)?).ok()?.extract::<String>().ok()?, out);
                }
            }
            if field.repeated {
                out.push(b']');
            }
            last = row;
        }
        out.push(b'}');
        Some(())
    }

    /// Return the replacement shown for a credential.
    fn redacted<'py>(&self, py: Python<'py>, raw: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.redacted.bind(py).call1((PyBytes::new(py, raw),))
    }

    /// Return a text; short ones are cached, since neighbouring frames share most of them.
    pub fn text<'py>(&self, py: Python<'py>, raw: &[u8]) -> Option<Bound<'py, PyString>> {
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

    /// Return the name of a property, unless it is that of a credential, which only the reference masks.
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
}
