// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protocol numbers, and the transport fields that translation changes.

use super::protocol;
use crate::verdict::Reason;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The IPv6 next header for an IPv4 protocol: the number is unchanged except for ICMP (RFC 7915
/// section 4.1).
#[inline]
pub fn next_header_of(ipv4_protocol: u8) -> Result<u8, Reason> {
    match ipv4_protocol {
        protocol::ICMPV4 => Ok(protocol::ICMPV6),
        // IGMP "SHOULD be silently dropped" (RFC 7915 section 4.2).
        protocol::IGMP => Err(Reason::Igmp),
        // IPv6 nodes would parse these as extension headers, or as ICMPv6 that has not been
        // checked.
        protocol::HOP_BY_HOP
        | protocol::ROUTING
        | protocol::FRAGMENT
        | protocol::DESTINATION_OPTIONS
        | protocol::ICMPV6 => Err(Reason::Protocol),
        other => Ok(other),
    }
}

/// The IPv4 protocol for the IPv6 next header after all extension headers: the number is unchanged
/// except for ICMP (RFC 7915 section 5.1).
#[inline]
pub fn protocol_of(next_header: u8) -> Result<u8, Reason> {
    match next_header {
        protocol::ICMPV6 => Ok(protocol::ICMPV4),
        protocol::IGMP => Err(Reason::Igmp),
        // IPv4 nodes would parse it as ICMPv4 that has not been checked.
        protocol::ICMPV4 => Err(Reason::Protocol),
        other => Ok(other),
    }
}

/// The part of a datagram that a packet holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentKind {
    /// The whole datagram.
    Whole,
    /// The first fragment, with the transport header.
    First,
    /// A later fragment, without the transport header.
    Later,
}

impl FragmentKind {
    /// Chooses the part from the fragment offset, in any unit, and the more-fragments flag.
    #[inline]
    pub fn of(offset: u16, more: bool) -> FragmentKind {
        match (offset, more) {
            (0, false) => FragmentKind::Whole,
            (0, true) => FragmentKind::First,
            _ => FragmentKind::Later,
        }
    }
}

/// How translation treats a protocol (RFC 7915 sections 4.5 and 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A mandatory checksum with a pseudo-header: TCP, DCCP, UDP-Lite.
    Checksummed {
        /// Offset of the checksum in the header.
        at: usize,
        /// Length in bytes of the smallest header.
        header_len: usize,
        /// True if a computed checksum of zero is sent as 0xFFFF.
        never_zero: bool,
    },
    /// UDP: a checksum with a pseudo-header, which may be absent in IPv4.
    Udp,
    /// ICMP of the packet's own family.
    Icmp,
    /// Copied unchanged: SCTP (its CRC covers no addresses), GRE, ESP and every unknown protocol.
    Opaque,
}

impl Transport {
    /// Looks up a protocol number. `icmp` is the number of ICMP in the packet's own family.
    #[inline]
    pub fn of(number: u8, icmp: u8) -> Transport {
        match number {
            protocol::TCP => Transport::Checksummed {
                at: 16,
                header_len: 20,
                never_zero: false,
            },
            protocol::UDP => Transport::Udp,
            // RFC 4340 section 5.1. The length in the pseudo-header does not depend on the checksum
            // coverage (section 9.1).
            protocol::DCCP => Transport::Checksummed {
                at: 6,
                header_len: 12,
                never_zero: false,
            },
            // RFC 3828 sections 3.1 and 3.2. The pseudo-header has the length of the IP payload,
            // which is equal on both sides.
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

/// Offset of the UDP checksum.
pub const UDP_CHECKSUM_AT: usize = 6;

/// The UDP header (RFC 768).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub src: U16,
    /// Destination port.
    pub dst: U16,
    /// Length in bytes of header and data.
    pub len: U16,
    /// Zero means that there is no checksum.
    pub checksum: U16,
}
