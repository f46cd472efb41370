// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which prefixes are usable, and which of them is chosen.
//!
//! RFC 7050 section 3, which RFC 8781 section 5.1 follows, is for nodes that use all prefixes in the order received. A
//! CLAT uses one prefix, so it has to choose. No RFC guarantees which one (RFC 7050 section 5).

use diolkos_xlat::addr::rfc6052::{Pref64, PREFIX_LENGTHS};
use diolkos_xlat::addr::special::{kind_of_ipv6, AddressKind};
use ipnet::Ipv6Net;

/// Returns true if the prefix can be a translation prefix. Networks also advertise invalid ones.
///
/// The length must be one of RFC 6052 section 2.2. The addresses must be those of remote nodes: not multicast, not
/// link-local, and not in 0::/16, which holds loopback and the IPv4-mapped addresses. Bits 64 to 71 should be zero, but
/// some networks have 96-bit prefixes with other values, whose addresses are unambiguous, so these are accepted.
pub fn is_usable(prefix: Ipv6Net) -> bool {
    let network = prefix.network();
    let reserved = network.to_bits() >> 112 == 0;
    prefix.addr() == network
        && PREFIX_LENGTHS.contains(&prefix.prefix_len())
        && kind_of_ipv6(network) == AddressKind::Unicast
        && !reserved
}

/// Rank of a prefix; lower is better: a network-specific prefix of 96 bits, the well-known prefix, then the longest
/// other one. No RFC defines this order.
pub fn rank(prefix: Ipv6Net) -> u8 {
    match prefix.prefix_len() {
        96 if Pref64::new(prefix).is_well_known() => 1,
        96 => 0,
        len => 128 - len,
    }
}

/// The best prefix. Among equals, the one in use, else the first, because a change without benefit breaks connections.
pub fn best(prefixes: &[Ipv6Net], in_use: Option<Ipv6Net>) -> Option<Ipv6Net> {
    let least = prefixes.iter().map(|&prefix| rank(prefix)).min()?;
    let mut equals = prefixes
        .iter()
        .copied()
        .filter(|&prefix| rank(prefix) == least);
    match in_use {
        Some(prefix) if rank(prefix) == least && prefixes.contains(&prefix) => Some(prefix),
        _ => equals.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Ipv6Net {
        text.parse().expect("a prefix")
    }

    #[test]
    fn prefixes_that_cannot_be() {
        for usable in [
            "64:ff9b::/96",
            "64:ff9b:1::/48",
            "2001:db8::/32",
            "fd00:64::/96",
            "2001:db8:1:2::/64",
            "2001:db8:0:0:100::/96",
        ] {
            assert!(is_usable(net(usable)), "{usable}");
        }
        for (prefix, why) in [
            ("2001:db8::/95", "the length"),
            ("2001:db8::1/96", "bits after the prefix"),
            ("::ffff:0:0/96", "mapped IPv4 addresses"),
            ("::/96", "compatible IPv4 addresses, and loopback"),
            ("::/32", "the same"),
            ("ff0e::/96", "multicast"),
            ("fe80::/64", "link-local"),
        ] {
            assert!(!is_usable(net(prefix)), "{prefix}: {why}");
        }
    }

    #[test]
    fn the_order_of_preference() {
        let order = [
            "2001:db8:64::/96",
            "64:ff9b::/96",
            "2001:db8:1::/64",
            "2001:db8:2::/56",
            "2001:db8:3::/48",
            "2001:db8:400::/40",
            "2001:db8::/32",
        ]
        .map(net);
        for at in 0..order.len() {
            let mut those = order[at..].to_vec();
            assert_eq!(best(&those, None), Some(order[at]));
            those.reverse();
            assert_eq!(best(&those, order.last().copied()), Some(order[at]));
        }
        assert_eq!(best(&[], Some(order[0])), None);
    }

    #[test]
    fn of_equals_the_one_in_use_stays() {
        let [one, two] = ["2001:db8:1::/96", "2001:db8:2::/96"].map(net);
        assert_eq!(best(&[one, two], None), Some(one));
        assert_eq!(best(&[one, two], Some(two)), Some(two));
        assert_eq!(best(&[one], Some(two)), Some(one));
    }
}
