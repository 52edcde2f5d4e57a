//! SENDs that wait for their receipts, oldest first: the deque of the Python session, without an object for each.

use std::collections::VecDeque;

use pyo3::exceptions::PyIndexError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::frames::changed;
use crate::schema::named::Sent;
use crate::session::kept_sends::{KeptSend, Making};

#[derive(Debug)]
pub enum Waiting {
    Plain(Sent),
    /// A SEND whose message waits with it.
    Kept(Box<KeptSend>),
    /// A Python object, which may have messages.
    Python(Py<PyAny>),
}

impl Waiting {
    fn of(sent: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = sent.py();
        if !sent.getattr(intern!(py, "entry"))?.is_none() {
            return Ok(Waiting::Python(sent.clone().unbind()));
        }
        Ok(Waiting::Plain(Sent::of(sent)?))
    }

    /// Return the data that all SENDs have.
    pub fn sent(&self, py: Python<'_>) -> PyResult<Sent> {
        match self {
            Waiting::Plain(sent) => Ok(*sent),
            Waiting::Kept(kept) => Ok(kept.sent),
            Waiting::Python(sent) => Sent::of(sent.bind(py)),
        }
    }
}

/// SENDs, with the part of the interface of `collections.deque` that the session needs.
#[pyclass(sequence, module = "pulsarscope_native")]
pub struct SentQueue {
    sent_type: Py<PyAny>,
    pub sent: VecDeque<Waiting>,
    /// Makes objects of the kept SENDs, once there are any.
    making: Option<Box<Making>>,
}

impl SentQueue {
    /// Take over the SENDs of a deque.
    pub fn of(sent_type: &Py<PyAny>, deque: &Bound<'_, PyAny>) -> PyResult<Self> {
        let sent = deque.try_iter()?.map(|sent| Waiting::of(&sent?)).collect::<PyResult<_>>()?;
        Ok(SentQueue { sent_type: sent_type.clone_ref(deque.py()), sent, making: None })
    }

    /// Append a SEND whose message waits with it.
    pub fn keep(&mut self, kept: KeptSend, making: impl FnOnce() -> Option<Making>) {
        if self.making.is_none() {
            self.making = making().map(Box::new);
        }
        self.sent.push_back(Waiting::Kept(Box::new(kept)));
    }

    fn object<'py>(&self, py: Python<'py>, waiting: &Waiting) -> PyResult<Bound<'py, PyAny>> {
        match waiting {
            Waiting::Plain(Sent { file, packet, sub, time, sequence }) => {
                self.sent_type.bind(py).call1((*file, *packet, *sub, *time, *sequence, py.None()))
            }
            Waiting::Kept(kept) => self.making.as_ref().ok_or_else(changed)?.sent(py, self.sent_type.bind(py), kept),
            Waiting::Python(sent) => Ok(sent.bind(py).clone()),
        }
    }
}

#[pymethods]
impl SentQueue {
    fn __len__(&self) -> usize {
        self.sent.len()
    }

    fn __getitem__<'py>(&mut self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let waiting = self.sent.get(index).ok_or_else(|| PyIndexError::new_err("no such SEND waits"))?;
        let object = self.object(py, waiting)?;
        if let Some(kept @ Waiting::Kept(_)) = self.sent.get_mut(index) {
            *kept = Waiting::Python(object.clone().unbind()); // it is made once
        }
        Ok(object)
    }

    fn append(&mut self, sent: &Bound<'_, PyAny>) -> PyResult<()> {
        self.sent.push_back(Waiting::of(sent)?);
        Ok(())
    }

    fn popleft<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let waiting = self.sent.pop_front().ok_or_else(|| PyIndexError::new_err("no SEND waits"))?;
        self.object(py, &waiting)
    }

    fn clear(&mut self) {
        self.sent.clear();
    }

    /// Pickle as the deque that Python continues with.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Vec<Bound<'py, PyAny>>,))> {
        let deque = py.import(intern!(py, "collections"))?.getattr(intern!(py, "deque"))?.cast_into::<PyType>()?;
        Ok((deque, (self.sent.iter().map(|waiting| self.object(py, waiting)).collect::<PyResult<_>>()?,)))
    }
}
