//! Rows of several connections in the order of their moments, some of them in columns.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet};

use crate::caught;
use crate::counts::Counts;
use crate::frames::{Entry, Frame, Frames};
use crate::json::Times;
use crate::timeline::{Lines, Look};

#[derive(Clone, Copy)]
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
    /// Receipts stand for rows of exchanges, too.
    exchanges: bool,
}

#[pymethods]
impl OrderedRows {
    #[new]
    fn new(exchanges: bool) -> Self {
        OrderedRows { batches: Vec::new(), rows: Vec::new(), order: Vec::new(), exchanges }
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

    /// Return the rows in parts of so many at most, in their order.
    fn parts(&self, py: Python<'_>, size: usize) -> Vec<OrderedRows> {
        let part = |order: &[(i64, Of)]| {
            let mut rows = Vec::new();
            let moved = order.iter().map(|(at, of)| match of {
                Of::Frame(..) => (*at, *of),
                Of::Row(index) => {
                    rows.push(self.rows[*index as usize].clone_ref(py));
                    (*at, Of::Row(rows.len() as u32 - 1))
                }
            });
            let order = moved.collect();
            let batches = self.batches.iter().map(|batch| batch.clone_ref(py)).collect();
            OrderedRows { batches, rows, order, exchanges: self.exchanges }
        };
        self.order.chunks(size.max(1)).map(part).collect()
    }

    /// Return the rows of Python, in no order.
    fn others<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.rows.iter().map(|row| row.bind(py)))
    }

    /// Return all rows, in their order.
    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let batches = self.borrowed(py)?;
        let all = PyList::empty(py);
        for (_, of) in &self.order {
            match of {
                Of::Row(index) => all.append(&self.rows[*index as usize])?,
                Of::Frame(batch, index) => {
                    let frames = &batches[*batch as usize];
                    if let Entry::Frame(frame) = &frames.entries[*index as usize] {
                        all.append(frames.named_row(py, frame)?)?;
                        if let Some(exchange) = if self.exchanges { frames.exchange(py, frame)? } else { None } {
                            all.append(exchange)?;
                        }
                    }
                }
            }
        }
        Ok(all)
    }

    /// Return the names of the connections of which frames are in columns.
    fn connections<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        let batches = self.borrowed(py)?;
        let mut seen = vec![false; batches.len()];
        let names = PySet::empty(py)?;
        for (_, of) in &self.order {
            let Of::Frame(batch, index) = of else { continue };
            if let (false, Entry::Frame(frame)) = (seen[*batch as usize], &batches[*batch as usize].entries[*index as usize]) {
                names.add(&batches[*batch as usize].names(frame)[2])?;
                seen[*batch as usize] = true;
            }
        }
        Ok(names)
    }

    /// Return the rows of Python and groups of the frames in columns, each with its place or that of its first frame, in order; and the
    /// `slowest` exchanges of these frames, with their places. See `Counts::groups`.
    fn counted<'py>(&self, py: Python<'py>, octave_bits: u32, slowest: usize) -> PyResult<(Vec<Placed<'py>>, Vec<Placed<'py>>)> {
        caught(|| {
            let batches = self.borrowed(py)?;
            let mut counts = Counts::new(py, octave_bits, slowest);
            let mut rows = Vec::new();
            for (place, (_, of)) in self.order.iter().enumerate() {
                match of {
                    Of::Row(index) => rows.push((place, self.rows[*index as usize].bind(py).clone())),
                    Of::Frame(batch, index) => {
                        let frames = &batches[*batch as usize];
                        if let Entry::Frame(frame) = &frames.entries[*index as usize] {
                            counts.add(place, *batch, frames, frame)?;
                        }
                    }
                }
            }
            let mut exchanges = Vec::new();
            for place in counts.slowest() {
                if let Some(frame) = self.frame(&batches, place) {
                    exchanges.extend(frame.0.exchange(py, frame.1)?.map(|row| (place, row)));
                }
            }
            rows.extend(counts.groups()?);
            rows.sort_by_key(|(place, _)| *place);
            Ok((rows, exchanges))
        })
    }

    /// Return the row at a place.
    fn row<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyAny>> {
        let (_, of) = self.order.get(place).ok_or_else(|| PyIndexError::new_err("no such row"))?;
        match of {
            Of::Row(index) => Ok(self.rows[*index as usize].bind(py).clone()),
            Of::Frame(batch, index) => {
                let frames = self.batches[*batch as usize].bind(py).try_borrow()?;
                match &frames.entries[*index as usize] {
                    Entry::Frame(frame) => frames.named_row(py, frame),
                    Entry::Rows(_) => Err(PyIndexError::new_err("no such row")),
                }
            }
        }
    }

    /// Return the rows of Python from a place on, before the next frame in columns.
    fn of_python<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyList>> {
        let mut rows = Vec::new();
        while let Some((_, Of::Row(index))) = self.order.get(place + rows.len()) {
            rows.push(self.rows[*index as usize].bind(py));
        }
        PyList::new(py, rows)
    }

    /// Write lines of the timeline from a place on until a row that Python must write.
    ///
    /// `parts`: parts of the lines by connection, texts of commands, function for topics, summary that looks must have; `marks`: see
    /// `timeline::Look`; `numbers`: slow latency, zero of times; `widths`: of times and of names; `several`: files. Returns the place of
    /// that row, the text, the widths, and the numbers of frames and of messages of clients and servers.
    #[allow(clippy::too_many_arguments)]
    fn timeline<'py>(
        &self,
        py: Python<'py>,
        place: usize,
        parts: (Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyAny>, Bound<'py, PyAny>),
        marks: [String; 6],
        numbers: (i64, i64),
        widths: (usize, usize),
        several: bool,
    ) -> PyResult<(usize, String, (usize, usize), (usize, i64, i64))> {
        caught(|| {
            let (looks, commands, short_topic, summary) = parts;
            let ((slow, zero), (time_width, name_width)) = (numbers, widths);
            let mut look = Look { looks, commands, marks, slow, zero, time_width, name_width, several, short_topic, summary };
            let mut lines = Lines::new(py, &mut look);
            let batches = self.borrowed(py)?;
            let mut at = place;
            while let Some((_, Of::Frame(batch, index))) = self.order.get(at) {
                let frames = &batches[*batch as usize];
                let Entry::Frame(frame) = &frames.entries[*index as usize] else { break };
                let reader = frames.reader.bind(py).get();
                if !lines.append(*batch as usize, frames, &reader.tables, frame)? {
                    break;
                }
                at += 1;
            }
            let (text, frames, [of_client, of_server]) = (std::mem::take(&mut lines.text), lines.frames, lines.messages);
            Ok((at, text, (look.time_width, look.name_width), (frames, of_client, of_server)))
        })
    }

    /// Return NDJSON, in which `encode` makes the lines of rows of Python.
    fn ndjson<'py>(&self, py: Python<'py>, encode: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        caught(|| {
            let batches = self.borrowed(py)?;
            let mut out = Vec::with_capacity(self.order.len() * 512);
            let mut times = Times::default();
            let mut of_python = Vec::new();
            for (_, of) in &self.order {
                match of {
                    Of::Frame(batch, index) => {
                        encode_rows(&mut of_python, encode, &mut out)?;
                        let frames = &batches[*batch as usize];
                        if let Entry::Frame(frame) = &frames.entries[*index as usize] {
                            let reader = frames.reader.bind(py).get();
                            frames.write_line(py, &reader.tables, frame, &mut times, &mut out)?;
                        }
                    }
                    Of::Row(index) => of_python.push(self.rows[*index as usize].bind(py)),
                }
            }
            encode_rows(&mut of_python, encode, &mut out)?;
            Ok(PyBytes::new(py, &out))
        })
    }
}

/// A row of Python, or what stands for frames, with its place.
type Placed<'py> = (usize, Bound<'py, PyAny>);

impl OrderedRows {
    fn borrowed<'py>(&self, py: Python<'py>) -> PyResult<Vec<PyRef<'py, Frames>>> {
        Ok(self.batches.iter().map(|batch| batch.bind(py).try_borrow()).collect::<Result<_, _>>()?)
    }

    /// Return the frame in columns at a place, with its batch.
    fn frame<'a>(&self, batches: &'a [PyRef<'_, Frames>], place: usize) -> Option<(&'a Frames, &'a Frame)> {
        let (_, Of::Frame(batch, index)) = self.order.get(place)? else { return None };
        let frames: &Frames = batches.get(*batch as usize)?;
        match frames.entries.get(*index as usize)? {
            Entry::Frame(frame) => Some((frames, frame)),
            Entry::Rows(_) => None,
        }
    }
}

/// Append the lines of rows of Python, which come one behind the other, and forget them.
fn encode_rows(rows: &mut Vec<&Bound<'_, PyAny>>, encode: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    if !rows.is_empty() {
        let lines = encode.call1((PyList::new(encode.py(), rows.drain(..))?,))?;
        out.extend_from_slice(lines.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}
