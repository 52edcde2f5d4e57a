//! Stretches: consecutive SENDs of one connection and their receipts in columns, in the form that rules take.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::caught;
use crate::encoding::number_keys::NumberMap;
use crate::encoding::pack;
use crate::facts::undecided::UndecidedFacts;
use crate::frames::chosen_frames::{no_such_place, ChosenFrames};
use crate::frames::{Entry, Frame, Frames};
use crate::rules::number_list::NumberList;
use crate::rules::waiting_sends::{Waiting, WaitingSends};
use crate::schema::numbers::Numbers;
use crate::schema::plans::Reading;
use crate::schema::tables::CommandKind;

const MILLISECOND: i64 = 1_000_000;

/// Checksum, publish time and bytes of payload of a SEND.
type SendMark = (String, i64, u32);

/// See `Stretch::sampled`.
type Sampled = (usize, i64, i64, i64, i64, i64);

/// SENDs of one producer in a stretch, and its receipts, by their places in it.
#[pyclass(frozen, get_all, module = "pulsarscope_native")]
pub struct Published {
    id: i64,
    topic: Option<Py<PyAny>>,
    /// Name of the producer, as in receipts.
    name: Option<Py<PyAny>>,
    sends: Py<NumberList>,
    sequence_ids: Py<NumberList>,
    /// Highest id of the messages up to each SEND.
    highest_ids: Py<NumberList>,
    /// Whether each sequence id is above those of all earlier messages.
    ascending: bool,
    /// Whether a SEND gives a range of ids.
    ranges: bool,
    /// Whether a SEND has several messages.
    batched: bool,
    /// Place of the first compressed SEND.
    compressed: Option<usize>,
    receipts: Py<NumberList>,
    /// Highest sequence id of the receipts.
    confirmed: i64,
    /// Maximum of SENDs minus receipts, since the beginning of the stretch.
    peak: i64,
}

/// The values of `Published` while they grow, and the current number of SENDs minus receipts.
struct Columns {
    name: (i64, u32, u32),
    sends: Vec<i64>,
    sequence_ids: Vec<i64>,
    highest_ids: Vec<i64>,
    ascending: bool,
    ranges: bool,
    batched: bool,
    compressed: Option<usize>,
    receipts: Vec<i64>,
    confirmed: i64,
    peak: i64,
    level: i64,
}

impl Columns {
    fn new(name: (i64, u32, u32)) -> Self {
        Columns {
            name,
            sends: Vec::new(),
            sequence_ids: Vec::new(),
            highest_ids: Vec::new(),
            ascending: true,
            ranges: false,
            batched: false,
            compressed: None,
            receipts: Vec::new(),
            confirmed: i64::MIN,
            peak: i64::MIN,
            level: 0,
        }
    }

    fn add_send(&mut self, place: usize, numbers: &Numbers) {
        let highest = self.highest_ids.last().copied();
        self.ascending &= highest.is_none_or(|highest| highest < numbers.sequence);
        self.ranges |= numbers.highest > numbers.sequence;
        self.batched |= numbers.messages.is_some_and(|messages| messages > 1);
        if numbers.compressed {
            self.compressed = self.compressed.or(Some(place));
        }
        self.sends.push(place as i64);
        self.sequence_ids.push(numbers.sequence);
        self.highest_ids.push(highest.unwrap_or(i64::MIN).max(numbers.sequence).max(numbers.highest));
        self.level += 1;
        self.peak = self.peak.max(self.level);
    }

    fn add_receipt(&mut self, place: usize, numbers: &Numbers) {
        self.receipts.push(place as i64);
        self.confirmed = self.confirmed.max(numbers.sequence);
        self.level -= 1;
    }

    fn made(self, py: Python<'_>, frames: &Frames) -> PyResult<Py<Published>> {
        let (id, topic, producer) = self.name;
        let text = |number| frames.known(py, number).map(|text| text.into_any().unbind());
        let published = Published {
            id,
            topic: text(topic),
            name: text(producer),
            sends: Py::new(py, NumberList(self.sends))?,
            sequence_ids: Py::new(py, NumberList(self.sequence_ids))?,
            highest_ids: Py::new(py, NumberList(self.highest_ids))?,
            ascending: self.ascending,
            ranges: self.ranges,
            batched: self.batched,
            compressed: self.compressed,
            receipts: Py::new(py, NumberList(self.receipts))?,
            confirmed: self.confirmed,
            peak: self.peak,
        };
        Py::new(py, published)
    }
}

