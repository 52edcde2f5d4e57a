//! Deliveries: consecutive MESSAGEs to the consumers of one connection in columns, in the form that rules take.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::caught;
use crate::encoding::number_keys::NumberMap;
use crate::encoding::pack;
use crate::facts::undecided::UndecidedFacts;
use crate::frames::chosen_frames::{no_such_place, ChosenFrames};
use crate::frames::{Entry, Frame, Frames};
use crate::schema::plans::Reading;
use crate::schema::tables::CommandKind;

/// Deliveries to one consumer, in order.
#[pyclass(frozen, get_all, module = "pulsarscope_native")]
pub struct Delivered {
    id: i64,
    topic: Option<Py<PyString>>,
    subscription: Option<Py<PyString>>,
    /// Places among the deliveries.
    places: Py<PyList>,
    /// Ledger and entry of each delivery.
    positions: Py<PyList>,
    /// Number of messages in each delivery.
    messages: Py<PyList>,
    /// Time of each delivery, ns.
    times: Py<PyList>,
    /// Whether each position is above those before.
    ascending: bool,
    /// First file and packet.
    earliest: (i64, i64),
    /// Publish time of the last one, ms.
    published: i64,
}

/// MESSAGEs of one connection, with the interface that rules use (`dissect.contract.rules.ConnectionRule.columns`).
#[pyclass(frozen, extends = ChosenFrames, module = "pulsarscope_native")]
pub struct Deliveries {
    groups: Vec<Py<Delivered>>,
    /// Consumer of each frame, by its index in `groups`.
    of: Vec<u32>,
    /// Places of deliveries that the broker has timestamped.
    stamped: Vec<usize>,
}

/// Return true for a MESSAGE whose row no rule needs.
pub fn is_quiet(frames: &Frames, frame: &Frame, kind: CommandKind) -> bool {
    let parts = frame.parts();
    let numbers = &parts.numbers;
    let plain = kind == CommandKind::Message && !numbers.is_loud(Reading::Delivering) && !numbers.ack_set && !numbers.replicated;
    let stored = numbers.id >= 0 && numbers.ledger > 0 && numbers.entry >= 0 && frame.named.topic > 0;
    let named = numbers.sequence >= 0 && numbers.published > 0 && numbers.name.is_some();
    plain && stored && named && parts.payload_at > 0 && !frames.is_client(frame)
}

fn messages_of(frame: &Frame) -> i64 {
    frame.parts().numbers.messages.unwrap_or(1).max(1)
}

/// The columns of one consumer while they grow.
#[derive(Default)]
struct Columns {
    places: Vec<usize>,
    positions: Vec<(i64, i64)>,
    messages: Vec<i64>,
    times: Vec<i64>,
    ascending: bool,
    earliest: Option<(i64, i64)>,
    published: i64,
}

impl Columns {
    fn add(&mut self, place: usize, file: i64, frame: &Frame) {
        let numbers = &frame.parts().numbers;
        let position = (numbers.ledger, numbers.entry);
        self.ascending = self.positions.last().is_none_or(|last| self.ascending && *last < position);
        let of_packet = (file, frame.packet);
        self.earliest = Some(self.earliest.map_or(of_packet, |earliest| earliest.min(of_packet)));
        self.published = numbers.published;
        self.places.push(place);
        self.positions.push(position);
        self.messages.push(messages_of(frame));
        self.times.push(frame.time);
    }

    fn made(self, py: Python<'_>, frames: &Frames, (id, topic, subscription): (i64, u32, u32)) -> PyResult<Py<Delivered>> {
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
            earliest: self.earliest.unwrap_or_default(),
            published: self.published,
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
            columns[group].1.add(place, batch.file(frame), frame);
            of.push(group as u32);
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
        (vec!["MESSAGE"], Vec::new())
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

    /// Return for each frame the values that a copy under another id also has (topic, subscription, producer, sequence id, publish time),
    /// and a text of its own id, checksum and name.
    fn idents<'py>(slf: PyRef<'py, Self>, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyTuple>, String)>> {
        caught(|| {
            let chosen: &ChosenFrames = slf.as_super();
            let frames = chosen.frames.bind(py).try_borrow()?;
            let mut made = Vec::with_capacity(chosen.at.len());
            for ((entry, _), group) in chosen.at.iter().zip(&slf.of) {
                let Some(Entry::Frame(frame)) = frames.entries.get(*entry as usize) else { return Err(no_such_place()) };
                let (parts, group) = (frame.parts(), slf.groups[*group as usize].get());
                let numbers = &parts.numbers;
                let producer = frames.producer_name(py, frame);
                let key = (&group.topic, &group.subscription, producer, numbers.sequence, numbers.published).into_pyobject(py)?;
                let name = format!("{}:{}.{}", frames.file(frame), frame.packet, frame.sub());
                made.push((key, format!("{}:{} {:08x} {name}", numbers.ledger, numbers.entry, parts.checksum)));
            }
            Ok(made)
        })
    }

    /// Return the facts on the deliveries, whose keys are "ledger:entry".
    ///
    /// `what`: kind of the facts; `of_topic`: makes the topic that they name, in the form of `engine.packed_facts.pack`.
    fn delivered(slf: PyRef<'_, Self>, py: Python<'_>, what: &str, of_topic: &Bound<'_, PyAny>) -> PyResult<UndecidedFacts> {
        caught(|| {
            let chosen: &ChosenFrames = slf.as_super();
            let frames = chosen.frames.bind(py).try_borrow()?;
            let mut values = Vec::new();
            for group in &slf.groups {
                let group = group.get();
                let mut packed = Vec::new();
                pack::text(what, &mut packed);
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
                values.push(packed);
            }
            let first = chosen.with(py, 0, |frames, frame, _| {
                let [source, _, connection, _, _] = frames.names(frame);
                Ok((source.extract::<Option<String>>(py)?, connection.extract::<String>(py)?))
            });
            let (source, connection) = first?;
            let mut facts = UndecidedFacts::default();
            for ((entry, position), group) in chosen.at.iter().zip(&slf.of) {
                let Some(Entry::Frame(frame)) = frames.entries.get(*entry as usize) else { return Err(no_such_place()) };
                let numbers = &frame.parts().numbers;
                facts.add(*position, frame.time, &format!("{}:{}", numbers.ledger, numbers.entry), |fact| {
                    pack::array(3, fact);
                    pack::array(6, fact);
                    pack::optional(source.as_deref(), fact);
                    let place = [frames.file(frame), frame.packet, i64::from(frame.sub()), frame.time];
                    place.iter().for_each(|number| pack::number(*number, fact));
                    pack::text(&connection, fact);
                    fact.extend_from_slice(&values[*group as usize]);
                });
            }
            Ok(facts)
        })
    }
}
