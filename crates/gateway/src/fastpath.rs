// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface between controller and fast path: maps that programs read, leases by which they open sessions, and
//! what they report. The kernel implements it; tests have a twin in memory, whose programs can be stopped at any step.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use diolkos_fastpath::{LeaseSize, Lending, NodePort, Opening, Owner, Sent, Session, Sessions};
use diolkos_nat64::config::Protocol;

use super::conversion::number;

/// The fast path as the controller sees it. Each lease has a slot ("place").
pub trait FastPath: fmt::Debug + Send + Sync {
    /// Adds a session, or changes it.
    fn put(&self, session: &Session, sent: Sent) -> io::Result<()>;
    /// Removes a session, if it exists.
    fn remove(&self, session: &Session) -> io::Result<()>;
    /// Removes those of the sessions that exist. After an error, all those that can be removed are.
    fn remove_all(&self, sessions: &[Session]) -> io::Result<()> {
        let removed = sessions.iter().map(|session| self.remove(session));
        removed.fold(Ok(()), io::Result::and)
    }
    /// Adds a binding, or changes it.
    fn bind(&self, node: NodePort, v4: (Ipv4Addr, u16)) -> io::Result<()>;
    /// Removes a binding, if it exists.
    fn unbind(&self, node: NodePort) -> io::Result<()>;
    /// Removes those of the bindings that exist. After an error, all those that can be removed are.
    fn unbind_all(&self, nodes: &[NodePort]) -> io::Result<()> {
        let removed = nodes.iter().map(|node| self.unbind(*node));
        removed.fold(Ok(()), io::Result::and)
    }
    /// Returns when a program last translated a packet of a session, by CLOCK_MONOTONIC.
    fn last_seen(&self, session: &Session) -> io::Result<Option<Duration>>;
    /// Returns the kernel's maps, for callers that scan all entries.
    fn maps(&self) -> Option<Arc<Sessions>>;

    /// Returns the maximum number of leases: 0 where programs open nothing by themselves. Then nothing below is called, but
    /// for [`FastPath::drain`].
    fn places(&self) -> usize {
        0
    }
    /// Returns the slots of which a node may have one.
    fn set_of(&self, _node: Ipv6Addr) -> Range<usize> {
        0..0
    }
    /// Gives an empty slot of its set to a node. Returns the term of the lease, which no other of the node has.
    fn assign(&self, _: usize, _node: Ipv6Addr, _address: Ipv4Addr, _: LeaseSize) -> u32 {
        0
    }
    /// Returns the maximum number of ports in each queue.
    fn most_ports(&self, _place: usize) -> u32 {
        0
    }
    /// Returns the number of sessions that the node may still open.
    fn sessions(&self, _place: usize) -> u32 {
        0
    }
    /// Lends `more` sessions in addition.
    fn add_sessions(&self, _place: usize, _more: u32) {}
    /// Returns the number of ports left in a queue ([`diolkos_fastpath::lease::queue_of`]).
    fn ports(&self, _place: usize, _queue: usize) -> u32 {
        0
    }
    /// Lends a port. Its queue must hold fewer than [`FastPath::most_ports`].
    fn add_port(&self, _place: usize, _queue: usize, _port: u16) {}
    /// Ends a lease. Returns the ports that no program has taken, with their queues; programs report those that they
    /// have taken.
    fn end(&self, _place: usize) -> Vec<(usize, u16)> {
        Vec::new()
    }
    /// Returns what programs have opened since the last call.
    fn drain(&self) -> Vec<Opening> {
        Vec::new()
    }

