//! Frames in columns as lines of NDJSON.

use pyo3::prelude::*;

use crate::encoding::json::{self, Times};
use crate::encoding::padded::Padded;
use crate::frames::{changed, Frame, Frames, Origin};
use crate::schema::tables::{Range, Tables};

impl Frames {
    /// Append the line of a frame to NDJSON, as written by the Python encoder.
    pub fn write_line(&self, py: Python<'_>, tables: &Tables, frame: &Frame, times: &mut Times, out: &mut Vec<u8>) -> PyResult<()> {
        let origin = &self.origins[frame.origin() as usize];
        let (head, middle) = origin.json(py)?;
        let command = self.command(tables, frame)?;
        let parts = frame.parts();
        let bytes = self.bytes(py, frame);
        let slice = |range: Range| &bytes[range.0 as usize..range.1 as usize];
        head.append(out);
        json::number(frame.packet, out);
        out.extend_from_slice(b",\"sub\":");
        json::number(i64::from(frame.sub()), out);
        out.extend_from_slice(b",\"time\":");
        times.write(frame.time, out);
        middle.append(out);
        json::number(self.offset(frame), out);
        out.extend_from_slice(b",\"size\":");
        json::number(i64::from(frame.size()), out);
        command.line.append(out);
        tables.write(py, slice(parts.fields), command.plan, out).ok_or_else(changed)?;
        if let Some(range) = parts.entry {
            out.extend_from_slice(b",\"broker_entry_metadata\":");
            tables.write(py, slice(range), tables.entry_metadata, out).ok_or_else(changed)?;
        }
        if parts.payload_at > 0 {
            let digits = json::hex(parts.checksum);
            out.extend_from_slice(b",\"checksum\":{\"status\":\"good\",\"stored\":\"");
            out.extend_from_slice(&digits);
            out.extend_from_slice(b"\",\"computed\":\"");
            out.extend_from_slice(&digits);
            out.extend_from_slice(b"\"}");
        }
        if let Some(range) = parts.metadata {
            out.extend_from_slice(b",\"metadata\":");
            tables.write(py, slice(range), tables.metadata, out).ok_or_else(changed)?;
        }
        if parts.payload_at > 0 {
            out.extend_from_slice(b",\"payload_size\":");
            json::number(i64::from(frame.size() - parts.payload_at), out);
        }
        let named = &frame.named;
        if let Some(messages) = named.messages {
            out.extend_from_slice(b",\"num_messages\":");
            json::number(messages, out);
        }
        self.write_known(b",\"topic\":", named.topic, out);
        if let Some(range) = parts.numbers.name {
            out.extend_from_slice(b",\"producer_name\":");
            json::string_of(slice(range), out).ok_or_else(changed)?;
        } else {
            self.write_known(b",\"producer_name\":", named.producer, out);
        }
        self.write_known(b",\"subscription\":", named.subscription, out);
        if let Some((file, packet, sub)) = named.request {
            out.extend_from_slice(b",\"request\":\"");
            json::number(file, out);
            out.push(b':');
            json::number(packet, out);
            out.push(b'.');
            json::number(sub, out);
            out.push(b'"');
        }
        if let Some(latency) = named.latency {
            out.extend_from_slice(b",\"latency_ns\":");
            json::number(latency, out);
        }
        out.extend_from_slice(b",\"status\":\"ok\"}\n");
        Ok(())
    }

    /// Append a key and the text with this number, if there is one.
    #[inline]
    pub fn write_known(&self, key: &[u8], number: u32, out: &mut Vec<u8>) {
        if let Some(text) = number.checked_sub(1).and_then(|place| self.texts.get(place as usize)) {
            out.extend_from_slice(key);
            text.padded.append(out);
        }
    }
}

impl Origin {
    /// Return the parts of a line before the packet, and from the connection to the offset.
    fn json(&self, py: Python<'_>) -> PyResult<&(Padded, Padded)> {
        if self.json.get().is_none() {
            let [source, _, connection, protocol, direction] = &self.names;
            let (mut head, mut middle) = (b"{\"record\":\"frame\"".to_vec(), Vec::new());
            name(py, "source", source, &mut head)?;
            key("file", &mut head);
            json::number(self.file, &mut head);
            key("packet", &mut head);
            name(py, "connection", connection, &mut middle)?;
            name(py, "dissector", protocol, &mut middle)?;
            name(py, "direction", direction, &mut middle)?;
            key("offset", &mut middle);
            let _ = self.json.set((Padded::of(&head), Padded::of(&middle))); // the first of two threads has set the same
        }
        self.json.get().ok_or_else(changed)
    }
}

/// Append a name that rows share, unless it is None.
pub fn name(py: Python<'_>, name: &str, value: &Py<PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    if let Some(value) = value.bind(py).extract::<Option<String>>()? {
        key(name, out);
        json::string(&value, out);
    }
    Ok(())
}

pub fn key(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}
