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
use crate::failure::Failure;

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
        let mut question = NeighbourMessage::default();
        question.header.family = AddressFamily::Inet6;
        question.header.ifindex = index;
        let destination = NeighbourAttribute::Destination(NeighbourAddress::Inet6(address));
        question.attributes.push(destination);
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetNeighbour(question));
        request.header.flags = NLM_F_REQUEST;
        let mut handle = self.handle.clone();
        let asked = async {
            let mut answers = handle.request(request)?;
            while let Some(answer) = answers.next().await {
                match answer.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(found)) => {
                        return Ok(Neighbour::of(found.header.state));
                    }
                    // There is none (ENOENT).
                    NetlinkPayload::Error(_) => return Ok(Neighbour::Unknown),
                    _ => {}
                }
            }
            Ok(Neighbour::Unknown)
        };
        in_time(asked)
            .await
            .map_err(|refusal| refusal.to("look up a neighbour").or_transient())
    }

    /// The kernel does with a neighbour what it does when it sends to it: asks a stale one whether it is still there.
    pub async fn use_neighbour(&self, index: u32, address: IpAddr) -> Result<(), Failure> {
        let request = self.handle.neighbours().add(index, address);
        let request = request
            .flags(NeighbourFlags::Use)
            .state(NeighbourState::None)
            .replace();
        in_time(request.execute())
            .await
            .map_err(|refusal| refusal.to(format_args!("confirm the neighbour {address}")))
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
