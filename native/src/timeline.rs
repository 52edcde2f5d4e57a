//! Lines of the timeline, as `output/render/timeline.py` writes them to a file: those without escapes or warnings.

use std::collections::HashMap;
use std::fmt::{Display, Write};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::frames::{Frame, Frames};
use crate::summaries::Summaries;
use crate::tables::{CommandKind, Role, Tables, Value};

const GAP: &str = "  ";
const SECOND: i64 = 1_000_000_000;
/// Longest name that is not cut, characters.
const NAME_MAX: usize = 256;
/// Latency from which on minutes are shown, ns.
const MINUTES: i64 = 119_500_000_000;
const LATEST: i64 = i64::MAX;

/// What `Look` takes of Python: its `looks`, `commands`, `short_topic`, `summary`, `summaries` and `introduce`.
pub type Parts<'py> =
    (Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyAny>, Bound<'py, PyAny>, PyRefMut<'py, Summaries>, Option<Bound<'py, PyAny>>);

/// The state of the output: what repeats in its lines.
pub struct Look<'py> {
    /// Parts of the lines of each connection, and texts of commands.
    pub looks: Bound<'py, PyDict>,
    pub commands: Bound<'py, PyDict>,
    /// Start of a dim part, of a slow one, their end, marks of an answer, of a millionth, and of a good checksum.
    pub marks: [String; 6],
    pub slow: i64,
    pub zero: i64,
    pub time_width: usize,
    pub name_width: usize,
    pub several: bool,
    pub short_topic: Bound<'py, PyAny>,
    pub summary: Bound<'py, PyAny>,
    pub summaries: PyRefMut<'py, Summaries>,
    /// Takes the row of a frame, makes the parts of the lines of its connection, and returns the lines before it; None: Python must.
    pub introduce: Option<Bound<'py, PyAny>>,
}

/// Append the name of a frame, with its file if there are several, and the time in nanoseconds since the first packet, in columns that they
/// may widen. `widths`: of times and of names.
pub fn push_place(
    file: Option<impl Display>,
    packet: impl Display,
    sub: impl Display,
    elapsed: i64,
    widths: &mut (usize, usize),
    text: &mut String,
) {
    let name = match file {
        Some(file) => format!("{file}:{packet}.{sub}"),
        None => format!("{packet}.{sub}"),
    };
    let shown = format!("{}.{:06}", elapsed / SECOND, elapsed % SECOND / 1000);
    *widths = (widths.0.max(shown.len()), widths.1.max(name.len()));
    let (time_width, name_width) = *widths;
    let _ = write!(text, "{name:>name_width$} {shown:>time_width$}");
}

/// Lines of the frames of some batches.
pub struct Lines<'a, 'py> {
    py: Python<'py>,
    pub look: &'a mut Look<'py>,
    pub text: String,
    pub frames: usize,
    /// Messages of the client, and of the server.
    pub messages: [i64; 2],
    /// Arrows to the server and to the client, by batch and origin; None where Python must look.
    arrows: HashMap<(usize, u32), Option<[String; 2]>>,
    commands: HashMap<u8, Option<String>>,
    topics: HashMap<(usize, u32), Option<String>>,
}

impl<'a, 'py> Lines<'a, 'py> {
    pub fn new(py: Python<'py>, look: &'a mut Look<'py>) -> Self {
        let (arrows, commands, topics) = (HashMap::new(), HashMap::new(), HashMap::new());
        Lines { py, look, text: String::new(), frames: 0, messages: [0, 0], arrows, commands, topics }
    }

