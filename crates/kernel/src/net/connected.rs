// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The networks to which interfaces are connected, and the addresses of others for which the kernel answers there (proxy ARP
//! and proxy NDP).

use std::fs;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};

use super::nexthop::Route;
use super::{Link, Medium, Net};
use crate::error::KernelError;

/// A network whose nodes resolve its addresses by asking neighbours, instead of sending to a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Name of the interface.
    pub interface: String,
    /// The network.
    pub net: IpNet,
}

/// An address for which the kernel answers neighbours on an interface (`ip neighbour add proxy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
}

impl Net {
    /// The connected networks of all interfaces that have neighbours and a carrier, except the interface `own`.
    pub async fn connected(&self, own: u32) -> Result<Vec<Connected>, KernelError> {
        let links = self.links().await?;
        let has_neighbours = |link: &&Link| {
            link.index != own && link.medium == Medium::Ethernet && !link.no_arp && link.running
        };
        let links: Vec<&Link> = links.iter().filter(has_neighbours).collect();
        let addresses = self.all_addresses().await?;
        let networks = addresses.iter().filter_map(|address| {
            let link = links.iter().find(|link| link.index == address.index)?;
            let net = IpNet::new(address.address, address.prefix_len).ok()?;
            // Host addresses and link-local addresses do not span a network that could hold other nodes.
            let is_network = net.prefix_len() < net.max_prefix_len() && address.is_global;
            is_network.then(|| Connected {
                interface: link.name.clone(),
                net: net.trunc(),
            })
        });
        let mut networks: Vec<Connected> = networks.collect();
        networks.dedup();
        Ok(networks)
    }

    /// Returns true if this host's configuration implies that the network routes the address to it: the host has another
    /// address in the same network, or a route that refuses everything for which the host has no other route.
    pub async fn is_held(&self, address: Ipv6Addr) -> Result<bool, KernelError> {
        let all = self.all_addresses().await?;
        let nets = all
            .iter()
            .filter_map(|its| IpNet::new(its.address, its.prefix_len).ok());
        let mut nets = nets.filter(|net| !is_link_local(net));
        if nets.any(|net| net.contains(&IpAddr::V6(address))) {
            return Ok(true);
        }
        let routes = self.routes_to6(address.into(), None).await?;
        let refuses = |route: &Route| !route.is_way && route.to.prefix_len() > 0;
        Ok(routes.iter().any(refuses))
    }

    /// All addresses for which the kernel has been told to answer neighbours.
    pub async fn proxies(&self) -> Result<Vec<Proxy>, KernelError> {
        let ask = |handle: &rtnetlink::Handle| handle.neighbours().get().proxies().execute();
        let all: Vec<NeighbourMessage> = self.list("list the proxied neighbours", ask).await?;
        let links = self.links().await?;
        let proxy = |message: &NeighbourMessage| {
            let of = links
                .iter()
                .find(|link| link.index == message.header.ifindex)?;
            Some(Proxy {
                interface: of.name.clone(),
                address: message.attributes.iter().find_map(destination)?,
            })
        };
        Ok(all.iter().filter_map(proxy).collect())
    }
}

/// Returns true if proxy ARP is on: the kernel answers ARP requests on the interface for all addresses that it routes
/// elsewhere.
pub fn answers_arp(interface: &str) -> bool {
    let is_on = |of: &str, setting: &str| {
        let value = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/{setting}"));
        value.is_ok_and(|text| text.trim() != "0")
    };
    is_on("all", "proxy_arp") || is_on(interface, "proxy_arp")
}

fn is_link_local(net: &IpNet) -> bool {
    matches!(net, IpNet::V6(net) if net.addr().is_unicast_link_local())
}

fn destination(attribute: &NeighbourAttribute) -> Option<IpAddr> {
    match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => {
            Some(IpAddr::V4(*address))
        }
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => {
            Some(IpAddr::V6(*address))
        }
        _ => None,
    }
}
