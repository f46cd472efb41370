// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pool, cut into slices for several gateways: one IPv4 address and a range of its ports each. Every gateway cuts the same
//! slices from the same configuration, and a keyed hash says which slice a source gets its ports from.
//!
//! A slice begins at a multiple of 64 ports and has a multiple of 64, above the well-known ones. What a pool has beside these
//! belongs to no slice.

use crate::config::nat64::Nat64Config;
use ipnet::Ipv4Net;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Slices begin at multiples of this, and have multiples of it.
pub const GRAIN: u16 = 64;
/// Ports of the largest slice: all of an address but the well-known ones.
pub const LARGEST: u16 = 64_512;
/// Slices begin behind the well-known ports.
const FIRST_PORT: u32 = 1024;

/// The place of a slice among all slices of the cluster.
pub type SliceId = u32;

/// An address and a range of its ports, or of its query identifiers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The address.
    pub addr: Ipv4Addr,
    /// The ports.
    pub ports: RangeInclusive<u16>,
}

impl Slice {
    /// Its first port, and how many it has.
    pub fn bounds(&self) -> (u16, u16) {
        let (first, last) = (*self.ports.start(), *self.ports.end());
        (first, last - first + 1)
    }

    /// Does it have this port?
    pub fn has(&self, addr: Ipv4Addr, port: u16) -> bool {
        self.addr == addr && self.ports.contains(&port)
    }
}

/// All slices of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slices {
    /// In rising order of addresses, and of ports of an address.
    all: Vec<Slice>,
    /// Secret, and the same on all nodes.
    key: [u64; 2],
    /// Bits of the prefix that is one source.
    source_prefix_len: u8,
}

/// Why a pool cannot be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uncuttable {
    /// The ports of a slice are no multiple of [`GRAIN`] between that and [`LARGEST`].
    Size,
    /// No address has [`GRAIN`] ports of which a slice can be made.
    TooFew,
    /// There would be more slices than a cluster can have.
    TooMany,
    /// Two parts of the pool have a port in common.
    Overlap(Ipv4Addr),
    /// The slices of an address do not follow each other without gaps, or one that is not the last has another size.
    Uneven(Ipv4Addr),
}

impl Slices {
    /// Most slices of a cluster: each has an entry in the engine, and each node knows all of them.
    pub const MOST: usize = 65_536;

    /// The slices of a configuration; None if it has none.
    pub fn of(config: &Nat64Config) -> Result<Option<Slices>, Uncuttable> {
        let Some(rules) = &config.slices else {
            return Ok(None);
        };
        let parts = config.pool4.iter();
        let pool: Vec<_> = parts.map(|part| (part.net, part.ports.clone())).collect();
        Slices::cut(&pool, rules.ports, rules.source_prefix_len, rules.key).map(Some)
    }

