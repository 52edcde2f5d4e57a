//! Texts that are written repeatedly: copies of a fixed size need no call.

/// Bytes that are copied at once if present, even if fewer are needed.
pub const STEP: usize = 32;

/// A text followed by padding, so that it can be copied in steps.
#[derive(Clone, Default)]
pub struct Padded {
    steps: Vec<[u8; STEP]>,
    size: usize,
}

impl Padded {
    pub fn of(text: &[u8]) -> Self {
        let step = |part: &[u8]| std::array::from_fn(|place| part.get(place).copied().unwrap_or_default());
        Padded { steps: text.chunks(STEP).map(step).collect(), size: text.len() }
    }

    #[inline]
    pub fn append(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.size;
        for step in &self.steps {
            out.extend_from_slice(step);
        }
        out.truncate(end);
    }
}

/// Append the first `size` bytes.
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
