// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owner of all sessions: every packet that may begin, change or end one comes here, and so does the operator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Nat64Config, Protocol};
use diolkos_core::config::ConfigError;
use diolkos_core::session::{BindError, BindingView, Counts, SessionView};
use diolkos_core::{Nat64, Packet, Verdict};
use diolkos_sys::fastpath::Sessions;

use super::mirror::Mirror;
use crate::counters::Tally;
use crate::random::random;
use crate::slowpath::{Clock, Engine, Writer};

/// Entries that are looked at before packets pass again.
const BUDGET: usize = 512;
/// How long it lets them.
const BREATH: Duration = Duration::from_micros(100);

/// The tables and their copy in the fast path, one packet at a time.
pub struct Controller {
    inner: Mutex<Inner>,
    /// What befell packets that were held, and what the sweeper sent.
    pub tally: Arc<Tally>,
}

struct Inner {
    nat64: Nat64,
    mirror: Mirror,
}

impl Controller {
    /// Without sessions. `sessions` are those of the fast path, if there is one.
    pub fn new(
        config: &Nat64Config,
        sessions: Option<Arc<Sessions>>,
    ) -> Result<Controller, ConfigError> {
        let secret = [random(), random(), random(), random()];
        Ok(Controller {
            inner: Mutex::new(Inner {
                nat64: Nat64::new(config, secret)?,
                mirror: Mirror::new(config, sessions),
            }),
            tally: Arc::new(Tally::default()),
        })
    }

    /// Ends what has expired. Packets pass in between.
    pub fn sweep(&self, env: &mut Clock, out: &mut Writer<'_>) {
        loop {
            let mut guard = self.lock();
            let inner = &mut *guard;
            let done = inner.nat64.expire(BUDGET, env, out, &mut inner.mirror);
            inner.count_dropped(&self.tally);
            if done {
                return;
            }
            // The lock is not a fair one: readers that wait for it get it only if this thread is off for a while.
            drop(guard);
            std::thread::sleep(BREATH);
        }
    }

    /// Follows another configuration; what it still allows goes on. `swap` puts the programs with it into the places of
    /// the old ones; if it fails, nothing has changed. Meanwhile the fast path has no sessions if one of them would
    /// understand the numbers of the prefixes wrongly.
    pub fn reconfigure<E>(
        &self,
        config: &Nat64Config,
        swap: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), E>, ConfigError> {
        let inner = &mut *self.lock();
        let old = inner.nat64.config().clone();
        let (before, after) = (&old.translator.pref64, &config.translator.pref64);
        let renumbered = !before.starts_with(after) && !after.starts_with(before);
        if renumbered {
            let state = inner.nat64.state_mut();
            state.catch_up(0, usize::MAX, &mut inner.mirror);
            inner.mirror.clear(state.sessions());
        }
        let swapped = swap();
        let in_force = match &swapped {
            Ok(()) => {
                inner.nat64.reconfigure(config, &mut inner.mirror)?;
                config
            }
            Err(_) => &old,
        };
        let state = inner.nat64.state_mut();
        inner.mirror.follow(in_force, state, renumbered);
        Ok(swapped)
    }

    /// Makes a binding that lasts until it is ended.
    pub fn bind(&self, binding: Binding) -> Result<(), BindError> {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        state.bind(binding, &mut inner.mirror)?;
        inner.mirror.add_own(binding.v4.addr, state.sessions());
        Ok(())
    }

    /// Ends a binding and its sessions.
    pub fn unbind(&self, protocol: Protocol, v4: Endpoint4) -> Result<Binding, BindError> {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        state.unbind(protocol, v4, &mut inner.mirror)
    }

    /// Bindings, at most so many, in no order.
    pub fn bindings(&self, at_most: usize) -> Vec<BindingView> {
        self.lock().nat64.state().bindings().take(at_most).collect()
    }

    /// Sessions, at most so many, in no order. Packets pass in between.
    pub fn sessions(&self, at_most: usize) -> Vec<SessionView> {
        let mut views = Vec::new();
        let mut next = Some(0);
        while let Some(first) = next.filter(|_| views.len() < at_most) {
            let inner = &mut *self.lock();
            let state = inner.nat64.state_mut();
            state.catch_up(first, BUDGET, &mut inner.mirror);
            let (there, after) = state.sessions_from(first, BUDGET);
            views.extend(there);
            next = after;
        }
        views.truncate(at_most);
        views
    }

    /// How many entries there are of each kind.
    pub fn counts(&self) -> Counts {
        self.lock().nat64.state().counts()
    }

    /// Sessions that did not fit into the fast path's maps.
    pub fn refused(&self) -> u64 {
        self.lock().mirror.refused
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn count_dropped(&mut self, tally: &Tally) {
        self.mirror
            .take_dropped()
            .for_each(|reason| tally.dropped(reason));
    }
}

impl Engine for Controller {
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        let inner = &mut *self.lock();
        let verdict = inner.nat64.translate(packet, env, out, &mut inner.mirror);
        inner.count_dropped(&self.tally);
        verdict
    }
}
