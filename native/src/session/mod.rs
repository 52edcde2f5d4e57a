//! The session over frames in columns: names of topics, producers and subscriptions, and receipts paired with their SENDs.
//!
//! The state is that of the Python session (`protocols/pulsar/session`), which remains the only owner. A frame that needs more than names
//! and pairs ends the call, and Python handles it.

pub(crate) mod frame_batch;
pub(crate) mod kept_sends;
pub(crate) mod opening;
pub(crate) mod sent_queue;
pub(crate) mod singles;

use std::collections::HashSet;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::caught;
use crate::encoding::number_keys::NumberMap;
use crate::frames::{Entry, Frame, Frames};
use crate::messages::kept_messages::Singles;
use crate::messages::opened_messages::OpenedMessages;
use crate::messages::opener::Opener;
use crate::schema::named::Named;
use crate::schema::reader::Reader;
use crate::schema::tables::{CommandKind, Numbers, Tables, Text};
use crate::session::kept_sends::Held;
use crate::session::sent_queue::{SentQueue, Waiting};

/// A producer of the Python session.
pub struct Producer<'py> {
    pub waiting: PyRefMut<'py, SentQueue>,
    pub topic: u32,
    pub name: u32,
    /// Whether its name is that of the first metadata with one.
    pub unnamed: bool,
}

/// The view of the Python session during a call.
pub struct State<'a, 'py> {
    pub py: Python<'py>,
    pub tables: &'a Tables,
    pub sent_type: &'a Py<PyAny>,
    producers: Bound<'py, PyDict>,
    consumers: Bound<'py, PyDict>,
    /// Responses that came before their requests, if any.
    early: Option<Bound<'py, PyDict>>,
    delivered: Bound<'py, PyAny>,
    /// Commands that are left to Python.
    pub left: [bool; 256],
    /// Function that returns the opener of payloads, if they are opened when there is something to open.
    gives_opener: Option<Bound<'py, PyAny>>,
    opener: Option<Opener<'py>>,
    pub known_producers: NumberMap<i64, Option<Producer<'py>>>,
    known_consumers: NumberMap<i64, Option<(u32, u32)>>,
    /// SENDs that may still begin to wait.
    pub room: i64,
    pub waiting: i64,
    /// Memory for a decompressed payload.
    pub opened: Vec<u8>,
    pub singles: Singles,
    pub held: Held,
    /// Place of the frame being opened, its names, and what was opened, if frames are also requested.
    pub place: usize,
    pub named: Named,
    pub messages: OpenedMessages,
    /// Bytes of the opened payloads, as texts.
    pub texts: usize,
}

/// Data that a call takes from the Python session: producers, consumers, early responses, a function that remembers the size of a batch,
/// and the commands that are left to Python.
pub type Known<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyAny>, HashSet<String>);

/// Name and pair the frames from a place on, up to one that Python must handle; see `Frames.observe`.
pub fn observe<'py>(
    py: Python<'py>,
    frames: &mut Frames,
    mut place: usize,
    known: Known<'py>,
    room: i64,
    gives_opener: Option<Bound<'py, PyAny>>,
) -> PyResult<(usize, i64)> {
    let reader = frames.reader.clone_ref(py);
    let mut state = State { gives_opener, ..State::of(py, reader.get(), known, room) };
    let mut entries = std::mem::take(&mut frames.entries);
    let result = caught(|| {
        while let Some(Entry::Frame(frame)) = entries.get_mut(place) {
            let Some(named) = state.observe(frames, frame)? else { break };
            frame.named = named;
            place += 1;
        }
        Ok(())
    });
    frames.entries = entries;
    result.map(|()| (place, state.waiting))
}

impl<'a, 'py> State<'a, 'py> {
    /// `room`: SENDs that may begin to wait.
    pub fn of(py: Python<'py>, reader: &'a Reader, known: Known<'py>, room: i64) -> Self {
        let (producers, consumers, early, delivered, left) = known;
        State {
            py,
            tables: &reader.tables,
            sent_type: &reader.sent,
            producers,
            consumers,
            early: (!early.is_empty()).then_some(early),
            delivered,
            left: reader.tables.chosen(&left),
            gives_opener: None,
            opener: None,
            known_producers: NumberMap::default(),
            known_consumers: NumberMap::default(),
            room,
            waiting: 0,
            opened: Vec::new(),
            singles: Singles::default(),
            held: Held::default(),
            place: 0,
            named: Named::default(),
            messages: OpenedMessages::default(),
            texts: 0,
        }
    }

    fn observe(&mut self, frames: &mut Frames, frame: &Frame) -> PyResult<Option<Named>> {
        let command = frames.command(self.tables, frame)?;
        let parts = frame.parts();
        if self.left[usize::from(parts.command)] {
            return Ok(None);
        }
        match command.kind {
            CommandKind::Send => {
                let sent = frames.sent(frame);
                if self.waiting >= self.room || parts.numbers.replicated || self.is_answered(&parts.numbers)? {
                    return Ok(None);
                }
                let is_plain = |producer: &&mut Producer| !(producer.unnamed && parts.numbers.name.is_some());
                if self.producer(frames, parts.numbers.id)?.filter(is_plain).is_none() || !self.opens(frames, frame)? {
                    return Ok(None);
                }
                let Some(producer) = self.producer(frames, parts.numbers.id)? else { return Ok(None) };
                producer.waiting.sent.push_back(Waiting::Plain(sent));
                let named = Named::send(producer.topic, producer.name, &parts.numbers);
                self.waiting += 1;
                Ok(Some(named))
            }
            CommandKind::Receipt => self.receipt(frames, frame),
            CommandKind::Message => {
                let consumer = self.consumer(frames, parts.numbers.id)?.filter(|consumer| consumer.0 > 0 && !parts.numbers.ack_set);
                let Some(named) = consumer.map(|consumer| Named::message(consumer, &parts.numbers)) else { return Ok(None) };
                if !self.opens(frames, frame)? {
                    return Ok(None);
                }
                if let Some(messages) = named.messages.filter(|messages| *messages > 1) {
                    self.remember_batch(frames, frame, messages)?;
                }
                Ok(Some(named))
            }
            CommandKind::Ack | CommandKind::Flow => Ok(self.plain_consumer(frames, frame)?.map(Named::consumer)),
            CommandKind::Other => Ok(None),
        }
    }

