// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contradictions that [`Config::check`] reports, in the order of the keys.

use super::{overlap, Config, Eam, Problem, LEAST_MSS};
use crate::addr::rfc6052::{PREFIX_LENGTHS, U_OCTET};
use crate::addr::special::{kind_of_ipv4, kind_of_ipv6, name_of, AddressKind};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Returns every problem in a configuration, in the order of its keys.
pub fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Problems(Vec::new());
    found.pref64(config);
    found.eam(config);
    found.0.extend(overlap::identical(&config.eam));
    found.mtus(config);
    found.ports(config);
    found.mss(config);
    found.icmp(config);
    found.0
}

struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem {
            key: key.into(),
            message: message.into(),
        });
    }

    fn pref64(&mut self, config: &Config) {
        if config.pref64.is_empty() && config.eam.is_empty() {
            self.add(
                "pref64",
                "neither pref64 nor eam is given; nothing could be translated",
            );
        }
        if config.pref64.len() > 256 {
            self.add(
                "pref64",
                format!("{} prefixes; 256 are supported", config.pref64.len()),
            );
        }
        for (at, prefix) in config.pref64.iter().enumerate() {
            let key = format!("pref64[{at}]");
            if !PREFIX_LENGTHS.contains(&prefix.prefix_len()) {
                self.add(&key, format!("{prefix}: the length must be 32, 40, 48, 56, 64 or 96 (RFC 6052 section 2.2)"));
            }
            // A /96 with these bits set is only a warning.
            if prefix.prefix_len() != 96 && prefix.addr().to_bits() & U_OCTET != 0 {
                self.add(
                    &key,
                    format!("{prefix}: bits 64 to 71 must be zero (RFC 6052 section 2.2)"),
                );
            }
            self.network6(&key, *prefix);
            for (other, earlier) in config.pref64[..at].iter().enumerate() {
                if overlap6(prefix, earlier) {
                    self.add(&key, format!("{prefix} overlaps pref64[{other}] {earlier}"));
                }
            }
        }
    }

    fn eam(&mut self, config: &Config) {
        for (at, Eam { v4, v6 }) in config.eam.iter().enumerate() {
            self.network4(&format!("eam[{at}].v4"), *v4);
            let key = format!("eam[{at}].v6");
            self.network6(&key, *v6);
            if 128 - v6.prefix_len() < 32 - v4.prefix_len() {
                self.add(
                    &key,
                    format!("{v6} has room for fewer nodes than {v4} (RFC 7757 section 3.2)"),
                );
            }
            for (other, prefix) in config.pref64.iter().enumerate() {
                if v6.contains(prefix) {
                    self.add(
                        &key,
                        format!("{v6} covers pref64[{other}] {prefix}, which would never be used"),
                    );
                }
            }
        }
    }

    fn mss(&mut self, config: &Config) {
        if let Some(mss) = config.tcp_mss.filter(|mss| *mss < LEAST_MSS) {
            let why =
                "what peers send that announce no maximum segment size (RFC 9293 section 3.7.1)";
            self.add("tcp_mss", format!("{mss} is below {LEAST_MSS}, {why}"));
        }
    }

    fn mtus(&mut self, config: &Config) {
        let mut range = |key: &str, mtu: u32, least: u32, why: &str| {
            if mtu < least {
                self.add(key, format!("{mtu} is below {least}, {why}"));
            } else if mtu > 65535 {
                self.add(key, format!("{mtu} is above 65535, the longest packet"));
            }
        };
        range(
            "lowest_ipv6_mtu",
            config.lowest_ipv6_mtu,
            1280,
            "the smallest MTU of IPv6 (RFC 8200 section 5)",
        );
        range(
            "mtu4",
            config.mtu4,
            68,
            "the smallest MTU of IPv4 (RFC 791 section 3.2)",
        );
        range(
            "mtu6",
            config.mtu6,
            1280,
            "the smallest MTU of IPv6 (RFC 8200 section 5)",
        );
        if config.lowest_ipv6_mtu > config.mtu6 {
            self.add(
                "lowest_ipv6_mtu",
                format!("{} is above mtu6, {}", config.lowest_ipv6_mtu, config.mtu6),
            );
        }
    }

    fn ports(&mut self, config: &Config) {
        for (at, &port) in config.udp_zero_checksum_ports.iter().enumerate() {
            let key = format!("udp_zero_checksum_ports[{at}]");
            if port == 0 {
                self.add(&key, "0 is not a port; name one of 1 to 65535");
            }
            if config.udp_zero_checksum_ports[..at].contains(&port) {
                self.add(&key, format!("{port} stands in the list twice"));
            }
        }
    }

    fn icmp(&mut self, config: &Config) {
        let icmp = &config.icmp;
        if let Some(address) = icmp.address4 {
            self.network4("icmp.address4", address.into());
        }
        if let Some(address) = icmp.address6 {
            self.network6("icmp.address6", address.into());
        }
        for (at, pool) in icmp.source_pool4.iter().enumerate() {
            let key = format!("icmp.source_pool4[{at}]");
            self.network4(&key, *pool);
            for (other, eam) in config.eam.iter().enumerate() {
                if overlap4(pool, &eam.v4) {
                    self.add(&key, format!("{pool} overlaps eam[{other}].v4 {}", eam.v4));
                }
            }
        }
        for (at, pool) in icmp.source_pool6.iter().enumerate() {
            let key = format!("icmp.source_pool6[{at}]");
            self.network6(&key, *pool);
            for (other, prefix) in config.pref64.iter().enumerate() {
                if overlap6(pool, prefix) {
                    self.add(&key, format!("{pool} overlaps pref64[{other}] {prefix}"));
                }
            }
            for (other, eam) in config.eam.iter().enumerate() {
                if overlap6(pool, &eam.v6) {
                    self.add(&key, format!("{pool} overlaps eam[{other}].v6 {}", eam.v6));
                }
            }
        }
        if icmp.rate > 0 && icmp.burst == 0 {
            self.add(
                "icmp.burst",
                "0 suppresses every error; set rate = 0 if that is what you want",
            );
        }
    }

    fn network4(&mut self, key: &str, net: Ipv4Net) {
        if net.addr() != net.network() {
            self.add(
                key,
                format!("{net} has host bits set; write {}", net.trunc()),
            );
        } else if net.prefix_len() >= 4 && kind_of_ipv4(net.network()) != AddressKind::Unicast {
            self.add(key, not_unicast(net));
        }
    }

    fn network6(&mut self, key: &str, net: Ipv6Net) {
        if net.addr() != net.network() {
            self.add(
                key,
                format!("{net} has host bits set; write {}", net.trunc()),
            );
        } else if net.prefix_len() >= 8 && kind_of_ipv6(net.network()) != AddressKind::Unicast {
            self.add(key, not_unicast(net));
        }
    }
}

