//! Plans of messages: their fields by tag, made from those of the Python package.

use std::collections::{HashMap, HashSet};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::encoding::json;
use crate::encoding::padded::Padded;

const FIELDS_MAX: usize = 64;
const TAGS_MAX: u32 = 4096;
const NO_ROW: u8 = u8::MAX;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Int64,
    Int32,
    Uint32,
    Bool,
    Enum,
    String,
    Bytes,
    Message,
    /// Credentials, which Python describes.
    SecretString,
    SecretBytes,
}

/// Kinds by their numbers in Python; there are no tables of the others.
const KINDS: [Option<Kind>; 11] = [
    Some(Kind::Int64),
    Some(Kind::Int32),
    Some(Kind::Uint32),
    Some(Kind::Bool),
    Some(Kind::Enum),
    Some(Kind::String),
    Some(Kind::Bytes),
    Some(Kind::Message),
    None,
    Some(Kind::SecretString),
    Some(Kind::SecretBytes),
];

/// A Python text, also in its JSON form.
pub struct Text {
    pub text: Py<PyString>,
    pub json: Vec<u8>,
    pub padded: Padded,
}

impl Text {
    pub fn new(text: &Bound<'_, PyString>) -> PyResult<Self> {
        let mut quoted = Vec::new();
        json::string(text.to_cow()?.as_ref(), &mut quoted);
        Ok(Text { text: text.clone().unbind(), padded: Padded::of(&quoted), json: quoted })
    }
}

/// Fields that sessions and summaries need.
#[derive(Clone, Copy, PartialEq)]
pub enum Role {
    ProducerId,
    ConsumerId,
    SequenceId,
    HighestSequenceId,
    RequestId,
    MessageId,
    LedgerId,
    EntryId,
    Partition,
    BatchIndex,
    RedeliveryCount,
    Permits,
    AckType,
    AckSet,
    Announced,
    Error,
    Compression,
    Key,
    ProducerName,
    Messages,
    PublishTime,
    UncompressedSize,
    BrokerTime,
    Index,
    Properties,
    Topic,
    Subscription,
    Ready,
    LargestMessage,
    ReplicatedFrom,
    Schema,
    ConsumerName,
    /// The name of an error, its text, and whether a request failed.
    Failure,
    Said,
    Outcome,
    /// In metadata: there is something to open in the payload.
    Wrapped,
    /// Only Python can put it into words.
    Rare,
    /// Both of these.
    WrappedAndRare,
    Other,
}

impl Role {
    fn of(name: &str, wrapped: bool, rare: bool) -> Self {
        match name {
            "num_messages_in_batch" => Role::Messages,
            "compression" => Role::Compression,
            "partition_key" => Role::Key,
            _ if wrapped && rare => Role::WrappedAndRare,
            _ if wrapped => Role::Wrapped,
            _ if rare => Role::Rare,
            "producer_id" => Role::ProducerId,
            "consumer_id" => Role::ConsumerId,
            "sequence_id" => Role::SequenceId,
            "highest_sequence_id" => Role::HighestSequenceId,
            "request_id" => Role::RequestId,
            "message_id" => Role::MessageId,
            "ledgerId" => Role::LedgerId,
            "entryId" => Role::EntryId,
            "partition" => Role::Partition,
            "batch_index" => Role::BatchIndex,
            "redelivery_count" => Role::RedeliveryCount,
            "messagePermits" => Role::Permits,
            "ack_type" => Role::AckType,
            "ack_set" => Role::AckSet,
            "num_messages" => Role::Announced,
            "validation_error" => Role::Error,
            "producer_name" => Role::ProducerName,
            "publish_time" => Role::PublishTime,
            "uncompressed_size" => Role::UncompressedSize,
            "broker_timestamp" => Role::BrokerTime,
            "index" => Role::Index,
            "properties" => Role::Properties,
            "topic" => Role::Topic,
            "subscription" => Role::Subscription,
            "producer_ready" => Role::Ready,
            "max_message_size" => Role::LargestMessage,
            "replicated_from" => Role::ReplicatedFrom,
            "schema" => Role::Schema,
            "consumer_name" => Role::ConsumerName,
            "error" | "error_code" => Role::Failure,
            "message" | "error_message" => Role::Said,
            "response" => Role::Outcome,
            _ => Role::Other,
        }
    }
}

