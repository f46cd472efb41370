// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section `[nat64.pcp]`: bindings that nodes ask for (PCP, RFC 6887).

use std::net::Ipv6Addr;
use std::ops::RangeInclusive;

use ipnet::Ipv6Net;

use super::key::section;
use super::objections::Objection;
use super::{Mode, Settings};

/// Each address has a thread of its own.
const MOST_ADDRESSES: usize = 8;
/// Every lifetime must be one of these, seconds. Below, clients would ask all the time (RFC 6887 section 11.2.1 advises 120 s at
/// least); above, a mapping would outlive its host by more than a week.
const LIFETIMES: RangeInclusive<u32> = 30..=604_800;
/// Most mappings, some 300 bytes each.
const MOST_MAPPINGS: u32 = 1_000_000;

section! {
    /// What nodes may ask for.
    pub struct Pcp {
        /// Addresses of this host at which nodes ask, at UDP port 5351; at least one.
        listen: Vec<Ipv6Addr> = Vec::new(), Live;
        /// Prefixes of the nodes that may ask; at least one.
        sources: Vec<Ipv6Net> = Vec::new(), Live;
        /// The shortest lifetime of a mapping, seconds.
        min_lifetime: u32 = 120, Live;
        /// The longest lifetime of a mapping, seconds. A client that is still there asks again before it is over.
        max_lifetime: u32 = 86_400, Live;
        /// Mappings in total. Hosts, sources and sites have their shares of what the others leave (`host_share`, …).
        max_mappings: u32 = 16_384, Live;
        /// Mappings of one source (`source_prefix_len`).
        max_mappings_per_source: u32 = 128, Live;
    }
}

