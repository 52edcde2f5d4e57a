//! Summaries of frames, as made by `protocols/pulsar/text/summary.py`: those without escapes.

use pyo3::prelude::*;

use crate::encoding::number_keys::NumberMap;
use crate::frames::{Frame, Frames};
use crate::output::line_parts::{push_all, push_number, push_thousands, GAP};
use crate::output::summaries::Summaries;
use crate::schema::tables::{CommandKind, MessageId, Role, Tables, Value};

/// Longest name, and longest key, that is not truncated, characters.
const NAME_MAX: usize = 256;
const LATEST: i64 = i64::MAX;

/// Writes summaries of the frames of some batches.
pub struct FrameSummaries<'py> {
    py: Python<'py>,
    short_topic: Bound<'py, PyAny>,
    /// Function that makes the summary of a row, and the summaries made so far.
    pub summary: Bound<'py, PyAny>,
    made: PyRefMut<'py, Summaries>,
    /// Names followed by a gap, by batch and number: of topics, and of subscriptions preceded by a word.
    names: NumberMap<(usize, u32, bool), Option<String>>,
}

impl<'py> FrameSummaries<'py> {
    /// `short_topic`: shortens the name of a topic; `summary`: makes the summary of a row; `made`: the summaries made so far.
    pub fn new(py: Python<'py>, short_topic: Bound<'py, PyAny>, summary: Bound<'py, PyAny>, made: PyRefMut<'py, Summaries>) -> Self {
        FrameSummaries { py, short_topic, summary, made, names: NumberMap::default() }
    }

    /// Append the summary of a frame; return false if Python must write it, possibly with a part appended.
    pub fn write(&mut self, batch: usize, frames: &Frames, tables: &Tables, frame: &Frame, out: &mut String) -> PyResult<bool> {
        let command = frames.command(tables, frame)?;
        if command.kind == CommandKind::Other {
            let made = self.made.of(self.py, frames, frame, &self.summary)?;
            out.push_str(made.unwrap_or_default());
            return Ok(made.is_some());
        }
        let start = out.len();
        if !self.name(batch, frames, frame.named.topic, true, out)? {
            return Ok(false);
        }
        let Some(fields) = SummaryFields::of(tables, frames.slice(self.py, frame, frame.parts().fields), command.plan) else {
            return Ok(false);
        };
        let numbers = &frame.parts().numbers;
        match command.kind {
            CommandKind::Send => {
                out.push_str("seq ");
                push_number(numbers.sequence, out);
                if let Some(highest) = fields.highest.filter(|highest| *highest != 0 && *highest != numbers.sequence) {
                    out.push('-');
                    push_number(highest, out);
                }
                out.push_str(GAP);
            }
            CommandKind::Receipt => {
                match fields.id {
                    Some((-1, -1, _)) => out.push_str("dropped as a duplicate  "),
                    Some(id) => {
                        out.push_str("id ");
                        push_message_id(id, out);
                        out.push_str(GAP);
                    }
                    None => {}
                }
                out.push_str("seq ");
                push_number(numbers.sequence, out);
                out.push_str(GAP);
            }
            CommandKind::Message => {
                let (Some(id), false) = (fields.id, numbers.ack_set) else { return Ok(false) };
                out.push_str("id ");
                push_message_id(id, out);
                out.push_str(GAP);
            }
            CommandKind::Ack => {
                let (Some(how), false, 1, Some(id)) = (fields.acknowledges, numbers.ack_set, fields.ids, fields.id) else {
                    return Ok(false);
                };
                out.push_str(how);
                push_message_id(id, out);
                out.push_str(GAP);
            }
            CommandKind::Flow => match fields.permits {
                Some(permits) if frame.named.topic > 0 => {
                    push_thousands(permits, out);
                    out.push_str(" permits  ");
                }
                _ => return Ok(false),
            },
            CommandKind::Other => return Ok(false),
        }
        if let (CommandKind::Send | CommandKind::Message, Some(range)) = (command.kind, frame.parts().metadata) {
            if !push_payload(tables, frames.slice(self.py, frame, range), frame, out) {
                return Ok(false);
            }
        }
        if let (CommandKind::Message, Some(count)) = (command.kind, fields.redeliveries.filter(|count| *count != 0)) {
            out.push_str("redelivery ");
            push_number(count, out);
            out.push_str(GAP);
        }
        let by_producer = matches!(command.kind, CommandKind::Send | CommandKind::Receipt);
        if !by_producer && !self.name(batch, frames, frame.named.subscription, false, out)? {
            return Ok(false);
        }
        out.push_str(if by_producer { "producer " } else { "consumer " });
        push_number(numbers.id, out);
        Ok(out.as_bytes()[start..].iter().all(|byte| (b' '..=b'~').contains(byte)))
    }

