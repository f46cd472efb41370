// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables against a model: lists that are searched from end to end, no limits to their size, no
//! wheel, no counts that are kept. Small pools and limits, so that they are met often.
//!
//! The state machine itself is the same in both; it has a test of its own. So has the choice of
//! ports: of a port that the tables give, the model asks only that it was free.

use crate::world::*;
use diolkos_core::config::nat64::{
    Binding, Endpoint4, Endpoint6, Filtering, Nat64Config, Protocol,
};
use diolkos_core::session::{Event, Inward, Origin, Segment, SessionState, Side};
use diolkos_core::Reason;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const SEGMENTS: [Segment; 4] = [Segment::Syn, Segment::Fin, Segment::Rst, Segment::Other];
const FIRST_PORT: u16 = 2000;
const LAST_PORT: u16 = 2006;

#[derive(Clone, Debug)]
enum Step {
    Out {
        protocol: usize,
        node: u8,
        peer: u8,
        segment: usize,
    },
    In {
        protocol: usize,
        port: u16,
        peer: u8,
        segment: usize,
    },
    Wait {
        seconds: u32,
    },
    Bind {
        protocol: usize,
        port: u16,
        node: u8,
    },
    Unbind {
        protocol: usize,
        port: u16,
    },
    Reload {
        narrow: bool,
        dependent: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let protocol = || prop_oneof![3 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let segment = || prop_oneof![3 => Just(0usize), 1 => Just(1), 1 => Just(2), 2 => Just(3)];
    let port = || FIRST_PORT..=LAST_PORT + 1;
    // Some of them often, so that connections go through all their states.
    let node = || prop_oneof![4 => Just(0u8), 1 => 0..9u8];
    let peer = || prop_oneof![4 => Just(0u8), 1 => 0..4u8];
    prop_oneof![
        8 => (protocol(), node(), peer(), segment()).prop_map(|(protocol, node, peer, segment)| {
            Step::Out { protocol, node, peer, segment }
        }),
        8 => (protocol(), port(), peer(), segment()).prop_map(|(protocol, port, peer, segment)| {
            Step::In { protocol, port, peer, segment }
        }),
        3 => prop_oneof![0..8u32, 50..70u32, 230..310u32, 7400..7500u32, 0..100_000u32]
            .prop_map(|seconds| Step::Wait { seconds }),
        1 => (protocol(), port(), node())
            .prop_map(|(protocol, port, node)| Step::Bind { protocol, port, node }),
        1 => (protocol(), port()).prop_map(|(protocol, port)| Step::Unbind { protocol, port }),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(narrow, dependent)| Step::Reload { narrow, dependent }),
    ]
}

/// Three sources with three ports each.
fn node(number: u8) -> Endpoint6 {
    e6(
        &format!("2001:db8:{}::1", number / 3),
        5000 + u16::from(number % 3),
    )
}

/// Two addresses with two ports each.
fn peer(protocol: Protocol, number: u8) -> Endpoint4 {
    Endpoint4 {
        addr: [192, 0, 2, number / 2].into(),
        port: match protocol {
            Protocol::Icmp => 0,
            _ => 80 + u16::from(number % 2),
        },
    }
}

fn outside(port: u16) -> Endpoint4 {
    Endpoint4 {
        addr: [203, 0, 113, 1].into(),
        port,
    }
}

fn model_config(narrow: bool, dependent: bool) -> Nat64Config {
    let mut config = config();
    config.pool4[0].ports = FIRST_PORT..=if narrow { LAST_PORT - 3 } else { LAST_PORT };
    config.limits.sessions = 12;
    config.limits.bindings = 9;
    config.limits.sessions_per_source = 5;
    config.limits.bindings_per_source = 4;
    config.limits.held_syns = 2;
    if dependent {
        config.filtering = Filtering::AddressDependent;
    }
    config
}

#[derive(Debug)]
struct Session {
    binding: Binding,
    peer: Endpoint4,
    state: SessionState,
    last: Duration,
}

impl Session {
    fn deadline(&self) -> Duration {
        let seconds = match self.state {
            SessionState::Udp => 300,
            SessionState::Icmp => 60,
            SessionState::Established | SessionState::V4FinRcv | SessionState::V6FinRcv => 7440,
            _ => 240,
        };
        self.last + Duration::from_secs(seconds)
    }
}

/// A SYN that was kept: until when, its ends, and whether it still waits.
type Syn = (Duration, (Endpoint4, Endpoint4), bool);

struct Model {
    config: Nat64Config,
    now: Duration,
    bindings: Vec<(Binding, Origin)>,
    sessions: Vec<Session>,
    syns: Vec<Syn>,
}

impl Model {
    fn of(&self, protocol: Protocol, v6: Endpoint6) -> Option<Binding> {
        let mut all = self.bindings.iter().map(|(binding, _)| *binding);
        all.find(|binding| binding.protocol == protocol && binding.v6 == v6)
    }

