//! Rows of several connections in the order of their moments, some of them in columns.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet, PyTuple, PyType};

use crate::analysis::counts::{Counted, Counts};
use crate::analysis::mask::{Mask, Matcher};
use crate::caught;
use crate::encoding::json::Times;
use crate::encoding::kept_bytes;
use crate::frames::places::FramePlaces;
use crate::frames::row_order::{Of, OrderedRows};
use crate::frames::{Entry, Frames};
use crate::output::chosen_columns::JsonColumns;
use crate::output::csv::CsvLines;
use crate::output::frame_summary::FrameSummaries;
use crate::output::lanes;
use crate::output::line_parts::Seconds;
use crate::output::message_lines::{LineForms, MessageLines};
use crate::output::timeline::{Lines, Look, Parts};
use crate::rules::by_connection::by_connection;

/// Bytes of lines from which they are handed over, before more are made.
const PART_BYTES: usize = 256 << 10;

#[pymethods]
impl OrderedRows {
    #[new]
    fn new(exchanges: bool) -> Self {
        OrderedRows { exchanges, ..OrderedRows::default() }
    }

    fn __len__(&self) -> usize {
        self.order.len()
    }

    /// Append Python rows of a connection.
    fn extend(&mut self, name: &str, rows: Vec<Py<PyAny>>, order: i64) {
        let connection = self.names.number(name);
        for row in rows {
            self.push(row, order, connection);
        }
    }

    /// Append Python rows of a connection, each with its order.
    fn extend_each(&mut self, name: &str, rows: Vec<Py<PyAny>>, orders: Vec<i64>) {
        let connection = self.names.number(name);
        for (row, order) in rows.into_iter().zip(orders) {
            self.push(row, order, connection);
        }
    }

    /// Append frames that the session has seen, of one connection, or of several if the name is empty. Their order is that of
    /// `engine.ordering.orders_of`: `file` and moment, at most `order`.
    fn add(&mut self, py: Python<'_>, name: &str, frames: Py<Frames>, file: i64, order: i64) -> PyResult<()> {
        let batch = self.batches.len() as u32;
        let connection = self.names.number(name);
        let mut anchors = std::mem::take(&mut frames.borrow_mut(py).anchors).into_iter().peekable(); // the frames may be here for longer
        let borrowed = frames.borrow(py);
        let mut behind = borrowed.opened.behind.iter().enumerate().peekable();
        let mut of_frames = Vec::new();
        let mut latest = None;
        for (index, entry) in borrowed.entries.iter().enumerate() {
            let at = (file | entry.moment()).min(order);
            match entry {
                Entry::Frame(frame) if name.is_empty() => {
                    let number = match latest {
                        Some((address, number)) if address == borrowed.connection(frame) => number,
                        _ => self.names.number(borrowed.names(frame)[2].extract(py)?),
                    };
                    latest = Some((borrowed.connection(frame), number));
                    of_frames.push(number);
                    self.order.push((at, Of::Frame(batch, index as u32)));
                    while let Some((_, row)) = anchors.next_if(|(place, _)| *place == index) {
                        self.push(row, at, number);
                    }
                }
                Entry::Frame(_) => self.order.push((at, Of::Frame(batch, index as u32))),
                Entry::Rows(rows) => {
                    for row in &rows.rows {
                        self.push(row.clone_ref(py), at, connection);
                    }
                }
            }
            while behind.next_if(|(_, behind)| behind.place == index as u32).is_some_and(|(number, _)| {
                self.order.push((at, Of::Messages(batch, number as u32)));
                true
            }) {}
        }
        drop(behind);
        drop(borrowed);
        if name.is_empty() {
            self.of_frames.insert(batch, Arc::new(of_frames));
        }
        self.batches.push(frames);
        self.of_batches.push(connection);
        Ok(())
    }

    /// Put the rows in order.
    fn sort(&mut self) {
        self.order.sort_by_key(|(order, _)| *order);
    }

    /// Return the rows in parts of about `size`, in order.
    fn parts(&self, py: Python<'_>, size: usize) -> PyResult<Vec<OrderedRows>> {
        let stops = self.stops(&self.borrowed(py)?, size);
        let starts = [0].into_iter().chain(stops.iter().copied());
        Ok(starts.zip(&stops).map(|(start, stop)| self.part(py, &self.order[start..*stop], self.exchanges, |_| true)).collect())
    }

