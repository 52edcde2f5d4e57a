//! Rows of one connection after the other: rows, and in between stretches of frames in columns.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::encoding::number_keys::NumberMap;
use crate::frames::row_order::{Of, OrderedRows};
use crate::frames::{Entry, Frame, Frames};
use crate::rules::deliveries::{self, Deliveries};
use crate::rules::stretches::{self, Stretch};

/// See `OrderedRows.stretches`.
pub fn by_connection<'a, 'py>(py: Python<'py>, all: &'a OrderedRows, least: usize) -> PyResult<Vec<(&'a str, Bound<'py, PyList>)>> {
    let batches = all.borrowed(py)?;
    let mut parts: Vec<Parts<'py>> = Vec::new();
    let mut numbers: NumberMap<u32, usize> = NumberMap::default();
    for (place, (_, of)) in all.order.iter().enumerate() {
        if matches!(of, Of::Messages(..)) {
            continue; // no rule asks for them
        }
        let connection = all.connection_of(*of);
        if let Of::Row(index) = of {
            if is_message(all.rows[*index as usize].bind(py))? {
                continue;
            }
        }
        let number = *numbers.entry(connection).or_insert(parts.len());
        if number == parts.len() {
            parts.push(Parts::new(py, connection));
        }
        let part = &mut parts[number];
        match of {
            Of::Row(index) => {
                part.end_stretch(py, all, &batches, least)?;
                part.rows.append(&all.rows[*index as usize])?;
                part.positions.push(2 * place as u32);
            }
            Of::Frame(batch, index) => {
                let frames = &batches[*batch as usize];
                let Entry::Frame(frame) = &frames.entries[*index as usize] else { continue };
                let kind = frames.command(&frames.reader.bind(py).get().tables, frame)?.kind;
                let delivers = deliveries::is_quiet(py, frames, frame, kind);
                if delivers || stretches::is_quiet(frames, frame, kind) {
                    if (part.batch, part.delivers) != (*batch, delivers) {
                        part.end_stretch(py, all, &batches, least)?;
                    }
                    (part.batch, part.delivers) = (*batch, delivers);
                    part.stretch.push((*index, 2 * place as u32));
                } else {
                    part.end_stretch(py, all, &batches, least)?;
                    part.append(py, all, frames, frame, 2 * place as u32)?;
                }
            }
            Of::Messages(..) => {}
        }
    }
    for part in &mut parts {
        part.end_stretch(py, all, &batches, least)?;
        part.end_rows(py)?;
    }
    Ok(parts.into_iter().map(|part| (all.names.names[part.connection as usize].as_str(), part.items)).collect())
}

fn is_message(row: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind = row.getattr_opt(intern!(row.py(), "kind"))?;
    Ok(kind.is_some_and(|kind| kind.cast::<PyString>().is_ok_and(|kind| *kind == "message")))
}

/// The rows and stretches of one connection, and the unfinished ones.
struct Parts<'py> {
    connection: u32,
    items: Bound<'py, PyList>,
    rows: Bound<'py, PyList>,
    positions: Vec<u32>,
    batch: u32,
    /// Whether the stretch is one of deliveries and ACKs.
    delivers: bool,
    stretch: Vec<(u32, u32)>,
}

impl<'py> Parts<'py> {
    fn new(py: Python<'py>, connection: u32) -> Self {
        let (items, rows) = (PyList::empty(py), PyList::empty(py));
        Parts { connection, items, rows, positions: Vec::new(), batch: 0, delivers: false, stretch: Vec::new() }
    }

    /// Append the rows of a frame.
    fn append(&mut self, py: Python<'py>, all: &OrderedRows, frames: &Frames, frame: &Frame, position: u32) -> PyResult<()> {
        self.rows.append(frames.named_row(py, frame)?)?;
        self.positions.push(position);
        if let Some(exchange) = if all.exchanges { frames.exchange(py, frame)? } else { None } {
            self.rows.append(exchange)?;
            self.positions.push(position + 1);
        }
        Ok(())
    }

    fn end_stretch(&mut self, py: Python<'py>, all: &OrderedRows, batches: &[PyRef<'py, Frames>], least: usize) -> PyResult<()> {
        if self.stretch.is_empty() {
            return Ok(());
        }
        let stretch = std::mem::take(&mut self.stretch);
        let batch = self.batch as usize;
        if stretch.len() >= least {
            let frames = &all.batches[batch];
            if !self.delivers {
                self.end_rows(py)?;
                return self.items.append(Stretch::of(py, frames, stretch, all.exchanges)?);
            }
            if let Some(deliveries) = Deliveries::of(py, frames, &stretch, all.exchanges)? {
                self.end_rows(py)?;
                return self.items.append(deliveries);
            }
        }
        for (index, position) in stretch {
            if let Entry::Frame(frame) = &batches[batch].entries[index as usize] {
                self.append(py, all, &batches[batch], frame, position)?;
            }
        }
        Ok(())
    }

    fn end_rows(&mut self, py: Python<'py>) -> PyResult<()> {
        if !self.rows.is_empty() {
            let rows = std::mem::replace(&mut self.rows, PyList::empty(py));
            self.items.append((rows, std::mem::take(&mut self.positions)))?;
        }
        Ok(())
    }
}
