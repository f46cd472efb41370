// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A prefix that may be used, who says so, and until when.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::Ipv6Net;

/// Time since some moment before the first, which is always the same.
pub type Moment = Duration;

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A router, by its link-local address (RFC 8781).
    Router(Ipv6Addr),
    /// A resolver (RFC 7050).
    Resolver(SocketAddr),
}

/// A prefix that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The prefix.
    pub prefix: Ipv6Net,
    /// Who says so.
    pub source: Source,
    /// Until when it may be used, unless it is confirmed before.
    pub until: Moment,
}
