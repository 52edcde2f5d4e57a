//! The anchors of a connection: frames that all legs of its path through a proxy have, as found by `protocols.pulsar.session.anchors`.

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{intern, PyTypeInfo};

use crate::encoding::number_keys::NumberMap;
use crate::encoding::pack;
use crate::frames::{changed, Entry, Frames};
use crate::schema::named::Sent;
use crate::schema::tables::{Numbers, Role, Tables, Value};
use crate::short_connections::requests::{Name, Request};

/// First MESSAGEs that are kept until an ACK names them.
const DELIVERED_MAX: usize = 64;

/// Two frames, the second an answer to the first.
pub struct Anchor {
    /// Place of the second frame.
    pub place: usize,
    /// Packed content that all legs have.
    content: Vec<u8>,
    first: Sent,
    unique: bool,
    pushed: bool,
}

/// Number of anchors of a connection so far, and frames that may become anchors.
#[derive(Default)]
pub struct Anchors {
    given: usize,
    watched: usize,
    /// First MESSAGEs by consumer, ledger and entry.
    delivered: NumberMap<(i64, i64, i64), Sent>,
}

impl Anchors {
    /// Return true if there are fewer than `most` so far.
    pub fn are_left(&self, most: usize) -> bool {
        self.given < most
    }

    /// Return the anchor of a request and its response, given the command of the response and the producer that it names.
    pub fn answered(
        &mut self,
        py: Python<'_>,
        frames: &Frames,
        request: &Request,
        (response, producer): (u8, &Name),
    ) -> PyResult<Option<Anchor>> {
        let tables = &frames.reader.bind(py).get().tables;
        let asked = tables.command(request.command).ok_or_else(changed)?;
        if !asked.anchoring {
            return Ok(None);
        }
        let text = |name: &Name, out: &mut Vec<u8>| -> PyResult<()> {
            pack::optional(name.as_ref().map(|name| name.to_str(py)).transpose()?, out);
            Ok(())
        };
        let name = producer.as_ref().or(request.chosen.as_ref());
        let mut content = Vec::new();
        pack::array(6, &mut content);
        pack::text(asked.name.text.to_str(py)?, &mut content);
        pack::text(&request.id.to_string(), &mut content);
        text(&request.topic, &mut content)?;
        text(&request.subscription, &mut content)?;
        pack::text(tables.command(response).ok_or_else(changed)?.name.text.to_str(py)?, &mut content);
        pack::optional(name.map(|name| name.to_str(py)).transpose()?, &mut content);
        self.given += 1;
        Ok(Some(Anchor { place: 0, content, first: request.sent, unique: name.is_some(), pushed: false }))
    }

    /// Return the anchor of a SEND and its receipt with these numbers.
    pub fn received(&mut self, numbers: &Numbers, sent: Sent, most: usize) -> Option<Anchor> {
        if !self.are_left(most) {
            return None;
        }
        let mut content = Vec::new();
        pack::array(4, &mut content);
        pack::text("SEND", &mut content);
        pack::number(numbers.id, &mut content);
        pack::number(numbers.sequence, &mut content);
        pack_entry((numbers.ledger, numbers.entry), &mut content);
        self.given += 1;
        Some(Anchor { place: 0, content, first: sent, unique: numbers.ledger > 0, pushed: false })
    }

    /// Keep one of the first MESSAGEs.
    pub fn delivered(&mut self, numbers: &Numbers, sent: Sent, most: usize) {
        if self.are_left(most) && self.watched < DELIVERED_MAX {
            self.watched += 1;
            self.delivered.insert((numbers.id, numbers.ledger, numbers.entry), sent);
        }
    }

    /// Return the anchor of an ACK with these fields and the first kept MESSAGE that it names.
    pub fn acknowledged(&mut self, tables: &Tables, fields: &[u8], plan: usize, consumer: i64, most: usize) -> Option<Anchor> {
        if !self.are_left(most) || self.delivered.is_empty() {
            return None;
        }
        let mut ids = Vec::new();
        tables.visit(fields, plan, |role, value| {
            if let (Role::MessageId, Value::Message(data, plan)) = (role, value) {
                let mut id = (-1, -1);
                tables.visit(data, plan, |role, value| match (role, value) {
                    (Role::LedgerId, Value::Number(number)) => id.0 = number,
                    (Role::EntryId, Value::Number(number)) => id.1 = number,
                    _ => {}
                });
                ids.push(id);
            }
        })?;
        let kept: Vec<Sent> = ids.iter().filter_map(|(ledger, entry)| self.delivered.remove(&(consumer, *ledger, *entry))).collect();
        let first = *kept.first()?;
        let mut content = Vec::new();
        pack::long_array(ids.len() + 2, &mut content);
        pack::text("MESSAGE", &mut content);
        pack::number(consumer, &mut content);
        for id in ids {
            pack_entry(id, &mut content);
        }
        self.given += 1;
        Some(Anchor { place: 0, content, first, unique: false, pushed: true })
    }
}

/// Return the result of `model.digests.short_digest`.
fn short_digest(data: &[u8]) -> String {
    Blake2b::<U8>::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pack_entry((ledger, entry): (i64, i64), out: &mut Vec<u8>) {
    pack::array(2, out);
    pack::number(ledger, out);
    pack::number(entry, out);
}

impl Anchor {
    pub fn at(self, place: usize) -> Self {
        Anchor { place, ..self }
    }

    /// Return its row, a tuple of this type, like `dissect.contract.legs.anchor_row`.
    pub fn row<'py>(&self, of_type: &Bound<'py, PyAny>, frames: &Frames, [client, server]: &[String; 2]) -> PyResult<Bound<'py, PyAny>> {
        let py = of_type.py();
        let Some(Entry::Frame(frame)) = frames.entries.get(self.place) else { return Err(changed()) };
        let [source, _, connection, ..] = frames.names(frame);
        let source: Option<String> = source.extract(py)?;
        let mut packed = Vec::new();
        pack::array(6, &mut packed);
        pack::array(6, &mut packed);
        pack::optional(source.as_deref(), &mut packed);
        pack::number(frames.file(frame), &mut packed);
        pack::number(frame.packet, &mut packed);
        pack::number(i64::from(frame.sub()), &mut packed);
        pack::number(frame.time, &mut packed);
        pack::text(connection.extract::<&str>(py)?, &mut packed);
        pack::array(4, &mut packed);
        let Sent { file, packet, sub, time, .. } = self.first;
        for number in [file, packet, sub, time] {
            pack::number(number, &mut packed);
        }
        pack::boolean(self.unique, &mut packed);
        pack::boolean(self.pushed, &mut packed);
        pack::text(client, &mut packed);
        pack::text(server, &mut packed);
        let row = (short_digest(&self.content), PyBytes::new(py, &packed), frame.time, connection.bind(py), server);
        PyTuple::type_object(py).call_method1(intern!(py, "__new__"), (of_type, row))
    }
}
