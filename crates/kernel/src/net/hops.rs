// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where packets go that something else than the kernel forwards: the routes of the tables `local` and `main`, with the
//! link-layer addresses of their next hops.
//!
//! Whatever is not certain goes nowhere here, so the kernel forwards it: several paths, tunnels, routes by source, next hops
//! whose link-layer address is unknown. With policy rules, nothing is certain.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::AddressFamily;
use rtnetlink::IpVersion;

use super::nexthop::is_default;
use super::route::destination;
use super::{Net, TABLE_LOCAL};
use diolkos_service::failure::Failure;

/// The table that the kernel looks up last.
const TABLE_DEFAULT: u8 = 253;

/// A link-layer address of Ethernet.
pub type Mac = [u8; 6];

/// A destination and its next hop; longer destinations win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The destination.
    pub to: IpNet,
    /// `None`: the kernel decides.
    pub next: Option<Next>,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The interface.
    pub index: u32,
    /// The router, or the destination itself.
    pub address: IpAddr,
    /// Its link-layer address.
    pub mac: Mac,
    /// MTU of the route, bytes, if it has one of its own.
    pub mtu: Option<u32>,
    /// The kernel has not confirmed it for a while.
    pub is_stale: bool,
}

impl Net {
    /// The next hops of all destinations that lead through one of these interfaces, and of those in between that do not. The
    /// list is empty where policy rules decide, or where there are more than `most`.
    pub async fn hops(&self, exits: &[u32], most: usize) -> Result<Vec<Hop>, Failure> {
        let neighbours = self.resolved().await?;
        let mut all = Vec::new();
        for (family, version) in [
            (AddressFamily::Inet, IpVersion::V4),
            (AddressFamily::Inet6, IpVersion::V6),
        ] {
            let ask = |handle: &rtnetlink::Handle| handle.rule().get(version).execute();
            let rules: Vec<RuleMessage> = self.list("list the policy rules", ask).await?;
            if !rules.iter().all(is_usual) {
                continue;
            }
            let routes = self.list_routes(family, None).await?;
            if routes.len() <= most {
                let paths = routes.iter().filter_map(Path::read).collect();
                all.extend(hops_of(paths, &neighbours, exits));
            }
        }
        all.truncate(if all.len() > most { 0 } else { most });
        Ok(all)
    }

    /// All neighbours whose link-layer address is known.
    async fn resolved(&self) -> Result<Vec<Resolved>, Failure> {
        let ask = |handle: &rtnetlink::Handle| handle.neighbours().get().execute();
        let all: Vec<NeighbourMessage> = self.list("list the neighbours", ask).await?;
        Ok(all.iter().filter_map(Resolved::read).collect())
    }
}

/// Returns true for a rule that every network namespace has, at its usual place.
fn is_usual(rule: &RuleMessage) -> bool {
    let mut plain = rule.clone();
    if plain.header.table == TABLE_DEFAULT {
        plain.header.table = RouteHeader::RT_TABLE_MAIN;
    }
    let is_later =
        |a: &RuleAttribute| matches!(a, RuleAttribute::Priority(priority) if *priority != 0);
    let is_late = rule.header.table == TABLE_LOCAL && rule.attributes.iter().any(is_later);
    is_default(&plain) && !is_late
}

/// A neighbour.
#[derive(Clone, Copy, Debug)]
struct Resolved {
    index: u32,
    address: IpAddr,
    mac: Mac,
    is_stale: bool,
}

impl Resolved {
    fn read(message: &NeighbourMessage) -> Option<Resolved> {
        use NeighbourState as S;
        let is_stale = match message.header.state {
            S::Reachable | S::Permanent => false,
            S::Stale | S::Delay | S::Probe => true,
            _ => return None,
        };
        let (mut address, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(to)) => {
                    address = Some(IpAddr::V4(*to));
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(to)) => {
                    address = Some(IpAddr::V6(*to));
                }
                NeighbourAttribute::LinkLayerAddress(bytes) => {
                    mac = Mac::try_from(bytes.as_slice()).ok();
                }
                _ => {}
            }
        }
        Some(Resolved {
            index: message.header.ifindex,
            address: address?,
            mac: mac?,
            is_stale,
        })
    }
}

