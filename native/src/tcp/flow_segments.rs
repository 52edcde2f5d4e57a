//! Python's interface to the segments of a flow.

use std::collections::HashSet;
use std::fmt::Write;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple, PyType};

use crate::capture::packet_copies::PacketCopies;
use crate::capture::pieces::{item, Piece};
use crate::capture::segments::{Segment, Segments};
use crate::tcp::ack_times::{AckBounds, AckTimer};
use crate::tcp::packed_frames::{FrameRange, PackedFrames};

/// Pieces, their size, the bytes missing behind them, and the number of the packet that lacks these.
type Run<'py> = (usize, Bound<'py, PyAny>, u32, i64);

/// Size of a run before a gap below which its pieces are a list: `CompiledSplitter.worth_bytes`.
const LIST_BYTES: usize = 2048;

/// `AckTimer`, with -1 for no segment.
type TimerTuple = (i64, i64, bool);

/// `capture.Segment`.
type SegmentTuple<'py> = (i64, i64, u32, u32, u8, u16, Bound<'py, PyBytes>, u32, u16, Bound<'py, PyBytes>);

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

    /// Pickle as the list that Python continues with.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Vec<Bound<'py, PyTuple>>,))> {
        Ok((py.get_type::<PyList>(), (self.tuples(py)?,)))
    }

    /// Latest time of the segments, ns.
    fn latest(&self) -> i64 {
        self.segments.iter().map(|segment| segment.time).max().unwrap_or(0)
    }

    /// Selected segments, as found by `tcp.selected_places`, each with number, flags, start and end in the stream. Instead of returning them,
    /// `copies` takes the packets whose comments consist only of the names of the frames with bytes there, as in
    /// `analysis.packet_selection`. Also the offset up to which the segments of a long stream reach, selected or not.
    ///
    /// `position`: a sequence number of the stream, its offset, how far from there bytes belong to it, and whether it is long, so that the
    /// position follows its bytes; `frames`: those whose bytes are selected; `packets`: whether all are selected, and the numbers of others that are. `commands`: names by number; `findings`: bits of
    /// sub in a name, and findings on frames by file and name, and on packets, whose sub is 0; `file`: that of the segments.
    #[allow(clippy::too_many_arguments)]
    fn copies(
        &self,
        py: Python<'_>,
        position: (i64, i64, i64, bool),
        frames: Option<PyRef<'_, PackedFrames>>,
        packets: (bool, HashSet<i64>),
        commands: Vec<String>,
        findings: (u32, Bound<'_, PyDict>),
        file: i64,
        mut copies: Option<PyRefMut<'_, PacketCopies>>,
    ) -> PyResult<(Vec<(i64, u8, i64, i64)>, i64)> {
        let (sub_bits, findings) = findings;
        let is_told = |file: i64, name: i64| if findings.is_empty() { Ok(false) } else { findings.contains((file, name)) };
        let buffers = copies.as_mut().map_or(0, |copies| copies.add_buffers(py, self));
        let mut found = Vec::new();
        let mut comment = String::new();
        let (mut sequence, mut length, farthest, is_long) = position;
        for segment in &self.segments {
            let (start, end) = segment.place((sequence, length, farthest));
            if is_long && end > length {
                (sequence, length) = (sequence + end - length, end);
            }
            let mut within = frames.iter().flat_map(|frames| frames.between(start, end)).peekable();
            let is_named = packets.1.contains(&segment.packet);
            if within.peek().is_none() && !packets.0 && !is_named {
                continue;
            }
            let mut plain = segment.stored.1 > 0 && !is_named && !is_told(file, segment.packet << sub_bits)?;
            comment.clear();
            for FrameRange { file, name, command, .. } in within {
                plain &= !is_told(file, name)?;
                if name != 0 {
                    if !comment.is_empty() {
                        comment.push('\n');
                    }
                    let command = usize::try_from(command).ok().and_then(|number| commands.get(number)).map_or("", String::as_str);
                    let _ = write!(comment, "{file}:{}.{} {command}", name >> sub_bits, name & ((1 << sub_bits) - 1));
                }
            }
            match copies.as_mut().filter(|_| plain) {
                Some(copies) => copies.add(segment, buffers, &comment),
                None => found.push((segment.packet, segment.flags, start, end)),
            }
        }
        Ok((found, length))
    }

    /// Measure the times until these segments, all in order, are acknowledged by some of the other side; see `AckTimer`. Return its new
    /// state, and each late answer as packet, time, and what it took. `before`: number that the other side acknowledged before, or -1.
    fn acknowledged(
        &self,
        answers: Option<&Segments>,
        before: i64,
        state: (i64, i64, bool),
        bounds: AckBounds,
    ) -> (TimerTuple, Vec<(i64, i64, i64)>) {
        let (end, sent, bare) = state;
        let mut timer = AckTimer { end: u32::try_from(end).ok(), sent, bare };
        let answers = answers.map_or(&[][..], Segments::segments);
        let found = timer.follow(&self.segments, answers, u32::try_from(before).ok(), bounds);
        ((timer.end.map_or(-1, i64::from), timer.sent, timer.bare), found)
    }

    /// The number of segments that are not in order, or need closer examination, and the packet of the first one; the first segment in
    /// order has the next sequence number.
    fn odd(&self, sequence: i64) -> (usize, Option<i64>) {
        let mut expected = sequence;
        let (mut odd, mut first) = (0, None);
        for segment in &self.segments {
            let stop = i64::from(segment.sequence) + segment.span();
            if segment.is_in_order(expected) {
                expected += segment.span();
            } else {
                odd += 1;
                first = first.or(Some(segment.packet));
                expected = expected.max(stop);
            }
        }
        (odd, first)
    }

    /// The segments before a packet, and those from it on.
    fn cut(&self, py: Python<'_>, packet: i64) -> (Segments, Segments) {
        (self.part(py, ..self.place_of(packet)), self.behind(py, packet))
    }

    /// Pieces of the segments of a stream, the first with the next sequence number; None if one of them is not in order, or needs closer
    /// examination, as with a closed window or wrapping sequence numbers. They are in runs, each with its size, the bytes that the capture
    /// cut off behind it, and the number of that packet. Also the number of segments with data and, of the last one, identification, size
    /// and options.
    fn in_order<'py>(&self, py: Python<'py>, sequence: i64) -> PyResult<Option<(Vec<Run<'py>>, usize, u16, usize, Py<PyBytes>)>> {
        let mut expected = sequence;
        let (mut runs, mut count) = (Vec::new(), 0);
        let mut pieces = Vec::new();
        let mut newest = None;
        for segment in &self.segments {
            let size = segment.size();
            if !segment.is_in_order(expected) {
                return Ok(None);
            }
            let Segment { packet, time, buffer, payload, missing, .. } = *segment;
            if size > 0 {
                pieces.push(Piece { buffer, start: payload.0, end: payload.1, packet, time, moment: packet });
            }
            if segment.span() > 0 {
                (expected, count, newest) = (expected + segment.span(), count + 1, Some(segment));
            }
            if missing > 0 {
                runs.push(self.run(py, std::mem::take(&mut pieces), missing, packet)?);
            }
        }
        if !pieces.is_empty() {
            runs.push(self.run(py, pieces, 0, 0)?);
        }
        let (identification, last, options) = match newest {
            None => (0, 0, PyBytes::new(py, b"").unbind()),
            Some(segment) => {
                let options = PyBytes::new(py, self.bytes(py, segment, segment.options)).unbind();
                (segment.identification, (segment.payload.1 - segment.payload.0) as usize, options)
            }
        };
        Ok(Some((runs, count, identification, last, options)))
    }
}

