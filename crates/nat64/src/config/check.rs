// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contradictions that [`Nat64Config::check`] reports, in the order of the keys.

use super::limits::{LevelKind, MOST_BURST, MOST_RATE};
use super::{
    overlap, Binding, Mappings, Nat64Config, Pools, Protocol, MAX_ENTRIES, MAX_POOL_ADDRESSES,
    MAX_TIMEOUT,
};
use diolkos_xlat::config::check::{is_unicast4, is_unicast6, not_unicast, problems};
use diolkos_xlat::config::{Config, ConfigError, Problem};
use ipnet::Ipv4Net;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

impl Nat64Config {
    /// Checks for contradictions, starting with the settings common to all translators.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = problems(&self.translator);
        // Only a stateless translator can use mappings in place of prefixes.
        problems.retain(|problem| problem.key != "pref64");
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
        if !self.translator.udp_zero_checksum_ports.is_empty() {
            add(
                "udp_zero_checksum_ports".into(),
                "only a SIIT or a CLAT passes UDP without checksum; a NAT64 computes the checksum (RFC 6146 section 3.4)".into(),
            );
        }
        let pools = Arc::new(Pools::of(&self.pool4));
        self.check_pool(&pools, &mut add);
        self.check_sources(&pools, &mut add);
        self.check_wan(&mut add);
        self.check_bindings(&pools, &mut add);
        self.check_timeouts(&mut add);
        self.check_limits(&mut add);
        self.check_owners(&mut add);
        if problems.is_empty() {
            problems.extend(Mappings::of(self, &pools).err());
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    fn check_pool(&self, pools: &Pools, add: &mut impl FnMut(String, String)) {
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
                    format!("{key}.address"),
                    format!("{} has host bits set; write {meant}", part.net),
                );
            } else if !is_unicast4(part.net) {
                add(format!("{key}.address"), not_unicast(part.net));
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
        for (at, other) in overlap::parts(&self.pool4, pools) {
            let (part, around) = (self.pool4[at].net, self.pool4[other].net);
            let advice = match pools.of_part(at) == pools.of_part(other) {
                true => "remove one, or give them different ports or protocols",
                false => {
                    "they have different sources, and an address belongs to one pool; remove one"
                }
            };
            add(
                format!("nat64.pool4[{at}].address"),
                format!(
                    "{} overlaps nat64.pool4[{other}], {}: {advice}",
                    short(part),
                    short(around)
                ),
            );
        }
    }

    fn check_bindings(&self, pools: &Pools, add: &mut impl FnMut(String, String)) {
        let mut seen4 = std::collections::HashMap::new();
        let mut seen6 = std::collections::HashMap::new();
        for (at, binding) in self.bindings.iter().enumerate() {
            let key = format!("nat64.static[{at}]");
            if let Some(message) = binding.contradiction(&self.translator) {
                add(key.clone(), message);
            }
            if let Some(message) = pools.refuses(binding.v4.addr, binding.v6.addr) {
                add(format!("{key}.v4"), message);
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
        // RFC 6146 section 4 takes its minimum timeouts from these RFCs.
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
                add(
                    key,
                    format!("{} is below {seconds} s ({rfc})", in_seconds(timeout)),
                );
            } else if timeout > MAX_TIMEOUT {
                add(
                    key,
                    format!(
                        "{} is above {}",
                        in_seconds(timeout),
                        in_seconds(MAX_TIMEOUT)
                    ),
                );
            }
        }
    }

