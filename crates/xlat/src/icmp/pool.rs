// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources for ICMP errors of routers whose address cannot be mapped (RFC 6791 section 3.1).
//! Without them, traceroute shows gaps.
//!
//! A router always gets the same address, so that its hop is recognised.

use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A pool of IPv4 addresses; at least one.
#[derive(Debug)]
pub struct Pool4(Vec<(Ipv4Addr, u128)>);

impl Pool4 {
    /// Creates a pool of all addresses of `nets`, or of the given one if `nets` is empty.
    pub fn new(nets: &[Ipv4Net], otherwise: Ipv4Addr) -> Pool4 {
        let mut ranges: Vec<_> = nets
            .iter()
            .map(|net| (net.network(), 1 << (32 - net.prefix_len())))
            .collect();
        if ranges.is_empty() {
            ranges.push((otherwise, 1));
        }
        Pool4(ranges)
    }

    /// The address that represents this router.
    pub fn stand_in(&self, router: Ipv6Addr) -> Ipv4Addr {
        let (base, at) = pick(&self.0, spread(router.to_bits()));
        Ipv4Addr::from_bits(base.to_bits() + at as u32)
    }
}

/// A pool of IPv6 addresses; possibly empty.
#[derive(Debug)]
pub struct Pool6(Vec<(Ipv6Addr, u128)>);

impl Pool6 {
    /// Creates a pool of all addresses of `nets`, or of the given one if `nets` is empty. Only the
    /// first 2^64 addresses of a network are used.
    pub fn new(nets: &[Ipv6Net], otherwise: Option<Ipv6Addr>) -> Pool6 {
        let mut ranges: Vec<_> = nets
            .iter()
            .map(|net| (net.network(), 1 << (128 - net.prefix_len()).min(64)))
            .collect();
        if ranges.is_empty() {
            ranges.extend(otherwise.map(|address| (address, 1)));
        }
        Pool6(ranges)
    }

    /// The address that represents this router.
    pub fn stand_in(&self, router: Ipv4Addr) -> Option<Ipv6Addr> {
        if self.0.is_empty() {
            return None;
        }
        let (base, at) = pick(&self.0, spread(u128::from(router.to_bits())));
        Some(Ipv6Addr::from_bits(base.to_bits() + at))
    }
}

/// Finds the range, and the position in it, of the address with index `at` modulo the number of all
/// addresses.
fn pick<A: Copy>(ranges: &[(A, u128)], at: u128) -> (A, u128) {
    let mut at = at % ranges.iter().map(|(_, len)| len).sum::<u128>();
    for &(base, len) in ranges {
        if at < len {
            return (base, at);
        }
        at -= len;
    }
    unreachable!("a remainder is less than its divisor")
}

/// Spreads neighbouring routers over the pool (64-bit FNV-1a hash).
fn spread(bits: u128) -> u128 {
    let hash = bits
        .to_be_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    u128::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_router_keeps_its_address_and_routers_differ() {
        let nets = [
            "192.0.2.0/28".parse().unwrap(),
            "198.51.100.7/32".parse().unwrap(),
        ];
        let pool = Pool4::new(&nets, Ipv4Addr::UNSPECIFIED);
        let stand_ins: HashSet<_> = (0..200u128)
            .map(|n| pool.stand_in(Ipv6Addr::from_bits(n)))
            .collect();
        assert_eq!(stand_ins.len(), 17);
        assert!(stand_ins
            .iter()
            .all(|addr| nets.iter().any(|net| net.contains(addr))));
    }

    #[test]
    fn without_a_pool() {
        let dummy = Ipv4Addr::new(192, 0, 0, 8);
        assert_eq!(Pool4::new(&[], dummy).stand_in(Ipv6Addr::LOCALHOST), dummy);
        assert_eq!(Pool6::new(&[], None).stand_in(dummy), None);
        let whole = Pool6::new(&["::/0".parse().unwrap()], None);
        assert!(whole.stand_in(dummy).is_some());
    }
}
