// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of one slice, for a pool that several gateways share. What holds for an address in a pool of one's own holds for
//! a slice here.

use super::allocate::{self, Wish};
use super::block::Parity;
use super::lease::FREE_PER_LOAN;
use super::slice::Slice;
use super::{Applicant, Pool};
use crate::config::nat64::{Endpoint4, Protocol};

impl Pool {
    /// A free port of a slice, which is now the applicant's; None if there is none.
    pub fn allocate_in(
        &mut self,
        slice: &Slice,
        applicant: Applicant,
        random: impl FnMut() -> u64,
    ) -> Option<Endpoint4> {
        let Applicant {
            protocol,
            port: own,
            neighbour,
            ..
        } = applicant;
        let at = self.position(slice.addr)?;
        let preserve = self.preserve_ports.then_some(own);
        let block = self.block(protocol, at);
        let beside = neighbour
            .and_then(|neighbour| Some((neighbour.addr, neighbour.port.checked_add(1)?)))
            .filter(|&(addr, port)| slice.has(addr, port) && block.is_free(port));
        let wish = Wish {
            protocol,
            port: own,
            best: beside.map(|(_, port)| port).or(preserve),
        };
        let port = allocate::choose_in(block, slice.bounds(), wish, random)?;
        block.take(port);
        self.note_taken(protocol, at);
        let addr = slice.addr;
        Some(Endpoint4 { addr, port })
    }

    /// Lends a port of a slice, even or odd as the port `like`. None if there is none, or if too few would be left.
    pub fn lend_in_slice(
        &mut self,
        slice: &Slice,
        protocol: Protocol,
        like: u16,
        random: impl FnMut() -> u64,
    ) -> Option<u16> {
        if self.free_in_slice(slice, protocol) / FREE_PER_LOAN
            <= self.lent_in_slice(slice, protocol)
        {
            return None;
        }
        let (first, size) = slice.bounds();
        let at = self.position(slice.addr)?;
        let block = self.block(protocol, at);
        let port = block.draw_in(first, size, Parity::of(like), random)?;
        block.lend(port);
        self.note_taken(protocol, at);
        Some(port)
    }

    /// Free ports of a protocol in a slice. What is on loan is not free.
    pub fn free_in_slice(&self, slice: &Slice, protocol: Protocol) -> u32 {
        let (first, size) = slice.bounds();
        let Some(at) = self.position(slice.addr) else {
            return 0;
        };
        match &self.addresses[at as usize].blocks[protocol.index()] {
            Some(block) => block.free_in(first, size, Parity::Any),
            // The pool has all of it.
            None => size.into(),
        }
    }

    /// Ports of a protocol in a slice that are on loan.
    pub fn lent_in_slice(&self, slice: &Slice, protocol: Protocol) -> u32 {
        let (first, size) = slice.bounds();
        let at = self.position(slice.addr).map(|at| at as usize);
        let block = at.and_then(|at| self.addresses[at].blocks[protocol.index()].as_ref());
        block.map_or(0, |block| block.lent_in(first, size))
    }

    /// The first port from `from` on that a binding of a slice has, or that is on loan.
    pub fn next_taken_in_slice(&self, slice: &Slice, protocol: Protocol, from: u16) -> Option<u16> {
        let at = self.position(slice.addr)? as usize;
        let block = self.addresses[at].blocks[protocol.index()].as_ref()?;
        let (first, last) = (*slice.ports.start(), *slice.ports.end());
        block.next_taken(from.max(first)..=last)
    }
}