    /// Return the rows without Python rows of some types, and without those of frames in columns, or of the exchanges that these end, unless
    /// they are requested.
    fn without(&self, py: Python<'_>, types: Vec<Bound<'_, PyType>>, frames: bool, exchanges: bool) -> PyResult<OrderedRows> {
        let exchanges = self.exchanges && exchanges;
        let kept = |row: &Py<PyAny>| !types.iter().any(|made| row.bind(py).get_type().is(made));
        if frames {
            return Ok(self.part(py, &self.order, exchanges, kept));
        }
        let batches = self.borrowed(py)?;
        let ends_exchange = |place| self.frame(&batches, place).is_some_and(|(_, frame)| exchanges && frame.ends_exchange());
        let is_asked = |(place, (_, of)): &(usize, &(i64, Of))| !matches!(of, Of::Frame(..)) || ends_exchange(*place);
        let order: Vec<_> = self.order.iter().enumerate().filter(is_asked).map(|(_, placed)| *placed).collect();
        Ok(OrderedRows { frameless: true, ..self.part(py, &order, exchanges, kept) })
    }

    /// Return the same rows with only frames in columns, so that each place is one row. `entries`: the type that stands for the messages of
    /// an entry.
    fn opened(&self, py: Python<'_>, entries: &Bound<'_, PyType>) -> PyResult<OrderedRows> {
        caught(|| {
            let batches = self.borrowed(py)?;
            let mut opened = self.part(py, &[], false, |_| true);
            for (at, of) in &self.order {
                let connection = self.connection_of(*of);
                match of {
                    Of::Frame(batch, index) => {
                        if !self.frameless {
                            opened.order.push((*at, *of));
                        }
                        let frames = &batches[*batch as usize];
                        if let (true, Entry::Frame(frame)) = (self.exchanges, &frames.entries[*index as usize]) {
                            if let Some(row) = frames.exchange(py, frame)? {
                                opened.push(row.unbind(), *at, connection);
                            }
                        }
                    }
                    Of::Messages(batch, number) => {
                        let messages = &batches[*batch as usize].opened;
                        for row in messages.rows(py, &messages.behind[*number as usize])? {
                            opened.push(row.unbind(), *at, connection);
                        }
                    }
                    Of::Row(index) => {
                        let row = &self.rows[*index as usize];
                        if !row.bind(py).get_type().is(entries) {
                            opened.push(row.clone_ref(py), *at, connection);
                            continue;
                        }
                        for message in row.bind(py).call_method0(intern!(py, "rows"))?.try_iter()? {
                            opened.push(message?.unbind(), *at, connection);
                        }
                    }
                }
            }
            Ok(opened)
        })
    }

