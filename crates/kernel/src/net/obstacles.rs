// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds obstacles that stop every packet, and describes them in words.

use std::fs;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use netlink_packet_route::route::{RouteMessage, RouteProtocol, RouteType};
use netlink_packet_route::AddressFamily;

use super::lookup::Reply;
use super::route::{destination, exits};
use super::{Link, Net};
use crate::error::KernelError;

/// Minimum IPv6 MTU (RFC 8200 section 5), bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;

/// Sample packets of one family, as the translator sends them, for which the kernel is asked for a route.
#[derive(Clone, Debug)]
pub struct Sample {
    from: IpAddr,
    /// Distant destinations; a route to one of them is enough.
    to: Vec<IpAddr>,
    /// One of them had a route before. If none ever had one, that may be intended.
    had_way: bool,
}

impl Sample {
    /// Packets from a translated source to any of these destinations.
    pub fn new(from: IpAddr, to: Vec<IpAddr>) -> Sample {
        Sample {
            from,
            to,
            had_way: false,
        }
    }

    /// Returns true if a route to `net` may change the route of a sample.
    pub fn is_led_by(&self, net: &IpNet) -> bool {
        self.to.iter().any(|to| net.contains(to))
    }
}

impl Net {
    /// Describes the obstacles for a router's packets: interfaces without a carrier, a family whose only routes lead through
    /// the device `own`, or samples that have lost their route.
    pub async fn obstacles(
        &self,
        links: &[Link],
        own: u32,
        samples: &mut [Sample],
    ) -> Result<Vec<String>, KernelError> {
        let mut obstacles: Vec<String> = links.iter().filter_map(Link::obstacle6).collect();
        for (family, name) in [
            (AddressFamily::Inet, "IPv4"),
            (AddressFamily::Inet6, "IPv6"),
        ] {
            let routes = self.list_routes(family, None).await?;
            let elsewhere = routes.iter().any(|message| {
                message.header.kind == RouteType::Unicast
                    && destination(message).is_some_and(|to| !is_link_local(to))
                    && exits(message).any(|index| index != own)
            });
            if !elsewhere {
                obstacles.push(format!("no {name} route except those to the translator"));
                continue;
            }
            let is_of = |its: &&mut Sample| its.from.is_ipv4() == (name == "IPv4");
            if let Some(sample) = samples.iter_mut().find(is_of) {
                let lost = self.lost_way(sample, &routes, own).await?;
                obstacles.extend(lost.map(|what| format!("{name} packets {what}")));
            }
        }
        Ok(obstacles)
    }

    /// Describes the loss of a sample's route: the sample had a route before; or a route or rule discards it, and this host has
    /// no routes beyond its connected networks. A router that has specific routes but no default route, and one without any
    /// uplink, are no fault.
    async fn lost_way(
        &self,
        sample: &mut Sample,
        routes: &[RouteMessage],
        own: u32,
    ) -> Result<Option<String>, KernelError> {
        let (mut refused, mut unled) = (None, None);
        for to in &sample.to {
            match self.ask_forwarded(sample.from, *to, own).await? {
                Some(Reply::Through(index, _)) if index != own => {
                    sample.had_way = true;
                    return Ok(None);
                }
                Some(Reply::Refused(kind)) => refused = refused.or(Some((kind, to))),
                Some(Reply::Nowhere) => unled = unled.or(Some(to)),
                _ => {}
            }
        }
        let knows_others = || routes.iter().any(|route| leads_beyond(route, own));
        Ok(match (refused, unled) {
            (Some((kind, to)), _) if sample.had_way || !knows_others() => Some(format!(
                "to other networks, such as to {to}, are discarded by a route or rule ({kind})"
            )),
            (None, Some(to)) if sample.had_way => Some(format!(
                "to other networks, such as to {to}, have no route any more"
            )),
            _ => None,
        })
    }
}

/// Returns true if the route leads to a network that this host is not connected to, and is no default route.
fn leads_beyond(route: &RouteMessage, own: u32) -> bool {
    route.header.kind == RouteType::Unicast
        && route.header.protocol != RouteProtocol::Kernel
        && route.header.destination_prefix_length > 0
        && destination(route).is_some_and(|to| !is_link_local(to))
        && exits(route).any(|index| index != own)
}

impl Link {
    /// Describes the obstacle for IPv6 on this link, if there is one.
    pub fn obstacle6(&self) -> Option<String> {
        let name = &self.name;
        if !self.is_up {
            return Some(format!("{name} is down"));
        }
        if !self.running {
            return Some(format!("{name} has no carrier"));
        }
        if self.mtu < IPV6_MINIMUM_MTU {
            return Some(format!(
                "the MTU of {name} is {} bytes, and IPv6 needs {IPV6_MINIMUM_MTU}",
                self.mtu
            ));
        }
        match fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6")) {
            Ok(value) if value.trim() == "0" => None,
            // IPv6 is disabled, or the kernel has no IPv6 at all.
            Ok(_) | Err(_) => Some(format!("IPv6 is disabled on {name}")),
        }
    }
}

fn is_link_local(net: IpNet) -> bool {
    const LOCAL4: Ipv4Net = Ipv4Net::new_assert(std::net::Ipv4Addr::new(127, 0, 0, 0), 8);
    match net {
        IpNet::V4(net) => LOCAL4.contains(&net),
        // fe80::/10, ff00::/8
        IpNet::V6(net) => net.addr().is_unicast_link_local() || net.addr().is_multicast(),
    }
}
