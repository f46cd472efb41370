// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is there exactly one router behind a prefix?
//!
//! If so, looking its route up for each packet gives the same answer each
//! time, and the fast path can be told that answer. Where more than one answer
//! is possible (policy rules, several routes inside the prefix, several paths,
//! tunnels on routes) there is none to tell.
//!
//! The fast path sends out of the uplink whatever the routes say, so only routes through the uplink count: the router of
//! another link is no neighbour there.

use std::net::Ipv6Addr;

use ipnet::{IpNet, Ipv6Net};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteNextHopFlags,
    RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::AddressFamily;
use rtnetlink::IpVersion;

use super::route::destination;
use super::Net;
use crate::failure::Failure;

const TABLE_MAIN: u8 = RouteHeader::RT_TABLE_MAIN;
const TABLE_LOCAL: u8 = 255;

/// What matters of a route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub to: Ipv6Net,
    metric: u32,
    /// The only interface that it leads through, if there is one.
    pub out: Option<u32>,
    router: Option<Ipv6Addr>,
    /// One path, to a router or a link, for every source and without a tunnel.
    plain: bool,
    /// Packets that take it are sent on, not thrown away.
    pub is_way: bool,
}

impl Net {
    /// The one router through which every address of `prefix` is reached over the link `uplink`.
    pub async fn sole_router(&self, prefix: Ipv6Net, uplink: u32) -> Option<Ipv6Addr> {
        if self.has_rules6().await.ok()? {
            return None;
        }
        let routes = self.routes_to6(prefix, Some(TABLE_MAIN)).await.ok()?;
        sole_router(&routes, prefix, uplink)
    }

    /// Whether nodes on the link `uplink` are asked for this address, because no router stands before it.
    pub async fn is_on_link(&self, address: Ipv6Addr, uplink: u32) -> Result<bool, Failure> {
        Ok(is_on_link(
            &self.routes_to6(address.into(), None).await?,
            uplink,
        ))
    }

    /// Whether there are IPv6 policy rules beside those with which a network namespace begins.
    pub(super) async fn has_rules6(&self) -> Result<bool, Failure> {
        let ask = |handle: &rtnetlink::Handle| handle.rule().get(IpVersion::V6).execute();
        let rules: Vec<RuleMessage> = self.list("list the policy rules", ask).await?;
        Ok(!rules.iter().all(is_default))
    }

    /// The IPv6 routes that lead to all of a prefix or to a part of it, of one table or of all but `local`.
    pub(super) async fn routes_to6(
        &self,
        prefix: Ipv6Net,
        table: Option<u8>,
    ) -> Result<Vec<Route>, Failure> {
        let routes = self.list_routes(AddressFamily::Inet6, None).await?;
        let ours = routes.iter().filter(|message| match table {
            Some(table) => message.header.table == table,
            None => message.header.table != TABLE_LOCAL,
        });
        let routes = ours.flat_map(read);
        Ok(routes
            .filter(|route| route.to.contains(&prefix) || prefix.contains(&route.to))
            .collect())
    }
}

/// Of routes to one address: whether the longest through the uplink names no router.
fn is_on_link(routes: &[Route], uplink: u32) -> bool {
    let through = routes.iter().filter(|r| r.out == Some(uplink) && r.is_way);
    let longest = through.max_by_key(|route| route.to.prefix_len());
    longest.is_some_and(|route| route.router.is_none())
}

/// The rules with which a network namespace begins: everything looks into `local`, then into `main`.
fn is_default(rule: &RuleMessage) -> bool {
    let plain = |attribute: &RuleAttribute| {
        use RuleAttribute as A;
        matches!(
            attribute,
            A::Table(_) | A::Priority(_) | A::Protocol(_) | A::SuppressPrefixLen(_)
        )
    };
    let header = &rule.header;
    (header.table == TABLE_MAIN || header.table == TABLE_LOCAL)
        && (header.src_len, header.dst_len, header.tos) == (0, 0, 0)
        && rule.attributes.iter().all(plain)
}

/// A route, or one for each of its paths.
fn read(message: &RouteMessage) -> Vec<Route> {
    let header = &message.header;
    let Some(IpNet::V6(to)) = destination(message) else {
        return Vec::new();
    };
    let mut route = Route {
        to,
        metric: 0,
        out: None,
        router: None,
        plain: header.kind == RouteType::Unicast && header.source_prefix_length == 0,
        is_way: header.kind == RouteType::Unicast,
    };
    let mut paths = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Oif(out) => route.out = Some(*out),
            RouteAttribute::Gateway(RouteAddress::Inet6(router)) => route.router = Some(*router),
            RouteAttribute::MultiPath(hops) => paths.extend(hops),
            RouteAttribute::NhId(_)
            | RouteAttribute::Encap(_)
            | RouteAttribute::EncapType(_)
            | RouteAttribute::Via(_) => route.plain = false,
            _ => {}
        }
    }
    if paths.is_empty() {
        return vec![route];
    }
    let path = |hop: &&RouteNextHop| {
        let router = hop.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet6(router)) => Some(*router),
            _ => None,
        });
        Route {
            out: Some(hop.interface_index),
            router,
            plain: route.plain && !hop.flags.contains(RouteNextHopFlags::Dead),
            ..route.clone()
        }
    };
    paths.iter().map(path).collect()
}

