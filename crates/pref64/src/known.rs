// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A known prefix, its source and its expiry.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::Ipv6Net;

/// Time since a fixed moment that precedes all events.
pub type Moment = Duration;

/// The source of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A router, by its link-local address (RFC 8781).
    Router(Ipv6Addr),
    /// A resolver (RFC 7050).
    Resolver(SocketAddr),
}

/// A known prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The prefix.
    pub prefix: Ipv6Net,
    /// The router or resolver that announced it.
    pub source: Source,
    /// The time at which it expires, unless it is confirmed before.
    pub until: Moment,
}
