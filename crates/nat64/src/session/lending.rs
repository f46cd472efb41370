// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports on loan to the fast path where sources have blocks of ports ([`super::blocks`]).
//!
//! Loans leave a part of a source's ports free. The holder takes them back when packets have used most of that part, so a
//! source gets no further block, and no refusal, for the sake of ports that nobody uses.

use super::event::Watcher;
use super::State;
use crate::config::{PortBlocks, Protocol};
use crate::pool::Place;
use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Nothing is lent when only one of so many ports is free: others of the source need them.
const LEND_ABOVE: u64 = 4;
/// Loans are taken back when only one of so many ports is free. The distance to [`LEND_ABOVE`] keeps ports from going to and
/// fro; with blocks of 64 ports, the smallest, 8 are left for what is bound before the holder asks again.
const TAKE_BACK_BELOW: u64 = 8;

/// Blocks of a source of which loans are taken, with their ports of one protocol.
struct Lendable {
    places: Vec<Place>,
    free: u64,
    all: u64,
}

impl State {
    /// Lends a port of an address to the fast path for a node: one above 1023, even or odd as the port `like`.
    pub fn lend(
        &mut self,
        protocol: Protocol,
        (node, address): (Ipv6Addr, Ipv4Addr),
        like: u16,
        mut random: impl FnMut() -> u64,
        watcher: &mut impl Watcher,
    ) -> Option<u16> {
        if !self.serves() {
            return None;
        }
        if self.blocks.is_none() {
            return self.pool.lend(protocol, address, like, random);
        }
        let source = self.source_of(node);
        let Lendable { places, free, all } = self.lendable(protocol, source);
        if free * LEND_ABOVE <= all {
            return None;
        }
        self.admit_port_of_source(protocol, node, self.free_of_source(protocol, source))
            .ok()?;
        for place in places.into_iter().filter(|place| place.addr == address) {
            if let Some(port) = self.pool.lend_in(protocol, place, like, &mut random) {
                self.note_used(place);
                return Some(port);
            }
        }
        // Beside fixed ports, a block is only for packets that find none of them free, for it takes a record.
        if self.pool.mapping().is_some() {
            return None;
        }
        let place = self
            .open_block(node, (address, true), &mut random, watcher)
            .ok()?;
        self.pool.lend_in(protocol, place, like, random)
    }

    /// The source of a node, if its loans of a protocol must be taken back: soon packets would find none of its ports free.
    pub fn wanted_back(&self, protocol: Protocol, node: Ipv6Addr) -> Option<Ipv6Net> {
        let blocks = self.blocks.as_ref()?;
        let source = self.source_of(node);
        let Lendable { places, free, all } = self.lendable(protocol, source);
        let is_lent = |place: &Place| self.pool.lent_in(protocol, *place) > 0;
        if free * TAKE_BACK_BELOW > all || !places.iter().any(is_lent) {
            return None;
        }
        let source = Ipv6Addr::from_bits(source);
        Ipv6Net::new(source, blocks.rules.source_prefix_len).ok()
    }

    /// Fewer ports are free than on loan where a node gets its ports: they are wanted back.
    pub fn is_short(&self, protocol: Protocol, node: Ipv6Addr) -> bool {
        let address = self.address_of(node);
        address.is_some_and(|address| self.pool.is_short(protocol, address))
    }

    /// Ports of a source that are on loan.
    pub(super) fn lent_to_source(&self, protocol: Protocol, source: u128) -> u64 {
        self.places_of(source)
            .map(|place| u64::from(self.pool.lent_in(protocol, place)))
            .sum()
    }

    /// Without a mapping, this is all that a source has or may have. With one, it is the fixed block, until packets have used up
    /// all of it: then it is the blocks that the source has been given.
    fn lendable(&self, protocol: Protocol, source: u128) -> Lendable {
        let given = self.given_to(source);
        if self.pool.mapping().is_none() {
            let rules = self.blocks.as_ref().map(|blocks| blocks.rules);
            let of = |rules: PortBlocks| u64::from(rules.per_source) * u64::from(rules.ports);
            return Lendable {
                places: given.to_vec(),
                free: self.free_of_source(protocol, source),
                all: rules.map_or(0, of),
            };
        }
        let is_left = |place: &Place| {
            self.pool.free_in(protocol, *place) + self.pool.lent_in(protocol, *place) > 0
        };
        let fixed = self.fixed_of(source).filter(is_left);
        let places = fixed.map_or_else(|| given.to_vec(), |fixed| vec![fixed]);
        let free = |place: &Place| u64::from(self.pool.free_in(protocol, *place));
        let all = |place: &Place| u64::from(self.pool.size_of(*place));
        Lendable {
            free: places.iter().map(free).sum(),
            all: places.iter().map(all).sum(),
            places,
        }
    }
}
