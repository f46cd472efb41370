// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions and bindings on their way out of the fast path's maps: each at once, or many together, since one call into the
//! kernel takes as long as the removal of several. Of very many, a thread takes some out while the tables end the next.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use diolkos_sys::fastpath::{NodePort, Session};

use super::fastpath::FastPath;

/// As much leaves together at the most.
const TOGETHER: usize = 4096;

/// What is to leave.
#[derive(Debug)]
pub struct Leaving {
    fast: Option<Arc<dyn FastPath>>,
    is_gathered: bool,
    batch: Batch,
    /// Takes out what came before.
    thread: Option<JoinHandle<()>>,
}

/// What leaves together.
#[derive(Default, Debug)]
struct Batch {
    sessions: Vec<Session>,
    bindings: Vec<NodePort>,
}

impl Batch {
    fn leave(&self, fast: &dyn FastPath) {
        if !self.sessions.is_empty() {
            if let Err(error) = fast.remove_all(&self.sessions) {
                tracing::warn!("sessions cannot be taken out of the fast path: {error}");
            }
        }
        if !self.bindings.is_empty() {
            if let Err(error) = fast.unbind_all(&self.bindings) {
                tracing::warn!("bindings cannot be taken out of the fast path: {error}");
            }
        }
    }
}

impl Leaving {
    /// Nothing yet.
    pub fn new(fast: Option<Arc<dyn FastPath>>) -> Leaving {
        Leaving {
            fast,
            is_gathered: false,
            batch: Batch::default(),
            thread: None,
        }
    }

    /// What comes from now on waits for [`Leaving::finish`], or for [`Leaving::flush`].
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
        std::mem::take(&mut self.batch).leave(fast.as_ref());
        self.wait();
    }

    /// A session leaves.
    pub fn session(&mut self, session: Session) {
        let Some(fast) = &self.fast else { return };
        if self.is_gathered {
            self.batch.sessions.push(session);
            self.begin_if_full();
        } else if let Err(error) = fast.remove(&session) {
            tracing::warn!("a session cannot be taken out of the fast path: {error}");
        }
    }

    /// A binding leaves.
    pub fn binding(&mut self, node: NodePort) {
        let Some(fast) = &self.fast else { return };
        if self.is_gathered {
            self.batch.bindings.push(node);
            self.begin_if_full();
        } else if let Err(error) = fast.unbind(node) {
            tracing::warn!("a binding cannot be taken out of the fast path: {error}");
        }
    }

    fn begin_if_full(&mut self) {
        let fullest = self.batch.sessions.len().max(self.batch.bindings.len());
        let (Some(fast), TOGETHER..) = (self.fast.clone(), fullest) else {
            return;
        };
        self.wait();
        let batch = Arc::new(std::mem::take(&mut self.batch));
        let (its, fast_of_it) = (batch.clone(), fast.clone());
        let thread = thread::Builder::new().name("leaving".into());
        match thread.spawn(move || its.leave(fast_of_it.as_ref())) {
            Ok(thread) => self.thread = Some(thread),
            Err(_) => batch.leave(fast.as_ref()),
        }
    }

    fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
