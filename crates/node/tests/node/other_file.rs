// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node that starts, and others that have another file.

use std::time::Duration;

use crate::common::file;
use diolkos_node::config::{FORMAT, PARTS};
use diolkos_node::message::{Beat, Message, Status};
use diolkos_node::record::{Answer, Outcome, PeerRecord, Record, RecordRole, Request};
use diolkos_node::{Action, Config, Event, Filed, Node, NodeId, Report};

const B: NodeId = NodeId(1);
const C: NodeId = NodeId(2);

fn config() -> Config {
    let nodes = [
        ("a", "192.0.2.0/30"),
        ("b", "192.0.2.4/30"),
        ("c", "192.0.2.8/30"),
    ];
    file(0, nodes)
}

/// Connects the other node, which has no bindings of this one, and whose file differs in this part.
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
        connection: peer.0.into(),
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
    // It has no bindings.
    let (serial, through) = (1, 0);
    for message in [hello, Message::End { serial, through }] {
        let message = Event::Message {
            peer,
            connection: peer.0.into(),
            bytes: &message.encode(),
        };
        node.handle(now, message, &mut out);
    }
    out
}

/// The engine, which has these records of other nodes.
#[derive(Default)]
struct Engine {
    others: Vec<PeerRecord>,
    own: Option<(u64, Vec<u8>)>,
    reads: u32,
}

impl Engine {
    fn answer(&mut self, request: Request) -> Outcome {
        match request {
            Request::Read(NodeId(0)) => {
                self.reads += 1;
                assert!(self.reads < 1000, "it asks without a pause");
                Outcome::Value(self.own.clone())
            }
            Request::Read(_) => Outcome::Value(None),
            Request::ReadAll => Outcome::All(self.others.clone()),
            Request::Write(revision, bytes) => {
                self.own = Some((revision + 1, bytes));
                Outcome::Written(revision + 1)
            }
        }
    }

    fn own(&self) -> Option<RecordRole> {
        let (_, bytes) = self.own.as_ref()?;
        Record::decode(bytes).map(|record| record.part)
    }
}

fn record(file: Option<u64>, part: RecordRole) -> Vec<u8> {
    let (incarnation, epoch, void) = (9, 1, Vec::new());
    let record = Record {
        incarnation,
        epoch,
        file,
        part,
        void,
    };
    record.encode()
}

fn found(node: Option<NodeId>, file: Option<u64>, part: RecordRole) -> PeerRecord {
    let name = "b".to_owned();
    let bytes = record(file, part);
    PeerRecord { node, name, bytes }
}

/// Returns the state that the node reports then. Without an engine there are no answers; nodes that have greeted return
/// its clock readings.
fn status(node: &mut Node, ms: u64, engine: Option<&mut Engine>) -> Status {
    let (now, mut out) = (Duration::from_millis(ms), Vec::new());
    for peer in [B, C] {
        if node.standing(peer, now).status.is_some() {
            let beat = Message::Beat(Beat {
                status: Status::Starting,
                confirms: false,
                engine: 0,
                epoch: 0,
                echo: now,
                clock: now,
                applied: 0,
                armed: 0,
            });
            let (bytes, connection) = (&beat.encode()[..], u64::from(peer.0));
            let message = Event::Message {
                peer,
                connection,
                bytes,
            };
            node.handle(now, message, &mut out);
        }
    }
    node.handle(now, Event::Tick, &mut out);
    if let Some(engine) = engine {
        answer(node, now, out, engine);
    }
    node.status(now)
}

/// Answers all requests to the engine.
fn answer(node: &mut Node, now: Duration, mut out: Vec<Action>, engine: &mut Engine) {
    while !out.is_empty() {
        for action in std::mem::take(&mut out) {
            if let Action::Ask { token, request } = action {
                let answer = Answer {
                    engine: 5,
                    revision: 100,
                    outcome: engine.answer(request),
                };
                node.handle(now, Event::Answer { token, answer }, &mut out);
            }
        }
    }
}

/// Returns the last of the states at these times.
fn after(node: &mut Node, ms: std::ops::Range<u64>, engine: &mut Engine) -> Status {
    let each = ms.step_by(100);
    let all = each.map(|ms| status(node, ms, Some(&mut *engine)));
    all.last().expect("there are moments")
}

