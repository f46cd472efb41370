// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CLAT's IPv6 address, when the operator leaves the choice to the program.
//!
//! It lies in a prefix that the network routes to this node, or else in the uplink's own /64 (RFC 6877 section 6.3). It
//! is the same at every start (RFC 7217), and checksum-neutral with the CLAT's IPv4 address (RFC 6052 section 4.1), so
//! the fast path never has to change a TCP or UDP checksum.

use std::fs;
use std::hash::Hasher;
use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_xlat::csum::Sum;
use ipnet::Ipv6Net;
use siphasher::sip::SipHasher24;

/// The inputs that an address is derived from (RFC 7217 section 5).
#[derive(Clone, Debug)]
pub struct Recipe<'a> {
    /// The prefix that contains the address, of at most 96 bits. The bits after a prefix that is shorter than a /64 are
    /// chosen like the rest.
    pub prefix: Ipv6Net,
    /// The translation prefix.
    pub pref64: Ipv6Net,
    /// The CLAT's IPv4 address.
    pub v4: Ipv4Addr,
    /// The uplink's name.
    pub uplink: &'a str,
    /// The host's secret.
    pub secret: &'a [u8],
}

/// Returns the host's secret: the machine id, or the link address of the uplink if there is no machine id.
pub fn host_secret(link_address: &[u8]) -> Vec<u8> {
    fs::read("/etc/machine-id")
        .ok()
        .filter(|id| id.len() >= 32)
        .unwrap_or_else(|| link_address.to_vec())
}

impl Recipe<'_> {
    /// Returns the address for the given number of collisions so far.
    pub fn address(&self, collisions: u8) -> Ipv6Addr {
        let mut attempt = 0u32;
        loop {
            let subnet = self.hash(b"diolkos clat subnet", collisions, attempt);
            let id = self.hash(b"diolkos clat", collisions, attempt);
            let address = self.neutral(u128::from(subnet) << 64 | u128::from(id));
            if !is_reserved(address) && address != self.prefix.network() {
                return address;
            }
            attempt += 1;
        }
    }

    fn hash(&self, purpose: &[u8], collisions: u8, attempt: u32) -> u64 {
        let mut hasher = SipHasher24::new();
        hasher.write(purpose);
        hasher.write(&self.prefix.network().octets()[..8]);
        hasher.write(self.uplink.as_bytes());
        hasher.write(&self.v4.octets());
        hasher.write(&[collisions]);
        hasher.write(&attempt.to_be_bytes());
        hasher.write(self.secret);
        hasher.finish()
    }

    /// Puts the hash behind the prefix, and sets the last word so that the addresses and prefixes of both families have
    /// the same sum. If a prefix moves the embedded address to odd bytes, no word can do that for every address; then
    /// the address is not neutral.
    fn neutral(&self, hash: u128) -> Ipv6Addr {
        let network = u128::from(self.prefix.network());
        let behind = u128::from(self.prefix.hostmask());
        let mut segments = Ipv6Addr::from(network | hash & behind).segments();
        segments[7] = 0;
        let rest = Sum::default()
            .ipv6(segments.into())
            .ipv6(self.pref64.network());
        segments[7] = Sum::default().ipv4(self.v4).minus(rest).fold();
        segments.into()
    }
}

/// Returns true for interface identifiers that are reserved by the specifications (RFC 5453).
fn is_reserved(address: Ipv6Addr) -> bool {
    let id = u128::from(address) as u64;
    id == 0
        || (0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff).contains(&id)
        || id >> 16 == 0x0200_5eff_fe00
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn recipe<'a>(prefix: &str, pref64: &str, secret: &'a [u8]) -> Recipe<'a> {
        Recipe {
            prefix: prefix.parse().expect("a prefix"),
            pref64: pref64.parse().expect("a prefix"),
            v4: Ipv4Addr::new(192, 0, 0, 1),
            uplink: "eth0",
            secret,
        }
    }

    fn words(bytes: &[u8]) -> u32 {
        let sum: u32 = bytes
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        (folded & 0xffff) + (folded >> 16)
    }

    #[test]
    fn the_address_is_checksum_neutral() {
        let prefixes = [
            "2001:db8:1:2::/64",
            "2001:db8:1:2::/96",
            "2001:db8:1::/48",
            "2001:db8:1:fe00::/56",
        ];
        let pref64s = ["64:ff9b::/96", "2001:db8:64::/96"];
        for (prefix, pref64) in prefixes.iter().flat_map(|p| pref64s.map(|q| (p, q))) {
            let recipe = recipe(prefix, pref64, b"secret");
            for collisions in 0..50 {
                let v6 = recipe.address(collisions);
                let both = [v6.octets(), recipe.pref64.network().octets()].concat();
                assert_eq!(
                    words(&both) % 0xffff,
                    words(&recipe.v4.octets()) % 0xffff,
                    "{v6}"
                );
                assert!(recipe.prefix.contains(&v6));
            }
        }
    }

    #[test]
    fn the_address_is_stable_and_depends_on_all() {
        let base = recipe("2001:db8:1:2::/64", "64:ff9b::/96", b"secret");
        assert_eq!(base.address(0), base.address(0));
        assert_ne!(base.address(0), base.address(1));
        assert_ne!(
            base.address(0),
            recipe("2001:db8:1:2::/64", "64:ff9b::/96", b"other").address(0)
        );
        let elsewhere = Recipe {
            uplink: "eth1",
            ..base.clone()
        };
        assert_ne!(base.address(0), elsewhere.address(0));
    }

    #[test]
    fn all_bits_behind_a_prefix_are_chosen() {
        let short = recipe("2001:db8:1::/48", "64:ff9b::/96", b"secret");
        let subnets: HashSet<u16> = (0..20).map(|n| short.address(n).segments()[3]).collect();
        assert!(subnets.len() > 15, "{subnets:?}");
        let long = recipe("2001:db8:1:2:3:4::/96", "64:ff9b::/96", b"secret");
        let addresses: HashSet<Ipv6Addr> = (0..20).map(|n| long.address(n)).collect();
        assert!(addresses.len() > 15, "{addresses:?}");
    }

    #[test]
    fn reserved_identifiers_are_known() {
        for reserved in [
            "2001:db8::",
            "2001:db8::fdff:ffff:ffff:ff80",
            "2001:db8::200:5eff:fe00:5213",
        ] {
            assert!(
                is_reserved(reserved.parse().expect("an address")),
                "{reserved}"
            );
        }
        assert!(!is_reserved("2001:db8::1".parse().expect("an address")));
    }
}
