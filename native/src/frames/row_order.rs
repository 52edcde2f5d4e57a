//! Python rows and frames in columns, in one order.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::frames::{Entry, Frame, Frames};
use crate::schema::tables::Tables;

#[derive(Clone, Copy)]
pub enum Of {
    Frame(u32, u32),
    Row(u32),
    /// Messages after a frame, by their number in the batch.
    Messages(u32, u32),
}

/// Python rows and frames in columns, each with its order.
#[pyclass(module = "pulsarscope_native")]
#[derive(Default)]
pub struct OrderedRows {
    pub batches: Vec<Py<Frames>>,
    pub rows: Vec<Py<PyAny>>,
    pub order: Vec<(i64, Of)>,
    /// Names of connections, and the connection numbers of batches and rows.
    pub names: Names,
    pub of_batches: Vec<u32>,
    /// Connection number of each frame of a batch of several connections.
    pub of_frames: HashMap<u32, Arc<Vec<u32>>>,
    pub of_rows: Vec<u32>,
    /// Whether receipts also stand for exchange rows.
    pub exchanges: bool,
    /// Whether frames in columns have no rows of their own.
    pub frameless: bool,
}

/// Names, each with a number.
#[derive(Clone, Default)]
pub struct Names {
    pub names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

impl OrderedRows {
    pub fn push(&mut self, row: Py<PyAny>, order: i64, connection: u32) {
        self.order.push((order, Of::Row(self.rows.len() as u32)));
        self.rows.push(row);
        self.of_rows.push(connection);
    }

    /// Return the number of the connection of a place.
    pub fn connection_of(&self, of: Of) -> u32 {
        match of {
            Of::Row(index) => self.of_rows[index as usize],
            Of::Messages(batch, _) => self.of_batches[batch as usize],
            Of::Frame(batch, index) => {
                self.of_frames.get(&batch).map_or(self.of_batches[batch as usize], |numbers| numbers[index as usize])
            }
        }
    }

    /// Return some of the rows; of the Python rows, only those that are `kept`.
    pub fn part(&self, py: Python<'_>, order: &[(i64, Of)], exchanges: bool, kept: impl Fn(&Py<PyAny>) -> bool) -> OrderedRows {
        let batches = self.batches.iter().map(|batch| batch.clone_ref(py)).collect();
        let (names, of_batches) = (self.names.clone(), self.of_batches.clone());
        let of_frames = self.of_frames.clone();
        let frameless = self.frameless;
        let mut part = OrderedRows { batches, names, of_batches, of_frames, exchanges, frameless, ..OrderedRows::default() };
        self.append_to(py, &mut part, order, kept);
        part
    }

    /// Append some of the rows to a part with the same batches, like `part`.
    pub fn append_to(&self, py: Python<'_>, part: &mut OrderedRows, order: &[(i64, Of)], kept: impl Fn(&Py<PyAny>) -> bool) {
        for (at, of) in order {
            match of {
                Of::Frame(..) | Of::Messages(..) => part.order.push((*at, *of)),
                Of::Row(index) => {
                    let row = &self.rows[*index as usize];
                    if kept(row) {
                        part.push(row.clone_ref(py), *at, self.of_rows[*index as usize]);
                    }
                }
            }
        }
    }

    /// Append a batch of other ordered rows, without its rows; return its number.
    pub fn add_batch_of(&mut self, py: Python<'_>, of: &OrderedRows, batch: u32) -> u32 {
        let number = self.batches.len() as u32;
        self.batches.push(of.batches[batch as usize].clone_ref(py));
        self.of_batches.push(self.names.number(&of.names.names[of.of_batches[batch as usize] as usize]));
        if let Some(numbers) = of.of_frames.get(&batch) {
            let renumbered: Vec<u32> = of.names.names.iter().map(|name| self.names.number(name)).collect();
            self.of_frames.insert(number, Arc::new(numbers.iter().map(|number| renumbered[*number as usize]).collect()));
        }
        number
    }

    /// Return the places after which another `size` rows, including messages, are complete, and the last place.
    pub fn stops(&self, batches: &[PyRef<'_, Frames>], size: usize) -> Vec<usize> {
        let (mut stops, mut rows) = (Vec::new(), 0);
        for (place, (_, of)) in self.order.iter().enumerate() {
            rows += match of {
                Of::Messages(batch, number) => batches[*batch as usize].opened.behind[*number as usize].count(),
                Of::Frame(..) | Of::Row(_) => 1,
            };
            if rows >= size || place + 1 == self.order.len() {
                stops.push(place + 1);
                rows = 0;
            }
        }
        stops
    }

    /// Return the rows at some places, in this order.
    pub fn rows_of<'py>(&self, py: Python<'py>, places: &[(i64, Of)]) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for (_, of) in places {
            match of {
                Of::Row(index) => rows.append(&self.rows[*index as usize])?,
                Of::Frame(batch, index) => {
                    let batch = self.batches[*batch as usize].bind(py).try_borrow()?;
                    if let Entry::Frame(frame) = &batch.entries[*index as usize] {
                        if !self.frameless {
                            rows.append(batch.named_row(py, frame)?)?;
                        }
                        if let Some(exchange) = if self.exchanges { batch.exchange(py, frame)? } else { None } {
                            rows.append(exchange)?;
                        }
                    }
                }
                Of::Messages(batch, number) => {
                    let opened = &self.batches[*batch as usize].bind(py).try_borrow()?.opened;
                    for row in opened.rows(py, &opened.behind[*number as usize])? {
                        rows.append(row)?;
                    }
                }
            }
        }
        Ok(rows)
    }

    pub fn borrowed<'py>(&self, py: Python<'py>) -> PyResult<Vec<PyRef<'py, Frames>>> {
        Ok(self.batches.iter().map(|batch| batch.bind(py).try_borrow()).collect::<Result<_, _>>()?)
    }

    /// Return the frame in columns at a place, with its batch.
    pub fn frame<'a>(&self, batches: &'a [PyRef<'_, Frames>], place: usize) -> Option<(&'a Frames, &'a Frame)> {
        let (_, Of::Frame(batch, index)) = self.order.get(place)? else { return None };
        let frames: &Frames = batches.get(*batch as usize)?;
        match frames.entries.get(*index as usize)? {
            Entry::Frame(frame) => Some((frames, frame)),
            Entry::Rows(_) => None,
        }
    }

    /// Append lines of frames in columns from a place on; return the place of the first row that `append` leaves to Python, or that is not
    /// such a frame.
    pub fn append_frames(
        &self,
        py: Python<'_>,
        mut place: usize,
        mut append: impl FnMut(usize, &Frames, &Tables, &Frame) -> PyResult<bool>,
    ) -> PyResult<usize> {
        let batches = self.borrowed(py)?;
        while let Some((_, Of::Frame(batch, index))) = self.order.get(place) {
            let frames = &batches[*batch as usize];
            let Entry::Frame(frame) = &frames.entries[*index as usize] else { break };
            if !append(*batch as usize, frames, &frames.reader.bind(py).get().tables, frame)? {
                break;
            }
            place += 1;
        }
        Ok(place)
    }
}
