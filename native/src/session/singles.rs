//! Messages of entries that are not batches. Consecutive ones that share most values become one entry of columns.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use sha2::{Digest, Sha256};

use crate::encoding::payload_text::characters;
use crate::encoding::wire::Bytes;
use crate::frames::{Frame, Frames};
use crate::messages::kept_messages::{Batch, Message, Own, Run, Single};
use crate::messages::message_rows::{producer_name, row, Place, RowValues, DELIVER};
use crate::messages::opened_messages::{Behind, OpenedEntry};
use crate::messages::{columns_of, BatchReader, Kind};
use crate::schema::named::Sent;
use crate::schema::tables::{Role, Tables, Value};
use crate::session::kept_sends::{KeptSend, Making, Unread};
use crate::session::opening::{message_id, nanoseconds, Opening};
use crate::session::State;

/// Maximum number of messages of a run, and of bytes of their metadata; the next message begins another run.
const RUN_MAX: usize = 1024;
const RUN_MAX_BYTES: usize = 256 << 10;
/// Largest metadata of a message, and size of a SEND without its payload up to which it is not counted as large.
const METADATA_MAX_BYTES: usize = 4096;
const COMMON_BYTES: i64 = 256;
/// Weight of a waiting row, and of each byte of large metadata (`protocols.pulsar.entry.reader.Entry.weight`).
const ROW_BYTES: i64 = 256;
const METADATA_FACTOR: i64 = 16;
/// The messages of a run are of one day: tables have one folder per day.
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

/// Unwrap a value, or return None: the data are left to Python.
macro_rules! plain {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'a> Unread<'a> {
    /// Return the data of a frame; None if it is left to Python.
    pub fn of(frames: &'a Frames, py: Python<'a>, tables: &Tables, frame: &Frame, batches: &BatchReader) -> Option<Self> {
        let parts = frame.parts();
        let metadata = frames.slice(py, frame, parts.metadata.filter(|range| (range.1 - range.0) as usize <= METADATA_MAX_BYTES)?);
        let payload = frames.slice(py, frame, (parts.payload_at, frame.size()));
        if batches.form.is_some() && payload.len() as i64 > batches.bounds.1 {
            return None;
        }
        let mut broker = (None, None);
        if let Some(range) = parts.entry {
            tables.visit(frames.slice(py, frame, range), tables.entry_metadata, |role, value| match (role, value) {
                (Role::BrokerTime, Value::Number(number)) => broker.0 = nanoseconds(number),
                (Role::Index, Value::Number(number)) => broker.1 = Some(number),
                _ => {}
            })?;
        }
        let digest = batches.digests.then(|| Sha256::digest(payload).into());
        let text = batches.form.map(|form| form.of(payload));
        Some(Unread { metadata, size: u32::try_from(payload.len()).ok()?, digest, text, sent: frames.sent(frame), broker })
    }
}

impl BatchReader {
    /// Append the message of an entry, or nothing if it is not plain.
    pub fn single(&self, py: Python<'_>, unread: &Unread, batch: &mut Batch) -> PyResult<Option<Single>> {
        let (start, first) = (batch.metadata.len(), batch.pairs.len());
        batch.metadata.extend_from_slice(unread.metadata);
        let found = self.single_of(py, unread.metadata, start, batch)?;
        if let Some((mut message, single)) = found {
            message.size = unread.size;
            message.payload = unread.text.as_deref().map(|text| batch.add_payload(text));
            batch.messages.push(message);
            batch.digests.extend(unread.digest);
            let Sent { packet, sub, time, .. } = unread.sent;
            let (broker_time, index) = unread.broker;
            return Ok(Some(Single { packet, sub: sub as u32, time, broker_time, index, ..single }));
        }
        batch.metadata.truncate(start);
        batch.pairs.truncate(first);
        Ok(None)
    }

    pub fn single_of(&self, py: Python<'_>, metadata: &[u8], start: usize, batch: &mut Batch) -> PyResult<Option<(Message, Single)>> {
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

    /// Return the columns in which messages without a batch differ.
    pub fn single_columns<'py>(&self, py: Python<'py>, mut batch: Batch) -> PyResult<Bound<'py, PyDict>> {
        batch.metadata.extend_from_slice(&[b' '; crate::encoding::padded::STEP]);
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
            (intern!(py, "payload"), Kind::Payload, self.form.is_some()),
            (intern!(py, "key"), Kind::Key, has(|message| message.key.is_some())),
            (intern!(py, "properties"), Kind::Properties, !batch.pairs.is_empty()),
        ];
        columns_of(py, &batch, kinds)
    }
}

/// Weight of a message of a waiting SEND, and the size of its unusually large metadata. `text`: that of its payload.
fn weight(frame: &Frame, text: Option<&[u8]>) -> (i64, i64) {
    let large = (i64::from(frame.parts().payload_at) - COMMON_BYTES).max(0);
    (ROW_BYTES + text.map_or(0, characters) as i64 + METADATA_FACTOR * large, large)
}

impl Opening<'_> {
    /// Return the maker of Python objects of the SENDs of a producer; None without a reader of batches.
    pub fn making(&self, frames: &Frames, topic: Option<Bound<'_, PyString>>, id: i64) -> Option<Making> {
        let py = self.row.py();
        let (batches, _) = self.opener.batches.as_ref()?;
        Some(Making {
            entry: self.entry.clone().unbind(),
            row: self.row.clone().unbind(),
            batches: batches.clone().unbind(),
            names: frames.origins.first()?.names.each_ref().map(|name| name.clone_ref(py)),
            topic: topic.map(Bound::unbind),
            id,
        })
    }
}