    /// Cuts every range of `pool` into slices of `ports_per_slice`. What is left of a range belongs to its last slice, and a
    /// range with fewer ports is one slice. The slices of an address have to follow each other, all with the size of the first
    /// one except the last: the program that forwards packets to other nodes divides by that size.
    pub fn cut(
        pool: &[(Ipv4Net, RangeInclusive<u16>)],
        ports_per_slice: u16,
        source_prefix_len: u8,
        key: [u64; 2],
    ) -> Result<Slices, Uncuttable> {
        let is_size = (GRAIN..=LARGEST).contains(&ports_per_slice);
        if !is_size || !ports_per_slice.is_multiple_of(GRAIN) {
            return Err(Uncuttable::Size);
        }
        let mut all = Vec::new();
        for (net, ports) in pool {
            let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
            let here = slices_of(ports, ports_per_slice);
            let addresses = u64::from(last - first) + 1;
            if all.len() as u64 + addresses * here.len() as u64 > Slices::MOST as u64 {
                return Err(Uncuttable::TooMany);
            }
            for addr in (first..=last).map(Ipv4Addr::from_bits) {
                all.extend(here.iter().map(|ports| Slice {
                    addr,
                    ports: ports.clone(),
                }));
            }
        }
        if all.is_empty() {
            return Err(Uncuttable::TooFew);
        }
        all.sort_by_key(|slice| (slice.addr, *slice.ports.start()));
        let overlap = all.windows(2).find(|pair| {
            pair[0].addr == pair[1].addr && pair[0].ports.end() >= pair[1].ports.start()
        });
        if let Some(pair) = overlap {
            return Err(Uncuttable::Overlap(pair[0].addr));
        }
        let mut of_addresses = all.chunk_by(|one, next| one.addr == next.addr);
        if let Some(uneven) = of_addresses.find(|slices| !is_even(slices)) {
            return Err(Uncuttable::Uneven(uneven[0].addr));
        }
        Ok(Slices {
            all,
            key,
            source_prefix_len: source_prefix_len.min(128),
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Never: a pool without slices is not cut.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One of them.
    pub fn get(&self, id: SliceId) -> Option<&Slice> {
        self.all.get(id as usize)
    }

    /// Bits of the prefix that is one source.
    pub fn source_prefix_len(&self) -> u8 {
        self.source_prefix_len
    }

    /// From which slice a node gets its ports: all addresses of one source from the same one.
    pub fn of_source(&self, node: Ipv6Addr) -> SliceId {
        let mask = match self.source_prefix_len {
            0 => 0,
            len => u128::MAX << (128 - u32::from(len)),
        };
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write(&(node.to_bits() & mask).to_be_bytes());
        // The high half of the product: no slice is preferred by more than one part in 2^48 (Slices::MOST is 2^16).
        ((u128::from(hasher.finish()) * self.all.len() as u128) >> 64) as SliceId
    }

    /// To which slice an address and a port of the pool belong.
    pub fn of_port(&self, addr: Ipv4Addr, port: u16) -> Option<SliceId> {
        let after = self
            .all
            .partition_point(|slice| (slice.addr, *slice.ports.start()) <= (addr, port));
        let at = after.checked_sub(1)?;
        let slice = &self.all[at];
        (slice.addr == addr && slice.ports.contains(&port)).then_some(at as SliceId)
    }
}

/// Whether the slices of one address follow each other, all with the size of the first one except the last.
fn is_even(slices: &[Slice]) -> bool {
    slices.windows(2).all(|pair| {
        let is_next = *pair[0].ports.end() + 1 == *pair[1].ports.start();
        is_next && pair[0].bounds().1 == slices[0].bounds().1
    })
}

/// The ranges into which a range of ports of one address is cut.
fn slices_of(ports: &RangeInclusive<u16>, size: u16) -> Vec<RangeInclusive<u16>> {
    let (size, grain) = (u32::from(size), u32::from(GRAIN));
    let first = u32::from(*ports.start())
        .max(FIRST_PORT)
        .next_multiple_of(grain);
    let end = (u32::from(*ports.end()) + 1) / grain * grain;
    let left = end.saturating_sub(first);
    // Ports are left, or there is no slice.
    let slices = (left / size).max(u32::from(left > 0));
    (0..slices)
        .map(|n| {
            let start = first + n * size;
            let next = if n + 1 == slices { end } else { start + size };
            start as u16..=(next - 1) as u16
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u64; 2] = [1, 2];

    fn net(text: &str) -> Ipv4Net {
        text.parse().expect("a network")
    }

    fn cut(pool: &[(&str, RangeInclusive<u16>)], size: u16) -> Result<Slices, Uncuttable> {
        let pool: Vec<_> = pool
            .iter()
            .map(|(text, ports)| (net(text), ports.clone()))
            .collect();
        Slices::cut(&pool, size, 64, KEY)
    }

    #[test]
    fn every_port_belongs_to_one_slice_and_the_rest_to_the_last() {
        let slices = cut(&[("192.0.2.0/31", 1024..=65535)], 19_968).expect("it can be cut");
        let ranges: Vec<_> = (0..6).map(|id| slices.get(id).cloned()).collect();
        let slice = |addr: &str, ports| {
            Some(Slice {
                addr: addr.parse().expect("an address"),
                ports,
            })
        };
        assert_eq!(
            ranges,
            [
                slice("192.0.2.0", 1024..=20_991),
                slice("192.0.2.0", 20_992..=40_959),
                slice("192.0.2.0", 40_960..=65_535),
                slice("192.0.2.1", 1024..=20_991),
                slice("192.0.2.1", 20_992..=40_959),
                slice("192.0.2.1", 40_960..=65_535),
            ]
        );
        for port in 0..=u16::MAX {
            let found = slices.of_port("192.0.2.1".parse().expect("an address"), port);
            let holds = (0..6).find(|&id| {
                let slice = slices.get(id).expect("it exists");
                slice.addr.octets()[3] == 1 && slice.ports.contains(&port)
            });
            assert_eq!(found, holds, "{port}");
        }
        let elsewhere = "192.0.2.2".parse().expect("an address");
        assert_eq!(slices.of_port(elsewhere, 2000), None);
    }

    #[test]
    fn a_source_has_one_slice_and_sources_spread_evenly() {
        let slices = cut(&[("192.0.2.0/29", 1024..=65535)], 4032).expect("it can be cut");
        assert_eq!(slices.len(), 128);
        let mut counts = [0u32; 128];
        for source in 0..128_000u128 {
            let prefix = 0x2001_0db8 << 96 | source << 64;
            let slice = slices.of_source(Ipv6Addr::from_bits(prefix | 1));
            assert_eq!(
                slice,
                slices.of_source(Ipv6Addr::from_bits(prefix | 0xffff))
            );
            counts[slice as usize] += 1;
        }
        // Binomial: 1000 each, with a deviation of 31.5; more than six of these happen once in 10^9 runs of another key.
        assert!(
            counts.iter().all(|n| (811..=1189).contains(n)),
            "{counts:?}"
        );
    }

    #[test]
    fn strangers_cannot_choose_their_slice() {
        let one = cut(&[("192.0.2.0/24", 1024..=65535)], 4032).expect("it can be cut");
        let other = Slices {
            key: [1, 3],
            ..one.clone()
        };
        let sources = (0..1000u128).map(|n| Ipv6Addr::from_bits(0x2001_0db8 << 96 | n << 64));
        let same = sources.filter(|&s| one.of_source(s) == other.of_source(s));
        assert!(same.count() < 10, "another key is another order");
    }

    /// 1000 lies in the well-known ports, and 64 * 16 = 1024; 64 * 31 = 1984 is the last multiple up to 2000.
    #[test]
    fn slices_are_whole_words_above_the_well_known_ports() {
        let ranges = |ports, size| {
            let slices = cut(&[("192.0.2.1/32", ports)], size).expect("it can be cut");
            let all = (0..slices.len() as u32).filter_map(|id| slices.get(id));
            all.map(|slice| slice.ports.clone()).collect::<Vec<_>>()
        };
        assert_eq!(ranges(1..=65_535, LARGEST), [1024..=65_535]);
        assert_eq!(ranges(1000..=2000, 4096), [1024..=1983]);
        assert_eq!(ranges(1025..=2000, 64 * 7), [1088..=1535, 1536..=1983]);
        assert_eq!(ranges(2048..=2111, 64), [2048..=2111]);
        let slices = cut(&[("192.0.2.1/32", 1..=2000)], LARGEST).expect("it can be cut");
        let addr = "192.0.2.1".parse().expect("an address");
        let of = |port| slices.of_port(addr, port);
        assert_eq!(
            [1, 1023, 1024, 1983, 1984].map(of),
            [None, None, Some(0), Some(0), None]
        );
        assert_eq!(slices.get(0).map(Slice::bounds), Some((1024, 960)));
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        for size in [0, 63, 65, 64_576] {
            let refused = cut(&[("192.0.2.0/24", 1024..=65535)], size);
            assert_eq!(refused, Err(Uncuttable::Size), "{size}");
        }
        for ports in [1..=1023, 1025..=1150] {
            let refused = cut(&[("192.0.2.1/32", ports)], 64);
            assert_eq!(refused, Err(Uncuttable::TooFew));
        }
        assert_eq!(
            cut(&[("10.0.0.0/8", 1024..=65535)], 4096),
            Err(Uncuttable::TooMany)
        );
        let overlapping = [
            ("192.0.2.0/24", 1024..=30_000),
            ("192.0.2.7/32", 29_800..=65_535),
        ];
        let addr = "192.0.2.7".parse().expect("an address");
        assert_eq!(cut(&overlapping, 960), Err(Uncuttable::Overlap(addr)));
    }

    /// The program that forwards finds a slice as first + (port - start) / size (`bpf/steer.h`).
    #[test]
    fn an_address_in_parts_needs_even_slices_without_gaps() {
        let parts = |ranges: &[RangeInclusive<u16>], size| {
            let pool: Vec<_> = ranges
                .iter()
                .map(|ports| ("192.0.2.1/32", ports.clone()))
                .collect();
            cut(&pool, size)
        };
        let uneven = Err(Uncuttable::Uneven("192.0.2.1".parse().expect("an address")));
        let gap = [1024..=2047, 4096..=8191];
        assert_eq!(parts(&gap, 1024), uneven);
        assert_eq!(parts(&gap, LARGEST), uneven);
        let longer_in_the_middle = [1024..=4095, 4096..=8191];
        assert_eq!(parts(&longer_in_the_middle, 2048), uneven);
        let shorter_first = [1024..=2047, 2048..=8191];
        assert_eq!(parts(&shorter_first, 2048), uneven);
        // Ports that belong to no slice are a gap, too.
        assert_eq!(parts(&[1024..=2050, 2051..=4095], 1024), uneven);
        let even = parts(&[2048..=5000, 1024..=2047], 1024).expect("it can be cut");
        assert_eq!(even.len(), 3);
        assert!(parts(&[1024..=2047, 2048..=2111], 1024).is_ok());
        assert!(parts(&[1024..=8191], 3072).is_ok());
        let two_addresses = [("192.0.2.1/32", 1024..=2047), ("192.0.2.2/32", 4096..=8191)];
        assert!(cut(&two_addresses, 1024).is_ok());
    }
}
