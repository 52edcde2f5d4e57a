//! Packets of a block that are copied as stored, and their blocks in a pcapng capture, as written by `output/export/pcapng.py`.

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyList, PyString, PyTuple};

use crate::capture::pcapng::{packet_head, PACKET_BLOCK_BYTES};
use crate::capture::segments::{Segment, Segments};
use crate::caught;

const COMMENT: u16 = 1;
/// Length of a comment in addition to its text, including the end of the options.
const COMMENT_BYTES: usize = 8;
const TEXT_MAX_BYTES: usize = 0xFFFF;

/// A packet: its bytes are a range of a buffer, its comment is a range of the common text.
struct Copy {
    packet: i64,
    time: i64,
    buffer: u32,
    stored: (u32, u32),
    comment: (u32, u32),
}

/// Packets with comments.
#[pyclass(module = "pulsarscope_native")]
#[derive(Default)]
pub struct PacketCopies {
    buffers: Vec<Py<PyBytes>>,
    copies: Vec<Copy>,
    comments: String,
}

impl PacketCopies {
    /// Keep the bytes of the packets of some segments; return the number of their first buffer.
    pub fn add_buffers(&mut self, py: Python<'_>, of: &Segments) -> u32 {
        let first = self.buffers.len() as u32;
        self.buffers.extend(of.buffers.iter().map(|buffer| buffer.clone_ref(py)));
        first
    }

    /// Add the packet of a segment; `first`: see `add_buffers`.
    pub fn add(&mut self, segment: &Segment, first: u32, comment: &str) {
        let start = self.comments.len() as u32;
        self.comments.push_str(comment);
        let Segment { packet, time, buffer, stored, .. } = *segment;
        self.copies.push(Copy { packet, time, buffer: first + buffer, stored, comment: (start, self.comments.len() as u32) });
    }

    fn comment(&self, copy: &Copy) -> &str {
        &self.comments[copy.comment.0 as usize..copy.comment.1 as usize]
    }

    fn data<'a>(&'a self, py: Python<'a>, copy: &Copy) -> &'a [u8] {
        &self.buffers[copy.buffer as usize].as_bytes(py)[copy.stored.0 as usize..copy.stored.1 as usize]
    }
}

#[pymethods]
impl PacketCopies {
    #[new]
    fn new() -> Self {
        PacketCopies::default()
    }

    fn __len__(&self) -> usize {
        self.copies.len()
    }

    /// Return number, time, bytes and comment of each packet.
    fn packets<'py>(&self, py: Python<'py>) -> Vec<(i64, i64, Bound<'py, PyBytes>, &str)> {
        self.copies.iter().map(|copy| (copy.packet, copy.time, PyBytes::new(py, self.data(py, copy)), self.comment(copy))).collect()
    }

    /// Return the blocks of these packets and of others (`capture.block.PacketRecord`), each of which has the lines of its comment, in the
    /// order of their numbers; None if one was captured before 1970 or by another interface, or has a comment that only Python can write.
    ///
    /// `interface`: that of all packets; `number`: returns its number when needed.
    fn blocks<'py>(
        &mut self,
        py: Python<'py>,
        number: &Bound<'py, PyAny>,
        interface: &Bound<'py, PyAny>,
        others: &Bound<'py, PyList>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        caught(|| {
            if self.copies.iter().any(|copy| copy.time < 0 || self.comment(copy).len() > TEXT_MAX_BYTES) {
                return Ok(None);
            }
            let mut between = Vec::with_capacity(others.len());
            for other in others {
                let Some(other) = Other::of(&other.cast_into::<PyTuple>()?, interface)? else { return Ok(None) };
                between.push(other);
            }
            let number = number.call0()?.extract()?;
            self.copies.sort_by_key(|copy| copy.packet);
            let (mut out, mut copies) = (Vec::new(), self.copies.iter().peekable());
            for other in &between {
                while let Some(copy) = copies.next_if(|copy| copy.packet < other.packet) {
                    self.push(py, number, copy, &mut out);
                }
                push_block(number, other.time, other.wire_bytes, other.data.as_bytes(), &other.comment, &mut out);
            }
            copies.for_each(|copy| self.push(py, number, copy, &mut out));
            Ok(Some(PyBytes::new(py, &out)))
        })
    }
}

impl PacketCopies {
    fn push(&self, py: Python<'_>, number: u32, copy: &Copy, out: &mut Vec<u8>) {
        let data = self.data(py, copy);
        push_block(number, copy.time as u64, data.len() as u32, data, self.comment(copy).as_bytes(), out);
    }
}

/// A packet that Python has read.
struct Other<'py> {
    packet: i64,
    time: u64,
    wire_bytes: u32,
    data: Bound<'py, PyBytes>,
    comment: Vec<u8>,
}

impl<'py> Other<'py> {
    /// Take a packet and the lines of its comment; None if only Python can write it.
    fn of(packet: &Bound<'py, PyTuple>, interface: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let record = packet.get_item(0)?.cast_into::<PyTuple>()?;
        let (Ok(time), Ok(wire_bytes), Ok(data), true, Some(comment)) = (
            record.get_item(1)?.extract(),
            record.get_item(2)?.extract(),
            record.get_item(4)?.cast_into(),
            record.get_item(3)?.eq(interface)?,
            comment(&packet.get_item(1)?.cast_into::<PyList>()?)?,
        ) else {
            return Ok(None);
        };
        Ok(Some(Other { packet: record.get_item(0)?.extract()?, time, wire_bytes, data, comment }))
    }
}

/// Return lines as one text; None if it is too long, or cannot be encoded unchanged.
fn comment(lines: &Bound<'_, PyList>) -> PyResult<Option<Vec<u8>>> {
    let mut comment = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            comment.push(b'\n');
        }
        let line = line.cast_into::<PyString>()?;
        let Ok(text) = line.to_cow() else { return Ok(None) };
        comment.extend_from_slice(text.as_bytes());
    }
    Ok(Some(comment).filter(|comment| comment.len() <= TEXT_MAX_BYTES))
}

fn push_block(interface: u32, time: u64, wire_bytes: u32, data: &[u8], comment: &[u8], out: &mut Vec<u8>) {
    let options = if comment.is_empty() { 0 } else { COMMENT_BYTES + comment.len().next_multiple_of(4) };
    let length = (PACKET_BLOCK_BYTES + data.len().next_multiple_of(4) + options) as u32;
    out.reserve(length as usize);
    out.extend_from_slice(&packet_head(length, interface, time, data.len() as u32, wire_bytes));
    push_padded(data, out);
    if !comment.is_empty() {
        out.extend_from_slice(&COMMENT.to_le_bytes());
        out.extend_from_slice(&(comment.len() as u16).to_le_bytes());
        push_padded(comment, out);
        out.extend_from_slice(&[0; 4]);
    }
    out.extend_from_slice(&length.to_le_bytes());
}

fn push_padded(data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(data);
    out.resize(out.len() + (data.len().next_multiple_of(4) - data.len()), 0);
}
