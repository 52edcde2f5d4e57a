//! Rows of exchanges that frames end, as lines of NDJSON.

use pyo3::prelude::*;

use crate::encoding::json::{self, Times};
use crate::encoding::padded::Padded;
use crate::frames::{changed, Frame, Frames, Origin};
use crate::output::frame_lines::{key, name};
use crate::schema::tables::Tables;

impl Frames {
    /// Append the line of the exchange that a frame ends, as the Python encoder writes the row of `exchange`; nothing for other frames.
    pub fn write_exchange(&self, py: Python<'_>, tables: &Tables, frame: &Frame, times: &mut Times, out: &mut Vec<u8>) -> PyResult<()> {
        let named = &frame.named;
        let (Some((file, packet, sub)), Some(latency)) = (named.request, named.latency) else { return Ok(()) };
        let origin = &self.origins[frame.origin() as usize];
        let (head, middle) = origin.exchange_json(py)?;
        let asked = self.asked_by(frame);
        head.append(out);
        json::number(file, out);
        out.extend_from_slice(b",\"packet\":");
        json::number(packet, out);
        out.extend_from_slice(b",\"sub\":");
        json::number(sub, out);
        out.extend_from_slice(b",\"time\":");
        times.write(frame.time - latency, out);
        middle.append(out);
        out.extend_from_slice(&self.request_name(py, frame)?.json);
        out.extend_from_slice(b",\"response\":");
        out.extend_from_slice(&self.command(tables, frame)?.name.json);
        let before = out.len();
        out.extend_from_slice(b",\"key\":\"");
        if self.append_request_key(frame, out) {
            out.push(b'"');
        } else {
            out.truncate(before);
        }
        self.write_known(b",\"topic\":", asked.topic, out);
        self.write_known(b",\"producer_name\":", asked.producer, out);
        self.write_known(b",\"subscription\":", asked.subscription, out);
        out.extend_from_slice(b",\"response_file\":");
        json::number(origin.file, out);
        out.extend_from_slice(b",\"response_packet\":");
        json::number(frame.packet, out);
        out.extend_from_slice(b",\"response_sub\":");
        json::number(i64::from(frame.sub()), out);
        out.extend_from_slice(b",\"latency_ns\":");
        json::number(latency, out);
        out.extend_from_slice(b",\"status\":\"ok\"}\n");
        Ok(())
    }
}

impl Origin {
    /// Return the parts of a line before the file, and from the connection to the request.
    fn exchange_json(&self, py: Python<'_>) -> PyResult<&(Padded, Padded)> {
        if self.of_exchanges.get().is_none() {
            let [source, _, connection, protocol, _] = &self.names;
            let (mut head, mut middle) = (b"{\"record\":\"exchange\"".to_vec(), Vec::new());
            name(py, "source", source, &mut head)?;
            key("file", &mut head);
            name(py, "connection", connection, &mut middle)?;
            name(py, "dissector", protocol, &mut middle)?;
            key("request", &mut middle);
            // Another thread may have set the same.
            let _ = self.of_exchanges.set((Padded::of(&head), Padded::of(&middle)));
        }
        self.of_exchanges.get().ok_or_else(changed)
    }
}
