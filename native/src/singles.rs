//! Messages of entries that are no batches. Those that come one behind the other and share most values become one entry of columns.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use sha2::{Digest, Sha256};

use crate::frames::{Entry, Frame, Frames};
use crate::kept_messages::{Batch, Message, Own, Run, Single};
use crate::messages::{columns_of, BatchReader, Kind};
use crate::opened_messages::{Behind, OpenedEntry};
use crate::opening::{message_id, nanoseconds, Opening, Place, RowValues};
use crate::sent_queue::Waiting;
use crate::session::State;
use crate::tables::{Role, Value};
use crate::wire::Bytes;

/// Largest number of messages of a run, and of bytes of their metadata; the next message begins another run.
const RUN_MAX: usize = 1024;
const RUN_MAX_BYTES: usize = 256 << 10;
/// Largest metadata of a message, and size of a SEND without its payload up to which it is not counted as large.
const METADATA_MAX_BYTES: usize = 4096;
const COMMON_BYTES: i64 = 256;
/// Weight of a row that waits, and of each byte of large metadata (`protocols.pulsar.entry.reader.Entry.weight`).
const ROW_BYTES: i64 = 256;
const METADATA_FACTOR: i64 = 16;
/// Messages of a run are of one day: tables have folders of days.
const DAY: i64 = 86_400 * 1_000_000_000;

/// Tags of MessageMetadata.
const PRODUCER_NAME: u64 = 10;
const SEQUENCE_ID: u64 = 16;
const PUBLISH_TIME: u64 = 24;
const PROPERTIES: u64 = 34;
const PARTITION_KEY: u64 = 50;
const COMPRESSION: u64 = 64;
const UNCOMPRESSED_SIZE: u64 = 72;
const EVENT_TIME: u64 = 96;
const KEY_IS_BYTES: u64 = 136;
const HIGHEST_SEQUENCE_ID: u64 = 192;
const NULL_VALUE: u64 = 200;
const NULL_KEY: u64 = 240;

