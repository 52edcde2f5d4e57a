//! Rows that are counted once, as selected by `analysis.counted_once`; frames in columns stay there.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple, PyType};

use crate::caught;
use crate::encoding::number_keys::NumberMap;
use crate::facts::waiting_anchors::WaitingAnchors;
use crate::frames::row_order::{Of, OrderedRows};
use crate::frames::{Entry, Frame, Frames};

/// A batch stays in memory for its held frames if these are at least one in `HELD_PART`; otherwise they become rows.
const HELD_PART: usize = 4;

type Limits = (usize, i64, usize, i64);

/// Held frames of a connection in columns, and their exchanges.
#[pyclass(module = "pulsarscope_native")]
pub struct HeldFrames {
    of: Py<OrderedRows>,
    order: Vec<(i64, Of)>,
    count: usize,
}

#[pymethods]
impl HeldFrames {
    fn __len__(&self) -> usize {
        self.count
    }

    /// Return the rows of frames and exchanges.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        caught(|| self.of.borrow(py).rows_of(py, &self.order))
    }
}

/// State about connections that Python shares and also changes: see `CountedOnce`.
#[pyclass(module = "pulsarscope_native")]
pub struct KeptOnce {
    held: Option<Py<PyDict>>,
    holding: Py<PyAny>,
    begun: Py<PySet>,
    carried: Py<PySet>,
    settled: Py<PySet>,
    frames: Py<PyDict>,
    outer_of: Py<PyDict>,
    /// Waiting anchors, and the limits on them (`WaitingAnchors::add`).
    waiting: (Py<WaitingAnchors>, (i128, usize, usize)),
    /// Maximum number of held rows per connection, maximum time, maximum number of connections, and number of examined frames with
    /// messages.
    limits: Limits,
    /// Types of the rows of frames, exchanges, connections, findings and anchors.
    types: [Py<PyType>; 5],
}

#[pymethods]
impl KeptOnce {
    #[new]
    fn new(
        of_held: (Option<Py<PyDict>>, Py<PyAny>, Py<PySet>),
        of_messages: (Py<PySet>, Py<PySet>, Py<PyDict>),
        outer_of: Py<PyDict>,
        waiting: (Py<WaitingAnchors>, (i128, usize, usize)),
        limits: Limits,
        types: [Py<PyType>; 5],
    ) -> Self {
        let ((held, holding, begun), (carried, settled, frames)) = (of_held, of_messages);
        KeptOnce { held, holding, begun, carried, settled, frames, outer_of, waiting, limits, types }
    }

    /// Return the rows that are kept, and append others to `inner`; None if they must be examined one by one. `join` takes an anchor and
    /// equal ones that waited, and returns the connections found to be inner legs; `repeats` tells whether a finding is about such a leg.
    /// No rows are held once the run has `ended`.
    fn kept(
        &self,
        py: Python<'_>,
        rows: &OrderedRows,
        inner: &Bound<'_, PyList>,
        join: &Bound<'_, PyAny>,
        repeats: &Bound<'_, PyAny>,
        ended: bool,
    ) -> PyResult<Option<OrderedRows>> {
        caught(|| {
            let batches = rows.borrowed(py)?;
            let mut part = Part::new(py, self, rows, &batches);
            if !part.is_plain()? {
                return Ok(None);
            }
            part.keep(inner, join, repeats)?;
            part.hold_rest()?;
            if ended {
                part.hand_on_all()?;
            }
            Ok(Some(part.out))
        })
    }
}

/// State of a connection in a part.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Unknown,
    Held,
    Begun,
}

struct Connection<'py> {
    name: Bound<'py, PyString>,
    state: State,
    /// Its rows held in this part, and their number including those held before.
    own: Vec<(i64, Of)>,
    count: usize,
    /// Number of frames with messages.
    carrying: i64,
    /// True if it is held since this part.
    is_new: bool,
}

