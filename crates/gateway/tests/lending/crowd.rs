// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many nodes at once: which share of their sessions the programs open, and that no lease serves two nodes.
//!
//! Here programs take turns with the controller, so a lease is a plain structure; `orders` and `chance` have what happens
//! when they do not.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diolkos_fastpath::{
    queue_of, NodePort, Opening, Report, Sent, Session, Sessions, LEASE_WAYS, WIDE_PORTS,
};
use diolkos_gateway::fastpath::FastPath;
use diolkos_gateway::leases::Leases;
use diolkos_gateway::mirror::Mirror;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Nat64Config, Protocol};
use diolkos_nat64::session::{Outbound, Segment, State};

use crate::controller::config;

const PLACES: usize = 65536;
const PORTS: u32 = 16;
const UDP: u8 = 17;
/// Sessions between two looks of the controller.
const BATCH: usize = 32;
/// Sessions between two sweeps, at 12 000 a second.
const SWEEP: usize = 3000;

/// The lease at a place.
#[derive(Clone, Default, Debug)]
struct Place {
    node: Option<Ipv6Addr>,
    v4: Option<Ipv4Addr>,
    term: u32,
    sessions: u32,
    queues: [VecDeque<u16>; 4],
    is_wide: bool,
}

#[derive(Debug)]
struct Crowd {
    places: Mutex<Vec<Place>>,
    reports: Mutex<Vec<Opening>>,
    wide_left: Mutex<u32>,
}

impl Crowd {
    fn new() -> Crowd {
        Crowd {
            places: Mutex::new(vec![Place::default(); PLACES]),
            reports: Mutex::default(),
            wide_left: Mutex::new(PLACES as u32 / 64),
        }
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
        let set = scatter((node.to_bits() >> 64) as u64) as usize % (PLACES / LEASE_WAYS);
        set * LEASE_WAYS..(set + 1) * LEASE_WAYS
    }

    fn assign(&self, place: usize, node: Ipv6Addr, address: Ipv4Addr, is_wide: bool) -> u32 {
        let mut left = self.wide_left.lock().expect("no thread has panicked");
        let is_wide = is_wide && *left > 0;
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
}

/// 64 addresses: with more networks than the programs can know, nothing would be lent.
fn pool() -> Nat64Config {
    let mut config = config(1, 1024..=65535);
    config.pool4[0].net = "192.0.2.0/26".parse().expect("a network");
    config
}

fn scatter(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n ^ n >> 32
}

/// What has opened the sessions of so many nodes: programs, and the slow path; and the leases, with how many are wide.
struct Opened {
    by_program: usize,
    by_controller: usize,
    leases: u32,
    wide: usize,
}

/// Opens sessions of nodes that `whose` selects, each from a new port, with settling and sweeping as in the program.
fn open(config: &Nat64Config, sessions: usize, whose: impl Fn(u64) -> u32) -> Opened {
    let crowd = Arc::new(Crowd::new());
    let fast: Arc<dyn FastPath> = crowd.clone();
    let mut state = State::new(config, [1, 2, 3, 4]);
    let mut mirror = Mirror::new(config, Some(fast.clone()));
    mirror.begin(&state);
    let mut leases = Leases::new(config, Some(fast));
    let mut next_port: HashMap<u32, u16> = HashMap::new();
    let peer = (Ipv4Addr::new(198, 51, 100, 1), 53);
    let (mut by_program, mut by_controller, mut drawn) = (0, 0, 0);
    let mut random = || {
        drawn += 1;
        scatter(drawn)
    };
    for n in 0..sessions {
        let now = Duration::from_micros(n as u64 * 1_000_000 / 12_000);
        if n % SWEEP == 0 {
            leases.settle(&mut state, &mut mirror, || now, &mut random);
            leases.sweep(&mut state);
        }
        let number = whose(scatter(n as u64 + (1 << 40)));
        // Each a link of its own.
        let node = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64 | 1);
        let port = next_port.entry(number).or_insert(1024);
        *port = port.checked_add(1).unwrap_or(1024);
        let is_opened = crowd.open((node, *port), peer);
        if n % BATCH == 0 || !is_opened {
            leases.settle(&mut state, &mut mirror, || now, &mut random);
        }
        if is_opened {
            by_program += 1;
            continue;
        }
        by_controller += 1;
        let packet = Outbound {
            protocol: Protocol::Udp,
            v6: Endpoint6 {
                addr: node,
                port: *port,
            },
            peer: Endpoint4 {
                addr: peer.0,
                port: peer.1,
            },
            prefix: 0,
            segment: Segment::Other,
        };
        let passed = state.outbound(now, &packet, &mut random, &mut mirror);
        passed.expect("there are ports for all");
        while let Some((protocol, node)) = mirror.take_opened() {
            leases.consider(node, protocol, &mut state, &mut mirror, &mut random);
        }
    }
    leases.settle(
        &mut state,
        &mut mirror,
        || Duration::from_secs(60),
        &mut random,
    );
    assert_eq!(
        state.sessions().count(),
        sessions,
        "the tables know each session once"
    );
    let (number, _) = leases.lent_out();
    let wide = |place: &Place| place.is_wide;
    let wide = crowd
        .places
        .lock()
        .expect("no thread has panicked")
        .iter()
        .filter(|p| wide(p))
        .count();
    leases.end_all(&mut state);
    assert_eq!(leases.lent(), [0, 0]);
    assert_eq!(
        state.pool().leased_ports(),
        0,
        "a loan that nobody gives back"
    );
    assert_eq!(
        *crowd.wide_left.lock().expect("no thread has panicked") as usize,
        PLACES / 64
    );
    Opened {
        by_program,
        by_controller,
        leases: number,
        wide,
    }
}

#[test]
fn programs_open_most_sessions_of_sixteen_thousand_nodes() {
    // 12 000 a second, as long as a lease may be idle: with one place for each of 4096 hashes it was a tenth.
    let opened = open(&pool(), 360_000, |drawn| (drawn % 16384) as u32);
    let all = opened.by_program + opened.by_controller;
    // Each node's first four sessions are the controller's: 65 536 of 360 000.
    let after_the_first = all - 4 * 16384;
    assert!(
        opened.by_program * 10 >= after_the_first * 9,
        "{} of {after_the_first} by programs",
        opened.by_program
    );
    assert!(opened.leases >= 16384 * 9 / 10, "{} leases", opened.leases);
}

#[test]
fn a_node_that_opens_much_gets_a_wide_lease_among_many() {
    // Every second session is that of node 0.
    let opened = open(&pool(), 60_000, |drawn| {
        if drawn % 2 == 0 {
            0
        } else {
            (drawn >> 8) as u32 % 1000
        }
    });
    assert!(opened.wide >= 1, "node 0 has an ordinary lease");
    assert!(
        opened.by_program * 10 >= (60_000 - 4 * 1001) * 9,
        "{}",
        opened.by_program
    );
}

#[test]
fn nodes_of_one_set_do_not_take_turns_with_leases() {
    // Five nodes of one set, all as busy: four have a lease at any time, and keep it.
    let crowd = Crowd::new();
    let node = |number: u32| Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64 | 1);
    let set = crowd.set_of(node(0));
    let five: Vec<u32> = (0..)
        .filter(|n| crowd.set_of(node(*n)) == set)
        .take(5)
        .collect();
    let opened = open(&pool(), 20_000, |drawn| five[(drawn % 5) as usize]);
    assert_eq!(opened.leases, 4);
    let share = opened.by_program as f64 / 20_000.0;
    assert!(share >= 0.75, "{share}");
}
