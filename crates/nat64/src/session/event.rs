// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events that the tables report to their watchers (the fast path's maps, a log), and the queries to them.

use super::bib::Origin;
use super::tcp::SessionState;
use crate::config::{Binding, Endpoint4, Endpoint6, Gateway, Protocol};
use diolkos_xlat::verdict::Reason;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// A binding, as output and stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindingView {
    /// Protocol and both endpoints.
    pub binding: Binding,
    /// Its creator.
    pub origin: Origin,
    /// Number of its sessions.
    pub sessions: u32,
}

/// A session, as output, stored and copied to the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionView {
    /// Protocol and both endpoints of the node.
    pub binding: Binding,
    /// The IPv4 node; port 0 for ICMP.
    pub peer: Endpoint4,
    /// Configuration index of the translation prefix in which the node sees the peer.
    pub prefix: u8,
    /// The state.
    pub state: SessionState,
    /// Remaining lifetime without further packets.
    pub remaining: Duration,
}

impl SessionView {
    /// Returns true if the fast path may translate the session, provided that it reports packets with SYN, FIN or RST.
    pub fn is_for_fast_path(&self) -> bool {
        self.state.is_moved_by_flags_alone()
    }
}

/// A port block of a source, for every protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockView {
    /// The prefix of the source.
    pub source: Ipv6Addr,
    /// Prefix length of the source.
    pub source_prefix_len: u8,
    /// The address.
    pub addr: Ipv4Addr,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// A change of the tables. Events of a session come after the event that opens its binding and before the one that
/// closes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A binding was opened.
    BindingOpened(Binding),
    /// A binding was closed, after all its sessions.
    BindingClosed(Binding),
    /// A copy of another gateway's binding was created for packets that arrive here. Its sessions are reported like all
    /// others; the IPv4 address identifies their owner ([`super::State::owner_of`]).
    CopyMade(Binding, Gateway),
    /// A copy was removed, but not the binding that it copies. All its sessions are closed.
    CopyEnded(Binding, Gateway),
    /// A session was opened.
    SessionOpened(SessionView),
    /// The state of a session, or the prefix in which the node sees the peer, has changed. The old values are included.
    SessionChanged(SessionView, (SessionState, u8)),
    /// A session was closed.
    SessionClosed(SessionView),
    /// A source has got a port block.
    BlockAllocated(BlockView),
    /// A source has lost a port block.
    BlockReleased(BlockView),
}

/// A binding that the tables do not have, identified by one of its endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The binding of a node's port.
    V6(Protocol, Endpoint6),
    /// The binding of an address and port of another gateway.
    V4(Protocol, Endpoint4),
}

impl Missing {
    /// Returns true if this binding has the missing endpoint.
    pub fn is_answered_by(&self, binding: &Binding) -> bool {
        match *self {
            Missing::V6(protocol, v6) => (binding.protocol, binding.v6) == (protocol, v6),
            Missing::V4(protocol, v4) => (binding.protocol, binding.v4) == (protocol, v4),
        }
    }
}

/// The treatment of a packet for which this gateway has no binding of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Translate it with this binding, which another gateway has opened.
    Copy(Binding),
    /// No other gateway has a binding: open one here, if the packet may.
    Open,
    /// Forward it to that gateway unchanged.
    Forward(Gateway),
    /// Drop it for this reason.
    Drop(Reason),
}

/// Receives the changes of the tables, and provides what the tables cannot see.
pub trait Watcher {
    /// Reports a change of the tables, in the order of changes.
    fn event(&mut self, event: Event);

    /// The time on the caller's clock at which a packet outside the tables last used a session. None if there was no
    /// such packet. Called before the session expires or changes without a refresh, and by [`super::State::catch_up`];
    /// the answer is not needed again.
    fn last_seen(&mut self, session: &SessionView) -> Option<Duration>;

    /// Decides about a packet without a binding. Called only if several gateways serve the same nodes, before a packet
    /// opens a binding, is refused because it has none, or uses a copy. For an ICMP error, the quoted packet is looked
    /// up, and `opens` is false, because an error opens no binding. `opens` is true for any other packet that may open
    /// one, as far as the watcher can know.
    ///
    /// A binding that does not have the missing endpoint, or for which the tables have no room, is ignored. A binding
    /// is used as a copy until the deadline of its owner ([`super::State::set_deadline`]).
    fn missing(&mut self, missing: Missing, opens: bool) -> Way {
        let _ = (missing, opens);
        Way::Open
    }

    /// The time on a clock that continues during suspend (CLOCK_BOOTTIME), for the deadlines of copies. Called before
    /// each packet that uses a copy. The default makes all copies expired.
    fn boottime(&mut self) -> Duration {
        Duration::MAX
    }

    /// Reports that a packet from a node's port is about to be sent, with a binding of this gateway or a copy. Called
    /// before the packet is written, also for the packet that opens the binding.
    fn sends(&mut self, protocol: Protocol, v6: Endpoint6) {
        let _ = (protocol, v6);
    }

    /// Reports that a held packet ([`diolkos_xlat::Verdict::Held`]) was dropped.
    fn dropped(&mut self, reason: Reason);
}

/// A watcher that ignores all events.
impl Watcher for () {
    fn event(&mut self, _: Event) {}

    fn last_seen(&mut self, _: &SessionView) -> Option<Duration> {
        None
    }

    fn dropped(&mut self, _: Reason) {}
}
