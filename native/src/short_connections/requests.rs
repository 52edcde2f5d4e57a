//! Requests of short connections, and the names remembered for them.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::schema::named::Sent;

/// A text that is kept from one block to the next.
pub type Name = Option<Py<PyString>>;

/// A waiting request, with its names.
pub struct Request {
    pub sent: Sent,
    pub command: u8,
    pub id: i64,
    /// The name that a client chose for its consumer.
    pub chosen: Name,
    pub topic: Name,
    pub name: Name,
    pub subscription: Name,
    /// The producer that it creates.
    pub creates: Option<i64>,
}