/// What rules read in columns.
#[derive(Clone, Copy)]
pub enum Reading {
    /// SENDs and their receipts.
    Publishing = 1,
    /// MESSAGEs.
    Delivering = 2,
    /// ACKs.
    Acknowledging = 4,
}

/// A value of a field, as passed by `Tables::visit`.
pub enum Value<'a> {
    Number(i64),
    Flag(bool),
    /// A name of an enumeration, as JSON.
    Name(&'a [u8]),
    Text(&'a [u8]),
    Message(&'a [u8], usize),
    Other,
}

pub struct Field {
    pub name: Text,
    /// JSON text before its first value, if it is the first field, and if it follows another.
    pub opening: [Padded; 2],
    pub kind: Kind,
    pub role: Role,
    /// Whether rules need a row because of this field: bits of `Reading`.
    pub loud: u8,
    pub repeated: bool,
    pub names: HashMap<u64, Text>,
    pub inner: usize,
}

pub struct Plan {
    row_of_tag: Vec<u8>,
    pub fields: Vec<Field>,
    pub required: u64,
    /// Whether the first field tells that the second is a secret.
    pub hides_value: bool,
}

pub type FieldRow<'py> = (u32, Bound<'py, PyString>, usize, bool, HashMap<u64, Bound<'py, PyString>>, usize, bool);
pub type PlanRow<'py> = (Vec<FieldRow<'py>>, bool);

/// Names of the fields of role `Wrapped`, of role `Rare`, and of those of each `Reading` that rules know or do not read.
pub type Names = (HashSet<String>, HashSet<String>, [HashSet<String>; 3]);

impl Kind {
    pub fn number(self, varint: u64) -> i64 {
        match self {
            Kind::Int64 => varint as i64,
            Kind::Int32 => i64::from(varint as i32),
            _ => i64::from(varint as u32),
        }
    }
}

impl Plan {
    pub fn new((rows, hides_value): PlanRow<'_>, plans: usize, names: &Names) -> PyResult<Self> {
        let (wrapped, rare, quiet) = names;
        let mut plan = Plan { row_of_tag: Vec::new(), fields: Vec::new(), required: 0, hides_value };
        for (tag, name, kind, repeated, names, inner, required) in rows {
            let index = plan.fields.len();
            let known = KINDS.get(kind).copied().flatten();
            let Some(kind) = known.filter(|kind| tag < TAGS_MAX && index < FIELDS_MAX && (*kind != Kind::Message || inner < plans)) else {
                return Err(PyValueError::new_err("unknown form of a table"));
            };
            if plan.row_of_tag.len() <= tag as usize {
                plan.row_of_tag.resize(tag as usize + 1, NO_ROW);
            }
            plan.row_of_tag[tag as usize] = index as u8;
            if required {
                plan.required |= 1 << index;
            }
            let text: String = name.extract()?;
            let role = Role::of(&text, wrapped.contains(&text), rare.contains(&text));
            let of_reading = |reading: Reading, known: &HashSet<String>| if known.contains(&text) { 0 } else { reading as u8 };
            let readings = [Reading::Publishing, Reading::Delivering, Reading::Acknowledging];
            let loud = readings.into_iter().zip(quiet).fold(0, |loud, (reading, known)| loud | of_reading(reading, known));
            let name = Text::new(&name)?;
            let list: &[u8] = if repeated { b"[" } else { b"" };
            let opening = ["{", ","].map(|before| Padded::of(&[before.as_bytes(), &name.json, b":", list].concat()));
            let names = names.iter().map(|(number, name)| Ok((*number, Text::new(name)?))).collect::<PyResult<_>>()?;
            plan.fields.push(Field { name, opening, kind, role, loud, repeated, names, inner });
        }
        Ok(plan)
    }

    #[inline]
    pub fn row(&self, tag: u64) -> Option<usize> {
        let row = *self.row_of_tag.get(usize::try_from(tag).ok()?)?;
        (row != NO_ROW).then_some(row as usize)
    }
}
