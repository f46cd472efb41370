// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types of ICMPv4 (RFC 792, RFC 1122, RFC 1812) and ICMPv6 (RFC 4443), and their common header.

/// Length in bytes of the ICMP header, including the four bytes after the checksum, whose meaning
/// depends on the type.
pub const ICMP_LEN: usize = 8;

/// Offset of the checksum in ICMPv4 and ICMPv6.
pub const ICMP_CHECKSUM_AT: usize = 2;

/// How a type is translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Echo request or reply, with its type in the other family.
    Echo(u8),
    /// An error about another packet, including errors that are not translated.
    Error,
    /// A message that has meaning on one link only (RFC 7915 sections 4.2 and 5.2).
    SingleHop,
    /// Obsolete or unknown.
    Other,
}

/// Types of ICMPv4.
#[allow(missing_docs)]
pub mod v4 {
    use super::{v6, Class};

    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const SOURCE_QUENCH: u8 = 4;
    pub const REDIRECT: u8 = 5;
    pub const ECHO_REQUEST: u8 = 8;
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    pub const ROUTER_SOLICITATION: u8 = 10;
    pub const TIME_EXCEEDED: u8 = 11;
    pub const PARAMETER_PROBLEM: u8 = 12;

    pub fn class_of(icmp_type: u8) -> Class {
        match icmp_type {
            ECHO_REQUEST => Class::Echo(v6::ECHO_REQUEST),
            ECHO_REPLY => Class::Echo(v6::ECHO_REPLY),
            UNREACHABLE | SOURCE_QUENCH | TIME_EXCEEDED | PARAMETER_PROBLEM => Class::Error,
            REDIRECT | ROUTER_ADVERTISEMENT | ROUTER_SOLICITATION => Class::SingleHop,
            _ => Class::Other,
        }
    }
}

/// Types of ICMPv6. Those below 128 are errors (RFC 4443 section 2.1).
#[allow(missing_docs)]
pub mod v6 {
    use super::{v4, Class};

    pub const UNREACHABLE: u8 = 1;
    pub const PACKET_TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const FIRST_INFORMATIONAL: u8 = 128;
    pub const ECHO_REQUEST: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query.
    pub const FIRST_SINGLE_HOP: u8 = 130;
    /// The last of multicast listener, router and neighbour discovery.
    pub const REDIRECT: u8 = 137;
    /// Version 2 multicast listener report (RFC 3810).
    pub const MLDV2_REPORT: u8 = 143;

    pub fn class_of(icmp_type: u8) -> Class {
        match icmp_type {
            ECHO_REQUEST => Class::Echo(v4::ECHO_REQUEST),
            ECHO_REPLY => Class::Echo(v4::ECHO_REPLY),
            0..FIRST_INFORMATIONAL => Class::Error,
            FIRST_SINGLE_HOP..=REDIRECT | MLDV2_REPORT => Class::SingleHop,
            _ => Class::Other,
        }
    }
}
