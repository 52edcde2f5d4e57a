//! Pieces of a stream: payloads of segments, and the packets that brought them.

use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice, PyTuple, PyType};
use pyo3::IntoPyObjectExt;

/// A payload as a range of a buffer.
#[derive(Clone, Copy)]
pub struct Piece {
    pub buffer: u32,
    pub start: u32,
    pub end: u32,
    pub packet: i64,
    pub time: i64,
    pub moment: i64,
}

/// Consecutive pieces of a stream: a sequence of `tcp.pieces.Piece`, each made on access.
#[pyclass(sequence, frozen, module = "pulsarscope_native")]
pub struct Pieces {
    pub buffers: Vec<Py<PyBytes>>,
    pub pieces: Vec<Piece>,
}

/// Return the item at an index, which counts from the end if negative, or a list of the items of a slice; `make` makes each of `count`.
pub fn item<'py, T: IntoPyObject<'py>>(
    index: &Bound<'py, PyAny>,
    count: usize,
    make: impl Fn(usize) -> PyResult<T>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = index.py();
    let Ok(slice) = index.cast::<PySlice>() else {
        let index: isize = index.extract()?;
        let place = if index < 0 { index + isize::try_from(count)? } else { index };
        let known = usize::try_from(place).ok().filter(|place| *place < count);
        return make(known.ok_or_else(|| PyIndexError::new_err("no such item"))?)?.into_bound_py_any(py);
    };
    let range = slice.indices(isize::try_from(count)?)?;
    let places = (0..range.slicelength).map(|step| (range.start + step as isize * range.step) as usize);
    Ok(PyList::new(py, places.map(make).collect::<PyResult<Vec<_>>>()?)?.into_any())
}

impl Pieces {
    fn tuple<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
        let piece = self.pieces[index];
        let payload = PyBytes::new(py, &self.buffers[piece.buffer as usize].as_bytes(py)[piece.start as usize..piece.end as usize]);
        (payload, piece.packet, piece.time, piece.moment).into_pyobject(py)
    }

    /// Return the pieces as a list.
    pub fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, (0..self.pieces.len()).map(|index| self.tuple(py, index)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Return all bytes joined, and the places of the pieces.
    pub fn joined<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Vec<Place>)> {
        let data = PyBytes::new_with(py, self.size(), |out| {
            self.copy_to(py, out);
            Ok(())
        })?;
        let mut places = Vec::with_capacity(self.pieces.len());
        self.place(0, &mut places);
        Ok((data, places))
    }

    /// Copy all bytes to a place with room for them.
    fn copy_to(&self, py: Python<'_>, mut out: &mut [u8]) {
        for piece in &self.pieces {
            let payload = &self.buffers[piece.buffer as usize].as_bytes(py)[piece.start as usize..piece.end as usize];
            let (to, behind) = out.split_at_mut(payload.len());
            to.copy_from_slice(payload);
            out = behind;
        }
    }

    /// Return the pieces from the index `first` on, with a copy of their bytes.
    fn copied(&self, py: Python<'_>, first: usize) -> PyResult<Self> {
        let mut last =
            Pieces { buffers: self.buffers.iter().map(|buffer| buffer.clone_ref(py)).collect(), pieces: self.pieces[first..].to_vec() };
        let (data, _) = last.joined(py)?;
        let mut start = 0;
        for piece in &mut last.pieces {
            let size = piece.end - piece.start;
            (piece.buffer, piece.start, piece.end) = (0, start, start + size);
            start += size;
        }
        last.buffers = vec![data.unbind()];
        Ok(last)
    }

    /// Append the places of the pieces, which begin at a stream offset; return the offset after them.
    fn place(&self, offset: i64, places: &mut Vec<Place>) -> i64 {
        let mut end = offset;
        for piece in &self.pieces {
            end += i64::from(piece.end - piece.start);
            places.push(Place { end, packet: piece.packet, time: piece.time, moment: piece.moment });
        }
        end
    }
}

#[pymethods]
impl Pieces {
    fn __len__(&self) -> usize {
        self.pieces.len()
    }

    /// Size of all pieces, bytes.
    pub fn size(&self) -> usize {
        self.pieces.iter().map(|piece| (piece.end - piece.start) as usize).sum()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        item(index, self.pieces.len(), |place| self.tuple(py, place))
    }

