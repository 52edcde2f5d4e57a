//! Lines of CSV, as written by `output.export.csv`.

use std::collections::HashMap;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::encoding::json::{self, Times};
use crate::frames::{Frame, Frames};
use crate::output::chosen_columns::CsvColumns;
use crate::schema::tables::Range;

/// Texts whose cells are cached.
const CELLS_MAX: usize = 4096;

/// A writer of frames; `cell` makes a cell of a text, or of None.
pub struct CsvLines<'a, 'py> {
    cell: &'a Bound<'py, PyAny>,
    cells: HashMap<String, Vec<u8>>,
    /// Source, connection, dissector and direction by batch and origin.
    names: HashMap<(u32, u32), [Vec<u8>; 4]>,
    times: Times,
    text: Vec<u8>,
    chosen: Option<CsvColumns>,
    pub out: Vec<u8>,
}

impl<'a, 'py> CsvLines<'a, 'py> {
    /// `places`: those of the chosen columns among all columns; None for all.
    pub fn new(cell: &'a Bound<'py, PyAny>, places: Option<Vec<usize>>) -> Self {
        let (cells, names, times) = Default::default();
        CsvLines { cell, cells, names, times, text: Vec::new(), chosen: places.map(CsvColumns::of), out: Vec::new() }
    }

    /// Append the line of a frame.
    pub fn append(&mut self, batch: u32, frames: &Frames, frame: &Frame) -> PyResult<()> {
        let start = self.out.len();
        self.append_all(batch, frames, frame)?;
        if let Some(chosen) = &mut self.chosen {
            chosen.reduce(&mut self.out, start);
        }
        Ok(())
    }

    /// Append the line of a frame with all columns.
    fn append_all(&mut self, batch: u32, frames: &Frames, frame: &Frame) -> PyResult<()> {
        let py = self.cell.py();
        let tables = &frames.reader.bind(py).get().tables;
        let key = (batch, frame.origin());
        if !self.names.contains_key(&key) {
            let [source, _, connection, dissector, direction] = frames.names(frame);
            let made = [
                self.made(source.bind(py))?,
                self.made(connection.bind(py))?,
                self.made(dissector.bind(py))?,
                self.made(direction.bind(py))?,
            ];
            self.names.insert(key, made);
        }
        let [source, connection, dissector, direction] = &self.names[&key];
        let out = &mut self.out;
        out.extend_from_slice(source);
        for value in [frames.file(frame), frame.packet, i64::from(frame.sub())] {
            out.push(b',');
            json::number(value, out);
        }
        out.push(b',');
        self.times.write_plain(frame.time, out);
        for name in [connection, dissector, direction] {
            out.push(b',');
            out.extend_from_slice(name);
        }
        for value in [frames.offset(frame), i64::from(frame.size())] {
            out.push(b',');
            json::number(value, out);
        }
        let command = frames.command(tables, frame)?;
        let parts = frame.parts();
        self.known(Some(command.name.text.bind(py).to_str()?))?;
        self.message(frames, frame, Some(parts.fields), command.plan)?;
        self.message(frames, frame, parts.entry, tables.entry_metadata)?;
        let payload = parts.payload_at > 0;
        if payload {
            let digits = json::hex(parts.checksum);
            self.out.extend_from_slice(b",good,");
            self.out.extend_from_slice(&digits);
            self.out.push(b',');
            self.out.extend_from_slice(&digits);
        } else {
            self.out.extend_from_slice(b",,,");
        }
        self.message(frames, frame, parts.metadata, tables.metadata)?;
        self.number(payload.then(|| i64::from(frame.size() - parts.payload_at)));
        let named = &frame.named;
        self.number(named.messages);
        for text in [frames.known(py, named.topic), frames.producer_name(py, frame), frames.known(py, named.subscription)] {
            self.known(text.as_ref().map(|text| text.to_str()).transpose()?)?;
        }
        self.out.push(b',');
        if let Some((file, packet, sub)) = named.request {
            for (value, behind) in [(file, ":"), (packet, "."), (sub, "")] {
                json::number(value, &mut self.out);
                self.out.extend_from_slice(behind.as_bytes());
            }
        }
        self.number(named.latency);
        self.out.extend_from_slice(b",ok,,,\r\n");
        Ok(())
    }

    fn made(&self, text: &Bound<'py, PyAny>) -> PyResult<Vec<u8>> {
        Ok(self.cell.call1((text,))?.cast::<PyBytes>()?.as_bytes().to_vec())
    }

    fn number(&mut self, value: Option<i64>) {
        self.out.push(b',');
        if let Some(value) = value {
            json::number(value, &mut self.out);
        }
    }

    fn known(&mut self, text: Option<&str>) -> PyResult<()> {
        self.out.push(b',');
        let Some(text) = text else { return Ok(()) };
        if let Some(cell) = self.cells.get(text) {
            self.out.extend_from_slice(cell);
            return Ok(());
        }
        let cell = self.cell.call1((text,))?.cast::<PyBytes>()?.as_bytes().to_vec();
        self.out.extend_from_slice(&cell);
        if self.cells.len() >= CELLS_MAX {
            self.cells.clear();
        }
        self.cells.insert(text.to_owned(), cell);
        Ok(())
    }

    /// Append the JSON of a message, in quotes if it contains quotes.
    fn message(&mut self, frames: &Frames, frame: &Frame, range: Option<Range>, plan: usize) -> PyResult<()> {
        self.out.push(b',');
        let Some(range) = range else { return Ok(()) };
        let py = self.cell.py();
        let tables = &frames.reader.bind(py).get().tables;
        self.text.clear();
        tables
            .write(py, frames.slice(py, frame, range), plan, &mut self.text)
            .ok_or_else(|| PyRuntimeError::new_err("a frame that was checked is not plain any more"))?;
        if !self.text.contains(&b'"') {
            self.out.extend_from_slice(&self.text); // an object without fields
            return Ok(());
        }
        self.out.push(b'"');
        for byte in &self.text {
            if *byte == b'"' {
                self.out.push(b'"');
            }
            self.out.push(*byte);
        }
        self.out.push(b'"');
        Ok(())
    }
}