/// A receipt: its place in the stretch, the index of its producer, the SEND that it answers (file, packet, sub), latency and time.
struct Receipt {
    place: usize,
    group: usize,
    send: (i64, i64, i64),
    latency: i64,
    time: i64,
}

/// SENDs and receipts of one connection, with the interface that rules use (`dissect.contract.rules.ConnectionRule.columns`).
#[pyclass(frozen, extends = ChosenFrames, module = "pulsarscope_native")]
pub struct Stretch {
    groups: Vec<Py<Published>>,
    receipts: Vec<Receipt>,
    /// Place of the SEND that was captured soonest after its publish time, and the difference; and the number of SENDs with a publish time.
    closest: Option<(usize, i64)>,
    timed: usize,
    largest: u32,
    properties: bool,
}

/// Return true for a SEND or a receipt whose row no rule needs.
pub fn is_quiet(frames: &Frames, frame: &Frame, kind: CommandKind) -> bool {
    let numbers = &frame.parts().numbers;
    match kind {
        CommandKind::Send => {
            let plain = !numbers.is_loud(Reading::Publishing) && numbers.ledger < 0 && clock_offset(frame).is_some();
            let counted = i64::from(numbers.announced) == numbers.messages.unwrap_or(1);
            let sized = !numbers.compressed || numbers.uncompressed > 0;
            plain && counted && sized && frames.is_client(frame) && frame.named.topic > 0
        }
        CommandKind::Receipt => {
            let plain = !numbers.is_loud(Reading::Publishing) && numbers.ledger > 0 && numbers.entry >= 0;
            plain && !frames.is_client(frame) && frame.named.request.is_some() && frame.named.latency.is_some()
        }
        _ => false,
    }
}

/// Return the publish time of a SEND minus its capture time, ns; 0 without a publish time, None if only Python can compute it.
fn clock_offset(frame: &Frame) -> Option<i64> {
    match frame.parts().numbers.published {
        0 => Some(0),
        published => published.checked_mul(MILLISECOND).filter(|time| *time > 0)?.checked_sub(frame.time),
    }
}

impl Stretch {
    /// Take frames of a batch: their entries, and their places among the rows.
    pub fn of<'py>(py: Python<'py>, frames: &Py<Frames>, at: Vec<(u32, u32)>, exchanges: bool) -> PyResult<Bound<'py, Self>> {
        let batch = frames.bind(py).try_borrow()?;
        let mut made: Vec<Columns> = Vec::new();
        let mut numbers: NumberMap<(i64, u32), usize> = NumberMap::default();
        let (mut receipts, mut closest, mut timed, mut largest, mut properties) = (Vec::new(), None, 0, 0, false);
        for (place, (entry, _)) in at.iter().enumerate() {
            let Some(Entry::Frame(frame)) = batch.entries.get(*entry as usize) else { return Err(no_such_place()) };
            let (parts, named) = (frame.parts(), &frame.named);
            let of_frame = &parts.numbers;
            let group = *numbers.entry((of_frame.id, named.topic)).or_insert(made.len());
            if group == made.len() {
                made.push(Columns::new((of_frame.id, named.topic, named.producer)));
            }
            if let (Some(send), Some(latency)) = (named.request, named.latency) {
                made[group].add_receipt(place, of_frame);
                receipts.push(Receipt { place, group, send, latency, time: frame.time });
                continue;
            }
            made[group].add_send(place, of_frame);
            largest = largest.max(frame.size() - parts.payload_at);
            properties |= of_frame.properties;
            if let (true, Some(offset)) = (of_frame.published > 0, clock_offset(frame)) {
                timed += 1;
                if closest.is_none_or(|(_, before)| offset > before) {
                    closest = Some((place, offset));
                }
            }
        }
        let groups = made.into_iter().map(|columns| columns.made(py, &batch)).collect::<PyResult<_>>()?;
        drop(batch);
        let made = Stretch { groups, receipts, closest, timed, largest, properties };
        Bound::new(py, PyClassInitializer::from(ChosenFrames { frames: frames.clone_ref(py), at, exchanges }).add_subclass(made))
    }
}

