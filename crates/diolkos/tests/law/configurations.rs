// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translators under which the law is tested. CLATs: every length of prefix, with addresses that keep checksums as
//! they are and with others. SIITs: tables and prefixes of every shape. NAT64s. And every key that a program looks at.

use super::mirror::own_networks;
use diolkos_core::addr::rfc6052::Pref64;
use diolkos_core::config::nat64::{Filtering, Nat64Config, Pool4, Protocol};
use diolkos_core::csum::Sum;
use diolkos_core::{Config, Eam, Icmp, TrafficClass, UdpZeroChecksum};
use diolkos_sys::fastpath::testrun::TestRun;
use diolkos_sys::fastpath::{
    self, ClatRules, Destinations, FastPathError, Lending, Nat64Rules, Rules, Sessions, SiitRules,
};
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

/// One translator, as the slow path is told of it (`Settings::translation` in `src/config/translation.rs`).
#[derive(Clone, Debug)]
pub struct Setup {
    pub name: String,
    pub config: Config,
    /// Of a NAT64; `config` is that of its translator.
    pub nat64: Option<Nat64Config>,
}

/// A node by both its addresses.
pub type Node = (Ipv4Addr, Ipv6Addr);

/// Index of the one interface that is always there.
const LOOPBACK: u32 = 1;

/// Prefixes that the fast path of a SIIT knows; the others it leaves to the slow path.
const KNOWN_PREFIXES: usize = 4;

impl Setup {
    /// Any translator.
    pub fn of(name: &str, config: Config) -> Setup {
        Setup {
            name: name.to_owned(),
            config,
            nat64: None,
        }
    }

    /// A CLAT with the defaults of the program, and an address that is not checksum-neutral.
    fn clat(name: &str, pref64: &str) -> Setup {
        let node = ("192.0.0.1/32", "2001:db8:1:2:a5a5:1234:5678:9abc/128");
        Setup::siit(name, &[pref64], &[node]).having(|config| {
            config.clat = true;
            config.mtu4 = 1516;
        })
    }

    fn siit(name: &str, pref64: &[&str], eam: &[(&str, &str)]) -> Setup {
        Setup::of(
            name,
            Config {
                pref64: pref64.iter().map(|p| p.parse().unwrap()).collect(),
                eam: eam.iter().map(|(v4, v6)| mapping(v4, v6)).collect(),
                icmp: Icmp {
                    address6: Some("2001:db8:ffff::1".parse().unwrap()),
                    ..Icmp::default()
                },
                ..Config::default()
            },
        )
    }

    /// A NAT64 with a small pool.
    fn nat64(name: &str, pref64: &[&str], filtering: Filtering) -> Setup {
        let stateless =
            Setup::siit(name, pref64, &[]).having(|config| config.icmp = Icmp::default());
        let pool = Pool4 {
            net: "192.0.2.0/29".parse().unwrap(),
            ports: 1024..=65535,
            protocols: Protocol::ALL.to_vec(),
        };
        Setup {
            nat64: Some(Nat64Config {
                translator: stateless.config.clone(),
                pool4: vec![pool],
                filtering,
                ..Nat64Config::default()
            }),
            ..stateless
        }
    }

    fn having(mut self, change: impl FnOnce(&mut Config)) -> Setup {
        change(&mut self.config);
        self
    }

    /// Another address of the CLAT.
    fn node(self, v4: &str, v6: &str) -> Setup {
        self.having(|config| config.eam = vec![mapping(v4, v6)])
    }

    /// With a last word of the CLAT's address that makes both families sum up alike (RFC 6052 section 4.1).
    fn neutral(self) -> Setup {
        let (v4, v6) = self.near(0, 0);
        let mut segments = v6.segments();
        segments[7] = 0;
        let rest = Sum::default()
            .ipv6(segments.into())
            .ipv6(self.config.pref64[0].network());
        segments[7] = Sum::default().ipv4(v4).minus(rest).fold();
        let v6 = Ipv6Addr::from(segments);
        self.having(|config| config.eam[0].v6 = v6.into())
    }

