// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translators for which the law is tested. CLATs: every prefix length, with checksum-neutral and other addresses.
//! SIITs: tables and prefixes of every shape. NAT64s. And every configuration key that a program looks at.

use super::setup::Setup;
use diolkos_nat64::config::{Filtering, Nat64Config};
use diolkos_xlat::{Eam, TrafficClass, UdpZeroChecksum};
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::Ipv4Addr;

/// Returns all of them.
pub fn all() -> Vec<Setup> {
    let mut all = clats();
    all.extend(siits());
    all
}

/// Returns the stateful ones.
pub fn nat64s() -> Vec<Setup> {
    use Filtering::{AddressDependent, EndpointIndependent};
    let nat64 = Setup::nat64;
    vec![
        nat64("NAT64", &["64:ff9b::/96"], EndpointIndependent),
        nat64(
            "NAT64 that filters by address, two prefixes",
            &["2001:db8:64:64::/64", "64:ff9b::/96"],
            AddressDependent,
        ),
        nat64("NAT64, /40", &["2001:db8:100::/40"], EndpointIndependent),
        nat64(
            "NAT64 that lowers the MSS",
            &["64:ff9b::/96"],
            EndpointIndependent,
        )
        .clamping(1220),
        nat64(
            "NAT64, /96 with bits 64 to 71 set",
            &["2001:db8:64:64:ab12::/96"],
            EndpointIndependent,
        ),
    ]
}

/// Returns NAT64s that have to refuse much: the fast path must not let through what the tables would refuse.
pub fn narrow_nat64s() -> Vec<Setup> {
    let shared = |name, change: fn(&mut Nat64Config)| {
        let mut setup = Setup::nat64(name, &["64:ff9b::/96"], Filtering::AddressDependent);
        setup.nat64.iter_mut().for_each(change);
        setup
    };
    let having = |name, change: fn(&mut Nat64Config)| {
        let mut setup = shared(name, change);
        if let Some(config) = &mut setup.nat64 {
            let limits = &mut config.limits;
            limits.host_share = 100;
            limits.source_share = 100;
            limits.site_share = 100;
        }
        setup
    };
    vec![
        shared("NAT64 with shares of sessions", |config| {
            config.limits.sessions = 3000;
        }),
        shared("NAT64 with shares of bindings", |config| {
            config.limits.bindings = 3000;
        }),
        shared("NAT64 with shares of ports", |config| {
            config.pool4[0].net = "192.0.2.0/31".parse().unwrap();
            config.pool4[0].ports = 1024..=2000;
        }),
        shared("NAT64 with shares of hosts alone", |config| {
            config.limits.sessions = 2800;
            config.limits.source_share = 100;
            config.limits.site_share = 100;
        }),
        having("NAT64 with few sessions for each source", |config| {
            config.limits.sessions_per_source = 200;
        }),
        having("NAT64 with few bindings for each source", |config| {
            config.limits.bindings_per_source = 90;
        }),
        having("NAT64 with few sessions", |config| {
            config.limits.sessions = 900;
        }),
        having("NAT64 with few ports", |config| {
            config.pool4[0].net = "192.0.2.0/31".parse().unwrap();
            config.pool4[0].ports = 1000..=1200;
        }),
        having("NAT64 that preserves ports", |config| {
            config.port_preservation = true;
        }),
    ]
}

