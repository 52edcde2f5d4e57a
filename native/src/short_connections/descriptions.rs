//! What both sides of connections state about themselves: most state the same.

use std::collections::HashMap;

use pyo3::prelude::*;

use crate::frames::{changed, Frames};
use crate::short_connections::conversation::Conversation;

/// Number of cached descriptions, and the largest greetings of one.
const MOST: usize = 1_024;
const GREETINGS_MAX_BYTES: usize = 1_024;

/// Descriptions by the greetings of both sides.
pub struct Descriptions {
    /// Function of the fields of both greetings.
    describe: Py<PyAny>,
    known: HashMap<[Vec<u8>; 2], Py<PyAny>>,
}

impl Descriptions {
    pub fn of(describe: Py<PyAny>) -> Self {
        Descriptions { describe, known: HashMap::new() }
    }

    /// Return the description of a conversation; None for one without greetings of both sides.
    pub fn of_greetings(&mut self, py: Python<'_>, frames: &Frames, conversation: &Conversation) -> PyResult<Py<PyAny>> {
        let Some([client, server]) = conversation.greetings() else { return Ok(py.None()) };
        let key = [client.0.clone(), server.0.clone()];
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone_ref(py));
        }
        let tables = &frames.reader.bind(py).get().tables;
        let fields = |greeting: &(Vec<u8>, usize)| tables.message(py, &greeting.0, greeting.1)?.ok_or_else(changed);
        let described = self.describe.call1(py, (fields(client)?, fields(server)?))?;
        if key.iter().map(Vec::len).sum::<usize>() <= GREETINGS_MAX_BYTES {
            if self.known.len() >= MOST {
                self.known.clear();
            }
            self.known.insert(key, described.clone_ref(py));
        }
        Ok(described)
    }
}