    fn at(&self, protocol: Protocol, v4: Endpoint4) -> Option<Binding> {
        let mut all = self.bindings.iter().map(|(binding, _)| *binding);
        all.find(|binding| binding.protocol == protocol && binding.v4 == v4)
    }

    fn session(&mut self, binding: Binding, peer: Endpoint4) -> Option<&mut Session> {
        self.sessions
            .iter_mut()
            .find(|session| session.binding == binding && session.peer == peer)
    }

    fn of_source(&self, v6: Endpoint6) -> (usize, usize) {
        let same = |other: Endpoint6| other.addr.segments()[..4] == v6.addr.segments()[..4];
        let bindings = self.bindings.iter().filter(|(b, _)| same(b.v6)).count();
        let sessions = self.sessions.iter().filter(|s| same(s.binding.v6)).count();
        (bindings, sessions)
    }

    fn room_for_session(&self, v6: Endpoint6, side: Side) -> Result<(), Reason> {
        if self.sessions.len() >= 12 {
            return Err(Reason::SessionLimit);
        }
        let most = if side == Side::V6 { 5 } else { 3 };
        if self.of_source(v6).1 >= most {
            return Err(Reason::SourceSessionLimit);
        }
        Ok(())
    }

    fn room_for_binding(&self, protocol: Protocol, v6: Endpoint6) -> Result<(), Reason> {
        if self.sessions.len() >= 12 {
            return Err(Reason::SessionLimit);
        }
        if self.bindings.len() >= 9 {
            return Err(Reason::BindingLimit);
        }
        let (bindings, sessions) = self.of_source(v6);
        if sessions >= 5 {
            return Err(Reason::SourceSessionLimit);
        }
        if bindings >= 4 {
            return Err(Reason::SourceBindingLimit);
        }
        let mut ports = self.config.pool4[0].ports.clone();
        let free = ports.any(|port| self.at(protocol, outside(port)).is_none());
        free.then_some(()).ok_or(Reason::PoolExhausted)
    }

    fn permits(&self, binding: Binding, peer: Endpoint4) -> bool {
        self.config.filtering == Filtering::EndpointIndependent
            || self
                .sessions
                .iter()
                .any(|session| session.binding == binding && session.peer.addr == peer.addr)
    }

    fn open(&mut self, binding: Binding, peer: Endpoint4, state: SessionState) {
        let last = self.now;
        self.sessions.push(Session {
            binding,
            peer,
            state,
            last,
        });
    }

    fn pass(&mut self, binding: Binding, peer: Endpoint4, side: Side, segment: Segment) -> bool {
        let now = self.now;
        let Some(session) = self.session(binding, peer) else {
            return false;
        };
        let (state, renewed) = session.state.after(side, segment);
        session.state = state;
        if renewed {
            session.last = now;
        }
        true
    }

