//! Short connections whose packets are all in one block: their frames are read, named and paired without Python, if all of them are plain.
//!
//! Python reads the connection if its session must remember more than names, requests and SENDs: a response without a request, for instance.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pyo3::prelude::*;

use crate::frames::{Entry, Frame, Frames, Run};
use crate::named::Named;
use crate::pieces::{Pieces, Places};
use crate::sent_queue::Sent;
use crate::tables::{CommandKind, Part, Role, Tables, Value};

/// Frames of a connection; of more, Python applies the bounds of the session.
const FRAMES_MAX: usize = 4096;
/// Bytes of a name that is remembered as it is.
const NAME_MAX: usize = 4096;
/// Begin of the names of producers whose receipts have numbers of their own.
const REPLICATOR: &[u8] = b"pulsar.repl.";

/// Read the streams of a client and a server; return false, with no frames, if they are not plain.
///
/// `names`: source, file, connection, protocol, direction of the client, of the server; `sizes`: of the largest frame before a server
/// announces how large messages are, and what frames may have beyond that.
pub fn read<'py>(
    frames: &mut Frames,
    streams: [&Bound<'py, Pieces>; 2],
    names: [Bound<'py, PyAny>; 6],
    sizes: (usize, usize),
) -> PyResult<bool> {
    let py = streams[0].py();
    let reader = frames.reader.clone_ref(py);
    let tables = &reader.bind(py).get().tables;
    let (largest, padding) = sizes;
    let longest = if begins_plainly(streams) { read_all(py, frames, tables, streams, names, largest)? } else { None };
    let mut entries = std::mem::take(&mut frames.entries);
    entries.sort_by_key(Entry::moment);
    let mut session = Session::default();
    let mut paired = longest.is_some() && entries.len() <= FRAMES_MAX;
    for entry in &mut entries {
        let Entry::Frame(frame) = entry else { continue };
        let named = if paired { session.observe(py, frames, tables, frame)? } else { None };
        paired = named.is_some();
        frame.named = named.unwrap_or_default();
    }
    let announced = session.largest.map_or(largest, |size| size.saturating_add(padding));
    paired &= longest.is_some_and(|size| size <= announced);
    if paired {
        frames.entries = entries;
    }
    Ok(paired)
}

/// Return true if the client speaks first.
fn begins_plainly(streams: [&Bound<'_, Pieces>; 2]) -> bool {
    match (streams[0].get().pieces.first(), streams[1].get().pieces.first()) {
        (Some(client), Some(server)) => client.packet < server.packet,
        (client, _) => client.is_some(),
    }
}

/// Read all frames, those of the client first: most of what is not plain is among them. Return the
/// size of the largest; None if some bytes are not plain frames.
fn read_all<'py>(
    py: Python<'py>,
    frames: &mut Frames,
    tables: &Tables,
    streams: [&Bound<'py, Pieces>; 2],
    names: [Bound<'py, PyAny>; 6],
    largest: usize,
) -> PyResult<Option<usize>> {
    let [source, file, connection, protocol, client, server] = names;
    let of_file = file.extract()?;
    let mut longest = 0;
    for (stream, direction) in [(streams[0], client), (streams[1], server)] {
        let is_client = stream.is(streams[0]);
        let (data, places) = stream.get().joined(py)?;
        let (size, first) = (data.as_bytes().len(), frames.entries.len());
        let shared = [&source, &file, &connection, &protocol, &direction].map(|name| name.clone().unbind());
        let origin = frames.add_origin(data.clone().unbind(), 0, of_file, is_client, shared);
        let opening = places.first().map_or(0, |place| place.end);
        let places = Places::Joined(Arc::new(places));
        let mut run = Run::new((0, -1, 0), (origin, 0, 0, largest), places);
        run.any = true;
        run.read(py, tables, data.as_bytes(), &mut frames.entries)?;
        if run.position != size {
            return Ok(None);
        }
        for entry in &frames.entries[first..] {
            let Entry::Frame(frame) = entry else { return Ok(None) };
            longest = longest.max(frame.size() as usize);
        }
        if let (true, Some(Entry::Frame(frame))) = (is_client, frames.entries.get(first)) {
            let opens = frames.command(tables, frame)?.part == Part::Connect;
            if !opens || i64::from(frame.size()) != opening {
                return Ok(None);
            }
        }
    }
    Ok(Some(longest))
}

/// Fields of a command that a session asks for; names by their numbers, 0 for none.
#[derive(Default)]
struct CommandFields {
    request: Option<i64>,
    producer: Option<i64>,
    consumer: Option<i64>,
    topic: u32,
    name: u32,
    subscription: u32,
    largest: Option<usize>,
    /// Something that only Python deals with.
    rare: bool,
}

fn command_fields(py: Python<'_>, frames: &mut Frames, tables: &Tables, frame: &Frame) -> PyResult<CommandFields> {
    let plan = frames.command(tables, frame)?.plan;
    let mut fields = CommandFields::default();
    let mut names: [Option<&[u8]>; 3] = [None; 3];
    let data = frames.slice(py, frame, frame.parts().fields);
    let visited = tables.visit(data, plan, |role, value| match (role, value) {
        (Role::RequestId, Value::Number(number)) => fields.request = Some(number),
        (Role::ProducerId, Value::Number(number)) => fields.producer = Some(number),
        (Role::ConsumerId, Value::Number(number)) => fields.consumer = Some(number),
        (Role::LargestMessage, Value::Number(size)) => fields.largest = usize::try_from(size).ok().filter(|size| *size > 0),
        (Role::Ready, Value::Flag(ready)) => fields.rare |= !ready,
        (Role::Topic, Value::Text(text)) => names[0] = Some(text),
        (Role::ProducerName, Value::Text(text)) => names[1] = Some(text),
        (Role::Subscription, Value::Text(text)) => names[2] = Some(text),
        (Role::Topic | Role::ProducerName | Role::Subscription, _) => fields.rare = true,
        _ => {}
    });
    fields.rare |= visited.is_none() || names.iter().flatten().any(|name| name.is_empty() || name.len() > NAME_MAX);
    fields.rare |= names[1].is_some_and(|name| name.starts_with(REPLICATOR));
    let texts = names.map(|name| name.and_then(|name| tables.text(py, name)).map(Bound::into_any));
    let mut number = |text: &Option<Bound<'_, PyAny>>| text.as_ref().map_or(Ok(0), |text| frames.text(text));
    (fields.topic, fields.name, fields.subscription) = (number(&texts[0])?, number(&texts[1])?, number(&texts[2])?);
    Ok(fields)
}

/// A request that waits, with its names.
struct Request {
    sent: Sent,
    topic: u32,
    name: u32,
    subscription: u32,
    /// The producer that it creates.
    creates: Option<i64>,
}

struct Producer {
    topic: u32,
    name: u32,
    waiting: VecDeque<Sent>,
}

/// What is known of a connection. Each command of it returns None for what Python must deal with.
#[derive(Default)]
struct Session {
    /// Bytes of the largest message, as the server announces it.
    largest: Option<usize>,
    connecting: Option<Sent>,
    requests: HashMap<(u8, i64), Request>,
    producers: HashMap<i64, Producer>,
    /// Topic and subscription by id.
    consumers: HashMap<i64, (u32, u32)>,
}

impl Session {
    fn observe(&mut self, py: Python<'_>, frames: &mut Frames, tables: &Tables, frame: &Frame) -> PyResult<Option<Named>> {
        let command = frames.command(tables, frame)?;
        let numbers = &frame.parts().numbers;
        let is_client = frames.is_client(frame);
        let sent = frames.sent(frame);
        Ok(match command.kind {
            CommandKind::Send if numbers.replicated => None, // its receipt may have numbers of its own
            CommandKind::Send => self.producers.get_mut(&numbers.id).filter(|producer| producer.name > 0).map(|producer| {
                producer.waiting.push_back(sent);
                Named::send(producer.topic, producer.name, numbers)
            }),
            CommandKind::Receipt => self.producers.get_mut(&numbers.id).filter(|producer| producer.topic > 0).and_then(|producer| {
                let asked = producer.waiting.pop_front().filter(|asked| asked.sequence == sent.sequence)?;
                let named = Named { topic: producer.topic, producer: producer.name, ..Named::default() };
                named.answering(&asked, &sent)
            }),
            CommandKind::Message => {
                let consumer = self.consumers.get(&numbers.id).filter(|consumer| consumer.0 > 0 && !numbers.ack_set);
                consumer.map(|consumer| Named::message(*consumer, numbers))
            }
            CommandKind::Ack | CommandKind::Flow => {
                let consumer = self.consumers.get(&numbers.id).filter(|_| frames.is_plain_answer(frame));
                consumer.map(|consumer| Named::consumer(*consumer))
            }
            CommandKind::Other => {
                let part = command.part;
                let asks = !matches!(part, Part::Answers | Part::ProducerSuccess | Part::Connected);
                let fields = command_fields(py, frames, tables, frame)?;
                if asks != is_client || fields.rare {
                    return Ok(None);
                }
                self.other(part, frame.parts().command, sent, fields)
            }
        })
    }

    fn other(&mut self, part: Part, command: u8, sent: Sent, fields: CommandFields) -> Option<Named> {
        match part {
            Part::Connect => self.connecting.replace(sent).is_none().then(Named::default),
            Part::Connected => {
                self.largest = fields.largest;
                Named::default().answering(&self.connecting.take()?, &sent)
            }
            Part::Answers | Part::ProducerSuccess => {
                let request = self.requests.remove(&(command, fields.request?))?;
                let name = if fields.name > 0 { fields.name } else { request.name };
                if let (Part::ProducerSuccess, Some(producer)) = (part, request.creates.and_then(|id| self.producers.get_mut(&id))) {
                    producer.name = if fields.name > 0 { fields.name } else { producer.name };
                }
                let topic = if fields.topic > 0 { fields.topic } else { request.topic };
                let subscription = if fields.subscription > 0 { fields.subscription } else { request.subscription };
                Named { topic, producer: name, subscription, ..Named::default() }.answering(&request.sent, &sent)
            }
            Part::Producer(response) => {
                let id = fields.producer?;
                if self.producers.contains_key(&id) {
                    return None;
                }
                self.producers.insert(id, Producer { topic: fields.topic, name: fields.name, waiting: VecDeque::new() });
                self.ask(response, sent, fields, Some(id))
            }
            Part::Subscribe(response) => {
                self.consumers.insert(fields.consumer?, (fields.topic, fields.subscription));
                self.ask(response, sent, fields, None)
            }
            Part::Asks(response) => {
                let mut fields = fields;
                if let Some(id) = fields.consumer {
                    if let Some(&(topic, subscription)) = self.consumers.get(&id) {
                        (fields.topic, fields.subscription) = (topic, subscription);
                    }
                } else if let Some(producer) = fields.producer.and_then(|id| self.producers.get(&id)) {
                    (fields.topic, fields.name) = (producer.topic, producer.name);
                }
                self.ask(response, sent, fields, None)
            }
        }
    }

    fn ask(&mut self, response: u8, sent: Sent, fields: CommandFields, creates: Option<i64>) -> Option<Named> {
        let CommandFields { topic, name, subscription, .. } = fields;
        let request = Request { sent, topic, name, subscription, creates };
        let first = self.requests.insert((response, fields.request?), request).is_none();
        first.then(|| Named { topic, producer: name, subscription, ..Named::default() })
    }
}
