//! Messages that were opened in addition to frames in columns, with the frames that they follow.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::messages::MessageColumn;

/// An entry whose messages share a row; without columns, the row is that of its only message.
pub struct OpenedEntry {
    pub shared: Py<PyAny>,
    pub columns: Option<Py<PyDict>>,
}

/// Range of the messages of an entry that follow the frame at a place.
#[derive(Clone, Copy)]
pub struct Behind {
    pub place: u32,
    pub entry: u32,
    pub start: u32,
    pub stop: u32,
}

impl Behind {
    pub fn count(&self) -> usize {
        (self.stop - self.start) as usize
    }
}

#[derive(Default)]
pub struct OpenedMessages {
    /// Entries; None for one that is not complete.
    pub entries: Vec<Option<OpenedEntry>>,
    /// Messages in the order in which the frames became readable.
    pub behind: Vec<Behind>,
}

impl OpenedMessages {
    /// Take entries of Python, all of whose messages follow the frame at a place, and leave the list empty.
    pub fn take(&mut self, entries: &Bound<'_, PyList>, place: usize) -> PyResult<()> {
        let py = entries.py();
        for entry in entries {
            let columns = match entry.getattr(intern!(py, "columns"))?.cast_into::<PyDict>() {
                Ok(columns) => Some(in_lists(columns)?.unbind()),
                Err(_) => None,
            };
            let count = if columns.is_some() { entry.getattr(intern!(py, "count"))?.extract()? } else { 1 };
            let number = self.entries.len() as u32;
            self.entries.push(Some(OpenedEntry { shared: entry.getattr(intern!(py, "base"))?.unbind(), columns }));
            self.behind.push(Behind { place: place as u32, entry: number, start: 0, stop: count });
        }
        if !entries.is_empty() {
            entries.call_method0(intern!(py, "clear"))?;
        }
        Ok(())
    }

    /// Append the messages of the frames that follow.
    pub fn append(&mut self, other: OpenedMessages) {
        let first = self.entries.len() as u32;
        self.entries.extend(other.entries);
        self.behind.extend(other.behind.into_iter().map(|behind| Behind { entry: first + behind.entry, ..behind }));
    }

    pub fn entry(&self, behind: &Behind) -> Option<&OpenedEntry> {
        self.entries.get(behind.entry as usize)?.as_ref()
    }

    /// Return the rows of messages.
    pub fn rows<'py>(&self, py: Python<'py>, behind: &Behind) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let Some(entry) = self.entry(behind) else { return Ok(Vec::new()) };
        let made = |index: u32| {
            let row = entry.shared.bind(py).call_method0(intern!(py, "__copy__"))?;
            for (name, column) in entry.columns.as_ref().map(|columns| columns.bind(py).iter()).into_iter().flatten() {
                row.setattr(name.cast::<PyString>()?, column.get_item(index)?)?;
            }
            Ok(row)
        };
        (behind.start..behind.stop).map(made).collect()
    }
}

/// Return columns whose values can be taken more than once.
fn in_lists(columns: Bound<'_, PyDict>) -> PyResult<Bound<'_, PyDict>> {
    for (name, values) in &columns {
        if !values.is_instance_of::<MessageColumn>() && values.hasattr(intern!(name.py(), "__next__"))? {
            columns.set_item(name, PyList::new(columns.py(), values.try_iter()?.collect::<PyResult<Vec<_>>>()?)?)?;
        }
    }
    Ok(columns)
}
