// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

const CLUSTER: u64 = 9;

fn slice() -> (SliceId, Slice) {
    let slice = Slice {
        addr: "192.0.2.1".parse().expect("an address"),
        ports: 1024..=2047,
    };
    (0x0102, slice)
}

fn decode(bytes: &[u8]) -> Result<Message, Refused> {
    let (id, slice) = slice();
    Message::decode(CLUSTER, (id, &slice), bytes)
}

fn opened(protocol: Protocol, port: u16, v6: &str, v6_port: u16) -> Change {
    let (_, slice) = slice();
    Change::Opened(Binding {
        protocol,
        v4: Endpoint4 {
            addr: slice.addr,
            port,
        },
        v6: Endpoint6 {
            addr: v6.parse().expect("an address"),
            port: v6_port,
        },
    })
}

fn message(kind: Kind, changes: Vec<Change>) -> Message {
    Message {
        slice: slice().0,
        node: NodeId(3),
        title: Title {
            life: 4,
            revision: 5,
        },
        kind,
        changes,
    }
}

/// Up to the kind.
const HEAD: [u8; 31] = [
    1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 1, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5,
];

#[test]
fn bytes_by_hand() {
    let changes = vec![
        opened(Protocol::Udp, 0x0401, "2001:db8:0:1::5", 0x1234),
        opened(Protocol::Tcp, 0x0402, "2001:db8:0:1::6", 0x1235),
        opened(Protocol::Icmp, 0x0403, "2001:db8:0:1::6", 1),
        Change::Closed {
            protocol: Protocol::Udp,
            port: 0x0404,
        },
        opened(Protocol::Tcp, 0x0405, "2001:db8:0:2::6", 2),
    ];
    let mut expected = HEAD.to_vec();
    expected.push(0);
    expected.extend([0b101, 4, 1, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 1]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 5, 0x12, 0x34]);
    expected.extend([0b1100, 4, 2, 0, 0, 0, 0, 0, 0, 0, 6, 0x12, 0x35]);
    expected.extend([0b1_0110, 4, 3, 0, 1]);
    expected.extend([0b1, 4, 4]);
    expected.extend([0b100, 4, 5, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 2]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 6, 0, 2]);
    let all = message(Kind::Changes, changes);
    assert_eq!(all.encode(CLUSTER), expected);
    assert_eq!(decode(&expected), Ok(all));

    let kind = Kind::Snapshot {
        number: 0x0607,
        part: 0x08,
        is_last: true,
    };
    let last = message(kind, vec![]);
    let expected = [&HEAD[..], &[3, 0, 0, 6, 7, 0, 8]].concat();
    assert_eq!(last.encode(CLUSTER), expected);
    assert_eq!(decode(&expected), Ok(last));
}

#[test]
fn strangers_are_refused() {
    let one = message(
        Kind::Repetition,
        vec![opened(Protocol::Tcp, 1024, "2001:db8::1", 1)],
    );
    let right = one.encode(CLUSTER);
    assert_eq!(decode(&right), Ok(one));
    let with = |at: usize, byte| {
        let mut bytes = right.clone();
        bytes[at] = byte;
        decode(&bytes)
    };
    assert_eq!(with(0, 2), Err(Refused::AnotherFormat));
    assert_eq!(decode(&[]), Err(Refused::AnotherFormat));
    assert_eq!(with(8, 8), Err(Refused::AnotherCluster));
    assert_eq!(with(12, 3), Err(Refused::AnotherSlice));
    assert_eq!(with(31, 4), Err(Refused::Malformed), "another kind");
    assert_eq!(
        with(32, 0b111),
        Err(Refused::Malformed),
        "a fourth protocol"
    );
    assert_eq!(
        with(32, 0b1000),
        Err(Refused::Malformed),
        "closed in a prefix"
    );
    assert_eq!(with(32, 0b10_0100), Err(Refused::Malformed), "unknown bits");
    assert_eq!(with(33, 3), Err(Refused::ForeignPort), "below the slice");
    assert_eq!(with(33, 8), Err(Refused::ForeignPort), "above the slice");
    // A message may end after its head: it has no changes.
    for len in (1..32).chain(33..right.len()) {
        assert_eq!(
            decode(&right[..len]),
            Err(Refused::Malformed),
            "cut off at {len}"
        );
    }
    let longer = [right.as_slice(), &[0]].concat();
    assert_eq!(
        decode(&longer),
        Err(Refused::Malformed),
        "something behind it"
    );
}

#[test]
fn messages_have_a_limit() {
    let closed = |count: u16| -> Vec<Change> {
        let ports = (0..count).map(|n| 1024 + n % 1024);
        ports
            .map(|port| Change::Closed {
                protocol: Protocol::Tcp,
                port,
            })
            .collect()
    };
    let most = message(Kind::Changes, closed(MAX_CHANGES as u16));
    let mut bytes = most.encode(CLUSTER);
    assert_eq!(decode(&bytes), Ok(most));
    bytes.extend([0, 4, 0]);
    assert_eq!(decode(&bytes), Err(Refused::Malformed), "one change more");
    let parts = |part: u8| [&HEAD[..], &[2, 0, 0, 0, 0, part, 0]].concat();
    assert!(decode(&parts(0)).is_ok());
    assert_eq!(decode(&parts(1)), Err(Refused::Malformed), "part 256");
    // Changes of nodes of different prefixes fill a message.
    let far = (0..MAX_CHANGES as u32).map(|n| {
        opened(
            Protocol::Tcp,
            1024,
            &format!("2001:db8:{:x}:{:x}::1", n / 256, n),
            1,
        )
    });
    let full = message(Kind::Changes, far.collect()).encode(CLUSTER);
    assert_eq!(full.len(), 32 + MAX_CHANGES * MAX_CHANGE);
    assert!(full.len() <= MAX_BYTES);
}
