// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protocol numbers and the few transport fields that translation touches.

use super::protocol;
use crate::verdict::Reason;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The IPv6 next header for an IPv4 protocol: the same, but for ICMP (RFC 7915 section 4.1).
#[inline]
pub fn next_header_of(ipv4_protocol: u8) -> Result<u8, Reason> {
    match ipv4_protocol {
        protocol::ICMPV4 => Ok(protocol::ICMPV6),
        // IGMP "SHOULD be silently dropped" (RFC 7915 section 4.2).
        protocol::IGMP => Err(Reason::Igmp),
        // These would be read as IPv6 headers, or as ICMPv6 that nobody has checked.
        protocol::HOP_BY_HOP
        | protocol::ROUTING
        | protocol::FRAGMENT
        | protocol::DESTINATION_OPTIONS
        | protocol::ICMPV6 => Err(Reason::Protocol),
        other => Ok(other),
    }
}

/// The IPv4 protocol for an IPv6 next header behind all extension headers: the same, but for ICMP
/// (RFC 7915 section 5.1).
#[inline]
pub fn protocol_of(next_header: u8) -> Result<u8, Reason> {
    match next_header {
        protocol::ICMPV6 => Ok(protocol::ICMPV4),
        protocol::IGMP => Err(Reason::Igmp),
        // It would be read as ICMPv4 that nobody has checked.
        protocol::ICMPV4 => Err(Reason::Protocol),
        other => Ok(other),
    }
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its beginning, with the transport header.
    First,
    /// Something later, without.
    Later,
}

impl Part {
    /// The part at this offset, in any unit, with more fragments behind it or not.
    #[inline]
    pub fn of(offset: u16, more: bool) -> Part {
        match (offset, more) {
            (0, false) => Part::Whole,
            (0, true) => Part::First,
            _ => Part::Later,
        }
    }
}

/// What a protocol number means to translation (RFC 7915 sections 4.5 and 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Has a checksum with a pseudo-header, and always has it: TCP, DCCP, UDP-Lite.
    Checksummed {
        /// Where in the header the checksum stands.
        at: usize,
        /// Bytes of the smallest header.
        header_len: usize,
        /// A checksum that comes out as zero is sent as 0xFFFF.
        never_zero: bool,
    },
    /// Has one too, but in IPv4 it may be absent.
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
                at: 16,
                header_len: 20,
                never_zero: false,
            },
            protocol::UDP => Transport::Udp,
            // RFC 4340 section 5.1; the pseudo-header counts whatever the checksum coverage
            // (section 9.1).
            protocol::DCCP => Transport::Checksummed {
                at: 6,
                header_len: 12,
                never_zero: false,
            },
            // RFC 3828 sections 3.1 and 3.2. Its pseudo-header has the length of the IP payload,
            // which is the same on both sides.
            protocol::UDP_LITE => Transport::Checksummed {
                at: 6,
                header_len: 8,
                never_zero: true,
            },
            number if number == icmp => Transport::Icmp,
            _ => Transport::Opaque,
        }
    }
}

/// Where UDP has its checksum.
pub const UDP_CHECKSUM_AT: usize = 6;

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
