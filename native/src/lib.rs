//! Compiled reader of captures and of Pulsar's frames of the data path, with exactly the values of the Python reader.
//!
//! It reads whatever is plain: whole packets of IPv4 and TCP in order, known fields, a payload with a correct checksum. It leaves anything
//! else to the Python reader, which is the reference. Its tables come from the Python package, so both have one source.
#![deny(unsafe_code)] // except in `out_of_memory`
#![allow(clippy::type_complexity)] // what Python gets is tuples

mod analysis;
mod capture;
mod encoding;
mod facts;
mod frames;
mod messages;
mod ordered_rows;
mod out_of_memory;
mod output;
mod rules;
mod schema;
mod session;
mod short_connections;
mod tcp;

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Version of the contract with the Python package: the classes and functions here, their arguments, and their results.
const CONTRACT: u32 = 66;

/// Do some work; a panic in it becomes a RuntimeError, since callers catch exceptions, but not pyo3's PanicException.
pub(crate) fn caught<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(PyRuntimeError::new_err("the compiled reader panicked")))
}

#[pymodule]
fn pulsarscope_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    std::panic::set_hook(Box::new(|_| ())); // a panic is an exception, which says so
    module.add("CONTRACT", CONTRACT)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(out_of_memory::end_without_memory, module)?)?;
    module.add_function(wrap_pyfunction!(capture::packets::walk_pcap, module)?)?;
    module.add_function(wrap_pyfunction!(capture::packets::walk_pcapng, module)?)?;
    module.add_function(wrap_pyfunction!(capture::ring::ring_packets, module)?)?;
    module.add_function(wrap_pyfunction!(tcp::flow_segments::flows_of, module)?)?;
    module.add_class::<capture::packet_copies::PacketCopies>()?;
    module.add_class::<tcp::packed_frames::PackedFrames>()?;
    module.add_class::<capture::segments::Segments>()?;
    module.add_class::<capture::pieces::Pieces>()?;
    module.add_class::<capture::pieces::Joined>()?;
    module.add_class::<capture::pieces::JoinedPieces>()?;
    module.add_class::<capture::pieces::JoinedEnds>()?;
    module.add_class::<schema::reader::Reader>()?;
    module.add_class::<frames::Frames>()?;
    module.add_class::<messages::BatchReader>()?;
    module.add_function(wrap_pyfunction!(messages::sha256_hex, module)?)?;
    module.add_class::<messages::MessageColumn>()?;
    module.add_class::<output::arrow_table::ArrowTable>()?;
    module.add_class::<output::arrow_columns::ArrowBuffer>()?;
    module.add_class::<output::message_lines::MessageLines>()?;
    module.add_function(wrap_pyfunction!(output::message_text::message_text, module)?)?;
    module.add_function(wrap_pyfunction!(output::merging::merged_lines, module)?)?;
    module.add_class::<frames::row_order::OrderedRows>()?;
    module.add_class::<analysis::counts::Counted>()?;
    module.add_class::<analysis::counted_once::HeldFrames>()?;
    module.add_class::<analysis::counted_once::KeptOnce>()?;
    module.add_class::<analysis::followed::Followed>()?;
    module.add_class::<frames::chosen_frames::ChosenFrames>()?;
    module.add_class::<rules::stretches::Stretch>()?;
    module.add_class::<rules::deliveries::Deliveries>()?;
    module.add_class::<rules::deliveries::Delivered>()?;
    module.add_class::<rules::stretches::Published>()?;
    module.add_class::<rules::number_list::NumberList>()?;
    module.add_class::<facts::undecided::UndecidedFacts>()?;
    module.add_class::<facts::placed_facts::PlacedFacts>()?;
    module.add_function(wrap_pyfunction!(facts::placed_facts::place_facts, module)?)?;
    module.add_class::<facts::pending::PendingKeys>()?;
    module.add_class::<facts::pending::EvaluatedKeys>()?;
    module.add_function(wrap_pyfunction!(facts::pending::add_facts, module)?)?;
    module.add_function(wrap_pyfunction!(facts::pending::add_undecided, module)?)?;
    module.add_class::<facts::waiting_anchors::WaitingAnchors>()?;
    module.add_class::<rules::waiting_sends::WaitingSends>()?;
    module.add_class::<session::sent_queue::SentQueue>()?;
    module.add_class::<output::summaries::Summaries>()?;
    module.add_class::<short_connections::ShortConnections>()
}
