// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session of the tables (RFC 6146 section 3.2) and its list links.

use super::clock::Millis;
use super::slab::NONE;
use super::tcp::{Segment, SessionState, Side};
use crate::config::Endpoint4;

/// Links to the neighbours in a list.
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

/// A session. Kept small, because there may be millions.
#[derive(Debug)]
pub struct Session {
    /// Time of the last refresh by a packet that the slow path saw.
    pub last: Millis,
    /// Index of its binding.
    pub bib: u32,
    /// The IPv4 node; port 0 for ICMP.
    pub peer: Endpoint4,
    /// Links among the sessions of its binding.
    pub siblings: Links,
    /// Links on the timer wheel.
    pub timer: Links,
    pub slot: u16,
    pub state: SessionState,
    /// Index of the translation prefix in which the node sees the peer.
    pub prefix: u8,
    /// True if the IPv4 side opened it.
    pub outside: bool,
    /// True for a connection joined in its middle, until both sides have been seen.
    pub one_sided: bool,
}

impl Session {
    /// Returns the state after a packet, and whether its timeout restarts ([`SessionState::after`]).
    ///
    /// A connection joined in its middle is established once both sides have been seen, and transitory before that. As
    /// for a connection seen from its start (RFC 6146 section 3.5.2.2, V4 INIT and V6 INIT), only the node can keep it
    /// alive without an answer.
    pub fn after(&self, side: Side, segment: Segment) -> (SessionState, bool) {
        let seen = if self.outside { Side::V4 } else { Side::V6 };
        if self.one_sided && side == seen {
            return (self.state, side == Side::V6 && segment != Segment::Rst);
        }
        self.state.after(side, segment)
    }
}
