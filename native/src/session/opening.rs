//! Batches in columns of frames, opened for their messages: entries on their way from SENDs to their receipts, and entries of deliveries.
//!
//! The Python session owns the waiting messages, opens payloads and bounds both. A frame with more than a batch ends the call, and Python
//! handles it.

use std::borrow::Cow;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::caught;
use crate::frames::{changed, Entry, Frame, Frames};
use crate::messages::message_rows::{row, Place, RowValues, DELIVER, PRODUCE};
use crate::messages::opener::Opener;
use crate::messages::MessageColumn;
use crate::schema::named::{Named, Sent};
use crate::schema::tables::{CommandKind, Role, Tables, Value};
use crate::session::sent_queue::Waiting;
use crate::session::{Known, State};

const MILLISECOND: i64 = 1_000_000;
const TIME_MAX: i64 = i64::MAX / MILLISECOND;
/// Maximum size of an entry's metadata that are not counted as large.
const METADATA_COMMON_BYTES: i64 = 256;
const NO_CODEC: &[u8] = b"\"NONE\"";

/// Means to open entries: an `Opener` of their payloads; functions that count the messages of waiting SENDs and release them; the types of
/// entries and of message rows; the list that takes entries; a function that returns how many messages and bytes may still wait, and the
/// latest ticket; and whether frames are also requested: they are then named, and keep the entries (`opened_messages`).
#[derive(FromPyObject)]
pub struct Opening<'py> {
    #[pyo3(item(0))]
    pub opener: Opener<'py>,
    #[pyo3(item(1))]
    pub keep: Bound<'py, PyAny>,
    #[pyo3(item(2))]
    release: Bound<'py, PyAny>,
    #[pyo3(item(3))]
    pub entry: Bound<'py, PyAny>,
    #[pyo3(item(4))]
    pub row: Bound<'py, PyAny>,
    #[pyo3(item(5))]
    pub entries: Bound<'py, PyList>,
    #[pyo3(item(6))]
    pub room: Bound<'py, PyAny>,
    #[pyo3(item(7))]
    pub beside: bool,
}

/// Open frames from a place on, up to one that Python must handle or, if frames are not requested, until `bounds`; see `Frames.open`.
pub fn open<'py>(
    py: Python<'py>,
    frames: &mut Frames,
    range: (usize, usize),
    known: Known<'py>,
    room: i64,
    opening: &Opening<'py>,
    (messages_max, texts_max): (i64, usize),
) -> PyResult<(usize, i64)> {
    let reader = frames.reader.clone_ref(py);
    let mut state = State::of(py, reader.get(), known, room);
    let mut entries = std::mem::take(&mut frames.entries);
    let (mut place, stop) = range;
    let result = caught(|| {
        let mut messages = 0;
        while let Some(Entry::Frame(frame)) = entries.get(place).filter(|_| place < stop) {
            if !opening.beside && (messages > messages_max || state.texts > texts_max) {
                break;
            }
            state.place = place;
            let Some(opened) = state.open(frames, frame, opening)? else { break };
            if let (true, Some(Entry::Frame(frame))) = (opening.beside, entries.get_mut(place)) {
                frame.named = std::mem::take(&mut state.named);
                state.messages.take(&opening.entries, place)?;
            }
            messages += opened;
            place += 1;
        }
        Ok(())
    });
    let ended = caught(|| {
        state.end_run(frames, opening)?;
        state.held.hand_over(&opening.keep)?;
        if opening.beside {
            state.messages.take(&opening.entries, place.saturating_sub(1))?;
        }
        Ok(())
    });
    frames.entries = entries;
    frames.opened.append(std::mem::take(&mut state.messages));
    result.and(ended).map(|()| (place, state.waiting))
}

/// The values that the messages of a batch share, from the metadata of the entry.
struct Shared<'py> {
    producer: Option<Bound<'py, PyAny>>,
    sequence: Option<i64>,
    published: Option<i64>,
    codec: Option<Bound<'py, PyAny>>,
    uncompressed: i64,
    messages: i64,
    broker_time: Option<i64>,
    index: Option<i64>,
}

/// Return a time of the wire in ns; None if there is none, or it exceeds int64.
pub fn nanoseconds(milliseconds: i64) -> Option<i64> {
    (milliseconds != 0 && -TIME_MAX < milliseconds && milliseconds < TIME_MAX).then_some(milliseconds * MILLISECOND)
}

