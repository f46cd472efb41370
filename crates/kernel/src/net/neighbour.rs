// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours: telling the kernel that one is in use, and asking what it knows of one.

use std::net::{IpAddr, Ipv6Addr};

use futures_util::StreamExt;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload, NLM_F_REQUEST};

use super::{in_time, Net};
use diolkos_service::failure::Failure;

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Its link-layer address.
    Known,
    /// Nothing yet.
    Unknown,
    /// It has asked for the neighbour's address and heard nothing.
    Silent,
}

impl Net {
    /// What the kernel knows of the neighbour with this address on a link.
    pub async fn neighbour6(&self, index: u32, address: Ipv6Addr) -> Result<Neighbour, Failure> {
        self.neighbour_state(index, address.into())
            .await
            .map(Neighbour::of)
    }

    /// The kernel does with a neighbour what it does when it sends to it: asks a stale one whether it is still there.
    pub async fn use_neighbour(&self, index: u32, address: IpAddr) -> Result<(), Failure> {
        // An entry that the operator has set needs no confirmation. NTF_USE would take NUD_PERMANENT from it, and the kernel would
        // lose an entry whose neighbour does not answer.
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
            .map_err(|refusal| refusal.to(format_args!("confirm the neighbour {address}")))
    }

    /// None of a neighbour that the kernel does not know.
    async fn neighbour_state(
        &self,
        index: u32,
        address: IpAddr,
    ) -> Result<NeighbourState, Failure> {
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
                    // There is none (ENOENT).
                    NetlinkPayload::Error(_) => return Ok(NeighbourState::None),
                    _ => {}
                }
            }
            Ok(NeighbourState::None)
        };
        in_time(asked)
            .await
            .map_err(|refusal| refusal.to("look up a neighbour").or_transient())
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
