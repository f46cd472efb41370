// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free ports that somebody else may give out: the fast path, which then opens bindings by itself and
//! reports them.
//!
//! Each is drawn from all free ones, as for a binding, so that a port that was lent says nothing about
//! the next one (RFC 6056). A loan is exclusive: the port is neither free nor anybody's until the
//! holder says that it became a binding ([`Pool::take_leased`]), or that it comes back unused
//! ([`Pool::give_back`]).

use super::block::{Class, Parity};
use super::{Address, Pool, Subscriber};
use crate::config::{Endpoint4, Protocol};
use std::net::Ipv4Addr;

/// For each port on loan, an address must have so many free ones: loans are for the many ports of a
/// large pool, and never the reason that a small one has none left.
const FREE_PER_LOAN: u32 = 4;

impl Pool {
    /// Lends a port of an address: one above 1023, even or odd as the port `like`. None if there is
    /// none, or if too few would be left.
    pub fn lend(
        &mut self,
        protocol: Protocol,
        address: Ipv4Addr,
        like: u16,
        mut random: impl FnMut() -> u64,
    ) -> Option<u16> {
        let at = self.position(address)?;
        let block = self.block(protocol, at);
        if block.free_ports() / FREE_PER_LOAN <= block.lent_ports() {
            return None;
        }
        let parity = Parity::of(like);
        let n = random().checked_rem(u64::from(block.free_of(Class::User, parity)))?;
        let port = block.nth_free(Class::User, parity, n as u32)?;
        block.lend(port);
        self.note_taken(protocol, at);
        Some(port)
    }

    /// Fewer ports of an address are free than on loan: they are wanted back.
    pub fn is_short(&self, protocol: Protocol, address: Ipv4Addr) -> bool {
        let Some(at) = self.position(address) else {
            return false;
        };
        let block = self.addresses[at as usize].blocks[protocol.index()].as_ref();
        block.is_some_and(|block| block.free_ports() < block.lent_ports())
    }

    /// A port on loan has become that of a binding, and is now released like any other. False if it is
    /// not on loan.
    pub fn take_leased(&mut self, protocol: Protocol, address: Ipv4Addr, port: u16) -> bool {
        let is_of_loan = self.end_loan(protocol, address, port);
        if let Some(at) = self.position(address).filter(|_| is_of_loan) {
            // It was lent in a block of the subscriber for whom it rested.
            let addr = address;
            self.end_rest(protocol, at, Endpoint4 { addr, port });
        }
        is_of_loan
    }

    fn end_loan(&mut self, protocol: Protocol, address: Ipv4Addr, port: u16) -> bool {
        let at = self.position(address).map(|at| at as usize);
        let block = at.and_then(|at| self.addresses[at].blocks[protocol.index()].as_mut());
        block.is_some_and(|block| block.end_loan(port))
    }

    /// A port comes back unused, if it is still on loan. If it rested before, it still does.
    pub fn give_back(&mut self, protocol: Protocol, address: Ipv4Addr, port: u16) {
        if !self.end_loan(protocol, address, port) {
            return;
        }
        let addr = address;
        if self.rests_for(protocol, Endpoint4 { addr, port }) == Some(Subscriber::NOBODY) {
            // It was held while it was on loan.
            return;
        }
        if let Some(at) = self.position(address) {
            self.block(protocol, at).put_back(port);
            self.note_put_back(protocol, at);
        }
    }

    /// Ports on loan. It looks at every address.
    pub fn leased_ports(&self) -> usize {
        let of = |address: &Address| -> u32 {
            let blocks = address.blocks.iter().flatten();
            blocks.map(|block| block.lent_ports()).sum()
        };
        self.addresses
            .iter()
            .map(|address| of(address) as usize)
            .sum()
    }
}
