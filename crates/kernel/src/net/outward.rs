// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IPv4 address with which this host speaks to the Internet by an interface.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType,
};
use netlink_packet_route::AddressFamily;

use super::route::{destination, exits};
use super::Net;
use crate::error::KernelError;

/// An address of the interface.
#[derive(Clone, Copy, Debug)]
struct Own {
    address: Ipv4Addr,
    prefix_len: u8,
    is_secondary: bool,
}

/// A default route by the interface.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Default4 {
    /// Routes of the table `main` come first, then the lower metric.
    is_of_rule: bool,
    metric: u32,
    /// The source that the route names.
    source: Option<Ipv4Addr>,
    router: Option<Ipv4Addr>,
}

impl Net {
    /// The global address with which this host speaks to the Internet by an interface: the one that the interface's default
    /// route names, or that is in the network of the route's next hop, or the first one that is not secondary. None if
    /// there is none, or no such interface.
    pub async fn outward_address4(&self, interface: &str) -> Result<Option<Ipv4Addr>, KernelError> {
        let links = self.links().await?;
        let Some(link) = links.iter().find(|link| link.name == interface) else {
            return Ok(None);
        };
        let all = self.all_addresses().await?.into_iter();
        let its = all.filter(|a| a.index == link.index && a.is_global);
        let own: Vec<Own> = its
            .filter_map(|a| match a.address {
                IpAddr::V4(address) => Some(Own {
                    address,
                    prefix_len: a.prefix_len,
                    is_secondary: a.is_secondary,
                }),
                IpAddr::V6(_) => None,
            })
            .collect();
        // Routes may be a million, and most interfaces have one address.
        let route = match own.len() {
            0 | 1 => None,
            _ => self.default_route4(link.index).await?,
        };
        Ok(chosen(&own, route))
    }

    async fn default_route4(&self, index: u32) -> Result<Option<Default4>, KernelError> {
        let routes = self.list_routes(AddressFamily::Inet, Some(index)).await?;
        Ok(routes.iter().filter_map(|route| read(route, index)).min())
    }
}

fn chosen(own: &[Own], route: Option<Default4>) -> Option<Ipv4Addr> {
    let route = route.unwrap_or_default();
    let named = route
        .source
        .filter(|named| own.iter().any(|its| its.address == *named));
    let primary = || own.iter().filter(|its| !its.is_secondary);
    let is_near = |its: &&Own| {
        let net = Ipv4Net::new(its.address, its.prefix_len);
        let router = route.router.as_ref();
        router.is_some_and(|router| net.is_ok_and(|net| net.contains(router)))
    };
    let near = || primary().find(is_near).map(|its| its.address);
    let first = || primary().next().map(|its| its.address);
    named.or_else(near).or_else(first)
}

fn read(message: &RouteMessage, index: u32) -> Option<Default4> {
    let header = &message.header;
    let is_default = header.kind == RouteType::Unicast
        && exits(message).any(|exit| exit == index)
        && destination(message).is_some_and(|to| to.prefix_len() == 0);
    if !is_default {
        return None;
    }
    let mut route = Default4 {
        is_of_rule: header.table != RouteHeader::RT_TABLE_MAIN,
        ..Default4::default()
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::PrefSource(RouteAddress::Inet(source)) => route.source = Some(*source),
            RouteAttribute::Gateway(RouteAddress::Inet(router)) => route.router = Some(*router),
            _ => {}
        }
    }
    Some(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str, is_secondary: bool) -> Own {
        let net: Ipv4Net = text.parse().expect("an address with its length");
        Own {
            address: net.addr(),
            prefix_len: net.prefix_len(),
            is_secondary,
        }
    }

    fn by(source: Option<&str>, router: Option<&str>) -> Option<Default4> {
        let address = |text: &str| text.parse().expect("an address");
        Some(Default4 {
            source: source.map(address),
            router: router.map(address),
            ..Default4::default()
        })
    }

    #[test]
    fn the_default_route_chooses_among_addresses() {
        let own = [
            own("192.168.100.2/24", false),
            own("203.0.113.5/24", false),
            own("203.0.113.9/24", true),
        ];
        for (route, expected) in [
            (None, "192.168.100.2"),
            (by(None, None), "192.168.100.2"),
            (by(None, Some("192.168.100.1")), "192.168.100.2"),
            (by(None, Some("203.0.113.1")), "203.0.113.5"),
            // A router that is in no network (onlink).
            (by(None, Some("198.51.100.1")), "192.168.100.2"),
            (by(Some("203.0.113.9"), Some("203.0.113.1")), "203.0.113.9"),
            // A source that the interface has not.
            (by(Some("203.0.113.7"), Some("203.0.113.1")), "203.0.113.5"),
        ] {
            let found = chosen(&own, route).map(|address| address.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{route:?}");
        }
        assert_eq!(chosen(&[], by(None, None)), None);
    }

    #[test]
    fn the_table_main_and_the_lower_metric_come_first() {
        let route = |is_of_rule, metric| Default4 {
            is_of_rule,
            metric,
            ..Default4::default()
        };
        let all = [route(true, 0), route(false, 200), route(false, 100)];
        assert_eq!(all.into_iter().min(), Some(route(false, 100)));
    }
}
