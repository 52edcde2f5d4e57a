//! Frames of a followed connection or topic, with their requests and answers, as selected by `filter/follow.py`.

use std::collections::{BTreeMap, HashMap, VecDeque};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyType};

use crate::caught;
use crate::encoding::number_keys::{NumberMap, NumberSet};
use crate::frames::row_order::{Of, OrderedRows};
use crate::frames::{Entry, Frame, Frames};
use crate::schema::tables::CommandKind;

/// Name of a frame: file, packet and sub.
type Name = (i64, i64, i64);

/// Selects frames of a subject, with their requests and answers.
#[pyclass(module = "pulsarscope_native")]
pub struct Followed {
    passed: Latest,
    unanswered: Unanswered,
}

#[pymethods]
impl Followed {
    /// `passed_max`: number of names kept of frames that passed; `unanswered_max`: number of kept frames that did not pass.
    #[new]
    fn new(passed_max: usize, unanswered_max: usize) -> Self {
        let (numbers, frames) = Default::default();
        Followed { passed: Latest::new(passed_max), unanswered: Unanswered { numbers, frames, next: 0, most: unanswered_max } }
    }

    /// Return the places of the frames that pass, those earlier rows that pass now, and the number of all frames.
    ///
    /// `connections`: a connection is followed, not a topic; `frame_type`: type of frame rows; `test`: takes the row of a frame, and
    /// returns whether it belongs to the subject, and a value that changes when earlier answers no longer hold.
    fn select(
        &mut self,
        py: Python<'_>,
        ordered: PyRef<'_, OrderedRows>,
        connections: bool,
        frame_type: &Bound<'_, PyType>,
        test: Bound<'_, PyAny>,
    ) -> PyResult<(Vec<usize>, Vec<Py<PyAny>>, usize)> {
        caught(|| {
            let batches = ordered.borrowed(py)?;
            let mut answers = Answers { py, test, connections, epoch: None, of_groups: NumberMap::default(), of_topics: HashMap::new() };
            let (earlier, others, selected) = (Vec::new(), Others::default(), vec![false; ordered.order.len()]);
            let mut part = Part { passed: &mut self.passed, unanswered: &mut self.unanswered, selected, earlier, others, seen: 0 };
            for (place, (_, of)) in ordered.order.iter().enumerate() {
                match of {
                    Of::Frame(batch, index) => {
                        let frames: &Frames = &batches[*batch as usize];
                        let Entry::Frame(frame) = &frames.entries[*index as usize] else { continue };
                        let passes = answers.of_frame(*batch, frames, frame)?;
                        let name = (frames.file(frame), frame.packet, i64::from(frame.sub()));
                        part.take(place, name, frame.named.request, passes, may_be_answered(frames, frame)?);
                    }
                    Of::Row(index) => {
                        let row = ordered.rows[*index as usize].bind(py);
                        if row.is_instance(frame_type)? {
                            let (name, request) = names_of(row)?;
                            part.take(place, name, request, answers.ask(row)?, true);
                        }
                    }
                    Of::Messages(..) => {}
                }
            }
            let Part { selected, earlier, others, seen, .. } = part;
            let left: Vec<_> = others.frames.into_iter().flatten().filter(|(_, place)| place.is_none_or(|at| !selected[at])).collect();
            let begin = left.len().saturating_sub(self.unanswered.most);
            for (name, place) in &left[begin..] {
                let row = place.map(|place| ordered.row(py, place)).transpose()?.map(Bound::unbind);
                self.unanswered.remember(*name, row);
            }
            self.unanswered.drop_oldest();
            let places = selected.iter().enumerate().filter_map(|(place, passes)| passes.then_some(place)).collect();
            Ok((places, earlier, seen))
        })
    }
}

/// Return the names of the frame of a row and of its request.
fn names_of(row: &Bound<'_, PyAny>) -> PyResult<(Name, Option<Name>)> {
    let py = row.py();
    let number = |name| row.getattr(name)?.extract::<Option<i64>>().map(|number| number.unwrap_or(-1));
    let name = (number(intern!(py, "file"))?, number(intern!(py, "packet"))?, number(intern!(py, "sub"))?);
    let request: Option<String> = row.getattr(intern!(py, "request"))?.extract()?;
    Ok((name, request.and_then(|text| named(&text))))
}

/// Return the name of a frame from its text; None if no frame can have it.
fn named(text: &str) -> Option<Name> {
    let (file, rest) = text.split_once(':')?;
    let (packet, sub) = rest.split_once('.')?;
    Some((file.parse().ok()?, packet.parse().ok()?, sub.parse().ok()?))
}

/// Return whether an answer may name a frame as its request.
fn may_be_answered(frames: &Frames, frame: &Frame) -> PyResult<bool> {
    let reader = frames.reader.get();
    Ok(match frames.command(&reader.tables, frame)?.kind {
        CommandKind::Send | CommandKind::Other => true,
        CommandKind::Ack => frame.parts().numbers.has_request,
        CommandKind::Receipt | CommandKind::Message | CommandKind::Flow => false,
    })
}

