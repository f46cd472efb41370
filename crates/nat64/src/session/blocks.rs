// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The port blocks of sources, if sources get blocks ([`crate::config::PortBlocks`]). With a
//! [`crate::config::Mappings`], each source also has a fixed block, which is not reported to watchers.
//!
//! A source keeps a block while any of its ports is bound or lent, and for a while after that. There is no counter for
//! this; the blocks are scanned in turn.

use super::block_list::{Blocks, Owned};
use super::clock::Millis;
use super::event::{BlockView, Event, Watcher};
use super::State;
use crate::config::{Binding, Endpoint4, LevelKind, Protocol};
use crate::pool::{Applicant, BlockId};
use diolkos_xlat::verdict::Reason;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of blocks scanned at each expiry run.
const LOOKS: usize = 1024;

impl State {
    /// The owned blocks in no order: at most `places` of them, starting at index `first`.
    pub fn blocks_from(&self, first: u32, places: usize) -> Vec<BlockView> {
        let Some(blocks) = &self.blocks else {
            return Vec::new();
        };
        let owned = blocks.owned.iter().skip(first as usize).take(places);
        owned
            .map(|owned| self.block_view(owned.place, owned.source))
            .collect()
    }

    /// Returns true if the port of a binding is in a block of the node's source. The block log then identifies the
    /// source.
    pub fn is_in_block(&self, binding: &Binding) -> bool {
        let place = self.pool.place_of(binding.v4);
        let source = self.source_of(binding.v6.addr);
        place.is_some_and(|place| self.owns(source, place))
    }

    /// The pool address from which a node gets new ports. None if it gets none.
    pub fn address_of(&self, node: Ipv6Addr) -> Option<Ipv4Addr> {
        let Some(blocks) = &self.blocks else {
            return self.pool.address_of(node);
        };
        let source = self.source_of(node);
        match blocks.of_source(source).last() {
            // Fixed ports are used before all blocks.
            Some(place) if self.pool.mappings().is_none() => Some(place.addr),
            _ => self.begin_of(source),
        }
    }

    /// The address at which a source starts. None if the mapping does not have the source.
    fn begin_of(&self, source: u128) -> Option<Ipv4Addr> {
        let source = Ipv6Addr::from_bits(source);
        match self.pool.mappings() {
            Some(mappings) => Some(mappings.ports_of(source)?.addr),
            None => self.pool.address_of(source),
        }
    }

    /// The fixed block of a source. None without a mapping, or if the mapping does not have the source.
    pub(super) fn fixed_of(&self, source: u128) -> Option<BlockId> {
        let range = self
            .pool
            .mappings()?
            .ports_of(Ipv6Addr::from_bits(source))?;
        Some(BlockId {
            addr: range.addr,
            first: range.first,
        })
    }

