//! State of TCP of a connection that has been plain so far: seen from its SYN on, in order, without a closed window or a reset.
//!
//! The effects of a packet are those in `tcp.assembler`, which must decide about any other packet.

use crate::capture::segments::{Segment, ACK, FIN, RST, SYN};
use crate::tcp::ack_times::{AckBounds, AckTimer};
use crate::tcp::closed_connections::{ClosedStream, ClosedTcp};

const HANDSHAKE_FLAGS: u8 = FIN | SYN | RST | ACK;

/// Bounds of TCP: silence after which a packet begins another connection, time for late packets of a closed one, both ns, and the farthest
/// acknowledgment that is believed, bytes; and those of acknowledgments.
pub type TcpBounds = (i64, i64, i64, AckBounds);

struct End {
    packet: i64,
    time: i64,
    /// The number that it acknowledges, if any.
    acknowledgment: Option<u32>,
}

struct Stream {
    /// Sequence number of the first byte, and of the next one.
    first: u32,
    expected: u32,
    fin: Option<End>,
    segments: u32,
    /// The number that the latest packet acknowledges in the other stream.
    acknowledges: Option<u32>,
    ack_times: AckTimer,
    identification: u16,
    options: Vec<u8>,
    size: u32,
}

impl Stream {
    fn of(syn: &Segment, options: &[u8], acks: AckBounds) -> Self {
        let first = syn.sequence.wrapping_add(1);
        let acknowledges = (syn.flags & ACK != 0).then_some(syn.acknowledgment);
        let (identification, options) = (syn.identification, options.to_vec());
        let ack_times = AckTimer::new(acks);
        Stream { first, expected: first, fin: None, segments: 0, acknowledges, ack_times, identification, options, size: 0 }
    }

    fn closed(&self) -> ClosedStream {
        ClosedStream {
            expected: self.expected,
            length: self.expected.wrapping_sub(self.first),
            size: self.size,
            segments: self.segments,
            identification: self.identification,
            options: self.options.len() as u8, // a header of TCP has 40 at most
        }
    }
}

/// Effect of a packet.
#[derive(PartialEq)]
pub enum Brings {
    Nothing,
    /// Its payload is the next of its stream.
    Data,
}

pub struct PlainTcp {
    begun: (i64, i64),
    last: (i64, i64),
    packets: i64,
    client: Stream,
    /// None before the answer to the SYN.
    server: Option<Stream>,
}

/// Return true for a SYN, or a SYN and ACK, without data.
pub fn opens(segment: &Segment, flags: u8) -> bool {
    segment.flags & HANDSHAKE_FLAGS == flags && segment.payload.0 == segment.payload.1 && segment.missing == 0 && segment.window > 0
}

impl PlainTcp {
    /// Begin with a SYN.
    pub fn of(syn: &Segment, options: &[u8], (_, _, _, acks): TcpBounds) -> Self {
        let at = (syn.packet, syn.time);
        PlainTcp { begun: at, last: at, packets: 1, client: Stream::of(syn, options, acks), server: None }
    }

    /// Number and time of its first packet.
    pub fn begun(&self) -> (i64, i64) {
        self.begun
    }

    /// Sequence numbers at which both streams begin; 0 for one that has not begun.
    pub fn firsts(&self) -> [u32; 2] {
        [self.client.first, self.server.as_ref().map_or(0, |server| server.first)]
    }