impl<'py> Shared<'py> {
    /// Return the values of a frame; None if it has no batch, or one that is encrypted, in chunks, of a transaction, delayed, or with a
    /// schema.
    fn of(py: Python<'py>, frames: &Frames, tables: &Tables, frame: &Frame) -> Option<Self> {
        let parts = frame.parts();
        let (mut producer, mut codec, mut plain) = (None, NO_CODEC, true);
        let (mut sequence, mut published, mut uncompressed, mut messages) = (None, None, 0, None);
        tables.visit(frames.slice(py, frame, parts.metadata?), tables.metadata, |role, value| match (role, value) {
            (Role::ProducerName, Value::Text(text)) => producer = Some(text),
            (Role::SequenceId, Value::Number(number)) => sequence = Some(number),
            (Role::PublishTime, Value::Number(number)) => published = nanoseconds(number),
            (Role::Compression, Value::Name(name)) => codec = name,
            (Role::UncompressedSize, Value::Number(number)) => uncompressed = number,
            (Role::Messages, Value::Number(number)) => messages = Some(number),
            (Role::Rare, Value::Flag(_)) => {} // an absent value, which messages of a batch have for themselves
            (Role::Rare | Role::Wrapped | Role::WrappedAndRare, _) => plain = false,
            _ => {}
        })?;
        let (mut broker_time, mut index) = (None, None);
        if let Some(range) = parts.entry {
            tables.visit(frames.slice(py, frame, range), tables.entry_metadata, |role, value| match (role, value) {
                (Role::BrokerTime, Value::Number(number)) => broker_time = nanoseconds(number),
                (Role::Index, Value::Number(number)) => index = Some(number),
                _ => {}
            })?;
        }
        let text = |raw: &[u8]| tables.text(py, raw).map(Bound::into_any);
        Some(Shared {
            producer: match producer {
                Some(name) => Some(text(name)?),
                None => None,
            },
            sequence,
            published,
            codec: if codec == NO_CODEC { None } else { Some(text(codec.get(1..codec.len() - 1)?)?) },
            uncompressed,
            messages: messages.filter(|count| plain && *count > 0)?,
            broker_time,
            index,
        })
    }
}

/// Return the message id of a command, and its redelivery_count.
pub fn message_id(py: Python<'_>, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<Option<(Option<Place>, Option<i64>)>> {
    let plan = frames.command(tables, frame)?.plan;
    let (mut inside, mut redelivered) = (None, None);
    let visited = tables.visit(frames.slice(py, frame, frame.parts().fields), plan, |role, value| match (role, value) {
        (Role::MessageId, Value::Message(data, plan)) => inside = Some((data, plan)),
        (Role::RedeliveryCount, Value::Number(number)) => redelivered = Some(number),
        _ => {}
    });
    let Some(()) = visited else { return Ok(None) };
    let Some((data, plan)) = inside else { return Ok(Some((None, redelivered))) };
    let mut place = (None, None, None);
    let visited = tables.visit(data, plan, |role, value| match (role, value) {
        (Role::LedgerId, Value::Number(number)) => place.0 = Some(number),
        (Role::EntryId, Value::Number(number)) => place.1 = Some(number),
        (Role::Partition, Value::Number(number)) => place.2 = (number >= 0).then_some(number),
        _ => {}
    });
    Ok(visited.map(|()| (Some(place), redelivered)))
}

