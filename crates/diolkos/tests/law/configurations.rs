// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translators under which the law is tested. CLATs: every length of prefix, with addresses that keep checksums as
//! they are and with others. SIITs: tables and prefixes of every shape. And every key that a program looks at.

use diolkos_core::addr::rfc6052::Pref64;
use diolkos_core::csum::Sum;
use diolkos_core::{Config, Eam, Icmp, TrafficClass, UdpZeroChecksum};
use diolkos_sys::fastpath::testrun::TestRun;
use diolkos_sys::fastpath::{self, ClatRules, FastPathError, Rules, SiitRules};
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

/// One translator, as the settings of the program describe it.
#[derive(Clone, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub mode: Mode,
    /// The nodes on our side; of a CLAT one.
    pub eam: Vec<(Ipv4Net, Ipv6Net)>,
    pub pref64: Vec<Ipv6Net>,
    pub mtu4: u32,
    pub mtu6: u32,
    pub lowest_ipv6_mtu: u32,
    pub udp_zero_checksum: UdpZeroChecksum,
    pub traffic_class: TrafficClass,
    pub allow_private_with_wkp: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Clat,
    Siit,
}

/// A node by both its addresses.
pub type Node = (Ipv4Addr, Ipv6Addr);

/// Prefixes that the fast path of a SIIT knows; the others it leaves to the slow path.
const KNOWN_PREFIXES: usize = 4;

impl Setup {
    /// A CLAT with the defaults of the program, and an address that is not checksum-neutral.
    fn clat(name: &'static str, pref64: &str) -> Setup {
        Setup {
            name,
            mode: Mode::Clat,
            eam: vec![mapping(
                "192.0.0.1/32",
                "2001:db8:1:2:a5a5:1234:5678:9abc/128",
            )],
            pref64: vec![pref64.parse().unwrap()],
            mtu4: 1516,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            udp_zero_checksum: UdpZeroChecksum::Drop,
            traffic_class: TrafficClass::Copy,
            allow_private_with_wkp: false,
        }
    }

    fn siit(name: &'static str, pref64: &[&str], eam: &[(&str, &str)]) -> Setup {
        Setup {
            mode: Mode::Siit,
            eam: eam.iter().map(|(v4, v6)| mapping(v4, v6)).collect(),
            pref64: pref64.iter().map(|p| p.parse().unwrap()).collect(),
            mtu4: 1500,
            ..Setup::clat(name, "64:ff9b::/96")
        }
    }

    /// Another address of the CLAT.
    fn with(self, v4: &str, v6: &str) -> Setup {
        Setup {
            eam: vec![mapping(v4, v6)],
            ..self
        }
    }

    /// With a last word of the CLAT's address that makes both families sum up alike (RFC 6052 section 4.1).
    fn neutral(self) -> Setup {
        let (v4, v6) = self.near(0, 0);
        let mut segments = v6.segments();
        segments[7] = 0;
        let rest = Sum::default()
            .ipv6(segments.into())
            .ipv6(self.pref64[0].network());
        segments[7] = Sum::default().ipv4(v4).minus(rest).fold();
        Setup {
            eam: vec![(v4.into(), Ipv6Addr::from(segments).into())],
            ..self
        }
    }

    /// A node on our side, one of many: by a mapping if there are any, otherwise by a prefix. `noise` goes into the bits
    /// of its IPv6 address that carry nothing.
    pub fn near(&self, pick: u64, noise: u128) -> Node {
        let bits = (pick >> 8) as u32;
        match self.eam.get(pick as usize % self.eam.len().max(1)) {
            Some(&(v4, v6)) => node_of(v4, v6, bits, noise),
            None => self.behind_prefix(Ipv4Addr::from_bits(bits), pick),
        }
    }

    /// A node on the other side: behind a prefix this IPv4 node, by a mapping one of many.
    pub fn far(&self, peer: Ipv4Addr, pick: u64, noise: u128) -> Node {
        let mapped = self.mode == Mode::Siit && self.eam.len() > 1 && pick % 4 == 1;
        if mapped || self.pref64.is_empty() {
            self.near(pick >> 2, noise)
        } else {
            self.behind_prefix(peer, pick >> 2)
        }
    }

    fn behind_prefix(&self, v4: Ipv4Addr, pick: u64) -> Node {
        let prefix = self.pref64[pick as usize % self.pref64.len()];
        (v4, Pref64::new(prefix).embed(v4))
    }

    /// Of several prefixes the first is used to embed.
    pub fn in_first_prefix(pick: u64) -> u64 {
        pick & 3
    }

    /// Does a mapping cover this IPv4 node?
    pub fn maps(&self, v4: Ipv4Addr) -> bool {
        self.eam.iter().any(|(net, _)| net.contains(&v4))
    }

    /// Does the fast path know the prefix of this node, if it has one?
    pub fn knows(&self, v6: Ipv6Addr) -> bool {
        let unknown = self.pref64.iter().skip(KNOWN_PREFIXES);
        !unknown.into_iter().any(|prefix| prefix.contains(&v6))
    }

    /// RFC 6052 section 3.1 holds for what is behind the prefix.
    fn only_global_behind(&self, prefix: Ipv6Net) -> bool {
        prefix == "64:ff9b::/96".parse().unwrap() && !self.allow_private_with_wkp
    }

    /// It holds for what is behind one of them.
    pub fn only_global(&self) -> bool {
        self.pref64.iter().any(|&p| self.only_global_behind(p))
    }

