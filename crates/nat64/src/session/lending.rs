// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports lent to the fast path when sources have port blocks ([`super::blocks`]).
//!
//! Loans leave a part of a source's ports free. The holder returns loans when packets have used most of that part, so
//! that unused loans cause neither a further block nor a refusal.

use super::event::Watcher;
use super::State;
use crate::config::{PortBlocks, Protocol};
use crate::pool::BlockId;
use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};

/// No port is lent unless more than one in this many ports is free: other hosts of the source need them.
const LEND_ABOVE: u64 = 4;
/// Loans are returned if less than one in this many ports is free. The distance to [`LEND_ABOVE`] avoids oscillation;
/// with the smallest blocks of 64 ports, 8 are left for bindings before the holder asks again.
const TAKE_BACK_BELOW: u64 = 8;

/// The blocks of a source from which ports are lent, with their ports of one protocol.
struct Lendable {
    places: Vec<BlockId>,
    free: u64,
    all: u64,
}

impl State {
    /// Lends a port of an address to the fast path for a node: above 1023, with the parity of the port `like`.
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
        // With fixed ports, a block is opened only for packets that find no free fixed port, because it needs a log
        // record.
        if self.pool.mappings().is_some() {
            return None;
        }
        let place = self
            .open_block(node, address, true, &mut random, watcher)
            .ok()?;
        self.pool.lend_in(protocol, place, like, random)
    }

    /// Returns the number of sessions that may be lent to a node as far as the rates of its prefixes go.
    pub fn lendable_sessions(&self, node: Ipv6Addr) -> u32 {
        self.sources.lendable(node, self.clock.now())
    }

    /// Counts sessions that are lent to a node, for the rates of its prefixes; negative: that are lent no longer.
    pub fn note_lent(&mut self, node: Ipv6Addr, change: i64) {
        self.sources.lend(node, change);
    }

    /// Returns true if there are so many free ports at the place where a node gets its ports that one can be lent to it
    /// although it may not need it. Sources with port blocks have few ports each, so this is false there.
    pub fn has_plenty(&self, protocol: Protocol, node: Ipv6Addr) -> bool {
        let address = self.address_of(node).filter(|_| self.blocks.is_none());
        address.is_some_and(|address| self.pool.has_plenty(protocol, address))
    }

    /// The source of a node, if its loans of a protocol must be returned: packets would soon find no free port.
    pub fn wanted_back(&self, protocol: Protocol, node: Ipv6Addr) -> Option<Ipv6Net> {
        let blocks = self.blocks.as_ref()?;
        let source = self.source_of(node);
        let Lendable { places, free, all } = self.lendable(protocol, source);
        let is_lent = |place: &BlockId| self.pool.lent_in(protocol, *place) > 0;
        if free * TAKE_BACK_BELOW > all || !places.iter().any(is_lent) {
            return None;
        }
        let source = Ipv6Addr::from_bits(source);
        Ipv6Net::new(source, blocks.rules.source_prefix_len).ok()
    }

    /// Returns true if fewer ports are free than lent at the place where a node gets its ports, so that loans must be
    /// returned.
    pub fn is_short(&self, protocol: Protocol, node: Ipv6Addr) -> bool {
        let address = self.address_of(node);
        address.is_some_and(|address| self.pool.is_short(protocol, address))
    }

    /// Number of lent ports of a source.
    pub(super) fn lent_to_source(&self, protocol: Protocol, source: u128) -> u64 {
        self.places_of(source)
            .map(|place| u64::from(self.pool.lent_in(protocol, place)))
            .sum()
    }

    /// The blocks to lend from. Without a mapping, these are all blocks that a source has or may get. With a mapping,
    /// it is the fixed block until packets have used up its ports, then the blocks given to the source.
    fn lendable(&self, protocol: Protocol, source: u128) -> Lendable {
        let given = self.given_to(source);
        if self.pool.mappings().is_none() {
            let rules = self.blocks.as_ref().map(|blocks| blocks.rules);
            let of = |rules: PortBlocks| u64::from(rules.per_source) * u64::from(rules.ports);
            return Lendable {
                places: given.to_vec(),
                free: self.free_of_source(protocol, source),
                all: rules.map_or(0, of),
            };
        }
        let is_left = |place: &BlockId| {
            self.pool.free_in(protocol, *place) + self.pool.lent_in(protocol, *place) > 0
        };
        let fixed = self.fixed_of(source).filter(is_left);
        let places = fixed.map_or_else(|| given.to_vec(), |fixed| vec![fixed]);
        let free = |place: &BlockId| u64::from(self.pool.free_in(protocol, *place));
        let all = |place: &BlockId| u64::from(self.pool.size_of(*place));
        Lendable {
            free: places.iter().map(free).sum(),
            all: places.iter().map(all).sum(),
            places,
        }
    }
}
