//! Connections that begin and end within one block, as found by `tcp.complete_connections`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::capture::pieces::{Piece, Pieces};
use crate::capture::segments::{Segment, Segments, FIN, RST, SYN};

const ACK: u8 = 0x10;
const HANDSHAKE_FLAGS: u8 = FIN | SYN | RST | ACK;

/// A stream: sequence number after it, its length, identification, options and size of its newest segment, and its pieces.
pub type StreamTuple = (u32, u32, u16, Py<PyBytes>, usize, Pieces);

/// First packet and its time; packet that closes the connection, and the latest time up to it; last packet and its time; latest time of
/// all; stream of the first FIN, and its time; both streams.
pub type ConnectionTuple = ((i64, i64), (i64, i64), (i64, i64), i64, (usize, i64), StreamTuple, StreamTuple);

/// A stream from its SYN to its FIN: the sequence number after it, its newest segment, its FIN, and its pieces.
struct CompleteStream<'a> {
    first: u32,
    expected: u32,
    newest: &'a Segment,
    fin: &'a Segment,
    pieces: Vec<Piece>,
}

impl<'a> CompleteStream<'a> {
    /// Return the stream of some segments, the first of which is its SYN; None if it needs closer examination.
    fn of(segments: &'a [Segment]) -> Option<Self> {
        let (syn, following) = segments.split_first()?;
        let first = syn.sequence.wrapping_add(1);
        let (mut expected, mut newest, mut fin) = (first, syn, None);
        let mut pieces = Vec::with_capacity(following.len());
        for segment in following {
            let (start, end) = segment.payload;
            if segment.window == 0 || segment.missing > 0 || segment.flags & (SYN | RST) != 0 {
                return None;
            }
            if end == start && segment.flags & FIN == 0 {
                continue;
            }
            if segment.sequence != expected || fin.is_some() {
                return None;
            }
            if end > start {
                let Segment { packet, time, buffer, .. } = *segment;
                pieces.push(Piece { buffer, start, end, packet, time, moment: packet });
                expected = expected.wrapping_add(end - start);
                newest = segment;
            }
            if segment.flags & FIN != 0 {
                fin = Some(segment);
            }
        }
        Some(CompleteStream { first, expected, newest, fin: fin?, pieces })
    }

    fn into_tuple(self, py: Python<'_>, segments: &Segments) -> StreamTuple {
        let options = PyBytes::new(py, segments.bytes(py, self.newest, self.newest.options)).unbind();
        let size = (self.newest.payload.1 - self.newest.payload.0) as usize;
        let length = self.expected.wrapping_sub(self.first);
        (self.expected, length, self.newest.identification, options, size, segments.pieces(py, self.pieces))
    }
}

/// Return true for a SYN, or a SYN and ACK, without data.
fn opens(segment: &Segment, flags: u8) -> bool {
    segment.flags & HANDSHAKE_FLAGS == flags && segment.payload.0 == segment.payload.1 && segment.missing == 0 && segment.window > 0
}

/// Return the connection that consists of all these segments of a client, and those of the server, from SYN to both FINs; None if they need
/// the general path. `longest`: maximum duration, ns.
pub fn connection(py: Python<'_>, client: &Segments, server: &Segments, longest: i64) -> Option<ConnectionTuple> {
    let ([syn, second, ..], [answer, ..]) = (client.segments(), server.segments()) else { return None };
    if !opens(syn, SYN) || !opens(answer, SYN | ACK) || answer.acknowledgment != syn.sequence.wrapping_add(1) {
        return None;
    }
    let both = || client.segments().iter().chain(server.segments());
    let last = both().max_by_key(|segment| segment.packet)?;
    let latest = both().map(|segment| segment.time).max()?;
    if syn.packet >= answer.packet || answer.packet >= second.packet || latest - syn.time > longest {
        return None;
    }
    let streams = [CompleteStream::of(client.segments())?, CompleteStream::of(server.segments())?];
    let fins = [streams[0].fin, streams[1].fin];
    let first = usize::from((fins[0].time, fins[0].packet) >= (fins[1].time, fins[1].packet));
    let behind = fins[first].acknowledgment.wrapping_sub(streams[1 - first].expected) as i32 > 0;
    let is_answer = fins[first].flags & ACK != 0 && behind;
    let closed_by = if is_answer { 1 - first } else { first };
    let closing = fins[0].packet.max(fins[1].packet);
    let ending = both().filter(|segment| segment.packet <= closing).map(|segment| segment.time).max()?;
    let closing_time = fins[first].time;
    let [of_client, of_server] = streams;
    let (of_client, of_server) = (of_client.into_tuple(py, client), of_server.into_tuple(py, server));
    let (begun, ended) = ((syn.packet, syn.time), (last.packet, last.time));
    Some((begun, (closing, ending), ended, latest, (closed_by, closing_time), of_client, of_server))
}
