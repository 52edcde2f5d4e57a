//! Payloads as text, in the forms of `dissect.contract.payload_forms`.

use std::borrow::Cow;

use base64::prelude::{Engine, BASE64_STANDARD};

use crate::encoding::json::DIGITS;

#[derive(Clone, Copy)]
pub enum PayloadForm {
    Text,
    Hex,
    Base64,
}

impl PayloadForm {
    /// Return the form of a name; None if there is none.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "text" => Some(PayloadForm::Text),
            "hex" => Some(PayloadForm::Hex),
            "base64" => Some(PayloadForm::Base64),
            _ => None,
        }
    }

    /// Return a payload in this form, in UTF-8.
    pub fn of(self, payload: &[u8]) -> Cow<'_, [u8]> {
        match self {
            PayloadForm::Text if std::str::from_utf8(payload).is_ok() => Cow::Borrowed(payload),
            PayloadForm::Text => Cow::Owned(escaped(payload)),
            PayloadForm::Hex => Cow::Owned(payload.iter().flat_map(|byte| DIGITS[usize::from(*byte)]).collect()),
            PayloadForm::Base64 => Cow::Owned(BASE64_STANDARD.encode(payload).into_bytes()),
        }
    }
}

/// Return bytes as text, with each byte that is not part of a character as its number.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        for byte in chunk.invalid() {
            text.extend_from_slice(b"\\x");
            text.extend_from_slice(&DIGITS[usize::from(*byte)]);
        }
    }
    text
}

/// Return the number of characters of a text in UTF-8.
pub fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}
