//! Facts that wait until their key is evaluated, and the keys that were evaluated early: most say nothing, and need no object of Python.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::caught;
use crate::ordered::Ordered;
use crate::placed_facts::PlacedFacts;
use crate::undecided::{text_of, UndecidedFacts};

enum Waiting {
    /// Facts that bring no finding on their own: packed, the latest of their times, and their number.
    Undecided(Vec<u8>, i64, usize),
    /// An object of Python.
    Python(Py<PyAny>),
}

/// Pending facts by key, the one silent longest first: the part of the interface of a dict that `engine.facts` needs.
#[pyclass(mapping, module = "pulsarscope_native")]
pub struct PendingKeys {
    facts_type: Py<PyAny>,
    facts: Ordered<Arc<[u8]>, Waiting>,
}

impl PendingKeys {
    fn object<'py>(&self, py: Python<'py>, facts: &Waiting) -> PyResult<Bound<'py, PyAny>> {
        match facts {
            Waiting::Undecided(packed, time, count) => self.facts_type.bind(py).call1((PyBytes::new(py, packed), *time, *count, 0)),
            Waiting::Python(facts) => Ok(facts.bind(py).clone()),
        }
    }
}

#[pymethods]
impl PendingKeys {
    /// Take over the facts of a dict; `facts_type` makes the objects that stand for them.
    #[new]
    fn new(facts_type: Py<PyAny>, facts: Vec<(Bound<'_, PyString>, Py<PyAny>)>) -> PyResult<Self> {
        let mut made = PendingKeys { facts_type, facts: Ordered::default() };
        for (key, of_key) in facts {
            made.__setitem__(&key, of_key)?;
        }
        Ok(made)
    }

    fn __len__(&self) -> usize {
        self.facts.len()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let facts = self.facts.get(&bytes_of(key)?).ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))?;
        self.object(key.py(), facts)
    }

    fn __setitem__(&mut self, key: &Bound<'_, PyString>, facts: Py<PyAny>) -> PyResult<()> {
        self.facts.insert(bytes_of(key)?, Waiting::Python(facts));
        Ok(())
    }

    /// Return the keys.
    fn __iter__<'py>(keys: Bound<'py, Self>) -> PyResult<KeysIterator> {
        let at = keys.borrow().facts.first;
        Ok(KeysIterator { keys: keys.unbind(), at })
    }

    #[pyo3(signature = (key, default=None))]
    fn pop<'py>(&mut self, key: &Bound<'py, PyString>, default: Option<Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.facts.remove(&bytes_of(key)?) {
            Some(facts) => self.object(key.py(), &facts).map(Some),
            None => Ok(default),
        }
    }

    /// Add facts, from one on, as long as each begins a key and all have room, of which each takes `size` and its bytes.
    ///
    /// Return the number of facts, the room that they take, and how many of their keys are among those `evaluated` early.
    fn begin(
        &mut self,
        facts: &UndecidedFacts,
        start: usize,
        size: usize,
        room: usize,
        rule: &str,
        evaluated: Option<PyRef<'_, EvaluatedKeys>>,
    ) -> PyResult<(usize, usize, usize)> {
        caught(|| {
            let (mut count, mut added, mut known) = (0, 0, 0);
            for (_, key, packed, time) in facts.each(start) {
                let takes = size + key.len() + packed.len();
                if added + takes > room || self.facts.get(key).is_some() {
                    break;
                }
                known += evaluated.as_ref().is_some_and(|evaluated| evaluated.has(rule, key)) as usize;
                self.facts.insert(key.into(), Waiting::Undecided(packed.into(), time, 1));
                (count, added) = (count + 1, added + takes);
            }
            Ok((count, added, known))
        })
    }

    /// Add facts of a list, or placed ones, from one on, as long as each is of the same rule as this one and brings no finding on its own,
    /// and all have room, of which a key takes `size` and its bytes; but none to a key with one that does, or with so `many`.
    ///
    /// Return the number of facts, the room that they take, and how many of their keys are among those `evaluated` early.
    #[allow(clippy::too_many_arguments)]
    fn add(
        &mut self,
        facts: &Bound<'_, PyAny>,
        start: usize,
        size: usize,
        room: usize,
        many: usize,
        rule: &str,
        evaluated: Option<PyRef<'_, EvaluatedKeys>>,
    ) -> PyResult<(usize, usize, usize)> {
        let (mut added, mut known) = (0, 0);
        let mut take = |key: &[u8], packed: &[u8], time: i64| {
            let takes = match self.facts.get(key) {
                None => size + packed.len() + characters(key),
                Some(Waiting::Undecided(_, _, there)) if there + 1 < many => packed.len(),
                Some(_) => return false,
            };
            if added + takes > room {
                return false;
            }
            added += takes;
            if let Some(Waiting::Undecided(packs, latest, there)) = self.facts.renew(key) {
                packs.reserve_exact(packed.len());
                packs.extend_from_slice(packed);
                (*latest, *there) = (time.max(*latest), *there + 1);
            } else {
                known += evaluated.as_ref().is_some_and(|evaluated| evaluated.has(rule, key)) as usize;
                self.facts.insert(key.into(), Waiting::Undecided(packed.into(), time, 1));
            }
            true
        };
        let mut at = start;
        if let Ok(placed) = facts.cast::<PlacedFacts>() {
            let undecided = |at| placed.get().undecided(facts.py(), at, start);
            while undecided(at).is_some_and(|(key, packed, time)| take(key, packed, time)) {
                at += 1;
            }
        } else {
            let facts = facts.cast::<PyList>()?;
            let first = facts.get_item(start)?.cast_into::<PyTuple>()?.get_item(0)?;
            for fact in facts.iter().skip(start) {
                let fact = fact.cast_into::<PyTuple>()?;
                let of_rule = fact.get_borrowed_item(0)?;
                if fact.get_borrowed_item(4)?.is_truthy()? || !(of_rule.is(&first) || of_rule.eq(&first)?) {
                    break;
                }
                let (key, packed) = (fact.get_item(1)?.cast_into::<PyString>()?, fact.get_borrowed_item(2)?);
                let (Ok(key), Ok(time)) = (key.to_str(), fact.get_borrowed_item(3)?.extract()) else { break };
                if !take(key.as_bytes(), packed.cast_exact::<PyBytes>()?.as_bytes(), time) {
                    break;
                }
                at += 1;
            }
        }
        Ok((at - start, added, known))
    }

    /// Drop those of the first keys that bring no finding, if the rule is `quiet` about these, and remember all as evaluated.
    ///
    /// Return how much room that frees, the keys that are left to evaluate, and how many there was no room to remember.
    fn forget<'py>(
        &mut self,
        py: Python<'py>,
        count: usize,
        size: usize,
        quiet: bool,
        rule: &str,
        mut evaluated: PyRefMut<'py, EvaluatedKeys>,
    ) -> PyResult<(usize, Vec<Bound<'py, PyString>>, usize)> {
        let (mut freed, mut left, mut unknown, mut dropped) = (0, Vec::new(), 0, Vec::new());
        for (key, facts) in self.facts.iter().take(count) {
            unknown += !evaluated.insert(rule, key) as usize;
            let packed = match facts {
                Waiting::Undecided(packed, ..) if quiet => Some(packed.len()),
                Waiting::Python(facts) if quiet && !facts.bind(py).getattr(intern!(py, "deciding"))?.is_truthy()? => {
                    Some(facts.bind(py).getattr(intern!(py, "packs"))?.len()?)
                }
                _ => None,
            };
            match packed {
                Some(packed) => {
                    freed += size + packed + characters(key);
                    dropped.push(key.clone());
                }
                None => left.push(text_of(py, key)?),
            }
        }
        for key in dropped {
            self.facts.remove(&key);
        }
        Ok((freed, left, unknown))
    }
}

