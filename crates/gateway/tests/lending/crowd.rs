// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gateway for many nodes at once: the controller, and a fast path with as many leases as there can be.
//!
//! Here programs take turns with the controller, so a lease is a plain structure; `orders` and `chance` have what happens
//! when they do not.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use diolkos_fastpath::{
    queue_of, LeaseSize, NodePort, Opening, Report, Sent, Session, Sessions, LEASE_WAYS, WIDE_PORTS,
};
use diolkos_gateway::fastpath::FastPath;
use diolkos_gateway::leases::Leases;
use diolkos_gateway::mirror::Mirror;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Nat64Config, Protocol};
use diolkos_nat64::session::{Outbound, Segment, State};

use crate::occupied::Occupied;

pub const PLACES: usize = 1 << 17;
const PORTS: u32 = 16;
const UDP: u8 = 17;

/// The lease at a place.
#[derive(Clone, Default, Debug)]
pub struct Place {
    pub node: Option<Ipv6Addr>,
    v4: Option<Ipv4Addr>,
    term: u32,
    sessions: u32,
    queues: [VecDeque<u16>; 4],
    pub is_wide: bool,
}

#[derive(Debug)]
pub struct Crowd {
    places: Mutex<Vec<Place>>,
    reports: Mutex<Vec<Opening>>,
    wide_left: Mutex<u32>,
    occupied: Mutex<Occupied>,
}

impl Crowd {
    pub fn new() -> Crowd {
        Crowd {
            places: Mutex::new(vec![Place::default(); PLACES]),
            reports: Mutex::default(),
            wide_left: Mutex::new(PLACES as u32 / 64),
            occupied: Mutex::default(),
        }
    }

    /// Returns the leases of all nodes that have one.
    pub fn leases(&self) -> Vec<Place> {
        let all = self.places.lock().expect("no thread has panicked");
        all.iter()
            .filter(|place| place.node.is_some())
            .cloned()
            .collect()
    }

    /// Returns true if a node has a lease.
    pub fn has_lease(&self, node: Ipv6Addr) -> bool {
        self.set_of(node)
            .any(|place| self.with(place, |lease| lease.node) == Some(node))
    }

    fn occupied(&self) -> MutexGuard<'_, Occupied> {
        self.occupied.lock().expect("no thread has panicked")
    }

    fn with<T>(&self, place: usize, see: impl FnOnce(&mut Place) -> T) -> T {
        see(&mut self.places.lock().expect("no thread has panicked")[place])
    }

    /// As the program does for a packet of a node's new port: returns true if it opens the session.
    fn open(&self, node: (Ipv6Addr, u16), peer: (Ipv4Addr, u16)) -> bool {
        let all = self.places.lock().expect("no thread has panicked");
        let having = |&place: &usize| all[place].node == Some(node.0) && all[place].sessions > 0;
        let (place, second) = {
            let mut its = self.set_of(node.0).filter(having);
            (its.next(), its.next())
        };
        assert_eq!(second, None, "two leases of one node");
        drop(all);
        let Some(place) = place else { return false };
        let queue = queue_of(false, node.1);
        let taken = self.with(place, |lease| {
            let port = lease.queues[queue].pop_front()?;
            lease.sessions -= 1;
            Some((lease.v4?, port, lease.term))
        });
        let Some((v4, port, term)) = taken else {
            return false;
        };
        assert!(self.occupied().has(Protocol::Udp, (v4, port)));
        self.reports
            .lock()
            .expect("no thread has panicked")
            .push(Opening {
                report: Report::Bound,
                protocol: UDP,
                node,
                v4: (v4, port),
                peer,
                prefix: 0,
                term,
            });
        true
    }
}

