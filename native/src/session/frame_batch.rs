//! Python's interface to frames in columns.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::capture::pieces::Places;
use crate::caught;
use crate::frames::bodies;
use crate::frames::{no_such_frame, Entry, Frames, Rows, Run};
use crate::messages::opened_messages::OpenedMessages;
use crate::schema::reader::Reader;
use crate::schema::tables::{Role, Value};
use crate::session::opening::Opening;
use crate::session::Known;

/// Arguments of `Frames.read`: bytes, the position of the first frame, the stream offset of the bytes, pieces and ends.
type Stream<'py> = (Bound<'py, PyBytes>, usize, i64, Bound<'py, PyAny>, Bound<'py, PyAny>);

#[pymethods]
impl Frames {
    #[new]
    pub fn new(reader: Py<Reader>) -> Self {
        Frames {
            reader,
            origins: Vec::new(),
            entries: Vec::new(),
            texts: Vec::new(),
            numbers: HashMap::new(),
            opened: OpenedMessages::default(),
            asked: Vec::new(),
            anchors: Vec::new(),
        }
    }

    fn __len__(&self) -> usize {
        self.entries.len()
    }

    /// Read plain frames up to one that is not plain, not whole or too large.
    ///
    /// `names`: source, file, connection, protocol, direction; `at`: floor of moments, size of the largest frame, packet and sub of the
    /// latest name. Returns the new position, packet and sub, and the exception that ended it.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        stream: Stream<'py>,
        names: [Bound<'py, PyAny>; 5],
        at: (i64, usize, i64, u32),
    ) -> PyResult<(usize, i64, u32, Option<PyErr>)> {
        let (data, position, base, pieces, ends) = stream;
        let (floor, largest, packet, sub) = at;
        let origin = self.add_named_origin(data.clone().unbind(), base, names)?;
        let mut run = Run::new((position, packet, sub), (origin, base, floor, largest), Places::of(&pieces, &ends));
        let reader = self.reader.bind(py).get();
        let error = caught(|| run.read(py, &reader.tables, data.as_bytes(), &mut self.entries)).err();
        Ok((run.position, run.packet, run.sub, error))
    }

