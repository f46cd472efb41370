// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of one protocol on one address: which of them are free.
//!
//! One bit for each port, and above them one bit for each word of 64 ports that has a free even one,
//! or a free odd one. So the next free port is found in a few steps however full the block is.

use std::ops::RangeInclusive;

const WORDS: usize = 65536 / 64;
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Which ports a search may find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parity {
    /// Even or odd.
    Any,
    /// Even only.
    Even,
    /// Odd only.
    Odd,
}

impl Parity {
    /// That of this port.
    pub fn of(port: u16) -> Parity {
        if port % 2 == 0 {
            Parity::Even
        } else {
            Parity::Odd
        }
    }

    fn mask(self) -> u64 {
        match self {
            Parity::Any => !0,
            Parity::Even => EVEN,
            Parity::Odd => !EVEN,
        }
    }
}

/// The free ports of one protocol on one address.
#[derive(Clone, Debug)]
pub struct Block {
    free: Box<[u64; WORDS]>,
    /// Those that belong to the pool, free or not.
    pooled: Box<[u64; WORDS]>,
    /// Words with a free even port, and those with a free odd one.
    words: [[u64; WORDS / 64]; 2],
    free_ports: u32,
}

impl Block {
    /// All ports of `ranges`, free.
    pub fn new(ranges: impl Iterator<Item = RangeInclusive<u16>>) -> Block {
        let mut block = Block {
            free: Box::new([0; WORDS]),
            pooled: Box::new([0; WORDS]),
            words: [[0; WORDS / 64]; 2],
            free_ports: 0,
        };
        for ports in ranges.filter(|ports| !ports.is_empty()) {
            let (low, high) = (*ports.start(), *ports.end());
            for word in usize::from(low) / 64..=usize::from(high) / 64 {
                let from = if word == usize::from(low) / 64 {
                    low % 64
                } else {
                    0
                };
                let to = if word == usize::from(high) / 64 {
                    high % 64
                } else {
                    63
                };
                block.pooled[word] |= !0 << from & !0 >> (63 - to);
            }
        }
        for (word, &ports) in block.pooled.clone().iter().enumerate() {
            block.put(word, ports);
        }
        block
    }

    /// How many are free.
    pub fn free_ports(&self) -> u32 {
        self.free_ports
    }

    /// Is it in the pool?
    pub fn is_pooled(&self, port: u16) -> bool {
        self.pooled[usize::from(port) / 64] >> (port % 64) & 1 != 0
    }

    /// Is it in the pool, and nobody's?
    pub fn is_free(&self, port: u16) -> bool {
        self.free[usize::from(port) / 64] >> (port % 64) & 1 != 0
    }

    /// Free ports of a word of 64, the first of which is port 64 times `word`.
    pub fn free_in(&self, word: usize) -> u64 {
        self.free[word]
    }

    /// Takes a port that is free.
    pub fn take(&mut self, port: u16) {
        self.take_word(usize::from(port) / 64, 1 << (port % 64));
    }

    /// Takes ports of one word, all of which are free.
    pub fn take_word(&mut self, word: usize, ports: u64) {
        debug_assert_eq!(self.free[word] & ports, ports);
        self.free[word] &= !ports;
        self.free_ports -= ports.count_ones();
        self.summarise(word);
    }

    /// Frees a port of the pool that was taken.
    pub fn put_back(&mut self, port: u16) {
        self.put(usize::from(port) / 64, 1 << (port % 64));
    }

    /// Frees ports of one word that were taken.
    pub fn put(&mut self, word: usize, ports: u64) {
        debug_assert_eq!(self.free[word] & ports, 0);
        debug_assert_eq!(self.pooled[word] & ports, ports);
        self.free[word] |= ports;
        self.free_ports += ports.count_ones();
        self.summarise(word);
    }

    fn summarise(&mut self, word: usize) {
        for (words, parity) in self.words.iter_mut().zip([EVEN, !EVEN]) {
            let bit = 1 << (word % 64);
            if self.free[word] & parity != 0 {
                words[word / 64] |= bit;
            } else {
                words[word / 64] &= !bit;
            }
        }
    }

