//! Facts across connections, without a Python object for each.

pub(crate) mod ordered;
pub(crate) mod pending;
pub(crate) mod placed_facts;
pub(crate) mod trimming;
pub(crate) mod undecided;
pub(crate) mod waiting_anchors;
