// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions and bindings on their way out of the fast path's maps: each at once, or many together, since one call into the
//! kernel takes as long as the removal of several.

use std::sync::Arc;

use diolkos_fastpath::{NodePort, Session};

use super::fastpath::FastPath;

/// As much leaves together at the most.
const TOGETHER: usize = 4096;

/// What is to leave.
#[derive(Debug)]
pub struct Removals {
    fast: Option<Arc<dyn FastPath>>,
    is_gathered: bool,
    sessions: Vec<Session>,
    bindings: Vec<NodePort>,
}

impl Removals {
    /// Nothing yet.
    pub fn new(fast: Option<Arc<dyn FastPath>>) -> Removals {
        Removals {
            fast,
            is_gathered: false,
            sessions: Vec::new(),
            bindings: Vec::new(),
        }
    }

    /// What comes from now on waits for [`Removals::finish`], or for [`Removals::flush`].
    pub fn gather(&mut self) {
        self.is_gathered = true;
    }

    /// Everything leaves, and what comes from now on leaves at once.
    pub fn finish(&mut self) {
        self.is_gathered = false;
        self.flush();
    }

    /// Everything leaves that has come until now.
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

    /// A session leaves.
    pub fn session(&mut self, session: Session) {
        let Some(fast) = &self.fast else { return };
        if self.is_gathered {
            self.sessions.push(session);
            self.flush_if_full();
        } else if let Err(error) = fast.remove(&session) {
            tracing::warn!("cannot remove a session from the fast path: {error}");
        }
    }

    /// A binding leaves.
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