    /// The programs with what the daemon tells them (`clat::rules`, `siit::rules`).
    pub fn fast(&self) -> Result<TestRun, FastPathError> {
        let rules = Rules {
            tun_ifindex: 1,
            mtu4: self.mtu4,
            mtu6: self.mtu6,
            lowest_ipv6_mtu: self.lowest_ipv6_mtu,
            traffic_class_zero: self.traffic_class == TrafficClass::Zero,
        };
        let pref64 = |&prefix: &Ipv6Net| fastpath::Pref64 {
            network: prefix.network(),
            bits: prefix.prefix_len(),
            only_global: self.only_global_behind(prefix),
        };
        match self.mode {
            Mode::Clat => TestRun::clat(&ClatRules {
                rules,
                v4: self.near(0, 0).0,
                v6: self.near(0, 0).1,
                pref64: pref64(&self.pref64[0]),
                uplink_ifindex: 1,
                uplink_is_ethernet: true,
            }),
            Mode::Siit => TestRun::siit(&SiitRules {
                rules,
                pref64: self.pref64.iter().map(pref64).collect(),
                eam: self
                    .eam
                    .iter()
                    .map(|(v4, v6)| fastpath::Eam {
                        v4: (v4.network(), v4.prefix_len()),
                        v6: (v6.network(), v6.prefix_len()),
                    })
                    .collect(),
            }),
        }
    }

    /// What it tells the slow path (`Settings::translation` in `src/config/translation.rs`).
    pub fn config(&self) -> Config {
        Config {
            pref64: self.pref64.clone(),
            eam: self.eam.iter().map(|&(v4, v6)| Eam { v4, v6 }).collect(),
            clat: self.mode == Mode::Clat,
            lowest_ipv6_mtu: self.lowest_ipv6_mtu,
            mtu4: self.mtu4,
            mtu6: self.mtu6,
            udp_zero_checksum: self.udp_zero_checksum,
            traffic_class: self.traffic_class,
            allow_private_with_wkp: self.allow_private_with_wkp,
            icmp: Icmp {
                address6: Some("2001:db8:ffff::1".parse().unwrap()),
                ..Icmp::default()
            },
        }
    }
}

fn mapping(v4: &str, v6: &str) -> (Ipv4Net, Ipv6Net) {
    (v4.parse().unwrap(), v6.parse().unwrap())
}

/// Both suffixes begin right after their prefixes (RFC 7757 section 3.3).
fn node_of(v4: Ipv4Net, v6: Ipv6Net, bits: u32, noise: u128) -> Node {
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

fn clats() -> Vec<Setup> {
    let clat = Setup::clat;
    vec![
        clat("well-known prefix, neutral", "64:ff9b::/96").neutral(),
        clat("well-known prefix", "64:ff9b::/96"),
        Setup {
            allow_private_with_wkp: true,
            ..clat("well-known prefix, private allowed", "64:ff9b::/96").neutral()
        },
        clat("/96, neutral", "2001:db8:64::/96").neutral(),
        clat("/64", "2001:db8:122:344::/64").neutral(),
        clat("/56", "2001:db8:122:300::/56"),
        clat("/48", "64:ff9b:1::/48"),
        clat("/40", "2001:db8:100::/40").neutral(),
        clat("/32", "2001:db9::/32")
            .with("192.0.0.1/32", "2001:db8:100:2:a5a5:1234:5678:9abc/128")
            .neutral(),
        clat("/32 in which the CLAT's own address lies", "2001:db8::/32")
            .with("192.0.0.1/32", "2001:db8:cb00:7101:a5a5:1234:5678:9abc/128"),
        Setup {
            mtu6: 1280,
            mtu4: 1296,
            traffic_class: TrafficClass::Zero,
            ..clat("IPv6 MTU 1280, traffic class zero", "2001:db8:64::/96")
        },
        Setup {
            mtu6: 9000,
            mtu4: 9016,
            lowest_ipv6_mtu: 1400,
            ..clat("IPv6 MTU 9000, lowest 1400", "2001:db8:64::/96").neutral()
        },
        Setup {
            mtu4: 1300,
            ..clat("IPv4 MTU 1300", "2001:db8:64::/96").neutral()
        },
        Setup {
            udp_zero_checksum: UdpZeroChecksum::Compute,
            lowest_ipv6_mtu: 1500,
            ..clat("10.1.2.3, UDP checksums computed", "64:ff9b::/96")
                .with("10.1.2.3/32", "2001:db8:1:2:a5a5:1234:5678:9abc/128")
                .neutral()
        },
    ]
}

fn siits() -> Vec<Setup> {
    let siit = Setup::siit;
    // One network in another in another, on both sides alike.
    let nested: Vec<(Ipv4Net, Ipv6Net)> = (2..=32)
        .map(|len| {
            (
                Ipv4Net::new(Ipv4Addr::new(128, 0, 0, 0), len).unwrap(),
                Ipv6Net::new("2001:db8:0:0:7::8000:0".parse().unwrap(), 96 + len).unwrap(),
            )
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
        Setup {
            eam: nested,
            ..siit("mappings of every length", &["2001:db8:46::/48"], &[])
        },
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
        Setup {
            mtu6: 1280,
            mtu4: 1300,
            traffic_class: TrafficClass::Zero,
            allow_private_with_wkp: true,
            ..siit(
                "small MTUs, traffic class zero, private allowed",
                &["64:ff9b::/96", "2001:db8:64::/64"],
                &[("10.9.8.0/24", "2001:db8:98::/120")],
            )
        },
        Setup {
            mtu6: 9000,
            mtu4: 9000,
            lowest_ipv6_mtu: 1500,
            udp_zero_checksum: UdpZeroChecksum::Compute,
            ..siit(
                "MTU 9000, lowest 1500, UDP checksums computed",
                &["2001:db8:64:64::/64", "2001:db8:96::/96"],
                &[("198.51.100.128/25", "2001:db8:64:64:c6:3364:8000:0/105")],
            )
        },
    ]
}
