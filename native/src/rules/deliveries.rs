//! Deliveries: consecutive MESSAGEs to the consumers of one connection, and their ACKs, in columns, in the form that rules take.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::caught;
use crate::encoding::number_keys::NumberMap;
use crate::encoding::pack;
use crate::facts::undecided::UndecidedFacts;
use crate::frames::chosen_frames::{no_such_place, ChosenFrames};
use crate::frames::{Entry, Frame, Frames};
use crate::schema::plans::{Reading, Role, Value};
use crate::schema::tables::CommandKind;

type Position = (i64, i64);

/// Place, time, positions, and name (file, packet, sub) of an ACK.
type Acknowledged = (usize, i64, Vec<Position>, (i64, i64, i64));

/// Deliveries to one consumer, and its ACKs, in order.
#[pyclass(frozen, get_all, module = "pulsarscope_native")]
pub struct Delivered {
    id: i64,
    topic: Option<Py<PyString>>,
    subscription: Option<Py<PyString>>,
    /// Places of the deliveries among the frames.
    places: Py<PyList>,
    /// Ledger and entry of each delivery.
    positions: Py<PyList>,
    /// Number of messages in each delivery.
    messages: Py<PyList>,
    /// Time of each delivery, ns.
    times: Py<PyList>,
    /// Whether each position is above those before.
    ascending: bool,
    /// Publish time of each delivery, ms.
    published: Py<PyList>,
    acks: Py<PyList>,
    /// Numbers of deliveries and of ACKs at the end of each turn, which is deliveries followed by ACKs.
    turns: Py<PyList>,
}

/// MESSAGEs and ACKs of one connection, with the interface that rules use (`dissect.contract.rules.ConnectionRule.columns`).
#[pyclass(frozen, extends = ChosenFrames, module = "pulsarscope_native")]
pub struct Deliveries {
    groups: Vec<Py<Delivered>>,
    /// Consumer of each frame, by its index in `groups`; and positions of the entries that it acknowledges, none for a delivery.
    of: Vec<(u32, Vec<Position>)>,
    /// Places of deliveries that the broker has timestamped.
    stamped: Vec<usize>,
}

/// Return true for a MESSAGE or an ACK whose row no rule needs.
pub fn is_quiet(py: Python<'_>, frames: &Frames, frame: &Frame, kind: CommandKind) -> bool {
    match kind {
        CommandKind::Message => is_plain_message(frames, frame),
        CommandKind::Ack => !acknowledged(py, frames, frame).is_empty(),
        _ => false,
    }
}

fn is_plain_message(frames: &Frames, frame: &Frame) -> bool {
    let parts = frame.parts();
    let numbers = &parts.numbers;
    let plain = !numbers.is_loud(Reading::Delivering) && !numbers.ack_set && !numbers.replicated;
    let stored = numbers.id >= 0 && numbers.ledger > 0 && numbers.entry >= 0 && frame.named.topic > 0;
    let named = numbers.sequence >= 0 && numbers.published > 0 && numbers.name.is_some();
    plain && stored && named && parts.payload_at > 0 && !frames.is_client(frame)
}

/// Return the positions of the entries that an ACK acknowledges as a whole; none if rules need its row.
fn acknowledged(py: Python<'_>, frames: &Frames, frame: &Frame) -> Vec<Position> {
    let numbers = &frame.parts().numbers;
    let plain = !numbers.is_loud(Reading::Acknowledging) && !numbers.ack_set && !numbers.cumulative;
    if !plain || numbers.ids == 0 || numbers.id < 0 || frame.named.topic == 0 || !frames.is_client(frame) {
        return Vec::new();
    }
    let is_stored = |position: &Position| position.0 > 0 && position.1 >= 0;
    if numbers.ids == 1 {
        return Some((numbers.ledger, numbers.entry)).filter(is_stored).into_iter().collect();
    }
    let tables = &frames.reader.bind(py).get().tables;
    let mut positions = Vec::with_capacity(numbers.ids as usize);
    let known = frames.command(tables, frame).ok().and_then(|command| {
        tables.visit(frames.slice(py, frame, frame.parts().fields), command.plan, |role, value| {
            if let (Role::MessageId, Value::Message(data, plan)) = (role, value) {
                positions.extend(tables.message_id(data, plan).map(|(ledger, entry, _)| (ledger, entry)).filter(is_stored));
            }
        })
    });
    let distinct = positions.iter().collect::<HashSet<_>>().len();
    if known.is_some() && distinct == numbers.ids as usize {
        positions
    } else {
        Vec::new()
    }
}

fn messages_of(frame: &Frame) -> i64 {
    frame.parts().numbers.messages.unwrap_or(1).max(1)
}

/// The columns of one consumer while they grow.
#[derive(Default)]
struct Columns {
    places: Vec<usize>,
    positions: Vec<Position>,
    messages: Vec<i64>,
    times: Vec<i64>,
    ascending: bool,
    published: Vec<i64>,
    acks: Vec<Acknowledged>,
    turns: Vec<(usize, usize)>,
}

