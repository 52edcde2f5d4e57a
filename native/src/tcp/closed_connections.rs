//! Ended connections, in few bytes each: very many wait for late packets, which most never get.

use crate::encoding::number_keys::NumberMap;
use std::collections::VecDeque;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Flow key: addresses and ports.
pub type Key = [u8; 12];

/// Connections per piece of memory, which is released when all of them are forgotten.
const TOGETHER: usize = 256;

/// Sequence number after a stream, its length, identification, options and size of its newest segment, and its number of segments with
/// data.
type StreamTuple<'py> = (u32, u32, u16, Bound<'py, PyBytes>, u32, u32);

/// First packet and its time; packet that closes the connection, and its time; file, number and time of the last packet; number of packets;
/// stream of the first FIN, and its time; both streams.
type ConnectionTuple<'py> = ((i64, i64), (i64, i64), (i64, i64, i64), i64, (usize, i64), StreamTuple<'py>, StreamTuple<'py>);

/// Numbers of the frames of client and server, and what both state about themselves, if connection rows are requested.
pub type Told<'py> = ((u32, u32), Option<Bound<'py, PyAny>>);

/// Flow key of the client, whether frames were read, file of the beginning, the state of TCP, what the frames told, and the process to
/// which it belongs, among those that share a run.
pub type ClosedTuple<'py> = (Bound<'py, PyBytes>, bool, i64, ConnectionTuple<'py>, Told<'py>, usize);

/// The values of `StreamTuple`; its options are in `ClosedTcp`.
pub struct ClosedStream {
    pub expected: u32,
    pub length: u32,
    pub size: u32,
    pub segments: u32,
    pub identification: u16,
    /// Size of its options, bytes.
    pub options: u8,
}

/// The values of `ConnectionTuple`.
pub struct ClosedTcp {
    pub begun: (i64, i64),
    pub closing: (i64, i64),
    /// File, number and time of the last packet: late packets may be in a later file than the others.
    pub last: (i64, i64, i64),
    pub packets: i64,
    /// Time of the first FIN.
    pub closing_time: i64,
    pub closed_by_server: bool,
    pub streams: [ClosedStream; 2],
    /// Options of both streams.
    pub options: Box<[u8]>,
}

impl ClosedTcp {
    fn tuple<'py>(&self, py: Python<'py>) -> ConnectionTuple<'py> {
        let (client, server) = self.options.split_at(usize::from(self.streams[0].options));
        let stream =
            |of: &ClosedStream, options| (of.expected, of.length, of.identification, PyBytes::new(py, options), of.size, of.segments);
        let closing = (usize::from(self.closed_by_server), self.closing_time);
        let streams = (stream(&self.streams[0], client), stream(&self.streams[1], server));
        (self.begun, self.closing, self.last, self.packets, closing, streams.0, streams.1)
    }
}

/// An ended connection.
pub struct Closed {
    pub key: Key,
    pub file: i64,
    /// Process to which it belongs.
    pub owner: usize,
    pub recognised: bool,
    pub tcp: ClosedTcp,
    /// See `Told`.
    pub frames: [u32; 2],
    pub described: Option<Py<PyAny>>,
}

impl Closed {
    pub fn tuple<'py>(&self, py: Python<'py>) -> ClosedTuple<'py> {
        let described = self.described.as_ref().map(|described| described.bind(py).clone());
        let told = ((self.frames[0], self.frames[1]), described);
        (PyBytes::new(py, &self.key), self.recognised, self.file, self.tcp.tuple(py), told, self.owner)
    }
}

/// Connections in the order in which they were closed.
#[derive(Default)]
pub struct ClosedConnections {
    pieces: VecDeque<Vec<Closed>>,
    /// Number of the first connection in the pieces, and of the oldest one that waits, or a lower one.
    first: usize,
    oldest: usize,
    /// Numbers of those that wait.
    numbers: NumberMap<Key, usize>,
    /// Those to be given up because their capture has ended, the last one first.
    finished: Vec<Key>,
}

