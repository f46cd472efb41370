// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of new bindings wait until another gateway knows the binding, if the file says so (`cluster.defer`).
//!
//! packet that opens a binding ─► translated, then held here ─► worker: change ─► other gateway ─► acknowledgement ─► worker: sends it
//!
//! All but the sending happens under the lock of the tables. The worker of the cluster is woken once for all bindings that begin
//! before it comes to it. Whose time is over it sees at its next tick, so nothing here polls. Until its packets leave, programs do not
//! know a binding's sessions.

use std::fmt;
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint6, Protocol};
use diolkos_nat64::session::SessionView;
use diolkos_node::deferred::Released;
use diolkos_node::{Deferred, Node};

/// Has the worker come.
pub type Wake = Box<dyn Fn() + Send>;
/// Sends a packet that has waited.
pub type Leave = Box<dyn FnOnce() + Send>;

/// What waits.
pub struct Deferral {
    waiting: Deferred<Leave>,
    /// The change for which the packet that is translated now has to wait.
    awaited: Option<u64>,
    wake: Wake,
    /// The worker will come.
    is_woken: bool,
}

/// Packets that wait no longer.
#[derive(Default)]
pub struct Departing {
    packets: Vec<Leave>,
    /// How many of them nobody has acknowledged.
    unknown: u64,
}

impl Deferral {
    /// Nothing waits. `wake` must not block.
    pub fn new(wake: Wake) -> Deferral {
        Deferral {
            waiting: Deferred::default(),
            awaited: None,
            wake,
            is_woken: false,
        }
    }

    /// A packet comes.
    pub fn begin(&mut self) {
        self.awaited = None;
    }

    /// The node has just heard of a binding. Nobody waits if no other gateway could acknowledge it.
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

    /// The packet that is translated now is of this port.
    pub fn sends(&mut self, protocol: Protocol, v6: Endpoint6) {
        self.awaited = self.awaited.max(self.waiting.awaits((protocol, v6)));
    }

    /// Must programs not know this session yet?
    pub fn keeps(&mut self, view: &SessionView, is_new: bool) -> bool {
        let Binding { protocol, v6, .. } = view.binding;
        self.waiting.keeps((protocol, v6), view.peer, is_new)
    }

    /// The packet that is translated now has so many bytes. True: it waits, and leaves later as `leave` says. False: it leaves now.
    pub fn hold(&mut self, bytes: usize, leave: impl FnOnce() -> Leave) -> bool {
        let change = self.awaited;
        change.is_some_and(|change| self.waiting.hold(change, bytes, leave))
    }

    /// Packets that did not wait for want of room, since this was last asked.
    pub fn take_passed(&mut self) -> u64 {
        self.waiting.take_passed()
    }

    /// The worker is there, and tells others what has changed.
    pub fn is_attended(&mut self) {
        self.is_woken = false;
    }

    /// A binding that waits no longer, and whose packets leave. None: there is none.
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
    /// Sends them. Returns how many they are, and how many of them nobody has acknowledged.
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
