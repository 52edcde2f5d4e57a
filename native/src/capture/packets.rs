//! Plain packets of a capture file, and the segments of their flows. Any other packet ends the walk, and Python reads it.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet};

use crate::capture::headers::{be32, content, Content, FlowKey, TcpPlace};
use crate::capture::segments::{Segment, Segments, FIN, RST, SYN};
use crate::caught;

const CONTROL_FLAGS: u8 = FIN | SYN | RST;
const SECOND: i64 = 1_000_000_000;

/// Packets that the capture cut, and the bytes cut off: number of packets, all bytes, most bytes of a packet; number and time of the first
/// packet.
type Cuts = (i64, i64, i64, i64, i64);

/// Flow keys in the order of their first packets, and their segments.
#[derive(Default)]
struct Flows {
    place: HashMap<FlowKey, usize>,
    flows: Vec<(FlowKey, Vec<Segment>, bool)>,
    latest: [usize; 2],
    cuts: Option<Cuts>,
}

impl Flows {
    #[inline]
    fn find(&mut self, key: &FlowKey) -> usize {
        for at in self.latest {
            if self.flows.get(at).is_some_and(|flow| flow.0 == *key) {
                return at;
            }
        }
        let flows = &mut self.flows;
        let at = *self.place.entry(*key).or_insert_with(|| {
            flows.push((*key, Vec::new(), false));
            flows.len() - 1
        });
        self.latest = [at, self.latest[0]];
        at
    }
}

/// Return a function that reads numbers of a file in its byte order; 0 beyond its end.
fn words(data: &[u8], big_endian: bool) -> impl Fn(usize) -> u32 + '_ {
    move |at| be32(data, at).map_or(0, |word| if big_endian { word } else { word.swap_bytes() })
}

/// Link type, and the longest packet.
type Link = (u32, usize);

impl Flows {
    /// Add a packet of a file, of which `cut` bytes were not captured, to its flow; return false if it is not plain.
    fn take(&mut self, data: &[u8], range: (usize, usize), cut: u32, link: Link, number: i64, time: i64) -> bool {
        let (start, end) = range;
        let (link_type, bound) = link;
        let Some(packet) = data.get(start..end).filter(|packet| packet.len() <= bound) else { return false };
        let content = content(packet, packet.len() + cut as usize, link_type);
        if cut > 0 && !matches!(content, Content::Unknown) {
            let (cut, (packets, total, most, first, begun)) = (i64::from(cut), self.cuts.unwrap_or((0, 0, 0, number, time)));
            self.cuts = Some((packets + 1, total + cut, most.max(cut), first, begun));
        }
        let TcpPlace { key, tcp, payload, end: payload_end, missing, identification } = match content {
            Content::Tcp(place) => place,
            Content::Other => return true,
            Content::Unknown => return false,
        };
        let flow = self.find(&key);
        let (from, payload) = ((start + tcp) as u32, ((start + payload) as u32, (start + payload_end) as u32));
        let tcp = &packet[tcp..];
        let flags = tcp[13];
        let (_, segments, controls) = &mut self.flows[flow];
        *controls |= flags & CONTROL_FLAGS != 0;
        segments.push(Segment {
            packet: number,
            time,
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            acknowledgment: u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]),
            flags,
            window: u16::from_be_bytes([tcp[14], tcp[15]]),
            missing: missing as u32, // a length in a header has two bytes
            identification,
            buffer: 0,
            payload,
            options: (from + 16, payload.0),
            stored: if cut == 0 { (start as u32, end as u32) } else { (0, 0) },
        });
        true
    }

    /// Add the segments to the flows of a block, after the existing ones.
    fn hand_on(self, data: &Bound<'_, PyBytes>, flows: &Bound<'_, PyDict>, control: &Bound<'_, PySet>) -> PyResult<()> {
        let py = data.py();
        for (key, segments, controls) in self.flows {
            let key = PyBytes::new(py, key.as_bytes());
            if controls {
                control.add(&key)?;
            }
            let these = Segments { buffers: vec![data.clone().unbind()], segments };
            match flows.get_item(&key)? {
                None => flows.set_item(&key, Bound::new(py, these)?)?,
                Some(known) => match known.cast::<Segments>() {
                    Ok(known) => known.borrow_mut().extend(py, &these),
                    Err(_) => {
                        let known = known.cast::<PyList>()?;
                        these.tuples(py)?.into_iter().try_for_each(|tuple| known.append(tuple))?;
                    }
                },
            }
        }
        Ok(())
    }
}

