//! SENDs of a connection that wait for the facts on their receipts, by name: the dict of a rule, without an object for each.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};

use crate::encoding::pack;
use crate::facts::ordered::Ordered;

/// File, packet and sub: the name of a frame.
pub type Name = (i64, i64, i64);

pub enum Waiting {
    /// A SEND in columns, with a correct checksum: its time.
    Plain(i64),
    /// Python's values for it: place, status of the checksum, and the cluster from which its message comes.
    Python(Py<PyAny>),
}

/// SENDs by name, the oldest first: the part of a dict's interface that the rule of journeys needs.
#[pyclass(mapping, module = "pulsarscope_native")]
pub struct WaitingSends {
    /// Source and name of the connection.
    source: Option<String>,
    connection: String,
    pub sends: Ordered<Name, Waiting>,
}

impl WaitingSends {
    /// Append the packed place of a frame of the connection.
    pub fn pack_place(&self, (file, packet, sub): Name, time: i64, out: &mut Vec<u8>) {
        pack::array(6, out);
        pack::optional(self.source.as_deref(), out);
        [file, packet, sub, time].iter().for_each(|number| pack::number(*number, out));
        pack::text(&self.connection, out);
    }

    fn object<'py>(&self, py: Python<'py>, name: Name, sent: &Waiting) -> PyResult<Bound<'py, PyAny>> {
        match sent {
            Waiting::Plain(time) => {
                let (file, packet, sub) = name;
                let place = (&self.source, file, packet, sub, *time, &self.connection).into_pyobject(py)?.to_list();
                Ok((place, "good", py.None()).into_pyobject(py)?.into_any())
            }
            Waiting::Python(sent) => Ok(sent.bind(py).clone()),
        }
    }

    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.sends.iter().map(|(name, sent)| (text_of(*name), self.object(py, *name, sent)?).into_pyobject(py)).collect()
    }
}

#[pymethods]
impl WaitingSends {
    /// Take over the SENDs of a dict.
    #[new]
    pub fn new(source: Option<String>, connection: String, sends: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut made = WaitingSends { source, connection, sends: Ordered::default() };
        for (name, sent) in sends {
            made.__setitem__(&name, sent.unbind());
        }
        Ok(made)
    }

    fn __len__(&self) -> usize {
        self.sends.len()
    }

    fn __setitem__(&mut self, name: &Bound<'_, PyAny>, sent: Py<PyAny>) {
        if let Some(name) = name_of(name) {
            self.sends.insert(name, Waiting::Python(sent));
        }
    }

    #[pyo3(signature = (name, default=None))]
    fn pop<'py>(&mut self, name: &Bound<'py, PyAny>, default: Option<Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match name_of(name).and_then(|name| Some((name, self.sends.remove(&name)?))) {
            Some((of_send, sent)) => self.object(name.py(), of_send, &sent).map(Some),
            None => Ok(default),
        }
    }

    /// Return the names.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.sends.iter().map(|(name, _)| text_of(*name)))?.try_iter()
    }

    /// Pickle as the dict that Python continues with.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Vec<Bound<'py, PyTuple>>,))> {
        Ok((py.get_type::<PyDict>().into_any(), (self.items(py)?,)))
    }
}

fn text_of((file, packet, sub): Name) -> String {
    format!("{file}:{packet}.{sub}")
}

fn name_of(text: &Bound<'_, PyAny>) -> Option<Name> {
    let text = text.cast::<PyString>().ok()?.to_str().ok()?;
    let (file, rest) = text.split_once(':')?;
    let (packet, sub) = rest.split_once('.')?;
    Some((file.parse().ok()?, packet.parse().ok()?, sub.parse().ok()?))
}