fn sole_router(routes: &[Route], prefix: Ipv6Net, uplink: u32) -> Option<Ipv6Addr> {
    // A route that throws packets away leads through no link, and is obeyed.
    let elsewhere = |r: &&Route| r.is_way && r.out.is_some_and(|out| out != uplink);
    let routes: Vec<&Route> = routes.iter().filter(|route| !elsewhere(route)).collect();
    let inside = |r: &&Route| prefix.contains(&r.to) && r.to.prefix_len() > prefix.prefix_len();
    if routes.iter().any(inside) {
        return None;
    }
    let above: Vec<&Route> = routes
        .into_iter()
        .filter(|route| route.to.contains(&prefix))
        .collect();
    let longest = above.iter().map(|route| route.to.prefix_len()).max()?;
    let longest: Vec<&&Route> = above
        .iter()
        .filter(|route| route.to.prefix_len() == longest)
        .collect();
    let metric = longest.iter().map(|route| route.metric).min()?;
    let mut best = longest.iter().filter(|route| route.metric == metric);
    match (best.next(), best.next()) {
        (Some(route), None) if route.plain && route.out == Some(uplink) => route.router,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLINK: u32 = 7;

    fn route(to: &str, metric: u32, router: Option<&str>) -> Route {
        Route {
            to: to.parse().expect("a prefix"),
            metric,
            out: Some(UPLINK),
            router: router.map(|r| r.parse().expect("an address")),
            plain: true,
            is_way: true,
        }
    }

    fn asked(routes: &[Route]) -> Option<String> {
        let prefix = "64:ff9b::/96".parse().expect("a prefix");
        sole_router(routes, prefix, UPLINK).map(|router| router.to_string())
    }

    #[test]
    fn what_a_router_stands_before_is_not_on_the_link() {
        let default = route("::/0", 1024, Some("fe80::1"));
        let elsewhere = Route {
            out: Some(UPLINK + 1),
            ..route("2001:db8:f00::464/128", 1, None)
        };
        let unreachable = Route {
            out: None,
            is_way: false,
            ..route("2001:db8:f00::/56", 1, None)
        };
        let routed = [default.clone(), elsewhere, unreachable];
        assert!(!is_on_link(&routed, UPLINK));
        assert!(is_on_link(
            &[default, route("2001:db8::/64", 256, None)],
            UPLINK
        ));
        assert!(!is_on_link(&[], UPLINK));
    }

    #[test]
    fn a_default_route_is_the_answer() {
        let routes = [
            route("::/0", 1024, Some("fe80::1")),
            route("2001:db8::/64", 256, None),
        ];
        assert_eq!(asked(&routes), Some("fe80::1".to_owned()));
    }

    #[test]
    fn the_longer_prefix_and_then_the_lower_metric_wins() {
        let routes = [
            route("::/0", 10, Some("fe80::1")),
            route("64:ff9b::/96", 1024, Some("fe80::2")),
            route("64:ff9b::/96", 512, Some("fe80::3")),
        ];
        assert_eq!(asked(&routes), Some("fe80::3".to_owned()));
    }

    #[test]
    fn where_several_answers_are_possible_there_is_none() {
        let inside = [
            route("::/0", 10, Some("fe80::1")),
            route("64:ff9b::c000:0/112", 10, Some("fe80::2")),
        ];
        assert_eq!(asked(&inside), None);
        let two_routers = [
            route("::/0", 10, Some("fe80::1")),
            route("::/0", 10, Some("fe80::2")),
        ];
        assert_eq!(asked(&two_routers), None);
        assert_eq!(
            asked(&[Route {
                plain: false,
                ..route("::/0", 10, Some("fe80::1"))
            }]),
            None
        );
        assert_eq!(
            asked(&[Route {
                out: Some(8),
                ..route("::/0", 10, Some("fe80::1"))
            }]),
            None
        );
        assert_eq!(
            asked(&[route("::/0", 10, None)]),
            None,
            "every address is a neighbour"
        );
        assert_eq!(asked(&[]), None);
        let unreachable = Route {
            out: Some(1),
            plain: false,
            is_way: false,
            ..route("64:ff9b::/96", 10, None)
        };
        assert_eq!(
            asked(&[route("::/0", 10, Some("fe80::1")), unreachable]),
            None
        );
    }

    #[test]
    fn routes_through_other_links_do_not_count() {
        let other = |to, metric| Route {
            out: Some(8),
            ..route(to, metric, Some("fe80::8"))
        };
        let routes = [
            route("::/0", 1024, Some("fe80::1")),
            other("::/0", 512),
            other("64:ff9b::/96", 1024),
            other("64:ff9b::c000:0/112", 1024),
        ];
        assert_eq!(asked(&routes), Some("fe80::1".to_owned()));
        assert_eq!(asked(&[other("::/0", 512)]), None);
    }
}
