//! Columns of a table as Arrow buffers, without an object for each value.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};

use crate::encoding::number_keys::NumberMap;
use crate::messages::{Cell, MessageColumn};

/// The kind of the values of a column.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Number,
    Flag,
    /// Texts, or bytes.
    Text,
    /// Texts that repeat: numbers of those in a dictionary.
    Repeated,
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
    /// The items of lists, or the dictionary of texts that repeat.
    items: Option<Box<ArrowColumn>>,
    known: KnownTexts,
    /// Sizes that `ends` and `bytes` are expected to reach, once they were taken.
    expected: (usize, usize),
}

/// Number of absent values; the buffers of `pyarrow.Array.from_buffers`, none if all values are absent; and the same for the items of
/// lists or for a dictionary, with their number.
pub type Buffers = (usize, Vec<Option<ArrowBuffer>>, Option<(usize, usize, Vec<Option<ArrowBuffer>>)>);

/// Bytes that pyarrow reads where they are.
#[pyclass(frozen, module = "pulsarscope_native")]
pub struct ArrowBuffer(Vec<u8>);

#[pymethods]
impl ArrowBuffer {
    /// Address and number of the bytes, which stay there as long as this object does.
    fn place(&self) -> (usize, usize) {
        (self.0.as_ptr() as usize, self.0.len())
    }
}