impl FastPath for Crowd {
    fn put(&self, _: &Session, _: Sent) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Session) -> io::Result<()> {
        Ok(())
    }

    fn bind(&self, _: NodePort, _: (Ipv4Addr, u16)) -> io::Result<()> {
        Ok(())
    }

    fn unbind(&self, _: NodePort) -> io::Result<()> {
        Ok(())
    }

    fn last_seen(&self, _: &Session) -> io::Result<Option<Duration>> {
        Ok(None)
    }

    fn maps(&self) -> Option<Arc<Sessions>> {
        None
    }

    fn places(&self) -> usize {
        PLACES
    }

    fn set_of(&self, node: Ipv6Addr) -> Range<usize> {
        let bits = node.to_bits();
        let set =
            scatter(scatter((bits >> 64) as u64) ^ bits as u64) as usize % (PLACES / LEASE_WAYS);
        set * LEASE_WAYS..(set + 1) * LEASE_WAYS
    }

    fn assign(&self, place: usize, node: Ipv6Addr, address: Ipv4Addr, size: LeaseSize) -> u32 {
        let mut left = self.wide_left.lock().expect("no thread has panicked");
        let is_wide = size == LeaseSize::Wide && *left > 0;
        *left -= u32::from(is_wide);
        self.with(place, |lease| {
            assert_eq!(
                (lease.node, lease.sessions),
                (None, 0),
                "the place is taken"
            );
            (lease.node, lease.v4, lease.is_wide) = (Some(node), Some(address), is_wide);
            lease.term
        })
    }

    fn most_ports(&self, place: usize) -> u32 {
        self.with(
            place,
            |lease| if lease.is_wide { WIDE_PORTS } else { PORTS },
        )
    }

    fn sessions(&self, place: usize) -> u32 {
        self.with(place, |lease| lease.sessions)
    }

    fn add_sessions(&self, place: usize, more: u32) {
        self.with(place, |lease| lease.sessions += more);
    }

    fn ports(&self, place: usize, queue: usize) -> u32 {
        self.with(place, |lease| lease.queues[queue].len() as u32)
    }

    fn add_port(&self, place: usize, queue: usize, port: u16) {
        let most = self.most_ports(place);
        self.with(place, |lease| {
            lease.queues[queue].push_back(port);
            assert!(
                lease.queues[queue].len() as u32 <= most,
                "the queue has no room"
            );
        });
    }

    fn end(&self, place: usize) -> Vec<(usize, u16)> {
        let ended = self.with(place, |lease| {
            let term = (lease.term | 3) + 1 + (place % LEASE_WAYS) as u32;
            let next = Place {
                term,
                ..Place::default()
            };
            std::mem::replace(lease, next)
        });
        *self.wide_left.lock().expect("no thread has panicked") += u32::from(ended.is_wide);
        let queues = ended.queues.into_iter().enumerate();
        queues
            .flat_map(|(queue, ports)| ports.into_iter().map(move |port| (queue, port)))
            .collect()
    }

    fn drain(&self) -> Vec<Opening> {
        std::mem::take(&mut *self.reports.lock().expect("no thread has panicked"))
    }

    fn occupy(&self, protocol: Protocol, v4: (Ipv4Addr, u16)) {
        self.occupied().occupy(protocol, v4);
    }

    fn vacate(&self, protocol: Protocol, v4: (Ipv4Addr, u16)) {
        self.occupied().vacate(protocol, v4);
    }

    fn tell_unbound(&self, occupied: &mut dyn Iterator<Item = (Protocol, (Ipv4Addr, u16))>) {
        self.occupied().begin(occupied);
    }
}

pub fn scatter(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n ^ n >> 32
}

impl Place {
    /// Number of ports of all queues.
    pub fn ports(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Number of sessions that its node may open.
    pub fn sessions(&self) -> u32 {
        self.sessions
    }
}

/// Who has opened a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    Program,
    Controller,
    /// Nobody: the tables have refused it.
    Nobody,
}

/// The controller with the leases of a crowd.
pub struct Gateway {
    pub crowd: Arc<Crowd>,
    pub state: State,
    mirror: Mirror,
    pub leases: Leases,
    drawn: u64,
}

impl Gateway {
    pub fn new(config: &Nat64Config) -> Gateway {
        let crowd = Arc::new(Crowd::new());
        let fast: Arc<dyn FastPath> = crowd.clone();
        let state = State::new(config, [1, 2, 3, 4]);
        let mut mirror = Mirror::new(config, Some(fast.clone()));
        mirror.begin(&state);
        mirror.tell_unbound(&state);
        let leases = Leases::new(config, state.pool().pools(), Some(fast));
        Gateway {
            crowd,
            state,
            mirror,
            leases,
            drawn: 0,
        }
    }

    /// Brings what programs have opened into the tables.
    pub fn settle(&mut self, now: Duration) {
        let drawn = &mut self.drawn;
        self.leases
            .settle(&mut self.state, &mut self.mirror, || now, || draw(drawn));
    }

    /// Does what is done four times a second.
    pub fn sweep(&mut self, now: Duration) {
        self.settle(now);
        self.leases.sweep(&mut self.state);
    }

    /// Handles the first packet of a node's port: by a program, which the controller hears of after `is_late`, or by the
    /// controller.
    pub fn first_packet(&mut self, node: (Ipv6Addr, u16), now: Duration, is_late: bool) -> By {
        let peer = (Ipv4Addr::new(198, 51, 100, 1), 53);
        let is_opened = self.crowd.open(node, peer);
        if !is_late || !is_opened {
            self.settle(now);
        }
        if is_opened {
            return By::Program;
        }
        let packet = Outbound {
            protocol: Protocol::Udp,
            v6: Endpoint6 {
                addr: node.0,
                port: node.1,
            },
            peer: Endpoint4 {
                addr: peer.0,
                port: peer.1,
            },
            prefix: 0,
            segment: Segment::Other,
        };
        let drawn = &mut self.drawn;
        let passed = self
            .state
            .outbound(now, &packet, || draw(drawn), &mut self.mirror);
        while let Some((protocol, node)) = self.mirror.take_opened() {
            let (state, mirror) = (&mut self.state, &mut self.mirror);
            self.leases
                .consider(node, protocol, state, mirror, || draw(drawn));
        }
        match passed {
            Ok(_) => By::Controller,
            Err(_) => By::Nobody,
        }
    }

    /// Takes all leases back: nothing that was lent may be missing.
    pub fn finish(&mut self) {
        self.leases.end_all(&mut self.state);
        assert_eq!(self.leases.lent(), [0, 0]);
        self.crowd.occupied().check_against(&self.state);
        assert_eq!(
            self.state.pool().leased_ports(),
            0,
            "a loan that nobody gives back"
        );
        let left = self.crowd.wide_left.lock();
        assert_eq!(*left.expect("no thread has panicked") as usize, PLACES / 64);
    }
}

fn draw(drawn: &mut u64) -> u64 {
    *drawn += 1;
    scatter(*drawn)
}
