// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of IPv4 networks that answers only whether it contains an address.

use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// First and last address of each range, in order, without overlap.
#[derive(Debug)]
pub struct Networks4(Vec<(u32, u32)>);

impl Networks4 {
    pub fn new(networks: &[Ipv4Net]) -> Networks4 {
        let networks = Ipv4Net::aggregate(&networks.to_vec());
        let mut ranges: Vec<(u32, u32)> = networks
            .iter()
            .map(|net| (net.network().to_bits(), net.broadcast().to_bits()))
            .collect();
        ranges.sort_unstable();
        Networks4(ranges)
    }

    #[inline]
    pub fn contains(&self, addr: Ipv4Addr) -> bool {
        !self.0.is_empty() && self.find(addr.to_bits())
    }

    fn find(&self, addr: u32) -> bool {
        let behind = self.0.partition_point(|(first, _)| *first <= addr);
        behind > 0 && addr <= self.0[behind - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_addresses_lie_in_a_network() {
        let nets = ["192.0.2.0/25", "192.0.2.128/25", "203.0.113.7/32"];
        let set = Networks4::new(&nets.map(|net| net.parse().unwrap()));
        for (addr, is_in) in [
            ("192.0.1.255", false),
            ("192.0.2.0", true),
            ("192.0.2.255", true),
            ("192.0.3.0", false),
            ("203.0.113.6", false),
            ("203.0.113.7", true),
            ("203.0.113.8", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(set.contains(addr.parse().unwrap()), is_in, "{addr}");
        }
        assert!(!Networks4::new(&[]).contains(Ipv4Addr::UNSPECIFIED));
    }
}
