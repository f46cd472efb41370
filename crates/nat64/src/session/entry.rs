// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One session of the tables (RFC 6146 section 3.2), and the lists that it is on.

use super::clock::Millis;
use super::slab::NONE;
use super::tcp::{Segment, SessionState, Side};
use crate::config::Endpoint4;

/// Neighbours in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Links {
    pub previous: u32,
    pub next: u32,
}

impl Links {
    pub const NONE: Links = Links {
        previous: NONE,
        next: NONE,
    };
}

/// A session. Small: there may be millions.
#[derive(Debug)]
pub struct Session {
    /// When a packet last refreshed it, as far as we have seen.
    pub last: Millis,
    /// Its binding.
    pub bib: u32,
    /// The IPv4 node; with ICMP, port 0.
    pub peer: Endpoint4,
    /// Among the sessions of its binding.
    pub siblings: Links,
    /// On the wheel.
    pub timer: Links,
    pub slot: u16,
    pub state: SessionState,
    /// By which translation prefix the node knows the peer.
    pub prefix: u8,
    /// The IPv4 side has opened it.
    pub outside: bool,
    /// A connection that was met in its middle, of which only the side that opened the session has been seen so far.
    pub one_sided: bool,
}

impl Session {
    /// The state after a packet, and whether its timeout begins anew ([`SessionState::after`]).
    ///
    /// A connection that was met in its middle is established once both sides have been seen, and transitory until then. As
    /// with one that is met at its beginning (RFC 6146 section 3.5.2.2, V4 INIT and V6 INIT), only the node can make it
    /// last without an answer.
    pub fn after(&self, side: Side, segment: Segment) -> (SessionState, bool) {
        let seen = if self.outside { Side::V4 } else { Side::V6 };
        if self.one_sided && side == seen {
            return (self.state, side == Side::V6 && segment != Segment::Rst);
        }
        self.state.after(side, segment)
    }
}
