// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IPv4 header and its options (RFC 791 section 3.1).

use crate::csum::{self, Sum};
use crate::verdict::Reason;
use std::net::Ipv4Addr;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length in bytes of an IPv4 header without options. The translator never writes options.
pub const IPV4_LEN: usize = 20;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct View {
    version_and_header_words: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    flags_and_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    src: [u8; 4],
    dst: [u8; 4],
}

impl View {
    /// Sums a header without options field by field, which is faster than byte by byte.
    #[inline]
    fn sum(&self) -> Sum {
        Sum::default()
            .word(u16::from_be_bytes([
                self.version_and_header_words,
                self.tos,
            ]))
            .word(self.total_len.get())
            .word(self.id.get())
            .word(self.flags_and_offset.get())
            .word(u16::from_be_bytes([self.ttl, self.protocol]))
            .word(self.checksum.get())
            .ipv4(self.src.into())
            .ipv4(self.dst.into())
    }
}

/// The fields of an IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4 {
    /// Type of service: DSCP and ECN, all 8 bits.
    pub tos: u8,
    /// Length in bytes of the header, options included: 20 to 60.
    pub header_len: usize,
    /// Length in bytes of header and payload.
    pub total_len: usize,
    /// Identification, equal in all fragments of a datagram.
    pub id: u16,
    /// DF: the packet must not be fragmented.
    pub dont_fragment: bool,
    /// MF: more fragments follow.
    pub more_fragments: bool,
    /// Fragment offset in units of 8 bytes.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: u8,
    /// Source.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
}

impl Ipv4 {
    /// Reads the header at the front of `bytes`, which may hold only the beginning of the packet,
    /// as inside an ICMP error. Total length and header checksum are checked against the header
    /// only.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Ipv4, Reason> {
        let (view, _) = View::ref_from_prefix(bytes).map_err(|_| Reason::Truncated)?;
        if view.version_and_header_words >> 4 != 4 {
            return Err(Reason::NotIp);
        }
        let header_len = usize::from(view.version_and_header_words & 0x0f) * 4;
        let total_len = usize::from(view.total_len.get());
        if header_len < IPV4_LEN || header_len > total_len {
            return Err(Reason::Ipv4HeaderLength);
        }
        if header_len > bytes.len() {
            return Err(Reason::Truncated);
        }
        let flags_and_offset = view.flags_and_offset.get();
        Ok(Ipv4 {
            tos: view.tos,
            header_len,
            total_len,
            id: view.id.get(),
            dont_fragment: flags_and_offset & DONT_FRAGMENT != 0,
            more_fragments: flags_and_offset & MORE_FRAGMENTS != 0,
            fragment_offset: flags_and_offset & FRAGMENT_OFFSET,
            ttl: view.ttl,
            protocol: view.protocol,
            src: view.src.into(),
            dst: view.dst.into(),
        })
    }

    /// Reads the header of a whole packet: all `total_len` bytes must be present, and the header
    /// checksum must be right (RFC 1812 section 5.2.2).
    #[inline]
    pub fn parse_packet(bytes: &[u8]) -> Result<Ipv4, Reason> {
        let header = Ipv4::parse(bytes)?;
        if header.total_len > bytes.len() {
            return Err(Reason::Truncated);
        }
        let (view, rest) = View::ref_from_prefix(bytes).map_err(|_| Reason::Truncated)?;
        let options = match header.header_len {
            IPV4_LEN => Sum::default(),
            header_len => csum::sum(&rest[..header_len - IPV4_LEN]),
        };
        if view.sum().plus(options).fold() != 0xffff {
            return Err(Reason::Ipv4HeaderChecksum);
        }
        Ok(header)
    }

    /// Writes the header, without options and with its checksum, to the first 20 bytes.
    ///
    /// # Panics
    /// Panics if `bytes` has fewer than 20 bytes. `header_len` is ignored.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments {
                MORE_FRAGMENTS
            } else {
                0
            };
        let mut view = View {
            version_and_header_words: 0x45,
            tos: self.tos,
            total_len: U16::new(self.total_len as u16),
            id: U16::new(self.id),
            flags_and_offset: U16::new(flags | self.fragment_offset),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::ZERO,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        view.checksum = U16::new(!view.sum().fold());
        bytes[..IPV4_LEN].copy_from_slice(view.as_bytes());
    }

    /// Returns true if the packet is a fragment of a datagram.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Bytes after the header.
    pub fn payload_len(&self) -> usize {
        self.total_len - self.header_len
    }
}

