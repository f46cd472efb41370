// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the next hop of a CLAT's packets on its uplink, by asking the kernel for the route of such a packet.
//!
//! The first question describes the packet itself: its source, a destination in the prefix, the uplink as its exit. If a route
//! or rule refuses it, the answer is final. If the answer leads through another link (for example a VPN that carries the host's
//! own traffic), more questions follow, strictly for the uplink and with the host's own addresses there as sources (for `from
//! HOST` rules and routes). The first answer through the uplink names the next hop.
//!
//! The route lists serve one purpose only: to decide whether one next hop can stand for the whole prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diolkos_xlat::addr::rfc6052::Pref64;
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
use crate::error::KernelError;

const TABLE_MAIN: u8 = RouteHeader::RT_TABLE_MAIN;

/// The most addresses of the host on the uplink that serve as sources of questions.
const MOST_NAMES: usize = 8;

/// The IPv4 address in the destination of the questions. No node has it; RFC 7050 section 8.1 assigns it to NAT64 discovery.
const SAMPLE: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 170);

/// The packets for which the kernel is asked.
#[derive(Clone, Copy, Debug)]
pub struct Errand<'a> {
    /// The interface by which the packets are to leave.
    pub uplink: &'a Link,
    /// The CLAT's address.
    pub from: Ipv6Addr,
    /// The translation prefix.
    pub to: Ipv6Net,
    /// Index of the TUN device, if the kernel forwards its packets. `None`: the program sends them out of the uplink itself.
    pub forwarded_from: Option<u32>,
}

/// The route of packets through the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The router on the uplink. `None`: destinations are neighbours on the link.
    pub router: Option<Ipv6Addr>,
    /// True if the kernel would choose this route by itself. False if the routes for the host's own traffic lead elsewhere.
    pub is_own: bool,
}

impl Errand<'_> {
    /// A destination in the prefix.
    fn sample(&self) -> Ipv6Addr {
        Pref64::new(self.to).embed(SAMPLE)
    }

    /// The question for the packet itself. Where the kernel forwards it, the answer would be the program's own exit route, so
    /// the source is the address beside the CLAT's, to which the same rules and routes apply.
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
    /// The route through the uplink, or the reason, in words, why there is none.
    pub async fn way(&self, errand: &Errand<'_>) -> Result<Result<Way, String>, KernelError> {
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

    /// The host's own addresses on the uplink; the address from whose prefix the CLAT's address is made comes first.
    async fn names(&self, errand: &Errand<'_>) -> Result<Vec<Ipv6Addr>, KernelError> {
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

    /// Describes a routing fault for packets that the kernel forwards: they would leave by another interface, or their replies
    /// would not reach the device. The translator must not send while this lasts: a packet could come back and be translated
    /// again, without end.
    pub async fn strays(&self, errand: &Errand<'_>) -> Result<Option<String>, KernelError> {
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
        // A device that is down holds no routes; that is reported elsewhere.
        let device = self.link_at(tun).await?;
        Ok(device.filter(|device| device.is_up).map(|_| {
            format!(
                "packets for {} that arrive on {name} would go {}: see `ip -6 rule`",
                errand.from,
                other.in_words()
            )
        }))
    }

    /// Returns true if packets to one part of the prefix may take another route than those to the rest, while all these routes
    /// lead through the uplink. Then the kernel may choose the route for each packet.
    pub async fn way_varies(&self, errand: &Errand<'_>) -> Result<bool, KernelError> {
        let (prefix, uplink) = (errand.to, errand.uplink.index);
        if self.has_rules6().await? {
            return Ok(false);
        }
        let routes = self.routes_to6(prefix, Some(TABLE_MAIN)).await?;
        Ok(varies(&routes, prefix, uplink))
    }

    /// Returns true if the address is on the link `uplink`: neighbours are asked for it, because no router is the next hop.
    pub async fn is_on_link(&self, address: Ipv6Addr, uplink: u32) -> Result<bool, KernelError> {
        Ok(is_on_link(
            &self.routes_to6(address.into(), None).await?,
            uplink,
        ))
    }

    /// Returns true if there are IPv6 policy rules besides the default rules of a network namespace.
    pub(super) async fn has_rules6(&self) -> Result<bool, KernelError> {
        let ask = |handle: &rtnetlink::Handle| handle.rule().get(IpVersion::V6).execute();
        let rules: Vec<RuleMessage> = self.list("list the policy rules", ask).await?;
        Ok(!rules.iter().all(is_default))
    }

    /// The IPv6 routes that cover the prefix or a part of it, of one table or of all tables but `local`.
    pub(super) async fn routes_to6(
        &self,
        prefix: Ipv6Net,
        table: Option<u8>,
    ) -> Result<Vec<Route>, KernelError> {
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

/// The properties of a route that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub to: Ipv6Net,
    metric: u32,
    /// The interface that it leads through, if it is only one.
    pub out: Option<u32>,
    router: Option<Ipv6Addr>,
    /// It has one path, to a router or a link, and no tunnel.
    plain: bool,
    /// It applies to certain sources only.
    is_sourced: bool,
    /// Packets that take it are sent on, not discarded.
    pub is_way: bool,
}

/// The reason why packets cannot pass.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Obstacle {
    text: String,
    /// Further questions cannot change it.
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

/// The first reply that leads through the uplink.
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

/// Decides from the replies; the first reply is the one for the packet itself.
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

/// Returns true if, of these routes to one address, the longest one through the uplink names no router.
fn is_on_link(routes: &[Route], uplink: u32) -> bool {
    let through = routes.iter().filter(|r| r.out == Some(uplink) && r.is_way);
    let longest = through.max_by_key(|route| route.to.prefix_len());
    longest.is_some_and(|route| route.router.is_none())
}

/// Returns true for the default rules of a network namespace: every lookup goes to `local`, then to `main`.
pub(super) fn is_default(rule: &RuleMessage) -> bool {
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

/// Reads a route; one with several paths gives one entry for each.
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

/// As [`Net::way_varies`], for the routes that cover the prefix or parts of it.
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
