//! Frames whose payload is not requested, read from the pieces of a stream in place: only the heads of frames are copied.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::capture::pieces::{Joined, Pieces, Place, Places, Waiting};
use crate::caught;
use crate::frames::{Entry, Frames, Run};
use crate::schema::tables::Tables;

/// Bytes at the beginning of a frame in which its command and metadata must end; a frame with longer ones is read as a whole.
const HEAD_BYTES: usize = 2048;
/// Bytes that are joined for a checksum: the amount that the processor handles at once, three runs of 8 KiB in parallel.
const STEP_BYTES: usize = 24 << 10;
/// Size of the smallest frame.
const FRAME_MIN_BYTES: usize = 8;

/// Bytes in consecutive parts.
struct Scattered<'a> {
    /// The parts, each with the position of its first byte.
    parts: Vec<(&'a [u8], usize)>,
    size: usize,
    /// The part that is examined first.
    first: usize,
}

impl<'a> Scattered<'a> {
    fn of(py: Python<'a>, waiting: &'a [u8], pieces: &'a Pieces) -> Self {
        let mut all = Scattered { parts: Vec::with_capacity(pieces.pieces.len() + 1), size: 0, first: 0 };
        all.push(waiting);
        for piece in &pieces.pieces {
            all.push(&pieces.buffers[piece.buffer as usize].as_bytes(py)[piece.start as usize..piece.end as usize]);
        }
        all
    }

    fn push(&mut self, part: &'a [u8]) {
        if !part.is_empty() {
            self.parts.push((part, self.size));
            self.size += part.len();
        }
    }

    /// Skip the parts before the one with the byte at a position.
    fn seek(&mut self, position: usize) {
        while self.parts.get(self.first).is_some_and(|(part, begin)| begin + part.len() <= position) {
            self.first += 1;
        }
    }

    /// Pass the bytes from `start` up to `stop`, part by part.
    fn each(&self, start: usize, stop: usize, mut take: impl FnMut(&'a [u8])) {
        for (part, begin) in &self.parts[self.first..] {
            let (begin, end) = (*begin, begin + part.len());
            if begin >= stop {
                break;
            }
            if end > start {
                take(&part[start.max(begin) - begin..stop.min(end) - begin]);
            }
        }
    }

    /// Return the CRC-32C of the bytes between two positions; `step` is scratch memory.
    fn checksum(&self, start: usize, stop: usize, step: &mut Vec<u8>) -> u32 {
        let mut checksum = 0;
        step.clear();
        self.each(start, stop, |mut part| {
            while !part.is_empty() {
                if step.is_empty() && part.len() >= STEP_BYTES {
                    checksum = crc32c::crc32c_append(checksum, part);
                    break;
                }
                let (now, behind) = part.split_at(part.len().min(STEP_BYTES - step.len()));
                step.extend_from_slice(now);
                part = behind;
                if step.len() == STEP_BYTES {
                    checksum = crc32c::crc32c_append(checksum, step);
                    step.clear();
                }
            }
        });
        crc32c::crc32c_append(checksum, step)
    }

    /// Return the bytes from a position on.
    fn behind<'py>(&self, py: Python<'py>, position: usize) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, self.size - position, |mut out| {
            self.each(position, self.size, |part| {
                let (to, behind) = std::mem::take(&mut out).split_at_mut(part.len());
                to.copy_from_slice(part);
                out = behind;
            });
            Ok(())
        })
    }
}

/// Results besides the frames.
#[derive(Default)]
struct Found {
    heads: Vec<u8>,
    /// Position up to which bytes are needed to continue; 0 if the next frame is whole.
    wake: usize,
}

/// Read frames up to one that is not plain, not whole or too large.
fn read(
    py: Python<'_>,
    tables: &Tables,
    bytes: &mut Scattered<'_>,
    run: &mut Run<'_>,
    entries: &mut Vec<Entry>,
    found: &mut Found,
) -> PyResult<()> {
    let heads = &mut found.heads;
    let mut step = Vec::with_capacity(STEP_BYTES);
    loop {
        let (position, head) = (run.position, heads.len());
        bytes.seek(position);
        bytes.each(position, bytes.size.min(position + HEAD_BYTES), |part| heads.extend_from_slice(part));
        let Some(size) = heads[head..].first_chunk::<4>() else { break };
        let size = u32::from_be_bytes(*size) as usize + 4;
        if !(FRAME_MIN_BYTES..=run.largest).contains(&size) {
            break;
        }
        let stop = position + size;
        if stop > bytes.size {
            found.wake = stop;
            break;
        }
        heads.truncate(head + size);
        let checksum = |start| bytes.checksum(position + start, stop, &mut step);
        let Some(parts) = tables.parts_of_head(py, &heads[head..], size, run.any, checksum)? else { break };
        if parts.payload_at > 0 {
            heads.truncate(head + parts.payload_at as usize);
        }
        run.take(size, head, parts, entries)?;
    }
    Ok(())
}

/// Arguments of `Frames.read_heads`: waiting bytes, with the pieces and ends of `dissect.StreamBuffer`, and the pieces that begin at an
/// offset.
pub type Stream<'py> = (Bound<'py, PyBytes>, Bound<'py, PyAny>, Vec<i64>, i64, Bound<'py, Pieces>);

/// See `Frames.read_heads`.
pub fn read_heads<'py>(
    frames: &mut Frames,
    stream: Stream<'py>,
    names: [Bound<'py, PyAny>; 5],
    at: (i64, usize, i64, u32),
) -> PyResult<Bound<'py, PyTuple>> {
    let (waiting, pieces, ends, offset, following) = stream;
    let py = waiting.py();
    let (floor, largest, packet, sub) = at;
    let base = offset - i64::try_from(waiting.as_bytes().len())?;
    let (places, _) = Waiting { pieces: &pieces, ends }.places(offset, following.get())?;
    let places: Arc<Vec<Place>> = Arc::new(places);
    let mut bytes = Scattered::of(py, waiting.as_bytes(), following.get());
    let origin = frames.origins.len() as u32;
    let mut run = Run::new((0, packet, sub), (origin, base, floor, largest), Places::Joined(places.clone()));
    let reader = frames.reader.clone_ref(py);
    let mut found = Found::default();
    // A frame that raises is read again as a whole, and raises there.
    let _ = caught(|| read(py, &reader.get().tables, &mut bytes, &mut run, &mut frames.entries, &mut found));
    frames.add_named_origin(PyBytes::new(py, &found.heads).unbind(), base, names)?;
    let rest = match run.position == bytes.size {
        true => None,
        false => Some(Joined::of(bytes.behind(py, run.position)?, base + i64::try_from(run.position)?, &places)),
    };
    (run.position, run.packet, run.sub, found.wake, rest).into_pyobject(py)
}
