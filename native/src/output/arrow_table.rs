//! Rows of one kind as the columns of a table.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyType};

use crate::frames::row_order::{Of, OrderedRows};
use crate::frames::Entry;
use crate::output::arrow_columns::{ArrowColumn, Buffers};
use crate::output::frame_cells::{EXCHANGE_COLUMNS, FRAME_COLUMNS};
use crate::output::message_cells::EntryCells;

/// Maximum number of rows of a table for which room is allocated at once.
const ROOM_MAX: usize = 4096;

/// The part of the frames in columns that belongs to a table.
#[derive(Clone, Copy, PartialEq)]
enum OfFrames {
    Frames,
    Exchanges,
    Messages,
    Nothing,
}

/// A table in the making: its columns by names and types.
pub struct Table<'py> {
    kind: String,
    of_frames: OfFrames,
    names: Vec<(Bound<'py, PyString>, String)>,
    columns: Vec<ArrowColumn>,
    count: usize,
    /// Cells of Python rows, by column, and the number of cells taken.
    cells: Vec<Bound<'py, PyList>>,
    taken: usize,
    /// Returns the texts of JSON values.
    json: Bound<'py, PyAny>,
    /// Type that stands for the messages of an entry.
    entries: Bound<'py, PyType>,
    /// Types of rows, and whether they are of this kind.
    types: Vec<(Bound<'py, PyType>, bool)>,
}

/// See `OrderedRows.table`.
pub type Given<'py> = (String, Vec<(Bound<'py, PyString>, String)>, Vec<Bound<'py, PyList>>, Bound<'py, PyAny>, Bound<'py, PyType>);

impl<'py> Table<'py> {
    pub fn new(given: Given<'py>, frames: bool, exchanges: bool, rows: usize) -> PyResult<Self> {
        let (kind, names, cells, json, entries) = given;
        if cells.len() != names.len() {
            return Err(PyValueError::new_err("there are not as many columns of cells as names"));
        }
        let of_frames = match kind.as_str() {
            "frame" if frames => OfFrames::Frames,
            "exchange" if exchanges => OfFrames::Exchanges,
            "message" => OfFrames::Messages,
            _ => OfFrames::Nothing,
        };
        let room = if of_frames == OfFrames::Nothing { 0 } else { rows.min(ROOM_MAX) };
        let columns = names.iter().map(|(_, kind)| ArrowColumn::new(kind, room)).collect::<PyResult<Vec<_>>>()?;
        Ok(Table { kind, of_frames, names, columns, count: 0, cells, taken: 0, json, entries, types: Vec::new() })
    }

    /// Append those of the rows that are of this kind.
    pub fn append(&mut self, py: Python<'py>, rows: &OrderedRows) -> PyResult<()> {
        let batches = rows.borrowed(py)?;
        if matches!(self.of_frames, OfFrames::Frames | OfFrames::Exchanges) && !batches.is_empty() {
            self.check()?;
        }
        let mut entries = HashMap::new();
        for (_, of) in &rows.order {
            match of {
                Of::Row(index) => self.row(rows.rows[*index as usize].bind(py))?,
                Of::Messages(batch, number) if self.of_frames == OfFrames::Messages => {
                    let opened = &batches[*batch as usize].opened;
                    let behind = &opened.behind[*number as usize];
                    let Some(entry) = opened.entry(behind) else { continue };
                    let cells = match entries.entry((*batch, behind.entry)) {
                        MapEntry::Occupied(known) => known.into_mut(),
                        MapEntry::Vacant(vacant) => {
                            let own = entry.columns.as_ref().map(|columns| columns.bind(py));
                            vacant.insert(EntryCells::of(&self.names, entry.shared.bind(py), own, &self.json)?)
                        }
                    };
                    for index in behind.start..behind.stop {
                        cells.append(index as usize, &mut self.columns)?;
                    }
                    self.count += behind.count();
                }
                Of::Messages(..) => {}
                Of::Frame(batch, index) => {
                    let frames = &batches[*batch as usize];
                    let Entry::Frame(frame) = &frames.entries[*index as usize] else { continue };
                    let tables = &frames.reader.bind(py).get().tables;
                    match self.of_frames {
                        OfFrames::Frames => {
                            frames.append_cells(py, tables, frame, &mut self.columns)?;
                            self.count += 1;
                        }
                        OfFrames::Exchanges => self.count += usize::from(frames.append_exchange(py, tables, frame, &mut self.columns)?),
                        OfFrames::Messages | OfFrames::Nothing => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> PyResult<()> {
        let known: &[&str] = if self.of_frames == OfFrames::Frames { &FRAME_COLUMNS } else { &EXCHANGE_COLUMNS };
        let mut names = self.names.iter().map(|(name, _)| name.to_str());
        let same = known.iter().all(|known| matches!(names.next(), Some(Ok(name)) if name == *known));
        if same && names.next().is_none() {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("a {} has other columns", self.kind)))
    }

    /// Append a Python row, or the messages of an entry, if they are of this kind.
    fn row(&mut self, row: &Bound<'py, PyAny>) -> PyResult<()> {
        let made = row.get_type();
        let is_ours = match self.types.iter().find(|(known, _)| known.is(&made)) {
            Some((_, is_ours)) => *is_ours,
            None => {
                let kind = made.getattr_opt(intern!(row.py(), "kind"))?;
                let is_ours = kind.is_some_and(|kind| kind.extract::<String>().is_ok_and(|kind| kind == self.kind));
                self.types.push((made.clone(), is_ours));
                is_ours
            }
        };
        if !is_ours {
            return Ok(());
        }
        if !made.is(&self.entries) {
            return self.next_cells();
        }
        let py = row.py();
        let own = row.getattr(intern!(py, "columns"))?.cast_into::<PyDict>()?;
        let entry = EntryCells::of(&self.names, &row.getattr(intern!(py, "shared"))?, Some(&own), &self.json)?;
        let count: usize = row.getattr(intern!(py, "count"))?.extract()?;
        for index in 0..count {
            entry.append(index, &mut self.columns)?;
        }
        self.count += count;
        Ok(())
    }

    fn next_cells(&mut self) -> PyResult<()> {
        for (column, cells) in self.columns.iter_mut().zip(&self.cells) {
            column.object(&cells.get_item(self.taken)?)?;
        }
        self.taken += 1;
        self.count += 1;
        Ok(())
    }

    /// Append the Python rows after all others, and return the number of rows, and the buffers of the columns.
    pub fn finish(mut self, py: Python<'py>) -> PyResult<(usize, Vec<Buffers<'py>>)> {
        while self.cells.first().is_some_and(|cells| self.taken < cells.len()) {
            self.next_cells()?;
        }
        Ok((self.count, self.columns.iter().map(|column| column.buffers(py)).collect()))
    }
}