    /// Append the line of a frame; return false if Python must.
    pub fn append(&mut self, batch: usize, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<bool> {
        let named = &frame.named;
        let elapsed = frame.time - self.look.zero;
        if frame.parts().numbers.rare || elapsed < 0 || named.latency.is_some_and(|latency| latency >= MINUTES) {
            return Ok(false);
        }
        let is_client = frames.is_client(frame);
        let Some(arrow) = self.arrow(batch, frames, frame, usize::from(!is_client))? else { return Ok(false) };
        let Some(command) = self.command(frames, tables, frame)? else { return Ok(false) };
        let Some(summary) = self.summary(batch, frames, tables, frame)? else { return Ok(false) };
        self.begin_line();
        let look = &mut *self.look;
        let [dim, slow, reset, answers, micro, good] = &look.marks;
        let mut widths = (look.time_width, look.name_width);
        let file = look.several.then(|| frames.file(frame));
        self.text.push_str(dim);
        push_place(file, frame.packet, frame.sub(), elapsed, &mut widths, &mut self.text);
        (look.time_width, look.name_width) = widths;
        let written = write!(self.text, "{reset} {arrow} {command} {summary}");
        if let (Some((file, packet, sub)), Some(latency)) = (named.request, named.latency) {
            self.text.push_str(if latency < look.slow { dim } else { slow });
            let _ = write!(self.text, "{GAP}{answers} ");
            if look.several {
                let _ = write!(self.text, "{file}:");
            }
            let _ = write!(self.text, "{packet}.{sub} ");
            duration(latency, micro, &mut self.text);
            self.text.push_str(reset);
        }
        if frame.parts().payload_at > 0 {
            self.text.push_str(good);
        }
        if let Some(count) = named.messages.filter(|count| *count > 0) {
            self.messages[usize::from(!is_client)] += count;
        }
        self.frames += 1;
        Ok(written.is_ok())
    }

    fn arrow(&mut self, batch: usize, frames: &Frames, frame: &Frame, side: usize) -> PyResult<Option<String>> {
        let key = (batch, frame.origin());
        if !self.arrows.contains_key(&key) {
            let name = &frames.names(frame)[2];
            let mut look = self.look.looks.get_item(name)?;
            if let (None, Some(introduce)) = (&look, &self.look.introduce) {
                let lines: String = introduce.call1((frames.named_row(self.py, frame)?,))?.extract()?;
                if !lines.is_empty() {
                    self.begin_line();
                    self.text.push_str(&lines);
                }
                self.arrows.clear(); // their width may be another one
                look = self.look.looks.get_item(name)?;
            }
            let known = match look {
                Some(look) => {
                    let look = look.cast_into::<PyTuple>()?;
                    let same = look.get_item(2)?.is(&self.look.summary);
                    if same {
                        Some([look.get_item(0)?.extract()?, look.get_item(1)?.extract()?])
                    } else {
                        None
                    }
                }
                None => None,
            };
            self.arrows.insert(key, known);
        }
        Ok(self.arrows.get(&key).and_then(Option::as_ref).map(|sides| sides[side].clone()))
    }

    /// End the line before the next one.
    fn begin_line(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn command(&mut self, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<Option<String>> {
        let number = frame.parts().command;
        if !self.commands.contains_key(&number) {
            let known = match self.look.commands.get_item(frames.command(tables, frame)?.name.text.bind(self.py))? {
                Some(shown) => Some(shown.cast_into::<PyTuple>()?.get_item(0)?.extract()?),
                None => None,
            };
            self.commands.insert(number, known);
        }
        Ok(self.commands.get(&number).and_then(Clone::clone))
    }

    /// Return the short name of a topic with the gap behind it, "" for none; None if it is too long.
    fn topic(&mut self, batch: usize, frames: &Frames, number: u32) -> PyResult<Option<String>> {
        let Some(text) = number.checked_sub(1).and_then(|place| frames.texts.get(place as usize)) else { return Ok(Some(String::new())) };
        if let Some(known) = self.topics.get(&(batch, number)) {
            return Ok(known.clone());
        }
        let topic = text.text.bind(self.py);
        let short = if topic.len()? > NAME_MAX { None } else { Some(self.look.short_topic.call1((topic,))?.extract::<String>()? + GAP) };
        self.topics.insert((batch, number), short.clone());
        Ok(short)
    }

    /// Return the summary of a frame, as `protocols/pulsar/text/summary.py` has it; None if Python must write it.
    fn summary(&mut self, batch: usize, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<Option<String>> {
        let command = frames.command(tables, frame)?;
        if command.kind == CommandKind::Other {
            let Look { summary, summaries, .. } = &mut *self.look;
            return Ok(summaries.of(self.py, frames, frame, summary)?.map(str::to_owned));
        }
        let Some(topic) = self.topic(batch, frames, frame.named.topic)? else { return Ok(None) };
        let subscription = match frame.named.subscription.checked_sub(1).and_then(|place| frames.texts.get(place as usize)) {
            None => String::new(),
            Some(text) => {
                let name: String = text.text.bind(self.py).extract()?;
                if name.len() > NAME_MAX {
                    return Ok(None);
                }
                format!("sub {name}{GAP}")
            }
        };
        let Some(fields) = SummaryFields::of(tables, frames.slice(self.py, frame, frame.parts().fields), command.plan) else {
            return Ok(None);
        };
        let id = frame.parts().numbers.id;
        let payload = match frame.parts().metadata {
            Some(range) => match payload(tables, frames.slice(self.py, frame, range), frame) {
                Some(text) => text,
                None => return Ok(None),
            },
            None => String::new(),
        };
        let text = match command.kind {
            CommandKind::Send => {
                let sequence = frame.parts().numbers.sequence;
                match fields.highest {
                    Some(highest) if highest != 0 && highest != sequence => {
                        format!("{topic}seq {sequence}-{highest}{GAP}{payload}producer {id}")
                    }
                    _ => format!("{topic}seq {sequence}{GAP}{payload}producer {id}"),
                }
            }
            CommandKind::Receipt => {
                let stored = match fields.ids.first() {
                    Some(text) if text == "earliest" => format!("dropped as a duplicate{GAP}"),
                    Some(text) => format!("id {text}{GAP}"),
                    None => String::new(),
                };
                format!("{topic}{stored}seq {}{GAP}producer {id}", frame.parts().numbers.sequence)
            }
            CommandKind::Message => {
                let (Some(text), false) = (fields.ids.first(), frame.parts().numbers.ack_set) else { return Ok(None) };
                let again =
                    fields.redeliveries.filter(|count| *count != 0).map_or(String::new(), |count| format!("redelivery {count}{GAP}"));
                format!("{topic}id {text}{GAP}{payload}{again}{subscription}consumer {id}")
            }
            CommandKind::Ack => {
                let (Some(how), false, 1) = (fields.acknowledges, frame.parts().numbers.ack_set, fields.ids.len()) else { return Ok(None) };
                format!("{topic}{how}{}{GAP}{subscription}consumer {id}", fields.ids[0])
            }
            CommandKind::Flow => match fields.permits {
                Some(permits) if frame.named.topic > 0 => {
                    format!("{topic}{} permits{GAP}{subscription}consumer {id}", thousands(permits))
                }
                _ => return Ok(None),
            },
            CommandKind::Other => return Ok(None),
        };
        Ok(Some(text).filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte))))
    }
}

/// Fields that the summary of a command shows, beside those in `Numbers`.
#[derive(Default)]
struct SummaryFields {
    highest: Option<i64>,
    redeliveries: Option<i64>,
    permits: Option<i64>,
    /// Words before the id of an ACK.
    acknowledges: Option<&'static str>,
    ids: Vec<String>,
}

impl SummaryFields {
    /// Return None for what only Python has words for.
    fn of(tables: &Tables, data: &[u8], plan: usize) -> Option<Self> {
        let mut fields = SummaryFields::default();
        let mut plain = true;
        tables.visit(data, plan, |role, value| match (role, value) {
            (Role::HighestSequenceId, Value::Number(number)) => fields.highest = Some(number),
            (Role::RedeliveryCount, Value::Number(number)) => fields.redeliveries = Some(number),
            (Role::Permits, Value::Number(number)) => fields.permits = Some(number),
            (Role::AckType, Value::Name(b"\"Individual\"")) => fields.acknowledges = Some(""),
            (Role::AckType, Value::Name(b"\"Cumulative\"")) => fields.acknowledges = Some("up to "),
            (Role::MessageId, Value::Message(data, plan)) => match message_id(tables, data, plan) {
                Some(text) => fields.ids.push(text),
                None => plain = false,
            },
            (Role::RequestId | Role::Error, _) => plain = false,
            _ => {}
        })?;
        plain.then_some(fields)
    }
}

/// Return a message id, as `formatting.message_id_text` has it.
fn message_id(tables: &Tables, data: &[u8], plan: usize) -> Option<String> {
    let (mut ledger, mut entry, mut index) = (None, None, -1);
    tables.visit(data, plan, |role, value| match (role, value) {
        (Role::LedgerId, Value::Number(number)) => ledger = Some(number),
        (Role::EntryId, Value::Number(number)) => entry = Some(number),
        (Role::BatchIndex, Value::Number(number)) => index = number,
        _ => {}
    })?;
    Some(match (ledger?, entry?) {
        (-1, -1) => "earliest".to_owned(),
        (LATEST, LATEST) => "latest".to_owned(),
        (ledger, entry) if index == -1 => format!("{ledger}:{entry}"),
        (ledger, entry) => format!("{ledger}:{entry}:{index}"),
    })
}

/// Return the phrases about a payload.
fn payload(tables: &Tables, metadata: &[u8], frame: &Frame) -> Option<String> {
    let mut compression = None;
    tables.visit(metadata, tables.metadata, |role, value| {
        if let (Role::Compression, Value::Name(name)) = (role, value) {
            compression = Some(name);
        }
    })?;
    let batch = match frame.named.messages {
        None | Some(1) => String::new(),
        Some(count) => format!("batch of {}{GAP}", thousands(count)),
    };
    let size = thousands(i64::from(frame.size() - frame.parts().payload_at));
    let codec = match compression {
        None | Some(b"\"NONE\"") => "",
        Some(name) => std::str::from_utf8(name).ok()?.trim_matches('"'),
    };
    let space = if codec.is_empty() { "" } else { " " };
    Some(format!("{batch}{size} B{space}{codec}{GAP}"))
}

/// Return a number with thousands separators.
pub fn thousands(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Append a duration below `MINUTES` with three significant digits, as `clock.duration_text` does.
fn duration(nanoseconds: i64, micro: &str, out: &mut String) {
    if nanoseconds < 1_000 {
        let _ = write!(out, "{nanoseconds} ns");
        return;
    }
    let (value, unit, micro) = if nanoseconds < 999_500 {
        (nanoseconds as f64 / 1e3, "s", micro)
    } else if nanoseconds < 999_500_000 {
        (nanoseconds as f64 / 1e6, "ms", "")
    } else {
        (nanoseconds as f64 / 1e9, "s", "")
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    let _ = write!(out, "{value:.digits$} {micro}{unit}");
}
