//! Fields of a frame that sessions and rules need, found while it is checked.

use crate::encoding::wire::Range;
use crate::schema::plans::{Reading, Role};

/// The fields of a command, and of its metadata, that the session needs.
#[derive(Clone)]
pub struct Numbers {
    /// producer_id or consumer_id; −1 if absent.
    pub id: i64,
    /// −1 if absent.
    pub sequence: i64,
    pub has_request: bool,
    /// Number of message ids, and whether the ACK is cumulative.
    pub ids: u32,
    pub cumulative: bool,
    /// Whether the command, or a message in it, has an ack_set.
    pub ack_set: bool,
    /// Whether there is a field of role `Wrapped`, and one of role `Rare`.
    pub wrapped: bool,
    pub rare: bool,
    /// Number of messages according to the metadata.
    pub messages: Option<i64>,
    /// The producer_name of the metadata.
    pub name: Option<Range>,
    /// Ledger and entry of the last message id; −1 if absent.
    pub ledger: i64,
    pub entry: i64,
    /// Publish time of the metadata, ms; 0 if absent.
    pub published: i64,
    pub properties: bool,
    /// Whether the message was copied from another cluster, according to the metadata.
    pub replicated: bool,
    /// The highest_sequence_id of the command; −1 if absent.
    pub highest: i64,
    /// Number of messages according to the command; 1 if absent.
    pub announced: i32,
    /// Whether the metadata name a codec, and the uncompressed size; 0 if absent.
    pub compressed: bool,
    pub uncompressed: u32,
    /// Whether there are fields other than those that rules know, or do not read: bits of `Reading`.
    pub loud: u8,
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers {
            id: -1,
            sequence: -1,
            has_request: false,
            ids: 0,
            cumulative: false,
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
    /// Return true when there are fields whose rows rules need.
    pub fn is_loud(&self, reading: Reading) -> bool {
        self.loud & reading as u8 != 0
    }

    #[inline]
    pub fn keep(&mut self, role: Role, number: impl FnOnce() -> i64) {
        match role {
            Role::ProducerId | Role::ConsumerId => self.id = number(),
            Role::SequenceId => self.sequence = number(),
            Role::RequestId => self.has_request = true,
            Role::MessageId => self.ids += 1,
            Role::AckType => self.cumulative = number() != 0,
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
