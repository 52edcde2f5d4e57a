//! Conversations that have been plain so far: their frames are read, named and paired without Python.
//!
//! Python reads the connection if its session must remember more than names, requests and SENDs: a response without a request, for
//! instance.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::capture::pieces::{Place, Places};
use crate::encoding::number_keys::NumberMap;
use crate::encoding::wire::Bytes;
use crate::frames::{Asked, Entry, Frame, Frames, Run};
use crate::schema::named::{Named, Sent};
use crate::schema::tables::{CommandKind, Part, Role, Tables, Value};
use crate::short_connections::anchors::{Anchor, Anchors};
use crate::short_connections::requests::{Name, Request};

/// Maximum number of frames of a connection; beyond that, Python applies the bounds of the session.
const FRAMES_MAX: u32 = 4096;
/// Longest name that is remembered unchanged, bytes.
const NAME_MAX: usize = 4096;
/// Outcome of a failed response.
const FAILED: &[u8] = b"\"Failed\"";
/// Prefix of the names of producers whose receipts have their own numbers.
const REPLICATOR: &[u8] = b"pulsar.repl.";

/// Bytes of a stream: a range of the data, the stream offset at which it begins, and the ends of its pieces.
#[derive(Default)]
pub struct StreamPart {
    pub range: Range<usize>,
    pub offset: i64,
    pub places: Vec<Place>,
}

/// Sizes of frames: of the smallest one, of the largest one before a server announces the maximum message size, and the allowance beyond
/// that.
pub type Sizes = (usize, usize, usize);

/// What is read as plain: frames of these sizes; if payloads are opened, those without anything to open in them; if exchanges are
/// requested, responses without an error.
#[derive(Clone, Copy)]
pub struct Plainness {
    pub sizes: Sizes,
    pub opens: bool,
    pub exchanges: bool,
    /// Maximum number of anchors per connection.
    pub anchors: usize,
}

/// Frames of a connection from its beginning on.
#[derive(Default)]
pub struct Conversation {
    session: Session,
    /// Whether the first frame was read.
    pub begun: bool,
    /// Number of whole frames of both sides.
    pub frames: [u32; 2],
    longest: usize,
}

impl Conversation {
    /// Return true if no request waits for its answer, or no exchanges are requested.
    pub fn is_told(&self, exchanges: bool) -> bool {
        let Session { connecting, requests, producers, .. } = &self.session;
        let waits = connecting.is_some() || !requests.is_empty() || producers.values().any(|producer| !producer.waiting.is_empty());
        !(exchanges && waits)
    }

    /// Return what both sides state about themselves: the fields of the first CONNECT and CONNECTED, with their plans; None before both
    /// came.
    pub fn greetings(&self) -> Option<&[(Vec<u8>, usize); 2]> {
        self.session.greetings.as_slice().try_into().ok()
    }

