//! Messages of entries as rows of a table.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyString};

use crate::messages::MessageColumn;
use crate::output::arrow_columns::ArrowColumn;

/// Columns of a table: their names, and their types as the column table of Python has them.
pub type Names<'py> = [(Bound<'py, PyString>, String)];

/// Values of an entry in a column: the same for all messages, or one for each.
enum Part<'py> {
    Nothing,
    Number(i64),
    Flag(bool),
    Text(Vec<u8>),
    Compiled(Bound<'py, MessageColumn>),
    Python(Vec<Bound<'py, PyAny>>),
}

/// The messages of an entry, by column.
pub struct EntryCells<'py>(Vec<Part<'py>>);

impl<'py> EntryCells<'py> {
    /// `shared`: the row that messages share; `own`: columns in which they differ; `json`: returns the texts of JSON values.
    pub fn of(
        names: &Names<'py>,
        shared: &Bound<'py, PyAny>,
        own: Option<&Bound<'py, PyDict>>,
        json: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let mut parts = Vec::with_capacity(names.len());
        for (name, kind) in names {
            let values = own.map_or(Ok(None), |own| own.get_item(name))?;
            parts.push(match values {
                Some(values) => Part::of_each(values, kind == "json", json)?,
                None => Part::of_all(&shared.getattr(name)?, kind == "json", json)?,
            });
        }
        Ok(EntryCells(parts))
    }

    /// Append some messages.
    pub fn append(&self, messages: Range<usize>, columns: &mut [ArrowColumn]) -> PyResult<()> {
        for (part, column) in self.0.iter().zip(columns) {
            match part {
                Part::Nothing => column.nothing(messages.len())?,
                Part::Number(number) => column.numbers(*number, messages.len()),
                Part::Flag(flag) => messages.clone().for_each(|_| column.flag(Some(*flag))),
                Part::Text(text) => column.texts(text, messages.len())?,
                Part::Compiled(values) => {
                    for index in messages.clone() {
                        column.cell(values.get(), index)?;
                    }
                }
                Part::Python(values) => {
                    for index in messages.clone() {
                        match values.get(index) {
                            Some(value) => column.object(value)?,
                            None => column.nothing(1)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl<'py> Part<'py> {
    fn of_each(values: Bound<'py, PyAny>, is_json: bool, json: &Bound<'py, PyAny>) -> PyResult<Self> {
        let values = match values.cast_into::<MessageColumn>() {
            Ok(compiled) => return Ok(Part::Compiled(compiled)),
            Err(other) => other.into_inner(),
        };
        let values = if is_json { json.call1((PyList::new(values.py(), each(&values)?)?,))? } else { values };
        Ok(Part::Python(each(&values)?))
    }

    fn of_all(value: &Bound<'py, PyAny>, is_json: bool, json: &Bound<'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Part::Nothing);
        }
        if is_json {
            let texts = json.call1((PyList::new(value.py(), [value])?,))?;
            return Part::of_all(&texts.get_item(0)?, false, json);
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Part::Text(text.to_str()?.as_bytes().to_vec()));
        }
        if let Ok(flag) = value.cast::<PyBool>() {
            return Ok(Part::Flag(flag.is_true()));
        }
        if value.is_instance_of::<PyInt>() {
            return Ok(Part::Number(value.extract()?));
        }
        Ok(Part::Text(value.cast::<PyBytes>()?.as_bytes().to_vec()))
    }
}

fn each<'py>(values: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    values.try_iter()?.collect()
}
