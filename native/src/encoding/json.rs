//! JSON in the form of msgspec, with the characters escaped that `model.text.escape_json` escapes.

use base64::prelude::{Engine, BASE64_STANDARD};

use crate::encoding::padded::{beginning, STEP};
use crate::encoding::wire::Range;

const HEX: &[u8; 16] = b"0123456789abcdef";
const SECOND: i64 = 1_000_000_000;

/// Numbers of up to eight digits are written at once.
const EIGHT_DIGITS: u64 = 100_000_000;

/// Append a number.
#[inline]
pub fn number(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let value = value.unsigned_abs();
    if value < EIGHT_DIGITS {
        short_number(value, out);
    } else {
        long_number(value, out);
    }
}

fn long_number(value: u64, out: &mut Vec<u8>) {
    if value < EIGHT_DIGITS {
        return short_number(value, out);
    }
    long_number(value / EIGHT_DIGITS, out);
    out.extend_from_slice(&eight_digits(value % EIGHT_DIGITS).to_le_bytes());
}

/// Append a number of up to eight digits.
#[inline]
fn short_number(value: u64, out: &mut Vec<u8>) {
    if value < 10 {
        out.push(b'0' + value as u8);
        return;
    }
    if value < 100 {
        out.extend_from_slice(&[b'0' + (value as u8 / 10), b'0' + (value as u8 % 10)]);
        return;
    }
    let digits = eight_digits(value);
    let zeros = (digits & 0x0f0f_0f0f_0f0f_0f0f).trailing_zeros() / 8;
    let end = out.len() + 8 - zeros as usize;
    out.extend_from_slice(&(digits >> (8 * zeros)).to_le_bytes());
    out.truncate(end);
}

/// Return eight digits, the first one in the lowest byte: halves, quarters and eighths of the number are divided in parallel.
#[inline]
fn eight_digits(value: u64) -> u64 {
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | ((halves - 100 * hundreds) << 16);
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((quarters - 10 * tens) << 8) | 0x3030_3030_3030_3030
}

fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) & (byte != b'"') & (byte != b'\\')
}

/// Return true if the first bytes are plain; all bytes are examined, which takes no longer.
fn begins_plain(chunk: &[u8; STEP], size: u8) -> bool {
    chunk.iter().zip(0..).fold(true, |plain, (byte, place)| plain & ((place >= size) | is_plain(*byte)))
}

/// Append a range of texts in quotes.
#[inline]
pub fn string_in(texts: &[u8], range: Range, out: &mut Vec<u8>) {
    let (start, size) = (range.0 as usize, (range.1 - range.0) as usize);
    match texts[start..].first_chunk::<STEP>() {
        Some(chunk) if size <= STEP && begins_plain(chunk, size as u8) => {
            out.push(b'"');
            beginning(chunk, size, out);
            out.push(b'"');
        }
        _ => string(std::str::from_utf8(&texts[start..start + size]).unwrap_or_default(), out),
    }
}

/// Append a text given as bytes, in quotes; return None if it is not UTF-8.
#[inline]
pub fn string_of(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len() + 1;
    let is_short = match (text.first_chunk::<8>(), text.last_chunk::<8>(), text.first_chunk::<16>(), text.last_chunk::<16>()) {
        (_, _, Some(head), Some(tail)) if text.len() <= 32 => append_both(head, tail, start + text.len(), out),
        (Some(head), Some(tail), None, _) => append_both(head, tail, start + text.len(), out),
        _ => false,
    };
    if !is_short {
        string(std::str::from_utf8(text).ok()?, out);
    }
    Some(())
}

/// Append a quote, a text given by its overlapping head and tail up to place `end`, and a quote, if both are plain.
#[inline]
fn append_both<const SIZE: usize>(head: &[u8; SIZE], tail: &[u8; SIZE], end: usize, out: &mut Vec<u8>) -> bool {
    let plain = head.iter().chain(tail).fold(true, |plain, byte| plain & is_plain(*byte));
    if plain {
        out.push(b'"');
        out.extend_from_slice(head);
        out.truncate(end - SIZE);
        out.extend_from_slice(tail);
        out.push(b'"');
    }
    plain
}

/// Append a text in quotes.
pub fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(place) = rest.bytes().position(|byte| !is_plain(byte)) {
        out.extend_from_slice(&rest.as_bytes()[..place]);
        let mut characters = rest[place..].chars();
        if let Some(character) = characters.next() {
            escaped(character, out);
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

fn escaped(character: char, out: &mut Vec<u8>) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            let code = character as usize;
            out.extend_from_slice(b"\\u");
            out.extend([12, 8, 4, 0].map(|shift| HEX[code >> shift & 15]));
        }
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Append bytes in base64, in quotes.
pub fn bytes(data: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(BASE64_STANDARD.encode(data).as_bytes());
    out.push(b'"');
}

/// Append true or false.
pub fn boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Two hexadecimal digits for each byte.
pub const DIGITS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [HEX[byte >> 4], HEX[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Append two hexadecimal digits of each byte.
pub fn digits(digest: &[u8; 32], out: &mut Vec<u8>) {
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&DIGITS[usize::from(*byte)]);
    }
    out.extend_from_slice(&text);
}

/// Return eight hexadecimal digits.
#[inline]
pub fn hex(value: u32) -> [u8; 8] {
    let [[a, b], [c, d], [e, f], [g, h]] = value.to_be_bytes().map(|byte| DIGITS[usize::from(byte)]);
    [a, b, c, d, e, f, g, h]
}

/// A time as ISO 8601, cached for the next one.
pub struct Times {
    second: i64,
    time: i64,
    text: [u8; TIME_BYTES],
}

/// Size of a time in quotes: the years of 64-bit ns have four digits.
const TIME_BYTES: usize = 32;
/// Places of the fraction.
const FRACTION: Range = (21, 29);

impl Default for Times {
    fn default() -> Self {
        Times { second: i64::MIN, time: i64::MIN, text: [0; TIME_BYTES] }
    }
}

impl Times {
    /// Append a time in ns since the epoch, in quotes.
    #[inline]
    pub fn write(&mut self, time: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.quoted(time));
    }

    /// Append a time without quotes.
    pub fn write_plain(&mut self, time: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.quoted(time)[1..TIME_BYTES - 1]);
    }

    #[inline]
    fn quoted(&mut self, time: i64) -> &[u8; TIME_BYTES] {
        if time != self.time || self.second == i64::MIN {
            self.set(time);
        }
        &self.text
    }

    fn set(&mut self, time: i64) {
        let second = time.div_euclid(SECOND);
        if second != self.second {
            self.second = second;
            let (day, rest) = (second.div_euclid(86_400), second.rem_euclid(86_400));
            let (year, month, date) = civil(day);
            let text = format!("\"{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.000000000Z\"", rest / 3600, rest / 60 % 60, rest % 60);
            for (to, from) in self.text.iter_mut().zip(text.bytes()) {
                *to = from;
            }
        }
        self.time = time;
        let fraction = time.rem_euclid(SECOND) as u64;
        self.text[FRACTION.0 as usize..FRACTION.1 as usize].copy_from_slice(&eight_digits(fraction / 10).to_le_bytes());
        self.text[FRACTION.1 as usize] = b'0' + (fraction % 10) as u8;
    }
}

/// Return year, month and day of the month of a day since the epoch (Howard Hinnant, chrono-Compatible Low-Level Date Algorithms).
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, date)
}
