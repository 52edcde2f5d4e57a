//! Frames of a connection in columns, in the order in which they became readable.

pub(crate) mod bodies;
pub(crate) mod chosen_frames;
pub(crate) mod places;
pub(crate) mod row_order;

use std::collections::HashMap;
use std::sync::OnceLock;

use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::capture::pieces::{Place, Places};
use crate::encoding::json;
use crate::encoding::padded::Padded;
use crate::encoding::wire::Bytes;
use crate::messages::opened_messages::OpenedMessages;
use crate::schema::named::{Named, Sent};
use crate::schema::reader::Reader;
use crate::schema::tables::{Command, Parts, Range, Tables, Text};

/// A frame: its name, its parts as ranges of a buffer from its start on, and what the session knows about it.
#[derive(Clone)]
pub struct Frame {
    origin: u32,
    /// Position in the stream, from the base of the origin on, and the beginning of the bytes that are kept of the frame.
    start: u32,
    head: u32,
    size: u32,
    sub: u32,
    pub packet: i64,
    pub time: i64,
    pub moment: i64,
    parts: Parts,
    pub named: Named,
}

/// A frame in columns, or Python rows in its place: the row of another frame, and the rows after it.
#[allow(clippy::large_enum_variant)] // nearly all are frames
pub enum Entry {
    Frame(Frame),
    Rows(Box<Rows>),
}

pub struct Rows {
    pub moment: i64,
    pub rows: Vec<Py<PyAny>>,
    pub attachment: Option<Py<PyAny>>,
}

impl Entry {
    pub fn moment(&self) -> i64 {
        match self {
            Entry::Frame(frame) => frame.moment,
            Entry::Rows(rows) => rows.moment,
        }
    }
}

/// A request that a frame answers, other than a SEND: its command, request id, and numbers of the texts of its names.
#[derive(Default)]
pub struct Asked {
    pub command: u8,
    pub id: Option<i64>,
    pub topic: u32,
    pub producer: u32,
    pub subscription: u32,
}

/// Bytes of frames, and the values that their rows share.
pub struct Origin {
    data: Py<PyBytes>,
    pub base: i64,
    pub file: i64,
    client: bool,
    pub names: [Py<PyAny>; 5],
    pub json: OnceLock<(Padded, Padded)>,
    pub of_exchanges: OnceLock<(Padded, Padded)>,
}

/// Frames of one connection, or of several short ones: columns for the rows of `dissect.contract.frames.FrameBatch`.
#[pyclass(module = "pulsarscope_native")]
pub struct Frames {
    pub reader: Py<Reader>,
    pub origins: Vec<Origin>,
    pub entries: Vec<Entry>,
    pub texts: Vec<Text>,
    /// Numbers of the texts by their addresses, which no other object has as long as the texts are here.
    pub numbers: HashMap<usize, u32>,
    pub opened: OpenedMessages,
    pub asked: Vec<Asked>,
    /// Rows of anchors in order, each with the place of the frame that it follows; `OrderedRows.add` takes them.
    pub anchors: Vec<(usize, Py<PyAny>)>,
}

/// Consecutive frames of a stream.
pub struct Run<'py> {
    pub position: usize,
    pub packet: i64,
    pub sub: u32,
    origin: u32,
    base: i64,
    floor: i64,
    pub largest: usize,
    /// Whether frames of any command in the tables are read, not only those of the data path.
    pub any: bool,
    places: Places<'py>,
    /// Index and place of the piece with the end of the latest frame.
    latest: (usize, Place),
}

impl<'py> Run<'py> {
    /// `at`: position of the first frame, packet and sub of the latest name; `of`: origin, stream offset of the bytes, floor of moments,
    /// size of the largest frame.
    pub fn new(at: (usize, i64, u32), of: (u32, i64, i64, usize), places: Places<'py>) -> Self {
        let ((position, packet, sub), (origin, base, floor, largest)) = (at, of);
        let latest = (0, Place { end: i64::MIN, packet, time: 0, moment: 0 });
        Run { position, packet, sub, origin, base, floor, largest, any: false, places, latest }
    }

