//! Plain packets of a pcap file, and the segments of their flows.
//!
//! A packet is plain if it was captured completely and has an IPv4 header of 20 bytes, no tags, and TCP that is no fragment. Any other one
//! ends the walk, and Python reads it.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet, PyTuple, PyType};

use crate::caught;
use crate::complete::{self, ConnectionTuple};
use crate::pieces::{item, Piece, Pieces};

const IPV4_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
const CONTROL_FLAGS: u8 = FIN | SYN | RST;
pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
const SECOND: i64 = 1_000_000_000;

/// `capture.Segment`.
type SegmentTuple<'py> = (i64, i64, u32, u32, u8, u16, Bound<'py, PyBytes>, u32, u16, Bound<'py, PyBytes>);

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
    /// The whole packet as it is stored; nothing where Python has read it.
    stored: (u32, u32),
}

/// A packet with bytes of frames that are looked for: number, flags, start and end in the stream; time, bytes as they are stored, and what
/// is to be said of it, or nothing where Python has more to say.
type Copied<'py> = (i64, u8, i64, i64, Option<(i64, Bound<'py, PyBytes>, String)>);

/// The segments of a flow in packet order: a sequence of `capture.Segment`, each made when it is asked for.
#[pyclass(sequence, module = "pulsarscope_native")]
pub struct Segments {
    buffers: Vec<Py<PyBytes>>,
    segments: Vec<Segment>,
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

    fn tuple<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
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

    fn tuples<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        (0..self.segments.len()).map(|index| self.tuple(py, index)).collect()
    }

    /// Segments with bytes in some ranges of their stream, where these begin and end there, and the places of the ranges; see `copies`.
    fn placed<'a>(
        &'a self,
        sequence: i64,
        length: i64,
        farthest: i64,
        starts: &'a [u8],
        ends: &'a [u8],
    ) -> impl Iterator<Item = (&'a Segment, i64, i64, Range<usize>)> {
        self.segments.iter().filter(|segment| segment.payload.1 > segment.payload.0).filter_map(move |segment| {
            let own = i64::from(segment.sequence) + i64::from(segment.flags & SYN != 0);
            let distance = i64::from(own.wrapping_sub(sequence) as i32);
            let start = length + distance;
            let end = start + i64::from(segment.payload.1 - segment.payload.0);
            let range = count_below(ends, start + 1)..count_below(starts, end);
            (distance.abs() <= farthest && !range.is_empty()).then_some((segment, start, end, range))
        })
    }

    fn extend(&mut self, py: Python<'_>, others: &Segments) {
        let first = self.buffers.len() as u32;
        self.buffers.extend(others.buffers.iter().map(|buffer| buffer.clone_ref(py)));
        self.segments.extend(others.segments.iter().map(|segment| Segment { buffer: first + segment.buffer, ..*segment }));
    }
}

#[pymethods]
impl Segments {
    fn __len__(&self) -> usize {
        self.segments.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        item(index, self.segments.len(), |place| self.tuple(py, place))
    }

    /// Append a segment that Python has read.
    fn append(&mut self, py: Python<'_>, segment: SegmentTuple<'_>) -> PyResult<()> {
        let (packet, time, sequence, acknowledgment, flags, window, payload, missing, identification, options) = segment;
        let bytes = [payload.as_bytes(), options.as_bytes()].concat();
        let (payload, options) = (u32::try_from(payload.as_bytes().len())?, u32::try_from(bytes.len())?);
        self.segments.push(Segment {
            packet,
            time,
            sequence,
            acknowledgment,
            flags,
            window,
            missing,
            identification,
            buffer: self.buffers.len() as u32,
            payload: (0, payload),
            options: (payload, options),
            stored: (0, 0),
        });
        self.buffers.push(PyBytes::new(py, &bytes).unbind());
        Ok(())
    }

