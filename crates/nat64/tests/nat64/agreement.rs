// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables do the same as the model ([`crate::model`]) after every step, and report it to
//! watchers. Pools and limits are small, so that they are reached often.

use crate::harness::*;
use crate::model::{outside, Model};
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Filtering, Nat64Config, Protocol};
use diolkos_nat64::session::{Event, Inward, Origin, Segment, SessionState};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

pub const SEGMENTS: [Segment; 4] = [Segment::Syn, Segment::Fin, Segment::Rst, Segment::Other];
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
    // A few values occur often, so that connections pass through all states.
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
pub fn node(number: u8) -> Endpoint6 {
    e6(
        &format!("2001:db8:{}::1", number / 3),
        5000 + u16::from(number % 3),
    )
}

/// Two addresses with two ports each.
pub fn peer(protocol: Protocol, number: u8) -> Endpoint4 {
    Endpoint4 {
        addr: [192, 0, 2, number / 2].into(),
        port: match protocol {
            Protocol::Icmp => 0,
            _ => 80 + u16::from(number % 2),
        },
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

type Seen = (Binding, Endpoint4, SessionState, Duration);

pub fn check(tables: &Tables, model: &Model) {
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

/// The copy of the tables that a watcher builds from events only.
pub fn check_events(tables: &Tables) {
    let mut bindings = HashSet::new();
    let mut sessions = HashMap::new();
    for event in &tables.watch.events {
        match *event {
            Event::CopyMade(..) | Event::CopyEnded(..) => panic!("{event:?}"),
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
            Event::SessionChanged(view, _) => {
                let before = sessions.insert((view.binding, view.peer), view.state);
                assert!(before.is_some_and(|before| before != view.state));
            }
            Event::SessionClosed(view) => {
                let before = sessions.remove(&(view.binding, view.peer));
                assert_eq!(before, Some(view.state));
            }
            Event::BlockAllocated(_) | Event::BlockReleased(_) => {
                unreachable!("there are no blocks")
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
        cluster: None,
    };
    // The clock of the tables starts with the first packet.
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
    // After everything has expired, only static bindings are left.
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
