//! Plain packets of a pcap file, and the segments of their flows.
//!
//! A packet is plain if it was captured completely and has an IPv4 header of 20 bytes, no tags, and TCP that is not a fragment. Any other
//! packet ends the walk, and Python reads it.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet};

use crate::capture::segments::{Segment, Segments, FIN, RST, SYN};
use crate::caught;

const IPV4_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
const CONTROL_FLAGS: u8 = FIN | SYN | RST;
const SECOND: i64 = 1_000_000_000;

/// Flow keys in the order of their first packets, and their segments.
#[derive(Default)]
struct Flows {
    place: HashMap<[u8; 12], usize>,
    flows: Vec<([u8; 12], Vec<Segment>, bool)>,
    latest: [usize; 2],
}

impl Flows {
    #[inline]
    fn find(&mut self, key: &[u8; 12]) -> usize {
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

fn be16(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

fn be32(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

/// Return a function that reads numbers of a file in its byte order.
fn words(data: &[u8], big_endian: bool) -> impl Fn(usize) -> u32 + '_ {
    move |at| if big_endian { be32(data, at) } else { be32(data, at).swap_bytes() }
}

/// Size of the link header, place of the marker, the marker of IPv4, and the longest packet.
type Link<'a> = (usize, usize, &'a [u8], usize);

impl Flows {
    /// Add a packet of a file, which begins at `start`, to its flow; return false if it is not plain.
    fn take(&mut self, data: &[u8], range: (usize, usize), link: Link<'_>, number: i64, time: i64) -> bool {
        let (start, end) = range;
        let (link_bytes, marker_at, marker, bound) = link;
        let Some(packet) = data.get(start..end).filter(|packet| packet.len() <= bound) else { return false };
        if packet.len() < link_bytes + IPV4_BYTES + TCP_BYTES {
            return false;
        }
        let ip = &packet[link_bytes..];
        let (tcp, total) = (&ip[IPV4_BYTES..], be16(ip, 2) as usize);
        let plain = packet[marker_at..].starts_with(marker) && ip[0] == 0x45 && be32(ip, 6) & 0x3fff_00ff == 6;
        let tcp_bytes = usize::from(tcp[12] >> 4) * 4;
        if !plain || tcp_bytes < TCP_BYTES || IPV4_BYTES + tcp_bytes > total || link_bytes + total > packet.len() {
            return false;
        }
        let Ok(key) = <&[u8; 12]>::try_from(&ip[12..24]) else { return false };
        let flow = self.find(key);
        let from = (start + link_bytes + IPV4_BYTES) as u32;
        let payload = (from + tcp_bytes as u32, (start + link_bytes + total) as u32);
        let flags = tcp[13];
        let (_, segments, controls) = &mut self.flows[flow];
        *controls |= flags & CONTROL_FLAGS != 0;
        segments.push(Segment {
            packet: number,
            time,
            sequence: be32(tcp, 4),
            acknowledgment: be32(tcp, 8),
            flags,
            window: be16(tcp, 14),
            missing: 0,
            identification: be16(ip, 4),
            buffer: 0,
            payload,
            options: (from + 16, payload.0),
            stored: (start as u32, end as u32),
        });
        true
    }

    /// Add the segments to the flows of a block, after the existing ones.
    fn hand_on(self, data: &Bound<'_, PyBytes>, flows: &Bound<'_, PyDict>, control: &Bound<'_, PySet>) -> PyResult<()> {
        let py = data.py();
        for (key, segments, controls) in self.flows {
            let key = PyBytes::new(py, &key);
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
/// second and fraction; `flows`, `control`: as in a block. Returns the position of the first record that was not read, and the clock there.
#[pyfunction]
pub fn walk_pcap<'py>(
    data: &Bound<'py, PyBytes>,
    mut position: usize,
    records: (usize, bool, i64),
    link: Link<'_>,
    mut clock: (i64, i64, i64),
    flows: &Bound<'py, PyDict>,
    control: &Bound<'py, PySet>,
) -> PyResult<(usize, (i64, i64, i64))> {
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
            if captured != wire || !later || fraction >= SECOND / unit || !found.take(bytes, (start, end), link, number + 1, time) {
                break;
            }
            clock = (number + 1, second, fraction);
            position = end;
        }
        Ok(())
    })?;
    found.hand_on(data, flows, control)?;
    Ok((position, clock))
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
    link: Link<'_>,
    mut clock: (i64, i64),
    flows: &Bound<'py, PyDict>,
    control: &Bound<'py, PySet>,
) -> PyResult<(usize, (i64, i64))> {
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
            if kind != PACKET_BLOCK || !of_interface || !is_complete || word(next - 4) as usize != length || captured != wire || time < last
            {
                break;
            }
            if !found.take(bytes, (start, end), link, number + 1, time) {
                break;
            }
            clock = (number + 1, time);
            position = next;
        }
        Ok(())
    })?;
    found.hand_on(data, flows, control)?;
    Ok((position, clock))
}
