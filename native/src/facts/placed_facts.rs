//! Facts of several processes, packed as received, in the order of their places, without a Python object for each.

use std::borrow::Cow;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::capture::segments::packed as packed_number;
use crate::caught;
use crate::encoding::pack;
use crate::encoding::unpack::Reader;
use crate::encoding::wire::Range;
use crate::facts::undecided::UndecidedFacts;

/// Length of the longest place of a fact, numbers.
const PLACE_MAX: usize = 4;

struct PlacedFact {
    place: [i64; PLACE_MAX],
    numbers: usize,
    rule: i64,
    buffer: usize,
    key: Range,
    packed: Range,
    time: i64,
    decides: bool,
}

impl PlacedFact {
    fn place(&self) -> &[i64] {
        &self.place[..self.numbers]
    }
}

#[pyclass(sequence, frozen, module = "pulsarscope_native")]
pub struct PlacedFacts {
    buffers: Vec<Py<PyBytes>>,
    facts: Vec<PlacedFact>,
}

impl PlacedFacts {
    fn bytes<'a>(&'a self, py: Python<'a>, buffer: usize, range: Range) -> &'a [u8] {
        &self.buffers[buffer].as_bytes(py)[range.0 as usize..range.1 as usize]
    }

    /// Return the rule number of a fact, and its key, packed form, time, and whether it may cause a finding on its own.
    #[allow(clippy::type_complexity)]
    pub fn fact<'a>(&'a self, py: Python<'a>, at: usize) -> Option<(i64, (&'a [u8], &'a [u8], i64, bool))> {
        let fact = self.facts.get(at)?;
        let (key, packed) = (self.bytes(py, fact.buffer, fact.key), self.bytes(py, fact.buffer, fact.packed));
        Some((fact.rule, (key, packed, fact.time, fact.decides)))
    }
}

#[pymethods]
impl PlacedFacts {
    /// Take the output of `parallel.channel.pack_facts`. Raises ValueError if it is anything else.
    #[new]
    fn new(py: Python<'_>, packed: Vec<Py<PyBytes>>) -> PyResult<Self> {
        caught(|| {
            let mut facts = Vec::new();
            for (buffer, bytes) in packed.iter().enumerate() {
                let mut reader = Reader { bytes: bytes.as_bytes(py), at: 0 };
                let read = reader.facts(buffer, &mut facts);
                read.filter(|_| reader.at == reader.bytes.len()).ok_or_else(|| PyValueError::new_err("no packed facts"))?;
            }
            facts.sort_by(|one, other| one.place().cmp(other.place()));
            Ok(PlacedFacts { buffers: packed, facts })
        })
    }

    fn __len__(&self) -> usize {
        self.facts.len()
    }

    /// Return a fact as `engine.row_batch.KeyedFact`.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: usize,
    ) -> PyResult<(i64, Bound<'py, PyString>, Bound<'py, PyBytes>, i64, bool, Bound<'py, PyTuple>)> {
        let fact = self.facts.get(index).ok_or_else(|| PyIndexError::new_err("no such fact"))?;
        let key = PyString::from_bytes(py, self.bytes(py, fact.buffer, fact.key))?;
        let packed = PyBytes::new(py, self.bytes(py, fact.buffer, fact.packed));
        Ok((fact.rule, key, packed, fact.time, fact.decides, PyTuple::new(py, fact.place())?))
    }
}

/// A fact that a row caused: position of the row, position of the rule of its connection, then rule, key, packed form, time, and whether it
/// may cause a finding on its own.
type Brought<'a> = (i64, i64, i64, Cow<'a, [u8]>, Cow<'a, [u8]>, i64, bool);

