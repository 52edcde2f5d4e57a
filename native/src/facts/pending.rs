//! Facts that wait until their key is evaluated, and the keys that were evaluated early: most cause no finding, and need no Python object.

use std::hash::{BuildHasher, Hash, Hasher};
use std::hint::black_box;
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::caught;
use crate::encoding::number_keys::{NumberHasher, NumberHashing};
use crate::facts::ordered::Ordered;
use crate::facts::placed_facts::PlacedFacts;
use crate::facts::trimming::trimmed;
use crate::facts::undecided::{text_of, UndecidedFacts};

/// Facts of one key, see `engine.packed_facts.PendingFacts`.
struct Packed {
    packs: Vec<u8>,
    time: i64,
    count: u32,
    deciding: u32,
    trimmed: u32,
}

impl Packed {
    fn one(packed: &[u8], time: i64, decides: bool) -> Self {
        Packed { packs: packed.into(), time, count: 1, deciding: decides.into(), trimmed: 0 }
    }

    fn push(&mut self, packed: &[u8], time: i64, decides: bool) {
        if self.packs.capacity() < self.packs.len() + packed.len() {
            // Most keys have few facts, and some have very many.
            let spare = if self.count < GROWING { 0 } else { self.packs.len() / 8 };
            self.packs.reserve_exact(packed.len() + spare);
        }
        self.packs.extend_from_slice(packed);
        self.time = self.time.max(time);
        self.count += 1;
        self.deciding += u32::from(decides);
    }
}

/// Number of facts of a key from which spare room is reserved.
const GROWING: u32 = 4;

enum Waiting {
    Packed(Packed),
    /// A Python object, with values that do not fit the numbers here.
    Python(Py<PyAny>),
}

impl Waiting {
    fn new(facts: Bound<'_, PyAny>) -> PyResult<Self> {
        let py = facts.py();
        let packs = facts.getattr(intern!(py, "packs"))?;
        let packs = match (packs.cast::<PyBytes>(), packs.cast::<PyByteArray>()) {
            (Ok(bytes), _) => bytes.as_bytes().to_vec(),
            (_, Ok(bytes)) => bytes.to_vec(),
            _ => return Ok(Waiting::Python(facts.unbind())),
        };
        let number = |name| facts.getattr(name).and_then(|number| number.extract::<u32>());
        let time = facts.getattr(intern!(py, "time"))?.extract::<i64>();
        let numbers = (number(intern!(py, "count")), number(intern!(py, "deciding")), number(intern!(py, "trimmed")));
        match (time, numbers) {
            (Ok(time), (Ok(count), Ok(deciding), Ok(trimmed))) => Ok(Waiting::Packed(Packed { packs, time, count, deciding, trimmed })),
            _ => Ok(Waiting::Python(facts.unbind())),
        }
    }
}

/// Pending facts by key, the one silent for longest first: the part of a dict's interface that `engine.facts` needs.
#[pyclass(mapping, module = "pulsarscope_native")]
pub struct PendingKeys {
    facts_type: Py<PyAny>,
    facts: Ordered<Arc<[u8]>, Waiting>,
    /// Bytes of all facts, as Python counts them.
    #[pyo3(get, set)]
    size: usize,
}

