// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The session tables (RFC 6146 section 3.2): the peers of each binding, and the time of their last
//! packet.

use super::bib::Bib;
use super::clock::Millis;
use super::entry::{Links, Session};
use super::slab::{Slab, NONE};
use super::tcp::{Lifetime, SessionState};
use super::timer::Wheel;
use crate::config::{Endpoint4, Timeouts};
use crate::key::{Keys, Table};

/// A peer of a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownPeer {
    /// Its transport address.
    pub v4: Endpoint4,
    /// Index of the translation prefix in which the node sees it.
    pub prefix: u8,
}

/// What a session begins with.
#[derive(Clone, Copy, Debug)]
pub struct NewSession {
    /// Its binding.
    pub bib: u32,
    pub peer: KnownPeer,
    /// True if the IPv4 side has opened it.
    pub outside: bool,
    pub state: SessionState,
    /// The time of its last packet.
    pub last: Millis,
    pub deadline: Millis,
}

/// All sessions, of all protocols.
#[derive(Debug)]
pub struct Sessions {
    sessions: Slab<Session>,
    by_peer: Table,
    wheel: Wheel,
    keys: Keys,
    /// Number of sessions of each protocol.
    of_protocol: [u32; 3],
}

impl Sessions {
    pub fn new(keys: Keys) -> Sessions {
        Sessions {
            sessions: Slab::new(),
            by_peer: Table::new(),
            wheel: Wheel::new(),
            keys,
            of_protocol: [0; 3],
        }
    }

    pub fn len(&self) -> u32 {
        self.sessions.len()
    }

    pub fn of_protocol(&self) -> [u32; 3] {
        self.of_protocol
    }

    /// The session of a binding with a peer.
    #[inline]
    pub fn find(&self, bib: u32, peer: Endpoint4) -> Option<u32> {
        let is_it = |at| {
            let session: &Session = &self.sessions[at];
            session.bib == bib && session.peer == peer
        };
        self.by_peer.find(self.keys.numbered(bib, peer), is_it)
    }

    /// Adds a session that is not there.
    pub fn insert(&mut self, bindings: &mut Bib, session: NewSession) -> u32 {
        let NewSession {
            bib,
            peer: KnownPeer { v4: peer, prefix },
            outside,
            state,
            last,
            deadline,
        } = session;
        let binding = &mut bindings[bib];
        let first = binding.first;
        let at = self.sessions.insert(Session {
            last,
            bib,
            peer,
            siblings: Links {
                previous: NONE,
                next: first,
            },
            timer: Links::NONE,
            slot: 0,
            state,
            prefix,
            outside,
            one_sided: false,
        });
        binding.first = at;
        binding.sessions += 1;
        self.of_protocol[binding.protocol.index()] += 1;
        binding.outside += u32::from(outside);
        if first != NONE {
            self.sessions[first].siblings.previous = at;
        }
        self.by_peer.insert(self.keys.numbered(bib, peer), at);
        self.wheel.add(&mut self.sessions, at, deadline);
        at
    }

    /// Removes a session that is on the timer wheel.
    pub fn remove(&mut self, bindings: &mut Bib, at: u32) -> Session {
        self.wheel.remove(&mut self.sessions, at);
        self.remove_popped(bindings, at)
    }

    /// Removes a session that [`Sessions::pop`] has returned.
    pub fn remove_popped(&mut self, bindings: &mut Bib, at: u32) -> Session {
        let session = self.sessions.remove(at);
        let Links { previous, next } = session.siblings;
        let binding = &mut bindings[session.bib];
        binding.sessions -= 1;
        self.of_protocol[binding.protocol.index()] -= 1;
        binding.outside -= u32::from(session.outside);
        if previous == NONE {
            binding.first = next;
        } else {
            self.sessions[previous].siblings.next = next;
        }
        if next != NONE {
            self.sessions[next].siblings.previous = previous;
        }
        let hash = self.keys.numbered(session.bib, session.peer);
        self.by_peer.remove(hash, at);
        session
    }

    /// Has the memory that the removal of these sessions needs fetched, without waiting for it ([`Table::fetch`]).
    pub fn fetch(&self, all: &[u32]) {
        let hash = |at: &u32| {
            let session = &self.sessions[*at];
            self.keys.numbered(session.bib, session.peer)
        };
        let fetched = all.iter().map(|at| self.by_peer.fetch(hash(at)));
        std::hint::black_box(fetched.fold(0, |all, word| all ^ word));
    }

    /// Takes the next session whose deadline may have passed at `now` off the timer wheel.
    pub fn pop(&mut self, now: Millis) -> Option<u32> {
        self.wheel.pop(&mut self.sessions, now)
    }

    /// The earliest time at which [`Sessions::pop`] returns a session. None if there are none.
    pub fn next(&self) -> Option<Millis> {
        self.wheel.next()
    }

    /// Puts a session that [`Sessions::pop`] has returned back on the timer wheel.
    pub fn hang_up(&mut self, at: u32, deadline: Millis) {
        self.wheel.add(&mut self.sessions, at, deadline);
    }

    /// Moves a session on the timer wheel, because its deadline is earlier than before.
    pub fn hasten(&mut self, at: u32, deadline: Millis) {
        self.wheel.remove(&mut self.sessions, at);
        self.wheel.add(&mut self.sessions, at, deadline);
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Session)> {
        self.sessions.iter()
    }

    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, Option<&Session>)> {
        self.sessions.iter_from(first)
    }

    pub fn memory(&self) -> usize {
        self.sessions.memory() + self.by_peer.memory() + self.wheel.memory()
    }
}

impl std::ops::Index<u32> for Sessions {
    type Output = Session;

    #[inline]
    fn index(&self, at: u32) -> &Session {
        &self.sessions[at]
    }
}

impl std::ops::IndexMut<u32> for Sessions {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Session {
        &mut self.sessions[at]
    }
}

/// The timeout of a lifetime in milliseconds.
pub fn millis_of(lifetime: Lifetime, timeouts: &Timeouts) -> Millis {
    let timeout = match lifetime {
        Lifetime::Udp => timeouts.udp,
        Lifetime::Icmp => timeouts.icmp,
        Lifetime::Established => timeouts.tcp_established,
        Lifetime::Transitory => timeouts.tcp_transitory,
    };
    timeout.as_millis() as Millis
}
