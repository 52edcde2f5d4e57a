//! Short connections: read from their SYN on, many at a call, as long as their packets and frames are plain.
//!
//! The packets of each open connection are kept. If one is no longer plain, Python gets its packets, and reads it from its beginning, so
//! that it reaches the same state. At a RST, Python gets the packets only for the state of TCP, and continues with the RST.

pub(crate) mod anchors;
pub(crate) mod conversation;
pub(crate) mod descriptions;
pub(crate) mod requests;

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::capture::pieces::Place;
use crate::capture::segments::{Segment, Segments, FIN, RST, SYN};
use crate::caught;
use crate::encoding::number_keys::{NumberMap, NumberSet};
use crate::frames::Frames;
use crate::short_connections::anchors::Anchor;
use crate::short_connections::conversation::{Conversation, Plainness, Sizes, StreamPart};
use crate::short_connections::descriptions::Descriptions;
use crate::tcp::closed_connections::{Closed, ClosedConnections, ClosedTuple, Key};
use crate::tcp::kept_packets::{flow_key, packets_of, reverse, Kept, KeyedSegment};
use crate::tcp::plain_tcp::{opens, Brings, PlainTcp, TcpBounds};

/// Maximum number of packets and bytes kept of a connection; a longer one does not count as short.
const PACKETS_MAX: usize = 512;
const BYTES_MAX: usize = 32 << 10;
/// Bytes kept of all connections, with their packets: beyond that, the largest ones are handed to Python, until seven eighths are left.
const KEPT_MAX_BYTES: usize = 16 << 20;
/// As `FILE_SHIFT` in `model.flow`.
const FILE_SHIFT: u32 = 40;

/// An open connection.
struct Open {
    file: i64,
    name: Py<PyString>,
    /// Process to which it belongs, among those that share a run.
    owner: usize,
    tcp: PlainTcp,
    conversation: Conversation,
    /// Bytes of incomplete frames, and the stream offsets after them.
    rests: [Vec<u8>; 2],
    ends: [i64; 2],
    kept: Kept,
}

impl Open {
    /// Memory, bytes.
    fn cost(&self) -> usize {
        size_of::<Open>() + self.kept.size()
    }
}

/// Segments of the client and of the server in a block.
type Flows<'py> = [Option<PyRef<'py, Segments>>; 2];

/// The contribution of a block to a connection: its flows, and the place of its bytes in the common data.
struct Fed<'py> {
    key: Key,
    open: Box<Open>,
    flows: Flows<'py>,
    parts: [StreamPart; 2],
    /// Packet with a RST, from which on Python reads the connection.
    reset: Option<i64>,
}

/// A connection that Python reads from now on, and its packets so far.
struct Released {
    key: Key,
    name: Py<PyString>,
    owner: usize,
    kept: Kept,
}

impl Released {
    fn of(key: Key, open: Open) -> Released {
        let Open { name, owner, kept, .. } = open;
        Released { key, name, owner, kept }
    }
}

/// What became of a connection in a block.
enum Outcome {
    /// It is open, or waits for late packets here.
    Taken,
    /// It is not plain.
    Released(Released),
    /// A RST comes: its packets before the RST.
    Reset(Kept),
}

/// What a flow belongs to, with the flow key of the client.
enum Found {
    Other,
    Open(Key, Box<Open>),
    Closed(Key),
}

/// Flow keys of the connections with frames here, by name, and the names of recognised connections that have ended.
type Names<'py> = (Bound<'py, PyDict>, Vec<String>);

/// A connection that a RST ends: its first packet in the block, all its packets before the RST, in order, name, flow key of the client,
/// first packet and its time, whether frames were read, and the process to which it belongs.
type Ended<'py> = (i64, Vec<KeyedSegment<'py>>, Py<PyString>, Bound<'py, PyBytes>, (i64, i64), bool, usize);