impl PendingKeys {
    fn object<'py>(&self, py: Python<'py>, facts: &Waiting) -> PyResult<Bound<'py, PyAny>> {
        match facts {
            Waiting::Packed(facts) => {
                let numbers = (PyBytes::new(py, &facts.packs), facts.time, facts.count, facts.deciding, facts.trimmed);
                self.facts_type.bind(py).call1(numbers)
            }
            Waiting::Python(facts) => Ok(facts.bind(py).clone()),
        }
    }

    /// Add a fact, if it takes no more than `room`; a new key takes `size` and its characters. A key with twice as many facts as the
    /// evaluated ones, or as were left when it was trimmed, is trimmed: `idle` is the silence that separates its facts, `most` the number
    /// that is evaluated.
    ///
    /// Return the bytes that this takes, and whether the fact begins a key; None if Python has to add the fact.
    fn put(&mut self, (key, packed, time, decides): Fact<'_>, size: usize, room: i64, idle: i64, most: usize) -> Option<(i64, bool)> {
        let Some(known) = self.facts.get(key) else {
            let takes = size + packed.len() + characters(key);
            if takes as i64 > room {
                return None;
            }
            self.size += takes;
            self.facts.append(key.into(), Waiting::Packed(Packed::one(packed, time, decides)));
            return Some((takes as i64, true));
        };
        let Waiting::Packed(facts) = known else { return None };
        if packed.len() as i64 > room {
            return None;
        }
        let count = facts.count as usize + 1;
        let is_many = count >= 2 * most.max(facts.trimmed as usize);
        let left = if is_many { Some(trimmed(&[&facts.packs, packed].concat(), count, idle, most)?) } else { None };
        let Some(Waiting::Packed(facts)) = self.facts.renew(key) else { return None };
        let before = facts.packs.len();
        facts.push(packed, time, decides);
        if let Some((packs, count)) = left {
            (facts.packs, facts.count, facts.trimmed) = (packs, count, count);
        }
        let added = facts.packs.len() as i64 - before as i64;
        self.size = (self.size as i64 + added) as usize;
        Some((added, false))
    }
}

#[pymethods]
impl PendingKeys {
    /// Begin empty; `facts_type` makes the objects for the facts of a key.
    #[new]
    fn new(facts_type: Py<PyAny>) -> Self {
        PendingKeys { facts_type, facts: Ordered::default(), size: 0 }
    }

    fn __len__(&self) -> usize {
        self.facts.len()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let facts = self.facts.get(&bytes_of(key)?).ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))?;
        self.object(key.py(), facts)
    }

    fn __setitem__(&mut self, key: &Bound<'_, PyString>, facts: Bound<'_, PyAny>) -> PyResult<()> {
        self.facts.insert(bytes_of(key)?, Waiting::new(facts)?);
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

    /// Drop those of the first `count` keys that cause no finding, if the rule is `quiet` about these, and remember all as evaluated.
    ///
    /// Return the room freed, the keys that are left to evaluate, and the number of keys that could not be remembered for lack of room.
    fn forget<'py>(
        &mut self,
        py: Python<'py>,
        count: usize,
        size: usize,
        quiet: bool,
        rule: &str,
        mut evaluated: PyRefMut<'py, EvaluatedKeys>,
    ) -> PyResult<(usize, Vec<Bound<'py, PyString>>, usize)> {
        let (mut freed, mut left, mut kept, mut unknown) = (0, Vec::new(), Vec::new(), 0);
        let of_rule = evaluated.of_rule(rule);
        let mut keys = self.facts.iter().take(count).enumerate();
        let mut some = Vec::with_capacity(TOGETHER);
        loop {
            some.clear();
            some.extend(keys.by_ref().take(TOGETHER).map(|(at, (key, facts))| (at, key, facts, evaluated.reach(of_rule, key))));
            if some.is_empty() {
                break;
            }
            for (at, key, facts, number) in &some {
                unknown += !evaluated.insert(*number) as usize;
                let packed = match facts {
                    Waiting::Packed(facts) if quiet && facts.deciding == 0 => Some(facts.packs.len()),
                    Waiting::Python(facts) if quiet && !facts.bind(py).getattr(intern!(py, "deciding"))?.is_truthy()? => {
                        Some(facts.bind(py).getattr(intern!(py, "packs"))?.len()?)
                    }
                    _ => None,
                };
                if let Some(packed) = packed {
                    freed += size + packed + characters(key);
                } else {
                    left.push(text_of(py, key)?);
                    kept.push(*at);
                }
            }
        }
        drop((keys, some));
        self.facts.remove_first(count, &kept);
        self.size -= freed.min(self.size);
        Ok((freed, left, unknown))
    }
}

/// Number of keys that are looked up together, so that the memory of their slots is read at the same time.
const TOGETHER: usize = 32;

/// A fact: its key, packed form and time, and whether it may cause a finding on its own.
type Fact<'a> = (&'a [u8], &'a [u8], i64, bool);

/// Tables by rule, and the room in them.
struct Tables<'a, 'py> {
    /// By rule: pending keys, unsettled keys unless the rule reports only at the end, its name, and the silence that separates its facts.
    tables: &'a Bound<'py, PyDict>,
    size: usize,
    room: usize,
    most: usize,
    evaluated: Option<PyRef<'py, EvaluatedKeys>>,
    added: i64,
    /// Rule names of the keys that were evaluated early, one for each key.
    parted: Vec<Bound<'py, PyAny>>,
}

