//! Plain connections: seen from their SYN on, in order.

pub(crate) mod ack_times;
pub(crate) mod closed_connections;
pub(crate) mod flow_segments;
pub(crate) mod kept_packets;
pub(crate) mod packed_frames;
pub(crate) mod plain_tcp;
