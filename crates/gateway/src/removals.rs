// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes sessions and bindings from the fast path's maps: one at a time, or many together, since one system call
//! takes as long as the removal of several entries.

use std::net::Ipv4Addr;
use std::sync::Arc;

use diolkos_fastpath::{NodePort, Session};
use diolkos_nat64::config::Protocol;

use super::fastpath::FastPath;

/// Maximum number of entries that are removed together.
const TOGETHER: usize = 4096;

/// The entries to remove.
#[derive(Debug)]
pub struct Removals {
    fast: Option<Arc<dyn FastPath>>,
    is_gathered: bool,
    sessions: Vec<Session>,
    bindings: Vec<NodePort>,
    /// External ports that are vacated when nothing of their bindings is left.
    ports: Vec<ExternalPort>,
}

/// Its protocol, address and number.
type ExternalPort = (Protocol, (Ipv4Addr, u16));

impl Removals {
    /// Creates an empty list.
    pub fn new(fast: Option<Arc<dyn FastPath>>) -> Removals {
        Removals {
            fast,
            is_gathered: false,
            sessions: Vec::new(),
            bindings: Vec::new(),
            ports: Vec::new(),
        }
    }

    /// From now on, collects entries until [`Removals::finish`] or [`Removals::flush`].
    pub fn gather(&mut self) {
        self.is_gathered = true;
    }

    /// Removes everything that was collected. From now on, entries are removed at once.
    pub fn finish(&mut self) {
        self.is_gathered = false;
        self.flush();
    }

    /// Removes everything that was collected until now.
    pub fn flush(&mut self) {
        let Some(fast) = &self.fast else { return };
        if !self.sessions.is_empty() {
            if let Err(error) = fast.remove_all(&self.sessions) {
                tracing::warn!("cannot remove sessions from the fast path: {error}");
            }
            self.sessions.clear();
        }
        if !self.bindings.is_empty() {
            if let Err(error) = fast.unbind_all(&self.bindings) {
                tracing::warn!("cannot remove bindings from the fast path: {error}");
            }
            self.bindings.clear();
        }
        for (protocol, v4) in self.ports.drain(..) {
            fast.vacate(protocol, v4);
        }
    }

    /// Removes a session.
    pub fn session(&mut self, session: Session) {
        let Some(fast) = &self.fast else { return };
        if self.is_gathered {
            self.sessions.push(session);
            self.flush_if_full();
        } else if let Err(error) = fast.remove(&session) {
            tracing::warn!("cannot remove a session from the fast path: {error}");
        }
    }

    /// Removes a binding; those of ICMP are not there. Then `port`, which was its, is vacated.
    pub fn binding(&mut self, node: Option<NodePort>, port: Option<ExternalPort>) {
        if self.fast.is_none() {
            return;
        }
        self.bindings.extend(node);
        self.ports.extend(port);
        match self.is_gathered {
            true => self.flush_if_full(),
            false => self.flush(),
        }
    }

    fn flush_if_full(&mut self) {
        let most = self.sessions.len().max(self.ports.len());
        if most.max(self.bindings.len()) >= TOGETHER {
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the TUN device alone, nothing is ever taken out of the list.
    #[test]
    fn without_a_fast_path_nothing_is_kept() {
        let mut removals = Removals::new(None);
        let port = (Protocol::Udp, (Ipv4Addr::new(192, 0, 2, 1), 5000));
        let node = NodePort {
            protocol: 17,
            addr: std::net::Ipv6Addr::LOCALHOST,
            port: 5000,
        };
        for is_gathered in [false, true] {
            removals.is_gathered = is_gathered;
            removals.binding(Some(node), Some(port));
            assert_eq!((removals.bindings.len(), removals.ports.len()), (0, 0));
        }
    }
}
