// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node that starts, and others that have another file.

use std::time::Duration;

use diolkos_node::config::{Bounds, Member, Timing, PARTS};
use diolkos_node::message::{Message, Status};
use diolkos_node::{Action, Config, Event, Node, NodeId, Report};

const B: NodeId = NodeId(1);
const C: NodeId = NodeId(2);

fn config() -> Config {
    let member = |(name, net): (&str, &str)| Member {
        name: name.to_owned(),
        pool4: vec![net.parse().expect("a network")],
    };
    let nodes = [
        ("a", "192.0.2.0/30"),
        ("b", "192.0.2.4/30"),
        ("c", "192.0.2.8/30"),
    ];
    Config {
        me: NodeId(0),
        members: nodes.map(member).into(),
        source_prefix_len: 64,
        key: [1, 2],
        pref64: Vec::new(),
        lifetimes_s: Vec::new(),
        timing: Timing::default(),
        defer: false,
        bounds: Bounds {
            changes: 100,
            resting: 100,
        },
    }
}

/// The other node connects, has no bindings of this one, and has a file of which this part is another one.
fn greets(node: &mut Node, ms: u64, peer: NodeId, part: Option<&str>) -> Vec<Action> {
    greets_as(node, ms, peer, (part, Status::Serving))
}

fn greets_as(
    node: &mut Node,
    ms: u64,
    peer: NodeId,
    (part, its): (Option<&str>, Status),
) -> Vec<Action> {
    let (now, mut out) = (Duration::from_millis(ms), Vec::new());
    let connected = Event::Connected {
        peer,
        connection: ms,
        room: 1 << 20,
    };
    node.handle(now, connected, &mut out);
    let mut digests = config().digests();
    if let Some(at) = part.and_then(|part| PARTS.iter().position(|its| *its == part)) {
        digests[at] ^= 1;
    }
    let hello = Message::Hello {
        digests,
        status: its,
        holds: None,
    };
    let message = Event::Message {
        peer,
        connection: ms,
        bytes: &hello.encode(),
    };
    node.handle(now, message, &mut out);
    out
}

fn status(node: &mut Node, ms: u64) -> Status {
    let now = Duration::from_millis(ms);
    node.handle(now, Event::Tick, &mut Vec::new());
    node.status(now)
}

#[test]
fn one_that_starts_opens_nothing_while_another_deals_addresses_out_otherwise() {
    let mut node = Node::new(config(), 7, [3, 4], Duration::ZERO).expect("it is right");
    greets(&mut node, 10, B, None);
    // B got another file meanwhile.
    let said = greets(&mut node, 1000, B, Some("nodes"));
    assert!(said.contains(&Action::Report(Report::Differs(B, "nodes"))));
    greets(&mut node, 2000, C, None);
    assert_eq!(status(&mut node, 4000), Status::Starting);
    greets(&mut node, 4500, B, Some("nodes"));
    assert_eq!(status(&mut node, 9000), Status::Starting);
    // It has this node's file again.
    greets(&mut node, 9100, B, None);
    status(&mut node, 9200);
    assert_eq!(status(&mut node, 10_500), Status::Serving);
}

#[test]
fn one_that_serves_goes_on_and_so_does_one_to_which_nobody_with_another_file_speaks() {
    let mut node = Node::new(config(), 7, [3, 4], Duration::ZERO).expect("it is right");
    greets(&mut node, 10, B, None);
    // Lifetimes decide about no address.
    greets(&mut node, 20, C, Some("lifetimes"));
    greets(&mut node, 30, C, None);
    status(&mut node, 40);
    assert_eq!(status(&mut node, 1500), Status::Serving);
    greets(&mut node, 1600, B, Some("nodes"));
    assert_eq!(status(&mut node, 1700), Status::Serving);

    let mut node = Node::new(config(), 7, [3, 4], Duration::ZERO).expect("it is right");
    greets(&mut node, 10, B, None);
    greets(&mut node, 20, B, Some("nodes"));
    greets(&mut node, 30, C, None);
    assert_eq!(status(&mut node, 4000), Status::Starting);
    status(&mut node, 6000);
    assert_eq!(status(&mut node, 8000), Status::Serving);
}

#[test]
fn of_nodes_that_start_together_those_with_one_file_go_on_if_they_are_more() {
    let mut node = Node::new(config(), 7, [3, 4], Duration::ZERO).expect("it is right");
    greets_as(&mut node, 10, B, (None, Status::Starting));
    greets_as(&mut node, 20, B, (Some("nodes"), Status::Starting));
    greets_as(&mut node, 30, C, (None, Status::Starting));
    status(&mut node, 100);
    assert_eq!(status(&mut node, 1500), Status::Serving);
}
