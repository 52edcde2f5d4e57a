//! Places of frames in their streams, for finding the packets that carried them.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::frames::{Frame, Frames};

/// Frames of one stream, with each number as eight bytes in native order.
pub struct FramePlaces {
    connection: Py<PyAny>,
    client: bool,
    ascending: bool,
    latest: i64,
    starts: Vec<u8>,
    ends: Vec<u8>,
    files: Vec<u8>,
    names: Vec<u8>,
    commands: Vec<u8>,
    /// Names of the commands, by their numbers.
    texts: BTreeMap<u8, Py<PyAny>>,
}

impl FramePlaces {
    /// Begin the stream of a frame, without it.
    pub fn of(py: Python<'_>, frames: &Frames, frame: &Frame) -> Self {
        let (starts, ends, files, names, commands) = Default::default();
        let (connection, client) = (frames.names(frame)[2].clone_ref(py), frames.is_client(frame));
        FramePlaces { connection, client, ascending: true, latest: i64::MIN, starts, ends, files, names, commands, texts: BTreeMap::new() }
    }

    /// Add a frame; `sub_bits` is the number of bits of its name for the position among the frames of its packet.
    pub fn add(&mut self, py: Python<'_>, frames: &Frames, frame: &Frame, sub_bits: u32) -> PyResult<()> {
        let start = frames.offset(frame);
        self.ascending &= start > self.latest;
        self.latest = start;
        self.starts.extend(start.to_ne_bytes());
        self.ends.extend((start + i64::from(frame.size())).to_ne_bytes());
        self.files.extend(frames.file(frame).to_ne_bytes());
        self.names.extend((frame.packet << sub_bits | i64::from(frame.sub())).to_ne_bytes());
        let number = frame.parts().command;
        self.commands.push(number);
        if let std::collections::btree_map::Entry::Vacant(place) = self.texts.entry(number) {
            let command = frames.command(&frames.reader.bind(py).get().tables, frame)?;
            place.insert(command.name.text.clone_ref(py).into_any());
        }
        Ok(())
    }

    /// Return connection, whether the client sent them, whether they are in stream order; starts, ends, files, names and numbers of
    /// commands as bytes; and the commands by these numbers.
    pub fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let bytes = |values: &[u8]| PyBytes::new(py, values);
        let commands = PyDict::new(py);
        for (number, text) in &self.texts {
            commands.set_item(number, text)?;
        }
        let numbers = (bytes(&self.starts), bytes(&self.ends), bytes(&self.files), bytes(&self.names));
        (self.connection.bind(py), self.client, self.ascending, numbers, bytes(&self.commands), commands).into_pyobject(py)
    }
}