impl Segments {
    fn run<'py>(&self, py: Python<'py>, pieces: Vec<Piece>, missing: u32, packet: i64) -> PyResult<Run<'py>> {
        let pieces = self.pieces(py, pieces);
        let size = pieces.size();
        let pieces = if missing > 0 && size < LIST_BYTES { pieces.list(py)?.into_any() } else { Bound::new(py, pieces)?.into_any() };
        Ok((size, pieces, missing, packet))
    }
}

/// Return packets of these numbers, with their flow keys: those of the flows of a block.
#[pyfunction]
pub fn flows_of<'py>(flows: &Bound<'py, PyDict>, packets: HashSet<i64>) -> PyResult<Vec<(i64, Bound<'py, PyAny>)>> {
    let mut found = Vec::new();
    for (key, segments) in flows {
        if let Ok(segments) = segments.cast::<Segments>() {
            let these = segments.borrow();
            let numbers = these.segments.iter().map(|segment| segment.packet).filter(|packet| packets.contains(packet));
            found.extend(numbers.map(|packet| (packet, key.clone())));
        } else {
            for segment in segments.try_iter()? {
                let packet = segment?.get_item(0)?.extract()?;
                if packets.contains(&packet) {
                    found.push((packet, key.clone()));
                }
            }
        }
    }
    Ok(found)
}
