//! Bytes, JSON and MessagePack, read and written as the Python package does.

pub(crate) mod json;
pub(crate) mod kept_bytes;
pub(crate) mod pack;
pub(crate) mod padded;
pub(crate) mod payload_text;
pub(crate) mod unpack;
pub(crate) mod wire;
