// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hash map of the kernel, which reuses elements at once: an element that a program holds may become another node's.

use std::collections::HashMap;

/// Elements of a hash map: free ones keep their values until they are reused.
pub struct Map<K, V> {
    pub at: HashMap<K, usize>,
    pub elements: Vec<V>,
    free: Vec<usize>,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Map<K, V> {
        Map {
            at: HashMap::new(),
            elements: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<K: Eq + std::hash::Hash + Copy, V> Map<K, V> {
    /// `BPF_ANY`.
    pub fn put(&mut self, key: K, value: V) {
        // The kernel makes the new element first.
        let new = match self.free.pop() {
            Some(at) => {
                self.elements[at] = value;
                at
            }
            None => {
                self.elements.push(value);
                self.elements.len() - 1
            }
        };
        self.free.extend(self.at.insert(key, new));
    }

    pub fn remove(&mut self, key: &K) -> bool {
        let removed = self.at.remove(key);
        self.free.extend(removed);
        removed.is_some()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        Some(&self.elements[*self.at.get(key)?])
    }
}
