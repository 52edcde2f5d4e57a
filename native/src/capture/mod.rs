//! Blocks of a capture, and the segments in them.

pub(crate) mod headers;
pub(crate) mod packet_copies;
pub(crate) mod packets;
pub(crate) mod pcapng;
pub(crate) mod pieces;
pub(crate) mod ring;
pub(crate) mod segments;