    /// `given` is what the tables gave, if they gave anything.
    fn out(
        &mut self,
        protocol: Protocol,
        v6: Endpoint6,
        peer: Endpoint4,
        segment: Segment,
        given: Option<Endpoint4>,
    ) -> Result<Endpoint4, Reason> {
        let opens = protocol != Protocol::Tcp || segment == Segment::Syn;
        let found = self.of(protocol, v6);
        let binding = match found {
            Some(binding) => binding,
            None if !opens => return Err(Reason::NoConnection),
            None => {
                self.room_for_binding(protocol, v6)?;
                let v4 = given.expect("there was room for a binding");
                assert!(self.at(protocol, v4).is_none(), "{v4} is another's");
                assert!(self.config.pool4[0].ports.contains(&v4.port));
                Binding { protocol, v4, v6 }
            }
        };
        if self.pass(binding, peer, Side::V6, segment) || !opens {
            return Ok(binding.v4);
        }
        let state = match protocol {
            Protocol::Udp => SessionState::Udp,
            Protocol::Icmp => SessionState::Icmp,
            Protocol::Tcp => {
                let kept = self
                    .syns
                    .iter()
                    .find(|syn| syn.2 && syn.1 == (binding.v4, peer));
                match kept {
                    Some(_) => SessionState::Established,
                    None => SessionState::V6Init,
                }
            }
        };
        self.room_for_session(v6, Side::V6)?;
        for syn in &mut self.syns {
            syn.2 &= state != SessionState::Established || syn.1 != (binding.v4, peer);
        }
        if found.is_none() {
            self.bindings.push((binding, Origin::Dynamic));
        }
        self.open(binding, peer, state);
        Ok(binding.v4)
    }

    fn keep_syn(&mut self, key: (Endpoint4, Endpoint4)) -> Result<Option<Endpoint6>, Reason> {
        if self.syns.iter().any(|syn| syn.2 && syn.1 == key) {
            return Ok(None);
        }
        if self.syns.len() >= 2 {
            return Err(Reason::SynLimit);
        }
        let deadline = self.now + Duration::from_secs(6);
        self.syns.push((deadline, key, true));
        Ok(None)
    }

    /// The node to which the packet goes, or None if it is kept.
    fn inward(
        &mut self,
        protocol: Protocol,
        v4: Endpoint4,
        peer: Endpoint4,
        segment: Segment,
    ) -> Result<Option<Endpoint6>, Reason> {
        let is_syn = protocol == Protocol::Tcp && segment == Segment::Syn;
        let Some(binding) = self.at(protocol, v4) else {
            return if is_syn && self.config.pool4[0].ports.contains(&v4.port) {
                self.keep_syn((v4, peer))
            } else {
                Err(Reason::NoBinding)
            };
        };
        if self.pass(binding, peer, Side::V4, segment) {
            return Ok(Some(binding.v6));
        }
        if !self.permits(binding, peer) {
            return if is_syn {
                self.keep_syn((v4, peer))
            } else {
                Err(Reason::Filtered)
            };
        }
        let state = match protocol {
            Protocol::Udp => SessionState::Udp,
            Protocol::Icmp => SessionState::Icmp,
            Protocol::Tcp if is_syn => SessionState::V4Init,
            Protocol::Tcp => return Ok(Some(binding.v6)),
        };
        self.room_for_session(binding.v6, Side::V4)?;
        self.open(binding, peer, state);
        Ok(Some(binding.v6))
    }

    /// How many SYNs went unanswered, and how many sessions are probed.
    fn wait(&mut self, seconds: u32) -> (usize, usize) {
        self.now += Duration::from_secs(seconds.into());
        let now = self.now;
        let over = |syn: &Syn| syn.0 <= now;
        let unanswered = self.syns.iter().filter(|syn| over(syn) && syn.2).count();
        self.syns.retain(|syn| !over(syn));
        let mut probes = 0;
        for session in &mut self.sessions {
            if session.state == SessionState::Established && session.deadline() <= now {
                (session.state, session.last) = (SessionState::Trans, now);
                probes += 1;
            }
        }
        self.sessions.retain(|session| session.deadline() > now);
        self.forget_idle();
        (unanswered, probes)
    }