impl<'py> State<'_, 'py> {
    /// Return the number of messages opened in a frame; None if Python must handle it.
    fn open(&mut self, frames: &mut Frames, frame: &Frame, opening: &Opening<'py>) -> PyResult<Option<i64>> {
        if self.left[usize::from(frame.parts().command)] {
            return Ok(None);
        }
        match frames.command(self.tables, frame)?.kind {
            CommandKind::Send => self.open_send(frames, frame, opening),
            CommandKind::Receipt => self.release(frames, frame, opening),
            CommandKind::Message => self.open_delivery(frames, frame, opening),
            CommandKind::Ack | CommandKind::Flow => Ok(self.plain_consumer(frames, frame)?.map(|consumer| {
                self.named = Named::consumer(consumer);
                0
            })),
            CommandKind::Other => Ok(None),
        }
    }

    fn open_send(&mut self, frames: &mut Frames, frame: &Frame, opening: &Opening<'py>) -> PyResult<Option<i64>> {
        let numbers = &frame.parts().numbers;
        if self.waiting >= self.room || numbers.replicated || self.is_answered(numbers)? {
            return Ok(None);
        }
        if let Some((topic, name)) = self.producer(frames, numbers.id)?.map(|producer| (producer.topic, producer.name)) {
            self.named = Named::send(topic, name, numbers);
        }
        if numbers.messages.is_none() {
            return self.open_single_send(frames, frame, opening);
        }
        let Some(shared) = Shared::of(self.py, frames, self.tables, frame) else { return Ok(None) };
        let producer = self.producer(frames, numbers.id)?.filter(|producer| producer.topic > 0 && !producer.unnamed);
        let Some(topic) = producer.map(|producer| producer.topic) else { return Ok(None) };
        let allowed = opening.opener.python.getattr(intern!(self.py, "allowed"))?;
        let Some(entry) = self.entry(frames, frame, &shared, opening, (PRODUCE, topic, 0), None, None)? else { return Ok(None) };
        let weight = entry.call_method0(intern!(self.py, "weight"))?.extract()?;
        let Some(ticket) = self.held.room(&opening.room, shared.messages, weight)? else {
            opening.opener.python.setattr(intern!(self.py, "allowed"), allowed)?; // it is opened again
            return Ok(None);
        };
        self.held.hold(shared.messages, weight);
        self.end_run(frames, opening)?;
        let Sent { file, packet, sub, time, sequence } = frames.sent(frame);
        let sent = self.sent_type.bind(self.py).call1((file, packet, sub, time, sequence, entry, ticket, weight))?;
        if let Some(producer) = self.producer(frames, numbers.id)? {
            producer.waiting.sent.push_back(Waiting::Python(sent.unbind()));
        }
        self.waiting += 1;
        Ok(Some(shared.messages))
    }

    /// Hand on the messages of a SEND, under the message id of its receipt.
    fn release(&mut self, frames: &mut Frames, frame: &Frame, opening: &Opening<'py>) -> PyResult<Option<i64>> {
        let py = self.py;
        let number = frame.parts().numbers.id;
        let Some((id, _)) = message_id(py, frames, self.tables, frame)? else { return Ok(None) };
        let answer = frames.sent(frame);
        let Some(producer) = self.producer(frames, number)?.filter(|producer| producer.topic > 0) else { return Ok(None) };
        let Some(waiting) = producer.waiting.sent.front() else { return Ok(None) };
        let sent = waiting.sent(py)?;
        let named = Named { topic: producer.topic, producer: producer.name, ..Named::default() };
        let Some(named) = named.answering(&sent, &answer).filter(|_| sent.sequence == answer.sequence) else { return Ok(None) };
        let topic = producer.topic;
        if let Waiting::Python(sent) = waiting {
            let sent = sent.bind(py).clone();
            if !self.release_entry(frames, &sent, id, opening)? {
                return Ok(None);
            }
        }
        let received = self.producer(frames, number)?.and_then(|producer| producer.waiting.sent.pop_front());
        self.waiting -= 1;
        self.named = named;
        if let Some(Waiting::Kept(kept)) = received {
            self.held.release(1, kept.weight);
            if !self.give_single(frames, &kept.unread(), opening, ((PRODUCE, topic, 0), number), (id, None))? {
                return Err(changed());
            }
        }
        Ok(Some(0))
    }

    /// Hand on the messages of a Python SEND, if it has any; return false if it is left to Python.
    fn release_entry(&mut self, frames: &Frames, sent: &Bound<'py, PyAny>, id: Option<Place>, opening: &Opening<'py>) -> PyResult<bool> {
        let py = self.py;
        let entry = sent.getattr(intern!(py, "entry"))?;
        if entry.is_none() {
            return Ok(true);
        }
        let row = entry.getattr(intern!(py, "base"))?;
        if row.getattr(intern!(py, "topic"))?.is_none() {
            return Ok(false);
        }
        if let Some((ledger, entry, partition)) = id {
            row.setattr(intern!(py, "ledger"), ledger)?;
            row.setattr(intern!(py, "entry"), entry)?;
            row.setattr(intern!(py, "partition"), partition)?;
        }
        self.end_run(frames, opening)?;
        opening.release.call1((sent, py.None(), &opening.entries))?;
        self.held.forget();
        Ok(true)
    }

    fn open_delivery(&mut self, frames: &mut Frames, frame: &Frame, opening: &Opening<'py>) -> PyResult<Option<i64>> {
        let numbers = &frame.parts().numbers;
        let Some((topic, subscription)) = self.consumer(frames, numbers.id)?.filter(|consumer| consumer.0 > 0) else { return Ok(None) };
        if numbers.ack_set {
            return Ok(None);
        }
        self.named = Named::message((topic, subscription), numbers);
        if numbers.messages.is_none() {
            return self.open_single_delivery(frames, frame, opening, (topic, subscription));
        }
        let Some(shared) = Shared::of(self.py, frames, self.tables, frame) else { return Ok(None) };
        let Some((id, redelivered)) = message_id(self.py, frames, self.tables, frame)? else { return Ok(None) };
        let names = (DELIVER, topic, subscription);
        let Some(entry) = self.entry(frames, frame, &shared, opening, names, id, redelivered)? else { return Ok(None) };
        if shared.messages > 1 {
            self.remember_batch(frames, frame, shared.messages)?;
        }
        self.end_run(frames, opening)?;
        opening.entries.append(entry)?;
        Ok(Some(shared.messages))
    }

    /// Return the columns of a batch, and the size of unusually large metadata; None if Python must handle it. `payload`: checksum of the
    /// frame, and payload bytes.
    fn batch(&mut self, payload: (u32, &[u8]), shared: &Shared<'py>, opener: &Opener<'py>) -> PyResult<Option<(Bound<'py, PyDict>, i64)>> {
        let (py, (_, bytes)) = (self.py, payload);
        let codec = shared.codec.as_ref().map(|codec| codec.extract::<Cow<str>>()).transpose()?;
        if let Some((batches, ratio)) = opener.batches.as_ref().filter(|_| shared.index.is_none()) {
            let allowed = opener.python.getattr(intern!(py, "allowed"))?.extract::<i64>()? + ratio * bytes.len() as i64;
            let (compressed, messages) = ((codec.as_deref(), shared.uncompressed), (shared.messages, shared.sequence));
            if codec.is_none() || allowed >= 0 {
                if let Some(opened) = batches.get().open(py, payload, compressed, messages, &mut self.opened)? {
                    if codec.is_some() {
                        opener.python.setattr(intern!(py, "allowed"), allowed - opened.size)?;
                    }
                    let large = opened.size - METADATA_COMMON_BYTES * shared.messages - opened.payloads;
                    return Ok(Some((opened.columns, large.max(0))));
                }
            }
        }
        let codec = codec.as_deref().unwrap_or("NONE");
        let (uncompressed, messages, sequence, index) = (shared.uncompressed, shared.messages, shared.sequence, shared.index);
        let arguments = (PyBytes::new(py, bytes), codec, uncompressed, messages, sequence, index);
        opener.python.call_method1(intern!(py, "open_plain_batch"), arguments)?.extract()
    }

    /// Return true if there is something to open in the payload of a frame, and it causes no finding.
    pub fn is_sound(&mut self, frames: &Frames, frame: &Frame, opener: &Opener<'py>) -> PyResult<bool> {
        let py = self.py;
        let parts = frame.parts();
        let payload = frames.slice(py, frame, (parts.payload_at, frame.size()));
        if parts.numbers.messages.is_some() {
            let Some(shared) = Shared::of(py, frames, self.tables, frame) else { return Ok(false) };
            let shared = Shared { index: None, ..shared };
            return Ok(self.batch((parts.checksum, payload), &shared, opener)?.is_some());
        }
        let Some(metadata) = parts.metadata else { return Ok(false) };
        let (mut codec, mut plain) = (NO_CODEC, true);
        let visited = self.tables.visit(frames.slice(py, frame, metadata), self.tables.metadata, |role, value| match (role, value) {
            (Role::Compression, Value::Name(name)) => codec = name,
            (Role::Wrapped | Role::WrappedAndRare, _) => plain = false,
            _ => {}
        });
        let name = std::str::from_utf8(&codec[1..codec.len() - 1]);
        let (Some(()), true, Ok(name)) = (visited, plain, name) else { return Ok(false) };
        let arguments = (PyBytes::new(py, payload), name, parts.numbers.uncompressed);
        opener.python.call_method1(intern!(py, "is_sound"), arguments)?.extract()
    }

    /// Open the entry of a frame. `names`: direction, topic, subscription; `id`: that of the messages, if known.
    #[allow(clippy::too_many_arguments)]
    fn entry(
        &mut self,
        frames: &Frames,
        frame: &Frame,
        shared: &Shared<'py>,
        opening: &Opening<'py>,
        names: (&str, u32, u32),
        id: Option<Place>,
        redelivered: Option<i64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let parts = frame.parts();
        let payload = frames.slice(py, frame, (parts.payload_at, frame.size()));
        let claimed = shared.messages;
        let Some((columns, mut metadata_bytes)) = self.batch((parts.checksum, payload), shared, &opening.opener)? else { return Ok(None) };
        if let Some(payloads) = columns.get_item(intern!(py, "payload"))? {
            self.texts += payloads.cast::<MessageColumn>()?.get().batch.metadata.len();
        }
        if names.0 == PRODUCE {
            metadata_bytes += (i64::from(parts.payload_at) - METADATA_COMMON_BYTES).max(0);
        }
        let values = RowValues {
            producer: shared.producer.clone(),
            sequence: shared.sequence,
            id,
            claimed: Some(claimed),
            published: shared.published,
            broker_time: shared.broker_time,
            index: shared.index,
            redelivered,
            codec: shared.codec.clone(),
        };
        let (direction, topic, subscription) = names;
        let names = (direction, frames.known(py, topic), frames.known(py, subscription), parts.numbers.id);
        let row = row(py, &opening.row, frames.names(frame), &frames.sent(frame), names, values)?;
        Ok(Some(opening.entry.call1((row, claimed, columns, metadata_bytes))?))
    }
}
