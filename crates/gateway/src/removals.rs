// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes sessions and bindings from the fast path's maps: one at a time, or many together, since one system call
//! takes as long as the removal of several entries.

use std::sync::Arc;

use diolkos_fastpath::{NodePort, Session};

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
}

impl Removals {
    /// Creates an empty list.
    pub fn new(fast: Option<Arc<dyn FastPath>>) -> Removals {
        Removals {
            fast,
            is_gathered: false,
            sessions: Vec::new(),
            bindings: Vec::new(),
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

    /// Removes a binding.
    pub fn binding(&mut self, node: NodePort) {
        let Some(fast) = &self.fast else { return };
        if self.is_gathered {
            self.bindings.push(node);
            self.flush_if_full();
        } else if let Err(error) = fast.unbind(node) {
            tracing::warn!("cannot remove a binding from the fast path: {error}");
        }
    }

    fn flush_if_full(&mut self) {
        if self.sessions.len().max(self.bindings.len()) >= TOGETHER {
            self.flush();
        }
    }
}
