//! Lines of messages as text, as written by `output/render/messages.py` to a file: those without escapes.

use std::fmt::Write;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::caught;
use crate::encoding::payload_text::characters;
use crate::messages::kept_messages::{Batch, Message, Single};
use crate::messages::MessageColumn;
use crate::output::line_parts::{push_place, push_thousands, Seconds};

const GAP: &str = "  ";
/// Column that lines do not show: that of the broker's metadata.
const NOT_SHOWN: &str = "index";

/// Values that the messages of an entry share: file, packet, sub, time, ledger and entry.
type Shared = (i64, i64, i64, i64, Option<i64>, Option<i64>);

/// Parts of all lines: before the name, between time and id, in place of an absent id, and after the size.
type Marks = (String, String, String, String);

/// For lines of payloads: function that escapes text that is not ASCII, maximum number of characters, and the mark of truncation.
type Preview<'py> = (Bound<'py, PyAny>, usize, String);

/// Return the lines of the messages of an entry, and the widths of the columns of times and of names after them; None if Python must write
/// them. `columns`: those in which the messages differ; `seconds`: of times; `widths`: of times and of names; `several`:
/// whether there are several files; `preview`: see `Preview`.
#[pyfunction]
pub fn message_text(
    columns: &Bound<'_, PyDict>,
    shared: Shared,
    marks: Marks,
    seconds: Seconds<'_>,
    widths: (usize, usize),
    several: bool,
    preview: Preview<'_>,
) -> PyResult<Option<(String, (usize, usize))>> {
    caught(|| {
        let Some(batch) = batch_of(columns) else { return Ok(None) };
        let mut lines = Lines { batch: &batch, shared, marks, seconds, widths, several, preview, text: String::new() };
        for (index, message) in batch.messages.iter().enumerate() {
            let time = batch.singles.get(index).map_or(lines.shared.3, |single| single.time);
            let Some(rest) = lines.seconds.rest(time)? else { return Ok(None) };
            if lines.append(index, message, rest).is_none() {
                return Ok(None);
            }
            if let Some(payload) = message.payload {
                lines.append_payload(batch.text(payload))?;
            }
        }
        Ok(Some((lines.text, lines.widths)))
    })
}

/// Return the batch that all displayed columns belong to.
fn batch_of(columns: &Bound<'_, PyDict>) -> Option<Arc<Batch>> {
    let mut found: Option<Arc<Batch>> = None;
    for (name, column) in columns {
        if name.cast_into::<PyString>().ok()?.to_str().ok()? == NOT_SHOWN {
            continue;
        }
        let column = column.cast_into::<MessageColumn>().ok()?;
        let batch = &column.get().batch;
        match &found {
            Some(known) if !Arc::ptr_eq(known, batch) => return None,
            _ => found = Some(batch.clone()),
        }
    }
    found
}

struct Lines<'a, 'py> {
    batch: &'a Batch,
    shared: Shared,
    marks: Marks,
    seconds: Seconds<'py>,
    widths: (usize, usize),
    several: bool,
    preview: Preview<'py>,
    text: String,
}

impl Lines<'_, '_> {
    /// Append the line of a message, `rest` nanoseconds after the latest second; None if Python must write it.
    fn append(&mut self, index: usize, message: &Message, rest: i64) -> Option<()> {
        let (file, packet, sub, _, ledger, entry) = match self.batch.singles.get(index) {
            Some(Single { packet, sub, time, ledger, entry, .. }) => (self.shared.0, *packet, i64::from(*sub), *time, *ledger, *entry),
            None => self.shared,
        };
        let (before, middle, unnamed, behind) = &self.marks;
        let text = &mut self.text;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(before);
        push_place(self.several.then_some(file), (packet, sub), (&self.seconds, rest), &mut self.widths, text);
        text.push_str(middle);
        match (ledger, entry) {
            (Some(ledger), Some(entry)) if self.batch.singles.is_empty() => write!(text, "{ledger}:{entry}:{index}").ok()?,
            (Some(ledger), Some(entry)) => write!(text, "{ledger}:{entry}").ok()?,
            _ => text.push_str(unnamed),
        }
        if let Some(key) = message.key {
            write!(text, "{GAP}key {}", printable(self.batch.text(key))?).ok()?;
        }
        if let Some(sequence) = message.sequence_id {
            write!(text, "{GAP}seq {sequence}").ok()?;
        }
        if message.null_value == Some(true) {
            write!(text, "{GAP}tombstone{behind}").ok()?;
        } else {
            text.push_str(GAP);
            push_thousands(i64::from(message.size), text);
            write!(text, " B{behind}").ok()?;
        }
        let pairs = self.batch.pairs.get(message.properties.0 as usize..message.properties.1 as usize)?;
        for (place, (name, value)) in pairs.iter().enumerate() {
            text.push_str(if place == 0 { "  {" } else { ", " });
            write!(text, "{}={}", printable(self.batch.text(*name))?, printable(self.batch.text(*value))?).ok()?;
        }
        if !pairs.is_empty() {
            text.push('}');
        }
        Some(())
    }

    /// Append the line of a payload, unless it is empty.
    fn append_payload(&mut self, payload: &str) -> PyResult<()> {
        if payload.is_empty() {
            return Ok(());
        }
        let (escape, most, mark) = &self.preview;
        let text = &mut self.text;
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', self.widths.1 + 1));
        let shown = payload.char_indices().nth(*most).map_or(payload, |(end, _)| &payload[..end]);
        if shown.is_ascii() {
            push_escaped(shown, text);
        } else {
            text.push_str(escape.call1((shown,))?.cast::<PyString>()?.to_str()?);
        }
        if shown.len() < payload.len() {
            text.push_str(mark);
            text.push_str(" (");
            push_thousands(characters(payload.as_bytes()) as i64, text);
            text.push_str(" characters)");
        }
        Ok(())
    }
}

/// Append an ASCII text, with controls as their numbers.
fn push_escaped(ascii: &str, out: &mut String) {
    for character in ascii.chars() {
        if (' '..='~').contains(&character) {
            out.push(character);
        } else {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        }
    }
}

/// Return a text; None if Python would escape a part of it.
fn printable(text: &str) -> Option<&str> {
    Some(text).filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
}
