// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of bindings, as the tables tell them under their lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diolkos_cluster::message::Change;
use diolkos_cluster::publisher::Publisher;
use diolkos_core::config::nat64::Binding;
use diolkos_core::session::{BindingView, Origin};
use diolkos_core::slice::{SliceId, Slices};
use diolkos_sys::clock::kernel_boottime;

/// Hears of changes under the lock of the tables.
#[derive(Clone, Debug)]
pub struct Changes {
    slices: Arc<Slices>,
    publisher: Arc<Mutex<Publisher>>,
}

impl Changes {
    /// Those of bindings in slices; a publisher keeps them until it has published them.
    pub fn new(slices: Arc<Slices>, publisher: Arc<Mutex<Publisher>>) -> Changes {
        Changes { slices, publisher }
    }

    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    pub fn opened(&self, binding: &Binding) {
        self.heard(binding, Change::Opened(*binding));
    }

    pub fn closed(&self, binding: &Binding) {
        let (protocol, port) = (binding.protocol, binding.v4.port);
        self.heard(binding, Change::Closed { protocol, port });
    }

    fn heard(&self, binding: &Binding, change: Change) {
        if let Some(slice) = self.slices.of_port(binding.v4.addr, binding.v4.port) {
            self.publisher().heard(kernel_boottime(), slice, change);
        }
    }

    pub fn publisher(&self) -> MutexGuard<'_, Publisher> {
        self.publisher
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The slice and binding of a view, if packets have made it.
    pub fn shared(&self, view: &BindingView) -> Option<(SliceId, Binding)> {
        let v4 = view.binding.v4;
        let is_of_packets = matches!(view.origin, Origin::Dynamic | Origin::Inherited);
        let slice = self.slices.of_port(v4.addr, v4.port)?;
        is_of_packets.then_some((slice, view.binding))
    }
}