/// Known answers on whether frames belong to the subject: the same for all frames of a connection, or with a topic.
struct Answers<'py> {
    py: Python<'py>,
    test: Bound<'py, PyAny>,
    connections: bool,
    epoch: Option<bool>,
    of_groups: NumberMap<(u32, usize), bool>,
    of_topics: HashMap<Option<String>, bool>,
}

impl<'py> Answers<'py> {
    fn of_frame(&mut self, batch: u32, frames: &Frames, frame: &Frame) -> PyResult<bool> {
        let topic = frame.named.topic;
        let group = (batch, if self.connections { frames.connection(frame) } else { topic as usize });
        if let Some(passes) = self.of_groups.get(&group) {
            return Ok(*passes);
        }
        let text: Option<String> = match frames.known(self.py, topic) {
            Some(text) if !self.connections => Some(text.extract()?),
            _ => None,
        };
        let known = if self.connections { None } else { self.of_topics.get(&text).copied() };
        let passes = match known {
            Some(passes) => passes,
            None => {
                let passes = self.ask(&frames.named_row(self.py, frame)?)?;
                self.of_topics.insert(text, passes);
                passes
            }
        };
        self.of_groups.insert(group, passes);
        Ok(passes)
    }

    fn ask(&mut self, row: &Bound<'py, PyAny>) -> PyResult<bool> {
        let (passes, epoch): (bool, bool) = self.test.call1((row,))?.extract()?;
        if self.epoch.replace(epoch).is_some_and(|before| before != epoch) {
            self.of_groups.clear();
            self.of_topics.clear();
        }
        Ok(passes)
    }
}

/// The selection from some rows.
struct Part<'a> {
    passed: &'a mut Latest,
    unanswered: &'a mut Unanswered,
    /// Whether the row at each place is selected.
    selected: Vec<bool>,
    earlier: Vec<Py<PyAny>>,
    others: Others,
    seen: usize,
}

impl Part<'_> {
    fn take(&mut self, place: usize, name: Name, request: Option<Name>, passes: bool, answerable: bool) {
        self.seen += 1;
        if passes || request.is_some_and(|request| self.passed.has(&request)) {
            self.selected[place] = true;
            self.passed.add(name);
            let Some(request) = request.filter(|request| !self.passed.has(request)) else { return };
            self.passed.add(request);
            if let Some(asked) = self.others.get(&request) {
                self.selected[asked] = true;
            } else if let Some(frame) = self.unanswered.pop(&request) {
                self.earlier.push(frame);
            }
        } else if let Some(request) = request {
            if self.others.pop(&request).is_none() {
                self.unanswered.pop(&request);
            }
        } else {
            self.others.set(name, answerable.then_some(place));
        }
    }
}

/// Frames of a part that have not passed, in order, with the places of those that may be answered.
#[derive(Default)]
struct Others {
    numbers: NumberMap<Name, usize>,
    frames: Vec<Option<(Name, Option<usize>)>>,
}

impl Others {
    fn set(&mut self, name: Name, place: Option<usize>) {
        let number = *self.numbers.entry(name).or_insert(self.frames.len());
        if number == self.frames.len() {
            self.frames.push(None);
        }
        self.frames[number] = Some((name, place));
    }

    fn get(&self, name: &Name) -> Option<usize> {
        self.numbers.get(name).and_then(|number| self.frames[*number]?.1)
    }

    fn pop(&mut self, name: &Name) -> Option<usize> {
        self.numbers.remove(name).and_then(|number| self.frames[number].take()?.1)
    }
}

/// The latest names, bounded like a Python dict with `bounded_tables.drop_oldest`.
struct Latest {
    names: NumberSet<Name>,
    order: VecDeque<Name>,
    most: usize,
}

impl Latest {
    fn new(most: usize) -> Self {
        Latest { names: NumberSet::default(), order: VecDeque::new(), most }
    }

    fn has(&self, name: &Name) -> bool {
        self.names.contains(name)
    }

    fn add(&mut self, name: Name) {
        if !self.names.insert(name) {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > self.most {
            for oldest in self.order.drain(..self.order.len() - self.most + self.most / 8) {
                self.names.remove(&oldest);
            }
        }
    }
}

/// Frames of earlier parts that did not pass, with the rows of those that may be answered.
struct Unanswered {
    numbers: NumberMap<Name, u64>,
    frames: BTreeMap<u64, (Name, Option<Py<PyAny>>)>,
    next: u64,
    most: usize,
}

impl Unanswered {
    fn remember(&mut self, name: Name, row: Option<Py<PyAny>>) {
        let number = *self.numbers.entry(name).or_insert(self.next);
        self.next += u64::from(number == self.next);
        self.frames.insert(number, (name, row));
    }

    fn drop_oldest(&mut self) {
        while self.frames.len() > self.most {
            if let Some((_, (name, _))) = self.frames.pop_first() {
                self.numbers.remove(&name);
            }
        }
    }

    fn pop(&mut self, name: &Name) -> Option<Py<PyAny>> {
        self.frames.remove(&self.numbers.remove(name)?)?.1
    }
}
