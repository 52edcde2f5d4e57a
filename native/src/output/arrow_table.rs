//! Rows of one kind as the columns of a table.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::HashMap;
use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyType};

use crate::caught;
use crate::frames::row_order::{Of, OrderedRows};
use crate::frames::{Entry, Frames};
use crate::output::arrow_columns::{ArrowColumn, Buffers};
use crate::output::frame_cells::{EXCHANGE_COLUMNS, FRAME_COLUMNS};
use crate::output::message_cells::EntryCells;

/// The part of the frames in columns that belongs to a table.
#[derive(Clone, Copy, PartialEq)]
enum OfFrames {
    Frames,
    Exchanges,
    Messages,
    Nothing,
}

/// Rows of one kind, gathered until they are taken as the columns of a table.
#[pyclass(module = "pulsarscope_native")]
pub struct ArrowTable {
    kind: String,
    names: Vec<(Py<PyString>, String)>,
    /// Returns the texts of JSON values.
    json: Py<PyAny>,
    /// Type that stands for the messages of an entry.
    entries: Py<PyType>,
    columns: Vec<ArrowColumn>,
    count: usize,
}

#[pymethods]
impl ArrowTable {
    /// `names`: names and types of the columns; `json`: function that returns the texts of JSON values; `entries`: type that stands for the
    /// messages of an entry.
    #[new]
    fn new(kind: String, names: Vec<(Py<PyString>, String)>, json: Py<PyAny>, entries: Py<PyType>) -> PyResult<Self> {
        let columns = names.iter().map(|(_, kind)| ArrowColumn::new(kind)).collect::<PyResult<Vec<_>>>()?;
        Ok(ArrowTable { kind, names, json, entries, columns, count: 0 })
    }

    /// Append those of some ordered rows that are of this kind, and return the number of rows and of bytes so far.
    ///
    /// `cells`: the cells of the Python rows of this kind in each column, without messages of entries.
    fn append(&mut self, py: Python<'_>, rows: &OrderedRows, cells: Vec<Bound<'_, PyList>>) -> PyResult<(usize, usize)> {
        let appended = caught(|| Appending::new(py, self, rows, cells)?.append(py, rows));
        if let Err(error) = appended {
            self.clear(); // the columns may have different lengths
            return Err(error);
        }
        Ok((self.count, self.columns.iter().map(ArrowColumn::size).sum()))
    }

    /// Return the number of rows and the columns (`arrow_columns::Buffers`), and begin anew.
    fn take(&mut self) -> (usize, Vec<Buffers>) {
        let taken = (self.count, self.columns.iter_mut().map(ArrowColumn::take).collect());
        self.count = 0;
        taken
    }
}

impl ArrowTable {
    fn clear(&mut self) {
        self.count = 0;
        self.columns.iter_mut().for_each(ArrowColumn::clear);
    }
}

/// Consecutive messages of an entry, given by its batch of frames and its number; and the entries so far.
#[derive(Default)]
struct Messages<'py> {
    of: (u32, u32),
    range: Range<usize>,
    entries: HashMap<(u32, u32), EntryCells<'py>>,
}

