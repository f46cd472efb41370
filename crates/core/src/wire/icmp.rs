// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Types and codes of ICMPv4 (RFC 792, RFC 1122, RFC 1812) and ICMPv6 (RFC 4443), and the header that both share.

/// Bytes of the ICMP header, the four after the checksum included, whose meaning depends on the type.
pub const ICMP_LEN: usize = 8;

/// Types of ICMPv4.
#[allow(missing_docs)]
pub mod v4 {
    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const SOURCE_QUENCH: u8 = 4;
    pub const REDIRECT: u8 = 5;
    pub const ECHO_REQUEST: u8 = 8;
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    pub const ROUTER_SOLICITATION: u8 = 10;
    pub const TIME_EXCEEDED: u8 = 11;
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Types of ICMPv6. Those below 128 are errors (RFC 4443 section 2.1).
#[allow(missing_docs)]
pub mod v6 {
    pub const UNREACHABLE: u8 = 1;
    pub const PACKET_TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const ECHO_REQUEST: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query, report and done; router and neighbour discovery, redirect: 130 to 137.
    pub const FIRST_SINGLE_HOP: u8 = 130;
    pub const REDIRECT: u8 = 137;
    /// Version 2 multicast listener report (RFC 3810).
    pub const MLDV2_REPORT: u8 = 143;
}
