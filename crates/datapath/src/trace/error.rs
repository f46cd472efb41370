// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses an outgoing ICMP error: its MTU, and the packet that it quotes.

use diolkos_xlat::wire::icmp::{v4, v6, Class, ICMP_LEN};
use diolkos_xlat::wire::{protocol, Ipv4, Ipv6, IPV6_LEN};

use crate::packet_summary::PacketSummary;

/// Code of an unreachable destination of IPv4: fragmentation needed and DF set (RFC 792).
const FRAGMENTATION_NEEDED: u8 = 4;

/// The content of an error.
pub struct Said {
    /// The MTU in bytes, if it is about size.
    pub mtu: Option<u32>,
    /// The packet that it quotes, as far as it does.
    pub quoted: PacketSummary,
}

/// Parses an error; None unless it is a complete ICMP error. Translators write them without options
/// and extension headers.
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
        quoted: PacketSummary::of(without_extensions(quote)),
    })
}

/// Removes what follows the quoted packet: padding and extensions (RFC 4884).
fn without_extensions(quote: &[u8]) -> &[u8] {
    let len = match (Ipv4::parse(quote), Ipv6::parse(quote)) {
        (Ok(ip), _) => ip.total_len,
        (_, Ok(ip)) => IPV6_LEN + ip.payload_len,
        _ => quote.len(),
    };
    &quote[..len.min(quote.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 4884 section 4: a quoted packet of 28 bytes, padded to 128, and an extension of 4 bytes.
    #[test]
    fn padding_and_extensions_are_not_part_of_the_quoted_packet() {
        let mut quote = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        quote.extend([192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 0, 53, 0, 8, 1, 1]);
        quote.resize(128, 0);
        quote.extend([0x20, 0, 0, 0]);
        let mut packet = vec![0x45, 0, 0, 160, 0, 0, 0, 0, 64, 1, 0, 0];
        packet.extend([192, 0, 2, 9, 192, 0, 2, 1]);
        packet.extend([3, 4, 0, 0, 0, 32, 0x05, 0x78]);
        packet.extend(quote);
        let said = said(&packet).expect("it is an error");
        assert_eq!(said.mtu, Some(1400));
        let quoted = json!(said.quoted);
        assert_eq!(
            (&quoted["length"], &quoted["dst_port"]),
            (&json!(28), &json!(53))
        );
    }
}
