//! A block of the kernel's packet ring (TPACKET_V3) as pcapng blocks.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::capture::pcapng::{packet_head, PACKET_BLOCK_BYTES, PACKET_HEAD_BYTES};
use crate::caught;

const VLAN_VALID: u32 = 0x10;

/// A packet in the ring: the data of its pcapng block, and the place of its bytes.
struct Packet {
    time: i64,
    captured: usize,
    wire_bytes: u32,
    start: usize,
    next: usize,
}

impl Packet {
    /// Read the header (struct tpacket3_hdr) at an offset; None if the block ends before, or the interface removed a VLAN tag.
    fn at(block: &[u8], offset: usize) -> Option<Packet> {
        let header = block.get(offset..offset.checked_add(26)?)?;
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let start = offset + usize::from(u16::from_ne_bytes([header[24], header[25]]));
        let captured = word(12) as usize;
        if word(20) & VLAN_VALID != 0 || start.checked_add(captured)? > block.len() {
            return None;
        }
        let time = i64::from(word(4)) * 1_000_000_000 + i64::from(word(8));
        Some(Packet { time, captured, wire_bytes: word(16), start, next: offset.checked_add(word(0) as usize)? })
    }

    /// The size of its pcapng block.
    fn size(&self) -> usize {
        self.captured.div_ceil(4) * 4 + PACKET_BLOCK_BYTES
    }

    /// Write its pcapng block, of interface 0, to a place of that size that holds zeros.
    fn write(&self, block: &[u8], place: &mut [u8]) {
        let size = place.len() as u32;
        let (head, rest) = place.split_at_mut(PACKET_HEAD_BYTES);
        head.copy_from_slice(&packet_head(size, 0, self.time as u64, self.captured as u32, self.wire_bytes));
        rest[..self.captured].copy_from_slice(&block[self.start..self.start + self.captured]);
        let end = place.len() - 4;
        place[end..].copy_from_slice(&size.to_le_bytes());
    }
}

/// Return the pcapng blocks of `count` packets of a block, from offset `first` on, and the time of the last one in nanoseconds.
///
/// None if one of them is not plain: Python restores the VLAN tag that the interface removed.
#[pyfunction]
pub fn ring_packets<'py>(
    py: Python<'py>,
    block: &Bound<'py, PyBytes>,
    first: usize,
    packets: usize,
) -> PyResult<Option<(Bound<'py, PyBytes>, i64)>> {
    caught(|| {
        let block = block.as_bytes();
        let mut found = Vec::with_capacity(packets.min(block.len() / PACKET_BLOCK_BYTES));
        let mut offset = first;
        for _ in 0..packets {
            let Some(packet) = Packet::at(block, offset) else { return Ok(None) };
            offset = packet.next;
            found.push(packet);
        }
        let size = found.iter().map(Packet::size).sum();
        let data = PyBytes::new_with(py, size, |mut place| {
            for packet in &found {
                let (here, rest) = place.split_at_mut(packet.size());
                packet.write(block, here);
                place = rest;
            }
            Ok(())
        })?;
        Ok(Some((data, found.last().map_or(0, |packet| packet.time))))
    })
}
