// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a gateway to which others return its bindings do the same as the model ([`crate::model`]), as in
//! [`crate::agreement`], whether it serves or not. Here ports rest for at most one step; [`crate::rests_model`] covers
//! longer rests.

use crate::agreement::{check, check_events, node, peer, SEGMENTS};
use crate::given_back_model::Cluster;
use crate::harness::*;
use crate::model::{outside, Model};
use diolkos_nat64::config::{Binding, Endpoint4, Nat64Config, Owners, Pools, Protocol};
use diolkos_nat64::session::{Event, Inward};
use proptest::prelude::*;

const FIRST_PORT: u16 = 2048;

/// Numbers of protocols, nodes, peers and segments as in [`crate::agreement`]; `port` as in [`port_of`].
#[derive(Clone, Debug)]
enum Step {
    Out(usize, u8, u8, usize),
    In(usize, u16, u8, usize),
    Wait(u32),
    Bind(usize, u16, u8),
    Unbind(usize, u16),
    Inherit(usize, u16, u8),
    Serve(bool),
    Reload { narrow: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let protocol = || prop_oneof![3 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let segment = || prop_oneof![2 => Just(0usize), 1 => Just(1), 1 => Just(2), 4 => Just(3)];
    let node = || prop_oneof![3 => Just(0u8), 1 => 0..9u8];
    let peer = || prop_oneof![4 => Just(0u8), 1 => 0..4u8];
    let port = || 0..14u16;
    let one = move || (protocol(), port(), node());
    let wait = prop_oneof![0..8u32, 50..70u32, 230..310u32, 7400..7500u32];
    prop_oneof![
        8 => (protocol(), node(), peer(), segment()).prop_map(|(a, b, c, d)| Step::Out(a, b, c, d)),
        8 => (protocol(), port(), peer(), segment()).prop_map(|(a, b, c, d)| Step::In(a, b, c, d)),
        3 => wait.prop_map(Step::Wait),
        1 => one().prop_map(|(a, b, c)| Step::Bind(a, b, c)),
        1 => (protocol(), port()).prop_map(|(a, b)| Step::Unbind(a, b)),
        2 => one().prop_map(|(a, b, c)| Step::Inherit(a, b, c)),
        3 => prop::bool::weighted(0.7).prop_map(Step::Serve),
        1 => any::<bool>().prop_map(|narrow| Step::Reload { narrow }),
    ]
}

/// One address with 128 ports; a narrow pool has the first 64 of them.
fn shared_config(narrow: bool) -> Nat64Config {
    let mut config = config();
    config.pool4[0].ports = FIRST_PORT..=FIRST_PORT + if narrow { 63 } else { 127 };
    config.owners = Some(Owners {
        me: 0,
        addresses: vec![
            ("203.0.113.1/32".parse().unwrap(), 0),
            ("203.0.113.2/32".parse().unwrap(), 1),
        ],
        pools: Pools::default(),
    });
    config.limits.sessions = 12;
    config.limits.bindings = 9;
    config.limits.sessions_per_source = 5;
    config.limits.bindings_per_source = 4;
    config.limits.held_syns = 2;
    config
}

/// The port of an existing binding, or one of the pool, or the one after it.
fn port_of(model: &Model, number: u16) -> Endpoint4 {
    let bound = model.bindings.get(usize::from(number));
    bound.map_or(outside(FIRST_PORT + number % 9 * 16), |(b, _)| b.v4)
}

fn wanted(model: &Model, (protocol, port, number): (usize, u16, u8)) -> Binding {
    Binding {
        protocol: Protocol::ALL[protocol],
        v4: port_of(model, port),
        v6: node(number),
    }
}

fn follow(steps: Vec<Step>) {
    let config = shared_config(false);
    let mut tables = Tables::new(&config);
    let mut model = Model {
        config,
        now: tables.now,
        bindings: vec![],
        sessions: vec![],
        syns: vec![],
        cluster: Some(Cluster::default()),
    };
    tables.wait(0.0);
    let mut told = 0;
    for step in steps {
        take(step, &mut tables, &mut model);
        free(&mut tables, &mut told);
        check(&tables, &model);
        check_events(&tables);
    }
    for _ in 0..3 {
        tables.wait(8000.0);
        model.wait(8000);
        free(&mut tables, &mut told);
        check(&tables, &model);
    }
    for (binding, _) in model.bindings.clone() {
        let Binding { protocol, v4, .. } = binding;
        tables.state.unbind(protocol, v4, &mut ()).unwrap();
    }
    assert!(tables.is_empty());
    assert_eq!(tables.state.next_due(), None);
}

/// Frees the ports of bindings that have closed since event `told`, because no other gateway uses them.
fn free(tables: &mut Tables, told: &mut usize) {
    for event in &tables.watch.events[*told..] {
        if let Event::BindingClosed(binding) = event {
            tables.state.free(binding.protocol, binding.v4, &mut ());
        }
    }
    *told = tables.watch.events.len();
}

fn take(step: Step, tables: &mut Tables, model: &mut Model) {
    match step {
        Step::Out(protocol, number, other, segment) => {
            let (protocol, segment) = (Protocol::ALL[protocol], SEGMENTS[segment]);
            let (v6, peer) = (node(number), peer(protocol, other));
            let got = tables.out(protocol, v6, &peer.to_string(), segment);
            assert_eq!(got, model.out(protocol, v6, peer, segment, got.ok()));
        }
        Step::In(protocol, port, other, segment) => {
            let (protocol, segment) = (Protocol::ALL[protocol], SEGMENTS[segment]);
            let (v4, peer) = (port_of(model, port), peer(protocol, other));
            let got = tables.inward(protocol, v4, &peer.to_string(), segment);
            let got = got.map(|inward| match inward {
                Inward::Node(v6, _) => Some(v6),
                Inward::Held => None,
            });
            assert_eq!(got, model.inward(protocol, v4, peer, segment));
        }
        Step::Wait(seconds) => {
            let sent = tables.wait(seconds.into());
            let (unanswered, probed) = model.wait(seconds);
            assert_eq!(sent.len(), unanswered + probed);
        }
        Step::Bind(protocol, port, number) => {
            let wanted = wanted(model, (protocol, port, number));
            let got = tables.state.bind(wanted, &mut tables.watch);
            assert_eq!(got.is_ok(), model.bind(wanted), "{got:?}");
        }
        Step::Unbind(protocol, port) => {
            let (protocol, v4) = (Protocol::ALL[protocol], port_of(model, port));
            let got = tables.state.unbind(protocol, v4, &mut tables.watch);
            assert_eq!(got.is_ok(), model.unbind(protocol, v4));
        }
        Step::Inherit(protocol, port, number) => {
            let wanted = wanted(model, (protocol, port, number));
            let now = tables.now;
            let got = tables.state.inherit(wanted, now, &mut tables.watch);
            assert_eq!(got, model.inherit(wanted));
        }
        Step::Serve(serves) => {
            tables.state.serve(serves, &mut tables.watch);
            model.cluster.as_mut().unwrap().serves = serves;
        }
        Step::Reload { narrow } => {
            let config = shared_config(narrow);
            tables.state.reconfigure(&config, &mut tables.watch);
            model.reload(config);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn tables_that_are_given_bindings_back_and_model_agree(steps in prop::collection::vec(step(), 0..120)) {
        follow(steps);
    }
}