    /// The pieces with bytes between two positions, counted from the beginning of the first one, with their positions.
    fn within<'py>(&self, py: Python<'py>, low: i64, high: i64) -> PyResult<Vec<(i64, Bound<'py, PyTuple>)>> {
        let (mut found, mut start) = (Vec::new(), 0);
        for (index, piece) in self.pieces.iter().enumerate() {
            let end = start + i64::from(piece.end - piece.start);
            if start >= high {
                break;
            }
            if end > low {
                found.push((start, self.tuple(py, index)?));
            }
            start = end;
        }
        Ok(found)
    }

    /// The last pieces, which end at stream offset `end`, back to one that begins at or before `floor`, with their own bytes, so that the
    /// block can be released; and the offset at which they begin.
    fn latest(&self, py: Python<'_>, mut end: i64, floor: i64) -> PyResult<(Pieces, i64)> {
        let mut first = self.pieces.len();
        while end > floor && first > 0 {
            first -= 1;
            end -= i64::from(self.pieces[first].end - self.pieces[first].start);
        }
        Ok((self.copied(py, first)?, end))
    }

    /// The pieces with their own bytes, so that the blocks can be released; the same object if it already has its own bytes.
    fn owned<'py>(pieces: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, own) = (pieces.py(), pieces.get());
        match own.buffers.as_slice() {
            [buffer] if buffer.as_bytes(py).len() == own.size() => Ok(pieces.clone()),
            _ => Bound::new(py, own.copied(py, 0)?),
        }
    }

    /// Pickle as the list that Python continues with.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyList>,))> {
        Ok((py.get_type::<PyList>(), (self.list(py)?,)))
    }
}

/// A piece by the stream offset after it, and its packet.
#[derive(Clone, Copy)]
pub struct Place {
    pub end: i64,
    pub packet: i64,
    pub time: i64,
    pub moment: i64,
}

/// Pieces of waiting bytes, and the stream offsets after them, as Python lists.
pub struct Waiting<'a, 'py> {
    pub pieces: &'a Bound<'py, PyAny>,
    pub ends: Vec<i64>,
}

impl Waiting<'_, '_> {
    /// Return their places, followed by those of pieces that begin at a stream offset, and the offset after these.
    pub fn places(self, offset: i64, following: &Pieces) -> PyResult<(Vec<Place>, i64)> {
        let mut places = Vec::with_capacity(self.ends.len() + following.pieces.len());
        for (piece, end) in self.pieces.try_iter()?.zip(self.ends) {
            let (_, packet, time, moment): (Bound<'_, PyAny>, i64, i64, i64) = piece?.extract()?;
            places.push(Place { end, packet, time, moment });
        }
        let end = following.place(offset, &mut places);
        Ok((places, end))
    }
}

/// Joined bytes of a stream that are not framed yet, with the packets that brought them.
#[pyclass(frozen, module = "pulsarscope_native")]
pub struct Joined {
    #[pyo3(get)]
    data: Py<PyBytes>,
    base: i64,
    /// Stream offset at which the first piece begins, unless it was already the first one before.
    #[pyo3(get)]
    begun: Option<i64>,
    places: Arc<Vec<Place>>,
}

impl Joined {
    /// Keep bytes that begin at stream offset `base`, and those places that have bytes there.
    pub fn of(data: Bound<'_, PyBytes>, base: i64, places: &[Place]) -> Self {
        let first = places.partition_point(|place| place.end <= base);
        Joined {
            data: data.unbind(),
            base,
            begun: first.checked_sub(1).map(|before| places[before].end),
            places: Arc::new(places[first..].to_vec()),
        }
    }
}

#[pymethods]
impl Joined {
    /// Join waiting bytes, with the pieces and ends of `dissect.StreamBuffer`, and pieces that begin at stream offset `offset`.
    #[new]
    fn new(
        py: Python<'_>,
        waiting: &Bound<'_, PyBytes>,
        pieces: &Bound<'_, PyAny>,
        ends: Vec<i64>,
        offset: i64,
        following: &Bound<'_, Pieces>,
    ) -> PyResult<Self> {
        let following = following.get();
        let (places, end) = Waiting { pieces, ends }.places(offset, following)?;
        let waiting = waiting.as_bytes();
        let size = waiting.len() + usize::try_from(end - offset)?;
        let data = PyBytes::new_with(py, size, |out| {
            let (head, rest) = out.split_at_mut(waiting.len());
            head.copy_from_slice(waiting);
            following.copy_to(py, rest);
            Ok(())
        })?;
        let base = offset - i64::try_from(waiting.len())?;
        Ok(Joined { data: data.unbind(), base, begun: None, places: Arc::new(places) })
    }

