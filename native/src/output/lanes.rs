//! Lines of lanes, as written by `output/render/lanes.py` to a file: those without escapes, warnings or a preceding pause.

use std::rc::Rc;

use pyo3::prelude::*;

use crate::encoding::number_keys::NumberMap;
use crate::frames::{Frame, Frames};
use crate::output::frame_summary::FrameSummaries;
use crate::output::line_parts::{push_all, push_duration, push_place, Seconds, GAP, MINUTES, SECOND};
use crate::output::summaries::Summaries;
use crate::schema::tables::Tables;

/// Minimum cells of an arrow between its text and its head.
const SHAFT_MIN: usize = 3;
/// Cells of an arrow in addition to its shaft and its text, plus the minimum shaft.
const ARROW: usize = 4 + SHAFT_MIN;
/// Cells next to a latency.
const BESIDE_LATENCY: usize = 3;
/// Cells of the mark of a correct checksum, including the space before it.
const GOOD: usize = 2;

/// Python functions that return: the texts around the arrows of a sender (`Side`), given connection and direction, or None if Python must
/// write them; a command in its colour, and its cells; a shortened topic; a summary. And the summaries made so far.
pub type Parts<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, PyRefMut<'py, Summaries>);

/// The slow latency, the time of the preceding frame, and the widths of times and of names.
pub type Numbers = (i64, i64, (usize, usize));

/// Start of a dim part, of a slow one, their end, character of shafts, the mark of a millionth, that of a correct checksum including the
/// space before it, and heads of arrows to the left and to the right.
type Marks = [String; 8];

/// Values that are the same in all lines: marks, the short name of the topic above the lines, numbers, and whether there are several files.
pub type Look = (Marks, Option<String>, Numbers, bool);

/// Texts around the arrows of one side of a connection: before the lifelines, before and after the arrow, start and end of its colour; the
/// cells available for it, and whether it points to the right.
type Side = (String, String, String, String, String, usize, bool);

/// Lines of the frames of some batches.
pub struct Lines<'py> {
    py: Python<'py>,
    side_of: Bound<'py, PyAny>,
    command_of: Bound<'py, PyAny>,
    summaries: FrameSummaries<'py>,
    look: Look,
    seconds: Seconds<'py>,
    /// Sides by batch and origin.
    sides: NumberMap<(usize, u32), Option<Rc<Side>>>,
    commands: NumberMap<u8, Rc<(String, usize)>>,
    summary: String,
    latency: String,
    shaft: String,
    pub text: String,
}

impl<'py> Lines<'py> {
    pub fn new(py: Python<'py>, parts: Parts<'py>, look: Look, seconds: Seconds<'py>) -> Self {
        let (side_of, command_of, short_topic, summary, made) = parts;
        let summaries = FrameSummaries::new(py, short_topic, summary, made);
        let (sides, commands) = Default::default();
        let (summary, latency, shaft, text) = Default::default();
        Lines { py, side_of, command_of, summaries, look, seconds, sides, commands, summary, latency, shaft, text }
    }

    /// Append the line of a frame; return false if Python must write it.
    pub fn append(&mut self, batch: usize, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<bool> {
        let (slow, before, widths) = self.look.2;
        let latency = frame.named.latency;
        let pauses = frame.time.checked_sub(before).is_none_or(|pause| pause >= SECOND);
        if frame.parts().numbers.rare || pauses || latency.is_some_and(|latency| latency >= MINUTES) {
            return Ok(false);
        }
        let Some(rest) = self.seconds.rest(frame.time)? else { return Ok(false) };
        let Some(side) = self.side(batch, frames, frame)? else { return Ok(false) };
        let (label, before, behind, color, uncolor, width, rightward) = &*side;
        let command = self.command(frames, tables, frame)?;
        let (command, command_width) = &*command;
        self.summary.clear();
        if !self.summaries.write(batch, frames, tables, frame, &mut self.summary)? {
            return Ok(false);
        }
        let [dim, warning, reset, rule, micro, good, head_left, head_right] = &self.look.0;
        let topic = self.look.1.as_deref().and_then(|topic| self.summary.strip_prefix(topic)?.strip_prefix(GAP));
        let summary = topic.unwrap_or(&self.summary);

        let start = self.text.len();
        let mut widened = widths;
        self.text.push_str(dim);
        let file = self.look.3.then(|| frames.file(frame));
        push_place(file, (frame.packet, i64::from(frame.sub())), (&self.seconds, rest), &mut widened, &mut self.text);
        if widened != widths {
            self.text.truncate(start);
            return Ok(false);
        }
        push_all(&[reset, label, GAP, before], &mut self.text);

        self.latency.clear();
        let mut taken = ARROW + command_width + if summary.is_empty() { 0 } else { GAP.len() + summary.len() };
        if let Some(nanoseconds) = latency {
            push_duration(nanoseconds, micro, &mut self.latency);
            taken += self.latency.chars().count() + BESIDE_LATENCY;
        }
        let has_good = frame.parts().payload_at > 0;
        taken += if has_good { GOOD } else { 0 };
        let shaft = (width.saturating_sub(taken) + SHAFT_MIN) * rule.len();
        while self.shaft.len() < shaft {
            self.shaft.push_str(rule);
        }
        let (shaft, latency_color) = (&self.shaft[..shaft], if latency.is_some_and(|latency| latency >= slow) { warning } else { dim });
        let has_latency = latency.is_some();
        let of_latency: [&str; 3] = [latency_color, &self.latency, reset];
        let of_shaft: [&str; 4] = [" ", color, shaft, uncolor];
        let text = &mut self.text;
        if *rightward {
            push_all(&[color, rule, uncolor], text);
        } else if has_latency {
            push_all(&[color, head_left, rule, uncolor, " "], text);
            push_all(&of_latency, text);
            push_all(&of_shaft, text);
        } else {
            push_all(&[color, head_left, uncolor], text);
            push_all(&of_shaft[1..], text);
        }
        push_all(&[" ", command], text);
        if !summary.is_empty() {
            push_all(&[GAP, summary], text);
        }
        if has_good {
            text.push_str(good);
        }
        if !rightward {
            push_all(&[" ", color, rule, uncolor], text);
        } else if has_latency {
            push_all(&of_shaft, text);
            text.push(' ');
            push_all(&of_latency, text);
            push_all(&[" ", color, rule, head_right, uncolor], text);
        } else {
            push_all(&of_shaft, text);
            push_all(&[color, head_right, uncolor], text);
        }
        push_all(&[behind, "\n"], text);
        self.look.2 .1 = frame.time;
        Ok(true)
    }

    fn side(&mut self, batch: usize, frames: &Frames, frame: &Frame) -> PyResult<Option<Rc<Side>>> {
        let key = (batch, frame.origin());
        if let Some(known) = self.sides.get(&key) {
            return Ok(known.clone());
        }
        let [_, _, connection, _, direction] = frames.names(frame);
        let side: Option<Side> = self.side_of.call1((connection.bind(self.py), direction.bind(self.py)))?.extract()?;
        let side = side.map(Rc::new);
        self.sides.insert(key, side.clone());
        Ok(side)
    }

    fn command(&mut self, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<Rc<(String, usize)>> {
        let number = frame.parts().command;
        if let Some(known) = self.commands.get(&number) {
            return Ok(known.clone());
        }
        let name = frames.command(tables, frame)?.name.text.bind(self.py);
        let command = Rc::new(self.command_of.call1((name,))?.extract()?);
        self.commands.insert(number, Rc::clone(&command));
        Ok(command)
    }
}
