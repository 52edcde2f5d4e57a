//! Messages of entries as lines of NDJSON.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyString, PyTuple};

use crate::caught;
use crate::encoding::json::{self, Times};
use crate::encoding::kept_bytes;
use crate::encoding::padded::Padded;
use crate::messages::opened_messages::OpenedMessages;
use crate::messages::MessageColumn;

/// Estimated size of a line in addition to what its entry shares.
const OWN_BYTES: usize = 256;

/// A column of an entry: of a compiled batch, or Python values.
enum Column<'py> {
    Compiled(Bound<'py, MessageColumn>),
    Python(Vec<Bound<'py, PyAny>>),
}

impl Column<'_> {
    fn write(&self, index: usize, times: &mut Times, out: &mut Vec<u8>) -> PyResult<bool> {
        match self {
            Column::Compiled(column) => Ok(column.get().write(index, times, out)),
            Column::Python(values) => match values.get(index) {
                Some(value) if !value.is_none() => write_value(value, out).map(|()| true),
                _ => Ok(false),
            },
        }
    }
}

/// Append a Python value; bytes are already JSON.
fn write_value(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    if let Ok(text) = value.cast::<PyString>() {
        json::string(&text.to_cow()?, out);
    } else if let Ok(value) = value.cast::<PyBool>() {
        json::boolean(value.is_true(), out);
    } else if value.is_instance_of::<PyInt>() {
        json::number(value.extract()?, out);
    } else {
        out.extend_from_slice(value.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}

/// Writer of the lines of messages.
#[pyclass(frozen, module = "pulsarscope_native")]
pub struct MessageLines {
    /// Names of columns, each also in its JSON form, and whether it holds times.
    columns: Vec<(Py<PyString>, Vec<u8>, bool)>,
    head: Vec<u8>,
    own_json: Py<PyAny>,
    shared_json: Py<PyAny>,
    values: Py<PyAny>,
}

#[pymethods]
impl MessageLines {
    /// `kind`: tag of message rows; `names`: names of their columns; `times`: those that hold times; `own_json`: returns the values of a
    /// column, given its name and values, as texts, numbers and JSON bytes; `shared_json`: returns the JSON of a value; `values`: returns
    /// the values of a row, as a tuple in the order of the names.
    #[new]
    fn new(
        kind: &str,
        names: &Bound<'_, PyTuple>,
        times: HashSet<String>,
        own_json: Py<PyAny>,
        shared_json: Py<PyAny>,
        values: Py<PyAny>,
    ) -> PyResult<Self> {
        let mut head = b"{\"record\":".to_vec();
        json::string(kind, &mut head);
        let mut columns = Vec::new();
        for name in names {
            let name = name.cast_into::<PyString>()?;
            let text = name.to_cow()?;
            let name = PyString::intern(name.py(), &text);
            let mut quoted = b",".to_vec();
            json::string(&text, &mut quoted);
            quoted.push(b':');
            columns.push((name.clone().unbind(), quoted, times.contains(text.as_ref())));
        }
        Ok(MessageLines { columns, head, own_json, shared_json, values })
    }

    /// Return the lines of entries, each given by the row that its messages share, their number, and the columns in which they differ.
    fn lines<'py>(&self, py: Python<'py>, entries: Vec<(Bound<'py, PyAny>, usize, Bound<'py, PyDict>)>) -> PyResult<Bound<'py, PyBytes>> {
        caught(|| {
            let mut times = Times::default();
            let mut out = kept_bytes::take();
            for (shared, count, own) in &entries {
                let form = self.form(py, shared, Some(own))?;
                out.reserve(count * (form.bytes + OWN_BYTES));
                form.write(0..*count, &mut times, &mut out)?;
            }
            let lines = PyBytes::new(py, &out);
            kept_bytes::keep(out);
            Ok(lines)
        })
    }
}

/// The form of the lines of an entry.
pub struct LineForm<'py> {
    /// The constant text before each column, including its name; its size without the name; and the values of the column.
    parts: Vec<(Padded, usize, Column<'py>)>,
    behind: Padded,
    /// Size of the constant text.
    bytes: usize,
}

