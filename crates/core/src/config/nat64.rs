// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the operator says of a stateful NAT64 (RFC 6146), beyond what holds for every translator.

use super::{check, Config, ConfigError, Problem};
use ipnet::Ipv4Net;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A transport with a binding table of its own (RFC 6146 section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP queries (echo); the identifier stands for the port.
    Icmp,
}

impl Protocol {
    /// Every protocol, in the order of its index.
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp];

    /// Index into an array of three.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that configuration and output use.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Icmp => "icmp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An IPv4 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Endpoint4 {
    /// The node.
    pub addr: Ipv4Addr,
    /// Port or query identifier.
    pub port: u16,
}

/// An IPv6 transport address; with ICMP, an address and a query identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Endpoint6 {
    /// The node.
    pub addr: Ipv6Addr,
    /// Port or query identifier.
    pub port: u16,
}

impl fmt::Display for Endpoint4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.addr, self.port)
    }
}

impl fmt::Display for Endpoint6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:{}", self.addr, self.port)
    }
}

/// A part of the pool of IPv4 transport addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool4 {
    /// Its addresses, all of the network.
    pub net: Ipv4Net,
    /// Its ports or query identifiers. Port 0 of TCP and UDP is never used.
    pub ports: RangeInclusive<u16>,
    /// For which protocols.
    pub protocols: Vec<Protocol>,
}

/// A binding that the operator made: packets pass in both directions without anybody having begun.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Binding {
    /// Of which table.
    pub protocol: Protocol,
    /// As the IPv4 side sees the node. Need not lie in the pool.
    pub v4: Endpoint4,
    /// The node.
    pub v6: Endpoint6,
}

/// Which packets from the IPv4 side a binding lets in (RFC 4787 section 5).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Filtering {
    /// From everybody.
    #[default]
    EndpointIndependent,
    /// From IPv4 addresses to which the node behind the binding has sent.
    AddressDependent,
}

/// How long a session lives without a packet (RFC 6146 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// `UDP_DEFAULT`.
    pub udp: Duration,
    /// `TCP_EST`.
    pub tcp_established: Duration,
    /// `TCP_TRANS`.
    pub tcp_transitory: Duration,
    /// `TCP_INCOMING_SYN`: how long a SYN from the IPv4 side is kept without an answer.
    pub tcp_incoming_syn: Duration,
    /// `ICMP_DEFAULT`.
    pub icmp: Duration,
    /// `FRAGMENT_MIN`: how long the fragments of one packet may take.
    pub fragments: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            udp: Duration::from_secs(5 * 60),
            tcp_established: Duration::from_secs(2 * 3600 + 4 * 60),
            tcp_transitory: Duration::from_secs(4 * 60),
            tcp_incoming_syn: Duration::from_secs(6),
            icmp: Duration::from_secs(60),
            fragments: Duration::from_secs(2),
        }
    }
}

/// The longest timeout.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How much state there may be: in total, and for one source, which is an IPv6 prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Sessions.
    pub sessions: u32,
    /// Bindings, those of the operator included.
    pub bindings: u32,
    /// Sessions of one source. Of these, half can be opened from the IPv4 side.
    pub sessions_per_source: u32,
    /// Bindings of one source.
    pub bindings_per_source: u32,
    /// Bits of the prefix that is one source.
    pub source_prefix_len: u8,
    /// SYNs from the IPv4 side that are kept at a time. 0: none; they are dropped.
    pub held_syns: u32,
    /// Fragments that wait for the first of their packet, at a time.
    pub held_fragments: u32,
    /// The same, with one source.
    pub held_fragments_per_source: u32,
    /// Packets whose fragments are being followed, at a time.
    pub fragmented_packets: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 4_000_000,
            bindings: 4_000_000,
            sessions_per_source: 65_536,
            bindings_per_source: 32_768,
            source_prefix_len: 64,
            held_syns: 4096,
            held_fragments: 1024,
            held_fragments_per_source: 64,
            fragmented_packets: 16_384,
        }
    }
}

/// Everything that a stateful NAT64 depends on.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Nat64Config {
    /// What holds for every translator. A NAT64 has no mapping table (`eam`) and is no CLAT.
    pub translator: Config,
    /// The pool. The same address may stand in it several times, with other ports or protocols.
    pub pool4: Vec<Pool4>,
    /// Bindings of the operator.
    pub bindings: Vec<Binding>,
    /// Who may send to a binding.
    pub filtering: Filtering,
    /// Give a node the port that it uses itself, if it is free (RFC 4787 section 4.2.1). What
    /// others can then guess is only as good as the node's choice.
    pub port_preservation: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Limits.
    pub limits: Limits,
}

/// Addresses of the largest pool: each costs a bit in every table of it.
pub const MAX_POOL_ADDRESSES: u64 = 1 << 16;

