//! Bytes, JSON and MessagePack, read and written like in the Python package; maps of numbers.

pub(crate) mod json;
pub(crate) mod kept_bytes;
pub(crate) mod number_keys;
pub(crate) mod pack;
pub(crate) mod padded;
pub(crate) mod payload_text;
pub(crate) mod unpack;
pub(crate) mod wire;