impl Columns {
    fn add(&mut self, place: usize, frame: &Frame) {
        let numbers = &frame.parts().numbers;
        let position = (numbers.ledger, numbers.entry);
        self.ascending = self.positions.last().is_none_or(|last| self.ascending && *last < position);
        self.published.push(numbers.published);
        self.places.push(place);
        self.positions.push(position);
        self.messages.push(messages_of(frame));
        self.times.push(frame.time);
    }

    fn add_ack(&mut self, place: usize, file: i64, frame: &Frame, positions: Vec<Position>) {
        self.acks.push((place, frame.time, positions, (file, frame.packet, frame.sub().into())));
        self.end_turn();
    }

    /// Note the numbers of deliveries and ACKs so far, instead of those of the same deliveries with fewer ACKs.
    fn end_turn(&mut self) {
        if self.turns.last().is_some_and(|(deliveries, _)| *deliveries == self.places.len()) {
            self.turns.pop();
        }
        self.turns.push((self.places.len(), self.acks.len()));
    }

    fn made(mut self, py: Python<'_>, frames: &Frames, (id, topic, subscription): (i64, u32, u32)) -> PyResult<Py<Delivered>> {
        self.end_turn();
        let text = |number| frames.known(py, number).map(Bound::unbind);
        let delivered = Delivered {
            id,
            topic: text(topic),
            subscription: text(subscription),
            places: PyList::new(py, self.places)?.unbind(),
            positions: PyList::new(py, self.positions)?.unbind(),
            messages: PyList::new(py, self.messages)?.unbind(),
            times: PyList::new(py, self.times)?.unbind(),
            ascending: self.ascending,
            published: PyList::new(py, self.published)?.unbind(),
            acks: PyList::new(py, self.acks)?.unbind(),
            turns: PyList::new(py, self.turns)?.unbind(),
        };
        Py::new(py, delivered)
    }
}

impl Deliveries {
    /// Take frames of a batch: their entries, and their positions among the rows. None if a consumer gets messages of two topics: for a
    /// consumer from before the capture, the ledger determines the topic.
    pub fn of<'py>(py: Python<'py>, frames: &Py<Frames>, at: &[(u32, u32)], exchanges: bool) -> PyResult<Option<Bound<'py, Self>>> {
        let batch = frames.bind(py).try_borrow()?;
        let mut columns: Vec<((i64, u32, u32), Columns)> = Vec::new();
        let mut numbers: NumberMap<(i64, u32, u32), usize> = NumberMap::default();
        let (mut of, mut stamped) = (Vec::with_capacity(at.len()), Vec::new());
        for (place, (entry, _)) in at.iter().enumerate() {
            let Some(Entry::Frame(frame)) = batch.entries.get(*entry as usize) else { return Err(no_such_place()) };
            let name = (frame.parts().numbers.id, frame.named.topic, frame.named.subscription);
            let group = *numbers.entry(name).or_insert(columns.len());
            if group == columns.len() {
                columns.push((name, Columns::default()));
            }
            let positions = if batch.is_client(frame) { acknowledged(py, &batch, frame) } else { Vec::new() };
            of.push((group as u32, positions.clone()));
            if !positions.is_empty() {
                columns[group].1.add_ack(place, batch.file(frame), frame, positions);
                continue;
            }
            columns[group].1.add(place, frame);
            if frame.parts().entry.is_some() {
                stamped.push(place);
            }
        }
        let mut ids = HashSet::new();
        if !columns.iter().all(|((id, ..), _)| ids.insert(*id)) {
            return Ok(None);
        }
        let groups = columns.into_iter().map(|(name, columns)| columns.made(py, &batch, name)).collect::<PyResult<_>>()?;
        drop(batch);
        let chosen = ChosenFrames { frames: frames.clone_ref(py), at: at.to_vec(), exchanges };
        Bound::new(py, PyClassInitializer::from(chosen).add_subclass(Deliveries { groups, of, stamped })).map(Some)
    }
}

#[pymethods]
impl Deliveries {
    /// Consumers, in the order of their first frames.
    #[getter]
    fn consumers(&self, py: Python<'_>) -> Vec<Py<Delivered>> {
        self.groups.iter().map(|group| group.clone_ref(py)).collect()
    }

    #[getter]
    fn stamped(&self) -> Vec<usize> {
        self.stamped.clone()
    }

