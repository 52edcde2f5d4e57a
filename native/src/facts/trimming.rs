//! The facts of a key without those that are not evaluated, as found by `engine.packed_facts.trimmed`.

use std::borrow::Cow;
use std::str::from_utf8;

use crate::encoding::pack;
use crate::encoding::unpack::Reader;

/// Words of a fact that MessagePack cannot hold, and of one that replaces dropped ones.
const PICKLED: &[u8] = b"\0pickled";
const DROPPED: &[u8] = b"\0dropped";

/// A packed fact, and its place.
#[derive(Clone)]
struct Fact<'a> {
    source: Option<&'a [u8]>,
    file: i64,
    packet: i64,
    sub: i64,
    time: i64,
    connection: &'a [u8],
    /// If it replaces dropped ones: the time of the latest of them.
    dropped: Option<i64>,
    packed: Cow<'a, [u8]>,
}

impl Fact<'_> {
    fn place(&self) -> (&[u8], i64, i64, i64, &[u8]) {
        (self.source.unwrap_or_default(), self.file, self.packet, self.sub, self.connection)
    }

    fn end(&self) -> i64 {
        self.dropped.unwrap_or(self.time)
    }
}

/// Return consecutive packed facts without those that are not evaluated, and their number; None if only Python can read them.
///
/// `idle`: silence that separates them, ns; `most`: number of facts of a part that are evaluated.
pub fn trimmed(packs: &[u8], count: usize, idle: i64, most: usize) -> Option<(Vec<u8>, u32)> {
    let mut reader = Reader { bytes: packs, at: 0 };
    let mut facts = (0..count).map(|_| read(&mut reader)).collect::<Option<Vec<_>>>().filter(|_| reader.at == packs.len())?;
    facts.sort_by(|one, other| one.place().cmp(&other.place()));
    let mut kept = Vec::new();
    for part in parts(facts, idle) {
        if part.len() <= most {
            kept.extend(part);
            continue;
        }
        let middle = &part[part.len() / 2];
        let earliest = part.iter().map(|fact| fact.time).min()?;
        let latest = part.iter().map(Fact::end).max()?;
        let in_their_place = dropped(middle, earliest, latest)?;
        let given: Vec<Fact> = part.into_iter().filter(|fact| fact.dropped.is_none()).collect();
        let left_out = given.len().checked_sub(most)?;
        let first = most / 2;
        kept.extend(given.into_iter().enumerate().filter(|(at, _)| *at < first || *at >= first + left_out).map(|(_, fact)| fact));
        kept.push(in_their_place);
    }
    kept.sort_by(|one, other| one.place().cmp(&other.place()));
    let packs: Vec<&[u8]> = kept.iter().map(|fact| &*fact.packed).collect();
    Some((packs.concat(), kept.len() as u32))
}

fn read<'a>(reader: &mut Reader<'a>) -> Option<Fact<'a>> {
    let (start, bytes) = (reader.at, reader.bytes);
    if reader.array()? != 3 || reader.array()? != 6 {
        return None;
    }
    let text = |(from, to): (u32, u32)| &bytes[from as usize..to as usize];
    let source = match bytes.get(reader.at)? {
        0xc0 => {
            reader.at += 1;
            None
        }
        _ => Some(text(reader.range()?)),
    };
    let (file, packet, sub, time) = (reader.number()?, reader.number()?, reader.number()?, reader.number()?);
    let (connection, what) = (text(reader.range()?), text(reader.range()?));
    let dropped = match what {
        PICKLED => return None,
        DROPPED => {
            reader.at += 2; // a map of one value, whose name is empty
            Some(reader.number()?)
        }
        _ => {
            reader.skip()?;
            None
        }
    };
    Some(Fact { source, file, packet, sub, time, connection, dropped, packed: Cow::Borrowed(bytes.get(start..reader.at)?) })
}

/// Return the fact that replaces those between the first and the last ones.
fn dropped<'a>(middle: &Fact<'a>, time: i64, latest: i64) -> Option<Fact<'a>> {
    let mut packed = Vec::new();
    pack::array(3, &mut packed);
    pack::array(6, &mut packed);
    pack::optional(middle.source.map(from_utf8).transpose().ok()?, &mut packed);
    [middle.file, middle.packet, middle.sub, time].iter().for_each(|number| pack::number(*number, &mut packed));
    pack::text(from_utf8(middle.connection).ok()?, &mut packed);
    pack::text(from_utf8(DROPPED).ok()?, &mut packed);
    pack::map(1, &mut packed);
    pack::text("", &mut packed);
    pack::number(latest, &mut packed);
    Some(Fact { time, dropped: Some(latest), packed: Cow::Owned(packed), ..middle.clone() })
}

/// Return facts in parts, the earliest first, separated by more than `idle` without a fact.
fn parts(facts: Vec<Fact<'_>>, idle: i64) -> Vec<Vec<Fact<'_>>> {
    let mut spans: Vec<(i64, i64)> = facts.iter().map(|fact| (fact.time, fact.end())).collect();
    spans.sort_unstable();
    let (Some((first, mut latest)), Some((last, _))) = (spans.first().copied(), spans.last()) else { return Vec::new() };
    if last.saturating_sub(first) <= idle {
        return vec![facts];
    }
    let mut begins = Vec::new();
    for (time, end) in spans {
        if time.saturating_sub(latest) > idle {
            begins.push(time);
        }
        latest = latest.max(end);
    }
    let mut parts = vec![Vec::new(); begins.len() + 1];
    for fact in facts {
        parts[begins.partition_point(|begin| *begin <= fact.time)].push(fact);
    }
    parts
}
