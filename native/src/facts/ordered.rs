//! A map in insertion order, most of whose values leave it in about that order: like a Python dict, without an object for each value.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::hash::Hash;

use crate::encoding::number_keys::NumberMap;

pub struct Ordered<K, V> {
    numbers: NumberMap<K, u64>,
    /// Values in the order of their consecutive numbers; None if it was taken.
    values: VecDeque<Option<(K, V)>>,
    /// Number of the first.
    pub first: u64,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered { numbers: NumberMap::default(), values: VecDeque::new(), first: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Ordered<K, V> {
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let number = self.numbers.get(key)?;
        self.values[(number - self.first) as usize].as_ref().map(|(_, value)| value)
    }

    /// Insert a value after all others, or replace the one with its key.
    pub fn insert(&mut self, key: K, value: V) {
        if let Some(number) = self.numbers.get(&key) {
            self.values[(number - self.first) as usize] = Some((key, value));
            return;
        }
        self.append(key, value);
    }

    /// Insert a value after all others under a key that has none.
    pub fn append(&mut self, key: K, value: V) {
        self.close_gaps();
        self.numbers.insert(key.clone(), self.first + self.values.len() as u64);
        self.values.push_back(Some((key, value)));
    }

    /// Move a value after all others, and return it.
    pub fn renew<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.close_gaps();
        let number = self.numbers.get_mut(key)?;
        let entry = self.values[(*number - self.first) as usize].take();
        *number = self.first + self.values.len() as u64;
        self.values.push_back(entry);
        self.drop_first_gaps();
        self.values.back_mut()?.as_mut().map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let number = self.numbers.remove(key)?;
        let (_, value) = self.values[(number - self.first) as usize].take()?;
        self.drop_first_gaps();
        Some(value)
    }

    /// Remove the first `count` values, but not those whose positions among them, in ascending order, are in `kept`.
    pub fn remove_first(&mut self, count: usize, kept: &[usize]) {
        let mut kept = kept.iter().peekable();
        for (at, value) in self.values.iter_mut().filter(|value| value.is_some()).take(count).enumerate() {
            if kept.next_if_eq(&&at).is_none() {
                if let Some((key, _)) = value.take() {
                    self.numbers.remove(&key);
                }
            }
        }
        self.drop_first_gaps();
    }

    fn drop_first_gaps(&mut self) {
        while matches!(self.values.front(), Some(None)) {
            self.values.pop_front();
            self.first += 1;
        }
    }

    /// Remove the gaps of taken values when these outnumber the remaining ones.
    fn close_gaps(&mut self) {
        if self.values.len() > 2 * self.numbers.len() + 64 {
            self.values.retain(Option::is_some);
            for (number, (key, _)) in (self.first..).zip(self.values.iter().flatten()) {
                self.numbers.insert(key.clone(), number);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.values.iter().flatten()
    }

    /// Return number and key of the first value with this number or a later one.
    pub fn from(&self, number: u64) -> Option<(u64, &K)> {
        let start = number.max(self.first);
        let mut values = (start..).zip(self.values.iter().skip((start - self.first) as usize));
        values.find_map(|(number, value)| value.as_ref().map(|(key, _)| (number, key)))
    }
}
