// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IPv6 default routes of this host, in the kernel's order of preference.

use std::collections::BTreeSet;

use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RoutePreference, RouteType,
};
use netlink_packet_route::AddressFamily;

use super::route::{destination, exits};
use super::{Link, Net};
use crate::error::KernelError;

/// A default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefaultRoute {
    /// The lower one wins.
    pub metric: u32,
    /// Rank among routes with the same metric: 0 is preferred to 1, and 1 to 2 (RFC 4191 section 2.1).
    pub rank: u8,
    /// Index of its interface.
    pub index: u32,
}

impl Net {
    /// The default routes in the main table that packets of this host can take now, with their interfaces, the preferred ones
    /// first. Policy rules and their tables are left out: they apply to some packets only, and those of a VPN lead to an
    /// interface that is no uplink.
    pub async fn default_routes6(&self) -> Result<Vec<(DefaultRoute, Link)>, KernelError> {
        let routes = self.list_routes(AddressFamily::Inet6, None).await?;
        let mut found: Vec<DefaultRoute> = routes.iter().flat_map(read).collect();
        found.sort();
        let mut seen = BTreeSet::new();
        found.retain(|route| seen.insert(route.index));
        let links = self.links().await?;
        let of = |route: DefaultRoute| {
            let link = links.iter().find(|link| link.index == route.index)?;
            let link = link.clone().with_advertised_mtu();
            link.obstacle6().is_none().then_some((route, link))
        };
        Ok(found.into_iter().filter_map(of).collect())
    }
}

fn read(message: &RouteMessage) -> Vec<DefaultRoute> {
    let header = &message.header;
    let is_default = header.kind == RouteType::Unicast
        && header.table == RouteHeader::RT_TABLE_MAIN
        && destination(message).is_some_and(|to| to.prefix_len() == 0);
    if !is_default {
        return Vec::new();
    }
    let (mut metric, mut rank) = (0, 1);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Preference(preference) => rank = rank_of(*preference),
            _ => {}
        }
    }
    let route = |index| DefaultRoute {
        metric,
        rank,
        index,
    };
    exits(message).map(route).collect()
}

fn rank_of(preference: RoutePreference) -> u8 {
    match preference {
        RoutePreference::High => 0,
        RoutePreference::Low => 2,
        _ => 1,
    }
}