/// A route.
#[derive(Clone, Copy, Debug)]
struct Path {
    to: IpNet,
    is_local: bool,
    metric: u32,
    mtu: Option<u32>,
    way: Way,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// To this host, nowhere, or where only the kernel knows.
    Unknown,
    /// To the destination itself.
    Link(u32),
    /// To a router.
    Router(u32, IpAddr),
}

impl Path {
    /// Reads a route of the tables that are looked up without policy rules.
    fn read(message: &RouteMessage) -> Option<Path> {
        let header = &message.header;
        let is_local = header.table == TABLE_LOCAL;
        let is_ours = is_local || header.table == RouteHeader::RT_TABLE_MAIN;
        if !is_ours || header.flags.contains(RouteFlags::Cloned) {
            return None;
        }
        let (mut metric, mut mtu, mut out, mut router) = (0, None, None, None);
        let gone = RouteFlags::Dead | RouteFlags::Linkdown;
        let mut is_plain = header.kind == RouteType::Unicast
            && (header.source_prefix_length, header.tos) == (0, 0)
            && !header.flags.intersects(gone);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Priority(its) => metric = *its,
                RouteAttribute::Oif(index) => out = Some(*index),
                RouteAttribute::Gateway(RouteAddress::Inet(its)) => {
                    router = Some(IpAddr::V4(*its));
                }
                RouteAttribute::Gateway(RouteAddress::Inet6(its)) => {
                    router = Some(IpAddr::V6(*its));
                }
                RouteAttribute::Metrics(metrics) => {
                    mtu = metrics.iter().find_map(|metric| match metric {
                        RouteMetric::Mtu(mtu) => Some(*mtu),
                        _ => None,
                    });
                }
                RouteAttribute::MultiPath(_)
                | RouteAttribute::NhId(_)
                | RouteAttribute::Encap(_)
                | RouteAttribute::EncapType(_)
                | RouteAttribute::Via(_) => is_plain = false,
                _ => {}
            }
        }
        let way = match (is_plain, out, router) {
            (true, Some(index), Some(router)) => Way::Router(index, router),
            (true, Some(index), None) => Way::Link(index),
            _ => Way::Unknown,
        };
        Some(Path {
            to: destination(message)?.trunc(),
            is_local,
            metric,
            mtu,
            way,
        })
    }
}

/// The next hops by these routes of one family.
fn hops_of(paths: Vec<Path>, neighbours: &[Resolved], exits: &[u32]) -> Vec<Hop> {
    let chosen = choose(paths);
    let next = |(index, address): (u32, IpAddr), mtu: Option<u32>| {
        let is_it = |its: &&Resolved| (its.index, its.address) == (index, address);
        let its = neighbours
            .iter()
            .find(is_it)
            .filter(|_| exits.contains(&index))?;
        Some(Next {
            index,
            address,
            mac: its.mac,
            mtu,
            is_stale: its.is_stale,
        })
    };
    let mut hops: BTreeMap<IpNet, Option<Next>> = BTreeMap::new();
    for (to, path) in &chosen {
        let hop = match path.way {
            Way::Router(index, router) => next((index, router), path.mtu),
            Way::Link(_) | Way::Unknown => None,
        };
        hops.insert(*to, hop);
    }
    for its in neighbours {
        let host = IpNet::from(its.address);
        let route = covering(&chosen, host);
        let is_here = route.is_some_and(|path| path.way == Way::Link(its.index));
        if is_here && exits.contains(&its.index) {
            let mtu = route.and_then(|path| path.mtu);
            hops.insert(host, next((its.index, its.address), mtu));
        }
    }
    // Without a hop around it, a destination is left to the kernel anyway.
    let is_needed = |to: &IpNet, hop: &Option<Next>| {
        let around = |to: &IpNet| to.supernet().and_then(|above| covering(&hops, above));
        hop.is_some() || around(to).is_some_and(Option::is_some)
    };
    let needed = hops.iter().filter(|(to, hop)| is_needed(to, hop));
    needed
        .map(|(to, next)| Hop {
            to: *to,
            next: *next,
        })
        .collect()
}

