// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tables tell whoever keeps a copy of them (the fast path's maps, a log), and what they ask.

use super::bib::Origin;
use super::tcp::SessionState;
use crate::config::{Binding, Endpoint4, Endpoint6, Gateway, Protocol};
use diolkos_xlat::verdict::Reason;
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
    /// A copy of another gateway's binding was made, for packets that pass here. Its sessions are told as any others: their IPv4 address
    /// says whose they are ([`super::State::owner_of`]).
    CopyMade(Binding, Gateway),
    /// A copy has ended, and not what it is a copy of. All its sessions have.
    CopyEnded(Binding, Gateway),
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
    /// That of an address and port of another gateway.
    V4(Protocol, Endpoint4),
}

impl Missing {
    /// Is it this binding?
    pub fn is_answered_by(&self, binding: &Binding) -> bool {
        match *self {
            Missing::V6(protocol, v6) => (binding.protocol, binding.v6) == (protocol, v6),
            Missing::V4(protocol, v4) => (binding.protocol, binding.v4) == (protocol, v4),
        }
    }
}

/// What to do with a packet for which this gateway has no binding of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Translate it by this binding, which another gateway has opened.
    Copy(Binding),
    /// Nobody else has one: open it here, if the packet may.
    Open,
    /// Give it to that gateway, as it is.
    Forward(Gateway),
    /// Drop it.
    Drop(Reason),
}

/// Hears of changes, and knows of packets that the tables did not see.
pub trait Watcher {
    /// The tables have changed. It is called in the order of the changes.
    fn event(&mut self, event: Event);

    /// When did a packet last use a session, on the clock of the caller? None if nobody but the tables
    /// has seen any. It is asked before the session expires or changes without being refreshed, and by
    /// [`super::State::catch_up`]; afterwards the answer can be forgotten.
    fn last_seen(&mut self, session: &SessionView) -> Option<Duration>;

    /// What to do with a packet for which there is no binding? It is asked where several gateways serve the same hosts, before
    /// a packet opens a binding, is refused because there is none, or passes by a copy. Of an ICMP error, the packet that it quotes is meant, and
    /// `opens` is false: it opens nothing. Any other packet may, as far as who watches can know.
    ///
    /// A binding that does not answer the question, or has no room in the tables, does not count. A binding is used as a copy,
    /// until the deadline of its owner ([`super::State::set_deadline`]).
    fn missing(&mut self, missing: Missing, opens: bool) -> Way {
        let _ = (missing, opens);
        Way::Open
    }

    /// The time now on a clock that goes on while the machine sleeps (CLOCK_BOOTTIME), for the deadlines of copies. It is asked before
    /// each packet that is to pass by a copy. Who does not know it uses none.
    fn boottime(&mut self) -> Duration {
        Duration::MAX
    }

    /// A packet of a node's port is about to leave, by a binding of this gateway or by a copy. It is told before the packet is
    /// written, also of one that opens the binding.
    fn sends(&mut self, protocol: Protocol, v6: Endpoint6) {
        let _ = (protocol, v6);
    }

    /// A packet that was held ([`diolkos_xlat::Verdict::Held`]) has been dropped.
    fn dropped(&mut self, reason: Reason);
}

/// Nobody watches.
impl Watcher for () {
    fn event(&mut self, _: Event) {}

    fn last_seen(&mut self, _: &SessionView) -> Option<Duration> {
        None
    }

    fn dropped(&mut self, _: Reason) {}
}
