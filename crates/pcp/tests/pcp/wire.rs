// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages byte for byte, from the figures of RFC 6887: 2 (request), 3 (answer), 9 and 10 (MAP), 4 (option). Written by hand
//! before the code ran.

use std::net::Ipv6Addr;

use crate::world::*;
use diolkos_pcp::message::{self, Code, Request, Unfit};

/// Of 2001:db8::5 for TCP port 8080, an hour, external 203.0.113.7:7070.
#[rustfmt::skip]
const REQUEST: [u8; 60] = [
    2, 1, 0, 0,                                             // version 2, R 0, opcode 1, reserved
    0, 0, 0x0e, 0x10,                                       // 3600 s
    0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, // the client's address
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,                     // nonce
    6, 0, 0, 0,                                             // TCP, reserved
    0x1f, 0x90, 0x1b, 0x9e,                                 // 8080, 7070
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 203, 0, 113, 7, // ::ffff:203.0.113.7
];

/// 192.0.2.1:7070 for an hour, ten seconds after the epoch began.
#[rustfmt::skip]
const ANSWER: [u8; 60] = [
    2, 0x81, 0, 0,                                          // version 2, R 1, opcode 1, reserved, success
    0, 0, 0x0e, 0x10,
    0, 0, 0, 10,                                            // epoch
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                     // reserved
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    6, 0, 0, 0,
    0x1f, 0x90, 0x1b, 0x9e,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1,
];

fn client() -> Ipv6Addr {
    MAP.client.parse().unwrap()
}

#[test]
fn a_mapping() {
    let mut world = World::new(settings());
    world.wait(10);
    assert_eq!(
        world.send(MAP.client, &REQUEST).as_deref(),
        Some(&ANSWER[..])
    );
}

#[test]
fn an_announcement() {
    let mut world = World::new(settings());
    world.wait(65_536 + 7);
    let mut request = REQUEST[..24].to_vec();
    (request[1], request[7]) = (0, 0);
    request[6] = 0;
    let mut expected = vec![2, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 0, 7];
    expected.resize(24, 0);
    assert_eq!(world.send(MAP.client, &request), Some(expected));
}

/// Section 8.2: the request behind the header of an answer.
#[test]
fn an_error_has_the_request_behind_its_header() {
    let mut world = World::new(settings());
    let mut request = REQUEST.to_vec();
    request[36] = 132; // SCTP
    let answer = world.send(MAP.client, &request).unwrap();
    let mut expected = vec![2, 0x81, 0, 9, 0, 0, 0x07, 0x08, 0, 0, 0, 0];
    expected.resize(24, 0);
    expected.extend(&request[24..]);
    assert_eq!(answer, expected, "UNSUPP_PROTOCOL for 1800 s");
}

#[test]
fn what_is_no_request_has_its_code() {
    let map = MAP.bytes();
    let with = |at: usize, value: u8| {
        let mut bytes = map.clone();
        bytes[at] = value;
        bytes
    };
    let long = |len: usize| {
        let mut bytes = MAP.and(128, &vec![0; len - 64]);
        bytes.truncate(len);
        bytes
    };
    let strict_any = MAP.and(2, &[]);
    let strict = Map { port: 7, ..MAP };
    let both = [strict.and(2, &[]), vec![2, 0, 0, 0]].concat();
    let mut cut = strict.and(200, &[0; 8]);
    cut.truncate(68);
    let silent = Err(Unfit::Silent);
    let refused = |code| Err(Unfit::Refused(code));
    for (what, bytes, expected) in [
        ("nothing", vec![], silent),
        ("shorter than a header", map[..20].to_vec(), silent),
        ("an answer", with(1, 0x81), silent),
        ("NAT-PMP", with(0, 0), refused(Code::UnsuppVersion)),
        ("a later version", with(0, 3), refused(Code::UnsuppVersion)),
        (
            "bytes that are no words",
            [&map[..], &[0]].concat(),
            refused(Code::MalformedRequest),
        ),
        ("1104 bytes", long(1104), refused(Code::MalformedRequest)),
        ("PEER", with(1, 2), refused(Code::UnsuppOpcode)),
        (
            "an unknown opcode",
            with(1, 0x7f),
            refused(Code::UnsuppOpcode),
        ),
        (
            "another client",
            with(23, 6),
            refused(Code::AddressMismatch),
        ),
        (
            "a MAP without the end",
            map[..56].to_vec(),
            refused(Code::MalformedRequest),
        ),
        (
            "THIRD_PARTY",
            MAP.and(1, &[0; 16]),
            refused(Code::UnsuppOption),
        ),
        ("FILTER", MAP.and(3, &[0; 20]), refused(Code::UnsuppOption)),
        (
            "an unknown mandatory option",
            MAP.and(127, &[]),
            refused(Code::UnsuppOption),
        ),
        (
            "PREFER_FAILURE for anything",
            strict_any,
            refused(Code::MalformedOption),
        ),
        (
            "PREFER_FAILURE with data",
            strict.and(2, &[0; 4]),
            refused(Code::MalformedOption),
        ),
        ("PREFER_FAILURE twice", both, refused(Code::MalformedOption)),
        (
            "an option beyond the end",
            cut,
            refused(Code::MalformedOption),
        ),
    ] {
        assert_eq!(message::read(&bytes, client()), expected, "{what}");
    }
    for bytes in [
        map.clone(),
        long(1100),
        MAP.and(128, b"a name"),
        strict.and(2, &[]),
    ] {
        assert!(
            matches!(message::read(&bytes, client()), Ok(Request::Map(_))),
            "{bytes:?}"
        );
    }
    // In ANNOUNCE it has no meaning, and is mandatory.
    let mut announce = map[..24].to_vec();
    announce[1] = 0;
    announce.extend([2, 0, 0, 0]);
    assert_eq!(
        message::read(&announce, client()),
        refused(Code::UnsuppOption)
    );
}

/// Section 7.3: an option that was processed is in the answer, and others are not.
#[test]
fn the_answer_has_the_options_that_counted() {
    let mut world = World::new(settings());
    let strict = Map { port: 7070, ..MAP }.and(2, &[]);
    let answer = world.send(MAP.client, &strict).unwrap();
    assert_eq!(answer[60..], [2, 0, 0, 0]);
    let described = Map { internal: 9, ..MAP }.and(128, b"a name");
    assert_eq!(world.send(MAP.client, &described).unwrap().len(), 60);
}
