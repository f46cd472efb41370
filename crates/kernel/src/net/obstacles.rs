// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Can anything pass? What stands in the way of every packet, in words.

use std::fs;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use netlink_packet_route::route::{RouteMessage, RouteProtocol, RouteType};
use netlink_packet_route::AddressFamily;

use super::lookup::Reply;
use super::route::{destination, exits};
use super::{Link, Net};
use diolkos_service::failure::Failure;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;

/// Packets of one family as the translator sends them, by which the kernel is asked whether it has a way for them.
#[derive(Clone, Debug)]
pub struct Sample {
    from: IpAddr,
    /// Far away; one that passes is enough.
    to: Vec<IpAddr>,
    /// One of them had a way. Where none ever had, there may be none by intention.
    had_way: bool,
}

impl Sample {
    /// Packets from a translated source to any of these.
    pub fn new(from: IpAddr, to: Vec<IpAddr>) -> Sample {
        Sample {
            from,
            to,
            had_way: false,
        }
    }

    /// Whether a route to these destinations may change their way.
    pub fn is_led_by(&self, net: &IpNet) -> bool {
        self.to.iter().any(|to| net.contains(to))
    }
}

impl Net {
    /// What stops packets of a router, if anything does: interfaces that carry nothing, a family without any route but those
    /// through the device `own`, or samples that have lost their way.
    pub async fn obstacles(
        &self,
        links: &[Link],
        own: u32,
        samples: &mut [Sample],
    ) -> Result<Vec<String>, Failure> {
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

    /// What becomes of samples for which there is no way, although there was one, or although somebody wants them discarded
    /// and this host knows no other network than those that it is connected to. A router with routes to everywhere but no
    /// default, and one without any uplink, are as they should be.
    async fn lost_way(
        &self,
        sample: &mut Sample,
        routes: &[RouteMessage],
        own: u32,
    ) -> Result<Option<String>, Failure> {
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

/// Whether it leads to a network that this host is not connected to, and not everywhere.
fn leads_beyond(route: &RouteMessage, own: u32) -> bool {
    route.header.kind == RouteType::Unicast
        && route.header.protocol != RouteProtocol::Kernel
        && route.header.destination_prefix_length > 0
        && destination(route).is_some_and(|to| !is_link_local(to))
        && exits(route).any(|index| index != own)
}

impl Link {
    /// What stops IPv6 on this link, if anything does.
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
            // Or the kernel knows no IPv6 at all.
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
