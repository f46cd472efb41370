// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path's copy of the sessions: events of the tables go into its maps, and the time stamps of the maps keep
//! sessions alive. Bindings are copied too: a program that may open sessions has to know which ports are bound.
//!
//! The copy does not contain the state of TCP, because no packet's translation depends on it; programs report each
//! segment that may change the state. Only after an RST can any other packet change it, too: such a session is not
//! copied, and the controller handles every packet of it. Sessions whose peer is one of our own addresses are not
//! copied either: their packets turn back to IPv6 in one hop (RFC 6146 section 3.8), which the programs do not do.
//!
//! Operations that are valid only during a restore or a change of the configuration are methods of [`Restoring`] and
//! [`Changing`].

mod rebuilding;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{Owner, Report, Session, OWN};
use diolkos_nat64::config::{Binding, Endpoint6, Nat64Config, Owners, Protocol};
use diolkos_nat64::session::{
    Event, Missing, Origin, SessionState, SessionView, State, Watcher, Way,
};
use diolkos_node::gateway::Changed;
use diolkos_xlat::Reason;
use ipnet::Ipv4Net;

use super::clocks::Clocks;
use super::conversion::{is_copied_alike, node_port, sent, to_maps};
use super::deferral::Deferral;
use super::fastpath::FastPath;
use super::peers::{changed_by, Peers};
use super::phase::{Lack, Phase};
use super::records::Records;
use super::removals::Removals;

use rebuilding::Meanwhile;
pub use rebuilding::{Changing, Restoring};

/// Maintains the copy. Without a fast path there is no copy, and nothing to do.
#[derive(Debug)]
pub struct Mirror {
    fast: Option<Arc<dyn FastPath>>,
    /// Networks in which a peer may be a node of ours.
    own: Vec<Ipv4Net>,
    /// True if the operator has bound others than the configuration, which programs do not know.
    has_unconfigured: bool,
    /// Reasons for which held packets were dropped.
    dropped: Vec<Reason>,
    /// Number of sessions that the maps did not accept: the slow path handles their packets.
    pub refused: u64,
    /// True if something has changed since this was last reset.
    pub changed: bool,
    phase: Phase,
    /// Nodes for which packets have opened sessions.
    opened: Vec<(Protocol, Ipv6Addr)>,
    /// Set while the tables adopt what a program has created: a session, or a session and its binding.
    adopting: Option<Report>,
    removals: Removals,
    /// The recorder of bindings, if there is one.
    pub records: Option<Box<dyn Records>>,
    /// The other gateways, if there are any. None while they change the tables themselves.
    pub peers: Option<Peers>,
    /// Changes in the meantime.
    pub aside: VecDeque<Changed>,
    /// The owners of the addresses of the cluster's pool.
    owners: Option<Owners>,
    /// The clocks that define the current time.
    pub clocks: Clocks,
}

impl Mirror {
    /// Creates a mirror without sessions.
    pub fn new(config: &Nat64Config, fast: Option<Arc<dyn FastPath>>) -> Mirror {
        Mirror {
            own: own_networks(config),
            has_unconfigured: false,
            dropped: Vec::new(),
            refused: 0,
            changed: false,
            phase: Phase::Whole,
            opened: Vec::new(),
            adopting: None,
            removals: Removals::new(fast.clone()),
            records: None,
            peers: None,
            aside: VecDeque::new(),
            owners: config.owners.clone(),
            clocks: Clocks::default(),
            fast,
        }
    }

    /// From now on, collects what the tables end, to remove it from the maps together in [`Mirror::take_out`]. No port
    /// may be lent or bound in between, and the lock must be held: a port whose binding is still in the maps is not
    /// free.
    pub fn gather(&mut self) {
        self.removals.gather();
    }

    /// Removes what was collected from the maps.
    pub fn take_out(&mut self) {
        self.removals.finish();
    }

    /// Copies the bindings that the tables have at the start.
    pub fn begin(&mut self, state: &State) {
        for view in state.bindings() {
            self.bind(&view.binding);
        }
    }

