//! SENDs whose messages wait for their receipts, without a Python object for each, however many blocks that takes.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::frames::changed;
use crate::messages::kept_messages::Batch;
use crate::messages::message_rows::{producer_name, row, RowValues, PRODUCE};
use crate::messages::BatchReader;
use crate::schema::named::Sent;

/// Data of a message without a batch before its metadata are read.
pub struct Unread<'a> {
    pub metadata: &'a [u8],
    pub size: u32,
    pub digest: Option<[u8; 32]>,
    /// The text of the payload, if it is requested.
    pub text: Option<Cow<'a, [u8]>>,
    /// Its frame, and the times and the index of the broker's metadata.
    pub sent: Sent,
    pub broker: (Option<i64>, Option<i64>),
}

/// A SEND with a message that is not part of a batch.
#[derive(Debug)]
pub struct KeptSend {
    pub sent: Sent,
    /// Its place among the SENDs whose messages wait, and the weight of the messages (`Sends.hold`).
    pub ticket: i64,
    pub weight: i64,
    /// Size of unusually large metadata.
    pub large: i64,
    pub metadata: Box<[u8]>,
    /// Size of the payload.
    pub size: u32,
    pub digest: Option<[u8; 32]>,
    pub text: Option<Box<[u8]>>,
    /// Time and index of the broker's metadata.
    pub broker: (Option<i64>, Option<i64>),
}

impl KeptSend {
    pub fn unread(&self) -> Unread<'_> {
        let text = self.text.as_deref().map(Cow::Borrowed);
        Unread { metadata: &self.metadata, size: self.size, digest: self.digest, text, sent: self.sent, broker: self.broker }
    }
}

/// Data for making Python objects of the SENDs of a producer: types of entries and rows, the reader of batches, names as in `Origin`, topic
/// and id of the producer.
pub struct Making {
    pub entry: Py<PyAny>,
    pub row: Py<PyAny>,
    pub batches: Py<BatchReader>,
    pub names: [Py<PyAny>; 5],
    pub topic: Option<Py<PyString>>,
    pub id: i64,
}

impl Making {
    /// Return a SEND with its message.
    pub fn sent<'py>(&self, py: Python<'py>, sent_type: &Bound<'py, PyAny>, kept: &KeptSend) -> PyResult<Bound<'py, PyAny>> {
        let batches = self.batches.bind(py).get();
        let mut batch = Batch::default();
        let single = batches.single(py, &kept.unread(), &mut batch)?.ok_or_else(changed)?;
        let producer = producer_name(py, None, &batch, single.name);
        let topic = self.topic.as_ref().map(|topic| topic.bind(py).clone());
        let values = RowValues { producer, ..RowValues::default() };
        let row = row(py, self.row.bind(py), &self.names, &kept.sent, (PRODUCE, topic, None, self.id), values)?;
        batch.singles.push(single);
        for (name, column) in batches.single_columns(py, batch)? {
            row.setattr(name.cast::<PyString>()?, column.get_item(0)?)?;
        }
        let entry = self.entry.bind(py).call1((row, 1, py.None(), kept.large))?;
        let Sent { file, packet, sub, time, sequence } = kept.sent;
        sent_type.call1((file, packet, sub, time, sequence, entry, kept.ticket, kept.weight))
    }
}

/// Messages that wait for receipts, as counted by the Python session, and the changes made by a call.
#[derive(Default)]
pub struct Held {
    /// Number of messages and bytes that may still wait, and the latest ticket, at the beginning of the call; None if not yet known.
    known: Option<(i64, i64, i64)>,
    sends: i64,
    rows: i64,
    bytes: i64,
    tickets: i64,
}

impl Held {
    /// Return the ticket of a SEND; None if there is no room for its messages. `room`: `Sends.room`.
    pub fn room(&mut self, room: &Bound<'_, PyAny>, rows: i64, weight: i64) -> PyResult<Option<i64>> {
        let (rows_left, bytes_left, ticket) = match self.known {
            Some(known) => known,
            None => room.call0()?.extract()?,
        };
        self.known = Some((rows_left, bytes_left, ticket));
        let fits = self.rows + rows <= rows_left && self.bytes + weight <= bytes_left;
        Ok(fits.then_some(ticket + self.tickets + 1))
    }

    pub fn hold(&mut self, rows: i64, weight: i64) {
        self.sends += 1;
        self.tickets += 1;
        self.rows += rows;
        self.bytes += weight;
    }

    pub fn release(&mut self, rows: i64, weight: i64) {
        self.sends -= 1;
        self.rows -= rows;
        self.bytes -= weight;
    }

    /// Ask again how many may wait: Python has released messages.
    pub fn forget(&mut self) {
        self.known = None;
    }

    /// Tell the session, through `Sends.keep`.
    pub fn hand_over(&mut self, keep: &Bound<'_, PyAny>) -> PyResult<()> {
        let Held { sends, rows, bytes, tickets, .. } = std::mem::take(self);
        if tickets > 0 || sends != 0 {
            keep.call1((sends, rows, bytes, tickets))?;
        }
        Ok(())
    }
}