    pub fn read(&mut self, py: Python<'_>, tables: &Tables, data: &[u8], entries: &mut Vec<Entry>) -> PyResult<()> {
        while let Some(size) = data.get(self.position..).and_then(|rest| Bytes(rest).u32()) {
            let size = size as usize + 4;
            if size > self.largest {
                break;
            }
            let Some(bytes) = data.get(self.position..self.position + size) else { break };
            let Some(parts) = tables.parts(py, bytes, self.any)? else { break };
            self.take(size, self.position, parts, entries)?;
        }
        Ok(())
    }

    /// Take the next frame, whose kept bytes begin at `head`.
    #[inline]
    pub fn take(&mut self, size: usize, head: usize, parts: Parts, entries: &mut Vec<Entry>) -> PyResult<()> {
        let stop = self.base + (self.position + size) as i64;
        if stop > self.latest.1.end {
            self.latest = self.places.find(self.latest.0, stop)?;
            if self.latest.1.packet != self.packet {
                self.packet = self.latest.1.packet;
                self.sub = 0;
            }
        }
        self.sub += 1;
        let Place { time, moment, .. } = self.latest.1;
        entries.push(Entry::Frame(Frame {
            origin: self.origin,
            start: self.position as u32,
            head: head as u32,
            size: size as u32,
            sub: self.sub,
            packet: self.packet,
            time,
            moment: moment.max(self.floor),
            parts,
            named: Named::default(),
        }));
        self.position += size;
        Ok(())
    }
}

impl Frames {
    /// Add bytes of frames with the values that their rows share; return the number of the origin.
    pub fn add_origin(&mut self, data: Py<PyBytes>, base: i64, file: i64, client: bool, names: [Py<PyAny>; 5]) -> u32 {
        self.origins.push(Origin { data, base, file, client, names, json: OnceLock::new(), of_exchanges: OnceLock::new() });
        self.origins.len() as u32 - 1
    }

