// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operator's rules about addresses: prefixes and exclusions.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_xlat::addr::rfc6052::{Pref64, WELL_KNOWN_PREFIX};
use diolkos_xlat::addr::special::is_global;
use ipnet::{Ipv4Net, Ipv6Net};

use crate::names::{NameLists, Synthesis};
use crate::wire::{Name, OptRcode};

/// Prefixes for an IPv4 range (RFC 6147 section 5: ranges mapped to separate prefixes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The IPv4 range.
    pub v4: Ipv4Net,
    /// Its prefixes; if empty, addresses of the range are not synthesised.
    pub pref64: Vec<Ipv6Net>,
}

/// The rules of a policy. The caller has checked that every prefix has a length of RFC 6052 section 2.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The prefixes for all addresses outside the ranges; empty until the network has announced one.
    pub pref64: Vec<Ipv6Net>,
    /// Ranges with separate prefixes; the longest match decides.
    pub ranges: Vec<Range>,
    /// AAAA records with these addresses count as absent (RFC 6147 section 5.1.4).
    pub exclude6: Vec<Ipv6Net>,
    /// A records with these addresses are not synthesised.
    pub exclude4: Vec<Ipv4Net>,
    /// Embed addresses that are not global in 64:ff9b::/96, against RFC 6052 section 3.1.
    pub allow_private_with_wkp: bool,
    /// Return upstream's error for an AAAA question, although RFC 6147 section 5.1.2 treats it as an empty answer.
    pub pass_errors: bool,
    /// Names for which nothing is synthesised, themselves and all names below them.
    pub never: Vec<Name>,
    /// Names for which AAAA records are synthesised even if there are real ones. Between both lists, the longest match decides.
    pub always: Vec<Name>,
    /// Maximum seconds for which a negative answer is cached (RFC 2308 section 5).
    pub max_negative_ttl: u32,
    /// Maximum seconds for which a positive answer is cached.
    pub max_ttl: u32,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            pref64: vec![well_known_prefix()],
            ranges: Vec::new(),
            exclude6: default_exclude6(),
            exclude4: default_exclude4(),
            allow_private_with_wkp: false,
            pass_errors: false,
            never: Vec::new(),
            always: Vec::new(),
            max_negative_ttl: 10800,
            max_ttl: 86400,
        }
    }
}

/// ::ffff:0:0/96, which contains no address of an IPv6 node (RFC 6147 section 5.1.4).
pub fn default_exclude6() -> Vec<Ipv6Net> {
    vec![net6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96)]
}

/// The destinations that no translator forwards to: this network, loopback, link-local, multicast and broadcast.
pub fn default_exclude4() -> Vec<Ipv4Net> {
    [
        ([0, 0, 0, 0], 8),
        ([127, 0, 0, 0], 8),
        ([169, 254, 0, 0], 16),
        ([224, 0, 0, 0], 4),
        ([255, 255, 255, 255], 32),
    ]
    .map(|(address, length)| net4(Ipv4Addr::from(address), length))
    .to_vec()
}

fn well_known_prefix() -> Ipv6Net {
    net6(Ipv6Addr::from_bits(WELL_KNOWN_PREFIX), 96)
}

fn net6(address: Ipv6Addr, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(address, length)
}

fn net4(address: Ipv4Addr, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(address, length)
}

/// The rules in a form for fast lookups.
#[derive(Clone, Debug)]
pub struct Policy {
    pref64: Vec<Pref64>,
    /// Sorted by length, the longest first.
    ranges: Vec<(Ipv4Net, Vec<Pref64>)>,
    well_known: [Pref64; 1],
    names: NameLists,
    rules: Rules,
}

impl Policy {
    /// Prepares the rules.
    pub fn new(rules: Rules) -> Policy {
        let ready = |list: &[Ipv6Net]| list.iter().map(|&prefix| Pref64::new(prefix)).collect();
        let mut ranges: Vec<(Ipv4Net, Vec<Pref64>)> = rules
            .ranges
            .iter()
            .map(|range| (range.v4, ready(&range.pref64)))
            .collect();
        ranges.sort_by_key(|(v4, _)| std::cmp::Reverse(v4.prefix_len()));
        Policy {
            pref64: ready(&rules.pref64),
            ranges,
            well_known: [Pref64::new(well_known_prefix())],
            names: NameLists::new(&rules.never, &rules.always),
            rules,
        }
    }