    /// Command under which handlers of these frames are registered.
    #[getter]
    fn command(&self) -> &'static str {
        "MESSAGE"
    }

    /// Return the commands of the frames, and those of the exchanges.
    fn commands(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let acks = self.of.iter().filter(|(_, positions)| !positions.is_empty()).count();
        let present = [(acks < self.of.len(), "MESSAGE"), (acks > 0, "ACK")].into_iter().filter_map(|(there, name)| there.then_some(name));
        (present.collect(), Vec::new())
    }

    /// Return source, file, packet, sub, time and connection of the frames at some places.
    fn wheres<'py>(slf: PyRef<'py, Self>, py: Python<'py>, places: Vec<usize>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let chosen: &ChosenFrames = slf.as_super();
        let frames = chosen.frames.bind(py).try_borrow()?;
        let mut made = Vec::with_capacity(places.len());
        for place in places {
            let (entry, _) = chosen.at.get(place).ok_or_else(no_such_place)?;
            let Some(Entry::Frame(frame)) = frames.entries.get(*entry as usize) else { return Err(no_such_place()) };
            let [source, file, connection, _, _] = frames.names(frame);
            made.push((source, file, frame.packet, frame.sub(), frame.time, connection).into_pyobject(py)?);
        }
        Ok(made)
    }

    /// Return for each delivery its place, the values that a copy under another id also has (topic, subscription, producer, sequence id,
    /// publish time), and a text of its own id, checksum and name.
    fn idents<'py>(slf: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Vec<(usize, Bound<'py, PyTuple>, String)>> {
        caught(|| {
            let chosen: &ChosenFrames = slf.as_super();
            let frames = chosen.frames.bind(py).try_borrow()?;
            let mut made = Vec::with_capacity(chosen.at.len());
            for (place, ((entry, _), (group, positions))) in chosen.at.iter().zip(&slf.of).enumerate() {
                if !positions.is_empty() {
                    continue;
                }
                let Some(Entry::Frame(frame)) = frames.entries.get(*entry as usize) else { return Err(no_such_place()) };
                let (parts, group) = (frame.parts(), slf.groups[*group as usize].get());
                let numbers = &parts.numbers;
                let producer = frames.producer_name(py, frame);
                let key = (&group.topic, &group.subscription, producer, numbers.sequence, numbers.published).into_pyobject(py)?;
                let name = format!("{}:{}.{}", frames.file(frame), frame.packet, frame.sub());
                made.push((place, key, format!("{}:{} {:08x} {name}", numbers.ledger, numbers.entry, parts.checksum)));
            }
            Ok(made)
        })
    }

    /// Return the facts on the deliveries and the acknowledged entries, whose keys are "ledger:entry".
    ///
    /// `kinds`: kinds of both; `of_topic`: makes the topic that they name, in the form of `engine.packed_facts.pack`.
    fn facts(slf: PyRef<'_, Self>, py: Python<'_>, kinds: (String, String), of_topic: &Bound<'_, PyAny>) -> PyResult<UndecidedFacts> {
        caught(|| {
            let chosen: &ChosenFrames = slf.as_super();
            let frames = chosen.frames.bind(py).try_borrow()?;
            let (delivered, acknowledged) = &kinds;
            let mut values = Vec::new();
            for group in &slf.groups {
                let group = group.get();
                let mut packed = Vec::new();
                pack::text(delivered, &mut packed);
                pack::map(4, &mut packed);
                pack::text("topic", &mut packed);
                pack::optional(of_topic.call1((&group.topic,))?.extract::<Option<String>>()?.as_deref(), &mut packed);
                pack::text("subscription", &mut packed);
                let subscription: Option<String> = group.subscription.as_ref().map(|name| name.extract(py)).transpose()?;
                pack::optional(subscription.as_deref(), &mut packed);
                pack::text("consumer_id", &mut packed);
                pack::number(group.id, &mut packed);
                pack::text("checksum", &mut packed);
                pack::text("good", &mut packed);
                let mut of_ack = Vec::new();
                pack::text(acknowledged, &mut of_ack);
                pack::map(1, &mut of_ack);
                pack::text("consumer_id", &mut of_ack);
                pack::number(group.id, &mut of_ack);
                values.push((packed, of_ack));
            }
            let first = chosen.with(py, 0, |frames, frame, _| {
                let [source, _, connection, _, _] = frames.names(frame);
                Ok((source.extract::<Option<String>>(py)?, connection.extract::<String>(py)?))
            });
            let (source, connection) = first?;
            let mut facts = UndecidedFacts::default();
            for ((entry, position), (group, positions)) in chosen.at.iter().zip(&slf.of) {
                let Some(Entry::Frame(frame)) = frames.entries.get(*entry as usize) else { return Err(no_such_place()) };
                let numbers = &frame.parts().numbers;
                let (of_delivery, of_ack) = &values[*group as usize];
                let mut add = |(ledger, entry): Position, of_fact: &[u8]| {
                    facts.add(*position, frame.time, (ledger, entry), |fact| {
                        pack::array(3, fact);
                        pack::array(6, fact);
                        pack::optional(source.as_deref(), fact);
                        let place = [frames.file(frame), frame.packet, i64::from(frame.sub()), frame.time];
                        place.iter().for_each(|number| pack::number(*number, fact));
                        pack::text(&connection, fact);
                        fact.extend_from_slice(of_fact);
                    })
                };
                if positions.is_empty() {
                    add((numbers.ledger, numbers.entry), of_delivery);
                }
                positions.iter().for_each(|position| add(*position, of_ack));
            }
            Ok(facts)
        })
    }
}
