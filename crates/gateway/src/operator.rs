// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of the tables by the operator.

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::session::{BindError, SessionView};

use super::controller::Controller;

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
