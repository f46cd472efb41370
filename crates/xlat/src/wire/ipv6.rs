// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IPv6 header (RFC 8200 section 3).

use crate::verdict::Reason;
use std::net::Ipv6Addr;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length in bytes of an IPv6 header.
pub const IPV6_LEN: usize = 40;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct View {
    version_class_flow: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

/// The fields of an IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6 {
    /// DSCP and ECN, all 8 bits.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// Length in bytes of everything after this header, extension headers included.
    pub payload_len: usize,
    /// The protocol after this header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source.
    pub src: Ipv6Addr,
    /// Destination.
    pub dst: Ipv6Addr,
}

impl Ipv6 {
    /// Reads the header at the front of `bytes`, which may hold only the beginning of the packet,
    /// as inside an ICMP error.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Ipv6, Reason> {
        let (view, _) = View::ref_from_prefix(bytes).map_err(|_| Reason::Truncated)?;
        let version_class_flow = view.version_class_flow.get();
        if version_class_flow >> 28 != 6 {
            return Err(Reason::NotIp);
        }
        Ok(Ipv6 {
            traffic_class: (version_class_flow >> 20) as u8,
            flow_label: version_class_flow & 0x000f_ffff,
            payload_len: usize::from(view.payload_len.get()),
            next_header: view.next_header,
            hop_limit: view.hop_limit,
            src: view.src.into(),
            dst: view.dst.into(),
        })
    }

    /// Reads the header of a whole packet: the whole payload must be present.
    #[inline]
    pub fn parse_packet(bytes: &[u8]) -> Result<Ipv6, Reason> {
        let header = Ipv6::parse(bytes)?;
        if IPV6_LEN + header.payload_len > bytes.len() {
            return Err(Reason::Truncated);
        }
        Ok(header)
    }

    /// Writes the header to the first 40 bytes.
    ///
    /// # Panics
    /// Panics if `bytes` has fewer than 40 bytes.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let view = View {
            version_class_flow: U32::new(
                6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label,
            ),
            payload_len: U16::new(self.payload_len as u16),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        bytes[..IPV6_LEN].copy_from_slice(view.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_and_emit_are_inverses() {
        let header = Ipv6 {
            traffic_class: 0xb8, // expedited forwarding: its top bit must survive
            flow_label: 0xa_bcde,
            payload_len: 8,
            next_header: 17,
            hop_limit: 63,
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
        };
        let mut bytes = [0; 48];
        header.emit(&mut bytes);
        assert_eq!(bytes[..8], [0x6b, 0x8a, 0xbc, 0xde, 0, 8, 17, 63]);
        assert_eq!(Ipv6::parse_packet(&bytes), Ok(header));
        assert_eq!(Ipv6::parse_packet(&bytes[..47]), Err(Reason::Truncated));
        assert_eq!(Ipv6::parse_packet(&bytes[..39]), Err(Reason::Truncated));
        bytes[0] = 0x4b;
        assert_eq!(Ipv6::parse_packet(&bytes), Err(Reason::NotIp));
    }
}