    /// Return the places of the frames in columns that a filter passes (`mask::Mask`), and the number of all of them.
    fn matching<'py>(&self, py: Python<'py>, mask: &Bound<'py, PyTuple>) -> PyResult<(Vec<usize>, usize)> {
        caught(|| {
            let mut tests = 0;
            let mask = Mask::of(mask, &mut tests)?;
            let batches = self.borrowed(py)?;
            let mut matcher = Matcher::new(py, &mask, tests);
            let (mut places, mut seen) = (Vec::new(), 0);
            for (place, (_, of)) in self.order.iter().enumerate() {
                let Of::Frame(batch, index) = of else { continue };
                let frames: &Frames = &batches[*batch as usize];
                if let Entry::Frame(frame) = &frames.entries[*index as usize] {
                    seen += 1;
                    if matcher.holds(*batch, frames, frame)? {
                        places.push(place);
                    }
                }
            }
            Ok((places, seen))
        })
    }

    /// Return the rows at some places, in this order, after Python rows.
    #[pyo3(signature = (places, before=Vec::new()))]
    fn chosen(&self, py: Python<'_>, places: Vec<usize>, before: Vec<Py<PyAny>>) -> PyResult<OrderedRows> {
        let at = |place: usize| self.order.get(place).copied().ok_or_else(|| PyIndexError::new_err("no such row"));
        let order = places.into_iter().map(at).collect::<PyResult<Vec<_>>>()?;
        let mut chosen = self.part(py, &[], self.exchanges, |_| true);
        chosen.extend("", before, 0);
        self.append_to(py, &mut chosen, &order, |_| true);
        Ok(chosen)
    }

    /// Return these rows, followed by Python rows.
    fn followed_by(&self, py: Python<'_>, rows: Vec<Py<PyAny>>) -> OrderedRows {
        let mut joined = self.part(py, &self.order, self.exchanges, |_| true);
        joined.extend("", rows, i64::MAX);
        joined
    }

    /// Return the names of the frames in columns at some places: file, packet and sub.
    fn names_at<'py>(&self, py: Python<'py>, places: Vec<usize>) -> PyResult<Bound<'py, PySet>> {
        let batches = self.borrowed(py)?;
        let names = PySet::empty(py)?;
        for (frames, frame) in places.into_iter().filter_map(|place| self.frame(&batches, place)) {
            names.add((frames.file(frame), frame.packet, frame.sub()))?;
        }
        Ok(names)
    }

    /// Return the Python rows in order, each with its place.
    fn placed<'py>(&self, py: Python<'py>) -> Vec<(usize, Bound<'py, PyAny>)> {
        let placed = |(place, (_, of)): (usize, &(i64, Of))| match of {
            Of::Row(index) => Some((place, self.rows[*index as usize].bind(py).clone())),
            Of::Frame(..) | Of::Messages(..) => None,
        };
        self.order.iter().enumerate().filter_map(placed).collect()
    }

    /// Return the rows of each connection, in the order in which connections begin here: rows with their positions, and in between
    /// stretches of at least `least` frames (`stretches::Stretch`).
    fn stretches<'py>(&self, py: Python<'py>, least: usize) -> PyResult<Vec<(&str, Bound<'py, PyList>)>> {
        caught(|| by_connection(py, self, least))
    }

    /// Return the places of the frames in columns, by stream; see `places::FramePlaces`.
    fn frame_places<'py>(&self, py: Python<'py>, sub_bits: u32) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        caught(|| {
            let batches = self.borrowed(py)?;
            let mut numbers: HashMap<(u32, usize, bool), usize> = HashMap::new();
            let mut streams: Vec<FramePlaces> = Vec::new();
            for (_, of) in &self.order {
                let Of::Frame(batch, index) = of else { continue };
                let frames: &Frames = &batches[*batch as usize];
                if let Entry::Frame(frame) = &frames.entries[*index as usize] {
                    let key = (*batch, frames.connection(frame), frames.is_client(frame));
                    let number = *numbers.entry(key).or_insert(streams.len());
                    if number == streams.len() {
                        streams.push(FramePlaces::of(py, frames, frame));
                    }
                    streams[number].add(py, frames, frame, sub_bits)?;
                }
            }
            streams.iter().map(|places| places.columns(py)).collect()
        })
    }

    /// Return the Python rows in order.
    fn others<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let row = |(_, of): &(i64, Of)| match of {
            Of::Row(index) => Some(self.rows[*index as usize].bind(py)),
            Of::Frame(..) | Of::Messages(..) => None,
        };
        PyList::new(py, self.order.iter().filter_map(row).collect::<Vec<_>>())
    }

    /// Return all rows in order.
    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.rows_of(py, &self.order)
    }

    /// Return the key of each row, in the order of `all`, or without `exchanges` of each place: its order, and the number of its
    /// connection, 64 bits each.
    fn keys<'py>(&self, py: Python<'py>, numbers: &Bound<'py, PyDict>, exchanges: bool) -> PyResult<Bound<'py, PyBytes>> {
        let batches = self.borrowed(py)?;
        let of_names = |name: &String| numbers.get_item(name)?.map_or(Ok(0), |number| number.extract::<i64>());
        let numbers = self.names.names.iter().map(of_names).collect::<PyResult<Vec<_>>>()?;
        let mut keys = Vec::with_capacity(16 * self.order.len());
        for (order, of) in &self.order {
            let key = [*order, numbers[self.connection_of(*of) as usize]].map(i64::to_ne_bytes);
            keys.extend_from_slice(key.as_flattened());
            let Of::Frame(batch, index) = of else { continue };
            if let Entry::Frame(frame) = &batches[*batch as usize].entries[*index as usize] {
                if exchanges && self.exchanges && frame.ends_exchange() {
                    keys.extend_from_slice(key.as_flattened());
                }
            }
        }
        Ok(PyBytes::new(py, &keys))
    }

    /// Return the names of the connections with frames in columns.
    fn connections<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        let batches = self.borrowed(py)?;
        let names = PySet::empty(py)?;
        let mut latest = None;
        for (_, of) in &self.order {
            let Of::Frame(batch, index) = of else { continue };
            let frames = &batches[*batch as usize];
            let Entry::Frame(frame) = &frames.entries[*index as usize] else { continue };
            let connection = Some((*batch, frames.connection(frame)));
            if latest != connection {
                latest = connection;
                names.add(&frames.names(frame)[2])?;
            }
        }
        Ok(names)
    }

    /// Return the Python rows, each with its place, and the counts of the frames in columns, with the `slowest` exchanges of each request.
    fn counted<'py>(&self, py: Python<'py>, octave_bits: u32, slowest: usize) -> PyResult<(Vec<Placed<'py>>, Counted)> {
        caught(|| {
            let batches = self.borrowed(py)?;
            let mut counts = Counts::new(py, octave_bits, slowest);
            for place in 0..self.order.len() {
                if let (_, Of::Frame(batch, index)) = self.order[place] {
                    let frames = &batches[batch as usize];
                    if let Entry::Frame(frame) = &frames.entries[index as usize] {
                        counts.add(place, batch, frames, frame)?;
                    }
                }
            }
            let exchange = |place| match self.frame(&batches, place) {
                Some((frames, frame)) => Ok(frames.exchange(py, frame)?.map(|row| (place, row.unbind()))),
                None => Ok(None),
            };
            Ok((self.placed(py), counts.counted(self.order.len(), exchange)?))
        })
    }

    /// Return the row at a place.
    pub fn row<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyAny>> {
        let (_, of) = self.order.get(place).ok_or_else(|| PyIndexError::new_err("no such row"))?;
        match of {
            Of::Row(index) => Ok(self.rows[*index as usize].bind(py).clone()),
            Of::Frame(batch, index) => {
                let frames = self.batches[*batch as usize].bind(py).try_borrow()?;
                match &frames.entries[*index as usize] {
                    Entry::Frame(frame) => frames.named_row(py, frame),
                    Entry::Rows(_) => Err(PyIndexError::new_err("no such row")),
                }
            }
            Of::Messages(..) => Err(PyIndexError::new_err("messages are no one row")),
        }
    }

    /// Return the Python rows from a place on, before the next frame in columns.
    fn of_python<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyList>> {
        let mut rows = Vec::new();
        while let Some((_, Of::Row(index))) = self.order.get(place + rows.len()) {
            rows.push(self.rows[*index as usize].bind(py));
        }
        PyList::new(py, rows)
    }

    /// Write lines of the timeline from a place on, up to a row that Python must write.
    ///
    /// `parts`: parts of the lines by connection, texts of commands, function for topics, function for summaries, summaries made so far,
    /// and `timeline::Look::introduce`; `marks`: see `timeline::Look`; `slow`: slow latency; `seconds`: of times; `widths`: widths of times
    /// and of names; `several`: whether there are several files. Returns the place of that row, the text, the widths, and the numbers of
    /// frames and of messages of clients and servers.
    #[allow(clippy::too_many_arguments)]
    fn timeline<'py>(
        &self,
        py: Python<'py>,
        place: usize,
        parts: Parts<'py>,
        marks: [String; 6],
        slow: i64,
        seconds: Seconds<'py>,
        widths: (usize, usize),
        several: bool,
    ) -> PyResult<(usize, String, (usize, usize), (usize, i64, i64))> {
        caught(|| {
            let (looks, commands, short_topic, summary, summaries, introduce) = parts;
            let (time_width, name_width) = widths;
            let summaries = FrameSummaries::new(py, short_topic, summary, summaries);
            let mut look = Look { looks, commands, marks, slow, seconds, time_width, name_width, several, summaries, introduce };
            let mut lines = Lines::new(py, &mut look);
            let at = self.append_frames(py, place, |batch, frames, tables, frame| lines.append(batch, frames, tables, frame))?;
            let (text, frames, [of_client, of_server]) = (std::mem::take(&mut lines.text), lines.frames, lines.messages);
            Ok((at, text, (look.time_width, look.name_width), (frames, of_client, of_server)))
        })
    }

    /// Write lines of lanes from a place on, up to a row that Python must write; return the place of that row, and the lines.
    ///
    /// `parts`, `look`: see `lanes::Parts` and `lanes::Look`; `seconds`: of times.
    fn lanes<'py>(
        &self,
        py: Python<'py>,
        place: usize,
        parts: lanes::Parts<'py>,
        look: lanes::Look,
        seconds: Seconds<'py>,
    ) -> PyResult<(usize, Bound<'py, PyBytes>)> {
        caught(|| {
            let mut lines = lanes::Lines::new(py, parts, look, seconds);
            let at = self.append_frames(py, place, |batch, frames, tables, frame| lines.append(batch, frames, tables, frame))?;
            Ok((at, PyBytes::new(py, lines.text.as_bytes())))
        })
    }

    /// Return CSV; `encode` makes the lines of Python rows, `cell` the cells of texts, and `places` are those of the chosen columns of
    /// frames among all columns, None for all.
    fn csv<'py>(
        &self,
        py: Python<'py>,
        encode: &Bound<'py, PyAny>,
        cell: &Bound<'py, PyAny>,
        places: Option<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        caught(|| {
            let batches = self.borrowed(py)?;
            let mut lines = CsvLines::new(cell, places);
            let mut of_python = Vec::new();
            for (_, of) in &self.order {
                match of {
                    Of::Frame(batch, index) => {
                        encode_rows(&mut of_python, encode, &mut lines.out)?;
                        if let Entry::Frame(frame) = &batches[*batch as usize].entries[*index as usize] {
                            lines.append(*batch, &batches[*batch as usize], frame)?;
                        }
                    }
                    Of::Row(index) => of_python.push(self.rows[*index as usize].bind(py)),
                    Of::Messages(..) => {}
                }
            }
            encode_rows(&mut of_python, encode, &mut lines.out)?;
            Ok(PyBytes::new(py, &lines.out))
        })
    }

    /// Return NDJSON from a place on, and the place after its last row; `encode` makes the lines of Python rows, and `messages` those of
    /// messages in columns, if any. `chosen`: names of the chosen columns of frames and of exchanges; None for all. Large rows are many
    /// bytes, which need not be in memory together.
    #[pyo3(signature = (encode, messages=None, start=0, chosen=None))]
    fn ndjson<'py>(
        &self,
        py: Python<'py>,
        encode: &Bound<'py, PyAny>,
        messages: Option<PyRef<'py, MessageLines>>,
        start: usize,
        chosen: Option<(Vec<String>, Vec<String>)>,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        caught(|| {
            let batches = self.borrowed(py)?;
            let mut out = kept_bytes::take();
            let mut times = Times::default();
            let mut of_python = Vec::new();
            let mut forms = LineForms::default();
            let mut place = start;
            let mut chosen = chosen.map(|(frames, exchanges)| (JsonColumns::of(frames), JsonColumns::of(exchanges)));
            while let Some((_, of)) = self.order.get(place).filter(|_| out.len() < PART_BYTES) {
                place += 1;
                match of {
                    Of::Messages(batch, number) => {
                        encode_rows(&mut of_python, encode, &mut out)?;
                        if let Some(messages) = &messages {
                            forms.write(messages, &batches[*batch as usize].opened, (*batch, *number), &mut times, &mut out)?;
                        }
                    }
                    Of::Frame(batch, index) => {
                        encode_rows(&mut of_python, encode, &mut out)?;
                        let frames = &batches[*batch as usize];
                        if let Entry::Frame(frame) = &frames.entries[*index as usize] {
                            let reader = frames.reader.bind(py).get();
                            let start = out.len();
                            if !self.frameless {
                                frames.write_line(py, &reader.tables, frame, &mut times, &mut out)?;
                            }
                            if let Some((columns, _)) = &mut chosen {
                                columns.reduce(&mut out, start);
                            }
                            let start = out.len();
                            if self.exchanges {
                                frames.write_exchange(py, &reader.tables, frame, &mut times, &mut out)?;
                            }
                            if let Some((_, columns)) = &mut chosen {
                                columns.reduce(&mut out, start);
                            }
                        }
                    }
                    Of::Row(index) => of_python.push(self.rows[*index as usize].bind(py)),
                }
            }
            encode_rows(&mut of_python, encode, &mut out)?;
            let lines = PyBytes::new(py, &out);
            kept_bytes::keep(out);
            Ok((lines, place))
        })
    }
}

/// A Python row, or an object that stands for frames, with its place.
type Placed<'py> = (usize, Bound<'py, PyAny>);

/// Append the lines of consecutive Python rows, and clear the rows.
fn encode_rows(rows: &mut Vec<&Bound<'_, PyAny>>, encode: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    if !rows.is_empty() {
        let lines = encode.call1((PyList::new(encode.py(), rows.drain(..))?,))?;
        out.extend_from_slice(lines.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}