/// Packets of connections that Python must read, in order; and of each connection its name, the flow key of the client, and the process to
/// which it belongs.
type Given<'py> = (Vec<KeyedSegment<'py>>, Vec<(Py<PyString>, Bound<'py, PyBytes>, usize)>);

/// Flows of other connections, and of these from a RST on; the number of connections that began, without those that Python counts; their
/// names; and what Python has to do first: packets to read again, in order, closed connections that got packets, and those with a RST; and
/// those that the block has closed, if rules require them.
type Read<'py> = (Bound<'py, PyDict>, isize, Names<'py>, Given<'py>, Vec<ClosedTuple<'py>>, Vec<Ended<'py>>, Vec<ClosedTuple<'py>>);

/// Requests in addition to frames: exchanges, connection rows, these at the ends of connections, the number of anchors per connection, the
/// type of their rows, and a function that describes both sides of a connection.
type Asked<'py> = (bool, bool, bool, usize, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Number of this process among those that share a run, and a function that assigns a connection to one of them, by its flow key.
type Share = (usize, Py<PyAny>);

/// See `read`.
struct Arguments<'a, 'py> {
    flows: &'a Bound<'py, PyDict>,
    known: &'a Bound<'py, PyDict>,
    names: [Bound<'py, PyAny>; 5],
    file: i64,
}

#[pyclass(module = "pulsarscope_native")]
pub struct ShortConnections {
    bounds: TcpBounds,
    plainness: Plainness,
    /// Whether connection rows are requested, after late packets (`rows`) and at the end of the connection (`ends`).
    rows: bool,
    ends: bool,
    anchor_type: Py<PyAny>,
    descriptions: Descriptions,
    open: NumberMap<Key, Box<Open>>,
    closed: ClosedConnections,
    /// Connections that the current block has closed.
    closing: Vec<Closed>,
    kept_bytes: usize,
    /// Connections that were given up, the latest one first.
    given_up: Vec<Released>,
    share: Option<Share>,
    starts: Option<Starts>,
}

/// Where the streams of ended connections begin, as in `tcp.stream_starts`: places of first packets, and sequence numbers.
type Starts = (Vec<u8>, Vec<u8>);

#[pymethods]
impl ShortConnections {
    /// `bounds`: see `TcpBounds`; `sizes`, `opens`: see `Plainness`; `asked`: see `Asked`; `places`: keep what `take_starts` returns;
    /// with `share`, rows are only of the connections of this process.
    #[new]
    fn new(bounds: TcpBounds, sizes: Sizes, opens: bool, asked: Asked<'_>, places: bool, share: Option<Share>) -> Self {
        let (exchanges, rows, ends, anchors, anchor_type, describe) = asked;
        let (open, closed, closing) = Default::default();
        let plainness = Plainness { sizes, opens, exchanges, anchors };
        let (anchor_type, descriptions) = (anchor_type.unbind(), Descriptions::of(describe.unbind()));
        ShortConnections {
            bounds,
            plainness,
            rows,
            ends,
            anchor_type,
            descriptions,
            open,
            closed,
            closing,
            kept_bytes: 0,
            given_up: Vec::new(),
            share,
            starts: places.then(Starts::default),
        }
    }

    /// Number of open connections.
    #[getter]
    fn open(&self) -> usize {
        self.open.len()
    }

    /// Number of closed connections that may get late packets.
    #[getter]
    fn closed(&self) -> usize {
        self.closed.len()
    }

    /// File and packet at which the first of the closed connections was closed.
    #[getter]
    fn oldest(&mut self) -> Option<(i64, i64)> {
        self.closed.oldest_place()
    }

    /// Read the flows of a block that belong to these connections, or begin one.
    ///
    /// `frames`: takes their frames; `flows`: those of the block; `known`: other connections by flow key; `names`: source, file, protocol,
    /// direction of the client, of the server.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        frames: &mut Frames,
        flows: &Bound<'py, PyDict>,
        known: &Bound<'py, PyDict>,
        names: [Bound<'py, PyAny>; 5],
    ) -> PyResult<Read<'py>> {
        let file = names[1].extract()?;
        caught(|| self.read_flows(py, frames, &Arguments { flows, known, names, file }))
    }

    /// Forget the connections that were closed first, as long as their last packet is before a time, and they were closed before a place;
    /// return at most `most` of them, if their rows are requested.
    fn forget<'py>(&mut self, py: Python<'py>, time: i64, before: (i64, i64), most: usize) -> Vec<ClosedTuple<'py>> {
        let mut forgotten = Vec::new();
        while let Some(key) = self.closed.overdue(time, before).filter(|_| forgotten.len() < most) {
            if self.rows {
                forgotten.extend(self.closed.take(py, &key));
            } else {
                self.closed.forget(&key);
            }
        }
        forgotten
    }

    /// Give up all open connections; or, if nothing follows, only those that Python has more to report on, and forget the others.
    fn end(&mut self, all: bool) {
        let (rows, exchanges) = (self.rows, self.plainness.exchanges);
        let is_quiet =
            |open: &Open| !rows && open.tcp.is_complete() && open.rests.iter().all(Vec::is_empty) && open.conversation.is_told(exchanges);
        for (key, open) in self.open.drain() {
            if all || !is_quiet(&open) {
                self.given_up.push(Released::of(key, *open));
            } else {
                note(&mut self.starts, &open);
            }
        }
        self.given_up.sort_unstable_by_key(|released| std::cmp::Reverse(released.kept.first()));
        self.kept_bytes = 0;
    }

    /// Take the packets of connections that were given up, at most `most`, in the order in which they began.
    fn take_given_up<'py>(&mut self, py: Python<'py>, most: usize) -> PyResult<Given<'py>> {
        let first = self.given_up.len().saturating_sub(most);
        given(py, self.given_up.split_off(first))
    }

    /// Take the connections that have ended here since the last call.
    fn take_starts<'py>(&mut self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (places, sequences) = self.starts.as_mut().map(std::mem::take).unwrap_or_default();
        (PyBytes::new(py, &places), PyBytes::new(py, &sequences))
    }

    /// Give up closed connections in the order of their last packets, at most `most`, as their capture has ended; return them, if their
    /// rows are requested.
    fn take_finished<'py>(&mut self, py: Python<'py>, most: usize) -> Vec<ClosedTuple<'py>> {
        if !self.rows {
            self.closed = ClosedConnections::default();
        }
        self.closed.take_finished(py, most)
    }

    /// Give up the connections that were closed first, at most `most`.
    fn take_closed<'py>(&mut self, py: Python<'py>, most: usize) -> Vec<ClosedTuple<'py>> {
        self.closed.take_oldest(py, most)
    }
}

