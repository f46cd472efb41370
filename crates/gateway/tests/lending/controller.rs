// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller without its lock and clock: the tables, and the leases and the mirror of the program
//! (`src/controller.rs`).

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use diolkos_nat64::config::{Endpoint4, Endpoint6, Limits, Nat64Config, Pool4, Protocol};
use diolkos_nat64::session::{self, Inbound, Outbound, Segment, State};
use diolkos_xlat::Config;

use crate::program::{Outcome, Packet, Program};
use crate::twin::{self, Inward, NodePort, Record, Twin, V4};
use diolkos_gateway::fastpath::FastPath;
use diolkos_gateway::leases::Leases;
use diolkos_gateway::mirror::Mirror;

pub struct Controller {
    pub state: State,
    mirror: Mirror,
    leases: Leases,
    now: u64,
    drawn: u64,
    /// Number of packets sent by programs that have been compared with the tables.
    compared: usize,
    /// Sessions that had ended by then.
    ended: HashSet<Inward>,
}

/// Returns a pool of these ports of each of so many addresses. With shares, nothing would be lent of such a small
/// one.
pub fn config(addresses: u8, ports: std::ops::RangeInclusive<u16>) -> Nat64Config {
    let part = |last| Pool4 {
        interface: None,
        net: Ipv4Addr::new(192, 0, 2, last).into(),
        ports: ports.clone(),
        protocols: vec![Protocol::Udp, Protocol::Tcp],
        sources: vec![],
    };
    Nat64Config {
        translator: Config {
            pref64: vec!["64:ff9b::/96".parse().unwrap()],
            ..Config::default()
        },
        pool4: (1..=addresses).map(part).collect(),
        limits: Limits {
            host_share: 100,
            source_share: 100,
            site_share: 100,
            outside_share: 100,
            ..Limits::default()
        },
        ..Nat64Config::default()
    }
}

/// Returns nodes of different links, which are different sources.
pub fn node(number: u16, port: u16) -> NodePort {
    (Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 1), port)
}

pub fn peer(number: u8) -> V4 {
    (Ipv4Addr::new(198, 51, 100, number), 4000)
}

fn protocol() -> Protocol {
    twin::with(|world| world.protocol)
}

fn endpoint4((addr, port): V4) -> Endpoint4 {
    Endpoint4 { addr, port }
}

fn endpoint6((addr, port): NodePort) -> Endpoint6 {
    Endpoint6 { addr, port }
}

