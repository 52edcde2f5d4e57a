//! JSON as msgspec writes it, with the characters escaped that `model.text.escape_json` escapes.

use base64::prelude::{Engine, BASE64_STANDARD};

use crate::wire::Range;

const HEX: &[u8; 16] = b"0123456789abcdef";
const SECOND: i64 = 1_000_000_000;

/// Append a number.
pub fn number(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Bytes that are copied at once where they are there, though fewer are asked for: a copy of a fixed size needs no call.
pub const STEP: usize = 32;

/// Append the first bytes, so many of them.
#[inline]
pub fn beginning(bytes: &[u8], size: usize, out: &mut Vec<u8>) {
    match bytes.first_chunk::<STEP>() {
        Some(chunk) if size <= STEP => {
            let end = out.len() + size;
            out.extend_from_slice(chunk);
            out.truncate(end);
        }
        _ => out.extend_from_slice(&bytes[..size]),
    }
}

fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) & (byte != b'"') & (byte != b'\\')
}

/// Return True if the first bytes are plain; all are looked at, which takes no longer.
fn begins_plain(chunk: &[u8; STEP], size: u8) -> bool {
    chunk.iter().zip(0..).fold(true, |plain, (byte, place)| plain & ((place >= size) | is_plain(*byte)))
}

/// Append a text in quotes that lies among others.
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

/// Append a text in quotes.
pub fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    if text.bytes().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
    } else {
        for character in text.chars() {
            escaped(character, out);
        }
    }
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
const DIGITS: [[u8; 2]; 256] = {
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

/// Append eight hexadecimal digits in quotes.
pub fn hex(value: u32, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend((0..8).rev().map(|digit| HEX[(value >> (4 * digit) & 15) as usize]));
    out.push(b'"');
}

/// A time as ISO 8601, of which the seconds are kept for the next one.
pub struct Times {
    second: i64,
    text: String,
}

impl Default for Times {
    fn default() -> Self {
        Times { second: i64::MIN, text: String::new() }
    }
}

impl Times {
    /// Append a time in ns since the epoch, in quotes.
    pub fn write(&mut self, time: i64, out: &mut Vec<u8>) {
        let second = time.div_euclid(SECOND);
        if second != self.second {
            self.second = second;
            let (day, rest) = (second.div_euclid(86_400), second.rem_euclid(86_400));
            let (year, month, date) = civil(day);
            self.text = format!("\"{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.", rest / 3600, rest / 60 % 60, rest % 60);
        }
        out.extend_from_slice(self.text.as_bytes());
        let mut digits = *b"000000000Z\"";
        let mut fraction = time.rem_euclid(SECOND);
        for digit in digits[..9].iter_mut().rev() {
            *digit = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        out.extend_from_slice(&digits);
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