impl Settings {
    pub(super) fn object_to_pcp(&self, found: &mut Vec<Objection>) {
        let Some(pcp) = &self.nat64.pcp else { return };
        if self.translator.mode != Mode::Nat64 {
            return;
        }
        let mut object = |key: &str, message: String| {
            found.push(Objection::new(&format!("nat64.pcp{key}"), message));
        };
        if self.cluster.is_some() {
            let message = "the gateways of a cluster do not share mappings: remove the section";
            object("", message.to_owned());
        }
        if self.wan().is_some() {
            let message = "the address of an interface may change, and nodes would not hear of it: remove the section, or \
                           nat64.pool4.interface";
            object("", message.to_owned());
        }
        match pcp.listen.len() {
            0 => object(
                ".listen",
                "no address is given: name one of this host, such as \"2001:db8::1\"".to_owned(),
            ),
            many if many > MOST_ADDRESSES => object(
                ".listen",
                format!("{many} addresses are given; {MOST_ADDRESSES} are supported"),
            ),
            _ => {}
        }
        let pref64s = self.translator.pref64.given();
        for (at, address) in pcp.listen.iter().enumerate() {
            let key = format!(".listen[{at}]");
            let is_own = !address.is_unspecified()
                && !address.is_multicast()
                && !address.is_unicast_link_local()
                && address.to_ipv4_mapped().is_none()
                && !pref64s.iter().any(|prefix| prefix.contains(address));
            if !is_own {
                object(&key, format!(
                    "{address} is no address of this host that nodes can reach from other links: write one such as \"2001:db8::1\""
                ));
            }
            if pcp.listen[..at].contains(address) {
                object(&key, format!("{address} is given twice"));
            }
        }
        if pcp.sources.is_empty() {
            let message = "nobody may ask: name the prefixes of the nodes that may, such as \"2001:db8::/48\"";
            object(".sources", message.to_owned());
        }
        for (at, net) in pcp.sources.iter().enumerate() {
            if net.addr() != net.network() {
                let meant = net.trunc();
                object(
                    &format!(".sources[{at}]"),
                    format!("{net} has host bits set; write {meant}"),
                );
            }
        }
        let (least, most) = (LIFETIMES.start(), LIFETIMES.end());
        for (key, lifetime) in [
            (".min_lifetime", pcp.min_lifetime),
            (".max_lifetime", pcp.max_lifetime),
        ] {
            if !LIFETIMES.contains(&lifetime) {
                object(
                    key,
                    format!("{lifetime} s is not between {least} and {most} s"),
                );
            }
        }
        if pcp.min_lifetime > pcp.max_lifetime {
            let (least, most) = (pcp.min_lifetime, pcp.max_lifetime);
            object(
                ".max_lifetime",
                format!("{most} s is below min_lifetime, {least} s"),
            );
        }
        for (key, most) in [
            (".max_mappings", pcp.max_mappings),
            (".max_mappings_per_source", pcp.max_mappings_per_source),
        ] {
            if !(1..=MOST_MAPPINGS).contains(&most) {
                object(key, format!("{most} is not between 1 and {MOST_MAPPINGS}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{fixed_keys, parse};

    const BEGIN: &str = "[translator]\nmode = \"nat64\"\npref64 = [\"64:ff9b::/96\"]\n";
    const POOL: &str = "[[nat64.pool4]]\naddress = \"192.0.2.0/29\"\n";

    fn said(pcp: &str, rest: &str) -> String {
        let text = format!("{BEGIN}[nat64.pcp]\n{pcp}\n{rest}");
        let said = parse(&text, "x.toml", |_| ()).err();
        said.map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let right = "listen = [\"2001:db8::1\", \"2001:1::1\"]\nsources = [\"2001:db8::/64\"]";
        assert_eq!(said(right, POOL), "");
        for (pcp, expected) in [
            ("", "nat64.pcp.listen: no address"),
            (
                "listen = [\"::\"]",
                "nat64.pcp.listen[0]: :: is no address of this host",
            ),
            (
                "listen = [\"fe80::1\"]",
                "nat64.pcp.listen[0]: fe80::1 is no",
            ),
            (
                "listen = [\"ff02::1\"]",
                "nat64.pcp.listen[0]: ff02::1 is no",
            ),
            (
                "listen = [\"64:ff9b::1\"]",
                "nat64.pcp.listen[0]: 64:ff9b::1 is no",
            ),
            (
                "listen = [\"2001:db8::1\", \"2001:db8::1\"]",
                "nat64.pcp.listen[1]: 2001:db8::1 is given twice",
            ),
            (
                "listen = [\"2001:db8::1\"]\nsources = [\"2001:db8::1/64\"]",
                "nat64.pcp.sources[0]: 2001:db8::1/64 has host bits",
            ),
            (
                "listen = [\"2001:db8::1\"]",
                "nat64.pcp.sources: nobody may ask: name the prefixes",
            ),
            (
                "listen = [\"2001:db8::1\"]\nmin_lifetime = 3",
                "nat64.pcp.min_lifetime: 3 s is not between",
            ),
            (
                "listen = [\"2001:db8::1\"]\nmax_lifetime = 60",
                "nat64.pcp.max_lifetime: 60 s is below min_lifetime, 120 s",
            ),
            (
                "listen = [\"2001:db8::1\"]\nmax_mappings = 0",
                "nat64.pcp.max_mappings: 0 is not between",
            ),
            (
                "listen = [\"2001:db8::1\"]\nmax_mappings_per_source = 0",
                "nat64.pcp.max_mappings_per_source: 0 is",
            ),
            ("listen = [\"2001:db8::1\"]\nport = 5351", "port"),
        ] {
            let said = said(pcp, POOL);
            assert!(said.contains(expected), "{pcp}: {said:?}");
        }
    }

    #[test]
    fn clusters_and_addresses_of_interfaces_are_refused() {
        let right = "listen = [\"2001:db8::1\"]\nsources = [\"2001:db8::/64\"]";
        let wan = "[[nat64.pool4]]\naddress = \"192.168.64.1\"\ninterface = \"wan0\"\nports = \"40000-40999\"\n";
        let said_of_wan = said(right, wan);
        assert!(
            said_of_wan.contains("nat64.pcp: the address of an interface may change"),
            "{said_of_wan:?}"
        );
        let of_cluster = said(right, "[cluster]\nname = \"c\"\n");
        assert!(
            of_cluster.contains("nat64.pcp: the gateways of a cluster do not share"),
            "{of_cluster:?}"
        );
    }

    #[test]
    fn a_reload_changes_it() {
        let with = |pcp: &str| {
            parse(&format!("{BEGIN}{pcp}{POOL}"), "x.toml", |_| ()).expect("it is right")
        };
        let sources = "sources = [\"2001:db8::/64\"]\n";
        let (none, some) = (
            with(""),
            with(&format!(
                "[nat64.pcp]\nlisten = [\"2001:db8::1\"]\n{sources}"
            )),
        );
        let other = with(&format!(
            "[nat64.pcp]\nlisten = [\"2001:db8::2\"]\nmax_mappings = 7\n{sources}"
        ));
        for (old, new) in [(&none, &some), (&some, &none), (&some, &other)] {
            assert_eq!(fixed_keys::refusal(old, new), None);
        }
    }
}