    fn forget_idle(&mut self) {
        let busy: HashSet<Binding> = self.sessions.iter().map(|s| s.binding).collect();
        self.bindings
            .retain(|(binding, origin)| *origin != Origin::Dynamic || busy.contains(binding));
    }

    fn bind(&mut self, wanted: Binding) -> bool {
        let by_v4 = self.at(wanted.protocol, wanted.v4);
        let by_v6 = self.of(wanted.protocol, wanted.v6);
        if by_v4.is_some() || by_v6.is_some() {
            if by_v4 != by_v6 {
                return false;
            }
            let entry = self.bindings.iter_mut().find(|(b, _)| *b == wanted);
            entry.expect("found just now").1 = Origin::Operator;
            return true;
        }
        if self.bindings.len() >= 9 {
            return false;
        }
        self.bindings.push((wanted, Origin::Operator));
        true
    }

    fn unbind(&mut self, protocol: Protocol, v4: Endpoint4) -> bool {
        let Some(binding) = self.at(protocol, v4) else {
            return false;
        };
        self.bindings.retain(|(other, _)| *other != binding);
        self.sessions.retain(|session| session.binding != binding);
        true
    }

    fn reload(&mut self, config: Nat64Config) {
        self.config = config;
        let ports = self.config.pool4[0].ports.clone();
        self.bindings.retain(|(binding, origin)| {
            *origin != Origin::Dynamic || ports.contains(&binding.v4.port)
        });
        let left: HashSet<Binding> = self.bindings.iter().map(|(b, _)| *b).collect();
        self.sessions
            .retain(|session| left.contains(&session.binding));
    }
}

type Seen = (Binding, Endpoint4, SessionState, Duration);

fn check(tables: &Tables, model: &Model) {
    let bindings: HashMap<Binding, (Origin, u32)> = tables
        .state
        .bindings()
        .map(|view| (view.binding, (view.origin, view.sessions)))
        .collect();
    let expected: HashMap<Binding, (Origin, u32)> = model
        .bindings
        .iter()
        .map(|&(binding, origin)| {
            let of_it = model.sessions.iter().filter(|s| s.binding == binding);
            (binding, (origin, of_it.count() as u32))
        })
        .collect();
    assert_eq!(bindings, expected);
    let sessions: HashSet<Seen> = tables
        .state
        .sessions()
        .map(|view| (view.binding, view.peer, view.state, view.remaining))
        .collect();
    let expected: HashSet<Seen> = model
        .sessions
        .iter()
        .map(|s| {
            (
                s.binding,
                s.peer,
                s.state,
                s.deadline().saturating_sub(model.now),
            )
        })
        .collect();
    assert_eq!(sessions, expected);

    let counts = tables.state.counts();
    assert_eq!(counts.sessions as usize, model.sessions.len());
    assert!(counts.sessions <= 12 && counts.bindings <= 9);
    let sources: HashSet<_> = bindings.keys().map(|b| b.v6.addr).collect();
    assert_eq!(counts.sources as usize, sources.len());
    assert_eq!(
        counts.held_syns,
        model.syns.iter().filter(|syn| syn.2).count()
    );
    if model.config.filtering == Filtering::AddressDependent {
        let pairs: HashSet<_> = model
            .sessions
            .iter()
            .map(|s| (s.binding, s.peer.addr))
            .collect();
        assert_eq!(counts.permissions as usize, pairs.len());
    }
    for protocol in Protocol::ALL {
        let ports = model.config.pool4[0].ports.clone();
        let free = ports.filter(|&port| model.at(protocol, outside(port)).is_none());
        assert_eq!(
            tables.state.pool().free_ports(protocol),
            free.count() as u64
        );
    }
}

/// The copy of the tables that a watcher keeps from events alone.
fn check_events(tables: &Tables) {
    let mut bindings = HashSet::new();
    let mut sessions = HashMap::new();
    for event in &tables.watch.events {
        match *event {
            Event::BindingOpened(binding) => assert!(bindings.insert(binding)),
            Event::BindingClosed(binding) => {
                assert!(bindings.remove(&binding));
                assert!(!sessions.keys().any(|(b, _)| *b == binding));
            }
            Event::SessionOpened(view) => {
                assert!(bindings.contains(&view.binding));
                let before = sessions.insert((view.binding, view.peer), view.state);
                assert_eq!(before, None);
            }
            Event::SessionChanged(view) => {
                let before = sessions.insert((view.binding, view.peer), view.state);
                assert!(before.is_some_and(|before| before != view.state));
            }
            Event::SessionClosed(view) => {
                let before = sessions.remove(&(view.binding, view.peer));
                assert_eq!(before, Some(view.state));
            }
        }
    }
    let real: HashMap<_, _> = tables
        .state
        .sessions()
        .map(|view| ((view.binding, view.peer), view.state))
        .collect();
    assert_eq!(sessions, real);
    let real: HashSet<_> = tables.state.bindings().map(|view| view.binding).collect();
    assert_eq!(bindings, real);
}

fn follow(steps: Vec<Step>, dependent: bool) {
    let config = model_config(false, dependent);
    let mut tables = Tables::new(&config);
    let mut model = Model {
        config,
        now: tables.now,
        bindings: vec![],
        sessions: vec![],
        syns: vec![],
    };
    // The tables' clock begins with the first packet.
    tables.wait(0.0);
    for step in steps {
        match step {
            Step::Out {
                protocol,
                node: number,
                peer: other,
                segment,
            } => {
                let protocol = Protocol::ALL[protocol];
                let (v6, peer) = (node(number), peer(protocol, other));
                let segment = SEGMENTS[segment];
                let got = tables.out(protocol, v6, &peer.to_string(), segment);
                let expected = model.out(protocol, v6, peer, segment, got.ok());
                assert_eq!(got, expected);
            }
            Step::In {
                protocol,
                port,
                peer: other,
                segment,
            } => {
                let protocol = Protocol::ALL[protocol];
                let (v4, peer) = (outside(port), peer(protocol, other));
                let segment = SEGMENTS[segment];
                let got = tables.inward(protocol, v4, &peer.to_string(), segment);
                let got = got.map(|inward| match inward {
                    Inward::Node(v6, _) => Some(v6),
                    Inward::Held => None,
                });
                assert_eq!(got, model.inward(protocol, v4, peer, segment));
            }
            Step::Wait { seconds } => {
                let sent = tables.wait(seconds.into());
                let probes = sent.iter().filter(|s| matches!(s, Sent::Probe(_))).count();
                let (unanswered, probed) = model.wait(seconds);
                assert_eq!((sent.len() - probes, probes), (unanswered, probed));
            }
            Step::Bind {
                protocol,
                port,
                node: number,
            } => {
                let wanted = Binding {
                    protocol: Protocol::ALL[protocol],
                    v4: outside(port),
                    v6: node(number),
                };
                let got = tables.state.bind(wanted, &mut tables.watch);
                assert_eq!(got.is_ok(), model.bind(wanted), "{got:?}");
            }
            Step::Unbind { protocol, port } => {
                let protocol = Protocol::ALL[protocol];
                let got = tables
                    .state
                    .unbind(protocol, outside(port), &mut tables.watch);
                assert_eq!(got.is_ok(), model.unbind(protocol, outside(port)));
            }
            Step::Reload { narrow, dependent } => {
                let config = model_config(narrow, dependent);
                tables.state.reconfigure(&config, &mut tables.watch);
                model.reload(config);
            }
        }
        check(&tables, &model);
        check_events(&tables);
    }
    // When everything has expired, nothing is left but what the operator made.
    for _ in 0..3 {
        tables.wait(8000.0);
        model.wait(8000);
        check(&tables, &model);
    }
    for (binding, _) in model.bindings.clone() {
        tables
            .state
            .unbind(binding.protocol, binding.v4, &mut ())
            .unwrap();
    }
    assert!(tables.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn tables_and_model_agree(
        steps in prop::collection::vec(step(), 0..120), dependent in any::<bool>(),
    ) {
        follow(steps, dependent);
    }
}