impl<'py> State<'_, 'py> {
    /// Hand on a message that is not part of a batch; return false if it is left to Python. `number`: that of its producer or consumer.
    pub fn give_single(
        &mut self,
        frames: &Frames,
        unread: &Unread,
        opening: &Opening<'py>,
        (names, number): (crate::messages::kept_messages::Names, i64),
        (id, redelivered): (Option<Place>, Option<i64>),
    ) -> PyResult<bool> {
        let py = self.py;
        let Some((batches, _)) = &opening.opener.batches else { return Ok(false) };
        let (ledger, entry, partition) = id.unwrap_or_default();
        let shared = (names, (unread.sent.file, number, partition, redelivered, unread.sent.time.div_euclid(DAY)));
        let is_full = |run: &Run| run.batch.messages.len() >= RUN_MAX || run.batch.metadata.len() > RUN_MAX_BYTES;
        if self.singles.run.as_ref().is_some_and(|run| run.shared != shared || is_full(run)) {
            self.end_run(frames, opening)?;
        }
        let mut run = self.singles.run.take().unwrap_or_else(|| Run { shared, first: unread.sent, number: 0, batch: Batch::default() });
        if opening.beside && run.batch.messages.is_empty() {
            run.number = self.messages.entries.len();
            self.messages.entries.push(None);
        }
        let found = batches.get().single(py, unread, &mut run.batch);
        let Some(single) = found? else {
            self.singles.run = (!run.batch.messages.is_empty()).then_some(run);
            return Ok(false);
        };
        let single = Single { ledger, entry, ..single };
        let differs = run.batch.singles.last().is_some_and(|last| match (last.name, single.name) {
            (Some(last), Some(own)) => run.batch.bytes(last) != run.batch.bytes(own),
            (last, own) => last.is_some() != own.is_some(),
        });
        if differs {
            run.batch.drop_last();
            self.singles.run = Some(run);
            self.end_run(frames, opening)?;
            return self.give_single(frames, unread, opening, (names, number), (id, redelivered));
        }
        if opening.beside {
            let (start, stop) = (run.batch.singles.len() as u32, run.batch.messages.len() as u32);
            self.messages.behind.push(Behind { place: self.place as u32, entry: run.number as u32, start, stop });
        }
        self.texts += unread.text.as_ref().map_or(0, |text| text.len());
        run.batch.singles.push(single);
        self.singles.run = Some(run);
        Ok(true)
    }

    /// Hand on the messages without a batch so far.
    pub fn end_run(&mut self, frames: &Frames, opening: &Opening<'py>) -> PyResult<()> {
        let Some(run) = self.singles.run.take() else { return Ok(()) };
        let (Some(origin), Some((batches, _))) = (frames.origins.first(), &opening.opener.batches) else { return Ok(()) };
        let (names, (_, number, partition, redelivered, _)) = run.shared;
        let producer = producer_name(self.py, Some(self.tables), &run.batch, run.batch.singles.first().and_then(|single| single.name));
        let values = RowValues { producer, id: Some((None, None, partition)), redelivered, ..RowValues::default() };
        let names = (names.0, frames.known(self.py, names.1), frames.known(self.py, names.2), number);
        let row = row(self.py, &opening.row, &origin.names, &run.first, names, values)?;
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

    /// Open the SEND of one message, which waits for its receipt; None if it is left to Python.
    pub fn open_single_send(&mut self, frames: &mut Frames, frame: &Frame, opening: &Opening<'py>) -> PyResult<Option<i64>> {
        let py = self.py;
        let id = frame.parts().numbers.id;
        if self.producer(frames, id)?.is_none_or(|producer| producer.topic == 0 || producer.unnamed) {
            return Ok(None);
        }
        let Some((batches, _)) = &opening.opener.batches else { return Ok(None) };
        let unread = plain!(Unread::of(frames, py, self.tables, frame, batches.get()));
        let (weight, large) = weight(frame, unread.text.as_deref());
        let ticket = plain!(self.held.room(&opening.room, 1, weight)?);
        if batches.get().single_of(py, unread.metadata, 0, &mut Batch::with(unread.metadata))?.is_none() {
            return Ok(None);
        }
        self.held.hold(1, weight);
        let Unread { size, digest, sent, broker, .. } = unread;
        let text = unread.text.map(|text| text.into_owned().into_boxed_slice());
        let kept = KeptSend { sent, ticket, weight, large, metadata: unread.metadata.into(), size, digest, text, broker };
        let Some(topic) = self.producer(frames, id)?.map(|producer| producer.topic) else { return Ok(None) };
        let topic = frames.known(py, topic);
        if let Some(producer) = self.producer(frames, id)? {
            producer.waiting.keep(kept, || opening.making(frames, topic, id));
        }
        self.waiting += 1;
        Ok(Some(1))
    }

    /// Open the delivery of one message to a consumer with this topic and subscription; None if it is left to Python.
    pub fn open_single_delivery(
        &mut self,
        frames: &Frames,
        frame: &Frame,
        opening: &Opening<'py>,
        (topic, subscription): (u32, u32),
    ) -> PyResult<Option<i64>> {
        let Some((batches, _)) = &opening.opener.batches else { return Ok(None) };
        let unread = plain!(Unread::of(frames, self.py, self.tables, frame, batches.get()));
        let (id, redelivered) = plain!(message_id(self.py, frames, self.tables, frame)?);
        let of = ((DELIVER, topic, subscription), frame.parts().numbers.id);
        Ok(self.give_single(frames, &unread, opening, of, (id, redelivered))?.then_some(1))
    }
}
