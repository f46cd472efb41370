// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel's routing may refuse to a packet of the family in which it arrives: policy rules, and routes that discard.
//! A program that translates the packet first asks neither.

use std::fmt;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::AddressFamily;
use rtnetlink::IpVersion;

use super::route::destination;
use super::Net;
use crate::error::KernelError;

/// The tables `default`, `main` and `local`, which the kernel looks up by itself.
const USUAL_TABLES: std::ops::RangeInclusive<u32> = 253..=255;
/// From linux/fib_rules.h: a rule that suppresses no answer.
const SUPPRESSES_NONE: u32 = u32::MAX;
/// The kinds of routes that forward nothing, with their names of iproute2.
const KINDS: [(RouteType, &str); 4] = [
    (RouteType::BlackHole, "blackhole"),
    (RouteType::Unreachable, "unreachable"),
    (RouteType::Prohibit, "prohibit"),
    (RouteType::Throw, "throw"),
];

/// A route that forwards nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discard {
    /// Its destination.
    pub to: IpNet,
    /// Preference among routes to the same destination; the lower one wins.
    pub metric: u32,
    kind: &'static str,
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.to)
    }
}

impl Net {
    /// The families that have policy rules besides those that the kernel makes.
    pub async fn ruled_families(&self) -> Result<Vec<&'static str>, KernelError> {
        let mut ruled = Vec::new();
        for (version, name) in [(IpVersion::V4, "IPv4"), (IpVersion::V6, "IPv6")] {
            let ask = |handle: &rtnetlink::Handle| {
                let all = handle.rule().get(version).execute();
                all.map_ok(|rule| is_usual(&rule))
            };
            let usual: Vec<bool> = self.list("list the policy rules", ask).await?;
            if usual.contains(&false) {
                ruled.push(name);
            }
        }
        Ok(ruled)
    }

    /// All routes of both families that forward nothing, in whatever table.
    pub async fn discards(&self) -> Result<Vec<Discard>, KernelError> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            for (kind, _) in KINDS {
                // The kernel omits routes of other kinds, of which there may be a million.
                let mut filter = RouteMessage::default();
                filter.header.address_family = family;
                filter.header.kind = kind;
                let ask = |handle: &rtnetlink::Handle| handle.route().get(filter).execute();
                let routes: Vec<RouteMessage> = self.list("list the routes", ask).await?;
                found.extend(routes.iter().filter_map(discard));
            }
        }
        Ok(found)
    }
}

/// Returns true for a rule of a look-up that concerns all packets, in a table that the kernel looks up anyway or in that of a
/// VRF.
fn is_usual(rule: &RuleMessage) -> bool {
    use RuleAttribute as A;
    let header = &rule.header;
    let mut table = u32::from(header.table);
    let (mut is_plain, mut is_of_vrf) = (true, false);
    for attribute in &rule.attributes {
        match attribute {
            A::Table(number) => table = *number,
            A::L3MDev(yes) => is_of_vrf |= yes,
            A::Priority(_) | A::Protocol(_) => {}
            A::SuppressPrefixLen(SUPPRESSES_NONE) => {}
            _ => is_plain = false,
        }
    }
    is_plain
        && (header.src_len, header.dst_len, header.tos) == (0, 0, 0)
        && header.action == RuleAction::ToTable
        && (is_of_vrf || USUAL_TABLES.contains(&table))
}

fn discard(message: &RouteMessage) -> Option<Discard> {
    let (_, kind) = KINDS
        .into_iter()
        .find(|(kind, _)| *kind == message.header.kind)?;
    let metric = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Priority(metric) => Some(*metric),
            _ => None,
        });
    Some(Discard {
        to: destination(message)?,
        metric: metric.unwrap_or(0),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_route::route::RouteAddress;

    fn rule(table: u32, more: &[RuleAttribute]) -> RuleMessage {
        let mut rule = RuleMessage::default();
        rule.header.action = RuleAction::ToTable;
        rule.attributes.push(RuleAttribute::Table(table));
        rule.attributes
            .push(RuleAttribute::SuppressPrefixLen(SUPPRESSES_NONE));
        rule.attributes.extend_from_slice(more);
        rule
    }

    #[test]
    fn only_rules_that_the_kernel_makes_are_usual() {
        for table in USUAL_TABLES {
            assert!(is_usual(&rule(table, &[RuleAttribute::Priority(7)])));
        }
        assert!(is_usual(&rule(0, &[RuleAttribute::L3MDev(true)])));
        let (main, own) = (254, 100);
        let of_tcp = RuleAttribute::Iifname("eth0".to_owned());
        assert!(!is_usual(&rule(own, &[])));
        assert!(!is_usual(&rule(main, &[RuleAttribute::FwMark(5)])));
        assert!(!is_usual(&rule(main, &[of_tcp])));
        assert!(!is_usual(&rule(
            main,
            &[RuleAttribute::SuppressPrefixLen(0)]
        )));
        for action in [
            RuleAction::Blackhole,
            RuleAction::Unreachable,
            RuleAction::Prohibit,
        ] {
            let mut refuses = rule(main, &[]);
            refuses.header.action = action;
            assert!(!is_usual(&refuses));
        }
        let mut from = rule(main, &[]);
        from.header.src_len = 32;
        assert!(!is_usual(&from));
    }

    #[test]
    fn routes_that_forward_nothing() {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet6;
        route.header.destination_prefix_length = 104;
        route.header.kind = RouteType::Unicast;
        let to = RouteAddress::Inet6("64:ff9b::a00:0".parse().expect("an address"));
        route.attributes.push(RouteAttribute::Destination(to));
        route.attributes.push(RouteAttribute::Priority(1024));
        assert_eq!(discard(&route), None);
        for (kind, name) in KINDS {
            route.header.kind = kind;
            let found = discard(&route).expect("a route");
            assert_eq!(found.metric, 1024);
            assert_eq!(found.to_string(), format!("{name} 64:ff9b::a00:0/104"));
        }
    }
}
