// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is there exactly one router behind a prefix?
//!
//! If so, looking its route up for each packet gives the same answer each
//! time, and the fast path can be told that answer. Where more than one answer
//! is possible (policy rules, several routes inside the prefix, several paths,
//! tunnels on routes) there is none to tell.

use std::net::Ipv6Addr;

use futures_util::TryStreamExt;
use ipnet::Ipv6Net;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::{IpVersion, RouteMessageBuilder};

use super::Net;

const TABLE_MAIN: u8 = RouteHeader::RT_TABLE_MAIN;
const TABLE_LOCAL: u8 = 255;

/// What matters of a route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    to: Ipv6Net,
    metric: u32,
    out: Option<u32>,
    router: Option<Ipv6Addr>,
    /// One path, to a router or a link, for every source and without a tunnel.
    plain: bool,
}

impl Net {
    /// The one router through which every address of `prefix` is reached over the link `uplink`.
    pub async fn sole_router(&self, prefix: Ipv6Net, uplink: u32) -> Option<Ipv6Addr> {
        let rules: Vec<RuleMessage> = self
            .handle
            .rule()
            .get(IpVersion::V6)
            .execute()
            .try_collect()
            .await
            .ok()?;
        if !rules.iter().all(is_default) {
            return None;
        }
        let every = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let routes: Vec<RouteMessage> = self
            .handle
            .route()
            .get(every)
            .execute()
            .try_collect()
            .await
            .ok()?;
        let routes: Vec<Route> = routes.iter().filter_map(read).collect();
        sole_router(&routes, prefix, uplink)
    }
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

fn read(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.table != TABLE_MAIN {
        return None;
    }
    let mut route = Route {
        to: Ipv6Net::new(Ipv6Addr::UNSPECIFIED, header.destination_prefix_length).ok()?,
        metric: 0,
        out: None,
        router: None,
        plain: header.kind == RouteType::Unicast && header.source_prefix_length == 0,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet6(to)) => {
                route.to = Ipv6Net::new(*to, header.destination_prefix_length).ok()?;
            }
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Oif(out) => route.out = Some(*out),
            RouteAttribute::Gateway(RouteAddress::Inet6(router)) => route.router = Some(*router),
            RouteAttribute::MultiPath(_)
            | RouteAttribute::NhId(_)
            | RouteAttribute::Encap(_)
            | RouteAttribute::EncapType(_)
            | RouteAttribute::Via(_) => route.plain = false,
            _ => {}
        }
    }
    Some(route)
}

fn sole_router(routes: &[Route], prefix: Ipv6Net, uplink: u32) -> Option<Ipv6Addr> {
    let inside = |r: &&Route| prefix.contains(&r.to) && r.to.prefix_len() > prefix.prefix_len();
    if routes.iter().any(|route| inside(&route)) {
        return None;
    }
    let above: Vec<&Route> = routes
        .iter()
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
        }
    }

    fn asked(routes: &[Route]) -> Option<String> {
        let prefix = "64:ff9b::/96".parse().expect("a prefix");
        sole_router(routes, prefix, UPLINK).map(|router| router.to_string())
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
    }
}
