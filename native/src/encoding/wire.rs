//! Cursor over bytes from the wire: reads never go beyond their end.

/// Start and end.
pub type Range = (u32, u32);

/// The remaining bytes.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Take a varint of at most ten bytes.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        if first < 128 {
            self.0 = rest;
            return Some(u64::from(first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for index in 0..10 {
            let byte = *self.0.get(index)?;
            value |= u64::from(byte & 127) << (7 * index);
            if byte < 128 {
                self.0 = self.0.get(index + 1..)?;
                return Some(value);
            }
        }
        None
    }

    /// Take `size` bytes.
    #[inline]
    pub fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(size).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    /// Take a big-endian number of four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    /// Take a magic number if it comes next.
    #[inline]
    pub fn magic(&mut self, magic: [u8; 2]) -> bool {
        let there = self.0.starts_with(&magic);
        if there {
            self.0 = &self.0[2..];
        }
        there
    }
}
