// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet for both paths: the direction in which it is given to them, its bytes, and its metadata
//! from the device.

use diolkos_xlat::{Gso, GsoKind, Offload};

/// The direction of the packet, which selects the programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From IPv4 to IPv6, at the TUN device.
    FourToSix,
    /// From IPv6 to IPv4, at the uplink of a CLAT and the TUN device of a SIIT.
    SixToFour,
}

/// A packet with its metadata from the device.
#[derive(Clone, Debug)]
pub struct Input {
    pub way: Way,
    pub bytes: Vec<u8>,
    /// Bytes of transport payload of one segment, if the packet stands for several.
    pub gso_size: Option<u16>,
}

impl Input {
    /// Returns the offload that tells the slow path what `gso_size` tells a program.
    pub fn offload(&self) -> Offload {
        let protocol = self.bytes.get(match self.way {
            Way::FourToSix => 9,
            Way::SixToFour => 6,
        });
        let kind = match protocol {
            Some(17) => GsoKind::Udp,
            _ => GsoKind::Tcp,
        };
        Offload {
            gso: self.gso_size.map(|size| Gso { kind, size }),
            ..Offload::default()
        }
    }
}
