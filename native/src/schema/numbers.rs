//! What sessions and rules ask of a frame, found while it is checked.

use crate::encoding::wire::Range;
use crate::schema::plans::{Reading, Role};

/// The fields of a command that the session asks for, and of its metadata.
#[derive(Clone)]
pub struct Numbers {
    /// producer_id or consumer_id; −1 without one.
    pub id: i64,
    /// −1 without one.
    pub sequence: i64,
    pub has_request: bool,
    /// It, or a message in it, has an ack_set.
    pub ack_set: bool,
    /// A field of role `Wrapped`, and of role `Rare`, is there.
    pub wrapped: bool,
    pub rare: bool,
    /// Messages that the metadata counts.
    pub messages: Option<i64>,
    /// The producer_name of the metadata.
    pub name: Option<Range>,
    /// Ledger and entry of the message id; −1 without one.
    pub ledger: i64,
    pub entry: i64,
    /// Time of the metadata, in ms; 0 without one.
    pub published: i64,
    pub properties: bool,
    /// The metadata says that the message was copied from another cluster.
    pub replicated: bool,
    /// The highest_sequence_id of the command; −1 without one.
    pub highest: i64,
    /// Messages that the command counts; 1 where it counts none.
    pub announced: i32,
    /// The metadata names a codec, and the size without it; 0 without one.
    pub compressed: bool,
    pub uncompressed: u32,
    /// There are fields beside those that rules know, or that they do not read: bits of `Reading`.
    pub loud: u8,
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers {
            id: -1,
            sequence: -1,
            has_request: false,
            ack_set: false,
            wrapped: false,
            rare: false,
            messages: None,
            name: None,
            ledger: -1,
            entry: -1,
            published: 0,
            properties: false,
            replicated: false,
            highest: -1,
            announced: 1,
            compressed: false,
            uncompressed: 0,
            loud: 0,
        }
    }
}

impl Numbers {
    /// Return true when there are fields that rules need a row for.
    pub fn is_loud(&self, reading: Reading) -> bool {
        self.loud & reading as u8 != 0
    }

    #[inline]
    pub fn keep(&mut self, role: Role, number: impl FnOnce() -> i64) {
        match role {
            Role::ProducerId | Role::ConsumerId => self.id = number(),
            Role::SequenceId => self.sequence = number(),
            Role::RequestId => self.has_request = true,
            Role::AckSet => self.ack_set = true,
            Role::Messages => {
                self.messages = Some(number());
                self.wrapped = true;
            }
            Role::Compression => {
                self.compressed = number() != 0;
                self.wrapped = true;
            }
            Role::Wrapped => self.wrapped = true,
            Role::Rare => self.rare = true,
            Role::PublishTime => self.published = number(),
            Role::Properties => self.properties = true,
            Role::ReplicatedFrom => self.replicated = true,
            Role::HighestSequenceId => self.highest = number(),
            Role::Announced => self.announced = number() as i32,
            Role::UncompressedSize => self.uncompressed = number() as u32,
            Role::WrappedAndRare => {
                self.wrapped = true;
                self.rare = true;
            }
            _ => {}
        }
    }
}
