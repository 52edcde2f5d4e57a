//! Folds over frames in columns, and their selection.

pub(crate) mod counted_once;
pub(crate) mod counts;
pub(crate) mod followed;
pub(crate) mod mask;