/// The source route among the options of an IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceRoute {
    /// There is no source route, or it is at its end.
    None,
    /// The source route names nodes still to be visited.
    Unexpired,
}

/// Finds the source route in the options, which are the bytes of a header after its first 20 (RFC
/// 791 section 3.1).
///
/// Everything after an End of Option List is ignored. Returns [`Reason::Ipv4Option`] if the length
/// of an option is below 2 or exceeds the header.
pub fn source_route(options: &[u8]) -> Result<SourceRoute, Reason> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut rest = options;
    let mut found = SourceRoute::None;
    while let Some(&kind) = rest.first() {
        match kind {
            END => break,
            NOP => rest = &rest[1..],
            _ => {
                let len = usize::from(*rest.get(1).ok_or(Reason::Ipv4Option)?);
                if len < 2 || len > rest.len() {
                    return Err(Reason::Ipv4Option);
                }
                if kind == LOOSE || kind == STRICT {
                    let pointer = *rest[..len].get(2).ok_or(Reason::Ipv4Option)?;
                    // "If the pointer is greater than the length, the source route is empty" (RFC
                    // 791).
                    if usize::from(pointer) <= len {
                        found = SourceRoute::Unexpired;
                    }
                }
                rest = &rest[len..];
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 192.0.2.1 to 198.51.100.2, UDP, 28 bytes, DF; the checksum added up by hand:
    /// 4500+001c+0000+4000+4011+c000+0201+c633+6402 = 2b163, folded b165, complemented 4e9a.
    const HEADER: [u8; 20] = [
        0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0x4e, 0x9a, 192, 0, 2, 1, 198, 51, 100, 2,
    ];

    #[test]
    fn parse_and_emit_are_inverses() {
        let mut bytes = [0; 28];
        bytes[..20].copy_from_slice(&HEADER);
        let header = Ipv4::parse_packet(&bytes).unwrap();
        assert_eq!(
            (header.ttl, header.protocol, header.payload_len()),
            (64, 17, 8)
        );
        assert!(header.dont_fragment && !header.is_fragment());
        let mut again = [0xff; 20];
        header.emit(&mut again);
        assert_eq!(again, HEADER);
    }

    #[test]
    fn lies_are_named() {
        let mut bytes = [0; 28];
        bytes[..20].copy_from_slice(&HEADER);
        assert_eq!(Ipv4::parse_packet(&bytes[..27]), Err(Reason::Truncated));
        assert_eq!(Ipv4::parse_packet(&bytes[..19]), Err(Reason::Truncated));
        bytes[8] -= 1;
        assert_eq!(Ipv4::parse_packet(&bytes), Err(Reason::Ipv4HeaderChecksum));
        bytes[0] = 0x44;
        assert_eq!(Ipv4::parse_packet(&bytes), Err(Reason::Ipv4HeaderLength));
        bytes[0] = 0x48; // 32 bytes of header in a packet of 28
        assert_eq!(Ipv4::parse_packet(&bytes), Err(Reason::Ipv4HeaderLength));
        bytes[0] = 0x65;
        assert_eq!(Ipv4::parse_packet(&bytes), Err(Reason::NotIp));
    }

    #[test]
    fn a_source_route_is_unexpired_until_its_pointer_is_past_its_length() {
        assert_eq!(source_route(&[]), Ok(SourceRoute::None));
        assert_eq!(
            source_route(&[1, 131, 7, 4, 192, 0, 2, 9]),
            Ok(SourceRoute::Unexpired)
        );
        assert_eq!(
            source_route(&[137, 7, 8, 192, 0, 2, 9, 0]),
            Ok(SourceRoute::None)
        );
        assert_eq!(source_route(&[0, 131, 7, 4]), Ok(SourceRoute::None)); // after the end of the list
        assert_eq!(
            source_route(&[7, 7, 4, 0, 0, 0, 0, 1]),
            Ok(SourceRoute::None)
        ); // record route
        for junk in [
            &[131][..],
            &[131, 0, 0, 0],
            &[131, 2, 0, 0],
            &[7, 1, 0, 0],
            &[7, 9, 4, 0],
        ] {
            assert_eq!(source_route(junk), Err(Reason::Ipv4Option), "{junk:?}");
        }
    }
}
