// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headers: bytes are parsed into a checked view, then into a plain struct, and written back as
//! bytes.
//!
//! Each header has a private view with the exact layout of the RFC, and a plain struct with its
//! fields. `parse` and `emit` of that struct are inverses for every header that `emit` can write.

mod extension;
pub mod icmp;
mod ipv4;
mod ipv6;
mod packet;
mod transport;

pub use extension::{Chain, Fragment, FRAGMENT_LEN, MAX_EXTENSIONS};
pub use ipv4::{source_route, Ipv4, SourceRoute, IPV4_LEN};
pub use ipv6::{Ipv6, IPV6_LEN};
pub use packet::{Addresses, Headers4, Headers6};
pub use transport::{
    next_header_of, protocol_of, FragmentKind, Transport, UdpHeader, UDP_CHECKSUM_AT,
};

/// Assigned Internet protocol numbers: the protocol field of IPv4 and the next header of IPv6.
pub mod protocol {
    #![allow(missing_docs)]
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMPV4: u8 = 1;
    pub const IGMP: u8 = 2;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const DCCP: u8 = 33;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const AH: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DESTINATION_OPTIONS: u8 = 60;
    pub const MOBILITY: u8 = 135;
    pub const UDP_LITE: u8 = 136;
    pub const HIP: u8 = 139;
    pub const SHIM6: u8 = 140;
}