    /// The synthetic addresses of an IPv4 node, one for each prefix (RFC 6147 section 5.1.7); none if the node is
    /// excluded.
    pub fn synthesise(&self, v4: Ipv4Addr) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let excluded = self.rules.exclude4.iter().any(|net| net.contains(&v4));
        let prefixes = match excluded {
            true => &[],
            false => self.prefixes(v4),
        };
        // RFC 6052 section 3.1: the well-known prefix must not represent addresses that are not global.
        let permitted = move |prefix: &&Pref64| {
            self.rules.allow_private_with_wkp || !prefix.is_well_known() || is_global(v4)
        };
        prefixes
            .iter()
            .filter(permitted)
            .map(move |prefix| prefix.embed(v4))
    }

    /// The prefixes for all addresses outside the ranges.
    pub fn pref64(&self) -> impl Iterator<Item = &Ipv6Net> {
        self.rules.pref64.iter()
    }

    /// Returns true if there is a prefix. Without one, a DNS64 is a plain resolver.
    pub fn has_prefixes(&self) -> bool {
        let mut ranges = self.ranges.iter();
        !self.pref64.is_empty() || ranges.any(|(_, prefixes)| !prefixes.is_empty())
    }

    /// Returns true if upstream's error for an AAAA question is returned to the client.
    pub(crate) fn passes_errors(&self) -> bool {
        self.rules.pass_errors
    }

    /// The operator's rule for AAAA questions about a name.
    pub(crate) fn synthesis_of(&self, name: &Name) -> Option<Synthesis> {
        self.names.rule(name)
    }

    fn prefixes(&self, v4: Ipv4Addr) -> &[Pref64] {
        let range = self.ranges.iter().find(|(net, _)| net.contains(&v4));
        range.map_or(&self.pref64, |(_, prefixes)| prefixes)
    }

    /// Returns true if an AAAA record with this address counts as absent (RFC 6147 section 5.1.4).
    pub fn is_excluded(&self, v6: Ipv6Addr) -> bool {
        self.rules.exclude6.iter().any(|net| net.contains(&v6))
    }

    /// The IPv4 node of a synthetic address in a prefix of the site or in the well-known one (RFC 6147 section
    /// 5.3.1).
    pub fn extract(&self, v6: Ipv6Addr) -> Option<Ipv4Addr> {
        let own = self.ranges.iter().flat_map(|(_, prefixes)| prefixes);
        own.chain(&self.pref64)
            .chain(&self.well_known)
            .find_map(|prefix| prefix.extract(v6))
    }

    /// Seconds for which an answer may be cached; `least` is the smallest TTL of its records.
    pub(crate) fn lifetime(&self, code: OptRcode, says: Says, least: Option<u32>) -> u32 {
        let least = least.unwrap_or(u32::MAX).min(self.rules.max_ttl);
        match (code, says) {
            (OptRcode::NOERROR, Says::There) => least,
            (OptRcode::NOERROR | OptRcode::NXDOMAIN, Says::Nothing(Some(ttl))) => {
                least.min(ttl).min(self.rules.max_negative_ttl)
            }
            // A denial without an SOA record is not cached (RFC 2308 section 5).
            (OptRcode::NOERROR | OptRcode::NXDOMAIN, _) => 0,
            _ => FAILURE_LIFETIME,
        }
    }
}

/// The result that an answer contains for its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// The requested records exist.
    There,
    /// They do not exist. Holds for this number of seconds, if known.
    Nothing(Option<u32>),
}

/// Seconds for which a failure is cached: at least one (RFC 9520 section 3.2).
pub const FAILURE_LIFETIME: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(policy: &Policy, v4: &str) -> Vec<String> {
        let v4 = v4.parse().expect("an address");
        policy.synthesise(v4).map(|a| a.to_string()).collect()
    }

    #[test]
    fn every_prefix_gives_an_address() {
        let policy = Policy::new(Rules {
            pref64: vec![
                "64:ff9b::/96".parse().expect("a prefix"),
                "2001:db8:122:344::/64".parse().expect("a prefix"),
            ],
            ..Rules::default()
        });
        assert_eq!(
            addresses(&policy, "8.0.2.33"),
            ["64:ff9b::800:221", "2001:db8:122:344:8:2:2100:0"]
        );
    }

    #[test]
    fn the_well_known_prefix_carries_global_addresses_only() {
        let policy = Policy::new(Rules::default());
        assert!(addresses(&policy, "10.0.0.1").is_empty());
        assert_eq!(addresses(&policy, "192.0.0.170"), ["64:ff9b::c000:aa"]);
        let policy = Policy::new(Rules {
            allow_private_with_wkp: true,
            ..Rules::default()
        });
        assert_eq!(addresses(&policy, "10.0.0.1"), ["64:ff9b::a00:1"]);
    }

    #[test]
    fn the_longest_range_decides() {
        let range = |v4: &str, pref64: &[&str]| Range {
            v4: v4.parse().expect("a network"),
            pref64: pref64
                .iter()
                .map(|p| p.parse().expect("a prefix"))
                .collect(),
        };
        let policy = Policy::new(Rules {
            ranges: vec![
                range("10.0.0.0/8", &["2001:db8:a::/96"]),
                range("10.1.0.0/16", &[]),
            ],
            ..Rules::default()
        });
        assert_eq!(addresses(&policy, "10.2.0.1"), ["2001:db8:a::a02:1"]);
        assert!(addresses(&policy, "10.1.0.1").is_empty());
        let inside = "2001:db8:a::a02:1".parse().expect("an address");
        assert_eq!(policy.extract(inside), Some(Ipv4Addr::new(10, 2, 0, 1)));
    }

    #[test]
    fn what_no_translator_forwards_to_is_not_synthesised() {
        let policy = Policy::new(Rules {
            pref64: vec!["2001:db8:64::/96".parse().expect("a prefix")],
            ..Rules::default()
        });
        for v4 in [
            "0.0.0.0",
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            assert!(addresses(&policy, v4).is_empty(), "{v4}");
        }
        assert_eq!(addresses(&policy, "10.0.0.1"), ["2001:db8:64::a00:1"]);
    }

    #[test]
    fn denials_and_failures_are_kept_for_their_own_time() {
        let policy = Policy::new(Rules::default());
        let life = |code, says, least| policy.lifetime(code, says, least);
        let (good, none) = (OptRcode::NOERROR, OptRcode::NXDOMAIN);
        assert_eq!(life(good, Says::There, Some(300)), 300);
        assert_eq!(life(good, Says::There, Some(1 << 30)), 86400);
        assert_eq!(life(none, Says::Nothing(Some(1 << 30)), None), 10800);
        assert_eq!(life(good, Says::Nothing(Some(60)), Some(30)), 30);
        assert_eq!(life(good, Says::Nothing(None), Some(30)), 0);
        assert_eq!(
            life(OptRcode::SERVFAIL, Says::Nothing(None), None),
            FAILURE_LIFETIME
        );
    }
}
