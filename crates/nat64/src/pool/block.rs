// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of one protocol on one address: which of them are free, and which are on loan.
//!
//! One bit for each port, and for each 1024 ports the number of free even and odd ones. So the n-th
//! free port of a kind is found in a few steps however full the block is, and a random n makes every
//! free port equally likely.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

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

/// The ports of one protocol that addresses have: one copy for all that have the same.
#[derive(Debug)]
pub struct Ports {
    words: Box<[u64; WORDS]>,
    /// Even ones of each group, and odd ones.
    groups: [[u16; 2]; GROUPS],
    count: u32,
}

impl Ports {
    /// Those of `ranges`, which may overlap.
    pub fn new(ranges: impl Iterator<Item = RangeInclusive<u16>>) -> Ports {
        let mut ports = Ports {
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

/// Words, cut where groups begin.
fn parts(words: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let groups = words.start / GROUP..words.end.div_ceil(GROUP);
    groups.map(move |group| words.start.max(group * GROUP)..words.end.min((group + 1) * GROUP))
}

/// Counts ports of one word, even ones and odd ones.
fn add([even, odd]: &mut [u16; 2], ports: u64) {
    *even += (ports & EVEN).count_ones() as u16;
    *odd += (ports & !EVEN).count_ones() as u16;
}

/// The free ports of one protocol on one address. Most addresses of a large pool have few bindings: what all have alike is
/// not kept for each.
#[derive(Clone, Debug)]
pub struct Block {
    /// Those that belong to the pool, free or not.
    pooled: Arc<Ports>,
    /// The free ones of each group of which one is taken; of the others, all are free.
    free: [Option<Box<Group>>; GROUPS],
    /// Free even ports of each group, and odd ones.
    groups: [[u16; 2]; GROUPS],
    free_ports: u32,
    /// Those on loan; none before the first.
    lent: Option<Box<[Option<Box<Group>>; GROUPS]>>,
    lent_ports: u32,
}

impl Block {
    /// All of the ports, free.
    pub fn new(ports: Arc<Ports>) -> Block {
        Block {
            free: [const { None }; GROUPS],
            groups: ports.groups,
            free_ports: ports.count,
            pooled: ports,
            lent: None,
            lent_ports: 0,
        }
    }

    /// How many are free.
    pub fn free_ports(&self) -> u32 {
        self.free_ports
    }

    /// Is it in the pool?
    pub fn is_pooled(&self, port: u16) -> bool {
        self.pooled.words[usize::from(port) / 64] >> (port % 64) & 1 != 0
    }

    /// Is it in the pool, and nobody's?
    pub fn is_free(&self, port: u16) -> bool {
        self.word(usize::from(port) / 64) >> (port % 64) & 1 != 0
    }

    fn word(&self, word: usize) -> u64 {
        match &self.free[word / GROUP] {
            Some(group) => group[word % GROUP],
            None => self.pooled.words[word],
        }
    }

    /// Takes a port that is free.
    pub fn take(&mut self, port: u16) {
        debug_assert!(self.is_free(port));
        let word = usize::from(port) / 64;
        let at = word / GROUP;
        let group = self.free[at].get_or_insert_with(|| Box::new(self.pooled.group(at)));
        group[word % GROUP] &= !(1 << (port % 64));
        self.free_ports -= 1;
        self.groups[at][usize::from(port % 2)] -= 1;
    }

    /// How many are on loan.
    pub fn lent_ports(&self) -> u32 {
        self.lent_ports
    }

    /// Takes a port that is free, for a loan.
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

    /// Is it on loan?
    pub fn is_lent(&self, port: u16) -> bool {
        let word = usize::from(port) / 64;
        let group = self
            .lent
            .as_ref()
            .and_then(|lent| lent[word / GROUP].as_ref());
        group.is_some_and(|group| group[word % GROUP] >> (port % 64) & 1 != 0)
    }

    /// The port is no longer on loan, and still taken. False if it was not on loan.
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

    /// Frees a port of the pool that was taken.
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

    /// Of `size` ports from `first` on (a multiple of 64 of them), one that is free.
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

    /// How many of them are free.
    pub fn free_in(&self, first: u16, size: u16, parity: Parity) -> u32 {
        let parts = parts(words(first, size));
        parts.map(|part| self.in_part(&part, parity)).sum()
    }

    /// How many of them are taken.
    pub fn taken_in(&self, first: u16, size: u16) -> u32 {
        let of = |word: usize| (self.pooled.words[word] & !self.word(word)).count_ones();
        words(first, size).map(of).sum()
    }

    /// How many of them are on loan.
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

    /// How many of the ports of these words, which are in one group, are free.
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
