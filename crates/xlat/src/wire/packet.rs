// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a packet's translation needs of its headers, taken together.

use super::{Chain, Ipv4, Ipv6};

/// The addresses of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses<A> {
    /// Its source.
    pub src: A,
    /// Its destination.
    pub dst: A,
}

/// The headers of a received IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct Headers4<'a> {
    /// The IPv4 header.
    pub ip: &'a Ipv4,
    /// The hop limit with which the packet leaves.
    pub hop_limit: u8,
}

/// The headers of a received IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub struct Headers6<'a> {
    /// The IPv6 header.
    pub ip: &'a Ipv6,
    /// The hop limit with which the packet leaves.
    pub hop_limit: u8,
    /// The extension headers.
    pub chain: &'a Chain,
}
