//! Columns of messages as buffers of Arrow, without an object for each value.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::caught;
use crate::messages::{Cell, MessageColumn};

/// The values of a column so far, as Arrow lays them out.
#[derive(Default)]
struct Buffers {
    valid: Bits,
    /// Ends of texts, for a column of texts.
    ends: Vec<u8>,
    bytes: Vec<u8>,
    flags: Bits,
    nulls: usize,
}

/// Bits, the least significant of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.count % 8 == 0 {
            self.bytes.push(0);
        }
        if let (true, Some(last)) = (bit, self.bytes.last_mut()) {
            *last |= 1 << (self.count % 8);
        }
        self.count += 1;
    }
}

impl Buffers {
    fn append(&mut self, column: &MessageColumn, index: usize) -> PyResult<()> {
        let before = self.bytes.len();
        let present = match column.cell(index, &mut self.bytes) {
            Cell::Number(number) => {
                self.bytes.extend_from_slice(&number.unwrap_or_default().to_ne_bytes());
                number.is_some()
            }
            Cell::Flag(flag) => {
                self.flags.push(flag.unwrap_or_default());
                flag.is_some()
            }
            Cell::Text(present) => {
                if !present {
                    self.bytes.truncate(before);
                }
                let end =
                    i32::try_from(self.bytes.len()).map_err(|_| PyValueError::new_err("the texts of a column take more than 2 GiB"))?;
                self.ends.extend_from_slice(&end.to_ne_bytes());
                present
            }
        };
        self.valid.push(present);
        self.nulls += usize::from(!present);
        Ok(())
    }
}

/// Return the number of values of a column, which several entries have one behind the other, how many of them are absent, and the buffers:
/// which are there, if some are not; ends of texts, for a column of these; numbers, flags or texts.
#[pyfunction]
pub fn message_buffers<'py>(
    py: Python<'py>,
    columns: Vec<Bound<'py, MessageColumn>>,
) -> PyResult<(usize, usize, Vec<Option<Bound<'py, PyBytes>>>)> {
    caught(|| {
        let mut made = Buffers::default();
        for column in &columns {
            let column = column.get();
            for index in 0..column.len() {
                made.append(column, index)?;
            }
        }
        let mut buffers = vec![(made.nulls > 0).then(|| PyBytes::new(py, &made.valid.bytes))];
        if !made.ends.is_empty() {
            let ends = [0i32.to_ne_bytes().as_slice(), &made.ends].concat();
            buffers.push(Some(PyBytes::new(py, &ends)));
        }
        buffers.push(Some(PyBytes::new(py, if made.flags.count > 0 { &made.flags.bytes } else { &made.bytes })));
        Ok((made.valid.count, made.nulls, buffers))
    })
}