    /// All blocks of a source, the fixed one first.
    pub(super) fn places_of(&self, source: u128) -> impl Iterator<Item = BlockId> + '_ {
        let given = self.given_to(source).iter().copied();
        self.fixed_of(source).into_iter().chain(given)
    }

    /// The blocks given to a source, the oldest first.
    pub(super) fn given_to(&self, source: u128) -> &[BlockId] {
        let blocks = self.blocks.as_ref();
        blocks.map_or(&[], |blocks| blocks.of_source(source))
    }

    /// Allocates a port from a block of the node's source, and opens a new block if necessary.
    pub(super) fn allocate_in_blocks(
        &mut self,
        applicant: Applicant,
        mut random: impl FnMut() -> u64,
        watcher: &mut impl Watcher,
    ) -> Result<Endpoint4, Reason> {
        let Applicant {
            protocol,
            source: node,
            port: own,
            neighbour,
        } = applicant;
        let source = self.source_of(node);
        let begin = self.may_take_port(protocol, node)?;
        let best = match neighbour.and_then(|neighbour| neighbour.port.checked_add(1)) {
            Some(beside) => Some(beside),
            None => self.config.port_preservation.then_some(own),
        };
        // A fixed port is used before that of any block, even with the other parity (RFC 7422 section 2, step 3).
        let (fixed, given) = (self.fixed_of(source), self.given_to(source).to_vec());
        for its in [fixed.as_slice(), &given] {
            for any in [false, true] {
                for &place in its {
                    let port = self
                        .pool
                        .take_in(protocol, place, best, own, any, &mut random);
                    if let Some(port) = port {
                        self.note_used(place);
                        return Ok(Endpoint4 {
                            addr: place.addr,
                            port,
                        });
                    }
                }
            }
        }
        let place = self.open_block(node, begin, false, &mut random, watcher)?;
        let port = self.pool.take_in(protocol, place, best, own, true, random);
        let addr = place.addr;
        port.map(|port| Endpoint4 { addr, port })
            .ok_or(Reason::PoolExhausted)
    }

    /// Checks whether a node may take another port of its source. Returns the address at which the source starts.
    pub(super) fn may_take_port(
        &self,
        protocol: Protocol,
        node: Ipv6Addr,
    ) -> Result<Ipv4Addr, Reason> {
        let source = self.source_of(node);
        let begin = self.begin_of(source).ok_or(Reason::SourceUnmapped)?;
        // Lent ports are returned when they are needed.
        let free = self.free_of_source(protocol, source) + self.lent_to_source(protocol, source);
        self.admit_port_of_source(protocol, node, free)?;
        Ok(begin)
    }

    /// Ensures that a host leaves ports for other hosts of its source. `free`: ports that the source can still get.
    pub(super) fn admit_port_of_source(
        &self,
        protocol: Protocol,
        node: Ipv6Addr,
        free: u64,
    ) -> Result<(), Reason> {
        let has = self.sources.of_node(node);
        let mut levels = self.sources.levels();
        let Some((at, host)) = levels.find(|(_, level)| level.kind == LevelKind::Host) else {
            return Ok(());
        };
        let used = u64::from(has[at].bindings[protocol.index()]);
        match used < host.limit(used, free) {
            true => Ok(()),
            // Nothing is left at all, so the reason is the limit of the source.
            false if free == 0 => Err(Reason::SourceBindingLimit),
            false => Err(Reason::HostBindingLimit),
        }
    }

    /// Number of ports of a protocol that a source can still get.
    pub(super) fn free_of_source(&self, protocol: Protocol, source: u128) -> u64 {
        let Some(blocks) = &self.blocks else { return 0 };
        let free = self
            .places_of(source)
            .map(|place| u64::from(self.pool.free_in(protocol, place)));
        let given = self.given_to(source).len();
        let more = usize::from(blocks.rules.per_source).saturating_sub(given) as u64;
        let pool = self.pool.pools().of_node(Ipv6Addr::from_bits(source));
        let more = more.min(self.pool.blocks_of(pool).free);
        free.sum::<u64>() + more * u64::from(blocks.rules.ports)
    }

    /// Opens another block for a node's source, if limits and shares allow it.
    pub(super) fn open_block(
        &mut self,
        node: Ipv6Addr,
        address: Ipv4Addr,
        only: bool,
        random: impl FnMut() -> u64,
        watcher: &mut impl Watcher,
    ) -> Result<BlockId, Reason> {
        self.may_open_block(node)?;
        let source = self.source_of(node);
        let taken = self.pool.take_block(address, only, random);
        let place = taken.ok_or(Reason::PoolExhausted)?;
        self.own(place, source);
        watcher.event(Event::BlockAllocated(self.block_view(place, source)));
        Ok(place)
    }

    /// Checks whether a node's source may have another block.
    pub(super) fn may_open_block(&self, node: Ipv6Addr) -> Result<(), Reason> {
        let Some(blocks) = &self.blocks else {
            return Err(Reason::PoolExhausted);
        };
        let has = blocks.of_source(self.source_of(node)).len();
        if has >= usize::from(blocks.rules.per_source) {
            return Err(Reason::SourceBindingLimit);
        }
        self.admit_block(node)
    }

    /// Gives the block of a restored binding, or of one from before a reload, to the source of its node, unless it has
    /// an owner.
    pub(super) fn adopt_block(&mut self, binding: &Binding, watcher: &mut impl Watcher) {
        let Some(place) = self.pool.place_of(binding.v4) else {
            return;
        };
        let source = self.source_of(binding.v6.addr);
        if self.pool.claim_block(place, binding.v6.addr) {
            self.own(place, source);
            watcher.event(Event::BlockAllocated(self.block_view(place, source)));
        }
        self.note_used(place);
    }

    fn own(&mut self, place: BlockId, source: u128) {
        let part = self.sources.hold(Ipv6Addr::from_bits(source));
        if let Some(blocks) = &mut self.blocks {
            blocks.add(place, source, part);
        }
    }

    /// Releases blocks that have been unused for long enough. Scans a part of them.
    pub(super) fn release_blocks(&mut self, watcher: &mut impl Watcher) {
        let now = self.clock.now();
        let looks = self
            .blocks
            .as_ref()
            .map_or(0, |blocks| blocks.owned.len().min(LOOKS));
        for _ in 0..looks {
            let Some(blocks) = &mut self.blocks else {
                return;
            };
            if blocks.next_look >= blocks.owned.len() {
                blocks.next_look = 0;
            }
            let at = blocks.next_look;
            let Some(owned) = blocks.owned.get_mut(at) else {
                return;
            };
            if self.pool.is_used(owned.place) {
                owned.idle_since = None;
            } else {
                let since = *owned.idle_since.get_or_insert(now);
                if since + blocks.idle.as_millis() as Millis <= now {
                    let gone = blocks.remove(at);
                    self.let_go(&gone, watcher);
                    continue;
                }
            }
            blocks.next_look += 1;
        }
    }

    fn let_go(&mut self, gone: &Owned, watcher: &mut impl Watcher) {
        self.pool.put_back_block(gone.place);
        self.sources.let_go(gone.part);
        watcher.event(Event::BlockReleased(
            self.block_view(gone.place, gone.source),
        ));
    }

    /// Assigns blocks to sources with bindings again, after sources and pool have been rebuilt without blocks.
    pub(super) fn divide_again(&mut self, watcher: &mut impl Watcher) {
        let before = self.blocks.take();
        let all = before.iter().flat_map(|blocks| &blocks.owned);
        let all = all.map(|owned| view(before.as_ref(), owned.place, owned.source));
        let old: Vec<BlockView> = all.collect();
        self.blocks = Blocks::of(&self.config, self.keys);
        let bindings: Vec<Binding> = self
            .bib
            .iter()
            .filter(|(_, entry)| entry.pooled && !entry.origin.is_static())
            .map(|(_, entry)| entry.binding())
            .collect();
        for binding in &bindings {
            self.adopt_block(binding, &mut ());
        }
        let new = self.blocks_from(0, usize::MAX);
        let is_in = |all: &[BlockView]| -> std::collections::HashSet<BlockView> {
            all.iter().copied().collect()
        };
        let (had, has) = (is_in(&old), is_in(&new));
        for gone in old.iter().filter(|view| !has.contains(view)) {
            watcher.event(Event::BlockReleased(*gone));
        }
        for come in new.iter().filter(|view| !had.contains(view)) {
            watcher.event(Event::BlockAllocated(*come));
        }
    }

    pub(super) fn note_used(&mut self, place: BlockId) {
        if let Some(blocks) = &mut self.blocks {
            blocks.note_used(place);
        }
    }

    fn owns(&self, source: u128, place: BlockId) -> bool {
        let Some(blocks) = &self.blocks else {
            return false;
        };
        let BlockId { addr, first: port } = place;
        let fixed = |source| self.pool.mappings()?.source_of(source);
        if let Some(owner) = fixed(Endpoint4 { addr, port }) {
            return owner.network().to_bits() == source;
        }
        let at = blocks.by_place.get(&place);
        at.is_some_and(|&at| blocks.owned[at as usize].source == source)
    }

    /// The prefix of a node's source.
    pub(super) fn source_of(&self, node: Ipv6Addr) -> u128 {
        let len = self
            .blocks
            .as_ref()
            .map_or(128, |blocks| blocks.rules.source_prefix_len);
        node.to_bits() & u128::MAX << (128 - u32::from(len.clamp(1, 128)))
    }

    fn block_view(&self, place: BlockId, source: u128) -> BlockView {
        view(self.blocks.as_ref(), place, source)
    }
}

fn view(blocks: Option<&Blocks>, place: BlockId, source: u128) -> BlockView {
    let (ports, len) = blocks.map_or((1, 128), |b| (b.rules.ports, b.rules.source_prefix_len));
    BlockView {
        source: Ipv6Addr::from_bits(source),
        source_prefix_len: len,
        addr: place.addr,
        first: place.first,
        last: place.first + (ports - 1),
    }
}
