// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who a packet belongs to, without a packet of its own: for ICMP errors about it, for output and for the fast path.
//! Nothing changes.

use super::event::{SessionView, Watcher};
use super::State;
use crate::config::{Endpoint4, Endpoint6, Protocol};
use crate::step::Nat64Step;
use diolkos_xlat::verdict::Reason;
use std::net::SocketAddr;

impl State {
    /// How the IPv4 side sees a node's port, if it is bound.
    pub fn v4_of(&self, protocol: Protocol, v6: Endpoint6) -> Option<Endpoint4> {
        self.v4_watched(protocol, v6, &mut ())
    }

    /// The same; `watcher` is told of the binding.
    pub(crate) fn v4_watched(
        &self,
        protocol: Protocol,
        v6: Endpoint6,
        watcher: &mut impl Watcher,
    ) -> Option<Endpoint4> {
        let Some(bib) = self.bib.find_v6(protocol, v6) else {
            watcher.step(|| Nat64Step::NoBinding {
                protocol,
                node: SocketAddr::new(v6.addr.into(), v6.port),
            });
            return None;
        };
        watcher.step(|| Nat64Step::Binding(self.binding_view(bib)));
        Some(self.bib[bib].v4)
    }

    /// Whose port it is, if the IPv4 node `peer` may send there, and the prefix by which that node is
    /// known.
    pub fn v6_of(
        &self,
        protocol: Protocol,
        v4: Endpoint4,
        peer: Endpoint4,
    ) -> Result<(Endpoint6, u8), Reason> {
        self.v6_watched(protocol, v4, peer, &mut ())
    }

    /// The same; `watcher` is told of the binding, and of the session or of what lets the peer in without one.
    pub(crate) fn v6_watched(
        &self,
        protocol: Protocol,
        v4: Endpoint4,
        peer: Endpoint4,
        watcher: &mut impl Watcher,
    ) -> Result<(Endpoint6, u8), Reason> {
        let Some(bib) = self.bib.find_v4(protocol, v4) else {
            watcher.step(|| Nat64Step::NoBinding {
                protocol,
                node: SocketAddr::new(v4.addr.into(), v4.port),
            });
            return Err(Reason::NoBinding);
        };
        watcher.step(|| Nat64Step::Binding(self.binding_view(bib)));
        let v6 = self.bib[bib].v6;
        if let Some(at) = self.sessions.find(bib, peer) {
            watcher.step(|| Nat64Step::Session(self.session_view(at)));
            return Ok((v6, self.sessions[at].prefix));
        }
        let permits = self.permits(bib, peer);
        watcher.step(|| Nat64Step::Filtering {
            by_address: self.permissions.is_some(),
            permits,
        });
        match permits {
            true => Ok((v6, 0)),
            false => Err(Reason::Filtered),
        }
    }

    /// The session of a node's port with a peer (with ICMP, port 0), for a fast path that has lost it.
    pub fn session(
        &self,
        protocol: Protocol,
        v6: Endpoint6,
        peer: Endpoint4,
    ) -> Option<SessionView> {
        let bib = self.bib.find_v6(protocol, v6)?;
        let at = self.sessions.find(bib, peer)?;
        Some(self.session_view(at))
    }
}
