// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outer header of a tunnel, as the kernel describes it in the properties of the link.

use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_route::link::{
    InfoData, InfoGeneve, InfoGre, InfoIpTunnel, InfoKind, InfoVxlan, LinkInfo,
};

/// The outer IPv4 packets of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    pub(super) to: Ipv4Addr,
    pub(super) from: Option<Ipv4Addr>,
    /// The interface to which the tunnel is bound.
    pub(super) exit: Option<u32>,
    pub(super) mark: Option<u32>,
}

impl Outer {
    /// Reads the outer header from the properties of a link. `None` if the link is no tunnel over IPv4.
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

/// Returns true if a link of this kind sends its packets through a lower link. The kernel reports the peer of a virtual
/// Ethernet in the same attribute, but the peer is no lower link.
pub(super) fn is_upon(kind: &InfoKind) -> bool {
    matches!(kind, InfoKind::MacVlan | InfoKind::IpVlan)
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