/// Keys of pending facts, one after the other.
#[pyclass(module = "pulsarscope_native")]
pub struct KeysIterator {
    keys: Py<PendingKeys>,
    at: u64,
}

#[pymethods]
impl KeysIterator {
    fn __iter__(iterator: PyRef<'_, Self>) -> PyRef<'_, Self> {
        iterator
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        let keys = self.keys.borrow(py);
        match keys.facts.from(self.at) {
            Some((number, key)) => {
                self.at = number + 1;
                text_of(py, key).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// A set of keys of rules by 32 bits of their hashes, as `engine.evaluated_keys` has it.
#[pyclass(module = "pulsarscope_native")]
pub struct EvaluatedKeys {
    hashes: RandomState,
    /// Zero is an empty one.
    slots: Vec<u32>,
    count: usize,
    max: usize,
}

impl EvaluatedKeys {
    /// Return the slot of a key, or the one that it would get, and what stands there for it.
    fn slot(&self, rule: &str, key: &[u8]) -> (usize, u32) {
        let number = self.hashes.hash_one((rule, key));
        let mark = ((number >> 32) as u32).max(1);
        let mut slot = (number % self.slots.len() as u64) as usize;
        while self.slots[slot] != 0 && self.slots[slot] != mark {
            slot = (slot + 1) % self.slots.len();
        }
        (slot, mark)
    }

    fn has(&self, rule: &str, key: &[u8]) -> bool {
        self.slots[self.slot(rule, key).0] != 0
    }

    /// Add a key; return false when there is no room for it.
    fn insert(&mut self, rule: &str, key: &[u8]) -> bool {
        let (slot, mark) = self.slot(rule, key);
        if self.slots[slot] == 0 {
            if self.count >= self.max {
                return false;
            }
            self.count += 1;
            self.slots[slot] = mark;
        }
        true
    }
}

#[pymethods]
impl EvaluatedKeys {
    /// Remember so many keys in more slots than that.
    #[new]
    fn new(max: usize, slots: usize) -> Self {
        EvaluatedKeys { hashes: RandomState::new(), slots: vec![0; slots.max(max + 1)], count: 0, max }
    }

    /// Return how many of some keys of a rule are here.
    fn count(&self, rule: &str, keys: Vec<Bound<'_, PyString>>) -> PyResult<usize> {
        let here = |key: &Bound<'_, PyString>| Ok(self.has(rule, &bytes_of(key)?) as usize);
        keys.iter().map(here).sum()
    }

    /// Add keys of a rule; return for how many there was no room.
    fn add(&mut self, rule: &str, keys: Vec<Bound<'_, PyString>>) -> PyResult<usize> {
        keys.iter().map(|key| Ok(!self.insert(rule, &bytes_of(key)?) as usize)).sum()
    }
}

/// Return a key in UTF-8, lone surrogates included.
fn bytes_of(key: &Bound<'_, PyString>) -> PyResult<Arc<[u8]>> {
    if let Ok(text) = key.to_str() {
        return Ok(text.as_bytes().into());
    }
    let py = key.py();
    let bytes = key.call_method1(intern!(py, "encode"), (intern!(py, "utf-8"), intern!(py, "surrogatepass")))?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().into())
}

/// Return the number of characters of a key.
fn characters(key: &[u8]) -> usize {
    key.iter().filter(|byte| (**byte as i8) >= -0x40).count()
}