    /// The first free port of `range` at or after `from`, or else before it.
    pub fn find(&self, range: &RangeInclusive<u16>, from: u16, parity: Parity) -> Option<u16> {
        let (&low, &high) = (range.start(), range.end());
        let from = from.clamp(low, high);
        self.first(from, high, parity)
            .or_else(|| self.first(low, from, parity))
    }

    /// The first free port from `low` to `high`, both of which may be it.
    fn first(&self, low: u16, high: u16, parity: Parity) -> Option<u16> {
        let word = usize::from(low) / 64;
        let in_word = |word: usize, mask: u64| {
            let ports = self.free[word] & parity.mask() & mask;
            (ports != 0).then(|| (word * 64) as u16 + ports.trailing_zeros() as u16)
        };
        let found = in_word(word, !0 << (low % 64)).or_else(|| {
            let next = self.next_word(word + 1, parity)?;
            in_word(next, !0)
        });
        found.filter(|&port| port <= high)
    }

    /// The first word at or after `word` that has a free port.
    fn next_word(&self, word: usize, parity: Parity) -> Option<usize> {
        let words = |at: usize| match parity {
            Parity::Any => self.words[0][at] | self.words[1][at],
            Parity::Even => self.words[0][at],
            Parity::Odd => self.words[1][at],
        };
        let mut mask = !0u64 << (word % 64);
        for at in word / 64..WORDS / 64 {
            let found = words(at) & mask;
            if found != 0 {
                return Some(at * 64 + found.trailing_zeros() as usize);
            }
            mask = !0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_free_port_is_found_from_everywhere() {
        let mut block = Block::new([0..=65535].into_iter());
        for port in 0..=65535 {
            if port != 40_001 {
                block.take(port);
            }
        }
        assert_eq!(block.free_ports(), 1);
        for from in [0, 39_999, 40_001, 40_002, 65_535] {
            assert_eq!(block.find(&(0..=65535), from, Parity::Odd), Some(40_001));
            assert_eq!(block.find(&(0..=65535), from, Parity::Any), Some(40_001));
            assert_eq!(block.find(&(0..=65535), from, Parity::Even), None);
            assert_eq!(block.find(&(0..=40_000), from, Parity::Any), None);
        }
        block.take(40_001);
        assert_eq!(block.find(&(0..=65535), 7, Parity::Any), None);
    }

    proptest! {
        #[test]
        fn a_block_has_the_ports_of_its_ranges(
            ranges in prop::collection::vec((any::<u16>(), any::<u16>()), 0..4), near in any::<u16>(),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|&(a, b)| a.min(b)..=a.max(b)).collect();
            let block = Block::new(ranges.iter().cloned());
            let edges = ranges.iter().flat_map(|r| [*r.start(), *r.end()]);
            for port in edges.flat_map(|p| [p, p.wrapping_add(1), p.wrapping_sub(1)]).chain([near]) {
                let expected = ranges.iter().any(|ports| ports.contains(&port));
                prop_assert_eq!((block.is_pooled(port), block.is_free(port)), (expected, expected));
            }
        }

        #[test]
        fn a_search_finds_what_looking_at_every_port_finds(
            taken in prop::collection::vec(1000u16..1300, 0..400),
            low in 990u16..1310, len in 0u16..300, from in any::<u16>(), parity in 0..3,
        ) {
            let mut block = Block::new([1000..=1280].into_iter());
            for port in taken {
                if block.is_free(port) {
                    block.take(port);
                }
            }
            let high = low + len;
            let parity = [Parity::Any, Parity::Even, Parity::Odd][parity as usize];
            let start = from.clamp(low, high);
            let fits = |port: &u16| block.is_free(*port) && (parity == Parity::Any || Parity::of(*port) == parity);
            let expected = (start..=high).chain(low..start).find(fits);
            prop_assert_eq!(block.find(&(low..=high), from, parity), expected);
        }
    }
}