fn node() -> Node {
    Node::new(config(), 7, [3, 4], Duration::ZERO).expect("it is right")
}

#[test]
fn one_that_starts_opens_nothing_while_another_deals_addresses_out_otherwise() {
    let (mut node, mut engine) = (node(), Engine::default());
    let said = greets(&mut node, 10, B, Some("nodes"));
    assert!(said.contains(&Action::Report(Report::Differs(B, "nodes"))));
    greets(&mut node, 20, C, None);
    assert_eq!(after(&mut node, 30..4000, &mut engine), Status::Starting);
    assert_eq!(engine.own(), Some(RecordRole::Starting));
    greets(&mut node, 4500, B, Some("nodes"));
    assert_eq!(after(&mut node, 4600..9000, &mut engine), Status::Starting);
    // It has this node's file again.
    greets(&mut node, 9100, B, None);
    assert_eq!(after(&mut node, 9200..14_000, &mut engine), Status::Serving);
    assert_eq!(engine.own(), Some(RecordRole::Serving));
    // A node that serves continues.
    greets(&mut node, 14_600, B, Some("nodes"));
    assert_eq!(
        after(&mut node, 14_700..20_000, &mut engine),
        Status::Serving
    );
    assert_eq!(engine.own(), Some(RecordRole::Serving));
}

#[test]
fn of_nodes_that_start_together_those_with_one_file_go_on_if_they_are_more() {
    let (mut node, mut engine) = (node(), Engine::default());
    greets_as(&mut node, 20, B, (Some("nodes"), Status::Starting));
    assert_eq!(after(&mut node, 30..4000, &mut engine), Status::Starting);
    assert_eq!(engine.own(), Some(RecordRole::Starting), "one against one");
    greets_as(&mut node, 4000, B, (Some("nodes"), Status::Starting));
    greets_as(&mut node, 4010, C, (None, Status::Starting));
    after(&mut node, 4100..8000, &mut engine);
    assert_eq!(engine.own(), Some(RecordRole::Serving), "two against one");
}

#[test]
fn without_an_engine_one_starts_if_all_others_are_reachable_with_the_same_file() {
    let mut node = node();
    greets(&mut node, 10, B, None);
    for ms in (100..9000).step_by(100) {
        assert_eq!(status(&mut node, ms, None), Status::Starting);
    }
    // Lifetimes do not assign addresses, but nothing is shared.
    greets(&mut node, 9000, C, Some("lifetimes"));
    assert_eq!(status(&mut node, 9400, None), Status::Starting);
    greets(&mut node, 9500, C, None);
    assert_eq!(status(&mut node, 9600, None), Status::Starting);
    status(&mut node, 9700, None);
    assert_eq!(status(&mut node, 10_800, None), Status::Serving);
}

#[test]
fn the_records_of_others_are_waited_for_until_none_says_another_file() {
    let (same, other) = (config().deal(), config().deal() ^ 1);
    for (node_of, file, part, filed) in [
        (Some(B), Some(other), RecordRole::Serving, Filed::Serves),
        (Some(B), Some(other), RecordRole::Starting, Filed::Starts),
        // Of an older version.
        (Some(B), None, RecordRole::Serving, Filed::Unknown),
        // This node's file does not name it.
        (None, Some(other), RecordRole::Serving, Filed::Serves),
        (None, Some(other), RecordRole::Starting, Filed::Starts),
    ] {
        let (mut node, mut engine) = (node(), Engine::default());
        engine.others.push(found(node_of, file, part));
        assert_eq!(after(&mut node, 0..60_000, &mut engine), Status::Starting);
        assert_eq!(engine.own(), Some(RecordRole::Starting), "{filed:?}");
        match node_of {
            Some(of) => assert_eq!(node.standing(of, Duration::ZERO).filed, filed),
            None => assert_eq!(node.strangers(), [("b".to_owned(), filed)]),
        }
        // Either of these will do.
        engine.others = match part {
            RecordRole::Starting => vec![found(Some(B), Some(same), RecordRole::Serving)],
            _ => vec![found(node_of, Some(other), RecordRole::Left)],
        };
        assert_eq!(
            after(&mut node, 60_000..75_000, &mut engine),
            Status::Serving
        );
        assert_eq!(engine.own(), Some(RecordRole::Serving));
        assert_eq!(node.strangers(), []);
    }
}

