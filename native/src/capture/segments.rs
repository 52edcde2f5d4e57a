//! TCP segments of a flow.

use std::slice::SliceIndex;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::capture::pieces::{Piece, Pieces};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// A TCP segment; payload and options are ranges of a buffer.
#[derive(Clone, Copy)]
pub struct Segment {
    pub packet: i64,
    pub time: i64,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: u8,
    pub window: u16,
    pub missing: u32,
    pub identification: u16,
    pub buffer: u32,
    pub payload: (u32, u32),
    pub options: (u32, u32),
    /// The whole packet as stored; empty if Python has read it.
    pub stored: (u32, u32),
}

impl Segment {
    /// Size of its data, bytes.
    #[inline]
    pub fn size(&self) -> i64 {
        i64::from(self.payload.1 - self.payload.0)
    }

    /// Return where its bytes begin and end in its stream, both 0 if it has none there; see `Segments::copies`.
    pub fn place(&self, (sequence, length, farthest): (i64, i64, i64)) -> (i64, i64) {
        let own = i64::from(self.sequence) + i64::from(self.flags & SYN != 0);
        let distance = i64::from(own.wrapping_sub(sequence) as i32);
        if self.size() == 0 || distance.abs() > farthest {
            return (0, 0);
        }
        (length + distance, length + distance + self.size())
    }

    /// Number of sequence numbers of its data, of which the capture may have cut some.
    #[inline]
    pub fn span(&self) -> i64 {
        self.size() + i64::from(self.missing)
    }

    /// Return the number that it acknowledges, if any.
    pub fn acknowledges(&self) -> Option<u32> {
        (self.flags & ACK != 0).then_some(self.acknowledgment)
    }

    /// Return true if it has the next bytes of a stream, or none, and needs no closer examination.
    #[inline]
    pub fn is_in_order(&self, expected: i64) -> bool {
        self.window > 0 && (self.span() == 0 || i64::from(self.sequence) == expected)
    }
}

/// The segments of a flow in packet order: a sequence of `capture.Segment`, each made on access.
#[pyclass(sequence, module = "pulsarscope_native")]
pub struct Segments {
    pub buffers: Vec<Py<PyBytes>>,
    pub segments: Vec<Segment>,
}

impl Segments {
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Return some bytes of the packet of a segment.
    pub fn bytes<'a>(&'a self, py: Python<'a>, segment: &Segment, range: (u32, u32)) -> &'a [u8] {
        &self.buffers[segment.buffer as usize].as_bytes(py)[range.0 as usize..range.1 as usize]
    }

    /// Return pieces of these segments.
    pub fn pieces(&self, py: Python<'_>, pieces: Vec<Piece>) -> Pieces {
        Pieces { buffers: self.buffers.iter().map(|buffer| buffer.clone_ref(py)).collect(), pieces }
    }

    pub fn tuple<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
        let segment = self.segments.get(index).ok_or_else(|| PyIndexError::new_err("no such segment"))?;
        let data = self.buffers[segment.buffer as usize].as_bytes(py);
        let slice = |range: (u32, u32)| PyBytes::new(py, &data[range.0 as usize..range.1 as usize]);
        (
            segment.packet,
            segment.time,
            segment.sequence,
            segment.acknowledgment,
            segment.flags,
            segment.window,
            slice(segment.payload),
            segment.missing,
            segment.identification,
            slice(segment.options),
        )
            .into_pyobject(py)
    }

    pub fn tuples<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        (0..self.segments.len()).map(|index| self.tuple(py, index)).collect()
    }

    /// Position of the first segment with this packet number or a later one.
    pub fn place_of(&self, packet: i64) -> usize {
        self.segments.partition_point(|segment| segment.packet < packet)
    }

    /// Segments with this packet number or a later one.
    pub fn behind(&self, py: Python<'_>, packet: i64) -> Segments {
        self.part(py, self.place_of(packet)..)
    }

    pub fn part<Places: SliceIndex<[Segment], Output = [Segment]>>(&self, py: Python<'_>, places: Places) -> Segments {
        let buffers = self.buffers.iter().map(|buffer| buffer.clone_ref(py)).collect();
        Segments { buffers, segments: self.segments[places].to_vec() }
    }

    pub fn extend(&mut self, py: Python<'_>, others: &Segments) {
        let first = self.buffers.len() as u32;
        self.buffers.extend(others.buffers.iter().map(|buffer| buffer.clone_ref(py)));
        self.segments.extend(others.segments.iter().map(|segment| Segment { buffer: first + segment.buffer, ..*segment }));
    }
}

/// Return one of the packed integers.
pub fn packed(values: &[u8], at: usize) -> i64 {
    values.get(8 * at..).and_then(<[u8]>::first_chunk).map_or(0, |each| i64::from_ne_bytes(*each))
}

/// Return how many of the packed integers, in ascending order, are below a bound.
pub fn count_below(values: &[u8], bound: i64) -> usize {
    let (mut low, mut high) = (0, values.len() / 8);
    while low < high {
        let middle = low + (high - low) / 2;
        (low, high) = if packed(values, middle) < bound { (middle + 1, high) } else { (low, middle) };
    }
    low
}