    /// Open the payload of a frame, if that is requested and there is something to open; return false if that causes a finding.
    fn opens(&mut self, frames: &Frames, frame: &Frame) -> PyResult<bool> {
        let Some(gives_opener) = self.gives_opener.as_ref().filter(|_| frame.parts().numbers.wrapped) else { return Ok(true) };
        let opener = match &self.opener {
            Some(opener) => opener.clone(),
            None => gives_opener.call0()?.extract()?,
        };
        self.opener = Some(opener.clone());
        self.is_sound(frames, frame, &opener)
    }

    /// Return the consumer of an ACK or FLOW with nothing but the usual fields.
    pub fn plain_consumer(&mut self, frames: &mut Frames, frame: &Frame) -> PyResult<Option<(u32, u32)>> {
        if frames.is_plain_answer(frame) {
            self.consumer(frames, frame.parts().numbers.id)
        } else {
            Ok(None)
        }
    }

    /// Return true if the receipt of a SEND came before it.
    pub fn is_answered(&self, numbers: &Numbers) -> PyResult<bool> {
        match &self.early {
            None => Ok(false),
            Some(early) => early.contains((intern!(self.py, "SEND"), numbers.id, numbers.sequence)),
        }
    }

    /// Tell the session how many messages a delivered batch has.
    pub fn remember_batch(&self, frames: &Frames, frame: &Frame, messages: i64) -> PyResult<()> {
        let id = match frames.fields(self.py, self.tables, frame)?.get_item(intern!(self.py, "message_id"))? {
            Some(id) => id,
            None => PyDict::new(self.py).into_any(),
        };
        self.delivered.call1((id, messages))?;
        Ok(())
    }

    fn receipt(&mut self, frames: &mut Frames, frame: &Frame) -> PyResult<Option<Named>> {
        let answer = frames.sent(frame);
        let Some(producer) = self.producer(frames, frame.parts().numbers.id)?.filter(|producer| producer.topic > 0) else {
            return Ok(None);
        };
        let Some(&Waiting::Plain(sent)) = producer.waiting.sent.front() else { return Ok(None) };
        let named = Named { topic: producer.topic, producer: producer.name, ..Named::default() };
        let named = named.answering(&sent, &answer).filter(|_| sent.sequence == answer.sequence);
        if named.is_some() {
            producer.waiting.sent.pop_front();
            self.waiting -= 1;
        }
        Ok(named)
    }

    /// Return a producer whose sequence ids need not be compared.
    pub fn producer(&mut self, frames: &mut Frames, id: i64) -> PyResult<Option<&mut Producer<'py>>> {
        let py = self.py;
        if !self.known_producers.contains_key(&id) {
            let known = match self.producers.get_item(id)? {
                Some(producer) if producer.getattr(intern!(py, "known"))?.is_none() => Some(Producer {
                    waiting: self.queue(&producer)?.try_borrow_mut()?,
                    topic: frames.text(&producer.getattr(intern!(py, "topic"))?)?,
                    name: frames.text(&producer.getattr(intern!(py, "name"))?)?,
                    unnamed: producer.getattr(intern!(py, "name"))?.is_none(),
                }),
                _ => None,
            };
            self.known_producers.insert(id, known);
        }
        Ok(self.known_producers.get_mut(&id).and_then(Option::as_mut))
    }

    /// Return the queue of a producer, made of its deque on first use.
    fn queue(&self, producer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, SentQueue>> {
        let name = intern!(self.py, "waiting");
        let waiting = producer.getattr(name)?;
        if let Ok(queue) = waiting.cast::<SentQueue>() {
            return Ok(queue.clone());
        }
        let queue = Bound::new(self.py, SentQueue::of(self.sent_type, &waiting)?)?;
        producer.setattr(name, &queue)?;
        Ok(queue)
    }

    pub fn consumer(&mut self, frames: &mut Frames, id: i64) -> PyResult<Option<(u32, u32)>> {
        let py = self.py;
        if let Some(known) = self.known_consumers.get(&id) {
            return Ok(*known);
        }
        let known = match self.consumers.get_item(id)? {
            Some(consumer) => Some((
                frames.text(&consumer.getattr(intern!(py, "topic"))?)?,
                frames.text(&consumer.getattr(intern!(py, "subscription"))?)?,
            )),
            None => None,
        };
        self.known_consumers.insert(id, known);
        Ok(known)
    }
}

impl Frames {
    /// Return the number of a Python text, 0 for None: each text has one number, however often the session returns it.
    pub fn text(&mut self, text: &Bound<'_, PyAny>) -> PyResult<u32> {
        let Ok(text) = text.cast::<PyString>() else { return Ok(0) };
        let place = text.as_ptr() as usize;
        if let Some(number) = self.numbers.get(&place) {
            return Ok(*number);
        }
        self.texts.push(Text::new(text)?);
        let number = self.texts.len() as u32;
        self.numbers.insert(place, number);
        Ok(number)
    }
}
