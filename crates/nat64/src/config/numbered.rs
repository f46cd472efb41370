// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of prefixes in which the addresses, or narrower prefixes, are numbered in order from 0.

use ipnet::{Ipv4Net, Ipv6Net};
use std::net::Ipv4Addr;

/// Networks of one family, with consecutive numbers for their addresses or narrower prefixes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Numbered<N> {
    pub nets: Vec<N>,
    /// The first number of each network, in list order.
    starts: Vec<u64>,
    /// The networks in ascending order.
    rising: Vec<Listed>,
    /// Number of address bits below a numbered prefix.
    shift: u32,
    /// The total count.
    pub len: u64,
}

/// A network and its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Listed {
    first: u128,
    last: u128,
    at: u32,
}

/// The addresses of a network.
pub(super) struct AddressRange {
    pub first: u128,
    pub last: u128,
    /// Bits of an address of its family.
    pub bits: u32,
}

/// A network of any family.
pub(super) trait Span: Copy + std::fmt::Display {
    /// Its addresses.
    fn span(self) -> AddressRange;
}

impl Span for Ipv4Net {
    fn span(self) -> AddressRange {
        let bits = |addr: Ipv4Addr| u128::from(addr.to_bits());
        AddressRange {
            first: bits(self.network()),
            last: bits(self.broadcast()),
            bits: 32,
        }
    }
}

impl Span for Ipv6Net {
    fn span(self) -> AddressRange {
        AddressRange {
            first: self.network().to_bits(),
            last: self.broadcast().to_bits(),
            bits: 128,
        }
    }
}

impl<N: Span> Numbered<N> {
    /// Numbers the prefixes of length `len`. Fails if two networks overlap, or if there are more prefixes than ports
    /// could exist for.
    pub fn new(nets: Vec<N>, len: u8) -> Result<Numbered<N>, String> {
        let mut starts = Vec::with_capacity(nets.len());
        let mut rising = Vec::with_capacity(nets.len());
        let (mut count, mut shift) = (0u64, 0);
        for (at, net) in nets.iter().enumerate() {
            let AddressRange { first, last, bits } = net.span();
            shift = bits.saturating_sub(u32::from(len));
            starts.push(count);
            rising.push(Listed {
                first,
                last,
                at: at as u32,
            });
            let its = ((last - first) >> shift).saturating_add(1);
            let its = u64::try_from(its)
                .ok()
                .and_then(|its| count.checked_add(its));
            count = its.filter(|count| *count <= 1 << 48).ok_or_else(|| {
                format!("{net} with {at} prefixes before it has more than 2^48 sources (/{len}), for which no pool has ports")
            })?;
        }
        rising.sort_unstable();
        for pair in rising.windows(2) {
            if pair[1].first <= pair[0].last {
                let (one, other) = (nets[pair[0].at as usize], nets[pair[1].at as usize]);
                return Err(format!("{one} and {other} overlap"));
            }
        }
        Ok(Numbered {
            nets,
            starts,
            rising,
            shift,
            len: count,
        })
    }

    /// The number of the prefix that contains an address.
    pub fn number_of(&self, bits: u128) -> Option<u64> {
        let behind = self.rising.partition_point(|net| net.first <= bits);
        let Listed { first, last, at } = *self.rising.get(behind.checked_sub(1)?)?;
        (bits <= last).then(|| self.starts[at as usize] + ((bits - first) >> self.shift) as u64)
    }

    /// The first address of the prefix with this number.
    pub fn nth(&self, number: u64) -> Option<u128> {
        if number >= self.len {
            return None;
        }
        let behind = self.starts.partition_point(|start| *start <= number);
        let at = behind.checked_sub(1)?;
        let first = self.nets[at].span().first;
        Some(first + (u128::from(number - self.starts[at]) << self.shift))
    }
}