/// The route that the kernel takes to each destination. The table `local` is looked up first: within its routes, none of
/// `main` counts.
fn choose(paths: Vec<Path>) -> BTreeMap<IpNet, Path> {
    let locals: Vec<IpNet> = paths.iter().filter(|p| p.is_local).map(|p| p.to).collect();
    let mut chosen: BTreeMap<IpNet, Path> = BTreeMap::new();
    for path in paths {
        if !path.is_local && locals.iter().any(|local| local.contains(&path.to)) {
            continue;
        }
        let rank = |path: &Path| (!path.is_local, path.metric);
        match chosen.get_mut(&path.to) {
            None => {
                chosen.insert(path.to, path);
            }
            Some(other) if rank(&path) < rank(other) => *other = path,
            // The kernel chooses one for each flow.
            Some(other) if rank(&path) == rank(other) => other.way = Way::Unknown,
            Some(_) => {}
        }
    }
    chosen
}

/// The entry with the longest destination that contains this one.
fn covering<T>(all: &BTreeMap<IpNet, T>, net: IpNet) -> Option<&T> {
    let mut at = Some(net);
    while let Some(net) = at {
        if let Some(found) = all.get(&net) {
            return Some(found);
        }
        at = net.supernet();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(to: &str, metric: u32, way: Way) -> Path {
        Path {
            to: to.parse().expect("a network"),
            is_local: false,
            metric,
            mtu: None,
            way,
        }
    }

    fn neighbour(index: u32, address: &str) -> Resolved {
        Resolved {
            index,
            address: address.parse().expect("an address"),
            mac: [2, 0, 0, 0, 0, index as u8],
            is_stale: false,
        }
    }

    fn router(index: u32, address: &str) -> Way {
        Way::Router(index, address.parse().expect("an address"))
    }

    /// `+` and a destination that has a next hop, `-` and one that is left to the kernel.
    fn shown(paths: &[Path], neighbours: &[Resolved]) -> Vec<String> {
        let hops = hops_of(paths.to_vec(), neighbours, &[1, 2]);
        let shown = hops.iter().map(|hop| {
            let sign = if hop.next.is_some() { '+' } else { '-' };
            format!("{sign}{}", hop.to)
        });
        shown.collect()
    }

    #[test]
    fn routers_and_hosts_with_known_addresses_are_next_hops() {
        let paths = [
            path("0.0.0.0/0", 0, router(1, "192.0.2.1")),
            path("192.0.2.0/24", 0, Way::Link(1)),
            path("198.51.100.0/24", 0, Way::Link(7)),
            path("203.0.113.0/24", 0, router(2, "10.0.0.1")),
        ];
        let neighbours = [
            neighbour(1, "192.0.2.1"),
            neighbour(1, "192.0.2.9"),
            // On another link than the route says, and on one that is no exit.
            neighbour(2, "192.0.2.10"),
            neighbour(7, "198.51.100.1"),
        ];
        assert_eq!(
            shown(&paths, &neighbours),
            [
                "+0.0.0.0/0",
                "-192.0.2.0/24",
                "+192.0.2.1/32",
                "+192.0.2.9/32",
                "-198.51.100.0/24",
                "-203.0.113.0/24",
            ]
        );
    }

    #[test]
    fn what_only_the_kernel_can_choose_is_left_to_it() {
        let neighbours = [neighbour(1, "2001:db8::1"), neighbour(2, "2001:db8::2")];
        let both = |metrics: [u32; 2]| {
            [
                path("2001:db8:1::/48", metrics[0], router(1, "2001:db8::1")),
                path("2001:db8:1::/48", metrics[1], router(2, "2001:db8::2")),
            ]
        };
        assert!(shown(&both([5, 5]), &neighbours).is_empty());
        assert_eq!(shown(&both([6, 5]), &neighbours), ["+2001:db8:1::/48"]);
        let hops = hops_of(both([6, 5]).to_vec(), &neighbours, &[1, 2]);
        assert_eq!(hops[0].next.map(|next| next.index), Some(2));
    }

    #[test]
    fn routes_of_main_inside_of_local_ones_do_not_count() {
        let mut local = path("192.0.2.0/25", 0, Way::Unknown);
        local.is_local = true;
        let paths = [
            path("0.0.0.0/0", 0, router(1, "10.0.0.1")),
            local,
            path("192.0.2.7/32", 0, router(1, "10.0.0.1")),
        ];
        let neighbours = [neighbour(1, "10.0.0.1")];
        assert_eq!(shown(&paths, &neighbours), ["+0.0.0.0/0", "-192.0.2.0/25"]);
    }
}
