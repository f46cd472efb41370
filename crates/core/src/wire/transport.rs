// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The few transport fields that translation touches.

use super::protocol;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a protocol number means to translation (RFC 7915 sections 4.5 and 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Has a checksum with a pseudo-header: TCP, DCCP, UDP-Lite.
    Checksummed {
        /// Where in the header the checksum stands.
        checksum_at: usize,
        /// Bytes of the smallest header.
        header_len: usize,
    },
    /// Like those, but in IPv4 the checksum may be absent.
    Udp,
    /// ICMP of the packet's own family.
    Icmp,
    /// Copied as it is: SCTP (its CRC covers no addresses), GRE, ESP and everything unknown.
    Opaque,
}

impl Transport {
    /// Looks up a protocol number, `icmp` being ICMP of the packet's own family.
    #[inline]
    pub fn of(number: u8, icmp: u8) -> Transport {
        match number {
            protocol::TCP => Transport::Checksummed {
                checksum_at: 16,
                header_len: 20,
            },
            protocol::UDP => Transport::Udp,
            // RFC 4340 section 5.1; the pseudo-header counts whatever the checksum coverage (section 9.1).
            protocol::DCCP => Transport::Checksummed {
                checksum_at: 6,
                header_len: 12,
            },
            // RFC 3828 section 3.1. Its pseudo-header has the length of the IP payload, which is the same on both sides.
            protocol::UDP_LITE => Transport::Checksummed {
                checksum_at: 6,
                header_len: 8,
            },
            number if number == icmp => Transport::Icmp,
            _ => Transport::Opaque,
        }
    }
}

/// The UDP header (RFC 768).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub src: U16,
    /// Destination port.
    pub dst: U16,
    /// Bytes of header and data.
    pub len: U16,
    /// Zero means: none.
    pub checksum: U16,
}