    /// From now on, programs may drop what comes from outside to ports that neither a binding nor a lease has. Not with
    /// several gateways: another one may have the binding. Nor if the programs do not know all addresses of ours, from
    /// which such packets are dropped for another reason. Nothing may be lent when this begins.
    pub fn tell_unbound(&self, state: &State) {
        let Some(fast) = &self.fast else { return };
        if self.owners.is_some() || self.has_unconfigured || self.own.len() > OWN {
            return fast.hide_unbound();
        }
        if state.pool().leased_ports() == 0 {
            let bound = state.bindings().map(|view| view.binding);
            fast.tell_unbound(&mut bound.map(|its| (its.protocol, (its.v4.addr, its.v4.port))));
        }
    }

    /// Joins other gateways, which are told of these bindings.
    pub fn join(&mut self, mut peers: Peers, bindings: impl Iterator<Item = Binding>) {
        self.aside.clear();
        let now = (self.clocks.boottime)();
        bindings.for_each(|binding| peers.event(now, &Event::BindingOpened(binding)));
        self.peers = Some(peers);
    }

    /// Notes that a packet has arrived. `link` is the interface between gateways by which it arrived, or 0.
    pub fn packet_comes(&mut self, link: u32) {
        if let Some(peers) = &mut self.peers {
            peers.begin(link);
        }
    }

