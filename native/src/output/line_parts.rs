//! Parts of lines of text: names and times of frames, numbers and durations.

use std::fmt::Write;

use pyo3::prelude::*;

pub const GAP: &str = "  ";
pub const SECOND: i64 = 1_000_000_000;
/// Latency from which minutes are shown, ns.
pub const MINUTES: i64 = 119_500_000_000;

/// The second of the latest time, as a clock of Python shows it.
#[derive(FromPyObject)]
pub struct Seconds<'py> {
    /// Start of the second, and its text up to the point.
    #[pyo3(item(0))]
    start: i64,
    #[pyo3(item(1))]
    text: String,
    /// Returns both for a time; None where Python must write.
    #[pyo3(item(2))]
    of: Bound<'py, PyAny>,
}

impl Seconds<'_> {
    /// Return the nanoseconds of a time after its second, which becomes the latest; None if Python must write.
    pub fn rest(&mut self, time: i64) -> PyResult<Option<i64>> {
        let rest = |start: i64| time.checked_sub(start).filter(|rest| (0..SECOND).contains(rest));
        if rest(self.start).is_none() {
            let Some((start, text)) = self.of.call1((time,))?.extract()? else { return Ok(None) };
            (self.start, self.text) = (start, text);
        }
        Ok(rest(self.start))
    }
}

/// Append the name of a frame, with its file if there are several, and the time in the latest second, in columns that they may widen.
/// `widths`: of times and of names.
pub fn push_place(
    file: Option<i64>,
    (packet, sub): (i64, i64),
    (seconds, rest): (&Seconds<'_>, i64),
    widths: &mut (usize, usize),
    text: &mut String,
) {
    let start = text.len();
    if let Some(file) = file {
        let _ = write!(text, "{file}:");
    }
    let _ = write!(text, "{packet}.{sub}");
    align(start, &mut widths.1, text);
    text.push(' ');
    let start = text.len();
    let _ = write!(text, "{}{:06}", seconds.text, rest / 1000);
    align(start, &mut widths.0, text);
}

/// Align the text from a place on to the right of a column, which it may widen.
fn align(start: usize, width: &mut usize, text: &mut String) {
    let taken = text.len() - start;
    for _ in taken..*width {
        text.insert(start, ' ');
    }
    *width = taken.max(*width);
}

/// Append a number with thousands separators.
pub fn push_thousands(number: i64, out: &mut String) {
    let start = out.len();
    let _ = write!(out, "{number}");
    let first = start + usize::from(number < 0);
    let mut place = out.len();
    while place > first + 3 {
        place -= 3;
        out.insert(place, ',');
    }
}

/// Append a duration below `MINUTES` with three significant digits, like `model.text.duration`.
pub fn push_duration(nanoseconds: i64, micro: &str, out: &mut String) {
    if nanoseconds < 1_000 {
        let _ = write!(out, "{nanoseconds} ns");
        return;
    }
    let (value, unit, micro) = if nanoseconds < 999_500 {
        (nanoseconds as f64 / 1e3, "s", micro)
    } else if nanoseconds < 999_500_000 {
        (nanoseconds as f64 / 1e6, "ms", "")
    } else {
        (nanoseconds as f64 / 1e9, "s", "")
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    let _ = write!(out, "{value:.digits$} {micro}{unit}");
}
