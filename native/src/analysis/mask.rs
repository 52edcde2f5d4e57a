//! Filters over frames in columns: rows are made only if a test reads something that is not in columns.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::analysis::counts::{key_of, Key};
use crate::capture::segments::{count_below, packed};
use crate::encoding::number_keys::NumberMap;
use crate::frames::{Frame, Frames};

/// A filter, as described by `filter.column_mask`.
pub enum Mask {
    Always(bool),
    And(Vec<Mask>),
    Or(Vec<Mask>),
    Not(Box<Mask>),
    Number(Column, Order, i64),
    /// A test of names, with its number: it holds for all frames of a group or for none.
    Names(usize, Py<PyAny>),
    /// A test of the command, with its number.
    Command(usize, Py<PyAny>),
    Row(Py<PyAny>),
    /// Frames of the connections in a set.
    Connections(Py<PyAny>),
    /// Frames by name: by file, packet and sub in one number, in ascending order; the second value is the number of bits of sub.
    Frames(HashMap<i64, Py<PyBytes>>, u32),
}

#[derive(Clone, Copy)]
pub enum Column {
    File,
    Packet,
    Sub,
    Time,
    Offset,
    Size,
    PayloadSize,
    Messages,
    Latency,
}

#[derive(Clone, Copy)]
pub enum Order {
    Equal,
    Differs,
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl Mask {
    /// Read a filter: its kind, and parts or values. `tests` is the number of tests of names so far.
    pub fn of(mask: &Bound<'_, PyTuple>, tests: &mut usize) -> PyResult<Self> {
        let mut part = |mask: Bound<'_, PyAny>| Mask::of(&mask.cast_into::<PyTuple>()?, tests);
        let parts = |part: &mut dyn FnMut(Bound<'_, PyAny>) -> PyResult<Mask>| -> PyResult<Vec<Mask>> {
            mask.get_item(1)?.cast_into::<PyList>()?.iter().map(part).collect()
        };
        Ok(match mask.get_item(0)?.extract::<&str>()? {
            "always" => Mask::Always(mask.get_item(1)?.extract()?),
            "and" => Mask::And(parts(&mut part)?),
            "or" => Mask::Or(parts(&mut part)?),
            "not" => Mask::Not(Box::new(part(mask.get_item(1)?)?)),
            "number" => {
                let (_, column, order, value): (String, String, String, i64) = mask.extract()?;
                Mask::Number(column_of(&column)?, order_of(&order)?, value)
            }
            kind @ ("names" | "command") => {
                let made = if kind == "names" { Mask::Names } else { Mask::Command };
                *tests += 1;
                made(*tests - 1, mask.get_item(1)?.unbind())
            }
            "row" => Mask::Row(mask.get_item(1)?.unbind()),
            "connections" => Mask::Connections(mask.get_item(1)?.unbind()),
            "frames" => Mask::Frames(mask.get_item(1)?.extract()?, mask.get_item(2)?.extract()?),
            _ => return Err(PyValueError::new_err("unknown form of a filter")),
        })
    }
}

fn column_of(name: &str) -> PyResult<Column> {
    Ok(match name {
        "file" => Column::File,
        "packet" => Column::Packet,
        "sub" => Column::Sub,
        "time" => Column::Time,
        "offset" => Column::Offset,
        "size" => Column::Size,
        "payload_size" => Column::PayloadSize,
        "num_messages" => Column::Messages,
        "latency_ns" => Column::Latency,
        _ => return Err(PyValueError::new_err("no such column")),
    })
}

fn order_of(name: &str) -> PyResult<Order> {
    Ok(match name {
        "==" => Order::Equal,
        "!=" => Order::Differs,
        "<" => Order::Below,
        "<=" => Order::AtMost,
        ">" => Order::Above,
        ">=" => Order::AtLeast,
        _ => return Err(PyValueError::new_err("no such comparison")),
    })
}

fn number(frames: &Frames, frame: &Frame, column: Column) -> Option<i64> {
    let payload_at = frame.parts().payload_at;
    match column {
        Column::File => Some(frames.file(frame)),
        Column::Packet => Some(frame.packet),
        Column::Sub => Some(i64::from(frame.sub())),
        Column::Time => Some(frame.time),
        Column::Offset => Some(frames.offset(frame)),
        Column::Size => Some(i64::from(frame.size())),
        Column::PayloadSize => (payload_at > 0).then(|| i64::from(frame.size() - payload_at)),
        Column::Messages => frame.named.messages,
        Column::Latency => frame.named.latency,
    }
}

/// Tests frames, and remembers the results for groups.
pub struct Matcher<'a, 'py> {
    py: Python<'py>,
    mask: &'a Mask,
    tests: usize,
    groups: NumberMap<Key<'a>, usize>,
    latest: Option<(Key<'a>, usize)>,
    known: Vec<Option<bool>>,
    /// Results of tests of commands, by test and command.
    of_commands: NumberMap<(usize, u8), bool>,
}

impl<'a, 'py> Matcher<'a, 'py> {
    pub fn new(py: Python<'py>, mask: &'a Mask, tests: usize) -> Self {
        Matcher { py, mask, tests, groups: NumberMap::default(), latest: None, known: Vec::new(), of_commands: NumberMap::default() }
    }

