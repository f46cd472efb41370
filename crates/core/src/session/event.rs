// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tables tell whoever keeps a copy of them (the fast path's maps, a log), and what they ask.

use super::bib::Origin;
use super::tcp::SessionState;
use crate::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
use crate::trace::Step;
use crate::verdict::Reason;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// A binding, for output and for stored state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindingView {
    /// Protocol and both ends.
    pub binding: Binding,
    /// Who made it.
    pub origin: Origin,
    /// Its sessions.
    pub sessions: u32,
}

/// A session, for output, stored state and the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionView {
    /// Protocol and both ends of the node.
    pub binding: Binding,
    /// The IPv4 node; with ICMP, port 0.
    pub peer: Endpoint4,
    /// The place in the configuration of the prefix in which the node sees the peer.
    pub prefix: u8,
    /// The state.
    pub state: SessionState,
    /// How long it will live without another packet.
    pub remaining: Duration,
}

impl SessionView {
    /// May the fast path translate it, if it tells of packets with SYN, FIN or RST?
    pub fn is_for_fast_path(&self) -> bool {
        self.state.is_moved_by_flags_alone()
    }
}

/// A block of ports that a source has, for every protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockView {
    /// The source's prefix.
    pub source: Ipv6Addr,
    /// And its length, bits.
    pub source_prefix_len: u8,
    /// The address.
    pub addr: Ipv4Addr,
    /// The first port.
    pub first: u16,
    /// The last one.
    pub last: u16,
}

/// A change of the tables. A session's events come after its binding's beginning and before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A binding was made.
    BindingOpened(Binding),
    /// A binding has ended. All its sessions have.
    BindingClosed(Binding),
    /// A session has begun.
    SessionOpened(SessionView),
    /// The state of a session, or the prefix by which its peer is known, has changed. Both are told as they were.
    SessionChanged(SessionView, (SessionState, u8)),
    /// A session has ended.
    SessionClosed(SessionView),
    /// A source got a block of ports.
    BlockAllocated(BlockView),
    /// A block is nobody's any more.
    BlockReleased(BlockView),
}

/// A binding that the tables do not have, by one of its sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// That of a node's port.
    V6(Protocol, Endpoint6),
    /// That of an address and port of a slice.
    V4(Protocol, Endpoint4),
}

/// Hears of changes, and knows of packets that the tables did not see.
pub trait Watcher {
    /// The tables have changed. It is called in the order of the changes.
    fn event(&mut self, event: Event);

    /// When did a packet last use a session, on the clock of the caller? None if nobody but the tables
    /// has seen any. It is asked before the session expires or changes without being refreshed, and by
    /// [`super::State::catch_up`]; afterwards the answer can be forgotten.
    fn last_seen(&mut self, session: &SessionView) -> Option<Duration>;

    /// Which binding is it, if another gateway has opened it? It is asked where several share the pool, before a packet opens a
    /// binding or is refused because there is none. What does not answer the question, or has no room in the tables, is
    /// ignored; else the binding is inherited ([`super::State::inherit`]).
    fn missing(&mut self, missing: Missing) -> Option<Binding> {
        let _ = missing;
        None
    }

    /// A packet that was held ([`crate::Verdict::Held`]) has been dropped.
    fn dropped(&mut self, reason: Reason);

    /// Is told of a step on the way of a packet, for those who want to know why it went so.
    #[inline(always)]
    fn step(&mut self, step: impl FnOnce() -> Step) {
        let _ = step;
    }
}

/// Nobody watches.
impl Watcher for () {
    fn event(&mut self, _: Event) {}

    fn last_seen(&mut self, _: &SessionView) -> Option<Duration> {
        None
    }

    fn dropped(&mut self, _: Reason) {}
}