    /// Add bytes of frames of a stream; `names`: source, file, connection, protocol, direction.
    pub fn add_named_origin(&mut self, data: Py<PyBytes>, base: i64, names: [Bound<'_, PyAny>; 5]) -> PyResult<u32> {
        let client = names[4].extract::<&str>().is_ok_and(|direction| direction == "client");
        let file = names[1].extract()?;
        Ok(self.add_origin(data, base, file, client, names.map(Bound::unbind)))
    }

    /// Return a range of the bytes that are kept of a frame.
    pub fn slice<'py>(&'py self, py: Python<'py>, frame: &Frame, range: Range) -> &'py [u8] {
        &self.bytes(py, frame)[range.0 as usize..range.1 as usize]
    }

    /// Return the kept bytes from the beginning of a frame on.
    pub fn bytes<'py>(&'py self, py: Python<'py>, frame: &Frame) -> &'py [u8] {
        &self.origins[frame.origin as usize].data.as_bytes(py)[frame.head as usize..]
    }

    pub fn command<'a>(&self, tables: &'a Tables, frame: &Frame) -> PyResult<&'a Command> {
        tables.command(frame.parts.command).ok_or_else(|| PyRuntimeError::new_err("a command without a table"))
    }

    /// Return the fields of the command.
    pub fn fields<'py>(&self, py: Python<'py>, tables: &Tables, frame: &Frame) -> PyResult<Bound<'py, PyDict>> {
        tables.message(py, self.slice(py, frame, frame.parts.fields), self.command(tables, frame)?.plan)?.ok_or_else(changed)
    }

    /// Return a frame in the form in which it waits for its answer.
    pub fn sent(&self, frame: &Frame) -> Sent {
        let sequence = frame.parts.numbers.sequence;
        Sent { file: self.file(frame), packet: frame.packet, sub: i64::from(frame.sub), time: frame.time, sequence }
    }

    /// Return true for an ACK or FLOW of a client with nothing but the usual fields.
    pub fn is_plain_answer(&self, frame: &Frame) -> bool {
        let numbers = &frame.parts.numbers;
        self.is_client(frame) && !numbers.ack_set && !numbers.has_request
    }

    pub fn is_client(&self, frame: &Frame) -> bool {
        self.origins[frame.origin as usize].client
    }

    /// Return source, file, connection, protocol and direction.
    pub fn names(&self, frame: &Frame) -> &[Py<PyAny>; 5] {
        &self.origins[frame.origin as usize].names
    }

    /// Return an identifier of the frame's connection: the address of its name, of which an origin may have a copy.
    pub fn connection(&self, frame: &Frame) -> usize {
        self.names(frame)[2].as_ptr() as usize
    }

    /// Return the position of the first byte of a frame in its stream.
    pub fn offset(&self, frame: &Frame) -> i64 {
        self.origins[frame.origin as usize].base + i64::from(frame.start)
    }

    pub fn file(&self, frame: &Frame) -> i64 {
        self.origins[frame.origin as usize].file
    }

    pub fn row<'py>(&self, py: Python<'py>, frame: &Frame) -> PyResult<Bound<'py, PyAny>> {
        let reader = self.reader.bind(py).get();
        let tables = &reader.tables;
        let command = self.command(tables, frame)?;
        let parts = &frame.parts;
        let none = || py.None().into_bound(py);
        let message = |range: Range, plan| tables.message(py, self.slice(py, frame, range), plan)?.ok_or_else(changed);
        let optional = |range: Option<Range>, plan| range.map_or(Ok(none()), |range| Ok::<_, PyErr>(message(range, plan)?.into_any()));
        let checksum = if parts.payload_at == 0 {
            none()
        } else {
            let text = PyString::new(py, &format!("{:08x}", parts.checksum));
            reader.checksum.bind(py).call1((reader.good.bind(py), &text, &text))?
        };
        let payload_size = if parts.payload_at == 0 { none() } else { (frame.size - parts.payload_at).into_pyobject(py)?.into_any() };
        let origin = &self.origins[frame.origin as usize];
        let [source, file, connection, protocol, direction] = &origin.names;
        let row = PyTuple::new(
            py,
            [
                source.bind(py).clone(),
                file.bind(py).clone(),
                frame.packet.into_pyobject(py)?.into_any(),
                frame.sub.into_pyobject(py)?.into_any(),
                frame.time.into_pyobject(py)?.into_any(),
                connection.bind(py).clone(),
                protocol.bind(py).clone(),
                direction.bind(py).clone(),
                (origin.base + i64::from(frame.start)).into_pyobject(py)?.into_any(),
                frame.size.into_pyobject(py)?.into_any(),
                command.name.text.bind(py).clone().into_any(),
                message(parts.fields, command.plan)?.into_any(),
                optional(parts.entry, tables.entry_metadata)?,
                checksum,
                optional(parts.metadata, tables.metadata)?,
                payload_size,
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
                reader.ok.bind(py).clone().into_any(),
            ],
        )?;
        reader.row.bind(py).call1(row)
    }

    /// Return the row of a frame with what the session knows about it.
    pub fn named_row<'py>(&self, py: Python<'py>, frame: &Frame) -> PyResult<Bound<'py, PyAny>> {
        let row = self.row(py, frame)?;
        let named = &frame.named;
        row.setattr(intern!(py, "num_messages"), named.messages)?;
        row.setattr(intern!(py, "topic"), self.known(py, named.topic))?;
        row.setattr(intern!(py, "producer_name"), self.producer_name(py, frame))?;
        row.setattr(intern!(py, "subscription"), self.known(py, named.subscription))?;
        row.setattr(intern!(py, "request"), named.request.map(|(file, packet, sub)| format!("{file}:{packet}.{sub}")))?;
        row.setattr(intern!(py, "latency_ns"), named.latency)?;
        Ok(row)
    }

    /// Return the name of the producer: that of the metadata, or of the session.
    pub fn producer_name<'py>(&self, py: Python<'py>, frame: &Frame) -> Option<Bound<'py, PyString>> {
        match frame.parts.numbers.name {
            Some(range) => self.reader.bind(py).get().tables.text(py, self.slice(py, frame, range)),
            None => self.known(py, frame.named.producer),
        }
    }

    /// Return the row of the exchange that a frame ends; None for other frames.
    pub fn exchange<'py>(&self, py: Python<'py>, frame: &Frame) -> PyResult<Option<Bound<'py, PyAny>>> {
        let named = &frame.named;
        let (Some((file, packet, sub)), Some(latency)) = (named.request, named.latency) else { return Ok(None) };
        let reader = self.reader.bind(py).get();
        let [source, of_file, connection, protocol, _] = &self.origins[frame.origin as usize].names;
        let asked = self.asked_by(frame);
        let row = reader.exchange.bind(py).call1((
            source.bind(py),
            file,
            packet,
            sub,
            frame.time - latency,
            connection.bind(py),
            protocol.bind(py),
            self.request_name(py, frame)?.text.bind(py),
            self.command(&reader.tables, frame)?.name.text.bind(py),
            self.request_key(frame),
            self.known(py, asked.topic),
            self.known(py, asked.producer),
        ))?;
        if asked.subscription > 0 {
            row.setattr(intern!(py, "subscription"), self.known(py, asked.subscription))?;
        }
        row.setattr(intern!(py, "response_file"), of_file.bind(py))?;
        row.setattr(intern!(py, "response_packet"), frame.packet)?;
        row.setattr(intern!(py, "response_sub"), frame.sub)?;
        row.setattr(intern!(py, "latency_ns"), latency)?;
        row.setattr(intern!(py, "status"), &reader.ok)?;
        Ok(Some(row))
    }

    /// Add a request that the next frame answers; return its number.
    pub fn ask(&mut self, asked: Asked) -> u32 {
        self.asked.push(asked);
        self.asked.len() as u32
    }

    /// Return the request that a frame answers; a receipt has the names of its SEND.
    pub fn asked_by(&self, frame: &Frame) -> Asked {
        let Named { asked, topic, producer, .. } = frame.named;
        match asked.checked_sub(1).and_then(|place| self.asked.get(place as usize)) {
            Some(asked) => Asked { ..*asked },
            None => Asked { topic, producer, ..Asked::default() },
        }
    }

    /// Return the name of the request that a frame answers.
    pub fn request_name<'a>(&'a self, py: Python<'a>, frame: &Frame) -> PyResult<&'a Text> {
        let tables = &self.reader.bind(py).get().tables;
        match frame.named.asked {
            0 => Ok(&tables.send),
            _ => Ok(&tables.command(self.asked_by(frame).command).ok_or_else(changed)?.name),
        }
    }

    /// Return the key of the exchange that a frame ends.
    pub fn request_key(&self, frame: &Frame) -> Option<String> {
        let mut key = Vec::new();
        self.append_request_key(frame, &mut key).then(|| String::from_utf8_lossy(&key).into_owned())
    }

    /// Append the key of the request that a frame answers; return false if it has none.
    pub fn append_request_key(&self, frame: &Frame, out: &mut Vec<u8>) -> bool {
        if frame.named.asked == 0 {
            json::number(frame.parts.numbers.id, out);
            out.push(b':');
            json::number(frame.parts.numbers.sequence, out);
            return true;
        }
        let id = self.asked_by(frame).id;
        id.into_iter().for_each(|id| json::number(id, out));
        id.is_some()
    }

    /// Return the text with this number.
    pub fn known<'py>(&self, py: Python<'py>, number: u32) -> Option<Bound<'py, PyString>> {
        number.checked_sub(1).and_then(|place| self.texts.get(place as usize)).map(|text| text.text.bind(py).clone())
    }

    pub fn attachment<'py>(&self, py: Python<'py>, frame: &Frame, payload: bool, raw: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let payload_at = frame.parts.payload_at;
        if !(raw || (payload && payload_at > 0)) {
            return Ok(None);
        }
        let bytes = |range| PyBytes::new(py, self.slice(py, frame, range));
        let payload = (payload && payload_at > 0).then(|| bytes((payload_at, frame.size)));
        let raw = raw.then(|| bytes((0, frame.size)));
        Ok(Some(self.reader.bind(py).get().attachment.bind(py).call1((py.None(), payload, raw))?))
    }
}

impl Frame {
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Whether an exchange row comes with the frame.
    pub fn ends_exchange(&self) -> bool {
        self.named.request.is_some() && self.named.latency.is_some()
    }

    pub fn sub(&self) -> u32 {
        self.sub
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    pub fn origin(&self) -> u32 {
        self.origin
    }
}

pub fn no_such_frame() -> PyErr {
    PyIndexError::new_err("no such frame")
}

pub fn changed() -> PyErr {
    PyRuntimeError::new_err("a frame that was checked is not plain any more")
}
