//! Maps and sets whose keys are numbers or short texts, with a hash that takes a few instructions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

pub type NumberMap<K, V> = HashMap<K, V, NumberHashing>;
pub type NumberSet<K> = HashSet<K, NumberHashing>;

/// Odd number with its bits spread: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Hashes numbers from a start that is random in each process, since numbers come from captures.
#[derive(Clone)]
pub struct NumberHashing {
    start: u64,
}

impl Default for NumberHashing {
    fn default() -> Self {
        static START: OnceLock<u64> = OnceLock::new();
        NumberHashing { start: *START.get_or_init(|| RandomState::new().hash_one(MULTIPLIER)) }
    }
}

impl BuildHasher for NumberHashing {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.start)
    }
}

/// State of a hash: each number is mixed in by a product of 128 bits whose halves are joined.
#[derive(Clone, Copy)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut parts = bytes.chunks_exact(8);
        for part in &mut parts {
            self.write_u64(part.try_into().map(u64::from_le_bytes).unwrap_or_default());
        }
        let rest = parts.remainder();
        if !rest.is_empty() {
            self.write_u64(rest.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(MULTIPLIER);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}
