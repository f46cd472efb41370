// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of this gateway whose bindings have ended, where other gateways may have copies of these ([`crate::pool`], `rest`).
//! Who watches hears of the end, and says later that the port may be somebody else's ([`State::free`]).

use super::bib::{Entry, Origin};
use super::event::{Event, Watcher};
use super::State;
use crate::config::{Binding, Endpoint4, Protocol};

/// Ports are short when less than one of so many is free.
const SHORT_BELOW: u64 = 10;

impl State {
    /// A port rests no longer, since no other gateway can use it any more: it is free for everybody. Does nothing if it does not rest: a
    /// host of the same subscriber has it again.
    ///
    /// Who decides on that has to have heard of all events before ([`Event::BindingOpened`], [`Event::BindingClosed`]): a
    /// port may have got a binding again, and may rest anew.
    pub fn free(&mut self, protocol: Protocol, v4: Endpoint4, watcher: &mut impl Watcher) {
        if self.pool.free(protocol, v4) && !self.awaited.is_empty() {
            self.bind_awaited((protocol, v4), watcher);
        }
    }

    /// Another gateway may use a port of this one: nobody gets it until [`State::free`]. False if it is bound here, or on loan: then the
    /// caller has to end that first. To be called before [`State::serve`], when nothing is.
    pub fn hold(&mut self, protocol: Protocol, v4: Endpoint4) -> bool {
        let is_bound = self.bib.find_v4(protocol, v4).is_some();
        !is_bound && self.pool.rests() && self.pool.hold(protocol, v4)
    }

    /// Ports that rest.
    pub fn resting(&self) -> u64 {
        self.pool.resting()
    }

    /// Is less than a tenth of the ports of a protocol free, or of the blocks, while some rest? Then it is worth to make an end
    /// of resting.
    pub fn lacks_ports(&self) -> bool {
        if self.pool.resting() == 0 {
            return false;
        }
        let is_short = |(free, all): (u64, u64)| free * SHORT_BELOW < all;
        if self.blocks.is_some() {
            return is_short(self.pool.blocks());
        }
        let of = |protocol| (self.pool.free_ports(protocol), self.pool.ports(protocol));
        Protocol::ALL.into_iter().map(of).any(is_short)
    }

    /// The port of a binding that has ended is free, or rests.
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

    /// The fast path has used a port on loan for a binding that the tables refuse. Elsewhere that is none; but it has carried a packet.
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

    /// A binding of the configuration whose port rests for somebody else comes when that is over.
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
        // Meanwhile packets may have bound the host's port otherwise.
        let in_the_way = self.bib.find_v6(binding.protocol, binding.v6);
        if let Some(at) = in_the_way.filter(|&at| self.bib[at].origin.is_of_packets()) {
            self.close_binding(at, watcher);
        }
        if self.find_both(binding) == Ok(None) {
            self.insert_binding(binding, Origin::Configured, watcher);
        }
    }
}
