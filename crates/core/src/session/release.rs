// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of what a slice has, when it belongs to another gateway.

use super::change::spend;
use super::event::Watcher;
use super::State;
use crate::config::nat64::{Endpoint4, Protocol};
use crate::slice::{Slice, SliceId};

impl State {
    /// Ends bindings of a slice that packets have made, here or elsewhere, and their sessions, but looks at no more than
    /// `budget` entries; the next call goes on. True if that was all. Bindings of the operator and of the configuration stay.
    ///
    /// The slice must be closed, or what is opened meanwhile may stay, too.
    pub fn release_slice(
        &mut self,
        id: SliceId,
        mut budget: usize,
        watcher: &mut impl Watcher,
    ) -> bool {
        let Some(gates) = &mut self.gates else {
            return true;
        };
        let Some(slice) = gates.slices.get(id).cloned() else {
            return true;
        };
        let mut place = gates.releases.remove(&id).unwrap_or(0);
        while let Some((protocol, port)) = self.next_taken(&slice, place) {
            place = place_of(protocol, port);
            let addr = slice.addr;
            let v4 = Endpoint4 { addr, port };
            if !self.release_port(protocol, v4, &mut budget, watcher) {
                if let Some(gates) = &mut self.gates {
                    gates.releases.insert(id, place);
                }
                return false;
            }
            place += 1;
        }
        true
    }

    /// Ends the binding that has a port, if it is one of packets. False if the budget does not suffice.
    fn release_port(
        &mut self,
        protocol: Protocol,
        v4: Endpoint4,
        budget: &mut usize,
        watcher: &mut impl Watcher,
    ) -> bool {
        let found = self.bib.find_v4(protocol, v4);
        let of_packets = found.filter(|&at| self.bib[at].origin.is_of_packets());
        match of_packets {
            Some(at) => self.close_within(at, budget, watcher),
            None => spend(budget),
        }
    }

    /// The first port of a slice that is not free, from a place on.
    fn next_taken(&self, slice: &Slice, place: u32) -> Option<(Protocol, u16)> {
        let (first, from) = (place >> 16, place as u16);
        Protocol::ALL
            .into_iter()
            .skip(first as usize)
            .find_map(|protocol| {
                let from = if protocol.index() as u32 == first {
                    from
                } else {
                    0
                };
                let taken = self.pool.next_taken_in_slice(slice, protocol, from);
                taken.map(|port| (protocol, port))
            })
    }
}

/// The order in which ports are looked at.
fn place_of(protocol: Protocol, port: u16) -> u32 {
    (protocol.index() as u32) << 16 | u32::from(port)
}