    /// The list that Python goes on with.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Vec<Bound<'py, PyTuple>>,))> {
        Ok((py.get_type::<PyList>(), (self.tuples(py)?,)))
    }

    /// Latest time of the segments, ns.
    fn latest(&self) -> i64 {
        self.segments.iter().map(|segment| segment.time).max().unwrap_or(0)
    }

    /// Segments with bytes in some ranges of their stream, as `tcp.placement` finds them, with their packets, if these are to be copied, and
    /// the names of the frames that have bytes there, as `analysis.packet_selection` tells them.
    ///
    /// `sequence`, `length`: position of the stream behind the block; `farthest`: bytes from there to the last that belong to it; `starts`,
    /// `ends`: of the ranges, in their order, as integers of 64 bits.
    /// `frames`: files, names and numbers of commands of the frames that are these ranges, as integers of 64 bits; `commands`: by their
    /// numbers; `findings`: bits of sub in a name, and findings on frames by file and name, and on packets, whose sub is 0; `file`: that of the
    /// segments.
    #[allow(clippy::too_many_arguments)]
    fn copies<'py>(
        &self,
        py: Python<'py>,
        sequence: i64,
        length: i64,
        farthest: i64,
        starts: &[u8],
        ends: &[u8],
        frames: (&[u8], &[u8], &[u8]),
        commands: Vec<String>,
        findings: (u32, Bound<'py, PyDict>),
        file: i64,
        copy: bool,
    ) -> PyResult<Vec<Copied<'py>>> {
        let (files, names, numbers) = frames;
        let (sub_bits, findings) = findings;
        let is_told = |file: i64, name: i64| if findings.is_empty() { Ok(false) } else { findings.contains((file, name)) };
        let mut found = Vec::new();
        for (segment, start, end, range) in self.placed(sequence, length, farthest, starts, ends) {
            let mut comment = String::new();
            let mut plain = copy && segment.stored.1 > 0 && !is_told(file, segment.packet << sub_bits)?;
            for at in range {
                let (file, name) = (packed(files, at), packed(names, at));
                plain &= !is_told(file, name)?;
                if name != 0 {
                    if !comment.is_empty() {
                        comment.push('\n');
                    }
                    let command =
                        usize::try_from(packed(numbers, at)).ok().and_then(|number| commands.get(number)).map_or("", String::as_str);
                    let _ = write!(comment, "{file}:{}.{} {command}", name >> sub_bits, name & ((1 << sub_bits) - 1));
                }
            }
            let stored = |(start, end): (u32, u32)| {
                let data = self.buffers[segment.buffer as usize].as_bytes(py);
                PyBytes::new(py, &data[start as usize..end as usize])
            };
            let told = plain.then(|| (segment.time, stored(segment.stored), comment));
            found.push((segment.packet, segment.flags, start, end, told));
        }
        Ok(found)
    }

    /// The connection of a client's segments and the server's, if it begins and ends with them; see `complete::connection`.
    fn complete(&self, py: Python<'_>, server: &Segments, longest: i64) -> Option<ConnectionTuple> {
        complete::connection(py, self, server, longest)
    }

    /// Pieces of the segments of a stream, the first with the next sequence number; None when one of them is not in order, or asks for a
    /// closer look, as a closed window or sequence numbers that wrap do. With them their size and, of the last one that brings data,
    /// identification, size and options.
    fn in_order(&self, py: Python<'_>, sequence: i64) -> Option<(Pieces, usize, u16, usize, Py<PyBytes>)> {
        let mut expected = sequence;
        let mut pieces = Vec::with_capacity(self.segments.len());
        let mut newest = None;
        for segment in &self.segments {
            let size = i64::from(segment.payload.1 - segment.payload.0);
            if segment.window == 0 || segment.missing > 0 || (size > 0 && i64::from(segment.sequence) != expected) {
                return None;
            }
            if size > 0 {
                let Segment { packet, time, buffer, payload, .. } = *segment;
                pieces.push(Piece { buffer, start: payload.0, end: payload.1, packet, time, moment: packet });
                expected += size;
                newest = Some(segment);
            }
        }
        let size = usize::try_from(expected - sequence).ok()?;
        let (identification, last, options) = match newest {
            None => (0, 0, PyBytes::new(py, b"").unbind()),
            Some(segment) => {
                let options = PyBytes::new(py, self.bytes(py, segment, segment.options)).unbind();
                (segment.identification, (segment.payload.1 - segment.payload.0) as usize, options)
            }
        };
        Some((self.pieces(py, pieces), size, identification, last, options))
    }
}

/// Return one of some packed integers.
fn packed(values: &[u8], at: usize) -> i64 {
    values.get(8 * at..).and_then(<[u8]>::first_chunk).map_or(0, |each| i64::from_ne_bytes(*each))
}

/// Return how many of some packed integers, in ascending order, are below a bound.
fn count_below(values: &[u8], bound: i64) -> usize {
    let (mut low, mut high) = (0, values.len() / 8);
    while low < high {
        let middle = low + (high - low) / 2;
        (low, high) = if packed(values, middle) < bound { (middle + 1, high) } else { (low, middle) };
    }
    low
}

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
    /// Take a packet of a file, which begins at `start`, to its flow; return false if it is not plain.
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

    /// Put the segments into the flows of a block, behind those that are there.
    fn hand_on(&self, data: &Bound<'_, PyBytes>, flows: &Bound<'_, PyDict>, control: &Bound<'_, PySet>) -> PyResult<()> {
        let py = data.py();
        for (key, segments, controls) in &self.flows {
            let key = PyBytes::new(py, key);
            if *controls {
                control.add(&key)?;
            }
            let these = Segments { buffers: vec![data.clone().unbind()], segments: segments.clone() };
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
/// `records`: size of the header of a record, whether it is big-endian, ns per unit of the fraction; `clock`: number of the packet before,
/// its second and fraction; `flows`, `control`: as in a block. Returns the position of the first record that is not read, and the clock there.
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
/// `section`: whether it is big-endian, largest block; `interface`: its number, the upper half of its times, ns of a unit, time of the lower
/// half 0; `clock`: number and time of the packet before. Returns as `walk_pcap`.
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
