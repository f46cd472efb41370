// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The external ports that programs may not take for unbound, exactly: the programs' own table may keep some more.

use std::collections::HashMap;

use diolkos_nat64::config::Protocol;
use diolkos_nat64::session::State;

use crate::twin::V4;

/// How often each port is occupied.
#[derive(Default, Debug)]
pub struct Occupied(HashMap<(Protocol, V4), u32>);

impl Occupied {
    pub fn occupy(&mut self, protocol: Protocol, v4: V4) {
        *self.0.entry((protocol, v4)).or_default() += 1;
    }

    pub fn vacate(&mut self, protocol: Protocol, v4: V4) {
        let times = self.0.get_mut(&(protocol, v4));
        let times = times.unwrap_or_else(|| panic!("{v4:?} is vacated and was not occupied"));
        *times -= 1;
        if *times == 0 {
            self.0.remove(&(protocol, v4));
        }
    }

    /// From here on, these are occupied and no others.
    pub fn begin(&mut self, all: impl Iterator<Item = (Protocol, V4)>) {
        self.0.clear();
        all.for_each(|(protocol, v4)| self.occupy(protocol, v4));
    }

    pub fn has(&self, protocol: Protocol, v4: V4) -> bool {
        self.0.contains_key(&(protocol, v4))
    }

    /// When nothing is lent, these are the ports of all bindings.
    pub fn check_against(&self, state: &State) {
        let bindings = state.bindings().map(|view| {
            let v4 = view.binding.v4;
            ((view.binding.protocol, (v4.addr, v4.port)), 1)
        });
        assert_eq!(self.0, bindings.collect(), "the occupied ports");
    }
}
