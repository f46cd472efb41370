// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lookups that change nothing: for the packet in an ICMP error, for output and for the fast path.

use super::event::SessionView;
use super::State;
use crate::config::{Endpoint4, Endpoint6, Protocol};
use diolkos_xlat::verdict::Reason;

/// The node that gets a packet from the IPv4 side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// Its transport address.
    pub node: Endpoint6,
    /// Index of the translation prefix in which it sees the sender.
    pub prefix: u8,
}

impl State {
    /// The IPv4 transport address of a node's port, if it is bound.
    pub fn v4_of(&self, protocol: Protocol, v6: Endpoint6) -> Option<Endpoint4> {
        let bib = self.bib.find_v6(protocol, v6)?;
        Some(self.bib[bib].v4)
    }

    /// The node of an IPv4 transport address, if the IPv4 node `peer` may send to it.
    pub fn v6_of(
        &self,
        protocol: Protocol,
        v4: Endpoint4,
        peer: Endpoint4,
    ) -> Result<Recipient, Reason> {
        let bib = self.bib.find_v4(protocol, v4).ok_or(Reason::NoBinding)?;
        let node = self.bib[bib].v6;
        if let Some(at) = self.sessions.find(bib, peer) {
            let prefix = self.sessions[at].prefix;
            return Ok(Recipient { node, prefix });
        }
        match self.permits(bib, peer) {
            true => Ok(Recipient { node, prefix: 0 }),
            false => Err(Reason::Filtered),
        }
    }

    /// The session of a node's port with a peer (port 0 for ICMP), for a fast path that has lost it.
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