impl<'py> Tables<'_, 'py> {
    /// Add a fact; return false if Python has to do so.
    fn take(&mut self, rule: &Bound<'py, PyAny>, fact: Fact<'_>) -> PyResult<bool> {
        let Some(table) = self.tables.get_item(rule)? else { return Ok(false) };
        self.put(table.cast()?, fact, None)
    }

    /// Add a fact, whose key may have been reached by this number, to a table; return false if Python has to do so.
    fn put(&mut self, table: &Bound<'py, PyTuple>, fact: Fact<'_>, number: Option<u64>) -> PyResult<bool> {
        let mut keys = table.get_borrowed_item(0)?.cast::<PendingKeys>()?.borrow_mut();
        let idle = table.get_borrowed_item(3)?.extract()?;
        let Some((added, begins)) = keys.put(fact, self.size, self.room as i64 - self.added, idle, self.most) else { return Ok(false) };
        self.added += added;
        if begins {
            if let Some(evaluated) = &self.evaluated {
                let name = table.get_borrowed_item(2)?;
                let number = match number {
                    Some(number) => number,
                    None => evaluated.number(evaluated.of_rule(name.cast::<PyString>()?.to_str()?), fact.0),
                };
                if evaluated.has(number) {
                    self.parted.push(name.to_owned());
                }
            }
        }
        let unsettled = table.get_borrowed_item(1)?;
        if !unsettled.is_none() {
            unsettled.cast::<PyDict>()?.set_item(text_of(table.py(), fact.0)?, table.py().None())?;
        }
        Ok(true)
    }
}

/// Add facts of a list, or placed ones, from `start` on, as long as there is room; a key also takes some room and its characters. A key
/// with twice as many facts as are kept is trimmed. `sizes`: the room that a key takes, the total room, and the minimum number of facts
/// that are kept.
///
/// Return the number of facts, the room that they take, and the rule names of those whose key is in `evaluated`.
#[pyfunction]
pub fn add_facts<'py>(
    facts: &Bound<'py, PyAny>,
    start: usize,
    tables: &Bound<'py, PyDict>,
    sizes: (usize, usize, usize),
    evaluated: Option<PyRef<'py, EvaluatedKeys>>,
) -> PyResult<(usize, i64, Vec<Bound<'py, PyAny>>)> {
    let (py, (size, room, most)) = (facts.py(), sizes);
    let mut tables = Tables { tables, size, room, most, evaluated, added: 0, parted: Vec::new() };
    let mut at = start;
    if let Ok(placed) = facts.cast::<PlacedFacts>() {
        while let Some((rule, fact)) = placed.get().fact(py, at) {
            if !tables.take(rule.into_pyobject(py)?.as_any(), fact)? {
                break;
            }
            at += 1;
        }
    } else {
        for fact in facts.cast::<PyList>()?.iter().skip(start) {
            let fact = fact.cast_into::<PyTuple>()?;
            let (key, packed) = (fact.get_borrowed_item(1)?, fact.get_borrowed_item(2)?);
            let key = key.cast::<PyString>()?;
            let (Ok(key), Ok(time)) = (key.to_str(), fact.get_borrowed_item(3)?.extract()) else { break };
            let decides = fact.get_borrowed_item(4)?.is_truthy()?;
            if !tables.take(&fact.get_item(0)?, (key.as_bytes(), packed.cast::<PyBytes>()?.as_bytes(), time, decides))? {
                break;
            }
            at += 1;
        }
    }
    Ok((at - start, tables.added, tables.parted))
}

