// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects tunnel loops: packets that leave by a link come back to this host's own TUN device, because a tunnel wraps them into
//! IPv4 packets whose route leads there.
//!
//! link ─► the links below it (by the route to its tunnel's remote end, its lower link, the ports of a bridge) ─► … ─► the
//! device?
//!
//! The kernel tells the remote ends of VXLAN, GENEVE, 6in4, IPIP and GRE tunnels. It does not know those of WireGuard and of
//! programs.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use futures_util::TryStreamExt;
use netlink_packet_route::route::RouteMessage;
use rtnetlink::RouteMessageBuilder;

use super::outer::Outer;
use super::route::exits;
use super::{in_time, Link, LinkKind, Net};
use crate::error::KernelError;

/// The greatest number of links that carry each other. The kernel itself allows fewer.
const DEEPEST: usize = 32;

impl Net {
    /// The reason, in words, why packets that leave by `uplink` would come back to the device `tun`; `None` if they do not.
    pub async fn comes_back(&self, uplink: &Link, tun: u32) -> Result<Option<String>, KernelError> {
        if !uplink.is_virtual {
            return Ok(None);
        }
        let links = self.links().await?;
        let mut seen = BTreeSet::from([uplink.index]);
        let mut next = vec![uplink.index];
        while let (Some(index), true) = (next.pop(), seen.len() <= DEEPEST) {
            let Some(link) = links.iter().find(|link| link.index == index) else {
                continue;
            };
            let mut below: Vec<u32> = links
                .iter()
                .filter_map(|port| port.is_port_of(link))
                .collect();
            below.extend(link.lower.filter(|_| link.is_upon()));
            if let Some(outer) = link.outer {
                let exit = self.exit4(outer).await?;
                if exit == Some(tun) {
                    return Ok(Some(format!(
                        "the tunnel {} sends its own packets, to {}, through this CLAT, which would send them into the tunnel \
                         again: give {} a route that does not lead here",
                        link.name, outer.to, outer.to
                    )));
                }
                below.extend(exit);
            }
            next.extend(below.into_iter().filter(|index| seen.insert(*index)));
        }
        Ok(None)
    }

    /// The interface by which a tunnel's own packets leave. `None`: the kernel has no route for them.
    async fn exit4(&self, outer: Outer) -> Result<Option<u32>, KernelError> {
        let mut asked = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(outer.to, 32);
        if let Some(from) = outer.from {
            asked = asked.source_prefix(from, 32);
        }
        if let Some(exit) = outer.exit {
            asked = asked.output_interface(exit);
        }
        if let Some(mark) = outer.mark {
            asked = asked.mark(mark);
        }
        let request = self.handle.route().get(asked.build()).execute();
        let found: Vec<RouteMessage> = match in_time(request.try_collect()).await {
            Ok(found) => found,
            // A socket that sends the tunnel's packets would get the same error.
            Err(refusal) if refusal.errno().is_some() => return Ok(None),
            Err(refusal) => return Err(refusal.read("look up the route")),
        };
        Ok(found.first().and_then(|route| exits(route).next()))
    }
}

impl Link {
    fn is_port_of(&self, link: &Link) -> Option<u32> {
        let is_port = self.master == Some(link.index) && link.kind != LinkKind::Vrf;
        is_port.then_some(self.index)
    }

    fn is_upon(&self) -> bool {
        matches!(self.kind, LinkKind::Vlan | LinkKind::Upon)
    }
}
