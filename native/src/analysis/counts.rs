//! Counts of frames in columns, by their names, for statistics.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyString, PyTuple};

use crate::encoding::number_keys::NumberMap;
use crate::frames::{Frame, Frames};

/// Frames of one connection, direction and command, with the same topic, producer and subscription.
struct Group {
    names: [Py<PyAny>; 6],
    frames: u64,
    messages: i64,
    size: u64,
    earliest: i64,
    latest: i64,
}

/// Latencies, counted like `model.latency.Latencies`.
#[derive(Clone, Default)]
struct Histogram {
    buckets: NumberMap<i64, u64>,
    smallest: Option<i64>,
    largest: Option<i64>,
}

impl Histogram {
    fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.smallest = self.smallest.into_iter().chain(other.smallest).min();
        self.largest = self.largest.into_iter().chain(other.largest).max();
    }

    fn add(&mut self, latency: i64, octave_bits: u32) {
        let shift = i64::from(64 - latency.leading_zeros()) - i64::from(octave_bits) - 1;
        let bucket = if shift <= 0 { latency } else { (shift << octave_bits) + (latency >> shift) };
        *self.buckets.entry(bucket).or_default() += 1;
        self.smallest = Some(self.smallest.map_or(latency, |smallest| smallest.min(latency)));
        self.largest = Some(self.largest.map_or(latency, |largest| largest.max(latency)));
    }
}

/// Key of a group: batch, connection, side, command, topic, subscription, and the name of the producer as number or text.
pub type Key<'a> = (u32, usize, bool, u8, u32, u32, Result<u32, &'a [u8]>);

pub fn key_of<'a, 'py: 'a>(py: Python<'py>, batch: u32, frames: &'a Frames, frame: &Frame) -> Key<'a> {
    let (parts, named) = (frame.parts(), &frame.named);
    let producer = parts.numbers.name.map_or(Ok(named.producer), |range| Err(frames.slice(py, frame, range)));
    (batch, frames.connection(frame), frames.is_client(frame), parts.command, named.topic, named.subscription, producer)
}

/// Key of a group of exchanges: batch, connection, number of the request (0 for a SEND), topic, producer and subscription.
type ExchangeKey = (u32, usize, u8, u32, u32, u32);

/// Exchanges of one connection with the same request and names: connection, request, status, topic, producer and subscription.
struct Exchanges {
    names: [Py<PyAny>; 6],
    latencies: Histogram,
}

/// Places of exchanges by latency; first the shortest latency, of equal ones the latest.
type Slowest = BinaryHeap<Reverse<(i64, Reverse<usize>)>>;

/// Groups of frames and of exchanges, and the slowest exchanges of each request.
pub struct Counts<'a, 'py> {
    py: Python<'py>,
    octave_bits: u32,
    slowest_max: usize,
    places: NumberMap<Key<'a>, usize>,
    latest: Option<(Key<'a>, usize)>,
    groups: Vec<(usize, Group)>,
    places_of_exchanges: NumberMap<ExchangeKey, usize>,
    exchanges: Vec<(usize, Exchanges)>,
    slowest: NumberMap<u8, Slowest>,
}

impl<'a, 'py> Counts<'a, 'py> {
    pub fn new(py: Python<'py>, octave_bits: u32, slowest_max: usize) -> Self {
        let (places, groups, places_of_exchanges, exchanges, slowest) = Default::default();
        Counts { py, octave_bits, slowest_max, places, latest: None, groups, places_of_exchanges, exchanges, slowest }
    }

    /// Count the frame at a place.
    pub fn add(&mut self, place: usize, batch: u32, frames: &'a Frames, frame: &'a Frame) -> PyResult<()>
    where
        'py: 'a,
    {
        let named = &frame.named;
        let key = key_of(self.py, batch, frames, frame);
        let at = match self.latest {
            Some((latest, at)) if latest == key => at,
            _ => match self.places.get(&key) {
                Some(at) => *at,
                None => self.begin(place, key, frames, frame)?,
            },
        };
        self.latest = Some((key, at));
        let group = &mut self.groups[at].1;
        group.frames += 1;
        group.messages += named.messages.unwrap_or(0).max(0);
        group.size += u64::from(frame.size());
        group.earliest = group.earliest.min(frame.time);
        group.latest = group.latest.max(frame.time);
        if let Some(latency) = named.latency {
            group.earliest = group.earliest.min(frame.time - latency);
            self.add_exchange((place, batch), frames, frame, latency)?;
        }
        Ok(())
    }

