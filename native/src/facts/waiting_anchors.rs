//! Anchors that wait for those of other legs, as kept by `dissect.contract.legs.WaitingAnchors`.

use std::collections::{HashMap, VecDeque};
use std::mem::take;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::encoding::pack;

/// Anchors with the same content. Very many have no equals, and take no more room than that.
enum Equal {
    One(Py<PyAny>),
    Several(Box<Several>),
}

struct Several {
    /// Server of all of them, if it is the same.
    server: Option<Box<str>>,
    anchors: VecDeque<Py<PyAny>>,
}

type Table = HashMap<Box<str>, Equal>;

#[pyclass(module = "pulsarscope_native")]
#[derive(Default)]
pub struct WaitingAnchors {
    recent: Table,
    older: Table,
    began: i128,
    count: usize,
}

#[pymethods]
impl WaitingAnchors {
    #[new]
    fn new() -> Self {
        WaitingAnchors::default()
    }

    /// Add an anchor to those that wait; return earlier waiting ones with its content, unless all have its server. `limits`: minimum time
    /// to wait, maximum number that wait, and maximum number with the same content.
    pub fn add<'py>(
        &mut self,
        py: Python<'py>,
        key: &str,
        packed: Bound<'py, PyAny>,
        time: i128,
        server: &str,
        limits: (i128, usize, usize),
    ) -> Option<Bound<'py, PyList>> {
        if time - self.began > limits.0 || self.count >= limits.1 {
            (self.older, self.recent, self.began, self.count) = (take(&mut self.recent), Table::new(), time, 0);
        }
        let waiting = [&self.older, &self.recent].into_iter().filter_map(|table| table.get(key));
        let others: Vec<Py<PyAny>> = waiting.flat_map(|equal| equal.of_others(py, server)).collect();
        match self.recent.get_mut(key) {
            None => {
                self.recent.insert(key.into(), Equal::One(packed.unbind()));
                self.count += 1;
            }
            Some(equal) => self.count += equal.add(py, packed.unbind(), server, limits.2),
        }
        if others.is_empty() {
            return None;
        }
        PyList::new(py, others).ok()
    }

    /// Return the waiting anchors, the latest ones and those before, when the latest began, and their number.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let of_table = |table: &Table| table.iter().map(|(key, equal)| equal.state(py, key)).collect::<Vec<_>>();
        (of_table(&self.recent), of_table(&self.older), self.began, self.count).into_pyobject(py)
    }
}

impl Equal {
    /// Return content, common server, anchors, and whether there is a single one.
    fn state(&self, py: Python<'_>, key: &str) -> (String, Option<String>, Vec<Py<PyAny>>, bool) {
        match self {
            Equal::One(packed) => (key.to_owned(), None, vec![packed.clone_ref(py)], true),
            Equal::Several(several) => {
                let anchors = several.anchors.iter().map(|packed| packed.clone_ref(py)).collect();
                (key.to_owned(), several.server.as_deref().map(str::to_owned), anchors, false)
            }
        }
    }

    /// Return the anchors, unless all have this server.
    fn of_others(&self, py: Python<'_>, server: &str) -> Vec<Py<PyAny>> {
        match self {
            Equal::One(packed) if has_server(packed.bind(py), server) => Vec::new(),
            Equal::One(packed) => vec![packed.clone_ref(py)],
            Equal::Several(several) if several.server.as_deref() == Some(server) => Vec::new(),
            Equal::Several(several) => several.anchors.iter().map(|packed| packed.clone_ref(py)).collect(),
        }
    }

    /// Add an anchor of a server, in place of the oldest one if there are too many; return the increase in number.
    fn add(&mut self, py: Python<'_>, packed: Py<PyAny>, server: &str, most: usize) -> usize {
        if let Equal::One(first) = self {
            let of_all = has_server(first.bind(py), server).then(|| server.into());
            *self = Equal::Several(Box::new(Several { server: of_all, anchors: VecDeque::from([first.clone_ref(py)]) }));
        }
        let Equal::Several(several) = self else { return 0 };
        if several.server.as_deref() != Some(server) {
            several.server = None;
        }
        several.anchors.push_back(packed);
        if several.anchors.len() <= most {
            return 1;
        }
        several.anchors.pop_front();
        0
    }
}

/// Return true for a packed anchor with this server, which is packed last.
fn has_server(packed: &Bound<'_, PyAny>, server: &str) -> bool {
    let mut last = Vec::new();
    pack::text(server, &mut last);
    packed.cast::<PyBytes>().is_ok_and(|packed| packed.as_bytes().ends_with(&last))
}