    /// Read the frames that these parts of both streams complete, the client's first; append them in the order of their moments. Return the
    /// number of bytes left in each part, of an incomplete frame; None, without frames, if they are not plain.
    ///
    /// `names`: names for the rows of the client, and of the server; `file`: that of the packets; `anchors`: takes the anchors of the
    /// frames.
    #[allow(clippy::too_many_arguments)]
    pub fn feed<'py>(
        &mut self,
        frames: &mut Frames,
        data: &Bound<'py, PyBytes>,
        parts: [StreamPart; 2],
        names: [[Py<PyAny>; 5]; 2],
        file: i64,
        plainness: Plainness,
        anchors: &mut Vec<Anchor>,
    ) -> PyResult<Option<[usize; 2]>> {
        let py = data.py();
        let reader = frames.reader.clone_ref(py);
        let tables = &reader.bind(py).get().tables;
        let first = frames.entries.len();
        let begins = self.begun || begins_plainly(&parts);
        let left = if begins { self.read(py, frames, tables, data, parts, names, file, plainness.sizes)? } else { None };
        let mut entries = std::mem::take(&mut frames.entries);
        let mut plain = left.is_some() && self.frames.iter().sum::<u32>() <= FRAMES_MAX;
        let given = anchors.len();
        if plain {
            entries[first..].sort_by_key(Entry::moment);
        }
        for (place, entry) in entries.iter_mut().enumerate().skip(first) {
            let Entry::Frame(frame) = entry else { continue };
            let named = if plain { self.session.observe(py, frames, tables, frame, plainness)? } else { None };
            plain = named.is_some();
            frame.named = named.unwrap_or_default();
            anchors.extend(self.session.anchor.take().map(|anchor| anchor.at(place)));
        }
        plain &= self.session.largest.is_none_or(|size| self.longest <= size.saturating_add(plainness.sizes.2));
        if !plain {
            entries.truncate(first);
            anchors.truncate(given);
        }
        frames.entries = entries;
        Ok(left.filter(|_| plain))
    }

    #[allow(clippy::too_many_arguments)]
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        frames: &mut Frames,
        tables: &Tables,
        data: &Bound<'py, PyBytes>,
        parts: [StreamPart; 2],
        names: [[Py<PyAny>; 5]; 2],
        file: i64,
        (smallest, largest, _): Sizes,
    ) -> PyResult<Option<[usize; 2]>> {
        let mut left = [0; 2];
        for (side, (part, names)) in parts.into_iter().zip(names).enumerate() {
            if part.range.is_empty() {
                continue;
            }
            let first = frames.entries.len();
            let base = part.offset - part.range.start as i64;
            let bytes = &data.as_bytes()[..part.range.end];
            let opening = part.places.first().map_or(0, |place| place.end);
            let origin = frames.add_origin(data.clone().unbind(), base, file, side == 0, names);
            let places = Places::Joined(Arc::new(part.places));
            let mut run = Run::new((part.range.start, -1, 0), (origin, base, 0, largest), places);
            run.any = true;
            run.read(py, tables, bytes, &mut frames.entries)?;
            let rest = &bytes[run.position..];
            if let Some(size) = Bytes(rest).u32() {
                let size = size as usize + 4;
                if size <= rest.len() || size < smallest || size > largest {
                    return Ok(None);
                }
                self.longest = self.longest.max(size);
            }
            left[side] = rest.len();
            self.frames[side] += (frames.entries.len() - first) as u32;
            for entry in &frames.entries[first..] {
                let Entry::Frame(frame) = entry else { return Ok(None) };
                self.longest = self.longest.max(frame.size() as usize);
            }
            if !self.begun {
                let Some(Entry::Frame(frame)) = frames.entries.get(first) else { return Ok(None) };
                if frames.command(tables, frame)?.part != Part::Connect || i64::from(frame.size()) != opening {
                    return Ok(None);
                }
                self.begun = true;
            }
        }
        Ok(Some(left))
    }
}

/// Return true if the client sends first.
fn begins_plainly([client, server]: &[StreamPart; 2]) -> bool {
    match (client.places.first(), server.places.first()) {
        (Some(client), Some(server)) => client.packet < server.packet,
        (client, server) => client.is_some() || server.is_none(),
    }
}

fn copy(py: Python<'_>, name: &Name) -> Name {
    name.as_ref().map(|name| name.clone_ref(py))
}

fn number(py: Python<'_>, frames: &mut Frames, name: &Name) -> PyResult<u32> {
    name.as_ref().map_or(Ok(0), |name| frames.text(name.bind(py).as_any()))
}

/// Fields of a command that a session needs.
#[derive(Default)]
struct CommandFields {
    request: Option<i64>,
    producer: Option<i64>,
    consumer: Option<i64>,
    topic: Name,
    name: Name,
    subscription: Name,
    /// The name that a client chose for its consumer.
    consumer_name: Name,
    largest: Option<usize>,
    /// Whether messages may have values.
    schema: bool,
    /// Whether a response states a failure, or has a text.
    error: bool,
    /// Whether there is something that only Python handles.
    rare: bool,
}

fn command_fields(py: Python<'_>, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<CommandFields> {
    let plan = frames.command(tables, frame)?.plan;
    let mut fields = CommandFields::default();
    let mut names: [Option<&[u8]>; 4] = [None; 4];
    let data = frames.slice(py, frame, frame.parts().fields);
    let visited = tables.visit(data, plan, |role, value| match (role, value) {
        (Role::RequestId, Value::Number(number)) => fields.request = Some(number),
        (Role::ProducerId, Value::Number(number)) => fields.producer = Some(number),
        (Role::ConsumerId, Value::Number(number)) => fields.consumer = Some(number),
        (Role::LargestMessage, Value::Number(size)) => fields.largest = usize::try_from(size).ok().filter(|size| *size > 0),
        (Role::Schema, _) => fields.schema = true,
        (Role::Failure | Role::Said, _) => fields.error = true,
        (Role::Outcome, Value::Name(name)) => fields.error |= name == FAILED,
        (Role::Ready, Value::Flag(ready)) => fields.rare |= !ready,
        (Role::Topic, Value::Text(text)) => names[0] = Some(text),
        (Role::ProducerName, Value::Text(text)) => names[1] = Some(text),
        (Role::Subscription, Value::Text(text)) => names[2] = Some(text),
        (Role::ConsumerName, Value::Text(text)) => names[3] = Some(text),
        (Role::Topic | Role::ProducerName | Role::Subscription | Role::ConsumerName, _) => fields.rare = true,
        _ => {}
    });
    fields.rare |= visited.is_none() || names.iter().flatten().any(|name| name.is_empty() || name.len() > NAME_MAX);
    fields.rare |= names[1].is_some_and(|name| name.starts_with(REPLICATOR));
    let [topic, name, subscription, consumer_name] = names.map(|name| name.and_then(|name| tables.text(py, name)).map(Bound::unbind));
    Ok(CommandFields { topic, name, subscription, consumer_name, ..fields })
}