#[test]
fn a_claim_is_withdrawn_if_another_node_has_claimed_by_another_file() {
    let (mut node, mut engine) = (node(), Engine::default());
    after(&mut node, 0..2000, &mut engine);
    assert_eq!(engine.own(), Some(RecordRole::Serving));
    let other = Some(config().deal() ^ 1);
    engine
        .others
        .push(found(Some(B), other, RecordRole::Serving));
    after(&mut node, 2000..4000, &mut engine);
    assert_eq!(engine.own(), Some(RecordRole::Starting));
    engine.others.clear();
    assert_eq!(after(&mut node, 4000..20_000, &mut engine), Status::Serving);
    // It leaves, and its record says so before the process ends.
    let (now, mut out) = (Duration::from_secs(21), Vec::new());
    node.handle(now, Event::Leave, &mut out);
    assert!(!out.contains(&Action::Left));
    answer(&mut node, now, out, &mut engine);
    after(&mut node, 21_000..21_400, &mut engine);
    assert_eq!(engine.own(), Some(RecordRole::Left));
}

#[test]
fn a_node_that_only_another_file_names_has_time_to_end_after_it_has_left() {
    let (mut node, mut engine) = (node(), Engine::default());
    let other = Some(config().deal() ^ 1);
    greets_as(&mut node, 10, B, (None, Status::Starting));
    greets_as(&mut node, 20, C, (None, Status::Starting));
    engine.others = vec![found(None, other, RecordRole::Serving)];
    assert_eq!(after(&mut node, 30..10_000, &mut engine), Status::Starting);
    engine.others = vec![found(None, other, RecordRole::Left)];
    let early = after(&mut node, 10_000..15_000, &mut engine);
    assert_eq!(early, Status::Starting, "its programs may still run");
    assert_eq!(engine.own(), Some(RecordRole::Serving));
    let late = after(&mut node, 15_000..20_000, &mut engine);
    assert_eq!(late, Status::Serving);

    // It may have left just before this node starts.
    let (mut node, mut engine) = (self::node(), Engine::default());
    engine.others = vec![found(None, other, RecordRole::Left)];
    greets_as(&mut node, 10, B, (None, Status::Starting));
    greets_as(&mut node, 20, C, (None, Status::Starting));
    assert_eq!(after(&mut node, 30..8000, &mut engine), Status::Starting);
    assert_eq!(after(&mut node, 8000..12_000, &mut engine), Status::Serving);
}

#[test]
fn a_record_that_cannot_be_read_is_not_asked_for_without_a_pause() {
    let (mut node, mut engine) = (node(), Engine::default());
    engine.own = Some((3, vec![99]));
    assert_eq!(after(&mut node, 0..20_000, &mut engine), Status::Starting);
    assert!(engine.reads < 20, "{}", engine.reads);
}

#[test]
fn another_format_is_named_whatever_its_hello_has() {
    let (mut node, mut engine) = (node(), Engine::default());
    let other = (u64::from(FORMAT) + 1).to_be_bytes();
    let long: Vec<u8> = [&other[..], &[0xff; 90]].concat();
    for hello in [&other[..], &long] {
        let mut out = Vec::new();
        let connected = Event::Connected {
            peer: B,
            connection: 1,
            room: 1 << 20,
        };
        node.handle(Duration::from_millis(10), connected, &mut out);
        let message = Event::Message {
            peer: B,
            connection: 1,
            bytes: &[&[0], hello].concat(),
        };
        node.handle(Duration::from_millis(20), message, &mut out);
        assert!(out.contains(&Action::Report(Report::Differs(B, "format"))));
        assert_eq!((node.strange(), node.is_connected(B)), (0, false));
    }
    // Its record shows the assignment of its addresses.
    let same = Some(config().deal());
    engine.others = vec![found(Some(B), same, RecordRole::Serving)];
    assert_eq!(after(&mut node, 100..20_000, &mut engine), Status::Serving);
}
