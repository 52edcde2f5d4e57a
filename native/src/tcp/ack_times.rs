//! Times until data are acknowledged, as in `tcp.ack_times`: one segment at a time.

use crate::capture::segments::{Segment, ACK, FIN, RST, SYN};

/// Time between the beginnings of two measurements, and the time from which one is late, both ns.
pub type AckBounds = (i64, i64);

/// State of the measurement of a stream; see `tcp.ack_times`.
#[derive(Clone, Copy)]
pub struct AckTimer {
    /// Sequence number behind the segment that is measured, if any; the time of the latest one; whether a packet without data ended one.
    pub end: Option<u32>,
    pub sent: i64,
    pub bare: bool,
}

impl AckTimer {
    pub fn new((pause, _): AckBounds) -> Self {
        AckTimer { end: None, sent: -pause, bare: false }
    }

    /// Return true for a segment with data, unless another one is measured, or was shortly before.
    fn is_due(&self, segment: &Segment, (pause, _): AckBounds) -> bool {
        self.end.is_none() && segment.span() > 0 && segment.time >= self.sent + pause
    }

    /// Measure a segment that has the next bytes of the stream, if it is due; `acknowledged`: by the other side's packet before it.
    pub fn send(&mut self, segment: &Segment, acknowledged: Option<u32>, bounds: AckBounds) {
        if self.is_due(segment, bounds) {
            let end = segment.sequence.wrapping_add(segment.span() as u32); // less than 64 KiB, or a whole super-packet
            if acknowledged.is_none_or(|number| (number.wrapping_sub(end) as i32) < 0) {
                (self.end, self.sent) = (Some(end), segment.time);
            }
        }
    }

    /// Take a packet of the other side; return the time that it ends, if it is late.
    pub fn answer(&mut self, segment: &Segment, (_, late): AckBounds) -> Option<i64> {
        let end = self.end?;
        if segment.flags & ACK == 0 || segment.flags & (RST | SYN) != 0 || (segment.acknowledgment.wrapping_sub(end) as i32) < 0 {
            return None;
        }
        self.end = None;
        self.bare |= segment.span() == 0 && segment.flags & FIN == 0;
        let took = segment.time - self.sent;
        (took >= late).then_some(took)
    }

    /// Measure segments in order; return each late answer as packet, time, and what it took. `acknowledged`: before these answers.
    pub fn follow(
        &mut self,
        segments: &[Segment],
        answers: &[Segment],
        acknowledged: Option<u32>,
        bounds: AckBounds,
    ) -> Vec<(i64, i64, i64)> {
        let after = |of: &[Segment], packet: i64| of.partition_point(|segment| segment.packet < packet);
        let (mut place, mut reply, mut found) = (0, 0, Vec::new());
        loop {
            if self.end.is_none() {
                while place < segments.len() && self.end.is_none() {
                    if self.is_due(&segments[place], bounds) {
                        reply = after(answers, segments[place].packet);
                        let before = reply.checked_sub(1).map_or(acknowledged, |at| answers[at].acknowledges());
                        self.send(&segments[place], before, bounds);
                    }
                    place += 1;
                }
                if self.end.is_none() {
                    return found;
                }
            }
            while self.end.is_some() {
                let Some(answer) = answers.get(reply) else { return found };
                if let Some(took) = self.answer(answer, bounds) {
                    found.push((answer.packet, answer.time, took));
                }
                reply += 1;
            }
            place = after(segments, answers[reply - 1].packet);
        }
    }
}
