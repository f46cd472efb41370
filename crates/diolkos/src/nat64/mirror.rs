// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path's copy of the sessions: what the tables tell goes into its maps, and what the maps tell keeps sessions
//! alive. Bindings of UDP are copied too: a program that may open sessions has to know which ports are bound.
//!
//! Only sessions in a steady state are copied; of the others every packet belongs to the controller. Those with a peer
//! that is one of our own addresses are not copied either: their packets turn back to IPv6 in one hop (RFC 6146 section
//! 3.8), which the programs do not do.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Nat64Config, Protocol};
use diolkos_core::session::{Event, Origin, SessionView, State, Watcher};
use diolkos_core::Reason;
use diolkos_sys::fastpath::{Session, Sessions, Told};
use ipnet::Ipv4Net;

use super::fastpath::FastPath;

/// Keeps the copy. Without a fast path there is none, and nothing to do.
#[derive(Debug)]
pub struct Mirror {
    fast: Option<Arc<dyn FastPath>>,
    /// Networks in which a peer may be a node of ours.
    own: Vec<Ipv4Net>,
    /// Packets that were dropped after they had been held.
    dropped: Vec<Reason>,
    /// Sessions that the maps did not take: their packets stay with the slow path.
    pub refused: u64,
    /// Something has happened since this was last put back.
    pub changed: bool,
    /// A binding is missing in the maps, or an address of ours is none of the configuration's: the programs must not
    /// open anything.
    pub is_incomplete: bool,
    /// Nodes for which packets have opened sessions.
    opened: Vec<(Protocol, Ipv6Addr)>,
    /// Sessions come back that packets of an earlier run have opened.
    pub is_restoring: bool,
    /// A program has made what the tables are told about now: the session, or also the binding.
    adopting: Option<Told>,
}

impl Mirror {
    /// Without sessions yet.
    pub fn new(config: &Nat64Config, fast: Option<Arc<dyn FastPath>>) -> Mirror {
        Mirror {
            fast,
            own: own_networks(config),
            dropped: Vec::new(),
            refused: 0,
            changed: false,
            is_incomplete: false,
            opened: Vec::new(),
            is_restoring: false,
            adopting: None,
        }
    }

    /// Copies the bindings with which the tables begin.
    pub fn begin(&mut self, state: &State) {
        for view in state.bindings() {
            self.bind(&view.binding);
        }
    }

    /// A node for which a packet has opened a session; each is told once.
    pub fn take_opened(&mut self) -> Option<(Protocol, Ipv6Addr)> {
        self.opened.pop()
    }

    /// A program has opened a session by itself, or its binding, or both: the tables take it over, or it is taken out
    /// again.
    pub fn adopt(&mut self, state: &mut State, view: &SessionView, told: Told, now: Duration) {
        self.adopting = Some(told);
        let adopted = state.adopt(view, now, self);
        self.adopting = None;
        let Binding { protocol, v4, v6 } = view.binding;
        let Err(reason) = adopted else {
            if told == Told::Alone {
                state
                    .session(protocol, v6, view.peer)
                    .inspect(|there| self.copy(there));
            }
            return;
        };
        tracing::debug!(
            reason = reason.name(),
            "a session of the fast path's own is refused"
        );
        // What stands in its place may be another node's.
        let owner = state.v6_of(protocol, v4, view.peer).ok();
        match owner.and_then(|(node, _)| state.session(protocol, node, view.peer)) {
            Some(there) => self.copy(&there),
            None => self.remove(view),
        }
        // The node's port is bound otherwise, or not at all.
        match state.v4_of(protocol, v6) {
            Some(v4) => self.bind(&Binding { v4, ..view.binding }),
            None => self.unbind(&view.binding),
        }
    }

    /// The kernel's maps, if there is a fast path.
    pub(super) fn sessions(&self) -> Option<Arc<Sessions>> {
        self.fast.as_ref()?.maps()
    }

    /// Takes all of them out.
    pub fn clear(&self, all: impl Iterator<Item = SessionView>) {
        all.for_each(|session| self.remove(&session));
    }

    /// The configuration has changed. The copy is made anew if it was taken out, or if other addresses are ours now.
    pub fn follow(&mut self, config: &Nat64Config, state: &mut State, cleared: bool) {
        let operators = state
            .bindings()
            .filter(|view| view.origin == Origin::Operator)
            .map(|view| view.binding.v4.addr.into());
        let own = own_networks(config).into_iter().chain(operators);
        let own = Ipv4Net::aggregate(&own.collect());
        // Those of the operator, the programs do not know.
        self.is_incomplete = own != Ipv4Net::aggregate(&own_networks(config));
        if own == self.own && !cleared {
            return;
        }
        self.own = own;
        if !cleared {
            state.catch_up(0, usize::MAX, self);
        }
        for session in state.sessions() {
            self.copy(&session);
        }
    }

