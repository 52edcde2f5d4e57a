//! What rules say across connections, without an object of Python for each.

pub(crate) mod ordered;
pub(crate) mod pending;
pub(crate) mod placed_facts;
pub(crate) mod trimming;
pub(crate) mod undecided;
pub(crate) mod waiting_anchors;
