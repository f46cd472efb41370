// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host ports whose bindings another gateway than the host's home has, as the programs know them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use diolkos_fastpath::HostPort;
use diolkos_node::NodeId;

use super::programs::Programs;

/// Time for which programs use such an entry. It is bounded because the binding may have ended meanwhile.
const TIME: Duration = Duration::from_secs(20);
/// Maximum number of such entries in the programs; about 20 MB of memory here. Packets of further ports take the longer
/// way.
const MOST: usize = 1 << 18;
/// Maximum number of entries that are removed between two packets.
const PORTION: usize = 4096;

/// The host ports.
#[derive(Debug)]
pub struct Away {
    known: HashMap<HostPort, NodeId>,
    /// The expiry time of each entry, the oldest first.
    order: VecDeque<(Duration, HostPort)>,
    most: usize,
}

impl Default for Away {
    fn default() -> Away {
        Away::at_most(MOST)
    }
}

impl Away {
    /// Creates an empty set of at most `most` entries.
    pub fn at_most(most: usize) -> Away {
        Away {
            known: HashMap::new(),
            order: VecDeque::new(),
            most,
        }
    }

    /// Has the programs send the next packets of a port to the gateway that has its binding.
    pub fn note(&mut self, now: Duration, port: HostPort, owner: NodeId, programs: &dyn Programs) {
        let is_full = self.known.len() >= self.most;
        match self.known.entry(port) {
            Entry::Occupied(its) if *its.get() == owner => return,
            Entry::Occupied(mut its) => *its.get_mut() = owner,
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(its) => {
                its.insert(owner);
                self.order.push_back((now + TIME, port));
            }
        }
        if let Err(error) = programs.set_away(port, owner) {
            tracing::debug!("packets of {} go on the long way: {error}", port.addr);
        }
    }

    /// Removes expired entries from the programs, which then ask again.
    pub fn forget(&mut self, now: Duration, programs: &dyn Programs) {
        for _ in 0..PORTION {
            let Some(&(_, port)) = self.order.front().filter(|(until, _)| now >= *until) else {
                return;
            };
            self.order.pop_front();
            self.known.remove(&port);
            if let Err(error) = programs.clear_away(port) {
                tracing::debug!("packets of a port go on to a gateway that had it: {error}");
            }
        }
    }
}