    fn check_limits(&self, add: &mut impl FnMut(String, String)) {
        let limits = &self.limits;
        if let Some(blocks) = &self.blocks {
            let ports = blocks.ports;
            if !(64..=4096).contains(&ports) || !ports.is_power_of_two() {
                add(
                    "nat64.ports_per_block".into(),
                    format!("{ports} is neither 0 nor a power of two between 64 and 4096"),
                );
            }
            if blocks.per_source == 0 {
                add(
                    "nat64.max_blocks_per_source".into(),
                    "0 would drop every packet".into(),
                );
            }
            let (its, len) = (blocks.source_prefix_len, limits.source_prefix_len);
            // A source with blocks has one pool, one range of fixed ports, and one meaning at all gateways.
            let matters = self.pool4.iter().any(|part| !part.sources.is_empty())
                || self.deterministic.is_some()
                || self.owners.is_some();
            if matters && its != len {
                let message = format!("blocks are for /{its}, and limits for /{len}");
                add("nat64.source_prefix_len".into(), message);
            }
            let idle = self.timeouts.port_block;
            if idle > MAX_TIMEOUT {
                let (idle, most) = (in_seconds(idle), in_seconds(MAX_TIMEOUT));
                add(
                    "nat64.timeouts.port_block".into(),
                    format!("{idle} is above {most}"),
                );
            }
        }
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
        for (name, limit) in [
            ("max_sessions", limits.sessions),
            ("max_sessions_per_source", limits.sessions_per_source),
        ] {
            if limit == 0 {
                add(format!("nat64.{name}"), "0 would drop every packet".into());
            }
        }
        for (name, rate) in [
            ("new_sessions_per_host", limits.new_sessions_per_host),
            ("new_sessions_per_source", limits.new_sessions_per_source),
            ("new_sessions_per_site", limits.new_sessions_per_site),
        ] {
            match rate {
                Some(0) => add(format!("nat64.{name}"), "0 would drop every packet".into()),
                Some(rate) if rate > MOST_RATE => add(
                    format!("nat64.{name}"),
                    format!("{rate} is above {MOST_RATE}"),
                ),
                _ => {}
            }
        }
        for (name, rate, kind, advice) in [
            (
                "new_sessions_per_host",
                limits.new_sessions_per_host,
                LevelKind::Host,
                "a source is one address (nat64.source_prefix_len): set new_sessions_per_source",
            ),
            (
                "new_sessions_per_site",
                limits.new_sessions_per_site,
                LevelKind::Site,
                "no prefix of nat64.site_prefix_lens is wider than a source",
            ),
        ] {
            if rate.is_some() && !limits.levels().any(|level| level.kind == kind) {
                add(format!("nat64.{name}"), format!("has no effect: {advice}"));
            }
        }
        if !(1..=MOST_BURST).contains(&limits.new_sessions_burst) {
            add(
                "nat64.new_sessions_burst".into(),
                format!(
                    "{} is not between 1 and {MOST_BURST} s",
                    limits.new_sessions_burst
                ),
            );
        }
        if limits.source_prefix_len > 128 || limits.source_prefix_len == 0 {
            add(
                "nat64.source_prefix_len".into(),
                format!("{} is not between 1 and 128", limits.source_prefix_len),
            );
        }
        for (at, &len) in limits.site_prefix_lens.iter().enumerate() {
            if len > 128 {
                add(
                    format!("nat64.site_prefix_lens[{at}]"),
                    format!("{len} is not between 1 and 128"),
                );
            }
        }
        for (name, share) in [
            ("host_share", limits.host_share),
            ("source_share", limits.source_share),
            ("site_share", limits.site_share),
            ("outside_share", limits.outside_share),
        ] {
            if !(1..=100).contains(&share) {
                add(
                    format!("nat64.{name}"),
                    format!("{share} is not between 1 and 100 percent"),
                );
            }
        }
    }
}

/// Formats a single address without its prefix length, as it is written in the configuration.
fn short(net: Ipv4Net) -> String {
    match net.prefix_len() {
        32 => net.addr().to_string(),
        _ => net.to_string(),
    }
}

fn in_seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

impl Binding {
    /// Returns the reason for which the binding cannot be configured, as the rest of a sentence, or None.
    pub fn contradiction(&self, config: &Config) -> Option<String> {
        let has_port_zero = self.v4.port == 0 || self.v6.port == 0;
        self.misplaced(config).or_else(|| {
            (self.protocol != Protocol::Icmp && has_port_zero)
                .then(|| "port 0 cannot be bound".into())
        })
    }

