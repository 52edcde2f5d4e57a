//! Reading of MessagePack in the form of msgspec.

use crate::encoding::wire::Range;

/// Reader of MessagePack that msgspec has written.
pub struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl Reader<'_> {
    pub fn byte(&mut self) -> Option<u8> {
        self.at += 1;
        self.bytes.get(self.at - 1).copied()
    }

    /// Read a big-endian number of `size` bytes.
    fn unsigned(&mut self, size: usize) -> Option<u64> {
        let bytes = self.bytes.get(self.at..self.at + size)?;
        self.at += size;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub fn number(&mut self) -> Option<i64> {
        match self.byte()? {
            head @ 0..=0x7f => Some(head.into()),
            head @ 0xcc..=0xcf => self.unsigned(1 << (head - 0xcc))?.try_into().ok(),
            head @ 0xd0..=0xd3 => {
                let size = 1 << (head - 0xd0);
                let above = 64 - 8 * size as u32;
                Some((self.unsigned(size)? << above) as i64 >> above)
            }
            head @ 0xe0.. => Some((head as i8).into()),
            _ => None,
        }
    }

    /// Read the size of an array.
    pub fn array(&mut self) -> Option<usize> {
        match self.byte()? {
            head @ 0x90..=0x9f => Some((head & 15).into()),
            head @ 0xdc..=0xdd => Some(self.unsigned(2 << (head - 0xdc))? as usize),
            _ => None,
        }
    }

    /// Read a text, or bytes.
    pub fn range(&mut self) -> Option<Range> {
        let size = match self.byte()? {
            head @ 0xa0..=0xbf => (head & 31).into(),
            head @ 0xd9..=0xdb => self.unsigned(1 << (head - 0xd9))? as usize,
            head @ 0xc4..=0xc6 => self.unsigned(1 << (head - 0xc4))? as usize,
            _ => return None,
        };
        let start = self.at;
        self.at = start.checked_add(size).filter(|end| *end <= self.bytes.len())?;
        Some((start.try_into().ok()?, self.at.try_into().ok()?))
    }

    /// Skip a value.
    pub fn skip(&mut self) -> Option<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            let size = match *self.bytes.get(self.at)? {
                0xa0..=0xbf | 0xc4..=0xc6 | 0xd9..=0xdb => {
                    self.range()?;
                    continue;
                }
                0x90..=0x9f | 0xdc..=0xdd => {
                    left += self.array()?;
                    continue;
                }
                head @ 0x80..=0x8f => {
                    left += 2 * usize::from(head & 15);
                    1
                }
                head @ 0xde..=0xdf => {
                    self.at += 1;
                    left += 2 * self.unsigned(2 << (head - 0xde))? as usize;
                    continue;
                }
                0x00..=0x7f | 0xc0 | 0xc2..=0xc3 | 0xe0.. => 1,
                0xca => 5,
                0xcb => 9,
                head @ 0xcc..=0xcf => 1 + (1 << (head - 0xcc)),
                head @ 0xd0..=0xd3 => 1 + (1 << (head - 0xd0)),
                _ => return None,
            };
            self.at += size;
        }
        (self.at <= self.bytes.len()).then_some(())
    }
}
