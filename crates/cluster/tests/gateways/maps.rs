// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The maps of a gateway's programs, and how programs use them, whatever the process does.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use diolkos_fastpath::{Gateway as Hop, HostPort, NodePort, Owner, Sent, Session, Sessions};
use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};
use diolkos_node::order::BUCKETS;
use diolkos_node::NodeId;

use crate::clock;
use diolkos_gateway::conversion::number;
use diolkos_gateway::fastpath::FastPath;
use diolkos_gateway::programs::Programs;

type V4 = (Ipv4Addr, u16);
type V6 = (Ipv6Addr, u16);

/// The maps.
#[derive(Debug)]
pub struct Maps {
    inward: BTreeMap<(u8, V4, V4), Session>,
    /// Not for UDP, which uses its bindings.
    outward: BTreeMap<(u8, V6, V4), Session>,
    bound: BTreeMap<(u8, V6), V4>,
    /// When a host last used a session.
    seen: BTreeMap<(u8, V4, V4), Duration>,
    /// By owner: until when its copies are used.
    pub until: Vec<Duration>,
    pub homes: Vec<Owner>,
    /// By bucket: whether packets that show no port go to the slow path.
    pub keeps_portless: Vec<bool>,
    /// Ports of hosts, the gateway that has each, and since when this is known.
    pub away: Vec<(HostPort, NodeId, Duration)>,
    /// By gateway.
    pub ways: Vec<Option<Hop>>,
}

impl Maps {
    fn new(nodes: usize) -> Maps {
        Maps {
            inward: BTreeMap::new(),
            outward: BTreeMap::new(),
            bound: BTreeMap::new(),
            seen: BTreeMap::new(),
            until: vec![Duration::ZERO; nodes],
            homes: vec![Owner::OURS; BUCKETS],
            keeps_portless: vec![false; BUCKETS],
            away: Vec::new(),
            ways: vec![None; nodes],
        }
    }

    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.inward.values().chain(self.outward.values())
    }

    fn is_usable(&self, clock: Duration, session: &Session) -> bool {
        let owner = session.owner.number();
        owner.is_none_or(|owner| clock < self.until[usize::from(owner)])
    }

    /// Returns the session by which a packet of a host is translated.
    pub fn of_host(
        &self,
        clock: Duration,
        protocol: Protocol,
        v6: Endpoint6,
        peer: Endpoint4,
    ) -> Option<Session> {
        let (host, peer, number) = ((v6.addr, v6.port), (peer.addr, peer.port), number(protocol));
        let session = match protocol {
            Protocol::Udp => {
                let v4 = self.bound.get(&(number, host))?;
                let session = self.inward.get(&(number, *v4, peer));
                session.filter(|session| session.node == host)
            }
            _ => self.outward.get(&(number, host, peer)),
        };
        session.filter(|its| self.is_usable(clock, its)).copied()
    }

    /// Returns the session by which a packet to a port is translated.
    pub fn of_port(
        &self,
        clock: Duration,
        protocol: Protocol,
        v4: Endpoint4,
        peer: Endpoint4,
    ) -> Option<Session> {
        let key = (number(protocol), (v4.addr, v4.port), (peer.addr, peer.port));
        let session = self.inward.get(&key);
        session.filter(|its| self.is_usable(clock, its)).copied()
    }

    /// Notes that a host has used a session.
    pub fn stamp(&mut self, clock: Duration, session: &Session) {
        let key = (session.protocol, session.v4, session.peer);
        self.seen.insert(key, clock);
    }

    /// Returns the gateway to which a packet of a host goes that has no session here; None for the slow path. Most
    /// fragments show no port.
    pub fn way_of_host(
        &self,
        protocol: Protocol,
        v6: Endpoint6,
        bucket: usize,
        is_fragment: bool,
    ) -> Option<NodeId> {
        let number = number(protocol);
        if !is_fragment && self.bound.contains_key(&(number, (v6.addr, v6.port))) {
            return None;
        }
        let is_it =
            |port: &HostPort| (port.protocol, port.addr, port.port) == (number, v6.addr, v6.port);
        let known = self.away.iter().find(|(port, ..)| is_it(port));
        let known = known.filter(|_| !is_fragment).map(|(_, node, _)| *node);
        let is_led = |node: &NodeId| self.ways[node.index()].is_some();
        let home = self.homes[bucket].number().map(NodeId);
        let home = home.filter(|_| !(is_fragment && self.keeps_portless[bucket]));
        known.filter(is_led).or(home.filter(is_led))
    }
}

/// The maps of one process, as the process sees them.
#[derive(Clone, Debug)]
pub struct Model(Arc<Mutex<Maps>>);

impl Model {
    pub fn new(nodes: usize) -> Model {
        Model(Arc::new(Mutex::new(Maps::new(nodes))))
    }

    pub fn maps(&self) -> MutexGuard<'_, Maps> {
        self.0.lock().expect("no panic")
    }
}

impl Programs for Model {
    fn use_copies(&self, owner: NodeId, until: Duration) {
        self.maps().until[owner.index()] = until;
    }

    fn set_home(&self, bucket: usize, home: Owner, keeps_portless: bool) {
        let mut maps = self.maps();
        maps.homes[bucket] = home;
        maps.keeps_portless[bucket] = keeps_portless;
    }

    fn set_away(&self, port: HostPort, owner: NodeId) -> io::Result<()> {
        let mut maps = self.maps();
        let known = maps.away.iter_mut().find(|(known, ..)| *known == port);
        match known {
            Some((_, node, _)) => *node = owner,
            None => maps.away.push((port, owner, clock::now())),
        }
        Ok(())
    }

    fn clear_away(&self, port: HostPort) -> io::Result<()> {
        self.maps().away.retain(|(known, ..)| *known != port);
        Ok(())
    }

    fn lead(&self, node: NodeId, hop: Option<Hop>) -> io::Result<()> {
        self.maps().ways[node.index()] = hop;
        Ok(())
    }
}

impl FastPath for Model {
    fn put(&self, session: &Session, _: Sent) -> io::Result<()> {
        let mut maps = self.maps();
        let number = session.protocol;
        maps.inward
            .insert((number, session.v4, session.peer), *session);
        if number != 17 {
            maps.outward
                .insert((number, session.node, session.peer), *session);
        }
        Ok(())
    }

    fn remove(&self, session: &Session) -> io::Result<()> {
        let mut maps = self.maps();
        let number = session.protocol;
        maps.inward.remove(&(number, session.v4, session.peer));
        maps.outward.remove(&(number, session.node, session.peer));
        maps.seen.remove(&(number, session.v4, session.peer));
        Ok(())
    }

    fn bind(&self, node: NodePort, v4: V4) -> io::Result<()> {
        let key = (node.protocol, (node.addr, node.port));
        self.maps().bound.insert(key, v4);
        Ok(())
    }

    fn unbind(&self, node: NodePort) -> io::Result<()> {
        let key = (node.protocol, (node.addr, node.port));
        self.maps().bound.remove(&key);
        Ok(())
    }

    fn last_seen(&self, session: &Session) -> io::Result<Option<Duration>> {
        let key = (session.protocol, session.v4, session.peer);
        Ok(self.maps().seen.get(&key).copied())
    }

    fn maps(&self) -> Option<Arc<Sessions>> {
        None
    }
}