/// The message for a network or address that is not unicast.
pub fn not_unicast(net: impl Into<IpNet>) -> String {
    let net = net.into();
    let kind = name_of(net.addr());
    match net.prefix_len() == net.max_prefix_len() {
        true => format!("{} is {kind}, which is not translated", net.addr()),
        false => format!("{net} is {kind}, which is not translated"),
    }
}

/// Returns true if all addresses of a network are unicast, or if the network is too wide to be of
/// one kind.
pub fn is_unicast4(net: Ipv4Net) -> bool {
    net.prefix_len() >= 4 && kind_of_ipv4(net.network()) == AddressKind::Unicast
}

/// Returns true if all addresses of an IPv6 network are unicast, or if the network is too wide to
/// be of one kind.
pub fn is_unicast6(net: Ipv6Net) -> bool {
    net.prefix_len() >= 8 && kind_of_ipv6(net.network()) == AddressKind::Unicast
}

fn overlap4(a: &Ipv4Net, b: &Ipv4Net) -> bool {
    a.contains(b) || b.contains(a)
}

fn overlap6(a: &Ipv6Net, b: &Ipv6Net) -> bool {
    a.contains(b) || b.contains(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pref64: &[&str], eam: &[(&str, &str)]) -> Config {
        Config {
            pref64: pref64.iter().map(|p| p.parse().unwrap()).collect(),
            eam: eam
                .iter()
                .map(|(v4, v6)| Eam {
                    v4: v4.parse().unwrap(),
                    v6: v6.parse().unwrap(),
                })
                .collect(),
            ..Config::default()
        }
    }

    fn keys(config: &Config) -> Vec<String> {
        problems(config).into_iter().map(|p| p.key).collect()
    }

    #[test]
    fn good_configurations() {
        for good in [
            config(&["64:ff9b::/96"], &[]),
            config(&["64:ff9b::/96", "2001:db8::/32"], &[]),
            config(&["64:ff9b::/96"], &[("192.0.0.1/32", "2001:db8::1/128")]),
            config(&["64:ff9b::/96"], &[("192.0.2.224/31", "64:ff9b::/127")]),
            config(&[], &[("0.0.0.0/0", "2001:db8::/96")]),
            config(
                &[],
                &[
                    ("192.0.2.0/24", "2001:db8::/120"),
                    ("192.0.2.8/32", "2001:db8::9/128"),
                ],
            ),
        ] {
            assert_eq!(keys(&good), Vec::<String>::new(), "{good:?}");
        }
    }

    #[test]
    fn nothing_to_translate() {
        assert_eq!(keys(&Config::default()), ["pref64"]);
    }

    #[test]
    fn prefixes() {
        assert_eq!(keys(&config(&["2001:db8::/72"], &[])), ["pref64[0]"]);
        assert_eq!(keys(&config(&["2001:db8::1/64"], &[])), ["pref64[0]"]);
        assert_eq!(
            keys(&config(&["2001:db8:0:0:100::/80"], &[])),
            ["pref64[0]", "pref64[0]"]
        );
        assert_eq!(keys(&config(&["ff0e::/96"], &[])), ["pref64[0]"]);
        assert_eq!(
            keys(&config(&["2001:db8::/32", "2001:db8:1::/48"], &[])),
            ["pref64[1]"]
        );
    }

    #[test]
    fn mappings() {
        assert_eq!(
            keys(&config(&[], &[("192.0.2.1/24", "2001:db8::/120")])),
            ["eam[0].v4"]
        );
        assert_eq!(
            keys(&config(&[], &[("192.0.2.0/24", "2001:db8::/121")])),
            ["eam[0].v6"]
        );
        assert_eq!(
            keys(&config(&[], &[("224.0.0.0/24", "2001:db8::/120")])),
            ["eam[0].v4"]
        );
        assert_eq!(
            keys(&config(
                &["2001:db8:64::/96"],
                &[("0.0.0.0/0", "2001:db8:64::/64")]
            )),
            ["eam[0].v6"]
        );
    }

    #[test]
    fn mtus() {
        let mut bad = config(&["64:ff9b::/96"], &[]);
        (bad.lowest_ipv6_mtu, bad.mtu4, bad.mtu6) = (1279, 67, 65536);
        assert_eq!(keys(&bad), ["lowest_ipv6_mtu", "mtu4", "mtu6"]);
        (bad.lowest_ipv6_mtu, bad.mtu4, bad.mtu6) = (1400, 68, 1280);
        assert_eq!(keys(&bad), ["lowest_ipv6_mtu"]);
    }

    #[test]
    fn pools() {
        let mut bad = config(&["2001:db8:64::/96"], &[("192.0.2.0/24", "2001:db8::/120")]);
        bad.icmp.source_pool4 = vec![
            "192.0.2.7/32".parse().unwrap(),
            "198.51.100.0/24".parse().unwrap(),
        ];
        bad.icmp.source_pool6 = vec![
            "2001:db8:64::1/128".parse().unwrap(),
            "2001:db8::/64".parse().unwrap(),
        ];
        bad.icmp.address4 = Some("127.0.0.1".parse().unwrap());
        bad.icmp.burst = 0;
        assert_eq!(
            keys(&bad),
            [
                "icmp.address4",
                "icmp.source_pool4[0]",
                "icmp.source_pool6[0]",
                "icmp.source_pool6[1]",
                "icmp.burst"
            ]
        );
    }
}