    /// Take the next packet; None if it is not plain.
    pub fn take(&mut self, of_client: bool, segment: &Segment, options: &[u8], bounds: TcpBounds) -> Option<Brings> {
        let closed = self.is_closed();
        let (idle, late, farthest, acks) = bounds;
        let silences = 0..=if closed { late } else { idle };
        let at = (segment.packet, segment.time);
        let is_whole = segment.window > 0 && segment.missing == 0 && segment.flags & RST == 0;
        if !is_whole || !silences.contains(&(segment.time - self.last.1)) {
            return None;
        }
        if segment.flags & SYN != 0 {
            let answers = !of_client && self.server.is_none() && self.packets == 1 && opens(segment, SYN | ACK);
            if !answers || segment.acknowledgment != self.client.first {
                return None;
            }
            self.server = Some(Stream::of(segment, options, acks));
            (self.packets, self.last) = (2, at);
            return Some(Brings::Nothing);
        }
        let server = self.server.as_mut()?;
        let (own, other) = if of_client { (&mut self.client, server) } else { (server, &mut self.client) };
        if other.ack_times.answer(segment, acks).is_some() {
            return None;
        }
        let size = segment.payload.1 - segment.payload.0;
        let distance = segment.sequence.wrapping_sub(own.expected) as i32;
        let mut brings = Brings::Nothing;
        let acknowledgment = segment.acknowledges();
        let asks = size <= 1 && distance == -1 && own.fin.is_none() && !closed && segment.flags & FIN == 0; // a keep-alive
        if !asks && (size > 0 || segment.flags & FIN != 0) {
            if distance != 0 || own.fin.is_some() {
                return None;
            }
            own.ack_times.send(segment, other.acknowledges, acks);
            if size > 0 {
                own.expected = own.expected.wrapping_add(size);
                own.segments += 1;
                (own.identification, own.size) = (segment.identification, size);
                own.options.clear();
                own.options.extend_from_slice(options);
                brings = Brings::Data;
            }
            if segment.flags & FIN != 0 {
                own.fin = Some(End { packet: segment.packet, time: segment.time, acknowledgment });
            }
        }
        if asks && size > 0 {
            own.ack_times.end = None; // as after any segment that is not in order
        }
        if size > 0 || i64::from(distance).abs() <= farthest {
            own.acknowledges = acknowledgment;
        }
        self.packets += 1;
        self.last = at;
        Some(brings)
    }

    /// Return true for a RST that ends the connection, or comes after its end, in agreement with `tcp.connection.accepts_reset`.
    pub fn is_ended_by(&self, of_client: bool, reset: &Segment, (idle, late, ..): TcpBounds) -> bool {
        let Some(server) = &self.server else { return false };
        let own = if of_client { &self.client } else { server };
        let silences = 0..=if self.is_closed() { late } else { idle };
        let is_plain = reset.flags & SYN == 0 && reset.payload.0 == reset.payload.1 && reset.missing == 0;
        let is_next = reset.sequence == own.expected.wrapping_add(u32::from(own.fin.is_some()));
        is_plain && silences.contains(&(reset.time - self.last.1)) && (self.is_closed() || (is_next && self.is_complete()))
    }

    /// Return true when both streams have ended.
    pub fn is_closed(&self) -> bool {
        self.client.fin.is_some() && self.server.as_ref().is_some_and(|server| server.fin.is_some())
    }

    /// Return true if nothing is known to be missing after the bytes of its streams, in case no more packets come.
    pub fn is_complete(&self) -> bool {
        let Some(server) = &self.server else { return true };
        let is_whole = |stream: &Stream, other: &Stream| {
            let beyond = other.acknowledges.map_or(0, |acknowledgment| acknowledgment.wrapping_sub(stream.expected) as i32);
            stream.fin.is_some() || beyond <= 1 // of the other one, that may be a FIN
        };
        is_whole(&self.client, server) && is_whole(server, &self.client)
    }

    /// Return the kept state, if all packets are in one file; None before the connection is closed.
    pub fn closed(&self, file: i64) -> Option<ClosedTcp> {
        let server = self.server.as_ref()?;
        let streams = [&self.client, server];
        let fins = [self.client.fin.as_ref()?, server.fin.as_ref()?];
        let first = usize::from((fins[0].time, fins[0].packet) >= (fins[1].time, fins[1].packet));
        let expected = streams[1 - first].expected;
        let is_answer = fins[first].acknowledgment.is_some_and(|number| number.wrapping_sub(expected) as i32 > 0);
        Some(ClosedTcp {
            begun: self.begun,
            closing: (fins[1 - first].packet, fins[1 - first].time),
            last: (file, self.last.0, self.last.1),
            packets: self.packets,
            closing_time: fins[first].time,
            closed_by_server: (first == 1) != is_answer,
            streams: streams.map(Stream::closed),
            options: [&self.client.options[..], &server.options].concat().into(),
        })
    }
}