/// Rows that are examined, and those that are kept.
struct Part<'a, 'py> {
    py: Python<'py>,
    once: &'a KeptOnce,
    rows: &'a OrderedRows,
    batches: &'a [PyRef<'py, Frames>],
    out: OrderedRows,
    /// Numbers of batches with held rows among those of `out`.
    numbers: NumberMap<(usize, u32), u32>,
    connections: Vec<Connection<'py>>,
    by_name: HashMap<String, usize>,
    by_frame: NumberMap<(u32, usize), usize>,
    latest: Option<((u32, usize), usize)>,
    /// Connections whose rows are held since this part, in the order in which that began.
    newly_held: Vec<usize>,
    /// Number of those that are still held.
    new: usize,
}

impl<'a, 'py> Part<'a, 'py> {
    fn new(py: Python<'py>, once: &'a KeptOnce, rows: &'a OrderedRows, batches: &'a [PyRef<'py, Frames>]) -> Self {
        let out = rows.part(py, &[], rows.exchanges, |_| true);
        let (numbers, connections, by_name, by_frame, newly_held) = Default::default();
        Part { py, once, rows, batches, out, numbers, connections, by_name, by_frame, latest: None, newly_held, new: 0 }
    }

    fn frame(&self, batch: u32, index: u32) -> Option<(&'a Frames, &'a Frame)> {
        let frames: &'a Frames = &self.batches[batch as usize];
        match &frames.entries[index as usize] {
            Entry::Frame(frame) => Some((frames, frame)),
            Entry::Rows(_) => None,
        }
    }

    fn row(&self, index: u32) -> &'a Bound<'py, PyAny> {
        self.rows.rows[index as usize].bind(self.py)
    }

    fn is_of(&self, row: &Bound<'py, PyAny>, number: usize) -> bool {
        row.get_type().is(&self.once.types[number])
    }

    /// Return true if no row has to wait for later ones: there are no separate messages, and no deliveries among the first frames.
    fn is_plain(&self) -> PyResult<bool> {
        let py = self.py;
        let carried = self.once.carried.bind(py);
        let mut latest = None;
        for (_, of) in &self.rows.order {
            match of {
                Of::Messages(..) => return Ok(false),
                Of::Frame(batch, index) => {
                    let Some((frames, frame)) = self.frame(*batch, *index) else { continue };
                    let delivers = !frames.is_client(frame) && frame.named.messages.is_some_and(|messages| messages != 0);
                    let connection = Some((*batch, frames.connection(frame)));
                    if delivers && latest != connection {
                        if !carried.contains(&frames.names(frame)[2])? {
                            return Ok(false);
                        }
                        latest = connection;
                    }
                }
                Of::Row(index) => {
                    let row = self.row(*index);
                    if self.is_of(row, 0) {
                        let delivers = self.carries(row)? && row.getattr(intern!(py, "direction"))?.extract::<&str>()? == "server";
                        if delivers && !carried.contains(row.getattr(intern!(py, "connection"))?)? {
                            return Ok(false);
                        }
                    } else if !(1..5).any(|number| self.is_of(row, number)) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Add an anchor to those that wait; return earlier waiting ones that it must be compared with.
    fn add_anchor(&self, row: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
        let (waiting, limits) = &self.once.waiting;
        let row = row.cast::<PyTuple>()?;
        let (key, packed, time, server) = (row.get_item(0)?, row.get_item(1)?, row.get_item(2)?.extract()?, row.get_item(4)?);
        Ok(waiting.borrow_mut(self.py).add(self.py, key.extract()?, packed, time, server.extract()?, *limits))
    }

    fn carries(&self, row: &Bound<'py, PyAny>) -> PyResult<bool> {
        row.getattr(intern!(self.py, "num_messages"))?.is_truthy()
    }

    fn keep(&mut self, inner: &Bound<'py, PyList>, join: &Bound<'py, PyAny>, repeats: &Bound<'py, PyAny>) -> PyResult<()> {
        let py = self.py;
        let rows = self.rows;
        for (at, of) in &rows.order {
            match of {
                Of::Messages(..) => {}
                Of::Frame(batch, index) => {
                    let Some((frames, frame)) = self.frame(*batch, *index) else { continue };
                    let number = self.of_frame(*batch, frames, frame)?;
                    self.connections[number].carrying += i64::from(frame.named.messages.is_some_and(|messages| messages != 0));
                    let count = 1 + usize::from(rows.exchanges && frame.ends_exchange());
                    if !self.take(number, (*at, *of), count, frame.time)? {
                        inner.call_method1(intern!(py, "extend"), (rows.rows_of(py, &[(*at, *of)])?,))?;
                    }
                }
                Of::Row(index) => {
                    let row = self.row(*index);
                    if self.is_of(row, 4) {
                        if let Some(equal) = self.add_anchor(row)? {
                            for name in join.call1((row, equal))?.try_iter()? {
                                self.leave_out(name?.extract()?, inner)?;
                            }
                        }
                    } else if self.is_of(row, 3) {
                        if repeats.call1((row,))?.is_truthy()? {
                            inner.append(row)?;
                        } else {
                            self.out.push(row.clone().unbind(), *at, rows.of_rows[*index as usize]);
                        }
                    } else {
                        let name = row.getattr(intern!(py, "connection"))?;
                        if self.is_of(row, 2) {
                            self.end(&name)?;
                            self.out.push(row.clone().unbind(), *at, rows.of_rows[*index as usize]);
                            continue;
                        }
                        let number = self.named(name.cast()?)?;
                        let carries = self.is_of(row, 0) && self.carries(row)?;
                        self.connections[number].carrying += i64::from(carries);
                        let time = row.getattr(intern!(py, "time"))?.extract()?;
                        if !self.take(number, (*at, *of), 1, time)? {
                            inner.append(row)?;
                        }
                    }
                }
            }
        }
        self.count_carrying()
    }

    fn of_frame(&mut self, batch: u32, frames: &Frames, frame: &Frame) -> PyResult<usize> {
        let key = (batch, frames.connection(frame));
        let number = match (self.latest, self.by_frame.get(&key)) {
            (Some((latest, number)), _) if latest == key => number,
            (_, Some(number)) => *number,
            _ => self.named(frames.names(frame)[2].bind(self.py).cast()?)?,
        };
        if self.latest.is_none_or(|(latest, _)| latest != key) {
            self.by_frame.insert(key, number);
            self.latest = Some((key, number));
        }
        Ok(number)
    }

    fn named(&mut self, name: &Bound<'py, PyString>) -> PyResult<usize> {
        let text = name.to_str()?;
        if let Some(number) = self.by_name.get(text) {
            return Ok(*number);
        }
        self.by_name.insert(text.to_owned(), self.connections.len());
        self.connections.push(Connection {
            name: name.clone(),
            state: State::Unknown,
            own: Vec::new(),
            count: 0,
            carrying: 0,
            is_new: false,
        });
        Ok(self.connections.len() - 1)
    }

    /// Take a row, or a frame and its exchange, of a connection; return false if it is of an inner leg.
    fn take(&mut self, number: usize, entry: (i64, Of), count: usize, time: i64) -> PyResult<bool> {
        let py = self.py;
        let outer_of = self.once.outer_of.bind(py);
        if !outer_of.is_empty() && outer_of.contains(&self.connections[number].name)? {
            return Ok(false);
        }
        let Some(held) = &self.once.held else {
            self.keep_entry(entry);
            return Ok(true);
        };
        if self.connections[number].state == State::Unknown {
            let name = self.connections[number].name.clone();
            if self.once.begun.bind(py).contains(&name)? {
                self.connections[number].state = State::Begun;
            } else {
                let earlier = held.bind(py).get_item(&name)?;
                self.connections[number].count = earlier.as_ref().map_or(Ok(0), |list| self.count_of(list.cast()?))?;
                self.connections[number].state = State::Held;
                if earlier.is_none() {
                    self.newly_held.push(number);
                    self.connections[number].is_new = true;
                    self.new += 1;
                    self.hand_on_older(&name, time)?;
                }
            }
        }
        let connection = &mut self.connections[number];
        if connection.state == State::Begun {
            self.keep_entry(entry);
            return Ok(true);
        }
        connection.own.push(entry);
        connection.count += count;
        if connection.count >= self.once.limits.0 {
            let name = connection.name.clone();
            self.begin(&name)?;
        }
        Ok(true)
    }

    fn count_of(&self, list: &Bound<'py, PyList>) -> PyResult<usize> {
        list.iter().map(|row| Ok(row.cast::<HeldFrames>().map_or(1, |held| held.borrow().count))).sum()
    }

    /// Record that rows of a connection are held from now on, and release those held for too long, or of too many connections.
    fn hand_on_older(&mut self, name: &Bound<'py, PyString>, time: i64) -> PyResult<()> {
        let py = self.py;
        let holding = self.once.holding.bind(py);
        holding.call_method1(intern!(py, "append"), ((time, name),))?;
        let Some(held) = self.once.held.as_ref().map(|held| held.bind(py)) else { return Ok(()) };
        while held.len() + self.new > self.once.limits.2 || holding.get_item(0)?.get_item(0)?.extract::<i64>()? < time - self.once.limits.1
        {
            let oldest = holding.call_method0(intern!(py, "popleft"))?.get_item(1)?;
            self.begin(oldest.cast()?)?;
        }
        Ok(())
    }

    /// Release the held rows of a connection, and hold no more.
    fn begin(&mut self, name: &Bound<'py, PyString>) -> PyResult<()> {
        let py = self.py;
        let Some(held) = &self.once.held else { return Ok(()) };
        let held = held.bind(py);
        let earlier = held.get_item(name)?;
        if let Some(list) = &earlier {
            self.hand_on(list.cast()?)?;
            held.del_item(name)?;
        }
        let number = self.by_name.get(name.to_str()?).copied().filter(|number| self.connections[*number].state == State::Held);
        if let Some(number) = number {
            for entry in std::mem::take(&mut self.connections[number].own) {
                self.keep_entry(entry);
            }
        }
        if earlier.is_some() || number.is_some() {
            self.once.begun.bind(py).add(name)?;
        }
        if let Some(number) = self.by_name.get(name.to_str()?) {
            self.connections[*number].state = State::Unknown; // Python knows
            self.new -= usize::from(std::mem::take(&mut self.connections[*number].is_new));
        }
        Ok(())
    }

    fn keep_entry(&mut self, (at, of): (i64, Of)) {
        match of {
            Of::Row(index) => self.out.push(self.rows.rows[index as usize].clone_ref(self.py), at, self.rows.of_rows[index as usize]),
            Of::Frame(..) | Of::Messages(..) => self.out.order.push((at, of)),
        }
    }

    /// Release rows that were held before this part.
    fn hand_on(&mut self, list: &Bound<'py, PyList>) -> PyResult<()> {
        for row in list.iter() {
            match row.cast::<HeldFrames>() {
                Ok(held) => self.hand_on_frames(&held.borrow()),
                Err(_) => {
                    let connection = self.out.names.number(row.getattr(intern!(self.py, "connection"))?.extract()?);
                    self.out.push(row.unbind(), 0, connection);
                }
            }
        }
        Ok(())
    }

    fn hand_on_all(&mut self) -> PyResult<()> {
        if let Some(held) = &self.once.held {
            for list in held.bind(self.py).values() {
                self.hand_on(list.cast()?)?;
            }
            held.bind(self.py).clear();
        }
        Ok(())
    }

    fn hand_on_frames(&mut self, held: &HeldFrames) {
        let of = held.of.borrow(self.py);
        self.out.exchanges |= of.exchanges;
        for (at, place) in &held.order {
            let Of::Frame(batch, index) = place else { continue };
            let number = match self.numbers.get(&(held.of.as_ptr() as usize, *batch)) {
                Some(number) => *number,
                None => {
                    let number = self.out.add_batch_of(self.py, &of, *batch);
                    self.numbers.insert((held.of.as_ptr() as usize, *batch), number);
                    number
                }
            };
            self.out.order.push((*at, Of::Frame(number, *index)));
        }
    }

    /// Remove the held rows of a connection that was found to be an inner leg; Python has those held before this part.
    fn leave_out(&mut self, name: &str, inner: &Bound<'py, PyList>) -> PyResult<()> {
        let Some(number) = self.by_name.get(name) else { return Ok(()) };
        let connection = &mut self.connections[*number];
        connection.state = State::Unknown;
        self.new -= usize::from(std::mem::take(&mut connection.is_new));
        let own = std::mem::take(&mut connection.own);
        inner.call_method1(intern!(self.py, "extend"), (self.rows.rows_of(self.py, &own)?,))?;
        Ok(())
    }

    /// Forget a connection that has ended.
    fn end(&mut self, name: &Bound<'py, PyAny>) -> PyResult<()> {
        let py = self.py;
        let once = self.once;
        once.settled.bind(py).discard(name)?;
        once.carried.bind(py).discard(name)?;
        let frames = once.frames.bind(py);
        if frames.contains(name)? {
            frames.del_item(name)?;
        }
        if let Ok(name) = name.cast::<PyString>() {
            if let Some(number) = self.by_name.get(name.to_str()?) {
                self.connections[*number].carrying = 0;
            }
            self.begin(name)?;
            once.begun.bind(py).discard(name)?;
        }
        Ok(())
    }

    /// Count the frames with messages of connections whose first ones are examined.
    fn count_carrying(&self) -> PyResult<()> {
        let (carried, frames) = (self.once.carried.bind(self.py), self.once.frames.bind(self.py));
        for Connection { name, carrying, .. } in self.connections.iter().filter(|connection| connection.carrying > 0) {
            if !carried.contains(name)? {
                let before = frames.get_item(name)?;
                let number = carrying + before.as_ref().map_or(Ok(0), |number| number.extract::<i64>())?;
                if number < self.once.limits.3 {
                    frames.set_item(name, number)?;
                    continue;
                }
                carried.add(name)?;
                if before.is_some() {
                    frames.del_item(name)?;
                }
            }
        }
        Ok(())
    }

    /// Give Python the rows that stay held: as places of frames in columns if these are most of a batch, else as rows.
    fn hold_rest(&mut self) -> PyResult<()> {
        let py = self.py;
        let Some(held) = &self.once.held else { return Ok(()) };
        let held = held.bind(py);
        for number in &self.newly_held {
            let Connection { name, state, own, .. } = &self.connections[*number];
            if *state == State::Held && !own.is_empty() && !held.contains(name)? {
                held.set_item(name, PyList::empty(py))?;
            }
        }
        let mut counts = vec![0; self.batches.len()];
        let entries = || self.connections.iter().flat_map(|connection| &connection.own);
        for (_, of) in entries() {
            if let Of::Frame(batch, _) = of {
                counts[*batch as usize] += 1;
            }
        }
        let mut shared = OrderedRows { exchanges: self.rows.exchanges, ..OrderedRows::default() };
        let numbers: Vec<Option<u32>> = (counts.iter().zip(self.batches).enumerate())
            .map(|(batch, (count, frames))| {
                let stays = *count > 0 && *count * HELD_PART >= frames.entries.len();
                stays.then(|| shared.add_batch_of(py, self.rows, batch as u32))
            })
            .collect();
        let shared = Py::new(py, shared)?;
        for Connection { name, own, .. } in self.connections.iter().filter(|connection| !connection.own.is_empty()) {
            let Some(list) = held.get_item(name)? else { continue };
            let list = list.cast::<PyList>()?;
            let mut order = Vec::new();
            for (at, of) in own {
                match of {
                    Of::Frame(batch, index) if numbers[*batch as usize].is_some() => {
                        order.extend(numbers[*batch as usize].map(|batch| (*at, Of::Frame(batch, *index))));
                    }
                    _ => {
                        self.append_held(list, &shared, std::mem::take(&mut order))?;
                        list.call_method1(intern!(py, "extend"), (self.rows.rows_of(py, &[(*at, *of)])?,))?;
                    }
                }
            }
            self.append_held(list, &shared, order)?;
        }
        Ok(())
    }

    fn append_held(&self, list: &Bound<'py, PyList>, shared: &Py<OrderedRows>, order: Vec<(i64, Of)>) -> PyResult<()> {
        if order.is_empty() {
            return Ok(());
        }
        let of = shared.borrow(self.py);
        let ends = |place: &(i64, Of)| match place.1 {
            Of::Frame(batch, index) => match &of.batches[batch as usize].borrow(self.py).entries[index as usize] {
                Entry::Frame(frame) => of.exchanges && frame.ends_exchange(),
                Entry::Rows(_) => false,
            },
            _ => false,
        };
        let count = order.len() + order.iter().filter(|place| ends(place)).count();
        list.append(Py::new(self.py, HeldFrames { of: shared.clone_ref(self.py), order, count })?)
    }
}
