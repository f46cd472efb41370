// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a gateway reads of others: their messages, and records in the engine.
//!
//! records: kind | a byte | length, two bytes | bytes. The kind says what happens (`Fuzzed::happens`), the byte with whom or how much.

use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_node::config::{Bounds, Digests, Member, Timing};
use diolkos_node::message::{Beat, BindingChange, Mark, Message, Status, Tag, MAX_BYTES};
use diolkos_node::record::{Answer, Outcome, PeerRecord, Record, RecordRole};
use diolkos_node::{Action, Asked, Config, Event, Node, NodeId, Via, Way};

use crate::input::Input;

const ME: NodeId = NodeId(0);
const PEERS: [NodeId; 2] = [NodeId(1), NodeId(2)];
/// Of nanoseconds, what a tick's byte counts in: 50 ms.
const STEP: Duration = Duration::from_millis(50);
/// Behind the kind of a message.
const DIGESTS: std::ops::Range<usize> = 1..1 + size_of::<Digests>();

const MESSAGE: u8 = 0;
/// The same, in which the digests of a greeting are put right first.
const GREETING: u8 = 1;
const CONNECTED: u8 = 2;
const LOST: u8 = 3;
const ROOM: u8 = 4;
const TICK: u8 = 5;
const RECORD: u8 = 6;
const ANSWER: u8 = 7;
const OPENED: u8 = 8;
const CLOSED: u8 = 9;
const PACKET: u8 = 10;
const DRAIN: u8 = 11;
const KINDS: u8 = 12;

fn config() -> Config {
    let member = |at| Member {
        name: format!("gw{at}"),
        pool4: vec![format!("192.0.{at}.0/30").parse().expect("a network")],
    };
    Config {
        defer: false,
        me: ME,
        members: (0..3).map(member).collect(),
        source_prefix_len: 64,
        key: [1, 2],
        pools: vec![],
        pref64: Vec::new(),
        lifetimes_s: Vec::new(),
        timing: Timing::default(),
        bounds: Bounds {
            changes: 20,
            resting: 20,
        },
    }
}

/// A gateway of three.
struct Fuzzed {
    node: Node,
    digests: Digests,
    now: Duration,
    /// The last connection, which no number names twice.
    connection: u64,
    with: [Option<u64>; 2],
    asked: Option<u64>,
}

/// The target.
pub fn run(data: &[u8]) {
    let config = config();
    let digests = config.digests();
    let now = Duration::from_secs(5);
    let mut fuzzed = Fuzzed {
        node: Node::new(config, 7, [3, 4], now).expect("a configuration"),
        digests,
        now,
        connection: 0,
        with: [None; 2],
        asked: None,
    };
    let mut input = Input(data);
    while !input.0.is_empty() {
        let (kind, number) = (input.byte() % KINDS, input.byte());
        let bytes = input.block();
        fuzzed.happens(kind, number, bytes);
    }
}

