//! What sessions know about frames.

use pyo3::intern;
use pyo3::prelude::*;

use crate::schema::numbers::Numbers;

/// A SEND without messages.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub file: i64,
    pub packet: i64,
    pub sub: i64,
    pub time: i64,
    pub sequence: i64,
}

impl Sent {
    pub fn of(sent: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = sent.py();
        let number = |name| sent.getattr(name)?.extract::<i64>();
        Ok(Sent {
            file: number(intern!(py, "file"))?,
            packet: number(intern!(py, "packet"))?,
            sub: number(intern!(py, "sub"))?,
            time: number(intern!(py, "time"))?,
            sequence: number(intern!(py, "sequence_id"))?,
        })
    }
}

/// Data that only the session knows about a frame: numbers of texts, counted from 1, and the frame that it answers.
#[derive(Clone, Default)]
pub struct Named {
    pub topic: u32,
    pub producer: u32,
    pub subscription: u32,
    /// Number, counted from 1, of the request that it answers (`frames::Asked`); 0 if it answers none, or a SEND.
    pub asked: u32,
    pub messages: Option<i64>,
    pub request: Option<(i64, i64, i64)>,
    pub latency: Option<i64>,
}

impl Named {
    /// Data of a SEND, with the topic and name of its producer.
    pub fn send(topic: u32, producer: u32, numbers: &Numbers) -> Self {
        Named { topic, producer, messages: Some(numbers.messages.unwrap_or(1)), ..Named::default() }
    }

    /// Data of a MESSAGE, with the topic and subscription of its consumer.
    pub fn message((topic, subscription): (u32, u32), numbers: &Numbers) -> Self {
        Named { messages: Some(numbers.messages.unwrap_or(1)), ..Named::consumer((topic, subscription)) }
    }

    /// Data of any other command of a consumer, with its topic and subscription.
    pub fn consumer((topic, subscription): (u32, u32)) -> Self {
        Named { topic, subscription, ..Named::default() }
    }

    /// Add the frame that this one answers, and the latency; None if it comes before that frame.
    pub fn answering(self, asked: &Sent, answer: &Sent) -> Option<Self> {
        let in_order = asked.time <= answer.time && asked.packet <= answer.packet && asked.file == answer.file;
        let request = Some((asked.file, asked.packet, asked.sub));
        in_order.then(|| Named { request, latency: Some(answer.time - asked.time), ..self })
    }
}
