//! Facts that cause no finding on their own, without a Python object for each.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::encoding::json;

/// Packed facts that cause no finding on their own.
#[pyclass(sequence, frozen, module = "pulsarscope_native")]
#[derive(Default)]
pub struct UndecidedFacts {
    /// Key and packed form of each fact.
    bytes: Vec<u8>,
    facts: Vec<Undecided>,
}

#[derive(Clone, Copy)]
struct Undecided {
    position: u32,
    time: i64,
    key: usize,
    packed: usize,
    end: usize,
}

impl UndecidedFacts {
    /// Add a fact on an entry, by ledger and number: `write` appends its packed form to the bytes.
    pub fn add(&mut self, position: u32, time: i64, (ledger, entry): (i64, i64), write: impl FnOnce(&mut Vec<u8>)) {
        let key = self.bytes.len();
        json::number(ledger, &mut self.bytes);
        self.bytes.push(b':');
        json::number(entry, &mut self.bytes);
        let packed = self.bytes.len();
        write(&mut self.bytes);
        self.facts.push(Undecided { position, time, key, packed, end: self.bytes.len() });
    }

    /// Return position, key, packed form and time of each fact from one on.
    pub fn each(&self, start: usize) -> impl Iterator<Item = (i64, &[u8], &[u8], i64)> {
        self.facts.iter().skip(start).map(|fact| (fact.position.into(), self.key(fact), self.packed(fact), fact.time))
    }

    fn key(&self, fact: &Undecided) -> &[u8] {
        &self.bytes[fact.key..fact.packed]
    }

    fn packed(&self, fact: &Undecided) -> &[u8] {
        &self.bytes[fact.packed..fact.end]
    }
}

#[pymethods]
impl UndecidedFacts {
    /// Merge several sets of facts, in the order of their positions.
    #[staticmethod]
    fn merged(batches: Vec<PyRef<'_, UndecidedFacts>>) -> Self {
        let mut made = UndecidedFacts::default();
        for batch in batches {
            let start = made.bytes.len();
            made.bytes.extend_from_slice(&batch.bytes);
            let moved = |fact: &Undecided| Undecided { key: fact.key + start, packed: fact.packed + start, end: fact.end + start, ..*fact };
            made.facts.extend(batch.facts.iter().map(moved));
        }
        made.facts.sort_by_key(|fact| fact.position);
        made
    }

    fn __len__(&self) -> usize {
        self.facts.len()
    }

    /// Return position, key, packed form and time of a fact.
    fn __getitem__<'py>(&self, py: Python<'py>, index: usize) -> PyResult<(u32, Bound<'py, PyString>, Bound<'py, PyBytes>, i64)> {
        let fact = self.facts.get(index).ok_or_else(|| PyIndexError::new_err("no such fact"))?;
        Ok((fact.position, text_of(py, self.key(fact))?, PyBytes::new(py, self.packed(fact)), fact.time))
    }
}

/// Return a key from UTF-8, including lone surrogates.
pub fn text_of<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(key) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => PyString::from_encoded_object(&PyBytes::new(py, key), Some(c"utf-8"), Some(c"surrogatepass")),
    }
}
