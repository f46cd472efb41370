// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Defers packets of new bindings until another gateway knows the binding, if the configuration says so
//! (`cluster.defer`).
//!
//! packet that opens a binding ─► translated, then held here ─► worker: change ─► other gateway ─► acknowledgement ─► worker: sends it
//!
//! All but the sending happens under the lock of the tables. The cluster's worker is woken once for all bindings that
//! begin before it runs. It finds packets whose time is over at its next tick, so nothing here polls. Programs do not
//! know the sessions of a binding until its packets leave.

use std::fmt;
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint6, Protocol};
use diolkos_nat64::session::SessionView;
use diolkos_node::deferred::Released;
use diolkos_node::{Deferred, Node};

/// Wakes the worker.
pub type Wake = Box<dyn Fn() + Send>;
/// Sends a packet that has waited.
pub type Leave = Box<dyn FnOnce() + Send>;

/// The packets that wait.
pub struct Deferral {
    waiting: Deferred<Leave>,
    /// The change for which the packet that is being translated has to wait.
    awaited: Option<u64>,
    wake: Wake,
    /// The worker has been woken and has not run yet.
    is_woken: bool,
}

/// Packets that no longer wait.
#[derive(Default)]
pub struct Departing {
    packets: Vec<Leave>,
    /// Number of packets whose binding no gateway has acknowledged.
    unknown: u64,
}

impl Deferral {
    /// Creates an empty deferral. `wake` must not block.
    pub fn new(wake: Wake) -> Deferral {
        Deferral {
            waiting: Deferred::default(),
            awaited: None,
            wake,
            is_woken: false,
        }
    }

    /// Begins the translation of a packet.
    pub fn begin(&mut self) {
        self.awaited = None;
    }

    /// Notes a new binding that the node has just been told of. Packets do not wait if no other gateway could
    /// acknowledge it.
    pub fn opened(&mut self, node: &Node, binding: &Binding, now: Duration) {
        if node.acknowledged().is_none() {
            return;
        }
        let Binding { protocol, v6, .. } = *binding;
        let change = node.last_change();
        let subscriber = node.subscriber(v6.addr);
        self.waiting.begin(change, (protocol, v6), subscriber, now);
        if !self.is_woken {
            self.is_woken = true;
            (self.wake)();
        }
    }

    /// Notes that the packet that is being translated belongs to this port.
    pub fn sends(&mut self, protocol: Protocol, v6: Endpoint6) {
        self.awaited = self.awaited.max(self.waiting.awaits((protocol, v6)));
    }

    /// Returns true if programs must not know this session yet.
    pub fn keeps(&mut self, view: &SessionView, is_new: bool) -> bool {
        let Binding { protocol, v6, .. } = view.binding;
        self.waiting.keeps((protocol, v6), view.peer, is_new)
    }

    /// Holds the packet that is being translated, of this many bytes, and returns true if it has to wait; `leave`
    /// creates what sends it later. Returns false if it leaves now.
    pub fn hold(&mut self, bytes: usize, leave: impl FnOnce() -> Leave) -> bool {
        let change = self.awaited;
        change.is_some_and(|change| self.waiting.hold(change, bytes, leave))
    }

    /// Returns, and resets, the number of packets that did not wait because there was no room.
    pub fn take_passed(&mut self) -> u64 {
        self.waiting.take_passed()
    }

    /// Notes that the worker runs, and tells other gateways what has changed.
    pub fn is_attended(&mut self) {
        self.is_woken = false;
    }

    /// Returns a binding that no longer waits, and whose packets leave; None if there is none.
    pub fn release(
        &mut self,
        known: Option<u64>,
        now: Duration,
        departing: &mut Departing,
    ) -> Option<Released<Leave>> {
        let mut released = self.waiting.release(known, now)?;
        departing.unknown += u64::from(released.is_unknown) * released.packets.len() as u64;
        departing.packets.append(&mut released.packets);
        Some(released)
    }
}

impl Departing {
    /// Sends the packets. Returns their number, and how many of them no gateway has acknowledged.
    pub fn send(&mut self) -> [u64; 2] {
        let all = self.packets.len() as u64;
        self.packets.drain(..).for_each(|leave| leave());
        [all, std::mem::take(&mut self.unknown)]
    }
}

impl fmt::Debug for Deferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferral").finish_non_exhaustive()
    }
}
