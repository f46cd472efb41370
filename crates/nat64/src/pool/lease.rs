// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports leased to another allocator: the fast path, which opens bindings by itself and reports them.
//!
//! Each leased port is drawn from all free ones, as for a binding, so that it reveals nothing about
//! the next port (RFC 6056). A lease is exclusive: the port is neither free nor bound until the holder
//! reports a binding ([`Pool::take_leased`]) or returns it unused ([`Pool::give_back`]).

use super::block::{Class, Parity};
use super::{Address, Pool, Subscriber};
use crate::config::{Endpoint4, Protocol};
use std::net::Ipv4Addr;

/// Free ports that an address must have for each leased port. Leases are for large pools and must not
/// exhaust a small one.
const FREE_PER_LOAN: u32 = 4;

/// The same where it has plenty. So what is leased on that condition is at most a quarter of what may be.
const PLENTY_PER_LOAN: u32 = 16;

impl Pool {
    /// Leases a port of an address above 1023, with the parity of the port `like`. None if there is
    /// none, or if too few free ports would remain.
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

    /// Returns true if an address has so many free ports that it can lease one to somebody who may not need it.
    pub fn has_plenty(&self, protocol: Protocol, address: Ipv4Addr) -> bool {
        let Some(at) = self.position(address) else {
            return false;
        };
        let block = self.addresses[at as usize].blocks[protocol.index()].as_ref();
        block.is_some_and(|block| block.free_ports() / PLENTY_PER_LOAN > block.lent_ports())
    }

    /// Returns true if an address has fewer free ports than leased ones, so that leases have to be
    /// returned.
    pub fn is_short(&self, protocol: Protocol, address: Ipv4Addr) -> bool {
        let Some(at) = self.position(address) else {
            return false;
        };
        let block = self.addresses[at as usize].blocks[protocol.index()].as_ref();
        block.is_some_and(|block| block.free_ports() < block.lent_ports())
    }

    /// Turns a leased port into a bound one, which is released like any other. Returns false if the
    /// port is not leased.
    pub fn take_leased(&mut self, protocol: Protocol, address: Ipv4Addr, port: u16) -> bool {
        let is_of_loan = self.end_loan(protocol, address, port);
        if let Some(at) = self.position(address).filter(|_| is_of_loan) {
            // It was leased inside a block of the subscriber for which it rested.
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

    /// Returns an unused port, if it is still leased. A port that rested before keeps resting.
    pub fn give_back(&mut self, protocol: Protocol, address: Ipv4Addr, port: u16) {
        if !self.end_loan(protocol, address, port) {
            return;
        }
        let addr = address;
        if self.rests_for(protocol, Endpoint4 { addr, port }) == Some(Subscriber::NOBODY) {
            // The port was put on hold during the lease.
            return;
        }
        if let Some(at) = self.position(address) {
            self.block(protocol, at).put_back(port);
            self.note_put_back(protocol, at);
        }
    }

    /// Returns true if a port is leased.
    pub fn is_leased(&self, protocol: Protocol, address: Ipv4Addr, port: u16) -> bool {
        self.position(address)
            .is_some_and(|at| self.is_lent(protocol, at, port))
    }

    /// Number of leased ports. Takes time proportional to the number of addresses.
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
