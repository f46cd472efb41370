// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Can anything pass? What stands in the way of every packet, in words.

use std::fs;

use ipnet::{IpNet, Ipv4Net};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::AddressFamily;

use super::route::{destination, exits};
use super::{Link, Net};
use crate::failure::Failure;

/// RFC 8200 section 5, bytes.
const IPV6_MINIMUM_MTU: u32 = 1280;

impl Net {
    /// What stops packets of a router, if anything does: interfaces that carry nothing, or a family without any route but
    /// those through the device `own`.
    pub async fn obstacles(&self, links: &[Link], own: u32) -> Result<Vec<String>, Failure> {
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
            }
        }
        Ok(obstacles)
    }
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