impl Stretch {
    /// Return the number of receipts before a place.
    fn receipts_before(&self, place: usize) -> usize {
        self.receipts.partition_point(|receipt| receipt.place < place)
    }
}

#[pymethods]
impl Stretch {
    /// Producers, in the order of their first frames.
    #[getter]
    fn producers(&self, py: Python<'_>) -> Vec<Py<Published>> {
        self.groups.iter().map(|group| group.clone_ref(py)).collect()
    }

    /// Size of the largest payload.
    #[getter]
    fn largest(&self) -> u32 {
        self.largest
    }

    /// Whether a message has properties.
    #[getter]
    fn properties(&self) -> bool {
        self.properties
    }

    /// Command under which handlers of these frames are registered.
    #[getter]
    fn command(&self) -> &'static str {
        "SEND"
    }

    /// Return the commands of the frames, and those of the exchanges.
    fn commands<'py>(slf: PyRef<'py, Self>, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyTuple>)> {
        let chosen: &ChosenFrames = slf.as_super();
        let send = slf.receipts.len() < chosen.at.len();
        let receipt = !slf.receipts.is_empty();
        let frames = [(send, "SEND"), (receipt, "SEND_RECEIPT")].into_iter().filter_map(|(there, name)| there.then_some(name));
        let exchanges: &[&str] = if receipt && chosen.exchanges { &["SEND"] } else { &[] };
        Ok((PyTuple::new(py, frames.collect::<Vec<_>>())?, PyTuple::new(py, exchanges)?))
    }

    /// Return the places of the receipts of SENDs with these names.
    fn answers(&self, names: &Bound<'_, PyDict>) -> PyResult<Vec<usize>> {
        let mut places = Vec::new();
        for receipt in &self.receipts {
            if names.contains(name_of(receipt.send))? {
                places.push(receipt.place);
            }
        }
        Ok(places)
    }

    /// Return the place of the first receipt of a topic, from a place on, at this time or later.
    fn receipt_since(&self, py: Python<'_>, topic: &Bound<'_, PyAny>, time: i64, start: usize) -> PyResult<Option<usize>> {
        let of_topic = |group: &Py<Published>| group.get().topic.as_ref().map_or(Ok(false), |name| topic.eq(name.bind(py)));
        let groups = self.groups.iter().map(of_topic).collect::<PyResult<Vec<bool>>>()?;
        let is_due = |receipt: &&Receipt| receipt.place >= start && receipt.time >= time && groups[receipt.group];
        Ok(self.receipts.iter().find(is_due).map(|receipt| receipt.place))
    }

    /// Return sequence id, ledger, entry and SEND of the latest receipts of a producer, at most `count`.
    fn latest(slf: PyRef<'_, Self>, py: Python<'_>, producer: usize, count: usize) -> PyResult<Vec<(i64, i64, i64, String)>> {
        let chosen: &ChosenFrames = slf.as_super();
        let of_producer: Vec<&Receipt> = slf.receipts.iter().rev().filter(|receipt| receipt.group == producer).take(count).collect();
        let told = |receipt: &&Receipt| {
            chosen.with(py, receipt.place, |_, frame, _| {
                let numbers = &frame.parts().numbers;
                Ok((numbers.sequence, numbers.ledger, numbers.entry, name_of(receipt.send)))
            })
        };
        of_producer.iter().rev().map(told).collect()
    }

    /// Return the sequence ids of the SENDs of a producer from one on, and what tells their bytes apart: checksum, publish time and bytes of
    /// payload, or None without a checksum.
    fn marks(slf: PyRef<'_, Self>, py: Python<'_>, producer: usize, start: usize) -> PyResult<Vec<(i64, Option<SendMark>)>> {
        let chosen: &ChosenFrames = slf.as_super();
        let told = |send: &i64| {
            chosen.with(py, *send as usize, |_, frame, _| {
                let parts = frame.parts();
                let mark = || (format!("{:08x}", parts.checksum), parts.numbers.published, frame.size() - parts.payload_at);
                Ok((parts.numbers.sequence, (parts.payload_at > 0).then(mark)))
            })
        };
        slf.groups[producer].get().sends.get().0.iter().skip(start).map(told).collect()
    }

    /// Return the number of SENDs with a publish time, and place and offset (ns, publish time minus capture time) of the one that was
    /// captured soonest after it.
    fn published(&self) -> (usize, Option<(usize, i64)>) {
        (self.timed, self.closest)
    }

    /// Return the number of compressed SENDs of a producer, and their bytes before and after.
    fn compressed(slf: PyRef<'_, Self>, py: Python<'_>, producer: usize) -> PyResult<(usize, i64, i64)> {
        let chosen: &ChosenFrames = slf.as_super();
        let (mut entries, mut before, mut after) = (0, 0, 0);
        for place in &slf.groups[producer].get().sends.get().0 {
            chosen.with(py, *place as usize, |_, frame, _| {
                let parts = frame.parts();
                if parts.numbers.compressed {
                    entries += 1;
                    before += i64::from(parts.numbers.uncompressed);
                    after += i64::from(frame.size() - parts.payload_at);
                }
                Ok(())
            })?;
        }
        Ok((entries, before, after))
    }

    /// Return, of every `step`th SEND of a producer from `first` on: the number, the bytes of payload, the time of the last one, the least
    /// time (ns) from its publication to its capture, and the least and the greatest publish time (ms). None if there is none.
    fn sampled(slf: PyRef<'_, Self>, py: Python<'_>, producer: usize, first: usize, step: usize) -> PyResult<Option<Sampled>> {
        let chosen: &ChosenFrames = slf.as_super();
        let mut sampled: Option<Sampled> = None;
        for place in slf.groups[producer].get().sends.get().0.iter().skip(first).step_by(step.max(1)) {
            let (size, time, published, delay) = chosen.with(py, *place as usize, |_, frame, _| {
                let (parts, time) = (frame.parts(), frame.time);
                let published = parts.numbers.published;
                Ok((i64::from(frame.size() - parts.payload_at), time, published, time.saturating_sub(published * MILLISECOND)))
            })?;
            let (count, bytes, _, least, earliest, latest) = sampled.unwrap_or((0, 0, 0, delay, published, published));
            sampled = Some((count + 1, bytes + size, time, least.min(delay), earliest.min(published), latest.max(published)));
        }
        Ok(sampled)
    }

    /// Return the place of the next receipt, from a place on, whose latency is out of bounds, or whose SEND has the time `end` or later;
    /// the length if there is none. `slowest`: highest latency of each producer.
    fn unusual(slf: PyRef<'_, Self>, start: usize, fastest: i64, longest: i64, end: i64, slowest: Vec<i64>) -> usize {
        let is_unusual = |receipt: &&Receipt| {
            let latency = receipt.latency;
            let of_producer = slowest.get(receipt.group).is_none_or(|slowest| latency > *slowest);
            of_producer || latency < fastest || latency > longest || receipt.time - latency >= end
        };
        slf.receipts[slf.receipts_before(start)..].iter().find(is_unusual).map_or(slf.as_super().at.len(), |receipt| receipt.place)
    }

    /// Add the receipts between two places to a dict for each producer, of numbers by latency, rounded to three digits; return how many
    /// each has.
    fn add_latencies(&self, start: usize, stop: usize, counts: Vec<Bound<'_, PyDict>>) -> PyResult<Vec<i64>> {
        let mut added: Vec<(i64, NumberMap<i64, i64>)> = counts.iter().map(|_| Default::default()).collect();
        for receipt in &self.receipts[self.receipts_before(start)..self.receipts_before(stop)] {
            let mut unit = 1_i64;
            while unit.checked_mul(1000).is_some_and(|bound| receipt.latency >= bound) {
                unit *= 10;
            }
            if let Some((count, latencies)) = added.get_mut(receipt.group) {
                *count += 1;
                *latencies.entry(receipt.latency / unit * unit).or_default() += 1;
            }
        }
        for ((_, latencies), counts) in added.iter().zip(&counts) {
            for (latency, count) in latencies {
                let before = counts.get_item(latency)?.map_or(Ok(0), |before| before.extract::<i64>())?;
                counts.set_item(latency, before + count)?;
            }
        }
        Ok(added.into_iter().map(|(count, _)| count).collect())
    }

    /// Return the SENDs of a dict that wait for their receipts, in the form that `received` takes.
    fn waiting_sends(slf: PyRef<'_, Self>, py: Python<'_>, sends: &Bound<'_, PyDict>) -> PyResult<WaitingSends> {
        slf.as_super().with(py, 0, |frames, frame, _| {
            let [source, _, connection, _, _] = frames.names(frame);
            WaitingSends::new(source.extract(py)?, connection.extract(py)?, sends)
        })
    }

    /// Return the facts on the receipts, whose keys are "ledger:entry".
    ///
    /// `sends`: those of the connection that wait for their receipts; those of the stretch are added and removed. `what`: kind of the
    /// facts; `of_topic`: makes the topic that they name, in the form of `engine.packed_facts.pack`.
    fn received(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        sends: &mut WaitingSends,
        what: &str,
        of_topic: &Bound<'_, PyAny>,
    ) -> PyResult<UndecidedFacts> {
        let chosen: &ChosenFrames = slf.as_super();
        caught(|| {
            let frames = chosen.frames.bind(py).try_borrow()?;
            let mut topics = Vec::new();
            for group in &slf.groups {
                let group = group.get();
                let mut packed = Vec::new();
                pack::text("topic", &mut packed);
                pack::optional(of_topic.call1((&group.topic,))?.extract::<Option<String>>()?.as_deref(), &mut packed);
                pack::text("producer_name", &mut packed);
                let name: Option<String> = group.name.as_ref().map(|name| name.extract(py)).transpose()?;
                pack::optional(name.as_deref(), &mut packed);
                pack::text("sent", &mut packed);
                topics.push(packed);
            }
            let mut facts = UndecidedFacts::default();
            let mut receipts = slf.receipts.iter();
            for (place, (entry, position)) in chosen.at.iter().enumerate() {
                let Some(Entry::Frame(frame)) = frames.entries.get(*entry as usize) else { return Err(no_such_place()) };
                let name = (frames.file(frame), frame.packet, i64::from(frame.sub()));
                if frame.named.request.is_none() {
                    sends.sends.insert(name, Waiting::Plain(frame.time));
                    continue;
                }
                let Some(receipt) = receipts.next().filter(|receipt| receipt.place == place) else { return Err(no_such_place()) };
                let numbers = &frame.parts().numbers;
                let sent = sends.sends.remove(&receipt.send);
                let of_python: Option<Sent> = match &sent {
                    Some(Waiting::Python(sent)) => {
                        let (place, checksum, cluster): (Bound<'_, PyList>, _, _) = sent.extract(py)?;
                        Some((place.to_tuple().extract()?, checksum, cluster))
                    }
                    _ => None,
                };
                let cluster = of_python.as_ref().and_then(|(_, _, cluster)| cluster.as_deref());
                facts.add(*position, frame.time, (numbers.ledger, numbers.entry), |fact| {
                    pack::array(3, fact);
                    sends.pack_place(name, frame.time, fact);
                    pack::text(what, fact);
                    pack::map(if cluster.is_some() { 5 } else { 4 }, fact);
                    fact.extend_from_slice(&topics[receipt.group]);
                    let checksum = match (&sent, &of_python) {
                        (Some(Waiting::Plain(time)), _) => {
                            sends.pack_place(receipt.send, *time, fact);
                            Some("good")
                        }
                        (_, Some(((source, file, packet, sub, time, connection), checksum, _))) => {
                            pack::array(6, fact);
                            pack::optional(source.as_deref(), fact);
                            [*file, *packet, *sub, *time].iter().for_each(|number| pack::number(*number, fact));
                            pack::text(connection, fact);
                            Some(checksum.as_str())
                        }
                        _ => {
                            pack::nil(fact);
                            None
                        }
                    };
                    pack::text("checksum", fact);
                    pack::optional(checksum, fact);
                    if let Some(cluster) = cluster {
                        pack::text("from", fact);
                        pack::text(cluster, fact);
                    }
                });
            }
            Ok(facts)
        })
    }
}

/// Place of a SEND, status of its checksum, and the cluster from which its message comes.
type Sent = ((Option<String>, i64, i64, i64, i64, String), String, Option<String>);

fn name_of((file, packet, sub): (i64, i64, i64)) -> String {
    format!("{file}:{packet}.{sub}")
}
