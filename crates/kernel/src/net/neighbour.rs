// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours: tells the kernel that one is in use, and reads the state of one.

use std::net::{IpAddr, Ipv6Addr};

use futures_util::StreamExt;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_REQUEST};

use super::{in_time, Net};
use crate::error::KernelError;

/// The kernel's knowledge of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Its link-layer address is known.
    Known,
    /// The kernel has not asked for it yet.
    Unknown,
    /// The kernel has asked for the neighbour's link-layer address and got no answer.
    Silent,
}

impl Net {
    /// The kernel's knowledge of the neighbour with this address on a link.
    pub async fn neighbour6(
        &self,
        index: u32,
        address: Ipv6Addr,
    ) -> Result<Neighbour, KernelError> {
        self.neighbour_state(index, address.into())
            .await
            .map(Neighbour::of)
    }

    /// Makes the kernel treat a neighbour as if it sent a packet to it: it probes a stale one.
    pub async fn use_neighbour(&self, index: u32, address: IpAddr) -> Result<(), KernelError> {
        // A permanent entry of the operator needs no confirmation. NTF_USE would clear NUD_PERMANENT, and the kernel would then
        // lose the entry if the neighbour did not answer.
        if let NeighbourState::Permanent | NeighbourState::Noarp =
            self.neighbour_state(index, address).await?
        {
            return Ok(());
        }
        let request = self.handle.neighbours().add(index, address);
        let request = request
            .flags(NeighbourFlags::Use)
            .state(NeighbourState::None)
            .replace();
        in_time(request.execute())
            .await
            .map_err(|refusal| refusal.change(format_args!("confirm the neighbour {address}")))
    }

    /// The state of a neighbour entry; `NeighbourState::None` if the kernel has none.
    async fn neighbour_state(
        &self,
        index: u32,
        address: IpAddr,
    ) -> Result<NeighbourState, KernelError> {
        let mut question = NeighbourMessage::default();
        let (family, destination) = match address {
            IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
            IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
        };
        question.header.family = family;
        question.header.ifindex = index;
        let destination = NeighbourAttribute::Destination(destination);
        question.attributes.push(destination);
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetNeighbour(question));
        request.header.flags = NLM_F_REQUEST;
        let mut handle = self.handle.clone();
        let asked = async {
            let mut answers = handle.request(request)?;
            while let Some(answer) = answers.next().await {
                match answer.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(found)) => {
                        return Ok(found.header.state);
                    }
                    // The kernel has no such entry (ENOENT).
                    NetlinkPayload::Error(_) => return Ok(NeighbourState::None),
                    _ => {}
                }
            }
            Ok(NeighbourState::None)
        };
        in_time(asked)
            .await
            .map_err(|refusal| refusal.read("look up a neighbour"))
    }
}

impl Neighbour {
    fn of(state: NeighbourState) -> Neighbour {
        match state {
            NeighbourState::Failed => Neighbour::Silent,
            NeighbourState::Incomplete | NeighbourState::None => Neighbour::Unknown,
            // Reachable, stale, permanent, or on a link without link-layer addresses.
            _ => Neighbour::Known,
        }
    }
}