fn clats() -> Vec<Setup> {
    let clat = Setup::clat;
    vec![
        clat("well-known prefix, neutral", "64:ff9b::/96").neutral(),
        clat("well-known prefix", "64:ff9b::/96"),
        clat("well-known prefix, private allowed", "64:ff9b::/96")
            .neutral()
            .having(|config| {
                config.allow_private_with_wkp = true;
            }),
        clat("/96, neutral", "2001:db8:64::/96").neutral(),
        clat("/96 with bits 64 to 71 set", "2001:db8:64:64:ab12::/96"),
        clat("/64", "2001:db8:122:344::/64").neutral(),
        clat("/56", "2001:db8:122:300::/56"),
        clat("/48", "64:ff9b:1::/48"),
        clat("/40", "2001:db8:100::/40").neutral(),
        clat("/32", "2001:db9::/32")
            .node("192.0.0.1/32", "2001:db8:100:2:a5a5:1234:5678:9abc/128")
            .neutral(),
        clat("/32 in which the CLAT's own address lies", "2001:db8::/32")
            .node("192.0.0.1/32", "2001:db8:cb00:7101:a5a5:1234:5678:9abc/128"),
        clat("IPv6 MTU 1280, traffic class zero", "2001:db8:64::/96").having(|config| {
            config.mtu6 = 1280;
            config.mtu4 = 1296;
            config.traffic_class = TrafficClass::Zero;
        }),
        clat("IPv6 MTU 9000, lowest 1400", "2001:db8:64::/96")
            .neutral()
            .having(|config| {
                config.mtu6 = 9000;
                config.mtu4 = 9016;
                config.lowest_ipv6_mtu = 1400;
            }),
        clat("the MSS is lowered", "2001:db8:64::/96").clamping(1440),
        clat("the MSS is lowered, neutral", "64:ff9b::/96")
            .neutral()
            .clamping(536),
        clat("IPv4 MTU 1300", "2001:db8:64::/96")
            .neutral()
            .having(|config| {
                config.mtu4 = 1300;
            }),
        clat("10.1.2.3, UDP checksums computed", "64:ff9b::/96")
            .node("10.1.2.3/32", "2001:db8:1:2:a5a5:1234:5678:9abc/128")
            .neutral()
            .having(|config| {
                config.udp_zero_checksum = Some(UdpZeroChecksum::Compute);
                config.lowest_ipv6_mtu = 1500;
            }),
    ]
}

