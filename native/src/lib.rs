//! Compiled reader of captures and of Pulsar's frames of the data path, to the very values of the Python one.
//!
//! It reads what is plain: whole packets of IPv4 and TCP in order, known fields, a payload with a right checksum. Anything else it leaves to
//! the Python reader, which is the reference. Its tables come from the Python package, so both have one source.
#![forbid(unsafe_code)]
#![allow(clippy::type_complexity)] // what Python gets is tuples

mod anchors;
mod arrow_columns;
mod arrow_table;
mod bodies;
mod by_connection;
mod chosen_frames;
mod closed_connections;
mod complete;
mod conversation;
mod counted_once;
mod counts;
mod csv;
mod deliveries;
mod descriptions;
mod exchange_lines;
mod flow_segments;
mod followed;
mod frame_batch;
mod frame_cells;
mod frame_lines;
mod frame_summary;
mod frames;
mod json;
mod kept_bytes;
mod kept_messages;
mod kept_packets;
mod kept_sends;
mod lanes;
mod line_parts;
mod mask;
mod merging;
mod message_cells;
mod message_lines;
mod message_rows;
mod message_text;
mod messages;
mod named;
mod numbers;
mod opened_messages;
mod opener;
mod opening;
mod ordered;
mod pack;
mod packet_blocks;
mod packets;
mod padded;
mod pending;
mod pieces;
mod placed_facts;
mod places;
mod plain_tcp;
mod plans;
mod reader;
mod recent_batches;
mod requests;
mod ring;
mod row_order;
mod rows;
mod segments;
mod sent_queue;
mod session;
mod short_connections;
mod singles;
mod stretches;
mod summaries;
mod tables;
mod timeline;
mod trimming;
mod undecided;
mod unpack;
mod waiting_anchors;
mod waiting_sends;
mod wire;

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Number of the agreement with the Python package: the classes and functions here, their arguments, and what they return.
const CONTRACT: u32 = 45;

/// Do some work; a panic in it is a RuntimeError, for callers catch exceptions, of which pyo3's PanicException is none.
pub(crate) fn caught<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(PyRuntimeError::new_err("the compiled reader panicked")))
}

#[pymodule]
fn pulsarscope_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    std::panic::set_hook(Box::new(|_| ())); // a panic is an exception, which says so
    module.add("CONTRACT", CONTRACT)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(packets::walk_pcap, module)?)?;
    module.add_function(wrap_pyfunction!(packets::walk_pcapng, module)?)?;
    module.add_function(wrap_pyfunction!(ring::ring_packets, module)?)?;
    module.add_function(wrap_pyfunction!(packet_blocks::packet_blocks, module)?)?;
    module.add_class::<segments::Segments>()?;
    module.add_class::<pieces::Pieces>()?;
    module.add_class::<pieces::Joined>()?;
    module.add_class::<pieces::JoinedPieces>()?;
    module.add_class::<pieces::JoinedEnds>()?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<frames::Frames>()?;
    module.add_class::<messages::BatchReader>()?;
    module.add_function(wrap_pyfunction!(messages::sha256_hex, module)?)?;
    module.add_class::<messages::MessageColumn>()?;
    module.add_class::<message_lines::MessageLines>()?;
    module.add_function(wrap_pyfunction!(message_text::message_text, module)?)?;
    module.add_function(wrap_pyfunction!(merging::merged_lines, module)?)?;
    module.add_class::<row_order::OrderedRows>()?;
    module.add_class::<counts::Counted>()?;
    module.add_class::<counted_once::HeldFrames>()?;
    module.add_class::<counted_once::KeptOnce>()?;
    module.add_class::<followed::Followed>()?;
    module.add_class::<chosen_frames::ChosenFrames>()?;
    module.add_class::<stretches::Stretch>()?;
    module.add_class::<deliveries::Deliveries>()?;
    module.add_class::<deliveries::Delivered>()?;
    module.add_class::<stretches::Published>()?;
    module.add_class::<undecided::UndecidedFacts>()?;
    module.add_class::<placed_facts::PlacedFacts>()?;
    module.add_function(wrap_pyfunction!(placed_facts::place_facts, module)?)?;
    module.add_class::<pending::PendingKeys>()?;
    module.add_class::<pending::EvaluatedKeys>()?;
    module.add_function(wrap_pyfunction!(pending::add_facts, module)?)?;
    module.add_class::<waiting_anchors::WaitingAnchors>()?;
    module.add_class::<waiting_sends::WaitingSends>()?;
    module.add_class::<sent_queue::SentQueue>()?;
    module.add_class::<summaries::Summaries>()?;
    module.add_class::<short_connections::ShortConnections>()
}
