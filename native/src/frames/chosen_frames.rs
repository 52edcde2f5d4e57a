//! Some frames of one connection in columns, in the form that rules take, and their rows.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::frames::{Entry, Frame, Frames};

/// Frames of a batch by their places in it.
#[pyclass(frozen, subclass, module = "pulsarscope_native")]
pub struct ChosenFrames {
    pub frames: Py<Frames>,
    /// Entries of the frames, and their positions among the rows.
    pub at: Vec<(u32, u32)>,
    pub exchanges: bool,
}

impl ChosenFrames {
    pub fn with<T>(&self, py: Python<'_>, place: usize, work: impl FnOnce(&Frames, &Frame, u32) -> PyResult<T>) -> PyResult<T> {
        let frames = self.frames.bind(py).try_borrow()?;
        let (entry, position) = self.at.get(place).ok_or_else(no_such_place)?;
        match frames.entries.get(*entry as usize) {
            Some(Entry::Frame(frame)) => work(&frames, frame, *position),
            _ => Err(no_such_place()),
        }
    }

    fn append<'py>(&self, py: Python<'py>, place: usize, rows: &Bound<'py, PyList>, positions: &mut Vec<u32>) -> PyResult<()> {
        self.with(py, place, |frames, frame, position| {
            rows.append(frames.named_row(py, frame)?)?;
            positions.push(position);
            if let Some(exchange) = if self.exchanges { frames.exchange(py, frame)? } else { None } {
                rows.append(exchange)?;
                positions.push(position + 1);
            }
            Ok(())
        })
    }
}

#[pymethods]
impl ChosenFrames {
    fn __len__(&self) -> usize {
        self.at.len()
    }

    /// Position of the first frame among all current rows.
    #[getter]
    fn position(&self) -> u32 {
        self.at[0].1
    }

    /// Return the rows, and their positions among all current rows.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Vec<u32>)> {
        let (rows, mut positions) = (PyList::empty(py), Vec::new());
        for place in 0..self.at.len() {
            self.append(py, place, &rows, &mut positions)?;
        }
        Ok((rows, positions))
    }

    /// Return the row at a place and that of its exchange, if it ends one, with their positions.
    fn row<'py>(&self, py: Python<'py>, place: usize) -> PyResult<(Bound<'py, PyList>, Vec<u32>)> {
        let (rows, mut positions) = (PyList::empty(py), Vec::new());
        self.append(py, place, &rows, &mut positions)?;
        Ok((rows, positions))
    }

    /// Return source, file, packet, sub, time and connection of the frame at a place; negative places count from the end.
    fn where_of<'py>(&self, py: Python<'py>, place: isize) -> PyResult<Bound<'py, PyTuple>> {
        let place = if place < 0 { self.at.len().wrapping_add_signed(place) } else { place as usize };
        self.with(py, place, |frames, frame, _| {
            let [source, file, connection, _, _] = frames.names(frame);
            (source, file, frame.packet, frame.sub(), frame.time, connection).into_pyobject(py)
        })
    }
}

pub fn no_such_place() -> PyErr {
    PyIndexError::new_err("no such place")
}
