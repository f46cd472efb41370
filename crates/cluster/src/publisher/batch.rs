// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The changes of one message. It leaves out a binding that was opened and closed before any message had it.

use std::collections::HashMap;

use diolkos_core::config::nat64::Protocol;

use crate::message::{Change, MAX_CHANGES};

/// Changes of one slice, in their order.
#[derive(Default, Debug)]
pub struct Batch {
    changes: Vec<Option<Change>>,
    /// Places in `changes` of opened bindings that no other node can know yet.
    unknown: HashMap<(Protocol, u16), usize>,
}

impl Batch {
    /// Adds a change; false if there is no room. `is_told`: other nodes may know it already.
    pub fn add(&mut self, change: Change, is_told: bool) -> bool {
        if self.changes.len() == MAX_CHANGES {
            return false;
        }
        match change {
            Change::Opened(binding) => {
                if !is_told {
                    let opened = (binding.protocol, binding.v4.port);
                    self.unknown.insert(opened, self.changes.len());
                }
                self.changes.push(Some(change));
            }
            Change::Closed { protocol, port } => match self.unknown.remove(&(protocol, port)) {
                Some(at) => self.changes[at] = None,
                None => self.changes.push(Some(change)),
            },
        }
        true
    }

    /// The changes to publish.
    pub fn changes(self) -> Vec<Change> {
        self.changes.into_iter().flatten().collect()
    }
}
