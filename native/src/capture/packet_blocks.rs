//! Packets of a pcapng capture, as `output/export/pcapng.py` writes them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::caught;

const PACKET: u32 = 6;
/// Length of the block of a packet without its bytes and options.
const PACKET_BYTES: usize = 32;
const COMMENT: u16 = 1;
/// Length of a comment beside its text, with the end of the options.
const COMMENT_BYTES: usize = 8;
const TEXT_MAX_BYTES: usize = 0xFFFF;

/// Return the blocks of packets (`capture.block.PacketRecord`) of an interface with this number, each with the lines of its comment; None where
/// one is of another interface, captured before 1970, or needs words that only Python can write.
#[pyfunction]
pub fn packet_blocks<'py>(py: Python<'py>, interface: u32, packets: &Bound<'py, PyList>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    caught(|| {
        let mut out = Vec::new();
        let mut of_first = None;
        for packet in packets {
            let packet = packet.cast_into::<PyTuple>()?;
            let record = packet.get_item(0)?.cast_into::<PyTuple>()?;
            let captured_on = record.get_item(3)?;
            if !of_first.get_or_insert_with(|| captured_on.clone()).is(&captured_on) {
                return Ok(None);
            }
            let Some(comment) = comment(&packet.get_item(1)?.cast_into::<PyList>()?)? else { return Ok(None) };
            let data = record.get_item(4)?;
            let (Ok(time), Ok(wire_bytes), Ok(data)) =
                (record.get_item(1)?.extract::<u64>(), record.get_item(2)?.extract::<u32>(), data.cast::<PyBytes>())
            else {
                return Ok(None);
            };
            push_block(interface, time, wire_bytes, data.as_bytes(), &comment, &mut out);
        }
        Ok(Some(PyBytes::new(py, &out)))
    })
}

/// Return lines as one text; None if it is too long, or not to be encoded as it is.
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
    let length = (PACKET_BYTES + data.len().next_multiple_of(4) + options) as u32;
    out.reserve(length as usize);
    for word in [PACKET, length, interface, (time >> 32) as u32, time as u32, data.len() as u32, wire_bytes] {
        out.extend_from_slice(&word.to_le_bytes());
    }
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
