// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what leaves by a link comes back to this host's own TUN device, because a tunnel wraps it into IPv4 packets that
//! routes lead there.
//!
//! link ─► what carries it (its tunnel's remote end by route, the link below it, the ports of a bridge) ─► … ─► the device?
//!
//! The kernel tells the remote ends of VXLAN, GENEVE, 6in4, IPIP and GRE. Those of WireGuard and of programs it does not.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use futures_util::TryStreamExt;
use netlink_packet_route::link::{
    InfoData, InfoGeneve, InfoGre, InfoIpTunnel, InfoKind, InfoVxlan, LinkInfo,
};
use netlink_packet_route::route::RouteMessage;
use rtnetlink::RouteMessageBuilder;

use super::route::exits;
use super::{in_time, Link, LinkKind, Net};
use crate::failure::Failure;

/// Of links that carry each other. The kernel itself allows fewer.
const DEEPEST: usize = 32;

/// The packets into which a tunnel wraps others, where they are IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    to: Ipv4Addr,
    from: Option<Ipv4Addr>,
    /// The interface to which the tunnel is bound.
    exit: Option<u32>,
    mark: Option<u32>,
}

impl Outer {
    /// Those of a link with these properties.
    pub(super) fn of(infos: &[LinkInfo]) -> Option<Outer> {
        let data = infos.iter().find_map(|info| match info {
            LinkInfo::Data(data) => Some(data),
            _ => None,
        })?;
        let mut outer = Outer {
            to: Ipv4Addr::UNSPECIFIED,
            from: None,
            exit: None,
            mark: None,
        };
        match data {
            InfoData::Vxlan(all) => all.iter().for_each(|of| match of {
                InfoVxlan::Group(to) => outer.to = *to,
                InfoVxlan::Local(from) => outer.from = Some(*from),
                InfoVxlan::Link(exit) => outer.exit = Some(*exit),
                _ => {}
            }),
            InfoData::Geneve(all) => all.iter().for_each(|of| match of {
                InfoGeneve::Remote(to) => outer.to = *to,
                InfoGeneve::Local(from) => outer.from = Some(*from),
                _ => {}
            }),
            InfoData::GreTun(all) | InfoData::GreTap(all) => all.iter().for_each(|of| match of {
                InfoGre::Remote(to) => outer.to = *to,
                InfoGre::Local(from) => outer.from = Some(*from),
                InfoGre::Link(exit) => outer.exit = Some(*exit),
                InfoGre::FwMask(mark) => outer.mark = Some(*mark),
                _ => {}
            }),
            InfoData::IpTunnel(all) => all.iter().for_each(|of| match of {
                InfoIpTunnel::Remote(IpAddr::V4(to)) => outer.to = *to,
                InfoIpTunnel::Local(IpAddr::V4(from)) => outer.from = Some(*from),
                InfoIpTunnel::Link(exit) => outer.exit = Some(*exit),
                InfoIpTunnel::FwMark(mark) => outer.mark = Some(*mark),
                _ => {}
            }),
            _ => return None,
        }
        outer.exit = outer.exit.filter(|exit| *exit != 0);
        outer.from = outer.from.filter(|from| !from.is_unspecified());
        (!outer.to.is_unspecified()).then_some(outer)
    }
}

/// Whether a link of this kind hands what it sends to the one below it. The peer of a virtual Ethernet is told in the same
/// place, and is none.
pub(super) fn is_upon(kind: &InfoKind) -> bool {
    matches!(kind, InfoKind::MacVlan | InfoKind::IpVlan)
}

impl Net {
    /// Why what leaves by `uplink` would come back to the device `tun`, in words.
    pub async fn comes_back(&self, uplink: &Link, tun: u32) -> Result<Option<String>, Failure> {
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

    /// The interface by which a tunnel's packets leave, if any does.
    async fn exit4(&self, outer: Outer) -> Result<Option<u32>, Failure> {
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
            // As a socket would be refused.
            Err(refusal) if refusal.errno().is_some() => return Ok(None),
            Err(refusal) => return Err(refusal.to("look up the route").or_transient()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remote_end_is_told_by_each_kind() {
        let to = Ipv4Addr::new(198, 51, 100, 1);
        let all = [
            InfoData::Vxlan(vec![InfoVxlan::Group(to), InfoVxlan::Link(0)]),
            InfoData::Geneve(vec![InfoGeneve::Remote(to)]),
            InfoData::GreTap(vec![
                InfoGre::Remote(to),
                InfoGre::Local(Ipv4Addr::UNSPECIFIED),
            ]),
            InfoData::IpTunnel(vec![InfoIpTunnel::Remote(to.into())]),
        ];
        for data in all {
            let outer = Outer::of(&[LinkInfo::Data(data)]).expect("a remote end");
            assert_eq!((outer.to, outer.from, outer.exit), (to, None, None));
        }
        let none = InfoData::IpTunnel(vec![InfoIpTunnel::Remote(Ipv4Addr::UNSPECIFIED.into())]);
        assert_eq!(Outer::of(&[LinkInfo::Data(none)]), None);
        assert_eq!(Outer::of(&[LinkInfo::Kind(InfoKind::Veth)]), None);
    }
}
