// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of this gateway whose bindings have closed while other gateways may have copies of them ([`crate::pool`],
//! `rest`). The watcher hears of the close, and later releases the port ([`State::free`]).

use super::bib::{Entry, Origin};
use super::event::{Event, Watcher};
use super::State;
use crate::config::{Binding, Endpoint4, Protocol};

/// Ports are scarce if less than one in this many is free.
const SHORT_BELOW: u64 = 10;

impl State {
    /// Ends the rest of a port, because no other gateway can use it any more. Does nothing if it does not rest, which
    /// means that a node of the same subscriber has it again.
    ///
    /// The caller must have handled all earlier events ([`Event::BindingOpened`], [`Event::BindingClosed`]), because
    /// the port may have got a binding again and may rest anew.
    pub fn free(&mut self, protocol: Protocol, v4: Endpoint4, watcher: &mut impl Watcher) {
        if self.pool.free(protocol, v4) && !self.awaited.is_empty() {
            self.bind_awaited((protocol, v4), watcher);
        }
    }

    /// Reserves a port that another gateway may use, until [`State::free`]. Returns false if the port is bound here or
    /// leased; then the caller has to end that first. Call it before [`State::serve`], when no port is bound or leased.
    pub fn hold(&mut self, protocol: Protocol, v4: Endpoint4) -> bool {
        let is_bound = self.bib.find_v4(protocol, v4).is_some();
        !is_bound && self.pool.rests() && self.pool.hold(protocol, v4)
    }

    /// Number of resting ports.
    pub fn resting(&self) -> u64 {
        self.pool.resting()
    }

    /// Returns true if ports rest while less than a tenth of the ports of a protocol, or of the blocks, is free in any
    /// pool. Then it is worthwhile to release resting ports.
    pub fn lacks_ports(&self) -> bool {
        if self.pool.resting() == 0 {
            return false;
        }
        let is_short = |(free, all): (u64, u64)| free * SHORT_BELOW < all;
        let mut pools = 0..self.pool.pools().count() as u32;
        if self.blocks.is_some() {
            let of = |pool| self.pool.blocks_of(pool);
            return pools.map(of).any(|of| is_short((of.free, of.all)));
        }
        pools.any(|pool| {
            let of = |protocol| self.pool.ports_of(pool, protocol);
            let mut all = Protocol::ALL.into_iter().map(of);
            all.any(|of| is_short((of.free, of.all)))
        })
    }

    /// Frees the port of a closed binding, or lets it rest.
    pub(super) fn leave_port(&mut self, entry: &Entry) {
        let binding = entry.binding();
        if !self.pool.rests() {
            if entry.pooled {
                self.pool.release(binding.protocol, binding.v4);
            }
            return;
        }
        let in_block = entry.pooled && self.blocks.is_some() && self.is_in_block(&binding);
        let of = self.pool.subscriber(binding.v6.addr);
        self.pool.rest(binding.protocol, binding.v4, of, in_block);
    }

    /// Handles a leased port that the fast path has used for a binding that the tables refuse. If
    /// ports rest, the binding is reported as opened and closed, because it has carried a packet, and its port rests.
    pub(super) fn refuse_leased(&mut self, binding: Binding, watcher: &mut impl Watcher) {
        let Binding { protocol, v4, v6 } = binding;
        if !self.pool.rests() {
            return self.pool.release(protocol, v4);
        }
        watcher.event(Event::BindingOpened(binding));
        let of = self.pool.subscriber(v6.addr);
        self.pool.rest(protocol, v4, of, false);
        watcher.event(Event::BindingClosed(binding));
    }

    /// Makes a binding of the configuration wait until its port no longer rests for another subscriber.
    pub(super) fn await_port(&mut self, binding: Binding) {
        if self.pool.rests_for(binding.protocol, binding.v4).is_some() {
            self.awaited.push(binding);
        }
    }

    fn bind_awaited(&mut self, port: (Protocol, Endpoint4), watcher: &mut impl Watcher) {
        let is_it = |binding: &Binding| (binding.protocol, binding.v4) == port;
        let Some(at) = self.awaited.iter().position(is_it) else {
            return;
        };
        let binding = self.awaited.swap_remove(at);
        // Meanwhile a packet may have opened another binding for the node's port, or the node have asked for one.
        let in_the_way = self.bib.find_v6(binding.protocol, binding.v6);
        if let Some(at) = in_the_way.filter(|&at| !self.bib[at].origin.is_static()) {
            self.close_binding(at, watcher);
        }
        if self.find_both(binding) == Ok(None) {
            self.insert_binding(binding, Origin::Configured, watcher);
        }
    }
}
