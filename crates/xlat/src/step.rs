// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of a packet that need no state, for a trace.

use crate::addr::Via;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which address of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
    /// The source of the packet that an ICMP error quotes.
    QuotedSource,
    /// The destination of that packet.
    QuotedDestination,
}

/// A step of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An address was mapped.
    Mapped {
        /// Which one.
        end: End,
        /// In IPv6.
        v6: Ipv6Addr,
        /// In IPv4.
        v4: Ipv4Addr,
        /// By what.
        via: Via,
    },
    /// An address of an ICMP error, or of the packet that it quotes, has none in the other family.
    Unmapped {
        /// Which one.
        end: End,
        /// The address.
        addr: IpAddr,
    },
    /// The error is a router's, and leaves with this source in place of the router's own (RFC 6791).
    StandsIn {
        /// The router.
        router: IpAddr,
        /// The source.
        by: IpAddr,
    },
    /// The destination is behind the translator, as the source is: the packet turns back (RFC 6146 section 3.8, RFC 7757
    /// section 4.2).
    Turns,
    /// A fragment is translated by itself, without regard to the others of its packet.
    LoneFragment,
}