    fn add_exchange(&mut self, (place, batch): (usize, u32), frames: &Frames, frame: &Frame, latency: i64) -> PyResult<()> {
        let asked = frames.asked_by(frame);
        let key = (batch, frames.connection(frame), asked.command, asked.topic, asked.producer, asked.subscription);
        let at = match self.places_of_exchanges.get(&key) {
            Some(at) => *at,
            None => {
                let py = self.py;
                let text = |number| frames.known(py, number).map_or_else(|| py.None(), |text| text.into_any().unbind());
                let names = [
                    frames.names(frame)[2].clone_ref(py),
                    frames.request_name(py, frame)?.text.clone_ref(py).into_any(),
                    frames.reader.bind(py).get().ok.clone_ref(py).into_any(),
                    text(asked.topic),
                    text(asked.producer),
                    text(asked.subscription),
                ];
                self.exchanges.push((place, Exchanges { names, latencies: Histogram::default() }));
                self.places_of_exchanges.insert(key, self.exchanges.len() - 1);
                self.exchanges.len() - 1
            }
        };
        self.exchanges[at].1.latencies.add(latency, self.octave_bits);
        let slowest = self.slowest.entry(asked.command).or_default();
        slowest.push(Reverse((latency, Reverse(place))));
        if slowest.len() > self.slowest_max {
            slowest.pop();
        }
        Ok(())
    }

    fn begin(&mut self, place: usize, key: Key<'a>, frames: &Frames, frame: &Frame) -> PyResult<usize> {
        let py = self.py;
        let text = |text: Option<Bound<'py, PyString>>| text.map_or_else(|| py.None(), |text| text.into_any().unbind());
        let [_, _, connection, _, direction] = frames.names(frame);
        let names = [
            connection.clone_ref(py),
            direction.clone_ref(py),
            frames.command(&frames.reader.bind(py).get().tables, frame)?.name.text.clone_ref(py).into_any(),
            text(frames.known(py, frame.named.topic)),
            text(frames.producer_name(py, frame)),
            text(frames.known(py, frame.named.subscription)),
        ];
        let (earliest, latest) = (i64::MAX, i64::MIN);
        self.places.insert(key, self.groups.len());
        self.groups.push((place, Group { names, frames: 0, messages: 0, size: 0, earliest, latest }));
        Ok(self.groups.len() - 1)
    }

    /// Return the counts of `rows` rows; `exchange` makes the row of an exchange at a place.
    pub fn counted(self, rows: usize, exchange: impl Fn(usize) -> PyResult<Option<(usize, Py<PyAny>)>>) -> PyResult<Counted> {
        let mut places: Vec<usize> = self.slowest.values().flatten().map(|Reverse((_, Reverse(place)))| *place).collect();
        places.sort_unstable();
        let slowest = places.into_iter().filter_map(|place| exchange(place).transpose()).collect::<PyResult<_>>()?;
        Ok(Counted { rows, groups: self.groups, exchanges: self.exchanges, slowest })
    }
}

/// Counts of frames and exchanges. Each has the place of the first frame that it counts; those of one table are in this order.
#[pyclass(module = "pulsarscope_native")]
pub struct Counted {
    rows: usize,
    groups: Vec<(usize, Group)>,
    exchanges: Vec<(usize, Exchanges)>,
    slowest: Vec<(usize, Py<PyAny>)>,
}

/// Number of a table of statistics (as in `analysis.statistics`), and the names of an entry, one of which may be missing.
type Entry = (u8, usize, Option<usize>);

const CONNECTION: u8 = 0;
const KIND: u8 = 1;
const TOPIC: u8 = 2;
const PRODUCER: u8 = 3;
const SUBSCRIPTION: u8 = 4;

/// Return the entries that names belong to: those of connection, kind of frame or exchange, topic, producer and subscription.
fn entries([connection, names @ ..]: [&Py<PyAny>; 5], py: Python<'_>) -> impl Iterator<Item = Entry> {
    let [kind, topic, producer, subscription] = names.map(|name| (!name.is_none(py)).then(|| name.as_ptr() as usize));
    let first = [Some((CONNECTION, connection.as_ptr() as usize, None)), kind.map(|name| (KIND, name, None))];
    let others = [topic.map(|name| (TOPIC, name, None)), producer.map(|name| (PRODUCER, name, topic))];
    first.into_iter().chain(others).chain([subscription.map(|name| (SUBSCRIPTION, name, topic))]).flatten()
}

/// Connections with their own entries, if no others get one: the others share an entry without a name.
struct Listed<'py> {
    all: Option<Bound<'py, PyDict>>,
    none: Py<PyAny>,
}

impl Listed<'_> {
    /// Return the name of the entry of a connection.
    fn entry<'a>(&'a self, name: &'a Py<PyAny>) -> PyResult<&'a Py<PyAny>> {
        let is_listed = self.all.as_ref().map_or(Ok(true), |all| all.contains(name))?;
        Ok(if is_listed { name } else { &self.none })
    }
}

#[pymethods]
impl Counted {
    /// Return the number of all places.
    fn __len__(&self) -> usize {
        self.rows
    }