impl Fuzzed {
    fn happens(&mut self, kind: u8, number: u8, bytes: &[u8]) {
        let at = usize::from(number) % PEERS.len();
        let peer = PEERS[at];
        let mut input = Input(bytes);
        match kind {
            MESSAGE => self.message(at, bytes),
            GREETING => {
                let mut bytes = bytes.to_vec();
                if let Some(digests) = bytes.get_mut(DIGESTS) {
                    let right = self.digests.iter().flat_map(|digest| digest.to_be_bytes());
                    digests.iter_mut().zip(right).for_each(|(to, of)| *to = of);
                }
                self.message(at, &bytes);
            }
            CONNECTED => {
                self.connection += 1;
                let connection = self.connection;
                self.with[at] = Some(connection);
                self.event(Event::Connected {
                    peer,
                    connection,
                    room: input.word().into(),
                });
            }
            LOST => {
                if let Some(connection) = self.with[at].take() {
                    self.event(Event::Lost { peer, connection });
                }
            }
            ROOM => {
                if let Some(connection) = self.with[at] {
                    self.event(Event::Room {
                        peer,
                        connection,
                        room: input.word().into(),
                    });
                }
            }
            TICK => {
                self.now += STEP * number.into();
                self.event(Event::Tick);
            }
            RECORD => {
                if let Some(record) = Record::decode(bytes) {
                    let again = Record::decode(&record.encode());
                    assert_eq!(again, Some(record));
                }
                let revision = u64::from(number / 4);
                let found = PeerRecord {
                    node: (number & 2 == 0).then_some(peer),
                    name: "gw".to_owned(),
                    bytes: bytes.to_vec(),
                };
                let outcome = match number & 1 {
                    0 => Outcome::Value(Some((revision, bytes.to_vec()))),
                    _ => Outcome::All(vec![found]),
                };
                self.answer(number, outcome);
            }
            ANSWER => {
                let revision = u64::from(number / 4);
                self.answer(
                    number,
                    match input.byte() % 3 {
                        0 => Outcome::Value(None),
                        1 => Outcome::Written(revision),
                        _ => Outcome::Refused,
                    },
                );
            }
            OPENED => {
                let mut binding = binding(&mut input);
                binding.v4.addr = [192, 0, 0, number % 4].into();
                if self.node.may_open(self.now, &binding) {
                    self.event(Event::Opened(binding));
                }
            }
            CLOSED => {
                let binding = self.node.bindings_of(ME).next();
                if let Some(Binding { protocol, v4, .. }) = binding {
                    self.event(Event::Closed(protocol, v4));
                }
            }
            PACKET => self.packet(number, binding(&mut input)),
            DRAIN => self.event(match number % 2 {
                0 => Event::Drain,
                _ => Event::Stay,
            }),
            _ => {}
        }
    }

