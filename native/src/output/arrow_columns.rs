//! Columns of a table as Arrow buffers, without an object for each value.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};

use crate::messages::{Cell, MessageColumn};

/// The kind of the values of a column.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Number,
    Flag,
    /// Texts, or bytes.
    Text,
    Texts,
}

/// The values of a column so far, in the layout of Arrow.
pub struct ArrowColumn {
    kind: Kind,
    /// Which values are present, once one is absent.
    valid: Bits,
    count: usize,
    absent: usize,
    /// Number of absent values before the first present one: in most columns all are absent, and only others are laid out.
    leading: usize,
    /// Start of texts, or of lists of texts, and their ends.
    ends: Vec<u8>,
    /// Numbers, or consecutive texts.
    pub bytes: Vec<u8>,
    flags: Bits,
    items: Option<Box<ArrowColumn>>,
}

/// Number of absent values; the buffers of `pyarrow.Array.from_buffers`, none if all values are absent; and the same for the items of
/// lists, with their number.
pub type Buffers<'py> = (usize, Vec<Option<Bound<'py, PyBytes>>>, Option<(usize, usize, Vec<Option<Bound<'py, PyBytes>>>)>);

/// Bits, the least significant of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.count % 8 == 0 {
            self.bytes.push(0);
        }
        if let (true, Some(last)) = (bit, self.bytes.last_mut()) {
            *last |= 1 << (self.count % 8);
        }
        self.count += 1;
    }

    /// Become `count` bits, all or none of which are set.
    fn fill(&mut self, count: usize, set: bool) {
        self.bytes.clear();
        self.bytes.resize(count.div_ceil(8), if set { 0xff } else { 0 });
        if let (true, Some(last)) = (set && count % 8 > 0, self.bytes.last_mut()) {
            *last = (1 << (count % 8)) - 1;
        }
        self.count = count;
    }
}

impl ArrowColumn {
    /// `name`: name of the type in Python's column table.
    pub fn new(name: &str) -> PyResult<Self> {
        let kind = match name {
            "int64" | "time" => Kind::Number,
            "bool" => Kind::Flag,
            "string" | "json" | "bytes" => Kind::Text,
            "strings" => Kind::Texts,
            _ => return Err(PyValueError::new_err(format!("no column is of type {name}"))),
        };
        let items = if kind == Kind::Texts { Some(Box::new(ArrowColumn::new("string")?)) } else { None };
        let (valid, flags) = (Bits::default(), Bits::default());
        Ok(ArrowColumn { kind, valid, count: 0, absent: 0, leading: 0, ends: Vec::new(), bytes: Vec::new(), flags, items })
    }

    #[inline]
    fn there(&mut self, there: bool) {
        if !there && self.absent == 0 {
            self.valid.fill(self.count, true);
        }
        self.count += 1;
        self.absent += usize::from(!there);
        if self.absent > 0 {
            self.valid.push(there);
        }
    }

    /// Prepare for the next value; return true if it is absent, like all before it.
    #[inline]
    fn leads(&mut self, there: bool) -> bool {
        if self.leading < self.count {
            return false;
        }
        if there {
            self.lay_out();
            return false;
        }
        self.count += 1;
        self.absent += 1;
        self.leading += 1;
        true
    }

    /// Lay out the values before the first present one.
    #[cold]
    fn lay_out(&mut self) {
        let count = self.count;
        self.valid.fill(count, false);
        match self.kind {
            Kind::Number => self.bytes.resize(8 * count, 0),
            Kind::Flag => self.flags.fill(count, false),
            Kind::Text | Kind::Texts => self.ends.resize(4 * (count + 1), 0),
        }
    }

    #[inline]
    pub fn number(&mut self, value: impl Into<Option<i64>>) {
        let value = value.into();
        if !self.leads(value.is_some()) {
            self.bytes.extend_from_slice(&value.unwrap_or_default().to_ne_bytes());
            self.there(value.is_some());
        }
    }

    pub fn flag(&mut self, value: Option<bool>) {
        if !self.leads(value.is_some()) {
            self.flags.push(value.unwrap_or_default());
            self.there(value.is_some());
        }
    }

