//! Summaries that Python has written, by content: clients repeat themselves, most of all in short connections.

use std::collections::HashMap;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::frames::{Frame, Frames};

/// Number of summaries that are cached, and maximum size of the fields that they are made of.
const REMEMBERED_MAX: usize = 4096;
const FIELDS_MAX: usize = 1024;

/// Summaries of frames by command, direction, fields, topic and subscription: the only columns from which `protocols/pulsar/text` makes
/// them.
#[pyclass(module = "pulsarscope_native")]
#[derive(Default)]
pub struct Summaries {
    known: HashMap<Vec<u8>, Option<Box<str>>>,
    key: Vec<u8>,
}

#[pymethods]
impl Summaries {
    #[new]
    fn new() -> Self {
        Summaries::default()
    }
}

impl Summaries {
    /// Return the summary of a frame without metadata, which `write` makes of its row; None if it needs escapes, or Python must write it.
    pub fn of(&mut self, py: Python<'_>, frames: &Frames, frame: &Frame, write: &Bound<'_, PyAny>) -> PyResult<Option<&str>> {
        let parts = frame.parts();
        let fields = frames.slice(py, frame, parts.fields);
        if parts.metadata.is_some() || fields.len() > FIELDS_MAX {
            return Ok(None);
        }
        self.key.clear();
        self.key.extend([parts.command, u8::from(frames.is_client(frame))]);
        self.key.extend((fields.len() as u16).to_be_bytes());
        self.key.extend(fields);
        for number in [frame.named.topic, frame.named.subscription] {
            // Quotes around each text, or their absence, show where it ends.
            self.key.extend(number.checked_sub(1).and_then(|place| frames.texts.get(place as usize)).map_or(&b"-"[..], |text| &text.json));
        }
        if !self.known.contains_key(&self.key) {
            let row = frames.named_row(py, frame)?;
            let written = match write.call1((row,)).and_then(|text| text.extract::<String>()) {
                Ok(text) => Some(text.into_boxed_str()).filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte))),
                Err(error) if error.is_instance_of::<PyException>(py) => None, // as Python will find
                Err(error) => return Err(error),
            };
            if self.known.len() >= REMEMBERED_MAX {
                self.known.clear();
            }
            self.known.insert(self.key.clone(), written);
        }
        Ok(self.known.get(&self.key).and_then(Option::as_deref))
    }
}
