// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a node changes to another file together with the others, and why it does not. The simulation does so with whole
//! clusters.

use std::time::Duration;

use crate::common::file;
use diolkos_node::message::{Beat, Message, Status};
use diolkos_node::{Action, Armed, Config, Event, Node, NodeId, Unready};

/// Both files have three nodes; in the second one, an address has another owner.
fn config(me: usize, is_new: bool) -> Config {
    let [a, c] = match is_new {
        false => ["192.0.2.0/30", "192.0.2.8/30"],
        true => ["192.0.2.0/31", "192.0.2.2/31"],
    };
    file(me, [("a", a), ("b", "192.0.2.4/30"), ("c", c)])
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn new_file() -> u64 {
    config(0, true).file()
}

/// Returns a node of the old file, with connections to both others, which have the same file.
fn greeted() -> Node {
    let mut node = Node::new(config(0, false), 7, [3, 4], ms(0)).expect("it is right");
    for peer in [1, 2] {
        hello(&mut node, 10, peer, &config(0, false));
    }
    node
}

fn hello(node: &mut Node, at: u64, peer: u8, config: &Config) {
    let connected = Event::Connected {
        peer: NodeId(peer),
        connection: at + u64::from(peer),
        room: 1 << 20,
    };
    node.handle(ms(at), connected, &mut Vec::new());
    let hello = Message::Hello {
        digests: config.digests(),
        status: Status::Serving,
        holds: None,
    };
    say(node, at, peer, at + u64::from(peer), &hello);
}

fn say(node: &mut Node, at: u64, peer: u8, connection: u64, message: &Message) -> Vec<Action> {
    let mut out = Vec::new();
    let bytes = &message.encode();
    let event = Event::Message {
        peer: NodeId(peer),
        connection,
        bytes,
    };
    node.handle(ms(at), event, &mut out);
    out
}

fn beat(at: u64, armed: u64) -> Message {
    Message::Beat(Beat {
        status: Status::Serving,
        confirms: true,
        engine: 9,
        epoch: 1,
        echo: ms(at),
        clock: ms(at),
        applied: 0,
        armed,
    })
}

/// Has both others report this for some seconds. Returns true if the node changes.
fn goes(node: &mut Node, from: u64, armed: [u64; 2]) -> bool {
    let mut all = Vec::new();
    for at in (from..from + 3000).step_by(100) {
        for (peer, armed) in [1, 2].into_iter().zip(armed) {
            all.extend(say(node, at, peer, 10 + u64::from(peer), &beat(at, armed)));
        }
    }
    all.contains(&Action::GoOver(new_file()))
}

fn arm(node: &mut Node, at: u64, until: u64) {
    let armed = Armed::new(new_file(), ms(until), Vec::new());
    node.handle(ms(at), Event::Arm(armed), &mut Vec::new());
}

#[test]
fn a_node_goes_over_if_its_operator_says_so_and_all_others_do() {
    let file = new_file();
    // Whatever others report.
    let mut node = greeted();
    assert!(!goes(&mut node, 100, [file, file]));
    assert_eq!(node.unready().count(), 0);
    // All are armed for the same file.
    arm(&mut node, 4000, 60_000);
    assert!(!goes(&mut node, 4000, [file, 0]));
    let lacks: Vec<_> = node.unready().collect();
    assert_eq!(lacks, [(NodeId(2), Unready::Unarmed)]);
    assert!(!goes(&mut node, 8000, [file + 1, file]));
    assert_eq!(node.unready().next(), Some((NodeId(1), Unready::Otherwise)));
    // A node that is silent is not ready.
    node.handle(ms(14_000), Event::Tick, &mut Vec::new());
    assert_eq!(node.unready().count(), 2);
    // Disarmed.
    node.handle(ms(15_000), Event::Disarm, &mut Vec::new());
    assert!(!goes(&mut node, 15_000, [file, file]));
    arm(&mut node, 19_000, 60_000);
    assert!(goes(&mut node, 19_000, [file, file]));
    // Too late.
    node.handle(ms(23_000), Event::Disarm, &mut Vec::new());
    assert!(node.armed().is_some_and(Armed::goes));
}

#[test]
fn it_is_disarmed_when_its_time_is_over() {
    let file = new_file();
    let mut node = greeted();
    arm(&mut node, 100, 2000);
    assert!(!goes(&mut node, 100, [file, 0]));
    assert!(node.armed().is_none());
    assert!(!goes(&mut node, 4000, [file, file]));
}

#[test]
fn a_node_that_has_the_new_file_is_ready_and_one_that_is_not_in_it_has_to_end() {
    let mut node = greeted();
    hello(&mut node, 100, 1, &config(1, true));
    let lacks_2 = Armed::new(new_file(), ms(60_000), vec![NodeId(2)]);
    node.handle(ms(200), Event::Arm(lacks_2), &mut Vec::new());
    let lacks: Vec<_> = node.unready().collect();
    assert_eq!(lacks, [(NodeId(2), Unready::Remains)]);
    let lost = Event::Lost {
        peer: NodeId(2),
        connection: 12,
    };
    let mut out = Vec::new();
    node.handle(ms(300), lost, &mut out);
    node.handle(ms(1400), Event::Tick, &mut out);
    assert!(out.contains(&Action::GoOver(new_file())));
}
