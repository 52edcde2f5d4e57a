//! Bytes, JSON and MessagePack, read and written like in the Python package.

pub(crate) mod json;
pub(crate) mod kept_bytes;
pub(crate) mod pack;
pub(crate) mod padded;
pub(crate) mod payload_text;
pub(crate) mod unpack;
pub(crate) mod wire;
