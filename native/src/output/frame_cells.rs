//! Frames in columns, and the exchanges that they end, as rows of tables.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::encoding::json;
use crate::frames::{changed, Frame, Frames};
use crate::output::arrow_columns::ArrowColumn;
use crate::schema::tables::{Range, Tables, Text};

pub const FRAME_COLUMNS: [&str; 28] = [
    "source",
    "file",
    "packet",
    "sub",
    "time",
    "connection",
    "dissector",
    "direction",
    "offset",
    "size",
    "command",
    "fields",
    "broker_entry_metadata",
    "checksum_status",
    "checksum_stored",
    "checksum_computed",
    "metadata",
    "payload_size",
    "num_messages",
    "topic",
    "producer_name",
    "subscription",
    "request",
    "latency_ns",
    "status",
    "findings",
    "extra",
    "topics",
];
pub const EXCHANGE_COLUMNS: [&str; 20] = [
    "source",
    "file",
    "packet",
    "sub",
    "time",
    "connection",
    "dissector",
    "request",
    "response",
    "key",
    "topic",
    "producer_name",
    "subscription",
    "response_file",
    "response_packet",
    "response_sub",
    "latency_ns",
    "status",
    "error",
    "error_message",
];

fn other_columns() -> PyErr {
    PyValueError::new_err("the columns of frames and exchanges are others")
}

/// Append a name that rows share, or None.
fn name(py: Python<'_>, value: &Py<PyAny>, column: &mut ArrowColumn) -> PyResult<()> {
    column.shared(value.as_ptr() as usize, || match value.bind(py).cast::<PyString>() {
        Ok(text) => Ok(Some(text.to_str()?.as_bytes())),
        Err(_) => Ok(None),
    })
}

/// Append a text that rows share.
fn text(py: Python<'_>, text: &Text, column: &mut ArrowColumn) -> PyResult<()> {
    column.shared(text.text.as_ptr() as usize, || Ok(Some(text.text.bind(py).to_str()?.as_bytes())))
}

/// Append a word of the program, or None.
fn word(word: Option<&'static str>, column: &mut ArrowColumn) -> PyResult<()> {
    match word {
        Some(word) => column.shared(word.as_ptr() as usize, || Ok(Some(word.as_bytes()))),
        None => column.text(None),
    }
}

impl Frames {
    /// Append a frame to columns, which are those of `FRAME_COLUMNS`.
    pub fn append_cells(&self, py: Python<'_>, tables: &Tables, frame: &Frame, columns: &mut [ArrowColumn]) -> PyResult<()> {
        let [source, file, packet, sub, time, connection, dissector, direction, rest @ ..] = columns else { return Err(other_columns()) };
        let [offset, size, command, fields, entry, status, stored, computed, metadata, rest @ ..] = rest else {
            return Err(other_columns());
        };
        let [payload_size, num_messages, topic, producer_name, subscription, request, latency, verdict, findings, extra, topics] = rest
        else {
            return Err(other_columns());
        };
        let names = self.names(frame);
        for (value, column) in names.iter().zip([Some(source), None, Some(connection), Some(dissector), Some(direction)]) {
            column.map_or(Ok(()), |column| name(py, value, column))?;
        }
        file.number(self.file(frame));
        packet.number(frame.packet);
        sub.number(i64::from(frame.sub()));
        time.number(frame.time);
        offset.number(self.offset(frame));
        size.number(i64::from(frame.size()));
        let known = self.command(tables, frame)?;
        text(py, &known.name, command)?;
        let parts = frame.parts();
        let bytes = self.bytes(py, frame);
        let slice = |range: Range| &bytes[range.0 as usize..range.1 as usize];
        let of_metadata = (parts.metadata, tables.metadata, metadata);
        let messages = [(Some(parts.fields), known.plan, fields), (parts.entry, tables.entry_metadata, entry), of_metadata];
        for (range, plan, column) in messages {
            if let Some(range) = range {
                tables.write(py, slice(range), plan, &mut column.bytes).ok_or_else(changed)?;
            }
            column.end_text(range.is_some())?;
        }
        let has_payload = parts.payload_at > 0;
        let digits = json::hex(parts.checksum);
        word(has_payload.then_some("good"), status)?;
        stored.text(has_payload.then_some(digits.as_slice()))?;
        computed.text(has_payload.then_some(digits.as_slice()))?;
        payload_size.number(has_payload.then(|| i64::from(frame.size() - parts.payload_at)));
        let named = &frame.named;
        num_messages.number(named.messages);
        self.append_known(py, named.topic, topic)?;
        match parts.numbers.name {
            Some(range) => producer_name.text(Some(slice(range)))?,
            None => self.append_known(py, named.producer, producer_name)?,
        }
        self.append_known(py, named.subscription, subscription)?;
        if let Some((file, packet, sub)) = named.request {
            for (value, behind) in [(file, b":".as_slice()), (packet, b"."), (sub, b"")] {
                json::number(value, &mut request.bytes);
                request.bytes.extend_from_slice(behind);
            }
        }
        request.end_text(named.request.is_some())?;
        latency.number(named.latency);
        word(Some("ok"), verdict)?;
        for column in [findings, extra, topics] {
            column.nothing(1)?;
        }
        Ok(())
    }

    /// Append the exchange that a frame ends to columns, which are those of `EXCHANGE_COLUMNS`; nothing for other frames.
    pub fn append_exchange(&self, py: Python<'_>, tables: &Tables, frame: &Frame, columns: &mut [ArrowColumn]) -> PyResult<bool> {
        let named = &frame.named;
        let (Some(asked), Some(latency)) = (named.request, named.latency) else { return Ok(false) };
        let [source, file, packet, sub, time, connection, dissector, rest @ ..] = columns else { return Err(other_columns()) };
        let [request, response, key, topic, producer_name, subscription, rest @ ..] = rest else { return Err(other_columns()) };
        let [of_file, of_packet, of_sub, latency_ns, status, error, error_message] = rest else { return Err(other_columns()) };
        let [of_source, _, of_connection, protocol, _] = self.names(frame);
        name(py, of_source, source)?;
        file.number(asked.0);
        packet.number(asked.1);
        sub.number(asked.2);
        time.number(frame.time - latency);
        name(py, of_connection, connection)?;
        name(py, protocol, dissector)?;
        let of = self.asked_by(frame);
        text(py, self.request_name(py, frame)?, request)?;
        text(py, &self.command(tables, frame)?.name, response)?;
        let there = self.append_request_key(frame, &mut key.bytes);
        key.end_text(there)?;
        self.append_known(py, of.topic, topic)?;
        self.append_known(py, of.producer, producer_name)?;
        self.append_known(py, of.subscription, subscription)?;
        of_file.number(self.file(frame));
        of_packet.number(frame.packet);
        of_sub.number(i64::from(frame.sub()));
        latency_ns.number(latency);
        word(Some("ok"), status)?;
        for column in [error, error_message] {
            column.nothing(1)?;
        }
        Ok(true)
    }

    /// Append the text with this number, or none.
    fn append_known(&self, py: Python<'_>, number: u32, column: &mut ArrowColumn) -> PyResult<()> {
        match number.checked_sub(1).and_then(|place| self.texts.get(place as usize)) {
            Some(known) => text(py, known, column),
            None => column.text(None),
        }
    }
}
