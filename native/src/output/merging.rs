//! Lines of several processes, each with a key of two numbers, put in order.

use std::io::Write;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

const NUMBER: usize = size_of::<i64>();
const KEY: usize = 2 * NUMBER;

/// Bytes that are searched together for a line end: the compiler makes a few instructions of them.
const TOGETHER: usize = 32;

/// Lines of a process, the first of which have been taken.
struct Stretch<'a> {
    keys: &'a [u8],
    lines: &'a [u8],
    row: usize,
    stop: usize,
    /// Beginning of the line of the row.
    at: usize,
}

impl<'a> Stretch<'a> {
    /// Return the lines from row `start` up to row `stop`; None if there are fewer.
    fn new(keys: &'a [u8], lines: &'a [u8], start: usize, stop: usize) -> Option<Self> {
        if start > stop || stop > keys.len() / KEY {
            return None;
        }
        let mut at = 0;
        for _ in 0..start {
            at = end_of_line(lines, at)?;
        }
        Some(Stretch { keys, lines, row: start, stop, at })
    }

    fn key(&self) -> Option<(i64, i64)> {
        let key = self.keys.get(self.row * KEY..(self.row + 1) * KEY).filter(|_| self.row < self.stop)?;
        let (first, second) = key.split_at(NUMBER);
        Some((i64::from_ne_bytes(first.try_into().ok()?), i64::from_ne_bytes(second.try_into().ok()?)))
    }

    /// Return the lines with keys before another one, or up to it (`with`); None if a line is missing.
    fn take(&mut self, other: Option<(i64, i64)>, with: bool) -> Option<&'a [u8]> {
        let start = self.at;
        while let Some(key) = self.key() {
            if other.is_some_and(|other| key > other || (key == other && !with)) {
                break;
            }
            self.at = end_of_line(self.lines, self.at)?;
            self.row += 1;
        }
        self.lines.get(start..self.at)
    }
}

/// Return the position after the line end of the line that begins at a position.
fn end_of_line(lines: &[u8], at: usize) -> Option<usize> {
    let line = lines.get(at..)?;
    let before = line.chunks_exact(TOGETHER).take_while(|chunk| !chunk.iter().fold(false, |found, byte| found | (*byte == b'\n')));
    let skipped = before.count() * TOGETHER;
    let rest = line.get(skipped..)?.iter().position(|byte| *byte == b'\n')?;
    Some(at + skipped + rest + 1)
}

/// Return the lines in order, as parts of the lines of the stretches.
fn merge(mut stretches: Vec<Stretch<'_>>) -> Option<Vec<&[u8]>> {
    let mut merged = Vec::new();
    loop {
        let keys = stretches.iter().enumerate().filter_map(|(number, stretch)| Some((stretch.key()?, number)));
        let mut first: Option<((i64, i64), usize)> = None;
        let mut second: Option<((i64, i64), usize)> = None;
        for key in keys {
            if first.is_none_or(|least| key < least) {
                second = first.replace(key);
            } else if second.is_none_or(|least| key < least) {
                second = Some(key);
            }
        }
        let Some((_, number)) = first else {
            let are_whole = stretches.iter().all(|stretch| stretch.stop < stretch.keys.len() / KEY || stretch.at == stretch.lines.len());
            return are_whole.then_some(merged);
        };
        // Of equal keys, those of the first stretch come first.
        let with = second.is_some_and(|(_, other)| number < other);
        merged.push(stretches[number].take(second.map(|(key, _)| key), with)?);
    }
}

/// Return lines of several stretches in the order of their keys. Each has the packed keys and the lines of a portion, and a range of rows.
/// None if there are not as many lines as keys.
#[pyfunction]
pub fn merged_lines<'py>(
    py: Python<'py>,
    stretches: Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, usize, usize)>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    crate::caught(|| {
        let made = stretches.iter().map(|(keys, lines, start, stop)| Stretch::new(keys.as_bytes(), lines.as_bytes(), *start, *stop));
        let merged = made.collect::<Option<Vec<_>>>().and_then(merge);
        let write = |parts: Vec<&[u8]>| {
            PyBytes::new_with(py, parts.iter().map(|part| part.len()).sum(), |mut bytes| {
                for part in &parts {
                    bytes.write_all(part)?;
                }
                Ok(())
            })
        };
        merged.map(write).transpose()
    })
}
