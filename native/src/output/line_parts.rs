//! Parts of lines of text: names and times of frames, numbers and durations.

use std::fmt::Write;

pub const GAP: &str = "  ";
pub const SECOND: i64 = 1_000_000_000;
/// Latency from which minutes are shown, ns.
pub const MINUTES: i64 = 119_500_000_000;

/// Append the name of a frame, with its file if there are several, and the time in nanoseconds since the first packet, in columns that they
/// may widen. `widths`: of times and of names.
pub fn push_place(file: Option<i64>, packet: i64, sub: i64, elapsed: i64, widths: &mut (usize, usize), text: &mut String) {
    let start = text.len();
    if let Some(file) = file {
        let _ = write!(text, "{file}:");
    }
    let _ = write!(text, "{packet}.{sub}");
    align(start, &mut widths.1, text);
    text.push(' ');
    let start = text.len();
    let _ = write!(text, "{}.{:06}", elapsed / SECOND, elapsed % SECOND / 1000);
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