/// Return the packets of connections that Python must read.
fn given(py: Python<'_>, released: Vec<Released>) -> PyResult<Given<'_>> {
    let of = released.iter().map(|each| (each.name.clone_ref(py), PyBytes::new(py, &each.key), each.owner)).collect();
    let packets = packets_of(py, released.into_iter().map(|each| (each.key, each.kept)).collect())?;
    Ok((packets, of))
}

/// Record where the streams of a connection begin.
fn note(starts: &mut Option<Starts>, open: &Open) {
    if let Some((places, sequences)) = starts {
        places.extend((open.file << FILE_SHIFT | open.tcp.begun().0).to_ne_bytes());
        let [client, server] = open.tcp.firsts();
        sequences.extend((u64::from(client) << 32 | u64::from(server)).to_ne_bytes());
    }
}

impl ShortConnections {
    fn read_flows<'py>(&mut self, py: Python<'py>, frames: &mut Frames, of: &Arguments<'_, 'py>) -> PyResult<Read<'py>> {
        let mut released = self.release_largest();
        let (mut reopened, mut fed) = (Vec::new(), Vec::new());
        let (mut seen, mut taken): (NumberSet<Key>, NumberSet<Key>) = Default::default();
        let mut data = Vec::new();
        for (of_flow, segments) in of.flows {
            let Some(key) = flow_key(&of_flow).filter(|key| !seen.contains(key)) else { continue };
            let back = reverse(&key);
            seen.insert(back);
            let other = of.flows.get_item(PyBytes::new(py, &back))?;
            let flows = [Some(&segments), other.as_ref()].map(|flow| flow.map(|flow| flow.cast::<Segments>().map(|flow| flow.borrow())));
            let is_compiled = !flows.iter().any(|flow| matches!(flow, Some(Err(_))));
            let mut flows = flows.map(|flow| flow.and_then(Result::ok));
            match self.find(py, key, is_compiled, &flows, of)? {
                Found::Other => {}
                Found::Closed(client) => {
                    if is_compiled && self.take_late(&client, &flows, of.file) {
                        taken.extend([key, back]);
                    } else {
                        reopened.extend(self.closed.take(py, &client));
                    }
                }
                Found::Open(client, mut open) => {
                    if client != key {
                        flows.swap(0, 1);
                    }
                    match if is_compiled { self.take(py, &mut open, &flows, &mut data) } else { None } {
                        Some((parts, reset)) => fed.push(Fed { key: client, open, flows, parts, reset }),
                        None => released.push(Released::of(client, *open)),
                    }
                }
            }
        }
        let data = PyBytes::new(py, &data);
        let (mut begun, recognised) = (0, PyDict::new(py));
        let (mut resets, mut behind) = (Vec::new(), HashMap::new());
        for each in fed {
            let (key, is_new, name, before) =
                (each.key, each.open.kept.packets.is_empty(), each.open.name.clone_ref(py), frames.entries.len());
            let (reset, was_begun, began, owner) = (each.reset, each.open.conversation.begun, each.open.tcp.begun(), each.open.owner);
            let first = each.flows.iter().flatten().filter_map(|flow| flow.segments().first()).map(|segment| segment.packet).min();
            match self.converse(py, frames, &data, each, of)? {
                Outcome::Released(each) => {
                    released.push(each);
                    continue;
                }
                Outcome::Reset(kept) => {
                    behind.extend([key, reverse(&key)].map(|key| (key, reset)));
                    let has_frames = was_begun || frames.entries.len() > before;
                    let (packets, client) = (packets_of(py, vec![(key, kept)])?, PyBytes::new(py, &key));
                    resets.push((first.unwrap_or(0), packets, name.clone_ref(py), client, began, has_frames, owner));
                    begun -= isize::from(!is_new);
                }
                Outcome::Taken => begun += isize::from(is_new),
            }
            taken.extend([key, reverse(&key)]);
            if frames.entries.len() > before {
                recognised.set_item(name, PyBytes::new(py, &key))?;
            }
        }
        let others = PyDict::new(py);
        for (of_flow, segments) in of.flows {
            let key = flow_key(&of_flow);
            if key.is_none_or(|key| !taken.contains(&key)) {
                others.set_item(of_flow, segments)?;
            } else if let Some(Some(reset)) = key.and_then(|key| behind.get(&key)) {
                let rest = segments.cast::<Segments>()?.borrow().behind(py, *reset);
                if !rest.segments.is_empty() {
                    others.set_item(of_flow, Py::new(py, rest)?)?;
                }
            }
        }
        let own = |closed: &&Closed| self.is_own(closed.owner);
        let ended = self.closing.iter().filter(own).filter(|closed| closed.recognised);
        let names = (recognised, ended.map(|closed| format!("{}:{}", closed.file, closed.tcp.begun.0)).collect());
        let closing = if self.ends { self.closing.iter().filter(own).map(|closed| closed.tuple(py)).collect() } else { Vec::new() };
        self.closed.add(std::mem::take(&mut self.closing));
        Ok((others, begun, names, given(py, released)?, reopened, resets, closing))
    }

    /// Find the connection of a flow and the flow of the other direction; take an open one out, and begin one with a SYN.
    fn find<'py>(&mut self, py: Python<'py>, key: Key, is_compiled: bool, flows: &Flows<'py>, of: &Arguments<'_, 'py>) -> PyResult<Found> {
        let back = reverse(&key);
        for client in [key, back] {
            if let Some(open) = self.open.remove(&client) {
                self.kept_bytes -= open.cost();
                return Ok(Found::Open(client, open));
            }
            if self.closed.contains(&client) {
                return Ok(Found::Closed(client));
            }
        }
        let Some(flow) = flows[0].as_ref().filter(|_| is_compiled && key != back) else { return Ok(Found::Other) };
        let Some(syn) = flow.segments().first().filter(|segment| opens(segment, SYN)) else { return Ok(Found::Other) };
        let answer = flows[1].as_ref().and_then(|flow| flow.segments().first());
        if answer.is_some_and(|answer| answer.packet < syn.packet) || of.known.contains(PyBytes::new(py, &key))? {
            return Ok(Found::Other);
        }
        let name = PyString::new(py, &format!("{}:{}", of.file, syn.packet)).unbind();
        let tcp = PlainTcp::of(syn, flow.bytes(py, syn, syn.options), self.bounds);
        let owner = match &self.share {
            Some((_, assign)) => assign.call1(py, (PyBytes::new(py, &key),))?.extract(py)?,
            None => 0,
        };
        let (conversation, rests, ends, kept) = Default::default();
        Ok(Found::Open(key, Box::new(Open { file: of.file, name, owner, tcp, conversation, rests, ends, kept })))
    }

    /// Return true if rows of the connections of this process are those of this engine.
    fn is_own(&self, owner: usize) -> bool {
        self.share.as_ref().is_none_or(|(number, _)| *number == owner)
    }

    /// Take the packets of an open connection up to a RST, and append its bytes to those of others. Return their places, and the packet of
    /// the RST, if one ends it; None if the packets are not plain, or too many.
    fn take<'py>(
        &self,
        py: Python<'py>,
        open: &mut Open,
        flows: &Flows<'py>,
        data: &mut Vec<u8>,
    ) -> Option<([StreamPart; 2], Option<i64>)> {
        let segments = flows.each_ref().map(|flow| flow.as_ref().map_or(&[][..], |flow| flow.segments()));
        let mut at = [usize::from(open.kept.packets.is_empty()), 0]; // the SYN is known
        let mut with_data: [Vec<&Segment>; 2] = Default::default();
        let mut size = open.kept.bytes.len();
        let mut reset = None;
        loop {
            let side = match (segments[0].get(at[0]), segments[1].get(at[1])) {
                (Some(client), Some(server)) => usize::from(server.packet < client.packet),
                (Some(_), None) => 0,
                (None, Some(_)) => 1,
                (None, None) => break,
            };
            let segment = &segments[side][at[side]];
            if segment.flags & RST != 0 {
                if self.rows || !open.tcp.is_ended_by(side == 0, segment, self.bounds) {
                    return None;
                }
                reset = Some(segment.packet);
                break;
            }
            at[side] += 1;
            let options = flows[side].as_ref()?.bytes(py, segment, segment.options);
            if open.tcp.take(side == 0, segment, options, self.bounds)? == Brings::Data {
                with_data[side].push(segment);
                size += (segment.payload.1 - segment.payload.0) as usize;
            }
        }
        let packets = open.kept.packets.len() + at[0] + at[1];
        if reset.is_none() && !open.tcp.is_closed() && (packets > PACKETS_MAX || size > BYTES_MAX) {
            return None;
        }
        let mut parts: [StreamPart; 2] = Default::default();
        for (side, part) in parts.iter_mut().enumerate() {
            let Some(flow) = flows[side].as_ref().filter(|_| !with_data[side].is_empty()) else { continue };
            let (start, mut end) = (data.len(), open.ends[side]);
            part.offset = end - open.rests[side].len() as i64;
            data.extend_from_slice(&open.rests[side]);
            for segment in &with_data[side] {
                let payload = flow.bytes(py, segment, segment.payload);
                data.extend_from_slice(payload);
                end += payload.len() as i64;
                let Segment { packet, time, .. } = **segment;
                part.places.push(Place { end, packet, time, moment: packet });
            }
            part.range = start..data.len();
        }
        Some((parts, reset))
    }

    /// Read the frames of a connection.
    fn converse<'py>(
        &mut self,
        py: Python<'py>,
        frames: &mut Frames,
        data: &Bound<'py, PyBytes>,
        fed: Fed<'py>,
        of: &Arguments<'_, 'py>,
    ) -> PyResult<Outcome> {
        let Fed { key, mut open, flows, parts, reset } = fed;
        let (before, mut anchors) = (frames.entries.len(), Vec::new());
        let behind = parts.each_ref().map(|part| (part.range.clone(), part.offset + part.range.len() as i64));
        if behind.iter().any(|(range, _)| !range.is_empty()) {
            let [source, file, protocol, client, server] = &of.names;
            let connection = open.name.bind(py).as_any();
            let names = [client, server].map(|direction| [source, file, connection, protocol, direction].map(|name| name.clone().unbind()));
            let Some(left) = open.conversation.feed(frames, data, parts, names, of.file, self.plainness, &mut anchors)? else {
                return Ok(Outcome::Released(Released::of(key, *open)));
            };
            for (side, (range, end)) in behind.into_iter().enumerate() {
                if !range.is_empty() {
                    open.rests[side] = data.as_bytes()[range.end - left[side]..range.end].to_vec();
                    open.ends[side] = end;
                }
            }
        }
        let ends = reset.is_some() || open.tcp.is_closed();
        let is_told = open.conversation.is_told(self.plainness.exchanges);
        if ends && (open.rests.iter().any(|rest| !rest.is_empty()) || !is_told || (self.rows && open.conversation.greetings().is_none())) {
            frames.entries.truncate(before);
            return Ok(Outcome::Released(Released::of(key, *open)));
        }
        if self.is_own(open.owner) {
            self.add_anchors(py, frames, &key, &anchors)?;
        } else {
            frames.entries.truncate(before);
        }
        if let Some(tcp) = open.tcp.closed(open.file).filter(|_| reset.is_none()) {
            note(&mut self.starts, &open);
            let Open { file, conversation, owner, .. } = *open;
            let described =
                if self.rows && self.is_own(owner) { Some(self.descriptions.of_greetings(py, frames, &conversation)?) } else { None };
            self.closing.push(Closed { key, file, owner, recognised: conversation.begun, tcp, frames: conversation.frames, described });
            return Ok(Outcome::Taken);
        }
        for (flow, of_client) in flows.iter().zip([true, false]) {
            let Some(flow) = flow else { continue };
            for segment in flow.segments().iter().filter(|segment| reset.is_none_or(|reset| segment.packet < reset)) {
                open.kept.add(py, of_client, flow, segment);
            }
        }
        if reset.is_some() {
            return Ok(Outcome::Reset(open.kept));
        }
        self.kept_bytes += open.cost();
        self.open.insert(key, open);
        Ok(Outcome::Taken)
    }

    /// Put rows of anchors after their frames.
    fn add_anchors(&self, py: Python<'_>, frames: &mut Frames, client: &Key, anchors: &[Anchor]) -> PyResult<()> {
        let ends =
            || [*client, reverse(client)].map(|[a, b, c, d, .., p, q, _, _]| format!("{a}.{b}.{c}.{d}:{}", u16::from_be_bytes([p, q])));
        let ends = if anchors.is_empty() { Default::default() } else { ends() };
        for anchor in anchors {
            let row = anchor.row(self.anchor_type.bind(py), frames, &ends)?.unbind();
            frames.anchors.push((anchor.place, row));
        }
        Ok(())
    }

    /// Take late packets of a closed connection in a file; return false if one of them is more than an acknowledgment.
    fn take_late(&mut self, client: &Key, flows: &Flows<'_>, file: i64) -> bool {
        let Some(tcp) = self.closed.get_mut(client) else { return false };
        let mut late: Vec<&Segment> = flows.iter().flatten().flat_map(|flow| flow.segments()).collect();
        late.sort_unstable_by_key(|segment| segment.packet);
        let mut last = tcp.last;
        for segment in &late {
            let silence = segment.time - last.2;
            last = (file, segment.packet, segment.time);
            let is_empty = segment.payload.0 == segment.payload.1 && segment.missing == 0 && segment.flags & (FIN | SYN | RST) == 0;
            if !is_empty || segment.window == 0 || !(0..=self.bounds.1).contains(&silence) {
                return false;
            }
        }
        (tcp.last, tcp.packets) = (last, tcp.packets + late.len() as i64);
        true
    }

    /// Give up the connections with most kept bytes, if there are too many in all.
    fn release_largest(&mut self) -> Vec<Released> {
        let mut released = Vec::new();
        if self.kept_bytes > KEPT_MAX_BYTES {
            let mut costs: Vec<(usize, i64, Key)> = self.open.iter().map(|(key, open)| (open.cost(), -open.tcp.begun().0, *key)).collect();
            costs.sort_unstable();
            while let Some((cost, _, key)) = costs.pop().filter(|_| self.kept_bytes > KEPT_MAX_BYTES / 8 * 7) {
                self.kept_bytes -= cost;
                released.extend(self.open.remove(&key).map(|open| Released::of(key, *open)));
            }
        }
        released
    }
}