impl LineForm<'_> {
    /// Append the lines of some messages.
    pub fn write(&self, messages: Range<usize>, times: &mut Times, out: &mut Vec<u8>) -> PyResult<()> {
        for index in messages {
            for (before, nameless, column) in &self.parts {
                let start = out.len();
                before.append(out);
                if !column.write(index, times, out)? {
                    out.truncate(start + nameless);
                }
            }
            self.behind.append(out);
        }
        Ok(())
    }
}

/// Forms of the entries that were opened in addition to frames, by batch and number.
#[derive(Default)]
pub struct LineForms<'py>(HashMap<(u32, u32), LineForm<'py>>);

impl<'py> LineForms<'py> {
    /// Append the lines of messages that follow a frame; `at`: the batch of frames, and the number of the messages there.
    pub fn write(
        &mut self,
        lines: &PyRef<'py, MessageLines>,
        opened: &OpenedMessages,
        at: (u32, u32),
        times: &mut Times,
        out: &mut Vec<u8>,
    ) -> PyResult<()> {
        let py = lines.py();
        let (Some(behind), batch) = (opened.behind.get(at.1 as usize), at.0) else { return Ok(()) };
        let Some(entry) = opened.entry(behind) else { return Ok(()) };
        let form = match self.0.entry((batch, behind.entry)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                let own = entry.columns.as_ref().map(|columns| columns.bind(py));
                vacant.insert(lines.form(py, entry.shared.bind(py), own)?)
            }
        };
        form.write(behind.start as usize..behind.stop as usize, times, out)
    }
}

impl MessageLines {
    /// Return the form of the lines of an entry, given by the row that its messages share, and the columns in which they differ.
    pub fn form<'py>(&self, py: Python<'py>, shared: &Bound<'py, PyAny>, own: Option<&Bound<'py, PyDict>>) -> PyResult<LineForm<'py>> {
        let mut parts: Vec<(Padded, usize, Column<'py>)> = Vec::new();
        let mut bytes = 0;
        let mut times = Times::default();
        let mut fixed = self.head.clone();
        let values = self.values.bind(py).call1((shared,))?.cast_into::<PyTuple>()?;
        let mut owned: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> = own.map_or(Vec::new(), |own| own.iter().collect());
        for (name, _) in &mut owned {
            if !self.columns.iter().any(|(known, ..)| known.is(&*name)) {
                *name = PyString::intern(py, &name.cast::<PyString>()?.to_cow()?).into_any();
                // equal ones need not be the same object
            }
        }
        for ((name, quoted, is_time), value) in self.columns.iter().zip(values.iter()) {
            let name = name.bind(py);
            if let Some(place) = owned.iter().position(|(other, _)| other.is(name)) {
                let (_, values) = owned.swap_remove(place);
                let column = match values.cast_into::<MessageColumn>() {
                    Ok(compiled) => Column::Compiled(compiled),
                    Err(other) => {
                        Column::Python(self.own_json.bind(py).call1((name, other.into_inner()))?.try_iter()?.collect::<PyResult<_>>()?)
                    }
                };
                let nameless = fixed.len();
                fixed.extend_from_slice(quoted);
                parts.push((Padded::of(&fixed), nameless, column));
                bytes += fixed.len();
                fixed.clear();
                continue;
            }
            if value.is_none() {
                continue;
            }
            fixed.extend_from_slice(quoted);
            if *is_time {
                times.write(value.extract()?, &mut fixed);
            } else if value.is_instance_of::<PyString>() || value.extract::<i64>().is_ok() {
                write_value(&value, &mut fixed)?;
            } else {
                write_value(&self.shared_json.bind(py).call1((value,))?, &mut fixed)?;
            }
        }
        fixed.extend_from_slice(b"}\n");
        bytes += fixed.len();
        Ok(LineForm { parts, behind: Padded::of(&fixed), bytes })
    }
}