/// Return a fact from an effect of `engine.rule_engine`; None for any other effect, or one whose numbers exceed 64 bits.
fn brought_fact<'a>(effect: &Bound<'_, PyAny>, numbers: &Bound<'_, PyDict>) -> PyResult<Option<Brought<'a>>> {
    let effect = effect.cast::<PyTuple>()?;
    if !effect.get_borrowed_item(1)?.is_none() {
        return Ok(None);
    }
    let (position, number) = effect.get_borrowed_item(0)?.extract()?;
    let values = effect.get_borrowed_item(2)?;
    let values = values.cast::<PyTuple>()?;
    let (Some(rule), Ok(key), Ok(time)) = (
        numbers.get_item(values.get_borrowed_item(0)?)?,
        values.get_borrowed_item(1)?.cast::<PyString>()?.to_str().map(|key| key.as_bytes().to_vec()),
        values.get_borrowed_item(3)?.extract(),
    ) else {
        return Ok(None);
    };
    let packed = values.get_borrowed_item(2)?.cast::<PyBytes>()?.as_bytes().to_vec();
    let decides = values.get_borrowed_item(4)?.is_truthy()?;
    Ok(Some((position, number, rule.extract()?, key.into(), packed.into(), time, decides)))
}

/// Return the facts that rows caused, packed like by `parallel.channel.pack_facts`, and their number.
///
/// `brought`: effects of rows, as in `engine.rule_engine`; `undecided`: facts with the positions of the rules of their connections, and
/// their rules; `keys`: one for every two positions; `made`: phase and number of the first place; `numbers`: numbers of rules. None if an
/// effect is not a fact, or one that cannot be packed.
#[pyfunction]
pub fn place_facts<'py>(
    py: Python<'py>,
    brought: &Bound<'py, PyList>,
    undecided: Vec<(i64, Bound<'py, PyString>, PyRef<'py, UndecidedFacts>)>,
    keys: &[u8],
    made: (i64, i64),
    numbers: &Bound<'py, PyDict>,
) -> PyResult<Option<(Bound<'py, PyBytes>, usize)>> {
    let mut facts: Vec<Brought> = Vec::with_capacity(brought.len());
    for effect in brought.iter() {
        let Some(fact) = brought_fact(&effect, numbers)? else { return Ok(None) };
        facts.push(fact);
    }
    for (number, rule, some) in &undecided {
        let Some(rule) = numbers.get_item(rule)? else { return Ok(None) };
        let rule = rule.extract()?;
        facts.extend(some.each(0).map(|(position, key, packed, time)| (position, *number, rule, key.into(), packed.into(), time, false)));
    }
    facts.sort_by_key(|fact| (fact.0, fact.1));
    let mut out = vec![0xdd];
    out.extend((facts.len() as u32).to_be_bytes());
    for (at, (position, _, rule, key, packed, time, decides)) in (made.1..).zip(&facts) {
        let place = usize::try_from(position / 2).ok().and_then(|place| keys.chunks_exact(16).nth(place));
        let (Some(place), Ok(key)) = (place, std::str::from_utf8(key)) else { return Ok(None) };
        let (order, connection) = (packed_number(place, 0), packed_number(place, 1));
        pack::array(6, &mut out);
        pack::number(*rule, &mut out);
        pack::text(key, &mut out);
        pack::bytes(packed, &mut out);
        pack::number(*time, &mut out);
        pack::boolean(*decides, &mut out);
        pack::array(3, &mut out);
        for number in [order | made.0, connection, at] {
            pack::number(number, &mut out);
        }
    }
    Ok(Some((PyBytes::new(py, &out), facts.len())))
}

impl Reader<'_> {
    fn facts(&mut self, buffer: usize, facts: &mut Vec<PlacedFact>) -> Option<()> {
        for _ in 0..self.array()? {
            if self.array()? != 6 {
                return None;
            }
            let (rule, key, packed, time) = (self.number()?, self.range()?, self.range()?, self.number()?);
            let decides = match self.byte()? {
                0xc2 => false,
                0xc3 => true,
                _ => return None,
            };
            let numbers = self.array().filter(|numbers| *numbers <= PLACE_MAX)?;
            let mut place = [0; PLACE_MAX];
            for number in &mut place[..numbers] {
                *number = self.number()?;
            }
            facts.push(PlacedFact { place, numbers, rule, buffer, key, packed, time, decides });
        }
        Some(())
    }
}