impl ClosedConnections {
    /// Number of waiting connections.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn contains(&self, key: &Key) -> bool {
        self.numbers.contains_key(key)
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut ClosedTcp> {
        let place = self.numbers.get(key)? - self.first;
        Some(&mut self.pieces[place / TOGETHER][place % TOGETHER].tcp)
    }

    /// Add the connections that a block has closed.
    pub fn add(&mut self, mut closed: Vec<Closed>) {
        closed.sort_unstable_by_key(|closed| closed.tcp.closing.0);
        for each in closed {
            if self.pieces.back().is_none_or(|piece| piece.len() == TOGETHER) {
                self.pieces.push_back(Vec::with_capacity(TOGETHER));
            }
            let Some(piece) = self.pieces.back_mut() else { return };
            let key = each.key;
            piece.push(each);
            let end = self.first + (self.pieces.len() - 1) * TOGETHER + self.pieces[self.pieces.len() - 1].len();
            self.numbers.insert(key, end - 1);
        }
    }

    /// Give one up.
    pub fn take<'py>(&mut self, py: Python<'py>, key: &Key) -> Option<ClosedTuple<'py>> {
        let place = self.numbers.remove(key)? - self.first;
        Some(self.pieces[place / TOGETHER][place % TOGETHER].tuple(py))
    }

    /// Give up the oldest ones, at most `most`.
    pub fn take_oldest<'py>(&mut self, py: Python<'py>, most: usize) -> Vec<ClosedTuple<'py>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(oldest) = self.oldest() else { break };
            let key = oldest.key;
            taken.extend(self.take(py, &key));
        }
        taken
    }

    /// Give up those whose last packets came first, at most `most`; none is added until all are given up.
    pub fn take_finished<'py>(&mut self, py: Python<'py>, most: usize) -> Vec<ClosedTuple<'py>> {
        if self.finished.is_empty() {
            let pieces = &self.pieces;
            let last = |number: usize| &pieces[(number - self.first) / TOGETHER][(number - self.first) % TOGETHER].tcp.last;
            let mut finished: Vec<(Key, usize)> = self.numbers.iter().map(|(key, number)| (*key, *number)).collect();
            finished.sort_unstable_by_key(|(_, number)| std::cmp::Reverse((last(*number).0, last(*number).1, *number)));
            self.finished = finished.into_iter().map(|(key, _)| key).collect();
        }
        let left = self.finished.len().saturating_sub(most);
        let taken = self.finished.split_off(left);
        taken.iter().rev().filter_map(|key| self.take(py, key)).collect()
    }

    /// Return file and packet at which the oldest one was closed.
    pub fn oldest_place(&mut self) -> Option<(i64, i64)> {
        self.oldest().map(|oldest| (oldest.file, oldest.tcp.closing.0))
    }

    /// Return the oldest one if its last packet is before a time, and it was closed before a place.
    pub fn overdue(&mut self, time: i64, before: (i64, i64)) -> Option<Key> {
        self.oldest().filter(|oldest| oldest.tcp.last.2 < time && (oldest.file, oldest.tcp.closing.0) < before).map(|oldest| oldest.key)
    }

    /// Forget one.
    pub fn forget(&mut self, key: &Key) {
        self.numbers.remove(key);
    }

    /// Return the oldest waiting one; forget those before it.
    fn oldest(&mut self) -> Option<&Closed> {
        loop {
            let place = self.oldest - self.first;
            let closed = self.pieces.front()?.get(place)?;
            if self.numbers.get(&closed.key) == Some(&self.oldest) {
                break;
            }
            self.oldest += 1;
            if place + 1 == TOGETHER {
                self.pieces.pop_front();
                self.first = self.oldest;
            }
        }
        self.pieces.front()?.get(self.oldest - self.first)
    }
}
