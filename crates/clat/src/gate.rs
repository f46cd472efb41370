// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine of a CLAT's slow path: the translator, with a gate for packets that cannot leave.
//!
//! While they cannot leave, the kernel would send them by another way, which may lead back here, or discard them
//! silently. So none is written: each is counted, and its sender gets an error that the network is unreachable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use diolkos_nat64::Nat64Trace;
use diolkos_xlat::{Packet, Translator, Verdict};

use diolkos_datapath::slowpath::{Clock, Engine, Writer};

/// Whether packets may leave. Clones share the state.
#[derive(Clone, Debug)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// Creates a closed gate.
    pub fn shut() -> Gate {
        Gate(Arc::new(AtomicBool::new(false)))
    }

    /// Opens or closes it from the next packet on.
    pub fn set_open(&self, is_open: bool) {
        self.0.store(is_open, Ordering::Relaxed);
    }

    /// Puts the gate in front of a translator.
    pub fn before(&self, translator: Translator) -> Arc<dyn Engine> {
        Arc::new(Gated {
            gate: self.clone(),
            translator,
        })
    }
}

struct Gated {
    gate: Gate,
    translator: Translator,
}

impl Engine for Gated {
    fn translate(&self, packet: &mut Packet<'_>, env: &mut Clock, out: &mut Writer<'_>) -> Verdict {
        let is_ipv4 = packet.bytes().first().is_some_and(|byte| byte >> 4 == 4);
        // Packets that came by the uplink go only to this host.
        if is_ipv4 && !self.gate.0.load(Ordering::Relaxed) {
            return self.translator.refuse_unroutable(packet, env, out);
        }
        self.translator.translate(packet, env, out)
    }

    fn trace(&self, packet: &[u8], env: &mut Clock) -> Option<Nat64Trace> {
        Some(self.translator.trace(packet, env).into())
    }
}