fn siits() -> Vec<Setup> {
    let siit = Setup::siit;
    // Nested networks, the same on both sides.
    let nested: Vec<Eam> = (2..=32)
        .map(|len| Eam {
            v4: Ipv4Net::new(Ipv4Addr::new(128, 0, 0, 0), len).unwrap(),
            v6: Ipv6Net::new("2001:db8:0:0:7::8000:0".parse().unwrap(), 96 + len).unwrap(),
        })
        .collect();
    vec![
        siit(
            "one prefix and servers (RFC 7755)",
            &["2001:db8:46::/96"],
            &[
                ("192.0.2.1/32", "2001:db8:12:34::1/128"),
                ("192.0.2.2/32", "2001:db8:12:34::2/128"),
                ("198.51.100.0/24", "2001:db8:56::/120"),
            ],
        ),
        siit(
            "the table of RFC 7757, one mapping in the well-known prefix",
            &["64:ff9b::/96"],
            &[
                ("192.0.2.1/32", "2001:db8:aaaa::/128"),
                ("192.0.2.2/32", "2001:db8:bbbb::b/128"),
                ("192.0.2.16/28", "2001:db8:cccc::/124"),
                ("192.0.2.128/26", "2001:db8:dddd::/64"),
                ("192.0.2.192/29", "2001:db8:eeee:8::/62"),
                ("192.0.2.224/31", "64:ff9b::/127"),
            ],
        ),
        siit(
            "mappings on both sides, no prefix",
            &[],
            &[
                ("10.0.0.0/8", "2001:db8:a::/64"),
                ("198.18.0.0/15", "2001:db8:b::/103"),
                ("203.0.113.9/32", "2001:db8:c::/48"),
                ("203.0.113.128/25", "2001:db8:d::/63"),
                ("198.51.100.0/24", "2001:db8:e:0:8000::/65"),
            ],
        ),
        siit(
            "mappings that overlap on one side, in a prefix too",
            &["2001:db8:46::/96"],
            &[
                ("192.0.2.0/24", "2001:db8:a::/120"),
                ("192.0.2.8/32", "2001:db8:b::8/128"),
                ("198.51.100.0/25", "2001:db8:a::80/121"),
                ("198.51.0.0/16", "2001:db8:46::c633:0/112"),
                ("192.0.2.128/25", "2001:db8:46::c633:6400/121"),
            ],
        ),
        siit(
            "a quarter of IPv4 leads here in both families",
            &["2001:db8:46::/96"],
            &[
                ("192.0.2.0/24", "2001:db8:a::/120"),
                ("198.51.100.7/32", "2001:db8:b::7/128"),
            ],
        )
        .having(|config| config.loops4 = vec!["192.0.0.0/2".parse().unwrap()]),
        siit(
            "many networks lead here in both families",
            &["2001:db8:46::/96", "2001:db8:100::/40"],
            &[("192.0.2.0/24", "2001:db8:a::/120")],
        )
        .having(|config| {
            let network = |at: u8| Ipv4Net::new(Ipv4Addr::new(at * 16, 0, 0, 0), 6).unwrap();
            config.loops4 = (0..16).map(network).collect();
        }),
        siit(
            "a prefix with bits 64 to 71 set",
            &["2001:db8:64:64:ab12::/96"],
            &[("192.0.2.1/32", "2001:db8:12:34::1/128")],
        ),
        siit(
            "the MSS is lowered",
            &["2001:db8:46::/96", "64:ff9b::/96"],
            &[
                ("192.0.2.1/32", "2001:db8:12:34::1/128"),
                ("198.51.100.0/24", "2001:db8:56::/120"),
            ],
        )
        .clamping(1360),
        siit(
            "the MSS is lowered, and the kernel takes the hops",
            &["2001:db8:64::/96"],
            &[("198.51.100.0/24", "2001:db8:96::/120")],
        )
        .having(|config| config.takes_hop = false)
        .clamping(8960),
        siit(
            "prefixes of every length, no mapping",
            &[
                "64:ff9b::/96",
                "2001:db8:164::/64",
                "2001:db8:156:7700::/56",
                "2001:db8:148::/48",
                "2001:db8:4000::/40",
                "2001:db9::/32",
            ],
            &[],
        ),
        siit("mappings of every length", &["2001:db8:46::/48"], &[]).having(|config| {
            config.eam = nested;
        }),
        siit(
            "the whole of IPv4 in one mapping",
            &[],
            &[("0.0.0.0/0", "2001:db8:64:64::/64")],
        ),
        siit(
            "the whole of IPv4 in the whole of IPv6",
            &[],
            &[("0.0.0.0/0", "::/0")],
        ),
        siit(
            "one node is the whole of IPv6",
            &[],
            &[("192.0.2.1/32", "::/0")],
        ),
        siit(
            "small MTUs, traffic class zero, private allowed",
            &["64:ff9b::/96", "2001:db8:64::/64"],
            &[("10.9.8.0/24", "2001:db8:98::/120")],
        )
        .having(|config| {
            config.mtu6 = 1280;
            config.mtu4 = 1300;
            config.traffic_class = TrafficClass::Zero;
            config.allow_private_with_wkp = true;
        }),
        siit(
            "the kernel takes the hops, one port passes without checksum",
            &["2001:db8:64::/96"],
            &[("198.51.100.0/24", "2001:db8:96::/120")],
        )
        .having(|config| {
            config.takes_hop = false;
            config.udp_zero_checksum_ports = vec![4789, 53];
        }),
        siit(
            "MTU 9000, lowest 1500, UDP checksums computed",
            &["2001:db8:64:64::/64", "2001:db8:96::/96"],
            &[("198.51.100.128/25", "2001:db8:64:64:c6:3364:8000:0/105")],
        )
        .having(|config| {
            config.mtu6 = 9000;
            config.mtu4 = 9000;
            config.lowest_ipv6_mtu = 1500;
            config.udp_zero_checksum = Some(UdpZeroChecksum::Compute);
        }),
    ]
}
