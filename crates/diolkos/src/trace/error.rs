// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an ICMP error says that leaves: its MTU, and the packet in it.

use diolkos_core::wire::icmp::{v4, v6, Class, ICMP_LEN};
use diolkos_core::wire::{protocol, Ipv4, Ipv6, IPV6_LEN};

use crate::packet_summary::PacketSummary;

/// Code of an unreachable destination of IPv4: fragmentation needed and DF set (RFC 792).
const FRAGMENTATION_NEEDED: u8 = 4;

/// What an error says.
pub struct Said {
    /// Bytes, if it is about size.
    pub mtu: Option<u32>,
    /// The packet that it quotes, as far as it does.
    pub quoted: PacketSummary,
}

/// None of what is no whole ICMP error. Translators write them without options and extension headers.
pub fn said(packet: &[u8]) -> Option<Said> {
    let (message, is_v4) = if let Ok(ip) = Ipv4::parse(packet) {
        let is_icmp = ip.protocol == protocol::ICMPV4 && !ip.is_fragment();
        (packet.get(ip.header_len..).filter(|_| is_icmp)?, true)
    } else {
        let ip = Ipv6::parse(packet).ok()?;
        let is_icmp = ip.next_header == protocol::ICMPV6;
        (packet.get(IPV6_LEN..).filter(|_| is_icmp)?, false)
    };
    let (&[icmp_type, code, _, _, a, b, c, d], quote) = message.split_first_chunk::<ICMP_LEN>()?;
    let class = match is_v4 {
        true => v4::class_of(icmp_type),
        false => v6::class_of(icmp_type),
    };
    let mtu = match (is_v4, icmp_type, code) {
        (true, v4::UNREACHABLE, FRAGMENTATION_NEEDED) => Some(u32::from_be_bytes([0, 0, c, d])),
        (false, v6::PACKET_TOO_BIG, _) => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    };
    (class == Class::Error).then(|| Said {
        mtu,
        quoted: PacketSummary::of(quote),
    })
}
