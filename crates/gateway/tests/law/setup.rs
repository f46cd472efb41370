// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A translator for which the law is tested, and the nodes on both its sides.
//!
//! prefixes and mappings → configuration → nodes; what the programs of the fast path are told of it (`programs`)

mod programs;

use diolkos_nat64::config::{Filtering, Nat64Config, Pool4, Protocol};
use diolkos_xlat::addr::rfc6052::Pref64;
use diolkos_xlat::csum::Sum;
use diolkos_xlat::{Config, Eam, Icmp};
use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A translator, as the slow path is configured (`Settings::translation` in `crates/config/src/translation.rs`).
#[derive(Clone, Debug)]
pub struct Setup {
    pub name: String,
    pub config: Config,
    /// The configuration of a NAT64; `config` is that of its translator.
    pub nat64: Option<Nat64Config>,
}

/// A node, by both its addresses.
pub type Node = (Ipv4Addr, Ipv6Addr);

/// Number of prefixes that the fast path of a SIIT knows; it leaves the others to the slow path.
const KNOWN_PREFIXES: usize = 4;

impl Setup {
    /// Creates a translator from its configuration.
    pub fn of(name: &str, config: Config) -> Setup {
        Setup {
            name: name.to_owned(),
            config,
            nat64: None,
        }
    }

    /// Creates a CLAT with the defaults of the program, and an address that is not checksum-neutral.
    pub fn clat(name: &str, pref64: &str) -> Setup {
        let node = ("192.0.0.1/32", "2001:db8:1:2:a5a5:1234:5678:9abc/128");
        Setup::siit(name, &[pref64], &[node]).having(|config| {
            config.clat = true;
            config.mtu4 = 1516;
        })
    }

    /// Creates a SIIT with these prefixes and mappings, and an IPv6 address for its own errors.
    pub fn siit(name: &str, pref64: &[&str], eam: &[(&str, &str)]) -> Setup {
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

    /// Creates a NAT64 with a small pool.
    pub fn nat64(name: &str, pref64: &[&str], filtering: Filtering) -> Setup {
        let stateless =
            Setup::siit(name, pref64, &[]).having(|config| config.icmp = Icmp::default());
        let pool = Pool4 {
            interface: None,
            net: "192.0.2.0/29".parse().unwrap(),
            ports: 1024..=65535,
            protocols: Protocol::ALL.to_vec(),
            sources: vec![],
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

    /// Changes the configuration.
    pub fn having(mut self, change: impl FnOnce(&mut Config)) -> Setup {
        change(&mut self.config);
        self
    }

    /// Lowers the maximum segment size of SYNs.
    pub fn clamping(mut self, mss: u16) -> Setup {
        if let Some(nat64) = &mut self.nat64 {
            nat64.translator.tcp_mss = Some(mss);
        }
        self.having(|config| config.tcp_mss = Some(mss))
    }

    /// Sets another address of the CLAT.
    pub fn node(self, v4: &str, v6: &str) -> Setup {
        self.having(|config| config.eam = vec![mapping(v4, v6)])
    }

    /// Sets the last word of the CLAT's address so that the addresses of both families have the same sum (RFC 6052
    /// section 4.1).
    pub fn neutral(self) -> Setup {
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

    /// Returns one of many nodes on our side: by a mapping if there are any, otherwise by a prefix. `noise` goes into
    /// the bits of its IPv6 address that carry no information.
    pub fn near(&self, pick: u64, noise: u128) -> Node {
        let bits = (pick >> 8) as u32;
        let eam = &self.config.eam;
        match eam.get(pick as usize % eam.len().max(1)) {
            Some(eam) => node_of(eam, bits, noise),
            None => self.behind_prefix(Ipv4Addr::from_bits(bits), pick),
        }
    }

    /// Returns a node on the other side: the IPv4 node `peer` behind a prefix, or one of many by a mapping.
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

    /// Selects the first of several prefixes, which is the one used to embed addresses.
    pub fn in_first_prefix(pick: u64) -> u64 {
        pick & 3
    }

    /// Returns true if a mapping covers this IPv4 node.
    pub fn maps(&self, v4: Ipv4Addr) -> bool {
        self.config.eam.iter().any(|eam| eam.v4.contains(&v4))
    }

    /// Returns true if the routes of both families lead this address to the translator.
    pub fn loops(&self, v4: Ipv4Addr) -> bool {
        self.config.loops4.iter().any(|net| net.contains(&v4))
    }

    /// Returns true if the fast path knows the prefix of this node, or if the node has none.
    pub fn knows(&self, v6: Ipv6Addr) -> bool {
        let mut unknown = self.config.pref64.iter().skip(KNOWN_PREFIXES);
        !unknown.any(|prefix| prefix.contains(&v6))
    }

    /// Returns true if RFC 6052 section 3.1 holds for the addresses behind the prefix.
    fn only_global_behind(&self, prefix: Ipv6Net) -> bool {
        prefix == "64:ff9b::/96".parse().unwrap() && !self.config.allow_private_with_wkp
    }

    /// Returns true if it holds for the addresses behind one of the prefixes.
    pub fn only_global(&self) -> bool {
        self.config
            .pref64
            .iter()
            .any(|&p| self.only_global_behind(p))
    }
}

fn mapping(v4: &str, v6: &str) -> Eam {
    Eam {
        v4: v4.parse().unwrap(),
        v6: v6.parse().unwrap(),
    }
}

/// Returns a node of a mapping; both suffixes begin right after their prefixes (RFC 7757 section 3.3).
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