impl Nat64Config {
    /// Looks for contradictions, those of the part for every translator first.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = check::problems(&self.translator);
        let mut add = |key: String, message: String| problems.push(Problem { key, message });
        if self.translator.pref64.is_empty() {
            add("pref64".into(), "a NAT64 needs a prefix".into());
        }
        if !self.translator.eam.is_empty() {
            add("eam".into(), "a NAT64 has bindings instead".into());
        }
        if self.translator.clat {
            add("clat".into(), "a NAT64 is no CLAT".into());
        }
        self.check_pool(&mut add);
        self.check_bindings(&mut add);
        self.check_timeouts(&mut add);
        self.check_limits(&mut add);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    fn check_pool(&self, add: &mut impl FnMut(String, String)) {
        if self.pool4.is_empty() && self.bindings.is_empty() {
            add(
                "nat64.pool4".into(),
                "neither pool4 nor a static binding is given; nothing could be translated".into(),
            );
        }
        let mut addresses = 0;
        for (at, part) in self.pool4.iter().enumerate() {
            let key = format!("nat64.pool4[{at}]");
            addresses += 1u64 << (32 - part.net.prefix_len());
            if part.net.addr() != part.net.network() {
                let meant = part.net.trunc();
                add(
                    format!("{key}.net"),
                    format!(
                        "{} has bits set after its prefix; {meant} is meant?",
                        part.net
                    ),
                );
            } else if !check::is_unicast4(part.net) {
                add(format!("{key}.net"), format!("{} is not unicast", part.net));
            }
            if part.ports.is_empty() {
                add(
                    format!("{key}.ports"),
                    format!("{}-{} is no range", part.ports.start(), part.ports.end()),
                );
            }
            if part.protocols.is_empty() {
                add(format!("{key}.protocols"), "none is given".into());
            }
        }
        if addresses > MAX_POOL_ADDRESSES {
            add(
                "nat64.pool4".into(),
                format!("{addresses} addresses; {MAX_POOL_ADDRESSES} are supported"),
            );
        }
    }

    fn check_bindings(&self, add: &mut impl FnMut(String, String)) {
        let mut seen4 = std::collections::HashMap::new();
        let mut seen6 = std::collections::HashMap::new();
        for (at, binding) in self.bindings.iter().enumerate() {
            let key = format!("nat64.static[{at}]");
            if let Some(message) = binding.contradiction(&self.translator) {
                add(key.clone(), message);
            }
            if let Some(other) = seen4.insert((binding.protocol, binding.v4), at) {
                add(
                    format!("{key}.v4"),
                    format!("{} is that of nat64.static[{other}]", binding.v4),
                );
            }
            if let Some(other) = seen6.insert((binding.protocol, binding.v6), at) {
                add(
                    format!("{key}.v6"),
                    format!("{} is that of nat64.static[{other}]", binding.v6),
                );
            }
        }
    }

    fn check_timeouts(&self, add: &mut impl FnMut(String, String)) {
        let t = &self.timeouts;
        // RFC 6146 section 4 takes its minima from these.
        let least = [
            ("udp", t.udp, 120, "RFC 4787 REQ-5"),
            (
                "tcp_established",
                t.tcp_established,
                2 * 3600 + 4 * 60,
                "RFC 5382 REQ-5",
            ),
            ("tcp_transitory", t.tcp_transitory, 240, "RFC 5382 REQ-5"),
            ("tcp_incoming_syn", t.tcp_incoming_syn, 6, "RFC 5382 REQ-4"),
            ("icmp", t.icmp, 60, "RFC 5508 REQ-2"),
            ("fragments", t.fragments, 2, "RFC 6146 section 3.4"),
        ];
        for (name, timeout, seconds, rfc) in least {
            let key = format!("nat64.timeouts.{name}");
            if timeout < Duration::from_secs(seconds) {
                add(key, format!("{timeout:?} is below {seconds} s ({rfc})"));
            } else if timeout > MAX_TIMEOUT {
                add(key, format!("{timeout:?} is above {MAX_TIMEOUT:?}"));
            }
        }
    }

    fn check_limits(&self, add: &mut impl FnMut(String, String)) {
        let limits = &self.limits;
        for (name, limit) in [
            ("max_sessions", limits.sessions),
            ("max_bindings", limits.bindings),
        ] {
            if limit > MAX_ENTRIES {
                add(
                    format!("nat64.{name}"),
                    format!("{limit} is above {MAX_ENTRIES}"),
                );
            }
        }
        if limits.source_prefix_len > 128 || limits.source_prefix_len == 0 {
            add(
                "nat64.source_prefix_len".into(),
                format!("{} is not between 1 and 128", limits.source_prefix_len),
            );
        }
    }
}

/// Entries of the largest table.
pub const MAX_ENTRIES: u32 = 1 << 30;

