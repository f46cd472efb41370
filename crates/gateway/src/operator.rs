// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of the tables by the operator, and by nodes that ask for bindings.

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{BindError, Ended, GrantError, Granted, SessionView, Wish};
use std::net::Ipv4Addr;

use super::controller::{Controller, BREATH, BUDGET};

impl Controller {
    /// Creates a binding that lasts until it is ended.
    pub fn bind(&self, binding: Binding) -> Result<(), BindError> {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        // The port may be lent.
        inner.leases.end_all(state);
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

    /// Gives a node's port a binding, for which the node has asked.
    pub fn grant(
        &self,
        protocol: Protocol,
        v6: Endpoint6,
        wish: Wish,
    ) -> Result<Granted, GrantError> {
        self.lock().grant(protocol, v6, wish)
    }

    /// Ends such a binding, with the sessions that the IPv4 side has opened.
    /// Packets pass in between.
    pub fn withdraw(&self, binding: &Binding) {
        loop {
            let mut guard = self.lock();
            let inner = &mut *guard;
            inner.mirror.gather();
            let state = inner.nat64.state_mut();
            let is_done = state.withdraw(binding, BUDGET, &mut inner.mirror);
            inner.mirror.take_out();
            drop(guard);
            if is_done {
                return;
            }
            std::thread::sleep(BREATH);
        }
    }

    /// The interface of the pool has another address: all bindings of the pool's own address end with their sessions, in the
    /// fast path too, and static ones begin again. Records before it name the old address, and later ones the new one.
    pub fn move_outside(&self, inside: Ipv4Addr, outside: Ipv4Addr) -> Ended {
        let inner = &mut *self.lock();
        inner.leases.end_all(inner.nat64.state_mut());
        // What programs were opening meanwhile.
        inner.settle();
        inner.mirror.gather();
        let state = inner.nat64.state_mut();
        let ended = state.leave_address(inside, &mut inner.mirror);
        inner.mirror.take_out();
        inner.nat64.set_outside(outside);
        if let Some(records) = &mut inner.mirror.records {
            records.follow(inner.nat64.config(), inner.nat64.state());
        }
        let state = inner.nat64.state_mut();
        state.bind_again(&ended.again, &mut inner.mirror);
        ended
    }

    /// Ends a session, in the fast path too. `v4` is the external address and port of its binding, if known. Returns
    /// None if there is no such session.
    pub fn end_session(
        &self,
        protocol: Protocol,
        v6: Endpoint6,
        v4: Option<Endpoint4>,
        peer: Endpoint4,
    ) -> Option<SessionView> {
        let inner = &mut *self.lock();
        let state = inner.nat64.state_mut();
        state.end_session(protocol, v6, v4, peer, &mut inner.mirror)
    }
}
