// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which way the packets of a CLAT take out of its uplink: the kernel is asked for this very packet.
//!
//! The first question is the packet itself: its source, a destination in the prefix, the uplink as its exit. If a route or
//! rule refuses it, that is the answer. If it leads through another link (a VPN that carries the host's own traffic, say),
//! more questions follow, strictly for the uplink and in the name of the host's addresses there (`from HOST` rules and
//! routes). The first answer through the uplink names the next hop.
//!
//! Lists of routes are read for one thing only: whether one next hop can stand for the whole prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diolkos_core::addr::rfc6052::Pref64;
use ipnet::{IpNet, Ipv6Net};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteNextHopFlags,
    RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::AddressFamily;
use rtnetlink::IpVersion;

use super::lookup::{name_of, Question, Reply};
use super::route::destination;
use super::{Link, Net, TABLE_LOCAL};
use diolkos_service::failure::Failure;

const TABLE_MAIN: u8 = RouteHeader::RT_TABLE_MAIN;

/// Of the host's addresses on the uplink, in whose names the kernel is asked.
const MOST_NAMES: usize = 8;

/// The destination for which the kernel is asked. Nobody has it; RFC 7050 section 8.1 gives it to NAT64 discovery.
const SAMPLE: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 170);

/// The packets for which the kernel is asked.
#[derive(Clone, Copy, Debug)]
pub struct Errand<'a> {
    /// They are to leave by it.
    pub uplink: &'a Link,
    /// The CLAT's address.
    pub from: Ipv6Addr,
    /// The translation prefix.
    pub to: Ipv6Net,
    /// The TUN device, if the kernel forwards what comes from it. Otherwise they are sent out of the uplink.
    pub forwarded_from: Option<u32>,
}

/// The way of packets through the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The router on the uplink. None: destinations are neighbours.
    pub router: Option<Ipv6Addr>,
    /// The kernel would take it by itself. Otherwise the routes for the host's own traffic lead elsewhere.
    pub is_own: bool,
}

impl Errand<'_> {
    /// A destination in the prefix.
    fn sample(&self) -> Ipv6Addr {
        Pref64::new(self.to).embed(SAMPLE)
    }

    /// The packet itself. Where the kernel forwards it, our own route would be the answer, so the source is the address
    /// next to it, to which the same rules and routes apply.
    fn itself(&self) -> Question {
        let beside = Ipv6Addr::from_bits(self.from.to_bits() ^ 1);
        let sent = Question {
            to: self.sample(),
            from: Some(self.from),
            came_by: None,
            exit: Some(self.uplink.index),
        };
        match self.forwarded_from {
            None => sent,
            Some(tun) => Question {
                from: Some(beside),
                came_by: Some(tun),
                exit: None,
                ..sent
            },
        }
    }

    fn by_uplink(&self, from: Option<Ipv6Addr>) -> Question {
        Question {
            to: self.sample(),
            from,
            came_by: None,
            exit: Some(self.uplink.index),
        }
    }
}

impl Net {
    /// The way through the uplink, or in words why there is none.
    pub async fn way(&self, errand: &Errand<'_>) -> Result<Result<Way, String>, Failure> {
        let uplink = errand.uplink.index;
        let mut replies = vec![self.ask6(errand.itself()).await?];
        if decide(&replies, errand).is_err_and(|obstacle| obstacle.is_final) {
            return Ok(decide(&replies, errand).map_err(|obstacle| obstacle.text));
        }
        let mut names = vec![None];
        if leads(&replies, uplink).is_none() {
            names.extend(self.names(errand).await?.into_iter().map(Some));
        }
        for name in names {
            if leads(&replies, uplink).is_some() {
                break;
            }
            replies.push(self.ask6(errand.by_uplink(name)).await?);
        }
        Ok(decide(&replies, errand).map_err(|obstacle| obstacle.text))
    }

    /// The host's own addresses on the uplink, that from whose prefix the CLAT's is made first.
    async fn names(&self, errand: &Errand<'_>) -> Result<Vec<Ipv6Addr>, Failure> {
        let all = self.all_addresses().await?;
        let of_uplink = all.iter().filter(|a| a.index == errand.uplink.index);
        let mut names: Vec<Ipv6Addr> = of_uplink
            .filter_map(|a| match a.address {
                IpAddr::V6(address) if !address.is_unicast_link_local() => Some(address),
                _ => None,
            })
            .collect();
        let differs = |name: &Ipv6Addr| name.to_bits() >> 64 != errand.from.to_bits() >> 64;
        names.sort_by_key(|name| (differs(name), name.to_bits()));
        names.truncate(MOST_NAMES);
        Ok(names)
    }