    /// Return the slowest exchanges of each request, with their places; of equally slow ones, the first.
    #[getter]
    fn slowest<'py>(&self, py: Python<'py>) -> Vec<(usize, Bound<'py, PyAny>)> {
        self.slowest.iter().map(|(place, row)| (*place, row.bind(py).clone())).collect()
    }

    /// Return the place and the names of each group of frames: connection, direction, command, topic, producer and subscription.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Vec<(usize, Bound<'py, PyTuple>)>> {
        self.groups.iter().map(|(place, group)| Ok((*place, PyTuple::new(py, &group.names)?))).collect()
    }

    /// Return the earliest and the latest time, None without frames.
    fn span(&self) -> Option<(i64, i64)> {
        let earliest = self.groups.iter().map(|(_, group)| group.earliest).min();
        earliest.zip(self.groups.iter().map(|(_, group)| group.latest).max())
    }

    /// Return the names of commands with which clients sent messages.
    fn carriers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        let carriers = PySet::empty(py)?;
        for (_, group) in self.groups.iter().filter(|(_, group)| group.messages > 0) {
            if group.names[1].extract::<&str>(py)? == "client" {
                carriers.add(&group.names[2])?;
            }
        }
        Ok(carriers)
    }

    /// Return the counts of frames in each entry and direction: place, number of the table, names, direction, frames, messages and bytes.
    /// `listed` are the connections that have entries; None if others may get one.
    fn frames<'py>(&self, py: Python<'py>, listed: Option<Bound<'py, PyDict>>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let listed = Listed { all: listed, none: py.None() };
        let mut numbers: NumberMap<(Entry, usize), usize> = NumberMap::default();
        let mut counts: Vec<(usize, Entry, &Group, [i64; 3])> = Vec::new();
        for (place, group) in &self.groups {
            let [connection, direction, command, topic, producer, subscription] = &group.names;
            let connection = listed.entry(connection)?;
            for entry in entries([connection, command, topic, producer, subscription], py) {
                let at = *numbers.entry((entry, direction.as_ptr() as usize)).or_insert(counts.len());
                if at == counts.len() {
                    counts.push((*place, entry, group, [0; 3]));
                }
                let sum = &mut counts[at].3;
                *sum = [sum[0] + group.frames as i64, sum[1] + group.messages, sum[2] + group.size as i64];
            }
        }
        let made = |(place, (table, ..), group, [frames, messages, size]): (usize, Entry, &Group, [i64; 3])| {
            let [connection, direction, command, topic, producer, subscription] = &group.names;
            let names = names_of(table, [listed.entry(connection)?, command, topic, producer, subscription], py)?;
            (place, table, names, direction, frames, messages, size).into_pyobject(py)
        };
        counts.into_iter().map(made).collect()
    }

    /// Return the counts of exchanges in each entry: place, number of the table, names, status, count, and the latencies that count there:
    /// the smallest, the largest, and the number of those in each bucket. In a kind, all latencies count, elsewhere those of `carriers`.
    /// `listed`: see `frames`.
    fn exchanges<'py>(
        &self,
        py: Python<'py>,
        carriers: &Bound<'py, PySet>,
        listed: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let listed = Listed { all: listed, none: py.None() };
        let mut numbers: NumberMap<Entry, usize> = NumberMap::default();
        let mut counts: Vec<(usize, Entry, &Exchanges, u64, Histogram)> = Vec::new();
        for (place, exchanges) in &self.exchanges {
            let [connection, request, _, topic, producer, subscription] = &exchanges.names;
            let (carries, connection) = (carriers.contains(request)?, listed.entry(connection)?);
            for entry in entries([connection, request, topic, producer, subscription], py) {
                let at = *numbers.entry(entry).or_insert(counts.len());
                if at == counts.len() {
                    counts.push((*place, entry, exchanges, 0, Histogram::default()));
                }
                counts[at].3 += exchanges.latencies.buckets.values().sum::<u64>();
                if carries || entry.0 == KIND {
                    counts[at].4.merge(&exchanges.latencies);
                }
            }
        }
        let made = |(place, (table, ..), exchanges, count, latencies): (usize, Entry, &Exchanges, u64, Histogram)| {
            let [connection, request, status, topic, producer, subscription] = &exchanges.names;
            let names = names_of(table, [listed.entry(connection)?, request, topic, producer, subscription], py)?;
            let latencies = latencies.smallest.map(|smallest| (smallest, latencies.largest, latencies.buckets));
            (place, table, names, status, count, latencies).into_pyobject(py)
        };
        counts.into_iter().map(made).collect()
    }
}

/// Return the names of an entry of a table: a single one or, with producers and subscriptions, the topic and the name.
fn names_of<'py>(table: u8, names: [&Py<PyAny>; 5], py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    let name = names[table as usize].bind(py);
    if table < PRODUCER {
        return Ok(name.clone());
    }
    Ok((names[TOPIC as usize], name).into_pyobject(py)?.into_any())
}
