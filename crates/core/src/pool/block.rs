// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of one protocol on one address: which of them are free, and which are on loan.
//!
//! One bit for each port, and for each 1024 ports the number of free even and odd ones. So the n-th
//! free port of a kind is found in a few steps however full the block is, and a random n makes every
//! free port equally likely.

use std::ops::{Range, RangeInclusive};

const WORDS: usize = 65536 / 64;
/// Words of a group.
const GROUP: usize = 1024 / 64;
const GROUPS: usize = WORDS / GROUP;
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Which ports are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// All.
    All,
    /// Those below 1024: the first group.
    WellKnown,
    /// The others.
    User,
}

impl Class {
    fn groups(self) -> Range<usize> {
        match self {
            Class::All => 0..GROUPS,
            Class::WellKnown => 0..1,
            Class::User => 1..GROUPS,
        }
    }
}

/// Which of them.
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
    /// Free even ports of each group, and odd ones.
    groups: [[u16; 2]; GROUPS],
    free_ports: u32,
    /// Those on loan; none before the first.
    lent: Option<Box<[u64; WORDS]>>,
    lent_ports: u32,
}

impl Block {
    /// All ports of `ranges`, free.
    pub fn new(ranges: impl Iterator<Item = RangeInclusive<u16>>) -> Block {
        let mut block = Block {
            free: Box::new([0; WORDS]),
            pooled: Box::new([0; WORDS]),
            groups: [[0; 2]; GROUPS],
            free_ports: 0,
            lent: None,
            lent_ports: 0,
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

    /// Takes a port that is free.
    pub fn take(&mut self, port: u16) {
        debug_assert!(self.is_free(port));
        let word = usize::from(port) / 64;
        self.free[word] &= !(1 << (port % 64));
        self.free_ports -= 1;
        self.groups[word / GROUP][usize::from(port % 2)] -= 1;
    }

    /// How many are on loan.
    pub fn lent_ports(&self) -> u32 {
        self.lent_ports
    }

    /// Takes a port that is free, for a loan.
    pub fn lend(&mut self, port: u16) {
        self.take(port);
        let lent = self.lent.get_or_insert_with(|| Box::new([0; WORDS]));
        lent[usize::from(port) / 64] |= 1 << (port % 64);
        self.lent_ports += 1;
    }

    /// The port is no longer on loan, and still taken. False if it was not on loan.
    pub fn end_loan(&mut self, port: u16) -> bool {
        let bit = 1 << (port % 64);
        let word = self
            .lent
            .as_mut()
            .map(|lent| &mut lent[usize::from(port) / 64]);
        let Some(word) = word.filter(|word| **word & bit != 0) else {
            return false;
        };
        *word &= !bit;
        self.lent_ports -= 1;
        true
    }

    /// Frees a port of the pool that was taken.
    pub fn put_back(&mut self, port: u16) {
        self.put(usize::from(port) / 64, 1 << (port % 64));
    }

    /// Frees ports of one word that were taken.
    fn put(&mut self, word: usize, ports: u64) {
        debug_assert_eq!(self.free[word] & ports, 0);
        debug_assert_eq!(self.pooled[word] & ports, ports);
        self.free[word] |= ports;
        self.free_ports += ports.count_ones();
        let [even, odd] = &mut self.groups[word / GROUP];
        *even += (ports & EVEN).count_ones() as u16;
        *odd += (ports & !EVEN).count_ones() as u16;
    }

    /// How many ports of a kind are free.
    pub fn free_of(&self, class: Class, parity: Parity) -> u32 {
        class
            .groups()
            .map(|group| self.in_group(group, parity))
            .sum()
    }

    /// The free port of a kind that has `n` others before it.
    pub fn nth_free(&self, class: Class, parity: Parity, mut n: u32) -> Option<u16> {
        let group = class.groups().find(|&group| {
            let free = self.in_group(group, parity);
            let is_here = n < free;
            n -= if is_here { 0 } else { free };
            is_here
        })?;
        for word in group * GROUP..(group + 1) * GROUP {
            let mut ports = self.free[word] & parity.mask();
            let free = ports.count_ones();
            if n < free {
                (0..n).for_each(|_| ports &= ports - 1);
                return Some((word * 64) as u16 + ports.trailing_zeros() as u16);
            }
            n -= free;
        }
        None
    }

    fn in_group(&self, group: usize, parity: Parity) -> u32 {
        let [even, odd] = self.groups[group].map(u32::from);
        match parity {
            Parity::Any => even + odd,
            Parity::Even => even,
            Parity::Odd => odd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_free_port_is_found() {
        let mut block = Block::new([0..=65535].into_iter());
        for port in 0..=65535 {
            if port != 40_001 {
                block.take(port);
            }
        }
        assert_eq!(block.free_ports(), 1);
        assert_eq!(block.nth_free(Class::User, Parity::Odd, 0), Some(40_001));
        assert_eq!(block.nth_free(Class::All, Parity::Any, 0), Some(40_001));
        assert_eq!(block.nth_free(Class::All, Parity::Even, 0), None);
        assert_eq!(block.nth_free(Class::WellKnown, Parity::Any, 0), None);
        block.take(40_001);
        assert_eq!(block.nth_free(Class::All, Parity::Any, 0), None);
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
        fn the_nth_free_port_is_the_one_that_looking_at_every_port_finds(
            taken in prop::collection::vec(900u16..1300, 0..400),
            n in 0u32..200, class in 0..3, parity in 0..3,
        ) {
            let mut block = Block::new([950..=1280].into_iter());
            for port in taken {
                if block.is_free(port) {
                    block.take(port);
                }
            }
            let class = [Class::All, Class::WellKnown, Class::User][class as usize];
            let parity = [Parity::Any, Parity::Even, Parity::Odd][parity as usize];
            let ports = match class {
                Class::All => 0..=u16::MAX,
                Class::WellKnown => 0..=1023,
                Class::User => 1024..=u16::MAX,
            };
            let fits = |port: &u16| {
                block.is_free(*port) && (parity == Parity::Any || Parity::of(*port) == parity)
            };
            let free: Vec<u16> = ports.filter(fits).collect();
            prop_assert_eq!(block.free_of(class, parity) as usize, free.len());
            prop_assert_eq!(block.nth_free(class, parity, n), free.get(n as usize).copied());
        }
    }
}