    #[getter]
    fn pieces(&self, py: Python<'_>) -> JoinedPieces {
        JoinedPieces { data: self.data.clone_ref(py), base: self.base, places: self.places.clone() }
    }

    #[getter]
    fn ends(&self) -> JoinedEnds {
        JoinedEnds { places: self.places.clone() }
    }
}

/// The pieces of joined bytes: a sequence of `tcp.pieces.Piece`, each made on access.
#[pyclass(sequence, frozen, module = "pulsarscope_native")]
pub struct JoinedPieces {
    data: Py<PyBytes>,
    base: i64,
    pub places: Arc<Vec<Place>>,
}

impl JoinedPieces {
    fn tuple<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
        let Place { end, packet, time, moment } = self.places[index];
        let start = index.checked_sub(1).map_or(self.base, |before| self.places[before].end).max(self.base);
        let data = self.data.as_bytes(py);
        let payload = data.get(usize::try_from(start - self.base)?..usize::try_from(end - self.base)?).unwrap_or_default();
        (PyBytes::new(py, payload), packet, time, moment).into_pyobject(py)
    }
}

#[pymethods]
impl JoinedPieces {
    fn __len__(&self) -> usize {
        self.places.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        item(index, self.places.len(), |place| self.tuple(py, place))
    }
}

/// The stream offsets after the pieces of joined bytes.
#[pyclass(sequence, frozen, module = "pulsarscope_native")]
pub struct JoinedEnds {
    places: Arc<Vec<Place>>,
}

#[pymethods]
impl JoinedEnds {
    fn __len__(&self) -> usize {
        self.places.len()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        item(index, self.places.len(), |place| Ok(self.places[place].end))
    }
}

/// Places of the pieces of a buffer, joined or as Python lists.
pub enum Places<'py> {
    Joined(Arc<Vec<Place>>),
    Lists(Bound<'py, PyAny>, Bound<'py, PyAny>),
}

impl<'py> Places<'py> {
    pub fn of(pieces: &Bound<'py, PyAny>, ends: &Bound<'py, PyAny>) -> Self {
        match pieces.cast::<JoinedPieces>() {
            Ok(joined) => Places::Joined(joined.get().places.clone()),
            Err(_) => Places::Lists(pieces.clone(), ends.clone()),
        }
    }

    /// Return the index, from `first` on, of the first piece that ends at or after `stop`, and its place.
    pub fn find(&self, first: usize, stop: i64) -> PyResult<(usize, Place)> {
        match self {
            Places::Joined(places) => {
                let index = first_at_least(first, places.len(), |index| Ok(places[index].end >= stop))?;
                let place = places.get(index).ok_or_else(|| PyIndexError::new_err("a frame ends behind its pieces"))?;
                Ok((index, *place))
            }
            Places::Lists(pieces, ends) => {
                let index = first_at_least(first, ends.len()?, |index| Ok(ends.get_item(index)?.extract::<i64>()? >= stop))?;
                let (_, packet, time, moment): (Bound<'_, PyAny>, i64, i64, i64) = pieces.get_item(index)?.extract()?;
                Ok((index, Place { end: ends.get_item(index)?.extract()?, packet, time, moment }))
            }
        }
    }
}

/// Return the first index from `first` on that is far enough, usually the next one; `count` if there is none.
fn first_at_least(first: usize, count: usize, mut is_enough: impl FnMut(usize) -> PyResult<bool>) -> PyResult<usize> {
    let (mut low, mut high, mut step) = (first, count, 1);
    while low + step < high {
        if is_enough(low + step - 1)? {
            high = low + step - 1;
            break;
        }
        low += step;
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}
