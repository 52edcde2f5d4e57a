//! Tables of Pulsar's messages and commands, made from those of the Python package.

pub(crate) mod named;
pub(crate) mod numbers;
pub(crate) mod plans;
pub(crate) mod reader;
pub(crate) mod tables;