impl Controller {
    /// Creates a controller in the existing world.
    pub fn new(config: &Nat64Config) -> Controller {
        let fast: Arc<dyn FastPath> = Arc::new(Twin);
        let state = State::new(config, [1, 2, 3, 4]);
        let mut mirror = Mirror::new(config, Some(fast.clone()));
        mirror.begin(&state);
        mirror.tell_unbound(&state);
        Controller {
            leases: Leases::new(config, state.pool().pools(), Some(fast)),
            state,
            mirror,
            now: 1,
            drawn: 0,
            compared: 0,
            ended: HashSet::new(),
        }
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.now)
    }

    /// Does what precedes everything else: brings what programs have opened into the tables.
    pub fn lock(&mut self) {
        let before = twin::with(|world| world.sent.len());
        let (now, drawn) = (self.now(), &mut self.drawn);
        let random = || draw(drawn);
        self.leases
            .settle(&mut self.state, &mut self.mirror, || now, random);
        if twin::with(|world| world.gave_up) {
            return;
        }
        // Everything sent before is known, or has ended since.
        let (sent, ended) =
            twin::with(|world| (world.sent.clone(), std::mem::take(&mut world.ended)));
        for (node, (v4, peer)) in &sent[self.compared..before] {
            let known = self
                .state
                .session(protocol(), endpoint6(*node), endpoint4(*peer));
            let is_same = known.is_some_and(|known| known.binding.v4 == endpoint4(*v4));
            assert!(
                is_same
                    || [&self.ended, &ended]
                        .iter()
                        .any(|all| all.contains(&(*v4, *peer))),
                "the tables do not know of {node:?} as {v4:?} with {peer:?}"
            );
        }
        (self.compared, self.ended) = (before, ended);
    }

    /// Handles a packet of a node that takes the slow path.
    pub fn outbound(&mut self, node: NodePort, peer: V4) -> Option<V4> {
        self.lock();
        let packet = Outbound {
            protocol: protocol(),
            v6: endpoint6(node),
            peer: endpoint4(peer),
            prefix: 0,
            segment: match protocol() {
                Protocol::Tcp => Segment::Syn,
                _ => Segment::Other,
            },
        };
        let (now, drawn) = (self.now(), &mut self.drawn);
        let passed = self
            .state
            .outbound(now, &packet, || draw(drawn), &mut self.mirror);
        let v4 = passed.ok().map(|v4| (v4.addr, v4.port));
        if let Some(v4) = v4 {
            twin::with(|world| world.sent.push((node, (v4, peer))));
        }
        self.consider();
        v4
    }

    /// Handles a packet of a peer that takes the slow path. Returns its recipient.
    pub fn inbound(&mut self, to: V4, peer: V4) -> Option<NodePort> {
        self.lock();
        let packet = Inbound {
            protocol: protocol(),
            v4: endpoint4(to),
            peer: endpoint4(peer),
            segment: Segment::Other,
            bytes: &[],
        };
        let passed = self.state.inbound(self.now(), &packet, &mut self.mirror);
        self.consider();
        match passed {
            Ok(session::Inward::Node(node, _)) => Some((node.addr, node.port)),
            _ => None,
        }
    }

    fn consider(&mut self) {
        while let Some((protocol, node)) = self.mirror.take_opened() {
            let drawn = &mut self.drawn;
            let (state, mirror) = (&mut self.state, &mut self.mirror);
            self.leases
                .consider(node, protocol, state, mirror, || draw(drawn));
        }
    }

    /// Lets time pass, and ends what has expired.
    pub fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        twin::with(|world| world.now = self.now);
        self.lock();
        self.mirror.gather();
        self.state
            .expire(self.now(), usize::MAX, &mut self.mirror, |_| {});
        self.mirror.take_out();
    }

    /// Checks the existing lease.
    pub fn sweep(&mut self) {
        self.lock();
        self.leases.sweep(&mut self.state);
    }

    pub fn reload(&mut self, config: &Nat64Config) {
        self.lock();
        self.leases.end_all(&mut self.state);
        self.lock();
        let mut change = self.mirror.change(&mut self.state, false);
        self.state.reconfigure(config, &mut change);
        change.finish(config, &mut self.state);
        self.leases.follow(config, self.state.pool().pools());
        self.mirror.tell_unbound(&self.state);
    }

    /// Begins a reload that renumbers prefixes, and does not complete it.
    pub fn break_off_reload(&mut self) {
        self.lock();
        self.leases.end_all(&mut self.state);
        drop(self.mirror.change(&mut self.state, true));
    }

    /// Ends as at the end of the program.
    pub fn leave(&mut self) {
        self.lock();
        self.mirror.leave();
        self.leases.end_all(&mut self.state);
    }

    /// Checks that controller and fast path agree on the sessions and ports that programs may take, and returns
    /// them.
    pub fn lent(&self) -> [u32; 2] {
        let ports = (0..4).map(|queue| Twin.ports(0, queue)).sum();
        let left = [Twin.sessions(0), ports];
        assert_eq!(
            self.leases.lent(),
            left,
            "sessions and ports lent, and left"
        );
        left
    }

    /// Ends a binding as the operator does.
    pub fn unbind(&mut self, v4: V4) {
        self.lock();
        let _ = self
            .state
            .unbind(protocol(), endpoint4(v4), &mut self.mirror);
    }

    /// Lets programs finish without interruption: then maps and tables must agree, and nothing is lost.
    pub fn finish(&mut self) {
        twin::with(|world| {
            world.bursts = 0;
            world.run_all();
        });
        self.lock();
        if twin::with(|world| world.gave_up) {
            return;
        }
        let bindings = self.state.bindings().map(|view| {
            let (v6, v4) = (view.binding.v6, view.binding.v4);
            ((v6.addr, v6.port), (v4.addr, v4.port))
        });
        let bindings: HashMap<NodePort, V4> = bindings.collect();
        let sessions = self.state.sessions().map(|view| {
            let (v4, peer, v6) = (view.binding.v4, view.peer, view.binding.v6);
            (
                ((v4.addr, v4.port), (peer.addr, peer.port)),
                (v6.addr, v6.port),
            )
        });
        let sessions: HashMap<_, NodePort> = sessions.collect();
        twin::with(|world| {
            let bound = world.bound.at.iter();
            let bound = bound.map(|(node, &at)| (*node, world.bound.elements[at].v4));
            assert_eq!(bound.collect::<HashMap<_, _>>(), bindings, "the bindings");
            let inward = world.inward.at.iter();
            let inward = inward.map(|(key, &at)| (*key, world.inward.elements[at].node));
            assert_eq!(inward.collect::<HashMap<_, _>>(), sessions, "the sessions");
            if world.protocol == Protocol::Tcp {
                let outward = world.outward.at.iter();
                let outward = outward.map(|((node, peer), &at)| {
                    let v4 = world.outward.elements[at];
                    ((v4, *peer), *node)
                });
                assert_eq!(
                    outward.collect::<HashMap<_, _>>(),
                    sessions,
                    "the same, outward"
                );
            }
            let open = |record: &&Record| matches!(record, Record::Reserved(_));
            assert_eq!(world.ring.iter().filter(open).count(), 0);
        });
        let [_, ports] = self.lent();
        assert_eq!(
            self.state.pool().leased_ports(),
            ports as usize,
            "ports on loan"
        );
        self.leases.end_all(&mut self.state);
        assert_eq!(
            self.state.pool().leased_ports(),
            0,
            "a loan that nobody gives back"
        );
        twin::with(|world| world.occupied.check_against(&self.state));
    }
}

/// Returns a number that is the same in each run.
fn draw(drawn: &mut u64) -> u64 {
    *drawn += 1;
    drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Adds a program that waits for its turn.
pub fn arrive(packet: Packet) {
    twin::with(|world| world.programs.push(Program::new(packet, world.protocol)));
}

/// Runs a program without interruption.
pub fn run(packet: Packet) -> Outcome {
    twin::with(|world| {
        world.programs.push(Program::new(packet, world.protocol));
        let at = world.programs.len() - 1;
        while !world.step(at) {}
        world.programs[at].outcome.expect("it has ended")
    })
}

/// Returns the external ports that have been seen, in order.
pub fn seen() -> Vec<V4> {
    let mut all: Vec<V4> = twin::with(|world| world.sent.iter().map(|(_, (v4, _))| *v4).collect());
    all.sort_unstable();
    all.dedup();
    all
}
