//! Counts of frames in columns, by their names, for statistics.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::frames::{Frame, Frames};

/// Frames of one connection, direction and command, with the same names.
struct Group<'py> {
    names: [Bound<'py, PyAny>; 6],
    frames: u64,
    messages: i64,
    size: u64,
    earliest: i64,
    latest: i64,
}

/// Latencies, as `model.latency.Latencies` counts them.
#[derive(Default)]
struct Histogram {
    buckets: HashMap<i64, u64>,
    smallest: Option<i64>,
    largest: Option<i64>,
}

impl Histogram {
    fn add(&mut self, latency: i64, octave_bits: u32) {
        let shift = i64::from(64 - latency.leading_zeros()) - i64::from(octave_bits) - 1;
        let bucket = if shift <= 0 { latency } else { (shift << octave_bits) + (latency >> shift) };
        *self.buckets.entry(bucket).or_default() += 1;
        self.smallest = Some(self.smallest.map_or(latency, |smallest| smallest.min(latency)));
        self.largest = Some(self.largest.map_or(latency, |largest| largest.max(latency)));
    }
}

/// What tells groups apart: batch, connection, side, command, topic, subscription, and the name of the producer as number or text.
pub type Key<'a> = (u32, usize, bool, u8, u32, u32, Result<u32, &'a [u8]>);

pub fn key_of<'a, 'py: 'a>(py: Python<'py>, batch: u32, frames: &'a Frames, frame: &Frame) -> Key<'a> {
    let (parts, named) = (frame.parts(), &frame.named);
    let producer = parts.numbers.name.map_or(Ok(named.producer), |range| Err(frames.slice(py, frame, range)));
    (batch, frames.connection(frame), frames.is_client(frame), parts.command, named.topic, named.subscription, producer)
}

/// What tells groups of exchanges apart: batch, connection, number of the request, 0 for a SEND, and topic, producer and subscription.
type ExchangeKey = (u32, usize, u8, u32, u32, u32);

/// Exchanges of one connection, with the same request and names: connection, request, status, topic, producer and subscription.
struct Exchanges<'py> {
    names: [Bound<'py, PyAny>; 6],
    latencies: Histogram,
}

/// Places of exchanges by latency, the shortest one of the latest first.
type Slowest = BinaryHeap<Reverse<(i64, Reverse<usize>)>>;

/// Groups of frames and of exchanges, and the slowest exchanges of each request.
pub struct Counts<'a, 'py> {
    py: Python<'py>,
    octave_bits: u32,
    slowest_max: usize,
    places: HashMap<Key<'a>, usize>,
    latest: Option<(Key<'a>, usize)>,
    groups: Vec<(usize, Group<'py>)>,
    places_of_exchanges: HashMap<ExchangeKey, usize>,
    exchanges: Vec<(usize, Exchanges<'py>)>,
    slowest: HashMap<u8, Slowest>,
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
                let text = |number| frames.known(py, number).map_or_else(|| py.None().into_bound(py), Bound::into_any);
                let names = [
                    frames.names(frame)[2].bind(py).clone(),
                    frames.request_name(py, frame)?.text.bind(py).clone().into_any(),
                    frames.reader.bind(py).get().ok.bind(py).clone().into_any(),
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
        let text = |text: Option<Bound<'py, PyString>>| text.map_or_else(|| py.None().into_bound(py), Bound::into_any);
        let [_, _, connection, _, direction] = frames.names(frame);
        let names = [
            connection.bind(py).clone(),
            direction.bind(py).clone(),
            frames.command(&frames.reader.bind(py).get().tables, frame)?.name.text.bind(py).clone().into_any(),
            text(frames.known(py, frame.named.topic)),
            text(frames.producer_name(py, frame)),
            text(frames.known(py, frame.named.subscription)),
        ];
        let (earliest, latest) = (i64::MAX, i64::MIN);
        self.places.insert(key, self.groups.len());
        self.groups.push((place, Group { names, frames: 0, messages: 0, size: 0, earliest, latest }));
        Ok(self.groups.len() - 1)
    }

    /// Return the places of the slowest exchanges of each request; of equal ones the first.
    pub fn slowest(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self.slowest.values().flatten().map(|Reverse((_, Reverse(place)))| *place).collect();
        places.sort_unstable();
        places
    }

    /// Return the place of the first frame of each group, and the group: names, (frames, messages, bytes), and (earliest, latest time).
    pub fn groups(&mut self) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
        let py = self.py;
        let group = |(place, group): (usize, Group<'py>)| {
            let counts = (group.frames, group.messages, group.size);
            let names = PyList::new(py, group.names)?.to_tuple();
            let made = (names, counts, (group.earliest, group.latest)).into_pyobject(py)?;
            Ok((place, made.into_any()))
        };
        std::mem::take(&mut self.groups).into_iter().map(group).collect()
    }

    /// Return the place of the first frame of each group of exchanges, and the group: names, and smallest and largest latency with numbers by
    /// bucket.
    pub fn exchanges(&mut self) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
        let py = self.py;
        let group = |(place, Exchanges { names, latencies }): (usize, Exchanges<'py>)| {
            let names = PyList::new(py, names)?.to_tuple();
            let made = (names, (latencies.smallest, latencies.largest, latencies.buckets)).into_pyobject(py)?;
            Ok((place, made.into_any()))
        };
        std::mem::take(&mut self.exchanges).into_iter().map(group).collect()
    }
}
