// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The chain of IPv6 extension headers (RFC 8200 section 4), walked as RFC 7915 section 5.1
//! demands.

use super::protocol;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length in bytes of a Fragment header.
pub const FRAGMENT_LEN: usize = 8;

/// The longest chain of extension headers that is followed. RFC 8200 section 4.1 has at most six
/// before the transport.
pub const MAX_EXTENSIONS: usize = 8;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FragmentView {
    next_header: u8,
    reserved: u8,
    offset_and_more: U16,
    id: U32,
}

/// The fields of a Fragment header (RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The protocol at the beginning of the fragmented part.
    pub next_header: u8,
    /// Offset in units of 8 bytes.
    pub offset: u16,
    /// The M flag: more fragments follow.
    pub more: bool,
    /// Identification, equal in all fragments of a datagram.
    pub id: u32,
}

impl Fragment {
    fn parse(bytes: &[u8]) -> Option<Fragment> {
        let (view, _) = FragmentView::ref_from_prefix(bytes).ok()?;
        let offset_and_more = view.offset_and_more.get();
        Some(Fragment {
            next_header: view.next_header,
            offset: offset_and_more >> 3,
            more: offset_and_more & 1 != 0,
            id: view.id.get(),
        })
    }

    /// Writes the header to the first 8 bytes.
    ///
    /// # Panics
    /// Panics if `bytes` has fewer than 8 bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let view = FragmentView {
            next_header: self.next_header,
            reserved: 0,
            offset_and_more: U16::new(self.offset << 3 | u16::from(self.more)),
            id: U32::new(self.id),
        };
        bytes[..FRAGMENT_LEN].copy_from_slice(view.as_bytes());
    }

    /// Returns true if the fragment is a whole datagram (RFC 6946).
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// The result of walking a chain of extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// The first protocol that is not a hop-by-hop, routing, fragment or destination options
    /// header.
    pub protocol: u8,
    /// Offset of its first byte from the beginning of the IPv6 header.
    pub payload_at: usize,
    /// The Fragment header, if there is one.
    pub fragment: Option<Fragment>,
    /// Set if a routing header has segments left: the offset of their number in the packet.
    pub segments_left_at: Option<u32>,
    /// True if an extension header follows the Fragment header.
    pub extension_after_fragment: bool,
}

impl Chain {
    /// The chain of a packet without extension headers, or None if `next_header` names one.
    #[inline]
    pub fn empty(next_header: u8) -> Option<Chain> {
        (!is_extension(next_header)).then_some(Chain::beginning(next_header))
    }

    #[inline]
    fn beginning(next_header: u8) -> Chain {
        Chain {
            protocol: next_header,
            payload_at: super::IPV6_LEN,
            fragment: None,
            segments_left_at: None,
            extension_after_fragment: false,
        }
    }

    /// Walks the chain in `packet`, which begins with the IPv6 header, starting at the header named
    /// `next_header`. None if the chain is truncated or longer than [`MAX_EXTENSIONS`].
    pub fn walk(packet: &[u8], next_header: u8) -> Option<Chain> {
        match Chain::empty(next_header) {
            Some(chain) => Some(chain),
            None => Chain::beginning(next_header).walk_on(packet),
        }
    }

    fn walk_on(mut self, packet: &[u8]) -> Option<Chain> {
        for _ in 0..MAX_EXTENSIONS {
            let header = packet.get(self.payload_at..)?;
            let len = if self.protocol == protocol::FRAGMENT {
                let fragment = Fragment::parse(header)?;
                self.protocol = fragment.next_header;
                self.fragment = self.fragment.or(Some(fragment));
                FRAGMENT_LEN
            } else {
                let [next_header, words, _, segments_left] = *header.first_chunk()?;
                if self.protocol == protocol::ROUTING && segments_left != 0 {
                    self.segments_left_at =
                        self.segments_left_at.or(Some(self.payload_at as u32 + 3));
                }
                self.protocol = next_header;
                8 + 8 * usize::from(words)
            };
            if header.len() < len {
                return None;
            }
            self.payload_at += len;
            if let Some(fragment) = self.fragment {
                // RFC 7915 section 5.1.1 counts AH among these extension headers, but not ESP.
                self.extension_after_fragment |=
                    is_extension(self.protocol) || is_opaque_extension(self.protocol);
                if fragment.offset != 0 {
                    return Some(self); // A later fragment: its payload has no further headers.
                }
            }
            if !is_extension(self.protocol) {
                return Some(self);
            }
        }
        None
    }
}

