// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the metadata of the TUN device about a packet to the form of the translator, and back.
//!
//! header in front of the packet → what is left to do → translation → header again

use diolkos_sys::vnet::{self, ChecksumPlace, Header, Segments, Shape, LEN as VNET};
use diolkos_xlat::csum;
use diolkos_xlat::{Checksum, Gso, GsoKind, Label, Offload};

/// The content of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// For the translator.
    pub offload: Offload,
    /// True if the super-packet carries CWR only in its first segment (RFC 3168); the next device has to know it too.
    pub ecn: bool,
    /// True if a device has verified the transport checksum.
    pub checked: bool,
}

/// Reads the header in front of `packet`, and completes in `packet` what the translator would not understand.
///
/// `None` for a kind of super-packet that the device was not asked for, and for a checksum that belongs behind the end
/// of the packet.
pub fn read(front: &[u8; VNET], packet: &mut [u8]) -> Option<Received> {
    let mut header = Header::parse(front)?;
    if let Some(place) = vnet::checksum_place(front) {
        header.partial_checksum = is_transports(packet, place);
        if !header.partial_checksum {
            finish(packet, place)?;
        }
    }
    Some(Received {
        offload: offload(&header),
        ecn: matches!(header.segments, Some((Segments::Tcp { ecn: true }, _))),
        checked: vnet::is_checked(front),
    })
}

/// Returns the header in front of a packet that leaves.
pub fn write(offload: Offload, ecn: bool, packet: &[u8]) -> [u8; VNET] {
    header_of(offload, ecn).emit(&shape(packet))
}

/// Returns true if it is the checksum of TCP or UDP of this packet. That one is left to the next device, with the sum
/// of the other pseudo-header. Any other one is completed here, because the header cannot describe it for the
/// translated packet: that of a packet in a tunnel whose outer checksum is complete, and one that a virtual machine
/// requests, for example for ICMP.
fn is_transports(packet: &[u8], place: ChecksumPlace) -> bool {
    let shape = shape(packet);
    let protocol = packet.get(if shape.ipv6 { 6 } else { 9 });
    matches!(protocol, Some(6 | 17))
        && (place.start, place.offset) == (shape.l4_offset, shape.checksum_offset)
}

/// Writes the checksum that the device was asked for; `None` if its position is not in the packet.
fn finish(packet: &mut [u8], place: ChecksumPlace) -> Option<()> {
    let start = usize::from(place.start);
    let at = start + usize::from(place.offset);
    let sum = !csum::sum(packet.get(start..)?).fold();
    let field = packet.get_mut(at..at + 2)?;
    field.copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    Some(())
}

fn offload(header: &Header) -> Offload {
    Offload {
        checksum: if header.partial_checksum {
            Checksum::Partial
        } else {
            Checksum::Complete
        },
        gso: header.segments.map(|(kind, size)| Gso {
            kind: match kind {
                Segments::Tcp { .. } => GsoKind::Tcp,
                Segments::Udp => GsoKind::Udp,
            },
            size,
        }),
        label: Label::default(),
    }
}

fn header_of(offload: Offload, ecn: bool) -> Header {
    Header {
        partial_checksum: offload.checksum == Checksum::Partial,
        segments: offload.gso.map(|gso| match gso.kind {
            GsoKind::Tcp => (Segments::Tcp { ecn }, gso.size),
            GsoKind::Udp => (Segments::Udp, gso.size),
        }),
    }
}