    /// An address outside the pool has become one of ours: its sessions as a peer leave the fast path.
    pub fn add_own(&mut self, address: Ipv4Addr, all: impl Iterator<Item = SessionView>) {
        if self.is_own(address) {
            return;
        }
        self.is_incomplete = true;
        self.own.push(address.into());
        self.own = Ipv4Net::aggregate(&self.own);
        for session in all.filter(|session| session.peer.addr == address) {
            self.remove(&session);
        }
    }

    /// The drops since the last call.
    pub fn take_dropped(&mut self) -> impl Iterator<Item = Reason> + '_ {
        self.dropped.drain(..)
    }

    pub(super) fn is_own(&self, address: Ipv4Addr) -> bool {
        self.own.iter().any(|net| net.contains(&address))
    }

    pub(super) fn copy(&mut self, view: &SessionView) {
        if !view.is_for_fast_path() || self.is_own(view.peer.addr) {
            return self.remove(view);
        }
        let Some(fast) = &self.fast else {
            return;
        };
        if let Err(error) = fast.put(&session(view)) {
            self.refused += 1;
            tracing::trace!("a session stays with the slow path: {error}");
            // Half of an older copy may be there.
            self.remove(view);
        }
    }

    fn bind(&mut self, binding: &Binding) {
        let (Some(fast), Protocol::Udp) = (&self.fast, binding.protocol) else {
            return;
        };
        let (v6, v4) = (binding.v6, binding.v4);
        if let Err(error) = fast.bind((v6.addr, v6.port), (v4.addr, v4.port)) {
            tracing::warn!(
                "the fast path opens no sessions: it does not know all bindings: {error}"
            );
            self.is_incomplete = true;
        }
    }

    fn unbind(&self, binding: &Binding) {
        let (Some(fast), Protocol::Udp) = (&self.fast, binding.protocol) else {
            return;
        };
        if let Err(error) = fast.unbind((binding.v6.addr, binding.v6.port)) {
            tracing::warn!("a binding cannot be taken out of the fast path: {error}");
        }
    }

    fn remove(&self, view: &SessionView) {
        let Some(fast) = &self.fast else {
            return;
        };
        if let Err(error) = fast.remove(&session(view)) {
            tracing::warn!("a session cannot be taken out of the fast path: {error}");
        }
    }
}

impl Watcher for Mirror {
    fn event(&mut self, event: Event) {
        self.changed = true;
        match event {
            // What a program has opened is there already.
            Event::SessionOpened(view)
                if self.adopting.is_some() && !self.is_own(view.peer.addr) => {}
            Event::SessionOpened(view) => {
                let Binding { protocol, v6, .. } = view.binding;
                if !self.is_restoring {
                    self.opened.push((protocol, v6.addr));
                }
                self.copy(&view);
            }
            Event::SessionChanged(view) => self.copy(&view),
            Event::SessionClosed(view) => self.remove(&view),
            Event::BindingOpened(_) if matches!(self.adopting, Some(Told::Bound | Told::Alone)) => {
            }
            Event::BindingOpened(binding) => self.bind(&binding),
            Event::BindingClosed(binding) => self.unbind(&binding),
        }
    }

    fn last_seen(&mut self, view: &SessionView) -> Option<Duration> {
        let fast = self.fast.as_ref()?;
        fast.last_seen(&session(view)).ok()?
    }

    fn dropped(&mut self, reason: Reason) {
        self.dropped.push(reason);
    }
}

/// Networks in which a peer may be a node of ours, by the configuration.
pub fn own_networks(config: &Nat64Config) -> Vec<Ipv4Net> {
    let pool = config.pool4.iter().map(|part| part.net);
    let bound = config.bindings.iter().map(|b| Ipv4Net::from(b.v4.addr));
    Ipv4Net::aggregate(&pool.chain(bound).collect())
}

/// As the maps have it: protocols by IPv4's numbers.
pub(super) fn session(view: &SessionView) -> Session {
    let binding = &view.binding;
    Session {
        protocol: match binding.protocol {
            Protocol::Icmp => 1,
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        },
        node: (binding.v6.addr, binding.v6.port),
        v4: (binding.v4.addr, binding.v4.port),
        peer: (view.peer.addr, view.peer.port),
        prefix: view.prefix,
    }
}