/// Headers that RFC 7915 section 5.1 skips or translates.
#[inline]
fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::DESTINATION_OPTIONS
    )
}

/// Returns true for the extension headers (IANA registry) that are copied like a transport if no
/// Fragment header precedes them.
fn is_opaque_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::AH | protocol::MOBILITY | protocol::HIP | protocol::SHIM6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(first: u8, headers: &[u8]) -> Option<Chain> {
        let mut packet = vec![0; super::super::IPV6_LEN];
        packet.extend_from_slice(headers);
        Chain::walk(&packet, first)
    }

    #[test]
    fn a_chain_of_every_kind_leads_to_the_transport() {
        let headers = [
            [60, 0, 0, 0, 0, 0, 0, 0], // hop-by-hop
            [43, 0, 0, 0, 0, 0, 0, 0], // destination options
            [44, 0, 0, 0, 0, 0, 0, 0], // routing, no segments left
            [17, 0, 0x00, 0x0b, 0, 0, 0x12, 0x34],
        ]
        .concat();
        let chain = walk(0, &headers).unwrap();
        assert_eq!((chain.protocol, chain.payload_at), (17, 72));
        assert_eq!(
            chain.fragment,
            Some(Fragment {
                next_header: 17,
                offset: 1,
                more: true,
                id: 0x1234
            })
        );
    }

    #[test]
    fn segments_left_are_found_at_their_byte() {
        let headers = [[43, 0, 0, 0, 0, 0, 0, 0], [17, 0, 0, 1, 0, 0, 0, 0]].concat();
        let chain = walk(0, &headers).unwrap();
        assert_eq!((chain.segments_left_at, chain.protocol), (Some(51), 17));
    }

    #[test]
    fn broken_chains_lead_nowhere() {
        assert_eq!(walk(0, &[]), None);
        assert_eq!(walk(0, &[17]), None);
        assert_eq!(walk(60, &[17, 1, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(walk(44, &[17, 0, 0, 0]), None);
        assert_eq!(walk(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(20)), None);
    }

    #[test]
    fn extension_headers_after_the_fragment_header_are_seen() {
        for after in [0, 43, 44, 51, 60, 135] {
            let headers = [[after, 0, 0, 0, 0, 0, 0, 0], [17, 0, 0, 0, 0, 0, 0, 0]].concat();
            assert!(
                walk(44, &headers).unwrap().extension_after_fragment,
                "{after}"
            );
        }
        let esp = walk(44, &[50, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!((esp.protocol, esp.extension_after_fragment), (50, false));
        assert_eq!(walk(51, &[]).unwrap().protocol, 51);
        // A later fragment has no further header to inspect.
        let later = walk(44, &[17, 0, 0, 8, 0, 0, 0, 0]).unwrap();
        assert_eq!(
            (later.payload_at, later.extension_after_fragment),
            (48, false)
        );
    }

    #[test]
    fn fragment_parse_and_emit_are_inverses() {
        let bytes = [6, 0, 0xff, 0xf9, 1, 2, 3, 4];
        let fragment = Fragment::parse(&bytes).unwrap();
        assert_eq!(
            fragment,
            Fragment {
                next_header: 6,
                offset: 0x1fff,
                more: true,
                id: 0x0102_0304
            }
        );
        let mut again = [0; 8];
        fragment.emit(&mut again);
        assert_eq!(again, bytes);
    }
}
