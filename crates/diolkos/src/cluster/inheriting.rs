// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tables tell, and what they ask, under their lock.

use std::sync::{Arc, Mutex, PoisonError};

use diolkos_cluster::standby::Standby;
use diolkos_core::config::nat64::Binding;
use diolkos_core::session::{Event, Missing};
use diolkos_core::slice::Slices;

use super::changes::Changes;
use crate::nat64::Peers;

/// Tells other nodes of bindings, and finds theirs.
#[derive(Debug)]
pub struct Inheriting {
    slices: Arc<Slices>,
    standby: Arc<Mutex<Standby>>,
    changes: Changes,
}

impl Inheriting {
    pub fn new(slices: Arc<Slices>, standby: Arc<Mutex<Standby>>, changes: Changes) -> Inheriting {
        Inheriting {
            slices,
            standby,
            changes,
        }
    }
}

impl Peers for Inheriting {
    fn event(&mut self, event: &Event) {
        match event {
            Event::BindingOpened(binding) => self.changes.opened(binding),
            Event::BindingClosed(binding) => self.changes.closed(binding),
            _ => {}
        }
    }

    fn find(&mut self, missing: &Missing) -> Option<Binding> {
        let standby = self.standby.lock().unwrap_or_else(PoisonError::into_inner);
        match *missing {
            Missing::V6(protocol, v6) => {
                standby.find_v6(self.slices.of_source(v6.addr), protocol, v6)
            }
            Missing::V4(protocol, v4) => {
                let slice = self.slices.of_port(v4.addr, v4.port)?;
                standby.find_v4(slice, protocol, v4.port)
            }
        }
    }
}