/// Returns the position of the transport header. Fields that the offload header does not need may be wrong for a
/// fragment or an unknown transport: those have no offloads.
fn shape(packet: &[u8]) -> Shape {
    let ipv6 = packet.first().is_some_and(|b| b >> 4 == 6);
    let (l4_offset, protocol) = if ipv6 {
        (40, packet.get(6))
    } else {
        (
            packet.first().map_or(20, |b| u16::from(b & 15) * 4),
            packet.get(9),
        )
    };
    let (l4_len, checksum_offset) = match protocol {
        Some(6) => {
            let data_offset = packet
                .get(usize::from(l4_offset) + 12)
                .map_or(5, |b| b >> 4);
            (u16::from(data_offset) * 4, 16)
        }
        _ => (8, 6),
    };
    Shape {
        ipv6,
        l4_offset,
        l4_len,
        checksum_offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_checksum_is_finished_and_an_outer_one_is_not() {
        // UDP with a UDP datagram inside, whose field holds the sum of a pseudo-header.
        let mut packet = vec![0; 20 + 8 + 8 + 4];
        (packet[0], packet[9]) = (0x45, 17);
        packet[34..36].copy_from_slice(&0x1234u16.to_be_bytes());
        packet[36..].copy_from_slice(&[1, 2, 3, 4]);
        let outer = ChecksumPlace {
            start: 20,
            offset: 6,
        };
        assert!(is_transports(&packet, outer));
        let inner = ChecksumPlace {
            start: 28,
            offset: 6,
        };
        assert!(!is_transports(&packet, inner));
        assert_eq!(finish(&mut packet, inner), Some(()));
        // 0x1234 + 0x0102 + 0x0304 = 0x163a
        assert_eq!(packet[34..36], (!0x163au16).to_be_bytes());
    }

    #[test]
    fn a_checksum_of_icmp_is_finished() {
        // An echo request whose field holds the sum of the pseudo-header: addresses of zeros, 12 bytes, ICMPv6
        // (RFC 8200 section 8.1).
        let mut packet = vec![0; 40 + 12];
        (packet[0], packet[6], packet[40]) = (0x60, 58, 128);
        packet[42..44].copy_from_slice(&(12u16 + 58).to_be_bytes());
        packet[44..].copy_from_slice(&[0x0f, 0xa0, 0, 7, 1, 2, 3, 4]);
        let front = Header {
            partial_checksum: true,
            segments: None,
        };
        let front = front.emit(&Shape {
            checksum_offset: 2,
            ..shape(&packet)
        });
        let received = read(&front, &mut packet).expect("it is no super-packet");
        assert_eq!(received.offload.checksum, Checksum::Complete);
        // 0x8000 + 0x0046 + 0x0fa0 + 0x0007 + 0x0102 + 0x0304 = 0x93f3
        assert_eq!(packet[42..44], (!0x93f3u16).to_be_bytes());
        assert_eq!(packet[44..], [0x0f, 0xa0, 0, 7, 1, 2, 3, 4]);
    }

    #[test]
    fn a_checksum_that_belongs_behind_the_packet_is_refused() {
        // 12 bytes of ICMPv6 behind the header: the field of the last two begins at 50.
        let mut packet = vec![0; 40 + 12];
        (packet[0], packet[6]) = (0x60, 58);
        let place = |start: u16, offset: u16| {
            let [[a, b], [c, d]] = [start.to_ne_bytes(), offset.to_ne_bytes()];
            [1, 0, 0, 0, 0, 0, a, b, c, d]
        };
        assert!(read(&place(40, 10), &mut packet).is_some());
        for (start, offset) in [
            (40, 11),
            (52, 0),
            (53, 0),
            (0, u16::MAX),
            (u16::MAX, u16::MAX),
        ] {
            let before = packet.clone();
            assert_eq!(read(&place(start, offset), &mut packet), None);
            assert_eq!(packet, before);
        }
    }

    #[test]
    fn the_shape_is_read_from_the_packet() {
        let mut tcp = vec![0; 60];
        tcp[0] = 0x45;
        tcp[9] = 6;
        tcp[32] = 8 << 4;
        assert_eq!(
            shape(&tcp),
            Shape {
                ipv6: false,
                l4_offset: 20,
                l4_len: 32,
                checksum_offset: 16
            }
        );

        let mut udp = vec![0; 60];
        udp[0] = 0x60;
        udp[6] = 17;
        assert_eq!(
            shape(&udp),
            Shape {
                ipv6: true,
                l4_offset: 40,
                l4_len: 8,
                checksum_offset: 6
            }
        );
        let _ = shape(&[]);
    }
}