    /// Notes that an external port is bound or lent: packets from outside to it are not dropped unseen. Called before
    /// anybody can use the port; one that is lent and bound is occupied twice.
    fn occupy(&self, _: Protocol, _: (Ipv4Addr, u16)) {}
    /// Reverses one call of [`FastPath::occupy`].
    fn vacate(&self, _: Protocol, _: (Ipv4Addr, u16)) {}
    /// Has the programs drop packets from outside to ports that are not occupied, until [`FastPath::hide_unbound`]. Does
    /// nothing if they do so already. `occupied` has each port as often as it is bound or lent.
    fn tell_unbound(&self, _occupied: &mut dyn Iterator<Item = (Protocol, (Ipv4Addr, u16))>) {}
    /// Has them drop nothing any more.
    fn hide_unbound(&self) {}
}

/// The fast path of the kernel.
#[derive(Debug)]
pub struct Kernel {
    maps: Arc<Sessions>,
    lending: Lending,
}

impl Kernel {
    /// Wraps the maps of loaded programs, and what these may open.
    pub fn new(maps: Arc<Sessions>, lending: Lending) -> Kernel {
        Kernel { maps, lending }
    }

    /// Returns a descriptor that is readable when programs have reported something.
    pub fn ready(&self) -> io::Result<OwnedFd> {
        self.lending.ready()
    }

    /// See [`Lending::unheard`].
    pub fn unheard(&self) -> u64 {
        self.lending.unheard()
    }
}

impl FastPath for Kernel {
    fn put(&self, session: &Session, sent: Sent) -> io::Result<()> {
        self.maps.put(session, sent)
    }

    fn remove(&self, session: &Session) -> io::Result<()> {
        self.maps.remove(session)
    }

    fn remove_all(&self, sessions: &[Session]) -> io::Result<()> {
        self.maps.remove_all(sessions)
    }

    fn bind(&self, node: NodePort, v4: (Ipv4Addr, u16)) -> io::Result<()> {
        self.maps.bind(node, v4, Owner::OURS)
    }

    fn unbind(&self, node: NodePort) -> io::Result<()> {
        self.maps.unbind(node)
    }

    fn unbind_all(&self, nodes: &[NodePort]) -> io::Result<()> {
        self.maps.unbind_all(nodes)
    }

    fn last_seen(&self, session: &Session) -> io::Result<Option<Duration>> {
        self.maps.last_seen(session)
    }

    fn maps(&self) -> Option<Arc<Sessions>> {
        Some(self.maps.clone())
    }

    fn places(&self) -> usize {
        self.lending.places()
    }

    fn set_of(&self, node: Ipv6Addr) -> Range<usize> {
        self.lending.set_of(node)
    }

    fn assign(&self, place: usize, node: Ipv6Addr, address: Ipv4Addr, size: LeaseSize) -> u32 {
        self.lending.assign(place, node, address, size)
    }

    fn most_ports(&self, place: usize) -> u32 {
        self.lending.most_ports(place)
    }

    fn sessions(&self, place: usize) -> u32 {
        self.lending.sessions(place)
    }

    fn add_sessions(&self, place: usize, more: u32) {
        self.lending.add_sessions(place, more);
    }

    fn ports(&self, place: usize, queue: usize) -> u32 {
        self.lending.ports(place, queue)
    }

    fn add_port(&self, place: usize, queue: usize, port: u16) {
        self.lending.add_port(place, queue, port);
    }

    fn end(&self, place: usize) -> Vec<(usize, u16)> {
        self.lending.end(place)
    }

    fn drain(&self) -> Vec<Opening> {
        self.lending.drain()
    }

    fn occupy(&self, protocol: Protocol, v4: (Ipv4Addr, u16)) {
        self.lending.occupy(number(protocol), v4);
    }

    fn vacate(&self, protocol: Protocol, v4: (Ipv4Addr, u16)) {
        self.lending.vacate(number(protocol), v4);
    }

    fn tell_unbound(&self, occupied: &mut dyn Iterator<Item = (Protocol, (Ipv4Addr, u16))>) {
        let occupied = occupied.map(|(protocol, v4)| (number(protocol), v4));
        self.lending.tell_unbound(occupied);
    }

    fn hide_unbound(&self) {
        self.lending.hide_unbound();
    }
}
