//! Rows of several connections in the order of their moments, some of them in columns.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::frames::{Entry, Frames};
use crate::json::Times;

enum Of {
    Frame(u32, u32),
    Row(u32),
}

/// Rows of Python and frames in columns, each with its order.
#[pyclass(module = "pulsarscope_native")]
pub struct OrderedRows {
    batches: Vec<Py<Frames>>,
    rows: Vec<Py<PyAny>>,
    order: Vec<(i64, Of)>,
}

#[pymethods]
impl OrderedRows {
    #[new]
    fn new() -> Self {
        OrderedRows { batches: Vec::new(), rows: Vec::new(), order: Vec::new() }
    }

    fn __len__(&self) -> usize {
        self.order.len()
    }

    /// Append rows of Python.
    fn extend(&mut self, rows: Vec<Py<PyAny>>, order: i64) {
        for row in rows {
            self.order.push((order, Of::Row(self.rows.len() as u32)));
            self.rows.push(row);
        }
    }

    /// Append rows of Python, each with its order.
    fn extend_each(&mut self, rows: Vec<Py<PyAny>>, orders: Vec<i64>) {
        for (row, order) in rows.into_iter().zip(orders) {
            self.order.push((order, Of::Row(self.rows.len() as u32)));
            self.rows.push(row);
        }
    }

    /// Append frames that the session has seen. Their order is that of `engine.ordering.orders_of`: `file` and moment, `order` at most.
    fn add(&mut self, py: Python<'_>, frames: Py<Frames>, file: i64, order: i64) {
        let batch = self.batches.len() as u32;
        for (index, entry) in frames.borrow(py).entries.iter().enumerate() {
            let at = (file | entry.moment()).min(order);
            match entry {
                Entry::Frame(_) => self.order.push((at, Of::Frame(batch, index as u32))),
                Entry::Rows(rows) => {
                    for row in &rows.rows {
                        self.order.push((at, Of::Row(self.rows.len() as u32)));
                        self.rows.push(row.clone_ref(py));
                    }
                }
            }
        }
        self.batches.push(frames);
    }

    /// Put the rows in order.
    fn sort(&mut self) {
        self.order.sort_by_key(|(order, _)| *order);
    }

    /// Return the rows of Python, in no order.
    fn others<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.rows.iter().map(|row| row.bind(py)))
    }

    /// Return NDJSON, in which `encode` makes the lines of rows of Python.
    fn ndjson<'py>(&self, py: Python<'py>, encode: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let batches: Vec<_> = self.batches.iter().map(|batch| batch.borrow(py)).collect();
        let mut out = Vec::with_capacity(self.order.len() * 512);
        let mut times = Times::default();
        for (_, of) in &self.order {
            match of {
                Of::Frame(batch, index) => {
                    let frames = &batches[*batch as usize];
                    if let Entry::Frame(frame) = &frames.entries[*index as usize] {
                        let reader = frames.reader.bind(py).get();
                        frames.write_line(py, &reader.tables, frame, &mut times, &mut out)?;
                    }
                }
                Of::Row(index) => {
                    let line = encode.call1((PyList::new(py, [self.rows[*index as usize].bind(py)])?,))?;
                    out.extend_from_slice(line.cast::<PyBytes>()?.as_bytes());
                }
            }
        }
        Ok(PyBytes::new(py, &out))
    }
}
