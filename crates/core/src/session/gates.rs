// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slices of a pool that several gateways share ([`crate::slice`]), and in which of them bindings may be opened here.
//!
//! A source has its ports from one slice. A gateway opens bindings of the slices that it owns, and no others: each slice has a
//! gate, which is closed until the owner is known. Bindings that exist, their sessions, and what others made
//! ([`super::inherit`]) do not ask the gate.

use super::State;
use crate::config::nat64::{Endpoint4, Nat64Config, Protocol};
use crate::slice::{Slice, SliceId, Slices};
use crate::verdict::Reason;
use std::collections::HashMap;
use std::net::Ipv6Addr;

/// All slices, and their gates.
#[derive(Debug)]
pub struct Gates {
    pub slices: Slices,
    /// One bit for each slice that is open.
    open: Vec<u64>,
    /// Where [`State::release_slice`] goes on, by slice.
    pub releases: HashMap<SliceId, u32>,
}

impl Gates {
    /// Those of a configuration, closed; None if it has no slices.
    pub fn of(config: &Nat64Config) -> Option<Gates> {
        // The configuration has been checked: there is no error.
        let slices = Slices::of(config).ok().flatten()?;
        Some(Gates {
            open: vec![0; slices.len().div_ceil(64)],
            slices,
            releases: HashMap::new(),
        })
    }

    fn set(&mut self, id: SliceId, is_open: bool) {
        if self.slices.get(id).is_none() {
            return;
        }
        let (word, bit) = (&mut self.open[id as usize / 64], 1 << (id % 64));
        match is_open {
            true => *word |= bit,
            false => *word &= !bit,
        }
    }

    fn is_open(&self, id: SliceId) -> bool {
        let word = self.open.get(id as usize / 64);
        word.is_some_and(|word| word >> (id % 64) & 1 != 0)
    }

    /// The slice from which a node gets its ports, and whether it is open.
    fn of_node(&self, node: Ipv6Addr) -> Option<(&Slice, bool)> {
        let id = self.slices.of_source(node);
        Some((self.slices.get(id)?, self.is_open(id)))
    }
}

/// Ports that limits are about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// Nobody's.
    pub free: u64,
    /// Of the ports that somebody has, no more than so many are among these.
    pub taken: u32,
}

impl State {
    /// The slices of the pool; None if this gateway has it for itself.
    pub fn slices(&self) -> Option<&Slices> {
        self.gates.as_ref().map(|gates| &gates.slices)
    }

    /// From now on bindings are opened in a slice. The caller owns it.
    pub fn open_slice(&mut self, id: SliceId) {
        if let Some(gates) = &mut self.gates {
            gates.set(id, true);
        }
    }

    /// From now on no binding is opened in a slice, and no port of it lent. What it has goes on. What the fast path still opens
    /// by ports that it has on loan is refused, so the caller takes these back before.
    pub fn close_slice(&mut self, id: SliceId) {
        if let Some(gates) = &mut self.gates {
            gates.set(id, false);
        }
    }

    /// Closes all of them.
    pub fn close_slices(&mut self) {
        if let Some(gates) = &mut self.gates {
            gates.open.fill(0);
        }
    }

    /// May bindings be opened in a slice?
    pub fn is_slice_open(&self, id: SliceId) -> bool {
        self.gates.as_ref().is_some_and(|gates| gates.is_open(id))
    }

    /// Fewer ports are free than on loan where a node gets its ports: they are wanted back.
    pub fn is_short(&self, protocol: Protocol, node: Ipv6Addr) -> bool {
        let Some(gates) = &self.gates else {
            let address = self.address_of(node);
            return address.is_some_and(|address| self.pool.is_short(protocol, address));
        };
        gates.of_node(node).is_some_and(|(slice, _)| {
            let free = self.pool.free_in_slice(slice, protocol);
            free < self.pool.lent_in_slice(slice, protocol)
        })
    }

    /// The slice from which a node gets its ports.
    pub(super) fn slice_of(&self, node: Ipv6Addr) -> Option<&Slice> {
        let (slice, _) = self.gates.as_ref()?.of_node(node)?;
        Some(slice)
    }

    /// The same, if it is open; None if there are no slices.
    pub(super) fn open_slice_of(&self, node: Ipv6Addr) -> Result<Option<Slice>, Reason> {
        match self.gates.as_ref().and_then(|gates| gates.of_node(node)) {
            None => Ok(None),
            Some((slice, true)) => Ok(Some(slice.clone())),
            Some((_, false)) => Err(Reason::SliceClosed),
        }
    }

    /// May the port of a new binding be given away here? Without slices, any may.
    pub(super) fn is_open_at(&self, v4: Endpoint4) -> bool {
        self.gates.as_ref().is_none_or(|gates| {
            let id = gates.slices.of_port(v4.addr, v4.port);
            id.is_some_and(|id| gates.is_open(id))
        })
    }

    /// The ports of which a node gets one.
    pub(super) fn ports_for(&self, protocol: Protocol, node: Ipv6Addr) -> Ports {
        match self.slice_of(node) {
            None => self.ports_of_pool(protocol),
            Some(slice) => {
                let free = self.pool.free_in_slice(slice, protocol);
                let (_, size) = slice.bounds();
                Ports {
                    free: free.into(),
                    taken: u32::from(size) - free,
                }
            }
        }
    }

    /// Of how many ports of a protocol a node gets one, and how many of these are bound or on loan: those of its slice, or without
    /// slices all of the pool.
    pub fn ports_around(&self, protocol: Protocol, node: Ipv6Addr) -> (u64, u64) {
        let all = match self.slice_of(node) {
            None => self.pool.ports(protocol),
            Some(slice) => slice.bounds().1.into(),
        };
        let free = self.ports_for(protocol, node).free;
        (all, all.saturating_sub(free))
    }

    /// Ports of a protocol that are on loan in a node's slice; `None`: there are no slices.
    pub fn lent_in_slice_of(&self, node: Ipv6Addr, protocol: Protocol) -> Option<u32> {
        let slice = self.slice_of(node)?;
        Some(self.pool.lent_in_slice(slice, protocol))
    }

    /// All of the pool.
    pub(super) fn ports_of_pool(&self, protocol: Protocol) -> Ports {
        Ports {
            free: self.pool.free_ports(protocol),
            taken: u32::MAX,
        }
    }

    /// Follows another configuration. Gates stay as they are if the slices do.
    pub(super) fn cut_again(&mut self) {
        let new = Gates::of(&self.config);
        let is_same = |old: &Gates| new.as_ref().is_some_and(|new| new.slices == old.slices);
        match self.gates.take().filter(is_same) {
            Some(old) => {
                self.gates = Some(Gates {
                    releases: HashMap::new(),
                    ..old
                })
            }
            None => self.gates = new,
        }
    }
}
