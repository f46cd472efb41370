// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a lagging node, as another node's operator sees it.

use std::time::Duration;

use crate::common::file;
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::message::{Beat, Message, Status};
use diolkos_node::{Action, Event, Node, NodeId, Standing};

const PEER: NodeId = NodeId(1);

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn node() -> Node {
    let config = file(0, [("a", "192.0.2.0/30"), ("b", "192.0.2.4/30")]);
    Node::new(config, 7, [3, 4], at(0)).expect("it is right")
}

fn hear(node: &mut Node, now: Duration, bytes: &[u8]) -> Vec<Action> {
    let mut out = Vec::new();
    let event = Event::Message {
        peer: PEER,
        connection: 1,
        bytes,
    };
    node.handle(now, event, &mut out);
    out
}

/// Connects the peer, which has no copies.
fn greet(node: &mut Node) {
    let mut out = Vec::new();
    let connected = Event::Connected {
        peer: PEER,
        connection: 1,
        room: 1 << 20,
    };
    node.handle(at(0), connected, &mut out);
    let hello = out.iter().find_map(|action| match action {
        Action::Send { bytes, .. } => Some(bytes.clone()),
        _ => None,
    });
    let its = node.standing(PEER, at(0));
    assert!(its.is_connected && its.status.is_none());
    // Its file is the same, so its hello is the same.
    hear(node, at(0), &hello.expect("it says hello"));
    let its = node.standing(PEER, at(0));
    assert_eq!((its.status, its.behind), (Some(Status::Starting), Some(0)));
    assert!(its.is_settled && node.waits_for().next().is_none());
}

/// Has the peer answer. Without an engine the node starts if the other one, which has the same file, is
/// reachable.
fn answer(node: &mut Node) -> Beat {
    let beat = Beat {
        status: Status::Starting,
        confirms: true,
        engine: 9,
        epoch: 1,
        echo: at(5000),
        clock: at(1),
        applied: 0,
        armed: 0,
    };
    hear(node, at(5000), &Message::Beat(beat).encode());
    node.handle(at(5000), Event::Tick, &mut Vec::new());
    beat
}

fn binding() -> Binding {
    let v4 = Endpoint4 {
        addr: "192.0.2.1".parse().expect("an address"),
        port: 1024,
    };
    let v6 = Endpoint6 {
        addr: "2001:db8::1".parse().expect("an address"),
        port: 1,
    };
    Binding {
        protocol: Protocol::Udp,
        v4,
        v6,
    }
}

#[test]
fn a_port_that_came_back_to_its_subscriber_is_waited_for_no_longer() {
    let (mut node, mut out) = (node(), Vec::new());
    greet(&mut node);
    answer(&mut node);
    let Binding { protocol, v4, .. } = binding();
    node.handle(at(5000), Event::Opened(binding()), &mut out);
    node.handle(at(5000), Event::Closed(protocol, v4), &mut out);
    node.handle(at(5000), Event::Tick, &mut out);
    node.handle(at(5100), Event::Opened(binding()), &mut out);
    node.handle(at(5200), Event::Tick, &mut out);
    assert_eq!(node.standing(PEER, at(8000)).blocks_for, None);
    // The next wait has its own time.
    node.handle(at(8000), Event::Closed(protocol, v4), &mut out);
    node.handle(at(8000), Event::Tick, &mut out);
    assert_eq!(node.standing(PEER, at(8100)).blocks_for, Some(at(100)));
}

#[test]
fn a_node_that_does_not_acknowledge_blocks_ports_and_lags() {
    let (mut node, mut out) = (node(), Vec::new());
    assert_eq!(node.standing(PEER, at(0)), Standing::default());
    assert_eq!(node.waits_for().collect::<Vec<_>>(), [PEER]);
    greet(&mut node);
    let binding = binding();
    let Binding { protocol, v4, .. } = binding;
    let mut beat = answer(&mut node);
    node.handle(at(5000), Event::Opened(binding), &mut out);
    node.handle(at(5000), Event::Closed(protocol, v4), &mut out);
    node.handle(at(5000), Event::Tick, &mut out);
    let its = node.standing(PEER, at(8000));
    assert_eq!((its.behind, its.blocks_for), (Some(2), Some(at(3000))));

    (beat.status, beat.echo, beat.applied) = (Status::Serving, at(8000), 2);
    hear(&mut node, at(8000), &Message::Beat(beat).encode());
    let its = node.standing(PEER, at(8000));
    assert_eq!((its.behind, its.blocks_for), (Some(0), None));
    assert!(its.is_reachable && its.serves && its.takes);
    assert_eq!(its.engine, Some(9));
    // It has sent no bindings.
    assert_eq!((its.copies, its.usable_for), (0, None));
    assert_eq!(node.standing(NodeId(9), at(8000)), Standing::default());
}

#[test]
fn a_node_serves_when_it_has_read_what_others_have() {
    let serves = |until_ms: u64, ends_ms: u64| {
        let (mut node, mut out) = (node(), Vec::new());
        greet(&mut node);
        for ms in (100..until_ms).step_by(100) {
            let beat = Beat {
                status: Status::Serving,
                confirms: true,
                engine: 9,
                epoch: 1,
                echo: at(ms - 50),
                clock: at(ms),
                applied: 0,
                armed: 0,
            };
            hear(&mut node, at(ms), &Message::Beat(beat).encode());
            if ms == ends_ms {
                let (serial, through) = (1, 0);
                let end = Message::End { serial, through };
                hear(&mut node, at(ms), &end.encode());
            }
            node.handle(at(ms), Event::Tick, &mut out);
        }
        let waits = node.waits_for().collect::<Vec<_>>();
        assert_eq!(node.attracts(), waits.is_empty());
        node.attracts()
    };
    assert!(
        !serves(10_000, 20_000),
        "hosts would get other bindings than the other node has"
    );
    assert!(serves(10_300, 10_000));
    assert!(
        serves(40_000, 50_000),
        "no node makes another one wait for ever"
    );
}
