// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path's copy of the sessions: what the tables tell goes into its maps, and what the maps tell keeps sessions
//! alive.
//!
//! Only sessions in a steady state are copied; of the others every packet belongs to the controller. Those with a peer
//! that is one of our own addresses are not copied either: their packets turn back to IPv6 in one hop (RFC 6146 section
//! 3.8), which the programs do not do.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use diolkos_core::config::nat64::{Nat64Config, Protocol};
use diolkos_core::session::{Event, Origin, SessionView, State, Watcher};
use diolkos_core::Reason;
use diolkos_sys::fastpath::{Session, Sessions};
use ipnet::Ipv4Net;

/// Keeps the copy. Without a fast path there is none, and nothing to do.
#[derive(Debug)]
pub struct Mirror {
    sessions: Option<Arc<Sessions>>,
    /// Networks in which a peer may be a node of ours.
    own: Vec<Ipv4Net>,
    /// Packets that were dropped after they had been held.
    dropped: Vec<Reason>,
    /// Sessions that the maps did not take: their packets stay with the slow path.
    pub refused: u64,
}

impl Mirror {
    /// Without sessions yet.
    pub fn new(config: &Nat64Config, sessions: Option<Arc<Sessions>>) -> Mirror {
        Mirror {
            sessions,
            own: own_networks(config),
            dropped: Vec::new(),
            refused: 0,
        }
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

    fn is_own(&self, address: Ipv4Addr) -> bool {
        self.own.iter().any(|net| net.contains(&address))
    }

    fn copy(&mut self, view: &SessionView) {
        if !view.is_for_fast_path() || self.is_own(view.peer.addr) {
            return self.remove(view);
        }
        let Some(sessions) = &self.sessions else {
            return;
        };
        if let Err(error) = sessions.put(&session(view)) {
            self.refused += 1;
            tracing::trace!("a session stays with the slow path: {error}");
            // Half of an older copy may be there.
            self.remove(view);
        }
    }

    fn remove(&self, view: &SessionView) {
        let Some(sessions) = &self.sessions else {
            return;
        };
        if let Err(error) = sessions.remove(&session(view)) {
            tracing::warn!("a session cannot be taken out of the fast path: {error}");
        }
    }
}

impl Watcher for Mirror {
    fn event(&mut self, event: Event) {
        match event {
            Event::SessionOpened(view) | Event::SessionChanged(view) => self.copy(&view),
            Event::SessionClosed(view) => self.remove(&view),
            Event::BindingOpened(_) | Event::BindingClosed(_) => {}
        }
    }

    fn last_seen(&mut self, view: &SessionView) -> Option<Duration> {
        let seen =
            |sessions: &Arc<Sessions>| -> io::Result<_> { sessions.last_seen(&session(view)) };
        self.sessions
            .as_ref()
            .and_then(|sessions| seen(sessions).ok()?)
    }

    fn dropped(&mut self, reason: Reason) {
        self.dropped.push(reason);
    }
}

fn own_networks(config: &Nat64Config) -> Vec<Ipv4Net> {
    let pool = config.pool4.iter().map(|part| part.net);
    let bound = config.bindings.iter().map(|b| Ipv4Net::from(b.v4.addr));
    Ipv4Net::aggregate(&pool.chain(bound).collect())
}

/// As the maps have it: protocols by IPv4's numbers.
fn session(view: &SessionView) -> Session {
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