    /// A node on our side, one of many: by a mapping if there are any, otherwise by a prefix. `noise` goes into the bits
    /// of its IPv6 address that carry nothing.
    pub fn near(&self, pick: u64, noise: u128) -> Node {
        let bits = (pick >> 8) as u32;
        let eam = &self.config.eam;
        match eam.get(pick as usize % eam.len().max(1)) {
            Some(eam) => node_of(eam, bits, noise),
            None => self.behind_prefix(Ipv4Addr::from_bits(bits), pick),
        }
    }

    /// A node on the other side: behind a prefix this IPv4 node, by a mapping one of many.
    pub fn far(&self, peer: Ipv4Addr, pick: u64, noise: u128) -> Node {
        let mapped = !self.config.clat && self.config.eam.len() > 1 && pick % 4 == 1;
        if mapped || self.config.pref64.is_empty() {
            self.near(pick >> 2, noise)
        } else {
            self.behind_prefix(peer, pick >> 2)
        }
    }

    fn behind_prefix(&self, v4: Ipv4Addr, pick: u64) -> Node {
        let prefixes = &self.config.pref64;
        let prefix = prefixes[pick as usize % prefixes.len()];
        (v4, Pref64::new(prefix).embed(v4))
    }

    /// Of several prefixes the first is used to embed.
    pub fn in_first_prefix(pick: u64) -> u64 {
        pick & 3
    }

    /// Does a mapping cover this IPv4 node?
    pub fn maps(&self, v4: Ipv4Addr) -> bool {
        self.config.eam.iter().any(|eam| eam.v4.contains(&v4))
    }

    /// Does the fast path know the prefix of this node, if it has one?
    pub fn knows(&self, v6: Ipv6Addr) -> bool {
        let mut unknown = self.config.pref64.iter().skip(KNOWN_PREFIXES);
        !unknown.any(|prefix| prefix.contains(&v6))
    }

    /// RFC 6052 section 3.1 holds for what is behind the prefix.
    fn only_global_behind(&self, prefix: Ipv6Net) -> bool {
        prefix == "64:ff9b::/96".parse().unwrap() && !self.config.allow_private_with_wkp
    }

    /// It holds for what is behind one of them.
    pub fn only_global(&self) -> bool {
        self.config
            .pref64
            .iter()
            .any(|&p| self.only_global_behind(p))
    }

    fn rules(&self) -> Rules {
        let config = &self.config;
        Rules {
            tun_ifindex: LOOPBACK,
            mtu4: config.mtu4,
            mtu6: config.mtu6,
            lowest_ipv6_mtu: config.lowest_ipv6_mtu,
            traffic_class_zero: config.traffic_class == TrafficClass::Zero,
        }
    }

    fn pref64(&self, prefix: Ipv6Net) -> fastpath::Pref64 {
        fastpath::Pref64 {
            network: prefix.network(),
            bits: prefix.prefix_len(),
            only_global: self.only_global_behind(prefix),
        }
    }

    /// The program of a NAT64 with what the daemon tells it (`nat64::rules`), and its sessions.
    pub fn fast_with_state(&self) -> Result<(TestRun, Sessions, Lending), FastPathError> {
        let own = self.nat64.as_ref().map_or(vec![], own_networks);
        TestRun::nat64(&Nat64Rules {
            rules: self.rules(),
            pref64: self.config.pref64.iter().map(|&p| self.pref64(p)).collect(),
            max_sessions: 10_000,
            exits: vec![LOOPBACK],
            max_bindings: 10_000,
            own: own
                .iter()
                .map(|net| (net.network(), net.prefix_len()))
                .collect(),
        })
    }

