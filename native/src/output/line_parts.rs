//! Parts of lines of text: names and times of frames, numbers and durations.

use std::fmt::Write;

use pyo3::prelude::*;

pub const GAP: &str = "  ";
/// Digits of the largest number.
const MOST_DIGITS: usize = 20;
const BLANKS: &str = "                ";
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
    place: (i64, i64),
    (seconds, rest): (&Seconds<'_>, i64),
    widths: &mut (usize, usize),
    text: &mut String,
) {
    let start = text.len();
    push_name(file, place, text);
    align(start, &mut widths.1, text);
    text.push(' ');
    let start = text.len();
    text.push_str(&seconds.text);
    push_digits(rest as u64 / 1000, 6, text);
    align(start, &mut widths.0, text);
}

/// Align the text from a place on to the right of a column, which it may widen.
fn align(start: usize, width: &mut usize, text: &mut String) {
    let taken = text.len() - start;
    let mut missing = width.saturating_sub(taken);
    while missing > 0 {
        let blanks = missing.min(BLANKS.len());
        text.insert_str(start, &BLANKS[..blanks]);
        missing -= blanks;
    }
    *width = taken.max(*width);
}

/// Append the name of a frame, with its file if there are several.
pub fn push_name(file: Option<i64>, (packet, sub): (i64, i64), out: &mut String) {
    if let Some(file) = file {
        push_number(file, out);
        out.push(':');
    }
    push_number(packet, out);
    out.push('.');
    push_number(sub, out);
}

/// Append texts.
pub fn push_all(texts: &[&str], out: &mut String) {
    for text in texts {
        out.push_str(text);
    }
}

/// Append a number.
pub fn push_number(number: i64, out: &mut String) {
    if number < 0 {
        out.push('-');
    }
    push_digits(number.unsigned_abs(), 1, out);
}

/// Append a number with leading zeros, if it has fewer digits than that.
fn push_digits(mut number: u64, least: usize, out: &mut String) {
    let mut digits = [b'0'; MOST_DIGITS];
    let mut first = MOST_DIGITS;
    while number > 0 {
        first -= 1;
        digits[first] += (number % 10) as u8;
        number /= 10;
    }
    let first = first.min(MOST_DIGITS - least);
    out.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

/// Append a number with thousands separators.
pub fn push_thousands(number: i64, out: &mut String) {
    let start = out.len();
    push_number(number, out);
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
        push_number(nanoseconds, out);
        out.push_str(" ns");
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