/// What is needed while rows are appended to a table.
struct Appending<'a, 'py> {
    kind: &'a str,
    of_frames: OfFrames,
    names: Vec<(Bound<'py, PyString>, String)>,
    columns: &'a mut [ArrowColumn],
    count: &'a mut usize,
    /// Cells of Python rows, by column, and the number of cells taken.
    cells: Vec<Bound<'py, PyList>>,
    taken: usize,
    json: Bound<'py, PyAny>,
    entries: Bound<'py, PyType>,
    /// Types of rows, and whether they are of this kind.
    types: Vec<(Bound<'py, PyType>, bool)>,
}

impl<'a, 'py> Appending<'a, 'py> {
    fn new(py: Python<'py>, table: &'a mut ArrowTable, rows: &OrderedRows, cells: Vec<Bound<'py, PyList>>) -> PyResult<Self> {
        if cells.len() != table.names.len() {
            return Err(PyValueError::new_err("there are not as many columns of cells as names"));
        }
        let of_frames = match table.kind.as_str() {
            "frame" if !rows.frameless => OfFrames::Frames,
            "exchange" if rows.exchanges => OfFrames::Exchanges,
            "message" => OfFrames::Messages,
            _ => OfFrames::Nothing,
        };
        let names = table.names.iter().map(|(name, kind)| (name.bind(py).clone(), kind.clone())).collect();
        let (json, entries) = (table.json.bind(py).clone(), table.entries.bind(py).clone());
        let ArrowTable { kind, columns, count, .. } = table;
        columns.iter_mut().for_each(ArrowColumn::begin);
        Ok(Appending { kind, of_frames, names, columns, count, cells, taken: 0, json, entries, types: Vec::new() })
    }

    fn append(mut self, py: Python<'py>, rows: &OrderedRows) -> PyResult<()> {
        let batches = rows.borrowed(py)?;
        if matches!(self.of_frames, OfFrames::Frames | OfFrames::Exchanges) && !batches.is_empty() {
            self.check()?;
        }
        let mut messages = Messages::default();
        for (_, of) in &rows.order {
            match of {
                Of::Row(index) => {
                    self.messages(py, &batches, &mut messages)?;
                    self.row(rows.rows[*index as usize].bind(py))?;
                }
                Of::Messages(batch, number) if self.of_frames == OfFrames::Messages => {
                    let behind = &batches[*batch as usize].opened.behind[*number as usize];
                    let next = behind.start as usize..behind.stop as usize;
                    if messages.of != (*batch, behind.entry) || messages.range.end != next.start {
                        self.messages(py, &batches, &mut messages)?;
                        (messages.of, messages.range) = ((*batch, behind.entry), next.start..next.start);
                    }
                    messages.range.end = next.end;
                }
                Of::Messages(..) => {}
                Of::Frame(batch, index) => {
                    let frames = &batches[*batch as usize];
                    let Entry::Frame(frame) = &frames.entries[*index as usize] else { continue };
                    let tables = &frames.reader.bind(py).get().tables;
                    match self.of_frames {
                        OfFrames::Frames => {
                            frames.append_cells(py, tables, frame, self.columns)?;
                            *self.count += 1;
                        }
                        OfFrames::Exchanges => *self.count += usize::from(frames.append_exchange(py, tables, frame, self.columns)?),
                        OfFrames::Messages | OfFrames::Nothing => {}
                    }
                }
            }
        }
        self.messages(py, &batches, &mut messages)
    }

    /// Append consecutive messages of an entry.
    fn messages(&mut self, py: Python<'py>, batches: &[PyRef<'_, Frames>], messages: &mut Messages<'py>) -> PyResult<()> {
        let range = std::mem::take(&mut messages.range);
        if range.is_empty() {
            return Ok(());
        }
        let (batch, number) = messages.of;
        let Some(Some(entry)) = batches[batch as usize].opened.entries.get(number as usize) else { return Ok(()) };
        let cells = match messages.entries.entry(messages.of) {
            MapEntry::Occupied(known) => known.into_mut(),
            MapEntry::Vacant(vacant) => {
                let own = entry.columns.as_ref().map(|columns| columns.bind(py));
                vacant.insert(EntryCells::of(&self.names, entry.shared.bind(py), own, &self.json)?)
            }
        };
        *self.count += range.len();
        cells.append(range, self.columns)
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
        *self.count += count;
        entry.append(0..count, self.columns)
    }

    fn next_cells(&mut self) -> PyResult<()> {
        for (column, cells) in self.columns.iter_mut().zip(&self.cells) {
            column.object(&cells.get_item(self.taken)?)?;
        }
        self.taken += 1;
        *self.count += 1;
        Ok(())
    }
}
