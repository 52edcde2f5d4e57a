//! Kept data of messages, both of batches and of single ones.

use crate::encoding::wire::Range;
use crate::schema::named::Sent;

#[derive(Default)]
pub struct Message {
    pub key: Option<Range>,
    /// Range of the pairs of the batch.
    pub properties: Range,
    pub size: u32,
    pub sequence_id: Option<i64>,
    pub event_time: Option<i64>,
    pub key_is_bytes: Option<bool>,
    pub null_value: Option<bool>,
    /// Payload in the requested form.
    pub payload: Option<Range>,
}

/// Kept data of the messages of a batch; ranges are those of texts in `metadata`.
#[derive(Default)]
pub struct Batch {
    /// The metadata of all messages, each with the text of its payload, followed by padding for a copy of a fixed size.
    pub metadata: Vec<u8>,
    pub pairs: Vec<(Range, Range)>,
    pub messages: Vec<Message>,
    pub digests: Vec<[u8; 32]>,
    pub plain_names: Vec<String>,
    /// Further values of messages that are not parts of a batch.
    pub singles: Vec<Single>,
}

impl Batch {
    /// Take the metadata of a message.
    pub fn with(metadata: &[u8]) -> Self {
        Batch { metadata: metadata.to_vec(), ..Batch::default() }
    }

    /// Append the text of a payload, and return its range.
    pub fn add_payload(&mut self, text: &[u8]) -> Range {
        let start = self.metadata.len() as u32;
        self.metadata.extend_from_slice(text);
        (start, self.metadata.len() as u32)
    }

    /// Remove the last message.
    pub fn drop_last(&mut self) {
        if let Some(message) = self.messages.pop() {
            self.pairs.truncate(message.properties.0 as usize);
            self.digests.truncate(self.messages.len());
        }
    }

    pub fn bytes(&self, range: Range) -> &[u8] {
        &self.metadata[range.0 as usize..range.1 as usize]
    }

    /// Return a text, which was checked when the batch was read.
    pub fn text(&self, range: Range) -> &str {
        std::str::from_utf8(self.bytes(range)).unwrap_or_default()
    }
}

/// Values of a message that is not part of a batch, in addition to those that all messages have.
#[derive(Clone, Default)]
pub struct Single {
    pub packet: i64,
    pub sub: u32,
    pub time: i64,
    pub ledger: Option<i64>,
    pub entry: Option<i64>,
    pub published: Option<i64>,
    pub broker_time: Option<i64>,
    pub index: Option<i64>,
    pub name: Option<Range>,
}

/// Columns that only such messages have.
#[derive(Clone, Copy)]
pub enum Own {
    Packet,
    Sub,
    Time,
    Ledger,
    Entry,
    Published,
    BrokerTime,
    Index,
}

impl Own {
    pub fn is_time(self) -> bool {
        matches!(self, Own::Time | Own::Published | Own::BrokerTime)
    }

    pub fn of(self, single: &Single) -> Option<i64> {
        match self {
            Own::Packet => Some(single.packet),
            Own::Sub => Some(i64::from(single.sub)),
            Own::Time => Some(single.time),
            Own::Ledger => single.ledger,
            Own::Entry => single.entry,
            Own::Published => single.published,
            Own::BrokerTime => single.broker_time,
            Own::Index => single.index,
        }
    }
}

/// Values that all messages of a run share: direction, topic and subscription; file, producer or consumer, partition, redelivery count,
/// day.
pub type Shared = (Names, (i64, i64, Option<i64>, Option<i64>, i64));

/// Direction, and the numbers of topic and subscription.
pub type Names = (&'static str, u32, u32);

pub struct Run {
    pub shared: Shared,
    /// Frame of the first message.
    pub first: Sent,
    /// Its number among the entries that are opened in addition to frames.
    pub number: usize,
    pub batch: Batch,
}

/// Messages without a batch, in one call of `Frames.open`.
#[derive(Default)]
pub struct Singles {
    pub run: Option<Run>,
}