    /// A message has one meaning, and is one of the connection that there is.
    fn message(&mut self, at: usize, bytes: &[u8]) {
        if let Some(message) = Message::decode(bytes) {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        if let Some(connection) = self.with[at] {
            self.event(Event::Message {
                peer: PEERS[at],
                connection,
                bytes,
            });
        }
    }

    fn answer(&mut self, number: u8, outcome: Outcome) {
        let Some(token) = self.asked.take() else {
            return;
        };
        self.event(Event::Answer {
            token,
            answer: Answer {
                engine: u64::from(number % 4) + 1,
                revision: u64::from(number / 4),
                outcome,
            },
        });
    }

    /// By a copy, packets pass only while its owner allows it.
    fn packet(&mut self, number: u8, of: Binding) {
        let via = match number % 4 {
            0 => Via::SomeNode,
            1 => Via::Node(PEERS[0]),
            _ => Via::Outside,
        };
        let asked = Asked {
            host: of.v6,
            protocol: of.protocol,
            via,
            opens: number & 4 != 0,
        };
        for way in [
            self.node.who(self.now, asked),
            self.node.who4(self.now, of.v4, of.protocol, via),
        ] {
            match way {
                Way::Copy(copy) => {
                    let owner = self.node.owner(copy.v4.addr).expect("it has one");
                    assert!(owner != ME && self.node.may_use(owner, self.now));
                }
                Way::Forward(node) => assert_ne!(node, ME),
                _ => {}
            }
        }
    }

    fn event(&mut self, event: Event<'_>) {
        let mut out = Vec::new();
        self.node.handle(self.now, event, &mut out);
        for action in out {
            match action {
                Action::Send { bytes, .. } => {
                    assert!(bytes.len() <= MAX_BYTES && Message::decode(&bytes).is_some());
                }
                Action::Close { peer, .. } => {
                    let at = PEERS.iter().position(|its| *its == peer);
                    self.with[at.expect("another gateway")] = None;
                }
                Action::Ask { token, .. } => self.asked = Some(token),
                Action::SetDeadline { owner, .. } => assert_ne!(owner, ME),
                Action::Install(binding) => self.is_mine(binding.v4),
                Action::Hold(_, v4) | Action::Free(_, v4) => self.is_mine(v4),
                _ => {}
            }
        }
    }

    /// Nobody decides about ports of others.
    fn is_mine(&self, v4: Endpoint4) {
        assert_eq!(self.node.owner(v4.addr), Some(ME));
    }
}

fn binding(input: &mut Input<'_>) -> Binding {
    Binding {
        protocol: input.one_of(&Protocol::ALL),
        v4: Endpoint4 {
            addr: [192, 0, input.byte() % 4, input.byte() % 4].into(),
            port: input.word(),
        },
        v6: Endpoint6 {
            addr: [0x2001, 0xdb8, 0, input.byte().into(), 0, 0, 0, 1].into(),
            port: input.word(),
        },
    }
}

/// What gateways say to each other.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let record = |kind: u8, number: u8, bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("a short message");
        [&[kind, number], &length.to_be_bytes()[..], bytes].concat()
    };
    let of = |node: u8, host: u8| {
        let bytes = [1, node, 1, 4, 1, host, 4, host];
        binding(&mut Input(&bytes))
    };
    let hello = |holds| Message::Hello {
        digests: Digests::default(),
        status: Status::Serving,
        holds,
    };
    let say = |message: Message| record(MESSAGE, 0, &message.encode());
    let greet = |holds| {
        [
            record(CONNECTED, 0, &[0xff, 0xff]),
            record(GREETING, 0, &hello(holds).encode()),
        ]
        .concat()
    };
    let beat = Message::Beat(Beat {
        status: Status::Serving,
        confirms: true,
        engine: 1,
        epoch: 1,
        echo: Duration::from_secs(5),
        clock: Duration::from_secs(9),
        applied: 1,
        armed: 0,
    });
    let told = |node| Message::Told {
        through: 1,
        changes: vec![
            BindingChange::Opened(of(node, 1)),
            BindingChange::Opened(of(node, 2)),
            BindingChange::Closed(Protocol::Udp, of(node, 1).v4),
        ],
    };
    let end = Message::End {
        serial: 1,
        through: 1,
    };
    let mark = Mark {
        epoch: 1,
        serial: 1,
    };
    let holds = Some(Tag { engine: 1, mark });
    let own = Record {
        incarnation: 7,
        epoch: 1,
        file: Some(1),
        part: RecordRole::Serving,
        void: vec![Mark::default(), mark],
    };
    // Asked for copies, of an engine without a record of this gateway.
    let start = [
        record(TICK, 1, &[]),
        record(ANSWER, 0, &[0]),
        record(TICK, 1, &[]),
        record(ANSWER, 4, &[1]),
    ]
    .concat();
    vec![
        (
            "snapshot".into(),
            [
                greet(None),
                say(told(1)),
                say(end),
                say(beat.clone()),
                record(TICK, 4, &[]),
                record(PACKET, 2, &[1, 1, 1, 4, 1, 2, 4, 2]),
            ]
            .concat(),
        ),
        (
            "given".into(),
            [
                start.clone(),
                greet(holds),
                say(Message::Given(vec![of(0, 1), of(0, 2)])),
                say(Message::GivenBack),
                say(beat),
                record(TICK, 60, &[]),
            ]
            .concat(),
        ),
        (
            "asked".into(),
            [
                greet(holds),
                say(Message::Ask(true)),
                say(Message::Ask(false)),
            ]
            .concat(),
        ),
        (
            "record".into(),
            [record(TICK, 1, &[]), record(RECORD, 4, &own.encode())].concat(),
        ),
        (
            "opened".into(),
            [
                start,
                record(TICK, 255, &[]),
                record(OPENED, 0, &[1, 0, 1, 4, 1, 1, 4, 1]),
                greet(None),
                record(CLOSED, 0, &[]),
                record(TICK, 40, &[]),
            ]
            .concat(),
        ),
        (
            "stranger".into(),
            [greet(None), say(told(0)), say(told(2))].concat(),
        ),
    ]
}
