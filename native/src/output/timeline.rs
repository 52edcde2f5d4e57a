//! Lines of the timeline, as written by `output/render/timeline.py` to a file: those without escapes or warnings.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::encoding::number_keys::NumberMap;
use crate::frames::{Frame, Frames};
use crate::output::frame_summary::FrameSummaries;
use crate::output::line_parts::{push_all, push_duration, push_name, push_place, Seconds, GAP, MINUTES};
use crate::output::summaries::Summaries;
use crate::schema::tables::Tables;

/// Python's contributions to `Look`: its `looks`, `commands`, `short_topic`, `summary`, `summaries` and `introduce`.
pub type Parts<'py> =
    (Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyAny>, Bound<'py, PyAny>, PyRefMut<'py, Summaries>, Option<Bound<'py, PyAny>>);

/// The state of the output: what its lines have in common.
pub struct Look<'py> {
    /// Parts of the lines of each connection, and texts of commands.
    pub looks: Bound<'py, PyDict>,
    pub commands: Bound<'py, PyDict>,
    /// Start of a dim part, of a slow one, their end, marks of an answer, of a millionth, and of a correct checksum.
    pub marks: [String; 6],
    pub slow: i64,
    pub seconds: Seconds<'py>,
    pub time_width: usize,
    pub name_width: usize,
    pub several: bool,
    pub summaries: FrameSummaries<'py>,
    /// Takes the row of a frame, makes the parts of the lines of its connection, and returns the lines before it; None if Python must write
    /// it.
    pub introduce: Option<Bound<'py, PyAny>>,
}

/// Lines of the frames of some batches.
pub struct Lines<'a, 'py> {
    py: Python<'py>,
    pub look: &'a mut Look<'py>,
    pub text: String,
    pub frames: usize,
    /// Number of messages of the client, and of the server.
    pub messages: [i64; 2],
    /// Arrows to the server and to the client, by batch and origin; None if Python must write them.
    arrows: NumberMap<(usize, u32), Option<[Rc<str>; 2]>>,
    commands: NumberMap<u8, Option<Rc<str>>>,
}

impl<'a, 'py> Lines<'a, 'py> {
    pub fn new(py: Python<'py>, look: &'a mut Look<'py>) -> Self {
        let (arrows, commands) = Default::default();
        Lines { py, look, text: String::new(), frames: 0, messages: [0, 0], arrows, commands }
    }

    /// Append the line of a frame; return false if Python must write it.
    pub fn append(&mut self, batch: usize, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<bool> {
        let named = &frame.named;
        if frame.parts().numbers.rare || named.latency.is_some_and(|latency| latency >= MINUTES) {
            return Ok(false);
        }
        let Some(rest) = self.look.seconds.rest(frame.time)? else { return Ok(false) };
        let is_client = frames.is_client(frame);
        let Some(arrow) = self.arrow(batch, frames, frame, usize::from(!is_client))? else { return Ok(false) };
        let Some(command) = self.command(frames, tables, frame)? else { return Ok(false) };
        let start = self.text.len();
        self.begin_line();
        let look = &mut *self.look;
        let [dim, slow, reset, answers, micro, good] = &look.marks;
        let mut widths = (look.time_width, look.name_width);
        let file = look.several.then(|| frames.file(frame));
        self.text.push_str(dim);
        push_place(file, (frame.packet, i64::from(frame.sub())), (&look.seconds, rest), &mut widths, &mut self.text);
        push_all(&[reset, " ", &arrow, " ", &command, " "], &mut self.text);
        if !look.summaries.write(batch, frames, tables, frame, &mut self.text)? {
            self.text.truncate(start);
            return Ok(false);
        }
        (look.time_width, look.name_width) = widths;
        if let (Some((file, packet, sub)), Some(latency)) = (named.request, named.latency) {
            self.text.push_str(if latency < look.slow { dim } else { slow });
            push_all(&[GAP, answers, " "], &mut self.text);
            push_name(look.several.then_some(file), (packet, sub), &mut self.text);
            self.text.push(' ');
            push_duration(latency, micro, &mut self.text);
            self.text.push_str(reset);
        }
        if frame.parts().payload_at > 0 {
            self.text.push_str(good);
        }
        if let Some(count) = named.messages.filter(|count| *count > 0) {
            self.messages[usize::from(!is_client)] += count;
        }
        self.frames += 1;
        Ok(true)
    }

    fn arrow(&mut self, batch: usize, frames: &Frames, frame: &Frame, side: usize) -> PyResult<Option<Rc<str>>> {
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
                    let same = look.get_item(2)?.is(&self.look.summaries.summary);
                    if same {
                        Some([text_at(&look, 0)?, text_at(&look, 1)?])
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

    /// End the preceding line.
    fn begin_line(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn command(&mut self, frames: &Frames, tables: &Tables, frame: &Frame) -> PyResult<Option<Rc<str>>> {
        let number = frame.parts().command;
        if !self.commands.contains_key(&number) {
            let known = match self.look.commands.get_item(frames.command(tables, frame)?.name.text.bind(self.py))? {
                Some(shown) => Some(text_at(&shown.cast_into::<PyTuple>()?, 0)?),
                None => None,
            };
            self.commands.insert(number, known);
        }
        Ok(self.commands.get(&number).and_then(Clone::clone))
    }
}

fn text_at(texts: &Bound<'_, PyTuple>, place: usize) -> PyResult<Rc<str>> {
    Ok(Rc::from(texts.get_item(place)?.extract::<&str>()?))
}
