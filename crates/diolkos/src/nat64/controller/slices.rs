// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a node of a cluster does to its tables: slices open and close, bindings of other nodes come in and go out.

use std::time::Duration;

use diolkos_core::config::nat64::Binding;
use diolkos_core::slice::{SliceId, Slices};
use diolkos_core::Reason;
use diolkos_sys::clock;

use super::super::records::Peers;
use super::{Controller, Inner, BUDGET};

impl Controller {
    /// From now on others are told of changes, and asked for bindings that are missing here.
    pub fn share(&self, peers: Box<dyn Peers>) {
        self.lock().mirror.peers = Some(peers);
    }

    /// The slices of the pool; `None`: it has none.
    pub fn slices(&self) -> Option<Slices> {
        self.lock().nat64.state().slices().cloned()
    }

    /// Lets bindings be opened until a moment of [`clock::kernel_boottime`], in slices that are open. True: the moment before has
    /// passed, and all slices have been closed.
    pub fn open_until(&self, moment: Duration) -> bool {
        let inner = &mut *self.lock();
        inner.close_in_time();
        let before = inner.open_until.replace(moment);
        if let Some(kernel) = &self.kernel {
            kernel.open_until(moment);
        }
        before == Some(Duration::ZERO)
    }

    /// Lets bindings be opened in a slice.
    pub fn open_slice(&self, slice: SliceId) {
        self.lock().nat64.state_mut().open_slice(slice);
    }

    /// Ends that, by packets and by the fast path. Whatever a program has opened is in the tables afterwards.
    pub fn close_slices(&self, slices: &[SliceId]) {
        {
            let inner = &mut *self.lock();
            inner.leases.end_all(inner.nat64.state_mut());
        }
        // By now, the programs have reported the bindings that they were opening at that moment, and the slice still takes them.
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        inner.leases.end_all(state);
        slices.iter().for_each(|slice| state.close_slice(*slice));
    }

    /// Takes bindings that another node had. Returns those that could not be taken, with the reason.
    pub fn inherit(&self, bindings: &[Binding]) -> Vec<(Binding, Reason)> {
        let inner = &mut *self.lock();
        let now = clock::monotonic();
        let state = inner.nat64.state_mut();
        let mut refused = Vec::new();
        for binding in bindings {
            if let Err(reason) = state.inherit(*binding, now, &mut inner.mirror) {
                refused.push((*binding, reason));
            }
        }
        refused
    }

    /// Ends some bindings of a slice that has become another node's. True: that were all.
    pub fn release_slice(&self, slice: SliceId) -> bool {
        let inner = &mut *self.lock();
        inner.mirror.gather();
        let state = inner.nat64.state_mut();
        let done = state.release_slice(slice, BUDGET, &mut inner.mirror);
        inner.mirror.take_out();
        done
    }
}

impl Inner {
    /// The lease that other nodes know of has ended: from now on one of them may open bindings in the same slices.
    pub(super) fn close_in_time(&mut self) {
        if self
            .open_until
            .is_some_and(|until| !until.is_zero() && clock::kernel_boottime() >= until)
        {
            self.open_until = Some(Duration::ZERO);
            let state = self.nat64.state_mut();
            state.close_slices();
            self.leases.end_all(state);
        }
    }
}