    /// The programs with what the daemon tells them (`clat::rules`, `siit::rules`).
    pub fn fast(&self) -> Result<TestRun, FastPathError> {
        let config = &self.config;
        let rules = self.rules();
        if config.clat {
            let (v4, v6) = self.near(0, 0);
            return TestRun::clat(&ClatRules {
                rules,
                v4,
                v6,
                pref64: self.pref64(config.pref64[0]),
                uplink_ifindex: LOOPBACK,
                uplink_is_ethernet: true,
            });
        }
        let eam = |eam: &Eam| fastpath::Eam {
            v4: (eam.v4.network(), eam.v4.prefix_len()),
            v6: (eam.v6.network(), eam.v6.prefix_len()),
        };
        let pref64: Vec<_> = config.pref64.iter().map(|&p| self.pref64(p)).collect();
        let eams = config.eam.iter().map(eam);
        TestRun::siit(&SiitRules {
            rules,
            pref64: pref64.clone(),
            eam: eams.clone().collect(),
            // What leads to the device unless the operator says otherwise.
            routes: Destinations {
                v4: eams.map(|eam| eam.v4).collect(),
                v6: pref64.iter().map(|p| (p.network, p.bits)).collect(),
            },
            exits: vec![LOOPBACK],
        })
    }
}

fn mapping(v4: &str, v6: &str) -> Eam {
    Eam {
        v4: v4.parse().unwrap(),
        v6: v6.parse().unwrap(),
    }
}

/// Both suffixes begin right after their prefixes (RFC 7757 section 3.3).
fn node_of(eam: &Eam, bits: u32, noise: u128) -> Node {
    let Eam { v4, v6 } = eam;
    let suffix = bits & v4.hostmask().to_bits();
    let (mut moved, mut ignored) = (0u128, v6.hostmask().to_bits());
    for at in v4.prefix_len()..32 {
        let bit = 1 << (127 - (v6.prefix_len() + at - v4.prefix_len()));
        ignored &= !bit;
        if suffix >> (31 - at) & 1 == 1 {
            moved |= bit;
        }
    }
    (
        Ipv4Addr::from_bits(v4.network().to_bits() | suffix),
        Ipv6Addr::from_bits(v6.network().to_bits() | moved | noise & ignored),
    )
}

/// All of them.
pub fn all() -> Vec<Setup> {
    let mut all = clats();
    all.extend(siits());
    all
}

/// Those with state.
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
    ]
}

/// NAT64s that have to refuse much: the fast path must not let through what the tables would not.
pub fn narrow_nat64s() -> Vec<Setup> {
    let having = |name, change: fn(&mut Nat64Config)| {
        let mut setup = Setup::nat64(name, &["64:ff9b::/96"], Filtering::AddressDependent);
        setup.nat64.iter_mut().for_each(change);
        setup
    };
    vec![
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
        clat("IPv4 MTU 1300", "2001:db8:64::/96")
            .neutral()
            .having(|config| {
                config.mtu4 = 1300;
            }),
        clat("10.1.2.3, UDP checksums computed", "64:ff9b::/96")
            .node("10.1.2.3/32", "2001:db8:1:2:a5a5:1234:5678:9abc/128")
            .neutral()
            .having(|config| {
                config.udp_zero_checksum = UdpZeroChecksum::Compute;
                config.lowest_ipv6_mtu = 1500;
            }),
    ]
}

fn siits() -> Vec<Setup> {
    let siit = Setup::siit;
    // One network in another in another, on both sides alike.
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
            "MTU 9000, lowest 1500, UDP checksums computed",
            &["2001:db8:64:64::/64", "2001:db8:96::/96"],
            &[("198.51.100.128/25", "2001:db8:64:64:c6:3364:8000:0/105")],
        )
        .having(|config| {
            config.mtu6 = 9000;
            config.mtu4 = 9000;
            config.lowest_ipv6_mtu = 1500;
            config.udp_zero_checksum = UdpZeroChecksum::Compute;
        }),
    ]
}