    /// Returns how far the copy can be relied on.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins the restore of sessions and bindings of an earlier run.
    pub fn restore(&mut self) -> Restoring<'_> {
        self.phase.restore();
        Restoring::of(self)
    }

    /// Begins a change of the configuration. With `renumbered`, programs would misread the prefix numbers of sessions,
    /// so the maps have no sessions meanwhile.
    pub fn change(&mut self, state: &mut State, renumbered: bool) -> Changing<'_> {
        self.phase.change();
        self.gather();
        if renumbered {
            state.catch_up(0, usize::MAX, self);
            state.sessions().for_each(|session| self.remove(&session));
            self.removals.flush();
        }
        let meanwhile = match renumbered {
            true => Meanwhile::Emptied,
            false => Meanwhile::Kept,
        };
        Changing::of(self, meanwhile)
    }

    /// Notes that the program ends. The copy stays for the next start.
    pub fn leave(&mut self) {
        self.phase.leave();
    }

    /// Returns a node for which a packet has opened a session; each is returned once.
    pub fn take_opened(&mut self) -> Option<(Protocol, Ipv6Addr)> {
        self.opened.pop()
    }

    /// Has the tables adopt what a program has opened by itself: a session, its binding, or both. If they refuse, it is
    /// removed from the maps again.
    pub fn adopt(&mut self, state: &mut State, view: &SessionView, report: Report, now: Duration) {
        self.adopting = Some(report);
        let adopted = state.adopt(view, now, self);
        self.adopting = None;
        let Binding { protocol, v4, v6 } = view.binding;
        let Err(reason) = adopted else {
            if report == Report::Alone {
                state
                    .session(protocol, v6, view.peer)
                    .inspect(|there| self.copy(there));
            }
            return;
        };
        if matches!(report, Report::Bound | Report::Alone) && state.v4_of(protocol, v6) != Some(v4)
        {
            // The program has sent a packet from there nevertheless.
            self.record(&Event::BindingOpened(view.binding));
            self.record(&Event::BindingClosed(view.binding));
        }
        tracing::debug!(
            reason = reason.name(),
            "a session that the fast path opened is refused"
        );
        // The entry in its place may belong to another node.
        let owner = state.v6_of(protocol, v4, view.peer).ok();
        match owner.and_then(|owner| state.session(protocol, owner.node, view.peer)) {
            Some(there) => {
                // With the entry, what programs have found by it goes.
                if there.binding.v6 != v6 {
                    self.remove(view);
                }
                self.copy(&there);
            }
            None => self.remove(view),
        }
        // The node's port has another binding, or none.
        match state.v4_of(protocol, v6) {
            Some(v4) => self.bind(&Binding { v4, ..view.binding }),
            None => self.unbind(&view.binding),
        }
    }

    /// Adapts the copy to a configuration, and determines anew what the copy lacks.
    fn follow(&mut self, config: &Nat64Config, state: &mut State, meanwhile: Meanwhile) {
        let operators = state
            .bindings()
            .filter(|view| view.origin == Origin::Operator)
            .map(|view| view.binding.v4.addr.into());
        let configured = Ipv4Net::aggregate(&own_networks(config));
        let own = configured.iter().copied().chain(operators);
        let own = Ipv4Net::aggregate(&own.collect());
        let lack = self.phase.search();
        if matches!(lack, Some(Lack::Binding | Lack::Rest)) {
            // There may be room now.
            self.begin(state);
        }
        // The programs do not know addresses that the operator has bound.
        self.has_unconfigured = own != configured;
        if self.has_unconfigured {
            self.phase.lose(Lack::Address);
        }
        let is_known = own == self.own;
        self.own = own;
        match (meanwhile, lack) {
            (Meanwhile::Emptied, _) => {}
            (Meanwhile::Kept, Some(Lack::Rest)) => state.catch_up(0, usize::MAX, self),
            (Meanwhile::Kept, _) if is_known => return,
            (Meanwhile::Kept, _) => state.catch_up(0, usize::MAX, self),
        }
        for session in state.sessions() {
            self.copy(&session);
        }
    }

    /// Notes that an address outside the pool has become one of ours: sessions with it as a peer leave the fast path.
    pub fn add_own(&mut self, address: Ipv4Addr, all: impl Iterator<Item = SessionView>) {
        if self.is_own(address) {
            return;
        }
        self.phase.lose(Lack::Address);
        self.has_unconfigured = true;
        if let Some(fast) = &self.fast {
            fast.hide_unbound();
        }
        self.own.push(address.into());
        self.own = Ipv4Net::aggregate(&self.own);
        for session in all.filter(|session| session.peer.addr == address) {
            self.remove(&session);
        }
    }

    /// Returns the drops since the last call.
    pub fn take_dropped(&mut self) -> impl Iterator<Item = Reason> + '_ {
        self.dropped.drain(..)
    }

    fn is_own(&self, address: Ipv4Addr) -> bool {
        self.own.iter().any(|net| net.contains(&address))
    }

    /// Converts a session to the form of the maps. The session of a copy has its owner.
    fn to_maps(&self, view: &SessionView) -> Session {
        let owners = self.owners.as_ref();
        let other = owners.and_then(|owners| {
            let owner = owners.of(view.binding.v4.addr)?;
            (owner != owners.me).then_some(owner)
        });
        to_maps(view, other.and_then(Owner::node).unwrap_or(Owner::OURS))
    }

    fn belongs(&self, view: &SessionView) -> bool {
        view.is_for_fast_path() && !self.is_own(view.peer.addr)
    }

    /// Returns true if only the slow path may translate this session, until another gateway knows its binding.
    fn is_deferred(&mut self, view: &SessionView, is_new: bool) -> bool {
        let deferral = self.deferral();
        deferral.is_some_and(|deferral| deferral.keeps(view, is_new))
    }

    /// Returns the deferral of packets for other gateways, if it is on.
    pub fn deferral(&mut self) -> Option<&mut Deferral> {
        self.peers.as_mut()?.deferral.as_mut()
    }

    /// Writes a session, or its new state, to the maps.
    pub fn copy(&mut self, view: &SessionView) {
        if self.is_deferred(view, false) {
            return;
        }
        if !self.belongs(view) {
            return self.remove(view);
        }
        self.removals.flush();
        let Some(fast) = &self.fast else {
            return;
        };
        if let Err(error) = fast.put(&self.to_maps(view), sent(view.state)) {
            self.refused += 1;
            tracing::trace!("a session stays with the slow path: {error}");
            // A part of an older copy may be there.
            self.remove(view);
        }
    }

    fn bind(&mut self, binding: &Binding) {
        self.removals.flush();
        let (Some(fast), Some(node)) = (&self.fast, node_port(binding)) else {
            return;
        };
        if let Err(error) = fast.bind(node, (binding.v4.addr, binding.v4.port)) {
            match self.phase.lose(Lack::Binding) {
                true => tracing::warn!(
                    "the fast path opens no sessions until the next reload: it does not know all bindings: {error}"
                ),
                false => tracing::debug!("the fast path does not know a binding: {error}"),
            }
        }
    }

    /// Ends a restore or a change. If it was not finished, something is missing.
    fn break_off(&mut self) {
        if matches!(self.phase, Phase::Restoring(_) | Phase::Changing(_)) {
            self.phase.search();
            self.phase.lose(Lack::Rest);
            self.phase.end();
        }
    }

    fn occupy(&self, binding: &Binding) {
        if let Some(fast) = &self.fast {
            fast.occupy(binding.protocol, (binding.v4.addr, binding.v4.port));
        }
    }

    /// Removes a binding, which the tables have not any more.
    fn close(&mut self, binding: &Binding) {
        let port = (binding.protocol, (binding.v4.addr, binding.v4.port));
        self.removals.binding(node_port(binding), Some(port));
    }

    /// Removes a binding that the tables have not had.
    fn unbind(&mut self, binding: &Binding) {
        self.removals.binding(node_port(binding), None);
    }

    fn record(&mut self, event: &Event) {
        if let Some(records) = &mut self.records {
            records.event(event);
        }
        match (&mut self.peers, &self.owners) {
            (Some(peers), _) => peers.event((self.clocks.boottime)(), event),
            (None, Some(_)) => self.aside.extend(changed_by(event)),
            (None, None) => {}
        }
    }

    fn remove(&mut self, view: &SessionView) {
        let session = self.to_maps(view);
        self.removals.session(session);
    }
}