    /// Read plain frames whose payload is not requested, up to one that is not plain, not whole or too large.
    ///
    /// `stream`: see `bodies::Stream`; `names`, `at`: see `read`. Returns the number of bytes of the frames, packet and sub of the latest
    /// name, the number of bytes needed to continue, 0 if they are present, and the joined bytes after the frames, None if there are none.
    fn read_heads<'py>(
        &mut self,
        stream: bodies::Stream<'py>,
        names: [Bound<'py, PyAny>; 5],
        at: (i64, usize, i64, u32),
    ) -> PyResult<Bound<'py, PyTuple>> {
        bodies::read_heads(self, stream, names, at)
    }

    /// Append the row of a frame that Python has read.
    #[pyo3(signature = (row, moment, attachment))]
    fn append(&mut self, row: Py<PyAny>, moment: i64, attachment: Option<Py<PyAny>>) {
        self.entries.push(Entry::Rows(Box::new(Rows { moment, rows: vec![row], attachment })));
    }

    /// Order the frames by moment; the first `last` come after all others of their moment.
    fn sort(&mut self, last: usize) {
        let last = last.min(self.entries.len());
        self.entries.rotate_left(last);
        self.entries.sort_by_key(Entry::moment);
    }

    /// Return the rows, moments and attachments of `FrameBatch` for the frames at some places; with payloads and whole frames, if
    /// requested.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
        payload: bool,
        raw: bool,
    ) -> PyResult<(Bound<'py, PyList>, Vec<i64>, Bound<'py, PyDict>)> {
        let entries = self.entries.get(start..stop).ok_or_else(no_such_frame)?;
        let attachments = PyDict::new(py);
        let mut rows = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            match entry {
                Entry::Frame(frame) => {
                    rows.push(self.row(py, frame)?);
                    if let Some(attachment) = self.attachment(py, frame, payload, raw)? {
                        attachments.set_item(index, attachment)?;
                    }
                }
                Entry::Rows(of_python) => {
                    rows.extend(of_python.rows.iter().map(|row| row.bind(py).clone()));
                    if let Some(attachment) = &of_python.attachment {
                        attachments.set_item(index, attachment)?;
                    }
                }
            }
        }
        Ok((PyList::new(py, rows)?, entries.iter().map(Entry::moment).collect(), attachments))
    }

    /// Replace frames from a place on by rows: each by its own row, if it is included, and the rows that follow it. Returns the place after
    /// them.
    fn replace(&mut self, place: usize, of_frames: Vec<Py<PyAny>>, rows: Vec<Py<PyAny>>) -> PyResult<usize> {
        let stop = place + of_frames.len();
        let entries = self.entries.get_mut(place..stop).ok_or_else(no_such_frame)?;
        for entry in entries.iter_mut() {
            *entry = Entry::Rows(Box::new(Rows { moment: entry.moment(), rows: Vec::new(), attachment: None }));
        }
        let mut at = 0;
        for row in rows {
            if let Some(ahead) = of_frames[at..].iter().position(|of_frame| of_frame.is(&row)) {
                at += ahead;
            }
            if let Some(Entry::Rows(of_python)) = entries.get_mut(at) {
                of_python.rows.push(row);
            }
        }
        Ok(stop)
    }

    /// Name and pair the frames from a place on, up to one that Python must handle.
    ///
    /// `known`: state of the session; `room`: SENDs that may begin to wait. Returns the place of that frame, or the length if there is
    /// none, and the increase in waiting SENDs. `gives_opener`: returns an `opener::Opener`, if payloads are opened; frames that cause
    /// findings are left to Python.
    fn observe<'py>(
        &mut self,
        py: Python<'py>,
        place: usize,
        known: Known<'py>,
        room: i64,
        gives_opener: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(usize, i64)> {
        crate::session::observe(py, self, place, known, room, gives_opener)
    }

    /// Open the batches of frames in a range of places, up to one that Python must handle, or until more messages, or bytes of payload,
    /// were opened than `bounds` allow. `known`, `room`: see `observe`; `opening`: see `opening::Opening`. Returns the same as `observe`.
    fn open<'py>(
        &mut self,
        py: Python<'py>,
        range: (usize, usize),
        known: Known<'py>,
        room: i64,
        opening: Opening<'py>,
        bounds: (i64, usize),
    ) -> PyResult<(usize, i64)> {
        crate::session::opening::open(py, self, range, known, room, &opening, bounds)
    }

    /// Return the rows of frames that Python has read.
    fn of_python<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        let rows = |entry: &Entry| match entry {
            Entry::Frame(_) => Vec::new(),
            Entry::Rows(of_python) => of_python.rows.iter().map(|row| row.bind(py).clone()).collect(),
        };
        self.entries.iter().flat_map(rows).collect()
    }

    /// Return the number of messages according to the metadata of the frames in columns, and the number of bytes to which they decompress.
    fn named_messages(&self, py: Python<'_>) -> (i64, i64) {
        let tables = &self.reader.bind(py).get().tables;
        let (mut messages, mut bytes) = (0i64, 0i64);
        for entry in &self.entries {
            let Entry::Frame(frame) = entry else { continue };
            let parts = frame.parts();
            let Some(range) = parts.metadata else { continue };
            messages = messages.saturating_add(parts.numbers.messages.unwrap_or(1).max(1));
            if parts.numbers.wrapped {
                let visited = tables.visit(self.slice(py, frame, range), tables.metadata, |role, value| {
                    if let (Role::UncompressedSize, Value::Number(number)) = (role, value) {
                        bytes = bytes.saturating_add(number.max(0));
                    }
                });
                debug_assert!(visited.is_some()); // the frame is plain
            }
        }
        (messages, bytes)
    }

    /// Return the moments of all frames.
    fn moments(&self) -> Vec<i64> {
        self.entries.iter().map(Entry::moment).collect()
    }

    /// Return the earliest moment of the frames; 0 if there are none.
    fn first_moment(&self) -> i64 {
        self.entries.iter().map(Entry::moment).min().unwrap_or_default()
    }
}