    /// What is wrong with the ways that the kernel now has for packets that it forwards, in words: they leave by another
    /// interface, or what comes back does not reach the device. Nothing may be sent then: it may come back to be translated
    /// again, for ever.
    pub async fn strays(&self, errand: &Errand<'_>) -> Result<Option<String>, Failure> {
        let Some(tun) = errand.forwarded_from else {
            return Ok(None);
        };
        let name = &errand.uplink.name;
        let out = Question {
            from: Some(errand.from),
            ..errand.itself()
        };
        match self.ask6(out).await? {
            Reply::Through(index, _) if index == errand.uplink.index => {}
            other => {
                return Ok(Some(format!(
                    "this host would send packets from {} to {} {}, and not through {name}: see `ip -6 rule`",
                    errand.from,
                    errand.to,
                    other.in_words()
                )))
            }
        }
        let back = Question {
            to: errand.from,
            from: Some(errand.sample()),
            came_by: Some(errand.uplink.index),
            exit: None,
        };
        let other = match self.ask6(back).await? {
            Reply::Through(index, _) if index == tun => return Ok(None),
            other => other,
        };
        // A device that is down holds no routes, which is said elsewhere.
        let device = self.link_at(tun).await?;
        Ok(device.filter(|device| device.is_up).map(|_| {
            format!(
                "packets for {} that arrive on {name} would go {}: see `ip -6 rule`",
                errand.from,
                other.in_words()
            )
        }))
    }

    /// Whether packets to one part of the prefix may take another way than those to the rest, and every way there can be
    /// leads through the uplink. Then the kernel may choose for each packet.
    pub async fn way_varies(&self, errand: &Errand<'_>) -> Result<bool, Failure> {
        let (prefix, uplink) = (errand.to, errand.uplink.index);
        if self.has_rules6().await? {
            return Ok(false);
        }
        let routes = self.routes_to6(prefix, Some(TABLE_MAIN)).await?;
        Ok(varies(&routes, prefix, uplink))
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

/// What matters of a route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub to: Ipv6Net,
    metric: u32,
    /// The only interface that it leads through, if there is one.
    pub out: Option<u32>,
    router: Option<Ipv6Addr>,
    /// One path, to a router or a link, and without a tunnel.
    plain: bool,
    /// Only for some sources.
    is_sourced: bool,
    /// Packets that take it are sent on, not thrown away.
    pub is_way: bool,
}

/// Why no packet passes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Obstacle {
    text: String,
    /// Further questions change nothing.
    is_final: bool,
}

impl Reply {
    fn in_words(self) -> String {
        match self {
            Reply::Through(index, _) => format!("through {}", name_of(index)),
            Reply::Here => "to itself".to_owned(),
            Reply::Refused(kind) => format!("nowhere ({kind})"),
            Reply::Nowhere => "nowhere (no route)".to_owned(),
        }
    }
}

/// Of answers to questions: the first way through the uplink.
fn leads(replies: &[Reply], uplink: u32) -> Option<Way> {
    replies
        .iter()
        .enumerate()
        .find_map(|(at, reply)| match reply {
            Reply::Through(index, router) if *index == uplink => Some(Way {
                router: *router,
                is_own: at == 0,
            }),
            _ => None,
        })
}

/// What follows from the answers: the first is that for the packet itself.
fn decide(replies: &[Reply], errand: &Errand<'_>) -> Result<Way, Obstacle> {
    let (to, name) = (errand.to, &errand.uplink.name);
    if let Some(Reply::Refused(kind)) = replies.first() {
        return Err(Obstacle {
            text: format!(
                "an IPv6 route or rule of this host refuses packets to {to} ({kind}): see `ip -6 route` and `ip -6 rule`"
            ),
            is_final: true,
        });
    }
    leads(replies, errand.uplink.index).ok_or_else(|| Obstacle {
        text: format!("no IPv6 route to {to} through {name}"),
        is_final: false,
    })
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
        plain: header.kind == RouteType::Unicast,
        is_sourced: header.source_prefix_length != 0,
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

/// As [`Net::way_varies`], of the routes to the prefix or to parts of it.
fn varies(routes: &[Route], prefix: Ipv6Net, uplink: u32) -> bool {
    let stranger = |r: &Route| r.is_way && r.out != Some(uplink) || r.is_sourced;
    if routes.iter().any(stranger) {
        return false;
    }
    let inside = |r: &&Route| prefix.contains(&r.to) && r.to.prefix_len() > prefix.prefix_len();
    if routes.iter().any(|route| inside(&route)) {
        return true;
    }
    let above = || routes.iter().filter(|route| route.to.contains(&prefix));
    let Some(longest) = above().map(|route| route.to.prefix_len()).max() else {
        return false;
    };
    let longest: Vec<&Route> = above().filter(|r| r.to.prefix_len() == longest).collect();
    let metric = longest.iter().map(|route| route.metric).min();
    let mut best = longest.iter().filter(|r| Some(r.metric) == metric);
    match (best.next(), best.next()) {
        (Some(route), None) => !route.plain,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