/// Return from a function with None where there is none: what is read is for Python.
macro_rules! plain {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl BatchReader {
    /// Append the message of an entry with these metadata, and nothing if it is not plain.
    fn single(&self, py: Python<'_>, metadata: &[u8], payload: &[u8], batch: &mut Batch) -> PyResult<Option<Single>> {
        let (start, first) = (batch.metadata.len(), batch.pairs.len());
        batch.metadata.extend_from_slice(metadata);
        let found = self.single_of(py, metadata, start, batch)?;
        if let Some((mut message, single)) = found {
            message.size = u32::try_from(payload.len())?;
            batch.messages.push(message);
            if self.digests {
                batch.digests.push(Sha256::digest(payload).into());
            }
            return Ok(Some(single));
        }
        batch.metadata.truncate(start);
        batch.pairs.truncate(first);
        Ok(None)
    }

    fn single_of(&self, py: Python<'_>, metadata: &[u8], start: usize, batch: &mut Batch) -> PyResult<Option<(Message, Single)>> {
        let (end, first) = (start + metadata.len(), batch.pairs.len());
        let (mut message, mut single) = (Message::default(), Single::default());
        let mut rest = Bytes(metadata);
        while !rest.0.is_empty() {
            let tag = plain!(rest.varint());
            let number = plain!(rest.varint());
            match tag {
                PRODUCER_NAME | PARTITION_KEY => {
                    let size = plain!(rest.take(number)).len();
                    let stop = end - rest.0.len();
                    let range = Some(((stop - size) as u32, stop as u32));
                    *(if tag == PARTITION_KEY { &mut message.key } else { &mut single.name }) = range;
                }
                PROPERTIES => {
                    let pair = plain!(rest.take(number));
                    plain!(self.property(py, pair, end - rest.0.len(), first, batch)?);
                }
                SEQUENCE_ID => message.sequence_id = Some(number as i64),
                PUBLISH_TIME => single.published = nanoseconds(number as i64),
                EVENT_TIME => message.event_time = nanoseconds(number as i64),
                KEY_IS_BYTES | NULL_VALUE if number > 1 => return Ok(None),
                KEY_IS_BYTES => message.key_is_bytes = Some(number == 1),
                NULL_VALUE => message.null_value = Some(number == 1),
                COMPRESSION if number > 0 => return Ok(None),
                COMPRESSION | UNCOMPRESSED_SIZE | HIGHEST_SEQUENCE_ID | NULL_KEY => {}
                _ => return Ok(None),
            }
        }
        message.properties = (first as u32, batch.pairs.len() as u32);
        Ok(Some((message, single)))
    }

    /// Return the columns that messages without a batch have for themselves.
    fn single_columns<'py>(&self, py: Python<'py>, mut batch: Batch) -> PyResult<Bound<'py, PyDict>> {
        batch.metadata.extend_from_slice(&[b' '; crate::padded::STEP]);
        let batch = Arc::new(batch);
        let has = |test: fn(&Message) -> bool| batch.messages.iter().any(test);
        let own = |own: Own| batch.singles.iter().any(|single| own.of(single).is_some());
        let kinds = [
            (intern!(py, "packet"), Kind::Own(Own::Packet), true),
            (intern!(py, "sub"), Kind::Own(Own::Sub), true),
            (intern!(py, "time"), Kind::Own(Own::Time), true),
            (intern!(py, "sequence_id"), Kind::SequenceId, true),
            (intern!(py, "ledger"), Kind::Own(Own::Ledger), own(Own::Ledger)),
            (intern!(py, "entry"), Kind::Own(Own::Entry), own(Own::Entry)),
            (intern!(py, "payload_size"), Kind::Size, true),
            (intern!(py, "publish_time"), Kind::Own(Own::Published), own(Own::Published)),
            (intern!(py, "broker_time"), Kind::Own(Own::BrokerTime), own(Own::BrokerTime)),
            (intern!(py, "index"), Kind::Own(Own::Index), own(Own::Index)),
            (intern!(py, "payload_sha256"), Kind::Digest, self.digests),
            (intern!(py, "key"), Kind::Key, has(|message| message.key.is_some())),
            (intern!(py, "properties"), Kind::Properties, !batch.pairs.is_empty()),
        ];
        columns_of(py, &batch, kinds)
    }
}

/// Return the metadata and the payload of a frame.
fn content<'a>(py: Python<'a>, frames: &'a Frames, frame: &Frame) -> Option<(&'a [u8], &'a [u8])> {
    let parts = frame.parts();
    let metadata = frames.slice(py, frame, parts.metadata.filter(|range| (range.1 - range.0) as usize <= METADATA_MAX_BYTES)?);
    Some((metadata, frames.slice(py, frame, (parts.payload_at, frame.size()))))
}

/// Weight of a message of a SEND that waits, and the size of its unusually large metadata.
fn weight(frame: &Frame) -> (i64, i64) {
    let large = (i64::from(frame.parts().payload_at) - COMMON_BYTES).max(0);
    (ROW_BYTES + METADATA_FACTOR * large, large)
}

