// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of one protocol on one address: free ports and lent ports.
//!
//! Each port has one bit, and each group of 1024 ports has the number of its free even and odd ports. So the n-th free
//! port of a class is found in a few steps regardless of how full the block is, and a random n makes every free port
//! equally likely.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

const WORDS: usize = 65536 / 64;
/// Words of a group.
const GROUP: usize = 1024 / 64;
const GROUPS: usize = WORDS / GROUP;
const EVEN: u64 = 0x5555_5555_5555_5555;

/// A class of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// All ports.
    All,
    /// Ports below 1024: the first group.
    WellKnown,
    /// All other ports.
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

/// The parity of a port.
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
    /// The parity of this port.
    pub fn of(port: u16) -> Parity {
        if port.is_multiple_of(2) {
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

type Group = [u64; GROUP];

/// The set of ports of one protocol on an address. Addresses with equal sets share one copy.
#[derive(Debug)]
pub struct PortSet {
    words: Box<[u64; WORDS]>,
    /// Number of even and of odd ports of each group.
    groups: [[u16; 2]; GROUPS],
    count: u32,
}

impl PortSet {
    /// Creates the set from `ranges`, which may overlap.
    pub fn new(ranges: impl Iterator<Item = RangeInclusive<u16>>) -> PortSet {
        let mut ports = PortSet {
            words: Box::new([0; WORDS]),
            groups: [[0; 2]; GROUPS],
            count: 0,
        };
        for range in ranges.filter(|range| !range.is_empty()) {
            let (low, high) = (*range.start(), *range.end());
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
                ports.words[word] |= !0 << from & !0 >> (63 - to);
            }
        }
        for (word, bits) in ports.words.iter().enumerate() {
            add(&mut ports.groups[word / GROUP], *bits);
            ports.count += bits.count_ones();
        }
        ports
    }

    fn group(&self, at: usize) -> Group {
        std::array::from_fn(|word| self.words[at * GROUP + word])
    }
}

fn words(first: u16, size: u16) -> Range<usize> {
    let word = usize::from(first) / 64;
    word..word + usize::from(size) / 64
}

/// Splits a range of words at group boundaries.
fn parts(words: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let groups = words.start / GROUP..words.end.div_ceil(GROUP);
    groups.map(move |group| words.start.max(group * GROUP)..words.end.min((group + 1) * GROUP))
}

/// Adds the even and odd ports of one word to the counters.
fn add([even, odd]: &mut [u16; 2], ports: u64) {
    *even += (ports & EVEN).count_ones() as u16;
    *odd += (ports & !EVEN).count_ones() as u16;
}

/// The free ports of one protocol on one address. Most addresses of a large pool have few bindings, so only differences
/// from the common set are stored for each address.
#[derive(Clone, Debug)]
pub struct Block {
    /// All ports in the pool, free or not.
    pooled: Arc<PortSet>,
    /// The free ports of each group with a taken port; in all other groups, every port is free.
    free: [Option<Box<Group>>; GROUPS],
    /// Number of free even and of free odd ports of each group.
    groups: [[u16; 2]; GROUPS],
    free_ports: u32,
    /// The lent ports; None before the first loan.
    lent: Option<Box<[Option<Box<Group>>; GROUPS]>>,
    lent_ports: u32,
}

impl Block {
    /// Creates a block in which all ports are free.
    pub fn new(ports: Arc<PortSet>) -> Block {
        Block {
            free: [const { None }; GROUPS],
            groups: ports.groups,
            free_ports: ports.count,
            pooled: ports,
            lent: None,
            lent_ports: 0,
        }
    }

    /// Number of free ports.
    pub fn free_ports(&self) -> u32 {
        self.free_ports
    }

    /// Returns true if the port is in the pool.
    pub fn is_pooled(&self, port: u16) -> bool {
        self.pooled.words[usize::from(port) / 64] >> (port % 64) & 1 != 0
    }

    /// Returns true if the port is in the pool and free.
    pub fn is_free(&self, port: u16) -> bool {
        self.word(usize::from(port) / 64) >> (port % 64) & 1 != 0
    }

    fn word(&self, word: usize) -> u64 {
        match &self.free[word / GROUP] {
            Some(group) => group[word % GROUP],
            None => self.pooled.words[word],
        }
    }

    /// Takes a free port.
    pub fn take(&mut self, port: u16) {
        debug_assert!(self.is_free(port));
        let word = usize::from(port) / 64;
        let at = word / GROUP;
        let group = self.free[at].get_or_insert_with(|| Box::new(self.pooled.group(at)));
        group[word % GROUP] &= !(1 << (port % 64));
        self.free_ports -= 1;
        self.groups[at][usize::from(port % 2)] -= 1;
    }

    /// Number of lent ports.
    pub fn lent_ports(&self) -> u32 {
        self.lent_ports
    }

    /// Takes a free port and lends it.
    pub fn lend(&mut self, port: u16) {
        self.take(port);
        let word = usize::from(port) / 64;
        let lent = self
            .lent
            .get_or_insert_with(|| Box::new([const { None }; GROUPS]));
        let group = lent[word / GROUP].get_or_insert_with(|| Box::new([0; GROUP]));
        group[word % GROUP] |= 1 << (port % 64);
        self.lent_ports += 1;
    }

    /// Returns true if the port is lent.
    pub fn is_lent(&self, port: u16) -> bool {
        let word = usize::from(port) / 64;
        let group = self
            .lent
            .as_ref()
            .and_then(|lent| lent[word / GROUP].as_ref());
        group.is_some_and(|group| group[word % GROUP] >> (port % 64) & 1 != 0)
    }

    /// Ends a loan; the port stays taken. Returns false if it was not lent.
    pub fn end_loan(&mut self, port: u16) -> bool {
        let (bit, word) = (1 << (port % 64), usize::from(port) / 64);
        let groups = self.lent.as_mut();
        let group = groups.and_then(|lent| lent[word / GROUP].as_mut());
        let word = group.map(|group| &mut group[word % GROUP]);
        let Some(word) = word.filter(|word| **word & bit != 0) else {
            return false;
        };
        *word &= !bit;
        self.lent_ports -= 1;
        if self.lent_ports == 0 {
            self.lent = None;
        }
        true
    }

    /// Frees a taken port of the pool.
    pub fn put_back(&mut self, port: u16) {
        let (bit, word) = (1 << (port % 64), usize::from(port) / 64);
        let at = word / GROUP;
        debug_assert!(self.is_pooled(port) && !self.is_free(port));
        if let Some(group) = &mut self.free[at] {
            group[word % GROUP] |= bit;
        }
        self.free_ports += 1;
        add(&mut self.groups[at], bit);
        if self.groups[at] == self.pooled.groups[at] {
            self.free[at] = None;
        }
    }

    /// Number of free ports of a class and parity.
    pub fn free_of(&self, class: Class, parity: Parity) -> u32 {
        class
            .groups()
            .map(|group| self.in_group(group, parity))
            .sum()
    }

    /// The free port of a class and parity with `n` such ports before it.
    pub fn nth_free(&self, class: Class, parity: Parity, mut n: u32) -> Option<u16> {
        let group = class.groups().find(|&group| {
            let free = self.in_group(group, parity);
            let is_here = n < free;
            n -= if is_here { 0 } else { free };
            is_here
        })?;
        for word in group * GROUP..(group + 1) * GROUP {
            let mut ports = self.word(word) & parity.mask();
            let free = ports.count_ones();
            if n < free {
                (0..n).for_each(|_| ports &= ports - 1);
                return Some((word * 64) as u16 + ports.trailing_zeros() as u16);
            }
            n -= free;
        }
        None
    }

    /// Draws a free port from the `size` ports (a multiple of 64) from `first` on.
    pub fn draw_in(
        &self,
        first: u16,
        size: u16,
        parity: Parity,
        mut random: impl FnMut() -> u64,
    ) -> Option<u16> {
        let free = self.free_in(first, size, parity);
        let mut n = random().checked_rem(u64::from(free))? as u32;
        for part in parts(words(first, size)) {
            let here = self.in_part(&part, parity);
            if n >= here {
                n -= here;
                continue;
            }
            for word in part {
                let mut ports = self.word(word) & parity.mask();
                let here = ports.count_ones();
                if n < here {
                    (0..n).for_each(|_| ports &= ports - 1);
                    return Some((word * 64) as u16 + ports.trailing_zeros() as u16);
                }
                n -= here;
            }
        }
        None
    }

    /// Number of free ports in this range.
    pub fn free_in(&self, first: u16, size: u16, parity: Parity) -> u32 {
        let parts = parts(words(first, size));
        parts.map(|part| self.in_part(&part, parity)).sum()
    }

    /// Number of taken ports in this range.
    pub fn taken_in(&self, first: u16, size: u16) -> u32 {
        let of = |word: usize| (self.pooled.words[word] & !self.word(word)).count_ones();
        words(first, size).map(of).sum()
    }

    /// Number of lent ports in this range.
    pub fn lent_in(&self, first: u16, size: u16) -> u32 {
        let Some(lent) = &self.lent else { return 0 };
        let of = |part: Range<usize>| {
            let group = lent[part.start / GROUP].as_ref();
            let of = |group: &Group| {
                part.map(|word| group[word % GROUP].count_ones())
                    .sum::<u32>()
            };
            group.map_or(0, |group| of(group))
        };
        parts(words(first, size)).map(of).sum()
    }

    /// Number of free ports in these words, which are in one group.
    fn in_part(&self, part: &Range<usize>, parity: Parity) -> u32 {
        if part.len() == GROUP {
            return self.in_group(part.start / GROUP, parity);
        }
        let of = |word| (self.word(word) & parity.mask()).count_ones();
        part.clone().map(of).sum()
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
mod tests;