    pub fn holds(&mut self, batch: u32, frames: &'a Frames, frame: &'a Frame) -> PyResult<bool>
    where
        'py: 'a,
    {
        let key = key_of(self.py, batch, frames, frame);
        let group = match self.latest {
            Some((latest, group)) if latest == key => group,
            _ => {
                let group = *self.groups.entry(key).or_insert(self.known.len());
                if group == self.known.len() {
                    self.known.resize(group + self.tests.max(1), None);
                }
                group
            }
        };
        self.latest = Some((key, group));
        self.test(self.mask, group, frames, frame, &mut None)
    }

    fn test(&mut self, mask: &Mask, group: usize, frames: &Frames, frame: &Frame, row: &mut Option<Bound<'py, PyAny>>) -> PyResult<bool> {
        match mask {
            Mask::Always(value) => Ok(*value),
            Mask::And(parts) => {
                for part in parts {
                    if !self.test(part, group, frames, frame, row)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Mask::Or(parts) => {
                for part in parts {
                    if self.test(part, group, frames, frame, row)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Mask::Not(part) => Ok(!self.test(part, group, frames, frame, row)?),
            Mask::Number(column, order, bound) => Ok(number(frames, frame, *column).is_some_and(|value| match order {
                Order::Equal => value == *bound,
                Order::Differs => value != *bound,
                Order::Below => value < *bound,
                Order::AtMost => value <= *bound,
                Order::Above => value > *bound,
                Order::AtLeast => value >= *bound,
            })),
            Mask::Names(test, predicate) => {
                if self.known[group + test].is_none() {
                    self.known[group + test] = Some(self.ask(predicate, frames, frame, row)?);
                }
                Ok(self.known[group + test] == Some(true))
            }
            Mask::Command(test, predicate) => {
                let key = (*test, frame.parts().command);
                if let Some(known) = self.of_commands.get(&key) {
                    return Ok(*known);
                }
                let holds = self.ask(predicate, frames, frame, row)?;
                self.of_commands.insert(key, holds);
                Ok(holds)
            }
            Mask::Row(predicate) => self.ask(predicate, frames, frame, row),
            Mask::Connections(names) => names.bind(self.py).contains(&frames.names(frame)[2]),
            Mask::Frames(names, sub_bits) => Ok(names.get(&frames.file(frame)).is_some_and(|names| {
                let (names, name) = (names.as_bytes(self.py), frame.packet << sub_bits | i64::from(frame.sub()));
                packed(names, count_below(names, name)) == name
            })),
        }
    }

    fn ask(&self, predicate: &Py<PyAny>, frames: &Frames, frame: &Frame, row: &mut Option<Bound<'py, PyAny>>) -> PyResult<bool> {
        let made = match row.take() {
            Some(made) => made,
            None => frames.named_row(self.py, frame)?,
        };
        let holds = predicate.bind(self.py).call1((&made,))?.is_truthy();
        *row = Some(made);
        holds
    }
}
