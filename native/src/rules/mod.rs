//! What rules ask of frames in columns.

pub(crate) mod by_connection;
pub(crate) mod deliveries;
pub(crate) mod stretches;
pub(crate) mod waiting_sends;
