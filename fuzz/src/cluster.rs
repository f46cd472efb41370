// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What nodes of a cluster read from the engine, where strangers may write: names and values of entries, and messages about
//! bindings, which go into the standby store.
//!
//! records: kind | length | bytes. Kind 0: a name; 1: a value of a node; 2: of a slice; others: a message, of which the kind also
//! says as whose it counts. If the third bit of the kind is set, the head of the message is put right first.

use std::net::Ipv6Addr;

use diolkos_cluster::message::{Message, MAX_CHANGES};
use diolkos_cluster::standby::Standby;
use diolkos_cluster::{Change, Key, NodeId, SliceId, Slices, Standing, Title, Value};
use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};

use crate::input::Input;

const CLUSTER: u64 = 9;
const SLICE: SliceId = 1;
const LIMIT: u32 = 300;

fn slices() -> Slices {
    let pool = [("192.0.2.0/31".parse().expect("a network"), 1024..=2047)];
    Slices::cut(&pool, 512, 64, [1, 2]).expect("it can be cut")
}

/// The target.
pub fn run(data: &[u8]) {
    let slices = slices();
    let mut standby = Standby::new(&slices, LIMIT, [3, 4]);
    let mut input = Input(data);
    while !input.0.is_empty() {
        let (kind, length) = (input.byte(), usize::from(input.byte()));
        let (bytes, rest) = input.0.split_at(length.min(input.0.len()));
        input.0 = rest;
        match kind {
            0 => name(bytes),
            1 => value(Key::Node(NodeId(3)), bytes),
            2 => value(Key::Slice(SLICE), bytes),
            _ => message(&slices, &mut standby, kind, bytes),
        }
    }
}

/// A key has one name.
fn name(bytes: &[u8]) {
    if let Some(key) = std::str::from_utf8(bytes).ok().and_then(Key::parse) {
        assert_eq!(key.name().as_bytes(), bytes);
    }
}

/// A value has one spelling.
fn value(key: Key, bytes: &[u8]) {
    if let Some(value) = Value::decode(key, CLUSTER, bytes) {
        assert_eq!(value.encode(CLUSTER), bytes);
        assert_eq!(Value::cluster_of(bytes), Some(CLUSTER));
    }
}

fn message(slices: &Slices, standby: &mut Standby, kind: u8, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if kind & 4 != 0 && bytes.len() >= 13 {
        bytes[0] = 1;
        bytes[1..9].copy_from_slice(&CLUSTER.to_be_bytes());
        bytes[9..13].copy_from_slice(&SLICE.to_be_bytes());
    }
    let slice = slices.get(SLICE).expect("it exists");
    let Ok(message) = Message::decode(CLUSTER, (SLICE, slice), &bytes) else {
        return;
    };
    assert!(message.changes.len() <= MAX_CHANGES);
    let again = message.encode(CLUSTER);
    let read = Message::decode(CLUSTER, (SLICE, slice), &again);
    assert_eq!(read.as_ref(), Ok(&message));
    let standing = match kind & 3 {
        0 => Standing::Owner,
        1 => Standing::OtherOwner,
        2 => Standing::Myself,
        _ => Standing::Stranger,
    };
    let before = standby.len();
    standby.apply(&message, standing, 2);
    if standing == Standing::Stranger {
        assert_eq!(standby.len(), before);
    }
    check(slices, standby);
    if kind & 8 != 0 {
        standby.age(u32::from(kind), 10);
        check(slices, standby);
    }
}

/// Both indexes know each binding, nothing is there twice, and there is no more than may be.
fn check(slices: &Slices, standby: &Standby) {
    let mut count = 0;
    for slice in 0..slices.len() as SliceId {
        for binding in standby.of_slice(slice) {
            count += 1;
            assert_eq!(
                slices.of_port(binding.v4.addr, binding.v4.port),
                Some(slice)
            );
            let (protocol, port) = (binding.protocol, binding.v4.port);
            assert_eq!(standby.find_v4(slice, protocol, port), Some(binding));
            assert_eq!(standby.find_v6(slice, protocol, binding.v6), Some(binding));
        }
        assert_eq!(
            standby.of_slice(slice).count(),
            standby.len_of(slice) as usize
        );
    }
    assert_eq!(count, standby.len());
    assert!(count <= LIMIT);
}

/// What nodes write.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    use diolkos_cluster::message::Kind;
    let record = |kind: u8, bytes: &[u8]| [&[kind, bytes.len() as u8], bytes].concat();
    let title = Title {
        life: 7,
        revision: 8,
    };
    let opened = |port: u16, last: u128| {
        Change::Opened(Binding {
            protocol: Protocol::Udp,
            v4: Endpoint4 {
                addr: slices().get(SLICE).expect("it exists").addr,
                port,
            },
            v6: Endpoint6 {
                addr: Ipv6Addr::from_bits(0x2001_0db8 << 96 | last),
                port: 53,
            },
        })
    };
    let closed = Change::Closed {
        protocol: Protocol::Tcp,
        port: 1600,
    };
    let say = |kind, changes| {
        let message = Message {
            slice: SLICE,
            node: NodeId(3),
            title,
            kind,
            changes,
        };
        record(4, &message.encode(CLUSTER))
    };
    let snapshot = |part, is_last| Kind::Snapshot {
        number: 1,
        part,
        is_last,
    };
    let many = |first: u16| (first..first + 8).map(|port| opened(port, 1)).collect();
    vec![
        (
            "names".into(),
            [record(0, b"node.3"), record(0, b"slice.70000")].concat(),
        ),
        (
            "node".into(),
            record(
                1,
                &[
                    1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 2, 1,
                ],
            ),
        ),
        (
            "changes".into(),
            say(
                Kind::Changes,
                vec![opened(1536, 1), opened(1537, 2), closed],
            ),
        ),
        ("repetition".into(), say(Kind::Repetition, many(1540))),
        (
            "snapshot".into(),
            [
                say(Kind::Changes, many(1560)),
                say(snapshot(0, false), many(1570)),
                say(snapshot(1, true), Vec::new()),
            ]
            .concat(),
        ),
    ]
}
