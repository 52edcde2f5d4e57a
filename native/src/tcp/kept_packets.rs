//! Packets of short connections, kept until it is known whether Python must read them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::capture::segments::{Segment, Segments};
use crate::tcp::closed_connections::Key;

/// A packet with its flow key.
pub type KeyedSegment<'py> = (Bound<'py, PyBytes>, Bound<'py, PyTuple>);

/// A packet: the values of `Segment`, and the ends of its payload and options in the bytes of all packets.
pub struct Packet {
    number: i64,
    time: i64,
    sequence: u32,
    acknowledgment: u32,
    payload: u32,
    options: u32,
    window: u16,
    identification: u16,
    flags: u8,
    of_client: bool,
}

/// Packets of a connection, and their bytes.
#[derive(Default)]
pub struct Kept {
    pub packets: Vec<Packet>,
    pub bytes: Vec<u8>,
}

impl Kept {
    /// Memory, bytes.
    pub fn size(&self) -> usize {
        self.packets.len() * size_of::<Packet>() + self.bytes.len()
    }

    /// Number of the first packet.
    pub fn first(&self) -> Option<i64> {
        self.packets.first().map(|packet| packet.number)
    }

    /// Add a packet.
    pub fn add(&mut self, py: Python<'_>, of_client: bool, of: &Segments, segment: &Segment) {
        let Segment { packet: number, time, sequence, acknowledgment, window, identification, flags, .. } = *segment;
        let [payload, options] = [segment.payload, segment.options].map(|range| {
            self.bytes.extend_from_slice(of.bytes(py, segment, range));
            self.bytes.len() as u32
        });
        let kept = Packet { number, time, sequence, acknowledgment, payload, options, window, identification, flags, of_client };
        self.packets.push(kept);
    }

    /// Return the segments, each with whether the client sent it.
    fn segments(self, py: Python<'_>) -> (Vec<bool>, Segments) {
        let mut start = 0;
        let segment = |kept: &Packet| {
            let Packet { number: packet, time, sequence, acknowledgment, window, identification, flags, .. } = *kept;
            let (payload, options) = ((start, kept.payload), (kept.payload, kept.options));
            start = kept.options;
            let (missing, buffer, stored) = (0, 0, (0, 0));
            Segment { packet, time, sequence, acknowledgment, flags, window, missing, identification, buffer, payload, options, stored }
        };
        let segments = self.packets.iter().map(segment).collect();
        let sides = self.packets.iter().map(|kept| kept.of_client).collect();
        (sides, Segments { buffers: vec![PyBytes::new(py, &self.bytes).unbind()], segments })
    }
}

/// Return the flow key of the other direction.
pub fn reverse(key: &Key) -> Key {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *key;
    [e, f, g, h, a, b, c, d, k, l, i, j]
}

/// Return the flow key in a Python object.
pub fn flow_key(key: &Bound<'_, PyAny>) -> Option<Key> {
    Key::try_from(key.cast::<PyBytes>().ok()?.as_bytes()).ok()
}

/// Return the packets of some connections, in order.
pub fn packets_of<'py>(py: Python<'py>, released: Vec<(Key, Kept)>) -> PyResult<Vec<KeyedSegment<'py>>> {
    let mut packets = Vec::new();
    for (key, kept) in released {
        let keys = [reverse(&key), key].map(|key| PyBytes::new(py, &key));
        let (sides, segments) = kept.segments(py);
        for (place, of_client) in sides.into_iter().enumerate() {
            packets.push((segments.segments[place].packet, keys[usize::from(of_client)].clone(), segments.tuple(py, place)?));
        }
    }
    packets.sort_unstable_by_key(|(packet, _, _)| *packet);
    Ok(packets.into_iter().map(|(_, key, segment)| (key, segment)).collect())
}