    /// Append the name of a number as a topic or a subscription, nothing if there is none; return false if it is too long.
    fn name(&mut self, batch: usize, frames: &Frames, number: u32, topic: bool, out: &mut String) -> PyResult<bool> {
        let Some(text) = number.checked_sub(1).and_then(|place| frames.texts.get(place as usize)) else { return Ok(true) };
        if !self.names.contains_key(&(batch, number, topic)) {
            let name = text.text.bind(self.py);
            let shown = if name.len()? > NAME_MAX {
                None
            } else if topic {
                Some(self.short_topic.call1((name,))?.extract::<String>()? + GAP)
            } else {
                Some(format!("sub {}{GAP}", name.extract::<String>()?))
            };
            self.names.insert((batch, number, topic), shown);
        }
        let Some(Some(name)) = self.names.get(&(batch, number, topic)) else { return Ok(false) };
        out.push_str(name);
        Ok(true)
    }
}

/// Fields that the summary of a command shows, in addition to those in `Numbers`.
#[derive(Default)]
struct SummaryFields {
    highest: Option<i64>,
    redeliveries: Option<i64>,
    permits: Option<i64>,
    /// Words before the id of an ACK.
    acknowledges: Option<&'static str>,
    /// Number of message ids, and the first.
    ids: usize,
    id: Option<MessageId>,
}

impl SummaryFields {
    /// Return None for what only Python can put into words.
    fn of(tables: &Tables, data: &[u8], plan: usize) -> Option<Self> {
        let mut fields = SummaryFields::default();
        let mut plain = true;
        tables.visit(data, plan, |role, value| match (role, value) {
            (Role::HighestSequenceId, Value::Number(number)) => fields.highest = Some(number),
            (Role::RedeliveryCount, Value::Number(number)) => fields.redeliveries = Some(number),
            (Role::Permits, Value::Number(number)) => fields.permits = Some(number),
            (Role::AckType, Value::Name(b"\"Individual\"")) => fields.acknowledges = Some(""),
            (Role::AckType, Value::Name(b"\"Cumulative\"")) => fields.acknowledges = Some("up to "),
            (Role::MessageId, Value::Message(data, plan)) => match tables.message_id(data, plan) {
                Some(id) => {
                    fields.ids += 1;
                    fields.id = fields.id.or(Some(id));
                }
                None => plain = false,
            },
            (Role::RequestId | Role::Error, _) => plain = false,
            _ => {}
        })?;
        plain.then_some(fields)
    }
}

/// Append a message id, like `formatting.message_id_text`.
fn push_message_id(id: MessageId, out: &mut String) {
    match id {
        (-1, -1, _) => out.push_str("earliest"),
        (LATEST, LATEST, _) => out.push_str("latest"),
        (ledger, entry, index) => {
            push_number(ledger, out);
            out.push(':');
            push_number(entry, out);
            if index != -1 {
                out.push(':');
                push_number(index, out);
            }
        }
    }
}

/// Append the phrases about a payload; return false if Python must write them.
fn push_payload(tables: &Tables, metadata: &[u8], frame: &Frame, out: &mut String) -> bool {
    let (mut compression, mut key) = (None, None);
    let visited = tables.visit(metadata, tables.metadata, |role, value| match (role, value) {
        (Role::Compression, Value::Name(name)) => compression = Some(name),
        (Role::Key, Value::Text(text)) => key = Some(text),
        _ => {}
    });
    let Some(Ok(codec)) = visited.map(|()| std::str::from_utf8(compression.unwrap_or_default())) else { return false };
    if let Some(count) = frame.named.messages.filter(|count| *count != 1) {
        out.push_str("batch of ");
        push_thousands(count, out);
        out.push_str(GAP);
    }
    push_thousands(i64::from(frame.size() - frame.parts().payload_at), out);
    out.push_str(" B");
    if let Some(name) = Some(codec.trim_matches('"')).filter(|name| !name.is_empty() && *name != "NONE") {
        push_all(&[" ", name], out);
    }
    out.push_str(GAP);
    if let Some(key) = key {
        let Some(key) = std::str::from_utf8(key).ok().filter(|key| key.len() <= NAME_MAX) else { return false };
        push_all(&["key ", key, GAP], out);
    }
    true
}
