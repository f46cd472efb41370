// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours: telling the kernel that one is in use.

use std::net::IpAddr;

use netlink_packet_route::neighbour::{NeighbourFlags, NeighbourState};

use super::{in_time, Net};
use crate::failure::Failure;

impl Net {
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