    /// Returns the reason for which the binding cannot have its addresses, as the rest of a sentence, or None. This
    /// check also applies to bindings that packets opened. A port of 0 is no error here, because a packet may come from
    /// port 0 (RFC 768, Source Port).
    pub fn misplaced(&self, config: &Config) -> Option<String> {
        if !is_unicast4(self.v4.addr.into()) {
            return Some(not_unicast(IpAddr::from(self.v4.addr)));
        }
        if !is_unicast6(self.v6.addr.into()) {
            return Some(not_unicast(IpAddr::from(self.v6.addr)));
        }
        let mut prefixes = config.pref64.iter();
        let prefix = prefixes.find(|prefix| prefix.contains(&self.v6.addr))?;
        Some(format!("{} lies in pref64 {prefix}", self.v6.addr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Endpoint4, Endpoint6, Pool4, PortBlocks};

    fn config() -> Nat64Config {
        Nat64Config {
            translator: Config {
                pref64: vec!["64:ff9b::/96".parse().unwrap()],
                ..Config::default()
            },
            pool4: vec![Pool4 {
                interface: None,
                net: "192.0.2.0/28".parse().unwrap(),
                ports: 1024..=65535,
                protocols: Protocol::ALL.to_vec(),
                sources: vec![],
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
        assert_eq!(keys(&Nat64Config::default()), ["pref64", "nat64.pool4"]);
    }

    #[test]
    fn pools() {
        let mut bad = config();
        bad.pool4[0].net = "192.0.2.1/28".parse().unwrap();
        bad.pool4[0].protocols.clear();
        #[allow(clippy::reversed_empty_ranges)]
        bad.pool4.push(Pool4 {
            interface: None,
            net: "224.0.0.0/8".parse().unwrap(),
            ports: 9..=8,
            protocols: vec![Protocol::Udp],
            sources: vec![],
        });
        assert_eq!(
            keys(&bad),
            [
                "nat64.pool4[0].address",
                "nat64.pool4[0].protocols",
                "nat64.pool4[1].address",
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
    fn the_time_of_a_block_matters_where_there_are_blocks() {
        let mut bad = config();
        bad.timeouts.port_block = MAX_TIMEOUT + Duration::from_millis(1);
        assert_eq!(keys(&bad), Vec::<String>::new());
        bad.blocks = Some(PortBlocks {
            ports: 64,
            per_source: 1,
            source_prefix_len: 64,
        });
        assert_eq!(keys(&bad), ["nat64.timeouts.port_block"]);
    }

    #[test]
    fn rates_have_an_effect_or_are_refused() {
        let mut bad = config();
        bad.limits.new_sessions_per_host = Some(0);
        bad.limits.new_sessions_per_site = Some(MOST_RATE + 1);
        bad.limits.new_sessions_burst = 61;
        let all = [
            "nat64.new_sessions_per_host",
            "nat64.new_sessions_per_site",
            "nat64.new_sessions_burst",
        ];
        assert_eq!(keys(&bad), all);
        bad = config();
        bad.limits.new_sessions_per_host = Some(1);
        bad.limits.new_sessions_per_site = Some(1);
        assert_eq!(keys(&bad), Vec::<String>::new());
        bad.limits.source_prefix_len = 128;
        assert_eq!(keys(&bad), ["nat64.new_sessions_per_host"]);
        bad.limits.source_prefix_len = 48;
        assert_eq!(keys(&bad), ["nat64.new_sessions_per_site"]);
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
        bad.limits.sessions_per_source = 0;
        bad.limits.site_prefix_lens[1] = 129;
        bad.limits.host_share = 0;
        bad.limits.outside_share = 101;
        assert_eq!(
            keys(&bad),
            [
                "clat",
                "nat64.max_sessions",
                "nat64.max_sessions_per_source",
                "nat64.source_prefix_len",
                "nat64.site_prefix_lens[1]",
                "nat64.host_share",
                "nat64.outside_share"
            ]
        );
    }
}
