//! Frames in columns as lines of NDJSON.

use pyo3::prelude::*;

use crate::frames::{changed, Frame, Frames, Origin};
use crate::json::{self, Times};
use crate::tables::{Range, Tables};

impl Frames {
    /// Append the line of a frame to NDJSON, as the encoder of Python writes it.
    pub fn write_line(&self, py: Python<'_>, tables: &Tables, frame: &Frame, times: &mut Times, out: &mut Vec<u8>) -> PyResult<()> {
        let origin = &self.origins[frame.origin() as usize];
        let (head, middle) = origin.json(py)?;
        let command = self.command(tables, frame)?;
        let parts = frame.parts();
        out.extend_from_slice(head);
        json::number(frame.packet, out);
        number("sub", i64::from(frame.sub()), out);
        out.extend_from_slice(b",\"time\":");
        times.write(frame.time, out);
        out.extend_from_slice(middle);
        json::number(self.offset(frame), out);
        number("size", i64::from(frame.size()), out);
        text("command", &command.name.json, out);
        let message = |name: &str, range: Option<Range>, plan: usize, out: &mut Vec<u8>| {
            let Some(range) = range else { return Ok(()) };
            key(name, out);
            tables.write(py, self.slice(py, frame, range), plan, out).ok_or_else(changed)
        };
        message("fields", Some(parts.fields), command.plan, out)?;
        message("broker_entry_metadata", parts.entry, tables.entry_metadata, out)?;
        if parts.payload_at > 0 {
            out.extend_from_slice(b",\"checksum\":{\"status\":\"good\",\"stored\":");
            json::hex(parts.checksum, out);
            out.extend_from_slice(b",\"computed\":");
            json::hex(parts.checksum, out);
            out.push(b'}');
        }
        message("metadata", parts.metadata, tables.metadata, out)?;
        if parts.payload_at > 0 {
            number("payload_size", i64::from(frame.size() - parts.payload_at), out);
        }
        let named = &frame.named;
        if let Some(messages) = named.messages {
            number("num_messages", messages, out);
        }
        let known = |number: u32| number.checked_sub(1).and_then(|place| self.texts.get(place as usize));
        if let Some(topic) = known(named.topic) {
            text("topic", &topic.json, out);
        }
        if let Some(range) = parts.numbers.name {
            key("producer_name", out);
            json::string(std::str::from_utf8(self.slice(py, frame, range)).map_err(|_| changed())?, out);
        } else if let Some(producer) = known(named.producer) {
            text("producer_name", &producer.json, out);
        }
        if let Some(subscription) = known(named.subscription) {
            text("subscription", &subscription.json, out);
        }
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
            number("latency_ns", latency, out);
        }
        out.extend_from_slice(b",\"status\":\"ok\"}\n");
        Ok(())
    }
}

impl Origin {
    /// Return the parts of a line before the packet, and from the connection to the offset.
    fn json(&self, py: Python<'_>) -> PyResult<(&[u8], &[u8])> {
        if self.json.get().is_none() {
            let [source, _, connection, protocol, direction] = &self.names;
            let (mut head, mut middle) = (b"{\"record\":\"frame\"".to_vec(), Vec::new());
            let name = |name: &str, value: &Py<PyAny>, out: &mut Vec<u8>| {
                if let Some(value) = value.bind(py).extract::<Option<String>>()? {
                    key(name, out);
                    json::string(&value, out);
                }
                Ok::<_, PyErr>(())
            };
            name("source", source, &mut head)?;
            number("file", self.file, &mut head);
            key("packet", &mut head);
            name("connection", connection, &mut middle)?;
            name("dissector", protocol, &mut middle)?;
            name("direction", direction, &mut middle)?;
            key("offset", &mut middle);
            let _ = self.json.set((head, middle)); // the first of two threads has set the same
        }
        self.json.get().map(|(head, middle)| (head.as_slice(), middle.as_slice())).ok_or_else(changed)
    }
}

fn key(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn number(name: &str, value: i64, out: &mut Vec<u8>) {
    key(name, out);
    json::number(value, out);
}

fn text(name: &str, quoted: &[u8], out: &mut Vec<u8>) {
    key(name, out);
    out.extend_from_slice(quoted);
}
