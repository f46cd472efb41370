// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inherited bindings in the order in which they were inherited, so that those without a session can be closed. A
//! binding that gets a session stays on the list until its turn comes.

use super::clock::Millis;
use super::slab::{Slab, NONE};
use crate::config::{Endpoint4, Protocol};
use crate::key::{Keys, Table};
use std::net::Ipv4Addr;

/// A binding that waits for a session.
#[derive(Debug)]
pub struct Wait {
    /// The time at which it was inherited.
    pub since: Millis,
    /// The binding.
    pub bib: u32,
    protocol: Protocol,
    previous: u32,
    next: u32,
}

/// The oldest and the newest entry of a protocol.
#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
}

/// All waiting bindings. Each protocol has a separate list, because it has its own lifetime.
#[derive(Debug)]
pub struct Waiting {
    waits: Slab<Wait>,
    by_binding: Table,
    ends: [Ends; 3],
    keys: Keys,
}

impl Waiting {
    pub fn new(keys: Keys) -> Waiting {
        let none = Ends {
            oldest: NONE,
            newest: NONE,
        };
        Waiting {
            waits: Slab::new(),
            by_binding: Table::new(),
            ends: [none; 3],
            keys,
        }
    }

    /// Adds a newly inherited binding.
    pub fn add(&mut self, bib: u32, protocol: Protocol, now: Millis) {
        let ends = &mut self.ends[protocol.index()];
        let previous = ends.newest;
        let at = self.waits.insert(Wait {
            since: now,
            bib,
            protocol,
            previous,
            next: NONE,
        });
        ends.newest = at;
        match previous {
            NONE => ends.oldest = at,
            previous => self.waits[previous].next = at,
        }
        self.by_binding.insert(self.hash(bib), at);
    }

    /// Removes a binding, if it waits.
    pub fn remove(&mut self, bib: u32) {
        if self.waits.is_empty() {
            return;
        }
        let hash = self.hash(bib);
        let found = self.by_binding.find(hash, |at| self.waits[at].bib == bib);
        let Some(at) = found else { return };
        self.by_binding.remove(hash, at);
        let gone = self.waits.remove(at);
        let ends = &mut self.ends[gone.protocol.index()];
        match gone.previous {
            NONE => ends.oldest = gone.next,
            previous => self.waits[previous].next = gone.next,
        }
        match gone.next {
            NONE => ends.newest = gone.previous,
            next => self.waits[next].previous = gone.previous,
        }
    }

    /// The binding of a protocol that was inherited first.
    pub fn oldest(&self, protocol: Protocol) -> Option<&Wait> {
        match self.ends[protocol.index()].oldest {
            NONE => None,
            at => Some(&self.waits[at]),
        }
    }

    pub fn memory(&self) -> usize {
        self.waits.memory() + self.by_binding.memory()
    }

    fn hash(&self, bib: u32) -> u64 {
        let addr = Ipv4Addr::UNSPECIFIED;
        self.keys.numbered(bib, Endpoint4 { addr, port: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Protocol::{Tcp, Udp};

    fn drain(waiting: &mut Waiting, protocol: Protocol) -> Vec<(u32, Millis)> {
        let mut all = vec![];
        while let Some(&Wait { bib, since, .. }) = waiting.oldest(protocol) {
            all.push((bib, since));
            waiting.remove(bib);
        }
        all
    }

    #[test]
    fn each_protocol_has_its_order_whatever_is_taken_out() {
        let mut waiting = Waiting::new(Keys([1, 2]));
        waiting.remove(7);
        for n in 0..10 {
            let protocol = if n % 2 == 0 { Udp } else { Tcp };
            waiting.add(n, protocol, n.into());
        }
        for gone in [0, 4, 8, 3, 3, 99] {
            waiting.remove(gone);
        }
        waiting.add(4, Udp, 10);
        assert_eq!(drain(&mut waiting, Udp), [(2, 2), (6, 6), (4, 10)]);
        assert_eq!(drain(&mut waiting, Tcp), [(1, 1), (5, 5), (7, 7), (9, 9)]);
        waiting.add(1, Udp, 11);
        assert_eq!(drain(&mut waiting, Udp), [(1, 11)]);
        assert_eq!(waiting.waits.len(), 0);
    }
}
