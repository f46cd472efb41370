// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pool, cut into slices: one IPv4 address and a range of its ports each. Every node cuts the same slices from the same
//! configuration, and a keyed hash says which slice a source gets its ports from.

use std::hash::Hasher;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::Ipv4Net;
use siphasher::sip::SipHasher13;

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
    /// A slice has no ports.
    NoPorts,
    /// No address has as many ports as one slice.
    TooFew,
    /// There would be more slices than a cluster can have.
    TooMany,
    /// Two parts of the pool have a port in common.
    Overlap(Ipv4Addr),
}

impl Slices {
    /// Most slices of a cluster: each has an entry in the engine, and each node knows all of them.
    pub const MOST: usize = 65_536;

    /// Cuts every address of `pool` into slices of `ports_per_slice`. What is left of an address belongs to its last slice.
    pub fn cut(
        pool: &[(Ipv4Net, RangeInclusive<u16>)],
        ports_per_slice: u16,
        source_prefix_len: u8,
        key: [u64; 2],
    ) -> Result<Slices, Uncuttable> {
        if ports_per_slice == 0 {
            return Err(Uncuttable::NoPorts);
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
        match overlap {
            Some(pair) => Err(Uncuttable::Overlap(pair[0].addr)),
            None => Ok(Slices {
                all,
                key,
                source_prefix_len: source_prefix_len.min(128),
            }),
        }
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

/// The ranges into which the ports of one address are cut.
fn slices_of(ports: &RangeInclusive<u16>, size: u16) -> Vec<RangeInclusive<u16>> {
    let (first, size) = (u32::from(*ports.start()), u32::from(size));
    let end = u32::from(*ports.end()) + 1;
    let whole = end.saturating_sub(first) / size;
    (0..whole)
        .map(|n| {
            let start = first + n * size;
            let next = if n + 1 == whole { end } else { start + size };
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
        let slices = cut(&[("192.0.2.0/31", 1024..=65535)], 20_000).expect("it can be cut");
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
                slice("192.0.2.0", 1024..=21_023),
                slice("192.0.2.0", 21_024..=41_023),
                slice("192.0.2.0", 41_024..=65_535),
                slice("192.0.2.1", 1024..=21_023),
                slice("192.0.2.1", 21_024..=41_023),
                slice("192.0.2.1", 41_024..=65_535),
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

    #[test]
    fn what_cannot_be_cut_is_refused() {
        assert_eq!(
            cut(&[("192.0.2.0/24", 1024..=65535)], 0),
            Err(Uncuttable::NoPorts)
        );
        assert_eq!(
            cut(&[("192.0.2.1/32", 1024..=2000)], 4096),
            Err(Uncuttable::TooFew)
        );
        assert_eq!(
            cut(&[("10.0.0.0/8", 1024..=65535)], 4096),
            Err(Uncuttable::TooMany)
        );
        let overlapping = [
            ("192.0.2.0/24", 1024..=30_000),
            ("192.0.2.7/32", 30_000..=65_535),
        ];
        let addr = "192.0.2.7".parse().expect("an address");
        assert_eq!(cut(&overlapping, 1000), Err(Uncuttable::Overlap(addr)));
    }
}
