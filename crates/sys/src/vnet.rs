// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `struct virtio_net_hdr` as the TUN device uses it (native byte order, 10 bytes): the work that is left for a packet,
//! checksum or segmentation.

/// Length of the header in front of each packet, bytes.
pub const LEN: usize = 10;

const F_NEEDS_CSUM: u8 = 1;
const F_DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// The transport protocol of a super-packet, which the device passes in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segments {
    /// TSO. `ecn`: CWR is set in the first segment only.
    Tcp {
        /// The super-packet carries CWR (RFC 3168).
        ecn: bool,
    },
    /// USO.
    Udp,
}

/// The header's content, except for the fields that follow from the packet itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The transport checksum holds only the sum of the pseudo-header.
    pub partial_checksum: bool,
    /// A super-packet, with the payload bytes of one segment.
    pub segments: Option<(Segments, u16)>,
}

/// The checksum that a device is asked to compute: it sums from `start` on and stores at `start` + `offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChecksumPlace {
    /// Bytes before the summed part.
    pub start: u16,
    /// Bytes from `start` to the checksum field.
    pub offset: u16,
}

/// The place of the checksum, if the header leaves it to the device.
pub fn checksum_place(bytes: &[u8; LEN]) -> Option<ChecksumPlace> {
    (bytes[0] & F_NEEDS_CSUM != 0).then(|| ChecksumPlace {
        start: u16::from_ne_bytes([bytes[6], bytes[7]]),
        offset: u16::from_ne_bytes([bytes[8], bytes[9]]),
    })
}

/// The header after removing the first `by` bytes of the packet; `None` if a checksum would begin among them.
pub fn without_front(bytes: &[u8; LEN], by: u16) -> Option<[u8; LEN]> {
    let mut moved = *bytes;
    if let Some(place) = checksum_place(bytes) {
        moved[6..8].copy_from_slice(&place.start.checked_sub(by)?.to_ne_bytes());
    }
    Some(moved)
}

/// Returns true if a device has verified the transport checksum of the packet.
pub fn is_checked(bytes: &[u8; LEN]) -> bool {
    bytes[0] & F_DATA_VALID != 0
}

/// The layout of the packet, which the header repeats for the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The packet is IPv6.
    pub ipv6: bool,
    /// Bytes before the transport header.
    pub l4_offset: u16,
    /// Length of the transport header, bytes.
    pub l4_len: u16,
    /// Offset of the checksum in the transport header, bytes.
    pub checksum_offset: u16,
}

impl Header {
    /// Parses a header; `None` for a kind of super-packet that was never enabled.
    pub fn parse(bytes: &[u8; LEN]) -> Option<Header> {
        let gso_size = u16::from_ne_bytes([bytes[4], bytes[5]]);
        let segments = match bytes[1] & !GSO_ECN {
            GSO_NONE => None,
            GSO_TCPV4 | GSO_TCPV6 => Some((
                Segments::Tcp {
                    ecn: bytes[1] & GSO_ECN != 0,
                },
                gso_size,
            )),
            GSO_UDP_L4 => Some((Segments::Udp, gso_size)),
            _ => return None,
        };
        Some(Header {
            partial_checksum: bytes[0] & F_NEEDS_CSUM != 0,
            segments,
        })
    }

    /// Writes the header for a packet of the given shape.
    pub fn emit(&self, shape: &Shape) -> [u8; LEN] {
        let mut bytes = [0; LEN];

        if let Some((kind, size)) = self.segments {
            bytes[1] = match (kind, shape.ipv6) {
                (Segments::Tcp { ecn }, false) => GSO_TCPV4 | if ecn { GSO_ECN } else { 0 },
                (Segments::Tcp { ecn }, true) => GSO_TCPV6 | if ecn { GSO_ECN } else { 0 },
                (Segments::Udp, _) => GSO_UDP_L4,
            };
            bytes[2..4].copy_from_slice(&(shape.l4_offset + shape.l4_len).to_ne_bytes());
            bytes[4..6].copy_from_slice(&size.to_ne_bytes());
        }
        if self.partial_checksum {
            bytes[0] = F_NEEDS_CSUM;
            bytes[6..8].copy_from_slice(&shape.l4_offset.to_ne_bytes());
            bytes[8..10].copy_from_slice(&shape.checksum_offset.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP4: Shape = Shape {
        ipv6: false,
        l4_offset: 20,
        l4_len: 32,
        checksum_offset: 16,
    };

    #[test]
    fn a_plain_packet_needs_nothing() {
        assert_eq!(Header::default().emit(&TCP4), [0; LEN]);
        assert_eq!(Header::parse(&[0; LEN]), Some(Header::default()));
    }

    #[test]
    fn a_super_packet_changes_family_and_keeps_its_size() {
        let header = Header {
            partial_checksum: true,
            segments: Some((Segments::Tcp { ecn: true }, 1420)),
        };
        let tcp6 = Shape {
            ipv6: true,
            l4_offset: 40,
            ..TCP4
        };
        let bytes = header.emit(&tcp6);

        assert_eq!(bytes[0], 1, "VIRTIO_NET_HDR_F_NEEDS_CSUM");
        assert_eq!(bytes[1], 0x84, "VIRTIO_NET_HDR_GSO_TCPV6 with ECN");
        assert_eq!(u16::from_ne_bytes([bytes[2], bytes[3]]), 72, "all headers");
        assert_eq!(
            u16::from_ne_bytes([bytes[6], bytes[7]]),
            40,
            "where the sum starts"
        );
        assert_eq!(Header::parse(&bytes), Some(header));
        assert_eq!(Header::parse(&header.emit(&TCP4)), Some(header));
    }

    #[test]
    fn the_place_of_the_checksum_is_where_it_was_put() {
        let header = Header {
            partial_checksum: true,
            segments: None,
        };
        let place = ChecksumPlace {
            start: 20,
            offset: 16,
        };
        assert_eq!(checksum_place(&header.emit(&TCP4)), Some(place));
        assert_eq!(checksum_place(&Header::default().emit(&TCP4)), None);
        let moved = without_front(&header.emit(&TCP4), 12).and_then(|moved| checksum_place(&moved));
        let start = place.start - 12;
        assert_eq!(moved, Some(ChecksumPlace { start, ..place }));
        assert_eq!(without_front(&header.emit(&TCP4), 21), None);
        assert!(without_front(&Header::default().emit(&TCP4), 21).is_some());
    }

    #[test]
    fn a_checked_packet_needs_nothing() {
        let bytes = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Header::parse(&bytes), Some(Header::default()));
        assert!(is_checked(&bytes) && !is_checked(&Header::default().emit(&TCP4)));
    }

    #[test]
    fn ufo_was_never_asked_for() {
        assert_eq!(Header::parse(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