struct Producer {
    topic: Name,
    name: Name,
    waiting: VecDeque<Sent>,
}

/// State of a connection. Each of its commands returns None for what Python must handle.
#[derive(Default)]
struct Session {
    /// Size of the largest message announced by the server, bytes.
    largest: Option<usize>,
    /// A waiting CONNECT, and its command.
    connecting: Option<(Sent, u8)>,
    requests: NumberMap<(u8, i64), Request>,
    producers: NumberMap<i64, Producer>,
    /// Topic and subscription by id.
    consumers: NumberMap<i64, (Name, Name)>,
    /// See `Conversation::greetings`.
    greetings: Vec<(Vec<u8>, usize)>,
    anchors: Anchors,
    /// The anchor that the current frame completes.
    anchor: Option<Anchor>,
}

impl Session {
    fn observe(
        &mut self,
        py: Python<'_>,
        frames: &mut Frames,
        tables: &Tables,
        frame: &Frame,
        Plainness { opens, exchanges, anchors, .. }: Plainness,
    ) -> PyResult<Option<Named>> {
        let command = frames.command(tables, frame)?;
        let numbers = &frame.parts().numbers;
        if opens && frame.parts().metadata.is_some() && numbers.wrapped {
            return Ok(None);
        }
        let sent = frames.sent(frame);
        match command.kind {
            CommandKind::Send if numbers.replicated => Ok(None), // its receipt may have numbers of its own
            CommandKind::Send => {
                let producer = self.producers.get_mut(&numbers.id).filter(|producer| producer.name.is_some());
                let Some(producer) = producer else { return Ok(None) };
                producer.waiting.push_back(sent);
                Ok(Some(Named::send(number(py, frames, &producer.topic)?, number(py, frames, &producer.name)?, numbers)))
            }
            CommandKind::Receipt => {
                let producer = self.producers.get_mut(&numbers.id).filter(|producer| producer.topic.is_some());
                let Some(producer) = producer else { return Ok(None) };
                let Some(asked) = producer.waiting.pop_front().filter(|asked| asked.sequence == sent.sequence) else { return Ok(None) };
                let (topic, producer) = (number(py, frames, &producer.topic)?, number(py, frames, &producer.name)?);
                let numbers = &frame.parts().numbers;
                self.anchor = self.anchors.received(numbers, asked, anchors);
                Ok(Named { topic, producer, ..Named::default() }.answering(&asked, &sent))
            }
            CommandKind::Message => {
                let consumer = self.consumers.get(&numbers.id).filter(|consumer| consumer.0.is_some() && !numbers.ack_set);
                let Some(consumer) = consumer else { return Ok(None) };
                self.anchors.delivered(numbers, sent, anchors);
                Ok(Some(Named::message((number(py, frames, &consumer.0)?, number(py, frames, &consumer.1)?), numbers)))
            }
            CommandKind::Ack | CommandKind::Flow => {
                let consumer = self.consumers.get(&numbers.id).filter(|_| frames.is_plain_answer(frame));
                let Some(consumer) = consumer else { return Ok(None) };
                if command.kind == CommandKind::Ack {
                    let data = frames.slice(py, frame, frame.parts().fields);
                    self.anchor = self.anchors.acknowledged(tables, data, command.plan, numbers.id, anchors);
                }
                Ok(Some(Named::consumer((number(py, frames, &consumer.0)?, number(py, frames, &consumer.1)?))))
            }
            CommandKind::Other => {
                let part = command.part;
                let asks = !matches!(part, Part::Answers | Part::ProducerSuccess | Part::Connected);
                let fields = command_fields(py, frames, tables, frame)?;
                if asks != frames.is_client(frame) || fields.rare || (opens && fields.schema) || (exchanges && fields.error) {
                    return Ok(None);
                }
                if matches!(part, Part::Connect | Part::Connected) {
                    if self.greetings.len() == 2 {
                        return Ok(None);
                    }
                    self.greetings.push((frames.slice(py, frame, frame.parts().fields).to_vec(), command.plan));
                }
                self.other(py, frames, part, (frame.parts().command, anchors), sent, fields)
            }
        }
    }