impl Binding {
    /// Why it cannot be, if so, as the rest of a sentence.
    pub fn contradiction(&self, config: &Config) -> Option<String> {
        if !check::is_unicast4(self.v4.addr.into()) {
            return Some(format!("{} is not unicast", self.v4.addr));
        }
        if !check::is_unicast6(self.v6.addr.into()) {
            return Some(format!("{} is not unicast", self.v6.addr));
        }
        if let Some(prefix) = config.pref64.iter().find(|p| p.contains(&self.v6.addr)) {
            return Some(format!("{} lies in pref64 {prefix}", self.v6.addr));
        }
        let has_port_zero = self.v4.port == 0 || self.v6.port == 0;
        (self.protocol != Protocol::Icmp && has_port_zero).then(|| "port 0 is none".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Nat64Config {
        Nat64Config {
            translator: Config {
                pref64: vec!["64:ff9b::/96".parse().unwrap()],
                ..Config::default()
            },
            pool4: vec![Pool4 {
                net: "192.0.2.0/28".parse().unwrap(),
                ports: 1024..=65535,
                protocols: Protocol::ALL.to_vec(),
            }],
            ..Nat64Config::default()
        }
    }

    fn keys(config: &Nat64Config) -> Vec<String> {
        match config.check() {
            Ok(()) => vec![],
            Err(error) => error.problems.into_iter().map(|p| p.key).collect(),
        }
    }

    #[test]
    fn defaults_are_good_once_there_is_a_pool() {
        assert_eq!(keys(&config()), Vec::<String>::new());
        assert_eq!(
            keys(&Nat64Config::default()),
            ["pref64", "pref64", "nat64.pool4"]
        );
    }

    #[test]
    fn pools() {
        let mut bad = config();
        bad.pool4[0].net = "192.0.2.1/28".parse().unwrap();
        bad.pool4[0].protocols.clear();
        #[allow(clippy::reversed_empty_ranges)]
        bad.pool4.push(Pool4 {
            net: "224.0.0.0/8".parse().unwrap(),
            ports: 9..=8,
            protocols: vec![Protocol::Udp],
        });
        assert_eq!(
            keys(&bad),
            [
                "nat64.pool4[0].net",
                "nat64.pool4[0].protocols",
                "nat64.pool4[1].net",
                "nat64.pool4[1].ports",
                "nat64.pool4"
            ]
        );
    }

    #[test]
    fn the_minima_of_every_timeout_are_enforced() {
        let mut bad = config();
        let short = |timeout: &mut Duration| *timeout -= Duration::from_millis(1);
        bad.timeouts.udp = Duration::from_secs(120);
        short(&mut bad.timeouts.udp);
        short(&mut bad.timeouts.tcp_established);
        short(&mut bad.timeouts.tcp_transitory);
        short(&mut bad.timeouts.tcp_incoming_syn);
        short(&mut bad.timeouts.icmp);
        short(&mut bad.timeouts.fragments);
        assert_eq!(keys(&bad).len(), 6);
        bad = config();
        bad.timeouts.udp = MAX_TIMEOUT + Duration::from_millis(1);
        assert_eq!(keys(&bad), ["nat64.timeouts.udp"]);
        bad.timeouts.udp = Duration::from_secs(120);
        assert_eq!(keys(&bad), Vec::<String>::new());
    }

    #[test]
    fn bindings() {
        let binding = |v4: &str, v6: &str, port| Binding {
            protocol: Protocol::Tcp,
            v4: Endpoint4 {
                addr: v4.parse().unwrap(),
                port,
            },
            v6: Endpoint6 {
                addr: v6.parse().unwrap(),
                port: 80,
            },
        };
        let mut bad = config();
        bad.bindings = vec![
            binding("192.0.2.1", "2001:db8::1", 80),
            binding("192.0.2.1", "2001:db8::2", 80),
            binding("192.0.2.2", "2001:db8::1", 80),
            binding("192.0.2.3", "64:ff9b::1", 80),
            binding("127.0.0.1", "2001:db8::3", 80),
            binding("192.0.2.5", "ff02::1", 80),
            binding("192.0.2.5", "2001:db8::4", 0),
        ];
        assert_eq!(
            keys(&bad),
            [
                "nat64.static[1].v4",
                "nat64.static[2].v6",
                "nat64.static[3]",
                "nat64.static[4]",
                "nat64.static[5]",
                "nat64.static[6]"
            ]
        );
    }

    #[test]
    fn a_nat64_is_nothing_else() {
        let mut bad = config();
        bad.translator.clat = true;
        bad.limits.source_prefix_len = 129;
        bad.limits.sessions = u32::MAX;
        assert_eq!(
            keys(&bad),
            ["clat", "nat64.max_sessions", "nat64.source_prefix_len"]
        );
    }
}