/// Texts of a dictionary.
#[derive(Default)]
struct KnownTexts {
    numbers: HashMap<Vec<u8>, i32>,
    /// Numbers of texts, or of none, by the addresses of their objects, while these cannot change.
    by_address: NumberMap<usize, Option<i32>>,
    latest: Option<(usize, Option<i32>)>,
    /// Number and place of the latest text in the dictionary.
    last: (i32, usize, usize),
}

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
            "repeated" => Kind::Repeated,
            _ => return Err(PyValueError::new_err(format!("no column is of type {name}"))),
        };
        let nested = matches!(kind, Kind::Texts | Kind::Repeated);
        let items = if nested { Some(Box::new(ArrowColumn::new("string")?)) } else { None };
        let (valid, flags, known) = (Bits::default(), Bits::default(), KnownTexts::default());
        let (ends, bytes, expected) = Default::default();
        Ok(ArrowColumn { kind, valid, count: 0, absent: 0, leading: 0, ends, bytes, flags, items, known, expected })
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

    /// Note several present values.
    fn all_there(&mut self, count: usize) {
        if self.absent > 0 {
            (0..count).for_each(|_| self.valid.push(true));
        }
        self.count += count;
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
            Kind::Repeated => self.ends.resize(4 * count, 0),
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

    /// Append a number several times.
    pub fn numbers(&mut self, value: i64, count: usize) {
        if count > 0 {
            self.leads(true);
            self.bytes.reserve(8 * count);
            (0..count).for_each(|_| self.bytes.extend_from_slice(&value.to_ne_bytes()));
            self.all_there(count);
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
        if self.kind == Kind::Repeated {
            let number = if there { Some(self.number_of_text()?) } else { None };
            self.repeated(number);
            return Ok(());
        }
        if self.leads(there) {
            return Ok(());
        }
        self.there(there);
        self.end(self.bytes.len())
    }

    /// Append the text of an object that many rows share, or an absent value. `address`: that of the object, which is the same text until
    /// `begin`.
    #[inline]
    pub fn shared<'a>(&mut self, address: usize, text: impl FnOnce() -> PyResult<Option<&'a [u8]>>) -> PyResult<()> {
        if self.kind != Kind::Repeated {
            return self.text(text()?);
        }
        let number = match self.known.latest {
            Some((latest, number)) if latest == address => number,
            _ => {
                let number = match self.known.by_address.get(&address) {
                    Some(number) => *number,
                    None => {
                        let number = match text()? {
                            Some(text) => {
                                self.bytes.extend_from_slice(text);
                                Some(self.number_of_text()?)
                            }
                            None => None,
                        };
                        self.known.by_address.insert(address, number);
                        number
                    }
                };
                self.known.latest = Some((address, number));
                number
            }
        };
        self.repeated(number);
        Ok(())
    }

    /// Prepare for rows of other objects: forget the addresses of shared texts, and reserve as much room as the values before took.
    pub fn begin(&mut self) {
        self.known.by_address.clear();
        self.known.latest = None;
        let (ends, bytes) = std::mem::take(&mut self.expected);
        self.ends.reserve(ends);
        self.bytes.reserve(bytes);
    }

    #[inline]
    fn repeated(&mut self, number: Option<i32>) {
        if !self.leads(number.is_some()) {
            self.ends.extend_from_slice(&number.unwrap_or_default().to_ne_bytes());
            self.there(number.is_some());
        }
    }

    /// Return the number in the dictionary of the text whose bytes were appended, and take them away.
    fn number_of_text(&mut self) -> PyResult<i32> {
        let Some(dictionary) = &mut self.items else { return Ok(0) };
        let KnownTexts { numbers, last, .. } = &mut self.known;
        if dictionary.count == 0 || self.bytes != dictionary.bytes[last.1..last.2] {
            let number = match numbers.get(&self.bytes) {
                Some(number) => *number,
                None => {
                    let number = dictionary.count as i32; // fewer than the bytes of their ends, which are numbered with as many bits
                    dictionary.text(Some(&self.bytes))?;
                    numbers.insert(self.bytes.clone(), number);
                    number
                }
            };
            *last = (number, dictionary.end_at(number), dictionary.end_at(number + 1));
        }
        self.bytes.clear();
        Ok(last.0)
    }

    /// Return the end of the text before this one.
    fn end_at(&self, number: i32) -> usize {
        let at = 4 * number as usize;
        let end: [u8; 4] = self.ends.get(at..at + 4).and_then(|end| end.try_into().ok()).unwrap_or_default();
        i32::from_ne_bytes(end) as usize
    }

    fn end(&mut self, size: usize) -> PyResult<()> {
        let end = i32::try_from(size).map_err(|_| PyValueError::new_err("the values of a column take more than 2 GiB"))?;
        self.ends.extend_from_slice(&end.to_ne_bytes());
        Ok(())
    }

    /// Append absent values.
    #[inline]
    pub fn nothing(&mut self, count: usize) -> PyResult<()> {
        if self.leading == self.count {
            (self.count, self.absent, self.leading) = (self.count + count, self.absent + count, self.leading + count);
            return Ok(());
        }
        for _ in 0..count {
            match self.kind {
                Kind::Number => self.number(None),
                Kind::Flag => self.flag(None),
                Kind::Text | Kind::Repeated => self.text(None)?,
                Kind::Texts => {
                    self.there(false);
                    let items = self.items.as_ref().map_or(0, |items| items.count);
                    self.end(items)?;
                }
            }
        }
        Ok(())
    }

    /// Append a text several times.
    pub fn texts(&mut self, text: &[u8], count: usize) -> PyResult<()> {
        if self.kind != Kind::Repeated {
            return (0..count).try_for_each(|_| self.text(Some(text)));
        }
        self.bytes.extend_from_slice(text);
        let number = self.number_of_text()?;
        if count > 0 {
            self.leads(true);
            self.ends.reserve(4 * count);
            (0..count).for_each(|_| self.ends.extend_from_slice(&number.to_ne_bytes()));
            self.all_there(count);
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
            return self.nothing(1);
        }
        match self.kind {
            Kind::Number => self.number(value.extract::<i64>()?),
            Kind::Flag => self.flag(Some(value.cast::<PyBool>()?.is_true())),
            Kind::Text | Kind::Repeated => {
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

    /// Remove all values.
    pub fn clear(&mut self) {
        (self.count, self.absent, self.leading) = (0, 0, 0);
        for bytes in [&mut self.valid.bytes, &mut self.ends, &mut self.bytes, &mut self.flags.bytes] {
            bytes.clear();
        }
        (self.valid.count, self.flags.count) = (0, 0);
        self.known = KnownTexts::default();
        if let Some(items) = &mut self.items {
            items.clear();
        }
    }

    /// Return the buffers, none if all values are absent, and begin anew.
    pub fn take(&mut self) -> Buffers {
        let items = self.items.as_mut().map(|items| (items.count, items.absent, items.own()));
        let expected = (self.ends.len(), self.bytes.len());
        let taken = (self.absent, self.own(), items);
        self.clear();
        self.expected = expected;
        taken
    }

    fn own(&mut self) -> Vec<Option<ArrowBuffer>> {
        if self.leading == self.count {
            return Vec::new();
        }
        let mut buffers = vec![if self.absent > 0 { Some(moved(&mut self.valid.bytes)) } else { None }];
        if matches!(self.kind, Kind::Text | Kind::Texts | Kind::Repeated) {
            buffers.push(Some(moved(&mut self.ends)));
        }
        match self.kind {
            Kind::Texts | Kind::Repeated => {}
            Kind::Flag => buffers.push(Some(moved(&mut self.flags.bytes))),
            Kind::Number | Kind::Text => buffers.push(Some(moved(&mut self.bytes))),
        }
        buffers
    }
}

fn moved(bytes: &mut Vec<u8>) -> ArrowBuffer {
    ArrowBuffer(std::mem::take(bytes))
}
