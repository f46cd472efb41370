// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a gateway that shares its pool do what the model does ([`crate::model`]), as in [`crate::agreement`]: gates
//! open and close, bindings of others come, and slices are released.

use crate::agreement::{check, check_events, node, peer, SEGMENTS};
use crate::harness::*;
use crate::model::{outside, Model};
use crate::sharing_model::Cluster;
use diolkos_core::config::nat64::{Binding, Endpoint4, Nat64Config, Protocol, SliceRules};
use diolkos_core::session::Inward;
use diolkos_core::slice::{SliceId, Slices};
use proptest::prelude::*;
use std::collections::HashSet;

const FIRST_PORT: u16 = 2048;

/// Numbers of protocols, nodes, peers and segments as in [`crate::agreement`]; `port` as in [`port_of`].
#[derive(Clone, Debug)]
enum Step {
    Out(usize, u8, u8, usize),
    In(usize, u16, u8, usize),
    Wait(u32),
    Bind(usize, u16, u8),
    Unbind(usize, u16),
    /// From now on the other gateway has this one, too.
    Standby(usize, u16, u8),
    Inherit(usize, u16, u8),
    Gate(SliceId, bool),
    Release(SliceId, usize),
    Reload {
        narrow: bool,
    },
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
        2 => one().prop_map(|(a, b, c)| Step::Standby(a, b, c)),
        2 => one().prop_map(|(a, b, c)| Step::Inherit(a, b, c)),
        4 => (0..3u32, prop::bool::weighted(0.7)).prop_map(|(id, open)| Step::Gate(id, open)),
        1 => (0..3u32, 1..4usize).prop_map(|(id, budget)| Step::Release(id, budget)),
        1 => any::<bool>().prop_map(|narrow| Step::Reload { narrow }),
    ]
}

/// One address in two slices with 64 ports each, of which a narrow pool has the first.
fn shared_config(narrow: bool) -> Nat64Config {
    let mut config = config();
    config.pool4[0].ports = FIRST_PORT..=FIRST_PORT + if narrow { 63 } else { 127 };
    config.slices = Some(SliceRules {
        ports: 64,
        source_prefix_len: 64,
        key: [3, 4],
    });
    config.limits.sessions = 12;
    config.limits.bindings = 9;
    config.limits.sessions_per_source = 5;
    config.limits.bindings_per_source = 4;
    config.limits.held_syns = 2;
    config
}

/// The port of a binding that there is, in some order, or one of the pool, or the next after it.
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
    let slices = Slices::of(&config).unwrap().unwrap();
    assert_eq!(slices.len(), 2);
    let mut model = Model {
        config,
        now: tables.now,
        bindings: vec![],
        sessions: vec![],
        syns: vec![],
        cluster: Some(Cluster {
            slices,
            open: HashSet::new(),
            standby: vec![],
            waits: vec![],
        }),
    };
    tables.wait(0.0);
    for step in steps {
        take(step, &mut tables, &mut model);
        check(&tables, &model);
        check_events(&tables);
    }
    tables.watch.standby.clear();
    for _ in 0..3 {
        tables.wait(8000.0);
        model.wait(8000);
        check(&tables, &model);
    }
    for (binding, _) in model.bindings.clone() {
        let Binding { protocol, v4, .. } = binding;
        tables.state.unbind(protocol, v4, &mut ()).unwrap();
    }
    assert!(tables.is_empty());
    assert_eq!(tables.state.next_due(), None);
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
        Step::Standby(protocol, port, number) => {
            let wanted = wanted(model, (protocol, port, number));
            tables.watch.standby.push(wanted);
            let cluster = model.cluster.as_mut().unwrap();
            cluster.standby.push(wanted);
        }
        Step::Inherit(protocol, port, number) => {
            let wanted = wanted(model, (protocol, port, number));
            let now = tables.now;
            let got = tables.state.inherit(wanted, now, &mut tables.watch);
            assert_eq!(got, model.inherit(wanted));
        }
        Step::Gate(id, open) => {
            let cluster = model.cluster.as_mut().unwrap();
            match open {
                true => tables.state.open_slice(id),
                false => tables.state.close_slice(id),
            }
            if open && (id as usize) < cluster.slices.len() {
                cluster.open.insert(id);
            } else {
                cluster.open.remove(&id);
            }
        }
        Step::Release(id, budget) => {
            while !tables.state.release_slice(id, budget, &mut tables.watch) {}
            model.release(id);
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
    fn tables_that_share_a_pool_and_model_agree(steps in prop::collection::vec(step(), 0..120)) {
        follow(steps);
    }
}
