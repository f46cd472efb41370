// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An address that has become another one beyond this router: what IPv4 hosts knew of it is no longer true.

use super::bib::Origin;
use super::event::Watcher;
use super::State;
use crate::config::Binding;
use std::net::Ipv4Addr;

/// What ended with an address.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Number of sessions.
    pub sessions: u32,
    /// Number of bindings that packets had created.
    pub bindings: u32,
    /// Bindings of the configuration and the operator, which begin again ([`State::bind_again`]).
    pub again: Vec<(Binding, Origin)>,
}

impl State {
    /// Closes all bindings of an address, and their sessions. The caller must have taken leases of it back.
    pub fn leave_address(&mut self, addr: Ipv4Addr, watcher: &mut impl Watcher) -> Ended {
        let mut ended = Ended::default();
        let mut lost = Vec::new();
        for (at, entry) in self.bib.iter().filter(|(_, entry)| entry.v4.addr == addr) {
            lost.push(at);
            ended.sessions += entry.sessions;
            match entry.origin.is_static() {
                false => ended.bindings += 1,
                true => ended.again.push((entry.binding(), entry.origin)),
            }
        }
        self.close_bindings(&lost, watcher);
        ended
    }

    /// Opens bindings again that have ended with their address, with the same ports.
    pub fn bind_again(&mut self, again: &[(Binding, Origin)], watcher: &mut impl Watcher) {
        for (binding, origin) in again {
            self.insert_binding(*binding, *origin, watcher);
        }
    }

    pub(crate) fn set_outside(&mut self, outside: Ipv4Addr) {
        self.config.outside = Some(outside);
    }
}
