//! Frames in columns, in the form that rules use.

pub(crate) mod by_connection;
pub(crate) mod deliveries;
pub(crate) mod number_list;
pub(crate) mod stretches;
pub(crate) mod waiting_sends;