    #[inline]
    pub fn text(&mut self, value: Option<&[u8]>) -> PyResult<()> {
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.end_text(value.is_some())
    }

    /// End a text whose bytes were appended, or an absent one.
    #[inline]
    pub fn end_text(&mut self, there: bool) -> PyResult<()> {
        if self.leads(there) {
            return Ok(());
        }
        self.there(there);
        self.end(self.bytes.len())
    }

    fn end(&mut self, size: usize) -> PyResult<()> {
        let end = i32::try_from(size).map_err(|_| PyValueError::new_err("the values of a column take more than 2 GiB"))?;
        self.ends.extend_from_slice(&end.to_ne_bytes());
        Ok(())
    }

    /// Append an absent value.
    pub fn nothing(&mut self) -> PyResult<()> {
        match self.kind {
            Kind::Number => self.number(None),
            Kind::Flag => self.flag(None),
            Kind::Text => return self.text(None),
            Kind::Texts => {
                if !self.leads(false) {
                    self.there(false);
                    let items = self.items.as_ref().map_or(0, |items| items.count);
                    return self.end(items);
                }
            }
        }
        Ok(())
    }

    /// Append a value of a compiled column of messages.
    #[inline]
    pub fn cell(&mut self, column: &MessageColumn, index: usize) -> PyResult<()> {
        let before = self.bytes.len();
        match column.cell(index, &mut self.bytes) {
            Cell::Number(number) => self.number(number),
            Cell::Flag(flag) => self.flag(flag),
            Cell::Text(there) => {
                if !there {
                    self.bytes.truncate(before);
                }
                return self.end_text(there);
            }
        }
        Ok(())
    }

    /// Append a Python value.
    pub fn object(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_none() {
            return self.nothing();
        }
        match self.kind {
            Kind::Number => self.number(value.extract::<i64>()?),
            Kind::Flag => self.flag(Some(value.cast::<PyBool>()?.is_true())),
            Kind::Text => {
                return match value.cast::<PyString>() {
                    Ok(text) => self.text(Some(text.to_str()?.as_bytes())),
                    Err(_) => self.text(Some(value.cast::<PyBytes>()?.as_bytes())),
                }
            }
            Kind::Texts => {
                self.leads(true);
                let mut count = 0;
                if let Some(items) = &mut self.items {
                    for item in value.try_iter()? {
                        items.object(&item?)?;
                    }
                    count = items.count;
                }
                self.there(true);
                return self.end(count);
            }
        }
        Ok(())
    }

    /// Number of bytes of the values so far.
    pub fn size(&self) -> usize {
        let own = self.valid.bytes.len() + self.ends.len() + self.bytes.len() + self.flags.bytes.len();
        own + self.items.as_ref().map_or(0, |items| items.size())
    }

    /// Remove all values; their room is kept for the next ones.
    pub fn clear(&mut self) {
        (self.count, self.absent, self.leading) = (0, 0, 0);
        for bytes in [&mut self.valid.bytes, &mut self.ends, &mut self.bytes, &mut self.flags.bytes] {
            bytes.clear();
        }
        (self.valid.count, self.flags.count) = (0, 0);
        if let Some(items) = &mut self.items {
            items.clear();
        }
    }

    /// Return the buffers; none if all values are absent.
    pub fn buffers<'py>(&self, py: Python<'py>) -> Buffers<'py> {
        let items = self.items.as_ref().map(|items| (items.count, items.absent, items.own(py)));
        (self.absent, self.own(py), items)
    }

    fn own<'py>(&self, py: Python<'py>) -> Vec<Option<Bound<'py, PyBytes>>> {
        if self.leading == self.count {
            return Vec::new();
        }
        let mut buffers = vec![(self.absent > 0).then(|| PyBytes::new(py, &self.valid.bytes))];
        if matches!(self.kind, Kind::Text | Kind::Texts) {
            buffers.push(Some(PyBytes::new(py, &self.ends)));
        }
        match self.kind {
            Kind::Texts => {}
            Kind::Flag => buffers.push(Some(PyBytes::new(py, &self.flags.bytes))),
            Kind::Number | Kind::Text => buffers.push(Some(PyBytes::new(py, &self.bytes))),
        }
        buffers
    }
}