impl<'py> State<'_, 'py> {
    /// Let the message of a SEND wait; return false if it is for Python.
    pub fn hold_single(&mut self, frames: &Frames, frame: &Frame, opening: &Opening<'py>) -> PyResult<bool> {
        let (Some((batches, _)), Some((metadata, _))) = (&opening.batches, content(self.py, frames, frame)) else { return Ok(false) };
        let (rows, bytes) = match self.singles.room {
            Some(room) => room,
            None => opening.room.call0()?.extract()?,
        };
        let (weight, _) = weight(frame);
        self.singles.room = Some((rows, bytes));
        if rows < 1 || bytes < weight || batches.get().single_of(self.py, metadata, 0, &mut Batch::with(metadata))?.is_none() {
            return Ok(false);
        }
        self.singles.room = Some((rows - 1, bytes - weight));
        self.singles.held += 1;
        Ok(true)
    }

    /// Give the message of a SEND that waits here.
    pub fn release_single(&mut self, entries: &[Entry], place: usize) {
        self.singles.held -= 1;
        if let (Some(Entry::Frame(frame)), Some((rows, bytes))) = (entries.get(place), &mut self.singles.room) {
            *rows += 1;
            *bytes += weight(frame).0;
        }
    }

    /// Give a message that is no part of a batch; return false if it is for Python.
    #[allow(clippy::too_many_arguments)]
    pub fn give_single(
        &mut self,
        frames: &Frames,
        (entries, place): (&[Entry], usize),
        opening: &Opening<'py>,
        names: crate::kept_messages::Names,
        id: Option<Place>,
        redelivered: Option<i64>,
    ) -> PyResult<bool> {
        let py = self.py;
        let (Some(Entry::Frame(frame)), Some((batches, _))) = (entries.get(place), &opening.batches) else { return Ok(false) };
        let Some((metadata, payload)) = content(py, frames, frame) else { return Ok(false) };
        let (ledger, entry, partition) = id.unwrap_or_default();
        let number = frame.parts().numbers.id;
        let shared = (names, (frames.file(frame), number, partition, redelivered, frame.time.div_euclid(DAY)));
        let is_full = |run: &Run| run.batch.messages.len() >= RUN_MAX || run.batch.metadata.len() > RUN_MAX_BYTES;
        if self.singles.run.as_ref().is_some_and(|run| run.shared != shared || is_full(run)) {
            self.end_run(frames, entries, opening)?;
        }
        let mut run = self.singles.run.take().unwrap_or_else(|| Run { shared, first: place, number: 0, batch: Batch::default() });
        if opening.beside && run.batch.messages.is_empty() {
            run.number = self.messages.entries.len();
            self.messages.entries.push(None);
        }
        let found = batches.get().single(py, metadata, payload, &mut run.batch);
        let Some(single) = found? else {
            self.singles.run = (!run.batch.messages.is_empty()).then_some(run);
            return Ok(false);
        };
        let mut single = Single { packet: frame.packet, sub: frame.sub(), time: frame.time, ledger, entry, ..single };
        if let Some(range) = frame.parts().entry {
            let tables = self.tables;
            let visited = tables.visit(frames.slice(py, frame, range), tables.entry_metadata, |role, value| match (role, value) {
                (Role::BrokerTime, Value::Number(number)) => single.broker_time = nanoseconds(number),
                (Role::Index, Value::Number(number)) => single.index = Some(number),
                _ => {}
            });
            debug_assert!(visited.is_some()); // the frame is plain
        }
        let differs = run.batch.singles.last().is_some_and(|last| match (last.name, single.name) {
            (Some(last), Some(own)) => run.batch.bytes(last) != run.batch.bytes(own),
            (last, own) => last.is_some() != own.is_some(),
        });
        if differs {
            run.batch.drop_last();
            self.singles.run = Some(run);
            self.end_run(frames, entries, opening)?;
            return self.give_single(frames, (entries, place), opening, names, id, redelivered);
        }
        if opening.beside {
            let (start, stop) = (run.batch.singles.len() as u32, run.batch.messages.len() as u32);
            self.messages.behind.push(Behind { place: self.place as u32, entry: run.number as u32, start, stop });
        }
        run.batch.singles.push(single);
        self.singles.run = Some(run);
        Ok(true)
    }

    /// Hand on the messages without a batch so far.
    pub fn end_run(&mut self, frames: &Frames, entries: &[Entry], opening: &Opening<'py>) -> PyResult<()> {
        let Some(run) = self.singles.run.take() else { return Ok(()) };
        let (Some(Entry::Frame(frame)), Some((batches, _))) = (entries.get(run.first), &opening.batches) else { return Ok(()) };
        let (names, (_, _, partition, redelivered, _)) = run.shared;
        let values =
            RowValues { producer: self.name_of(&run.batch), id: Some((None, None, partition)), redelivered, ..RowValues::default() };
        let row = self.row(frames, frame, opening, names, values)?;
        let count = run.batch.messages.len();
        let columns = batches.get().single_columns(self.py, run.batch)?;
        if opening.beside {
            if let Some(entry) = self.messages.entries.get_mut(run.number) {
                *entry = Some(OpenedEntry { shared: row.unbind(), columns: Some(columns.unbind()) });
            }
            return Ok(());
        }
        opening.entries.append(opening.entry.call1((row, count, columns, 0))?)
    }

    fn name_of(&self, batch: &Batch) -> Option<Bound<'py, PyAny>> {
        let range = batch.singles.first()?.name?;
        Some(self.tables.text(self.py, batch.bytes(range)).unwrap_or_else(|| PyString::new(self.py, batch.text(range))).into_any())
    }

    /// Let Python hold the messages of SENDs that wait here, in their order.
    pub fn hand_over(&mut self, frames: &Frames, entries: &[Entry], opening: &Opening<'py>) -> PyResult<()> {
        self.singles.room = None;
        if self.singles.held == 0 {
            return Ok(());
        }
        self.singles.held = 0;
        let mut held = Vec::new();
        for (id, producer) in &mut self.known_producers {
            let Some(producer) = producer else { continue };
            for (index, waiting) in producer.waiting.sent.iter().enumerate().rev() {
                let Waiting::Held(_, place) = waiting else { break };
                held.push((*place, *id, index, producer.topic));
            }
        }
        held.sort_unstable();
        self.end_run(frames, entries, opening)?;
        for (place, id, index, topic) in held {
            let (Some(Entry::Frame(frame)), Some((batches, _))) = (entries.get(place), &opening.batches) else { continue };
            let Some((metadata, payload)) = content(self.py, frames, frame) else { continue };
            let mut batch = Batch::default();
            let Some(single) = batches.get().single(self.py, metadata, payload, &mut batch)? else { continue };
            batch.singles.push(Single { packet: frame.packet, sub: frame.sub(), time: frame.time, ..single });
            let values = RowValues { producer: self.name_of(&batch), ..RowValues::default() };
            let row = self.row(frames, frame, opening, (crate::opening::PRODUCE, topic, 0), values)?;
            for (name, column) in batches.get().single_columns(self.py, batch)? {
                row.setattr(name.cast::<PyString>()?, column.get_item(0)?)?;
            }
            let entry = opening.entry.call1((row, 1, self.py.None(), weight(frame).1))?;
            let sent = frames.sent(frame);
            let sent = self.sent_type.bind(self.py).call1((sent.file, sent.packet, sent.sub, sent.time, sent.sequence, &entry))?;
            if let Some(Some(producer)) = self.known_producers.get_mut(&id) {
                producer.waiting.sent[index] = Waiting::Python(sent.clone().unbind());
            }
            opening.hold.call1((sent, entry, &opening.entries))?;
        }
        Ok(())
    }

    /// Open the SEND of one message; None if it is for Python.
    pub fn open_single_send(&mut self, frames: &mut Frames, frame: &Frame, place: usize, opening: &Opening<'py>) -> PyResult<Option<i64>> {
        let id = frame.parts().numbers.id;
        if self.producer(frames, id)?.is_none_or(|producer| producer.topic == 0 || producer.unnamed) {
            return Ok(None);
        }
        if !self.hold_single(frames, frame, opening)? {
            return Ok(None);
        }
        let sent = frames.sent(frame);
        if let Some(producer) = self.producer(frames, id)? {
            producer.waiting.sent.push_back(Waiting::Held(sent, place));
        }
        self.waiting += 1;
        Ok(Some(1))
    }

    /// Open the delivery of one message to a consumer, whose topic and subscription are given; None if it is for Python.
    pub fn open_single_delivery(
        &mut self,
        frames: &Frames,
        (entries, place): (&[Entry], usize),
        opening: &Opening<'py>,
        (topic, subscription): (u32, u32),
    ) -> PyResult<Option<i64>> {
        let Some(Entry::Frame(frame)) = entries.get(place) else { return Ok(None) };
        let (id, redelivered) = plain!(message_id(self.py, frames, self.tables, frame)?);
        let names = (crate::opening::DELIVER, topic, subscription);
        Ok(self.give_single(frames, (entries, place), opening, names, id, redelivered)?.then_some(1))
    }
}
