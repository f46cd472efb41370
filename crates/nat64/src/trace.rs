// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What would become of a packet, and why.
//!
//! A trace goes the way of the packet itself: the same stages, the same tables, the same verdict. Afterwards every change is
//! undone ([`Nat64::trace`]), of the fragments that are followed, too, and no token of the limit of ICMP errors has been
//! used. On its way the packet tells its steps ([`Nat64Step`]) through [`Outbox::step`](diolkos_xlat::Outbox::step) and [`Watcher::step`], which cost
//! nothing where nobody listens.

use crate::session::{Event, SessionView, Watcher};
use crate::step::Nat64Step;
use crate::translate::{Nat64, Random};
use diolkos_xlat::icmp::Tokens;
use diolkos_xlat::trace::{record_packet, Record, Recorder, Trace};
use diolkos_xlat::Reason;
use std::cell::RefCell;
use std::time::Duration;

/// What would become of a packet in a NAT64.
pub type Nat64Trace = Trace<Nat64Step>;

impl Nat64 {
    /// What would become of a packet that came now. The tables, and the fragments that are followed, are afterwards as they
    /// were.
    pub fn trace(&mut self, packet: &[u8], env: &mut impl Random) -> Nat64Trace {
        let record = RefCell::default();
        self.rehearse();
        let trace = record_packet(packet, &record, |packet| {
            let (out, watcher) = (&mut Recorder(&record), &mut Listener(&record));
            self.translate_with(packet, env, out, watcher, Tokens::Look)
        });
        self.roll_back();
        trace
    }
}

/// Writes what the tables tell of a packet into its record.
struct Listener<'a>(&'a RefCell<Record<Nat64Step>>);

impl Watcher for Listener<'_> {
    fn event(&mut self, event: Event) {
        self.0.borrow_mut().step(Nat64Step::Changes(event));
    }

    /// Whoever knows it may forget it when it is asked.
    fn last_seen(&mut self, _: &SessionView) -> Option<Duration> {
        None
    }

    fn dropped(&mut self, reason: Reason) {
        self.0.borrow_mut().dropped(reason);
    }

    fn step<S: Into<Nat64Step>>(&mut self, step: impl FnOnce() -> S) {
        self.0.borrow_mut().step(step().into());
    }
}