/// Add facts of one rule that cause no finding on their own, like `add_facts`.
#[pyfunction]
pub fn add_undecided<'py>(
    facts: PyRef<'py, UndecidedFacts>,
    start: usize,
    rule: &Bound<'py, PyString>,
    tables: &Bound<'py, PyDict>,
    sizes: (usize, usize, usize),
    evaluated: Option<PyRef<'py, EvaluatedKeys>>,
) -> PyResult<(usize, i64, Vec<Bound<'py, PyAny>>)> {
    caught(|| {
        let (size, room, most) = sizes;
        let mut tables = Tables { tables, size, room, most, evaluated, added: 0, parted: Vec::new() };
        let Some(table) = tables.tables.get_item(rule)? else { return Ok((0, 0, Vec::new())) };
        let table = table.cast::<PyTuple>()?;
        let name = table.get_item(2)?;
        let of_rule = match &tables.evaluated {
            Some(evaluated) => Some(evaluated.of_rule(name.cast::<PyString>()?.to_str()?)),
            None => None,
        };
        let (mut count, mut numbers) = (0, Vec::with_capacity(TOGETHER));
        let mut ahead = facts.each(start);
        for (_, key, packed, time) in facts.each(start) {
            if let (Some(evaluated), Some(of_rule), 0) = (&tables.evaluated, of_rule, count % TOGETHER) {
                numbers.clear();
                numbers.extend(ahead.by_ref().take(TOGETHER).map(|(_, key, ..)| evaluated.reach(of_rule, key)));
            }
            if !tables.put(table, (key, packed, time, false), numbers.get(count % TOGETHER).copied())? {
                break;
            }
            count += 1;
        }
        Ok((count, tables.added, tables.parted))
    })
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

/// A set of keys of rules by 32 bits of their hashes, like `engine.facts.EvaluatedKeys`.
#[pyclass(module = "pulsarscope_native")]
pub struct EvaluatedKeys {
    hashes: NumberHashing,
    /// Slots; 0 is an empty one.
    slots: Vec<u32>,
    count: usize,
    max: usize,
}

impl EvaluatedKeys {
    /// Return the beginning of the numbers of a rule's keys.
    fn of_rule(&self, rule: &str) -> NumberHasher {
        let mut hasher = self.hashes.build_hasher();
        rule.hash(&mut hasher);
        hasher
    }

    /// Return the number of a key, which tells its slot and its mark there.
    fn number(&self, mut of_rule: NumberHasher, key: &[u8]) -> u64 {
        key.hash(&mut of_rule);
        of_rule.finish()
    }

    /// Return the number of a key, whose slot is needed soon.
    fn reach(&self, of_rule: NumberHasher, key: &[u8]) -> u64 {
        let number = self.number(of_rule, key);
        black_box(self.slots[number as usize & (self.slots.len() - 1)]);
        number
    }

    /// Return the slot of a key given by its number, or the one that it would get, and its mark there.
    fn slot(&self, number: u64) -> (usize, u32) {
        let mark = ((number >> 32) as u32).max(1);
        let last = self.slots.len() - 1; // their number is a power of two, and a division takes as long as all the rest
        let mut slot = number as usize & last;
        while self.slots[slot] != 0 && self.slots[slot] != mark {
            slot = (slot + 1) & last;
        }
        (slot, mark)
    }

    fn has(&self, number: u64) -> bool {
        self.slots[self.slot(number).0] != 0
    }

    /// Add a key; return false if there is no room for it.
    fn insert(&mut self, number: u64) -> bool {
        let (slot, mark) = self.slot(number);
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
    /// Remember at most `max` keys in `slots` slots or more: more than that, and a power of two.
    #[new]
    fn new(max: usize, slots: usize) -> Self {
        EvaluatedKeys { hashes: NumberHashing::default(), slots: vec![0; slots.max(max + 1).next_power_of_two()], count: 0, max }
    }

    /// Return how many of these keys of a rule are in the set.
    fn count(&self, rule: &str, keys: Vec<Bound<'_, PyString>>) -> PyResult<usize> {
        let of_rule = self.of_rule(rule);
        let here = |key: &Bound<'_, PyString>| Ok(self.has(self.number(of_rule, &bytes_of(key)?)) as usize);
        keys.iter().map(here).sum()
    }

    /// Add keys of a rule; return the number of keys for which there was no room.
    fn add(&mut self, rule: &str, keys: Vec<Bound<'_, PyString>>) -> PyResult<usize> {
        let of_rule = self.of_rule(rule);
        keys.iter().map(|key| Ok(!self.insert(self.number(of_rule, &bytes_of(key)?)) as usize)).sum()
    }
}

/// Return a key in UTF-8, including lone surrogates.
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