    fn other(
        &mut self,
        py: Python<'_>,
        frames: &mut Frames,
        part: Part,
        (command, anchors): (u8, usize),
        sent: Sent,
        mut fields: CommandFields,
    ) -> PyResult<Option<Named>> {
        match part {
            Part::Connect => Ok(self.connecting.replace((sent, command)).is_none().then(Named::default)),
            Part::Connected => {
                self.largest = fields.largest;
                let Some((sent_before, command)) = self.connecting.take() else { return Ok(None) };
                let asked = frames.ask(Asked { command, ..Asked::default() });
                Ok(Named { asked, ..Named::default() }.answering(&sent_before, &sent))
            }
            Part::Answers | Part::ProducerSuccess => {
                let request = fields.request.and_then(|id| self.requests.remove(&(command, id)));
                let Some(request) = request else { return Ok(None) };
                if let (Part::ProducerSuccess, Some(producer)) = (part, request.creates.and_then(|id| self.producers.get_mut(&id))) {
                    producer.name = copy(py, &fields.name).or(producer.name.take());
                }
                if self.anchors.are_left(anchors) {
                    self.anchor = self.anchors.answered(py, frames, &request, (command, &fields.name))?;
                }
                let [topic, producer, subscription] = [&request.topic, &request.name, &request.subscription];
                let names = (number(py, frames, topic)?, number(py, frames, producer)?, number(py, frames, subscription)?);
                let id = fields.request;
                let asked = frames.ask(Asked { command: request.command, id, topic: names.0, producer: names.1, subscription: names.2 });
                let topic = number(py, frames, &fields.topic.or(request.topic))?;
                let producer = number(py, frames, &fields.name.or(request.name))?;
                let subscription = number(py, frames, &fields.subscription.or(request.subscription))?;
                Ok(Named { topic, producer, subscription, asked, ..Named::default() }.answering(&request.sent, &sent))
            }
            Part::Producer(response) => {
                let Some(id) = fields.producer.filter(|id| !self.producers.contains_key(id)) else { return Ok(None) };
                let (topic, name) = (copy(py, &fields.topic), copy(py, &fields.name));
                self.producers.insert(id, Producer { topic, name, waiting: VecDeque::new() });
                self.ask(py, frames, (response, command), sent, fields, Some(id))
            }
            Part::Subscribe(response) => {
                let Some(id) = fields.consumer else { return Ok(None) };
                self.consumers.insert(id, (copy(py, &fields.topic), copy(py, &fields.subscription)));
                self.ask(py, frames, (response, command), sent, fields, None)
            }
            Part::Asks(response) => {
                if let Some(id) = fields.consumer {
                    if let Some((topic, subscription)) = self.consumers.get(&id) {
                        (fields.topic, fields.subscription) = (copy(py, topic), copy(py, subscription));
                    }
                } else if let Some(producer) = fields.producer.and_then(|id| self.producers.get(&id)) {
                    (fields.topic, fields.name) = (copy(py, &producer.topic), copy(py, &producer.name));
                }
                self.ask(py, frames, (response, command), sent, fields, None)
            }
        }
    }

    fn ask(
        &mut self,
        py: Python<'_>,
        frames: &mut Frames,
        (response, command): (u8, u8),
        sent: Sent,
        fields: CommandFields,
        creates: Option<i64>,
    ) -> PyResult<Option<Named>> {
        let CommandFields { request, topic, name, subscription, consumer_name: chosen, .. } = fields;
        let Some(id) = request else { return Ok(None) };
        let (named, producer, subscribed) = (number(py, frames, &topic)?, number(py, frames, &name)?, number(py, frames, &subscription)?);
        let first =
            self.requests.insert((response, id), Request { sent, command, chosen, id, topic, name, subscription, creates }).is_none();
        Ok(first.then(|| Named { topic: named, producer, subscription: subscribed, ..Named::default() }))
    }
}
