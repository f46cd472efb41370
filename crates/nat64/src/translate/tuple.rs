// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protocol and ports of a packet (RFC 6146 section 3.4).

use crate::config::Protocol;
use crate::session::Segment;
use diolkos_xlat::translate::payload::{Numbers, PayloadKind};
use diolkos_xlat::verdict::Reason;
use diolkos_xlat::wire::{protocol, FragmentKind};

/// The binding table for a transport; `icmp` is the number of ICMP in the packet's own family.
pub fn protocol_of(number: u8, icmp: u8) -> Result<Protocol, Reason> {
    match number {
        protocol::TCP => Ok(Protocol::Tcp),
        protocol::UDP => Ok(Protocol::Udp),
        number if number == icmp => Ok(Protocol::Icmp),
        _ => Err(Reason::TransportUnknown),
    }
}

/// The ports of a packet with the transport part `bytes`; for ICMP, the identifier in both fields.
/// None for a later fragment, which has no ports.
pub fn numbers_of(
    kind: PayloadKind,
    bytes: &[u8],
    part: FragmentKind,
) -> Result<Option<Numbers>, Reason> {
    if part == FragmentKind::Later {
        return Ok(None);
    }
    let at = match kind {
        PayloadKind::Echo(_) => (4, 4),
        _ => (0, 2),
    };
    let number = |at: usize| {
        let field = bytes.get(at..at + 2).ok_or(Reason::TransportTruncated)?;
        Ok(u16::from_be_bytes([field[0], field[1]]))
    };
    Ok(Some(Numbers {
        src: number(at.0)?,
        dst: number(at.1)?,
    }))
}

/// The effect of a packet on a TCP session.
pub fn segment_of(protocol: Protocol, bytes: &[u8], part: FragmentKind) -> Segment {
    match (protocol, bytes.get(13)) {
        (Protocol::Tcp, Some(&flags)) if part != FragmentKind::Later => Segment::of(flags),
        _ => Segment::Other,
    }
}

/// The port of the peer; 0 for ICMP queries, which have none.
pub fn peer_port(protocol: Protocol, port: u16) -> u16 {
    match protocol {
        Protocol::Icmp => 0,
        Protocol::Tcp | Protocol::Udp => port,
    }
}