/// Read plain packets of a pcap file from `position` on, as long as their times do not decrease.
///
/// `records`: size of a record header, whether it is big-endian, ns per unit of the fraction; `clock`: number of the preceding packet, its
/// second and fraction; `flows`, `control`: as in a block. Returns the position of the first record that was not read, the clock there, and
/// the cut packets.
#[pyfunction]
pub fn walk_pcap<'py>(
    data: &Bound<'py, PyBytes>,
    mut position: usize,
    records: (usize, bool, i64),
    link: Link,
    mut clock: (i64, i64, i64),
    flows: &Bound<'py, PyDict>,
    control: &Bound<'py, PySet>,
) -> PyResult<(usize, (i64, i64, i64), Option<Cuts>)> {
    let (header, big_endian, unit) = records;
    let bytes = data.as_bytes();
    let word = words(bytes, big_endian);
    let mut found = Flows::default();
    caught(|| {
        while bytes.len() >= position + header {
            let (second, fraction) = (i64::from(word(position)), i64::from(word(position + 4)));
            let (captured, wire) = (word(position + 8), word(position + 12));
            let start = position + header;
            let end = start + captured as usize;
            let (number, last_second, last_fraction) = clock;
            let later = second > last_second || (second == last_second && fraction >= last_fraction);
            let time = second * SECOND + fraction * unit;
            let is_plain = captured <= wire && later && fraction < SECOND / unit;
            if !is_plain || !found.take(bytes, (start, end), wire - captured, link, number + 1, time) {
                break;
            }
            clock = (number + 1, second, fraction);
            position = end;
        }
        Ok(())
    })?;
    let cuts = found.cuts;
    found.hand_on(data, flows, control)?;
    Ok((position, clock, cuts))
}

const PACKET_BLOCK: u32 = 6;
const PACKET_BLOCK_HEAD: usize = 28;

/// Read plain packets of a pcapng file from `position` on, as long as they are of one interface and their times do not decrease.
///
/// `section`: whether it is big-endian, largest block; `interface`: its number, the upper half of its times, ns per unit, time of lower
/// half 0; `clock`: number and time of the preceding packet. Returns the same as `walk_pcap`.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn walk_pcapng<'py>(
    data: &Bound<'py, PyBytes>,
    mut position: usize,
    section: (bool, usize),
    interface: (u32, u32, i64, i64),
    link: Link,
    mut clock: (i64, i64),
    flows: &Bound<'py, PyDict>,
    control: &Bound<'py, PySet>,
) -> PyResult<(usize, (i64, i64), Option<Cuts>)> {
    let (big_endian, longest) = section;
    let (number_of_interface, high, unit, base) = interface;
    let bytes = data.as_bytes();
    let word = words(bytes, big_endian);
    let mut found = Flows::default();
    caught(|| {
        while bytes.len() >= position + PACKET_BLOCK_HEAD {
            let (kind, length) = (word(position), word(position + 4) as usize);
            let of_interface = word(position + 8) == number_of_interface && word(position + 12) == high;
            let (low, captured, wire) = (word(position + 16), word(position + 20), word(position + 24));
            let start = position + PACKET_BLOCK_HEAD;
            let (end, next) = (start + captured as usize, position + length);
            let is_complete = end + 4 <= next && next <= bytes.len() && length & 3 == 0 && length <= longest;
            let (number, last) = clock;
            let Some(time) = i64::from(low).checked_mul(unit).and_then(|ns| ns.checked_add(base)) else { break };
            if kind != PACKET_BLOCK || !of_interface || !is_complete || word(next - 4) as usize != length || captured > wire || time < last
            {
                break;
            }
            if !found.take(bytes, (start, end), wire - captured, link, number + 1, time) {
                break;
            }
            clock = (number + 1, time);
            position = next;
        }
        Ok(())
    })?;
    let cuts = found.cuts;
    found.hand_on(data, flows, control)?;
    Ok((position, clock, cuts))
}