impl Watcher for Mirror {
    fn event(&mut self, event: Event) {
        self.changed = true;
        self.record(&event);
        if let Event::BindingOpened(binding) = &event {
            self.occupy(binding);
        }
        match event {
            // What a program has opened is there already, unless its state is one that a program cannot know.
            Event::SessionOpened(view)
                if self.adopting.is_some()
                    && view.state != SessionState::Established
                    && !self.is_own(view.peer.addr) => {}
            Event::SessionOpened(view) => {
                let Binding { protocol, v6, .. } = view.binding;
                self.opened.push((protocol, v6.addr));
                if !self.is_deferred(&view, true) {
                    self.copy(&view);
                }
            }
            Event::SessionChanged(view, (state, prefix))
                if self.adopting.is_none() && is_copied_alike(&view, state, prefix) => {}
            Event::SessionChanged(view, _) => self.copy(&view),
            Event::SessionClosed(view) => self.remove(&view),
            Event::BindingOpened(_)
                if matches!(self.adopting, Some(Report::Bound | Report::Alone)) => {}
            Event::BindingOpened(binding) => self.bind(&binding),
            Event::BindingClosed(binding) => self.close(&binding),
            // Programs have ports, and need not know the blocks.
            Event::BlockAllocated(_) | Event::BlockReleased(_) => {}
            // Programs open no sessions through copies.
            Event::CopyMade(..) | Event::CopyEnded(..) => {}
        }
    }

    fn last_seen(&mut self, view: &SessionView) -> Option<Duration> {
        let fast = self.fast.as_ref()?;
        fast.last_seen(&self.to_maps(view)).ok()?
    }

    fn missing(&mut self, missing: Missing, opens: bool) -> Way {
        match &mut self.peers {
            Some(peers) => peers.missing((self.clocks.boottime)(), missing, opens),
            None if self.owners.is_some() => Way::Drop(Reason::NotServing),
            None => Way::Open,
        }
    }

    fn sends(&mut self, protocol: Protocol, v6: Endpoint6) {
        if let Some(deferral) = self.deferral() {
            deferral.sends(protocol, v6);
        }
    }

    fn boottime(&mut self) -> Duration {
        (self.clocks.boottime)()
    }

    fn dropped(&mut self, reason: Reason) {
        self.dropped.push(reason);
    }
}

/// Returns the networks in which a peer may be a node of ours, according to the configuration.
pub fn own_networks(config: &Nat64Config) -> Vec<Ipv4Net> {
    let pool = config.pool4.iter().map(|part| part.net);
    let bound = config.bindings.iter().map(|b| Ipv4Net::from(b.v4.addr));
    Ipv4Net::aggregate(&pool.chain(bound).collect())
}
