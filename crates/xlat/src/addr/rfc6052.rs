// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 addresses embedded in IPv6 addresses (RFC 6052 section 2).

use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};

/// 64:ff9b::/96 (RFC 6052 section 2.1).
pub const WELL_KNOWN_PREFIX: u128 = 0x0064_ff9b << 96;

/// The lengths a translation prefix may have (RFC 6052 section 2.2).
pub const PREFIX_LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// Bits 64 to 71, which are reserved and zero (RFC 6052 section 2.2).
pub const U_OCTET: u128 = 0xff << 56;

const UPPER_HALF: u128 = !0 << 64;
const BELOW_U_OCTET: u128 = (1 << 56) - 1;

/// A translation prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pref64 {
    base: u128,
    mask: u128,
    len: u8,
}

impl Pref64 {
    /// Creates a prefix from a network whose length [`crate::Config`] has checked against
    /// [`PREFIX_LENGTHS`].
    pub fn new(prefix: Ipv6Net) -> Pref64 {
        Pref64 {
            base: prefix.network().to_bits(),
            mask: prefix.netmask().to_bits(),
            len: prefix.prefix_len(),
        }
    }

    /// Returns true for 64:ff9b::/96.
    #[inline]
    pub fn is_well_known(&self) -> bool {
        self.base == WELL_KNOWN_PREFIX && self.len == 96
    }

    /// Embeds an IPv4 address: prefix, address around the u octet, zeros as suffix.
    #[inline]
    pub fn embed(&self, addr: Ipv4Addr) -> Ipv6Addr {
        let addr = u128::from(addr.to_bits());
        let embedded = match self.len {
            96 => addr,
            len => {
                let unsplit = addr << (96 - len);
                (unsplit & UPPER_HALF) | ((unsplit & !UPPER_HALF) >> 8)
            }
        };
        Ipv6Addr::from_bits(self.base | embedded)
    }

    /// Returns the embedded IPv4 address if `addr` has this prefix. The u octet and the suffix are
    /// ignored (RFC 6052 section 2.3).
    #[inline]
    pub fn extract(&self, addr: Ipv6Addr) -> Option<Ipv4Addr> {
        let addr = addr.to_bits();
        if addr & self.mask != self.base {
            return None;
        }
        let extracted = match self.len {
            96 => addr,
            len => ((addr & UPPER_HALF) | ((addr & BELOW_U_OCTET) << 8)) >> (96 - len),
        };
        Some(Ipv4Addr::from_bits(extracted as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of RFC 6052 section 2.4.
    const TABLE_1: [(&str, &str); 6] = [
        ("2001:db8::/32", "2001:db8:c000:221::"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
    ];

    #[test]
    fn table_1_both_ways() {
        let node: Ipv4Addr = "192.0.2.33".parse().unwrap();
        for (prefix, embedded) in TABLE_1 {
            let prefix = Pref64::new(prefix.parse().unwrap());
            let embedded: Ipv6Addr = embedded.parse().unwrap();
            assert_eq!(prefix.embed(node), embedded);
            assert_eq!(prefix.extract(embedded), Some(node));
        }
    }

    #[test]
    fn u_octet_and_suffix_are_ignored_on_input() {
        let prefix = Pref64::new("2001:db8:122:344::/64".parse().unwrap());
        let addr = "2001:db8:122:344:ffc0:2:21ff:ffff".parse().unwrap();
        assert_eq!(prefix.extract(addr), Some("192.0.2.33".parse().unwrap()));
        assert_eq!(prefix.extract("2001:db8:122:345::".parse().unwrap()), None);
    }

    #[test]
    fn the_well_known_prefix_is_known_by_value_and_length() {
        assert!(Pref64::new("64:ff9b::/96".parse().unwrap()).is_well_known());
        assert!(!Pref64::new("64:ff9b::/64".parse().unwrap()).is_well_known());
        assert!(!Pref64::new("64:ff9b:1::/96".parse().unwrap()).is_well_known());
    }
}
