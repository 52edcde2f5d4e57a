//! Blocks of packets in a pcapng capture.

const ENHANCED_PACKET: u32 = 6;

/// Length of the block of a packet without the packet's bytes and options.
pub const PACKET_BLOCK_BYTES: usize = 32;

/// Length of the part of a block before the bytes of the packet.
pub const PACKET_HEAD_BYTES: usize = 28;

/// Return the part of a block before the bytes of the packet; `length` is that of the block, `time` is in nanoseconds.
pub fn packet_head(length: u32, interface: u32, time: u64, captured: u32, wire_bytes: u32) -> [u8; PACKET_HEAD_BYTES] {
    let words = [ENHANCED_PACKET, length, interface, (time >> 32) as u32, time as u32, captured, wire_bytes];
    let mut head = [0; PACKET_HEAD_BYTES];
    for (place, word) in head.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    head
}
