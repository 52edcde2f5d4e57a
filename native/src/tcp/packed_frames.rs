//! Selected frames of a stream, in the order of the stream, in about six bytes each: there may be very many.

use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::capture::segments::packed;
use crate::encoding::wire::Bytes;

/// Number of frames per step, whose first frame is kept unpacked, so that a search can begin there; up to twice as many if some came late.
const STEP: usize = 16;

/// Most bytes of a frame in packed form: a bit for each of six numbers, and the numbers.
const PACKED_MAX: usize = 1 + 6 * 10;

/// A frame: its bytes in the stream, and numbers of its file, name and command.
#[derive(Clone, Copy, Default)]
pub struct FrameRange {
    pub start: i64,
    pub end: i64,
    pub file: i64,
    pub name: i64,
    pub command: i64,
}

/// The frames of each step: the first one, with the place of the others, which are stored as differences.
#[pyclass(module = "pulsarscope_native")]
pub struct PackedFrames {
    sub_bits: u32,
    marks: Vec<(FrameRange, u32)>,
    bytes: Vec<u8>,
    count: usize,
    /// Number of frames in the last step.
    in_last: usize,
    last: FrameRange,
}

impl PackedFrames {
    /// Return the frames with bytes from `start` to `end`; their ends ascend like their starts.
    pub fn between(&self, start: i64, end: i64) -> impl Iterator<Item = FrameRange> + '_ {
        let first = self.marks.partition_point(|(frame, _)| frame.end <= start).saturating_sub(1);
        self.frames(first).skip_while(move |frame| frame.end <= start).take_while(move |frame| start < end && frame.start < end)
    }

    /// Return the frames from a mark on.
    fn frames(&self, mark: usize) -> impl Iterator<Item = FrameRange> + '_ {
        (mark..self.marks.len()).flat_map(|mark| self.step(mark))
    }

    /// Return the range of the differences of a step.
    fn range(&self, mark: usize) -> Range<usize> {
        self.marks[mark].1 as usize..self.marks.get(mark + 1).map_or(self.bytes.len(), |(_, at)| *at as usize)
    }

    /// Return the frames of a step.
    fn step(&self, mark: usize) -> impl Iterator<Item = FrameRange> + '_ {
        let mut rest = Bytes(&self.bytes[self.range(mark)]);
        std::iter::successors(Some(self.marks[mark].0), move |last| self.next(last, &mut rest))
    }

    fn next(&self, last: &FrameRange, rest: &mut Bytes<'_>) -> Option<FrameRange> {
        let differing = rest.varint()?;
        let mut numbers = Self::numbers(self.sub_bits, last);
        numbers[0] = last.end;
        for (at, number) in numbers.iter_mut().enumerate() {
            if differing >> at & 1 != 0 {
                let value = rest.varint()?;
                *number = number.wrapping_add((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        let [start, size, file, packet, sub, command] = numbers;
        Some(FrameRange { start, end: start.wrapping_add(size), file, name: packet << self.sub_bits | sub, command })
    }

    /// Return start, size, file, packet, sub and command of a frame.
    fn numbers(sub_bits: u32, frame: &FrameRange) -> [i64; 6] {
        let sub = frame.name & ((1 << sub_bits) - 1);
        [frame.start, frame.end.wrapping_sub(frame.start), frame.file, frame.name >> sub_bits, sub, frame.command]
    }

    /// Append the numbers of a frame that differ from those of the preceding one, after a bit for each of them; frames usually adjoin.
    fn pack(sub_bits: u32, last: &FrameRange, frame: &FrameRange, out: &mut Vec<u8>) {
        let mut before = Self::numbers(sub_bits, last);
        before[0] = last.end;
        let (mut packed, mut size) = ([0; PACKED_MAX], 1);
        for (at, (number, before)) in Self::numbers(sub_bits, frame).into_iter().zip(before).enumerate() {
            let difference = number.wrapping_sub(before);
            if difference == 0 {
                continue;
            }
            packed[0] |= 1 << at;
            let mut value = (difference << 1 ^ difference >> 63) as u64;
            while value >= 128 {
                packed[size] = value as u8 | 128;
                size += 1;
                value >>= 7;
            }
            packed[size] = value as u8;
            size += 1;
        }
        if out.capacity() - out.len() < size {
            out.reserve_exact(size.max(out.len() / 8).max(8)); // doubling would waste a third of the memory
        }
        out.extend_from_slice(&packed[..size]);
    }

    fn push(&mut self, frame: FrameRange) {
        if self.count == 0 || self.in_last >= STEP {
            if self.count == 0 {
                self.marks.reserve_exact(1); // very many streams have no more
            }
            self.marks.push((frame, self.bytes.len() as u32));
            self.in_last = 0;
        } else {
            Self::pack(self.sub_bits, &self.last, &frame, &mut self.bytes);
        }
        self.in_last += 1;
        self.count += 1;
        self.last = frame;
    }

    /// Insert a frame before others; return false if another one begins there.
    fn insert(&mut self, frame: FrameRange) -> bool {
        let mark = self.marks.partition_point(|(other, _)| other.start <= frame.start).saturating_sub(1);
        let mut step: Vec<FrameRange> = self.step(mark).collect();
        let at = step.partition_point(|other| other.start < frame.start);
        if step.get(at).is_some_and(|other| other.start == frame.start) {
            return false;
        }
        step.insert(at, frame);
        let range = self.range(mark);
        let (mut marks, mut bytes) = (Vec::new(), Vec::new());
        for part in step.chunks(if step.len() > 2 * STEP { STEP } else { step.len() }) {
            marks.push((part[0], (range.start + bytes.len()) as u32));
            part.windows(2).for_each(|pair| Self::pack(self.sub_bits, &pair[0], &pair[1], &mut bytes));
            if mark + 1 == self.marks.len() {
                self.in_last = part.len();
            }
        }
        let (before, after) = (range.len() as u32, bytes.len() as u32);
        self.marks[mark + 1..].iter_mut().for_each(|(_, at)| *at = *at - before + after);
        self.bytes.splice(range, bytes);
        self.marks.splice(mark..=mark, marks);
        self.count += 1;
        true
    }
}

#[pymethods]
impl PackedFrames {
    /// `sub_bits`: bits of a name below the number of its packet.
    #[new]
    fn new(sub_bits: u32) -> PyResult<Self> {
        if sub_bits >= 63 {
            return Err(PyValueError::new_err("no bits are left for packets"));
        }
        let (marks, bytes, count, in_last, last) = Default::default();
        Ok(PackedFrames { sub_bits, marks, bytes, count, in_last, last })
    }

    fn __len__(&self) -> usize {
        self.count
    }

    /// Add a frame and return true, or false if another one begins there.
    fn add(&mut self, start: i64, end: i64, file: i64, name: i64, command: i64) -> bool {
        let frame = FrameRange { start, end, file, name, command };
        if self.count > 0 && start <= self.last.start {
            return self.insert(frame);
        }
        self.push(frame);
        true
    }

    /// Add frames and return true: starts in ascending order, ends, files, names and commands, each as 64-bit integers; return false if
    /// they do not come after all others.
    fn extend(&mut self, starts: &[u8], ends: &[u8], files: &[u8], names: &[u8], commands: &[u8]) -> bool {
        if self.count > 0 && !starts.is_empty() && packed(starts, 0) <= self.last.start {
            return false;
        }
        for at in 0..starts.len() / 8 {
            let [start, end, file, name, command] = [starts, ends, files, names, commands].map(|column| packed(column, at));
            self.push(FrameRange { start, end, file, name, command });
        }
        true
    }

    /// Return all frames, in the form that `extend` takes.
    fn columns<'py>(&self, py: Python<'py>) -> [Bound<'py, PyBytes>; 5] {
        let mut columns: [Vec<u8>; 5] = Default::default();
        for FrameRange { start, end, file, name, command } in self.frames(0) {
            for (column, number) in columns.iter_mut().zip([start, end, file, name, command]) {
                column.extend(number.to_ne_bytes());
            }
        }
        columns.map(|column| PyBytes::new(py, &column))
    }

    /// Return file, name, command and end of the frames with bytes from `start` to `end`.
    fn within(&self, start: i64, end: i64) -> Vec<(i64, i64, i64, i64)> {
        self.between(start, end).map(|frame| (frame.file, frame.name, frame.command, frame.end)).collect()
    }
}
