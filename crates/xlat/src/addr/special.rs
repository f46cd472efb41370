// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Special-purpose addresses (RFC 6890 and the IANA registries of special-purpose addresses).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How an address may be used in a forwarded packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressKind {
    /// May be the source or destination of a forwarded packet.
    Unicast,
    /// A group: only valid as a destination, and never translated.
    Multicast,
    /// Never in a forwarded packet: unspecified, loopback, link-local, limited broadcast.
    Unroutable,
}

/// Classifies an IPv4 address (RFC 1812 sections 4.2.2.11 and 5.3.7, RFC 3927 section 7). Class E
/// counts as unicast, as in current hosts.
#[inline]
pub fn kind_of_ipv4(addr: Ipv4Addr) -> AddressKind {
    let bits = addr.to_bits();
    match bits >> 24 {
        0 | 127 => AddressKind::Unroutable,
        224..=239 => AddressKind::Multicast,
        169 if bits >> 16 == 0xa9fe => AddressKind::Unroutable,
        255 if bits == u32::MAX => AddressKind::Unroutable,
        _ => AddressKind::Unicast,
    }
}

/// Classifies an IPv6 address (RFC 4291 sections 2.5.2, 2.5.3, 2.5.5.2, 2.5.6 and 2.7).
#[inline]
pub fn kind_of_ipv6(addr: Ipv6Addr) -> AddressKind {
    let bits = addr.to_bits();
    match (bits >> 112) as u16 {
        0 if bits <= 1 || bits >> 32 == 0xffff => AddressKind::Unroutable, // ::, ::1, ::ffff:0:0/96
        0xfe80..=0xfebf => AddressKind::Unroutable,
        0xff00..=0xffff => AddressKind::Multicast,
        _ => AddressKind::Unicast,
    }
}

/// Names the kind of a special address for messages.
pub fn name_of(addr: IpAddr) -> &'static str {
    match addr {
        IpAddr::V4(v4) if v4.is_loopback() => "a loopback address",
        IpAddr::V4(v4) if v4.is_link_local() => "link-local",
        IpAddr::V4(v4) if v4.is_broadcast() => "the broadcast address",
        IpAddr::V4(v4) if v4.is_multicast() => "multicast",
        IpAddr::V4(_) => "no address of a host (RFC 1122 section 3.2.1.3)",
        IpAddr::V6(v6) if v6.is_loopback() => "the loopback address",
        IpAddr::V6(v6) if v6.is_unspecified() => "the unspecified address",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local",
        IpAddr::V6(v6) if v6.is_multicast() => "multicast",
        IpAddr::V6(_) => "an IPv4-mapped address (RFC 4291 section 2.5.5.2)",
    }
}

/// Returns true if the well-known prefix may represent the address (RFC 6052 section 3.1).
/// Addresses that the IANA registry does not list as globally reachable are excluded.
///
/// 192.0.0.0/24 is not globally reachable, except the anycast addresses of PCP (.9, RFC 7723) and
/// TURN (.10, RFC 8155). The two addresses of ipv4only.arpa (.170 and .171) are not globally
/// reachable either, but are accepted: DNS64 embeds them in the prefix so that hosts discover it
/// (RFC 7050 section 2.2), and a host that sends to one should get no error.
#[inline]
pub fn is_global(addr: Ipv4Addr) -> bool {
    match addr.octets() {
        [192, 0, 0, 9 | 10 | 170 | 171] => true,
        [0 | 10 | 127 | 224..=255, ..]
        | [100, 64..=127, ..]
        | [169, 254, ..]
        | [172, 16..=31, ..]
        | [192, 0, 0 | 2, _]
        | [192, 168, ..]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globally_reachable_or_not() {
        for yes in [
            "8.8.8.8",
            "192.0.0.9",
            "192.0.0.10",
            "192.0.0.170",
            "192.0.0.171",
            "192.88.99.1",
            "172.32.0.0",
            "198.20.0.0",
        ] {
            assert!(is_global(yes.parse().unwrap()), "{yes}");
        }
        for no in [
            "10.0.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.127.255.255",
            "192.0.0.8",
            "192.0.0.1",
            "192.0.2.1",
            "198.19.0.0",
            "203.0.113.5",
            "240.0.0.1",
            "255.255.255.255",
            "224.0.0.1",
            "0.0.0.0",
        ] {
            assert!(!is_global(no.parse().unwrap()), "{no}");
        }
    }

    #[test]
    fn kinds() {
        for addr in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "169.254.1.1",
            "255.255.255.255",
        ] {
            assert_eq!(
                kind_of_ipv4(addr.parse().unwrap()),
                AddressKind::Unroutable,
                "{addr}"
            );
        }
        for addr in ["169.253.0.1", "192.0.2.1", "240.0.0.1", "255.255.255.254"] {
            assert_eq!(
                kind_of_ipv4(addr.parse().unwrap()),
                AddressKind::Unicast,
                "{addr}"
            );
        }
        assert_eq!(
            kind_of_ipv4("239.1.1.1".parse().unwrap()),
            AddressKind::Multicast
        );
        for addr in ["::", "::1", "fe80::1", "febf::1", "::ffff:192.0.2.1"] {
            assert_eq!(
                kind_of_ipv6(addr.parse().unwrap()),
                AddressKind::Unroutable,
                "{addr}"
            );
        }
        for addr in ["64:ff9b::1", "fc00::1", "fec0::1", "2001:db8::"] {
            assert_eq!(
                kind_of_ipv6(addr.parse().unwrap()),
                AddressKind::Unicast,
                "{addr}"
            );
        }
        assert_eq!(
            kind_of_ipv6("ff02::1".parse().unwrap()),
            AddressKind::Multicast
        );
    }
}
