// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records, written by hand from `p4/PROTOCOL.md`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use diolkos_fastpath::{Owner, Session};
use diolkos_p4::embedding::Embedding;
use diolkos_p4::entry::{
    from4, from6, hop, local_mac, own, session, settings, End, Entry, Exit, Mode,
};
use diolkos_p4::names::COUNTS;
use diolkos_p4::wire::{replies, Garbage, Op, Request, Status, RECORD, REPLY};

const PROTOCOL: &str = include_str!("../../../p4/PROTOCOL.md");

/// The bytes of hexadecimal digits, with any white space.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .chars()
        .filter_map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

/// A field of 48 bytes.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut field = bytes.to_vec();
    field.resize(48, 0);
    field
}

fn record(head: &str, table: &str, action: &str, [key, mask, data]: [&str; 3]) -> Vec<u8> {
    let mut record = hex(head);
    record.extend(padded(table.as_bytes()));
    record.extend(padded(action.as_bytes()));
    for field in [key, mask, data] {
        record.extend(padded(&hex(field)));
    }
    assert_eq!(record.len(), RECORD);
    record
}

fn written(request: &Request, cookie: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.write(cookie, &mut bytes);
    bytes
}

fn tcp() -> Session {
    Session {
        protocol: 6,
        node: ("2001:db8:6::2".parse().expect("an address"), 50000),
        v4: (Ipv4Addr::new(192, 0, 2, 1), 1025),
        peer: (Ipv4Addr::new(198, 51, 100, 2), 443),
        prefix: 0,
        owner: Owner::OURS,
    }
}

const PEER6: &str = "2001:db8:64::c633:6402";

#[test]
fn a_session_of_tcp() {
    let peer6: Ipv6Addr = PEER6.parse().expect("an address");
    let [six, four] = session(&tcp(), peer6, 7);
    let key6 = "2001 0db8 0006 0000 0000 0000 0000 0002  2001 0db8 0064 0000 0000 0000 c633 6402  06 c350 01bb";
    let to4 = "c000 0201  c633 6402  0401  0000 0007";
    let head = "6470 3401  0000 0009  0002 0000  0000 0000";
    assert_eq!(
        written(&six.insert(), 9),
        record(head, "session6", "to4", [key6, "", to4])
    );
    let key4 = "c633 6402  c000 0201  06 01bb 0401";
    let to6 = "2001 0db8 0064 0000 0000 0000 c633 6402  2001 0db8 0006 0000 0000 0000 0000 0002  c350  0000 0007";
    assert_eq!(
        written(&four.insert(), 9),
        record(head, "session4", "to6", [key4, "", to6])
    );
    let delete = "6470 3401  0000 000a  0003 0000  0000 0000";
    assert_eq!(
        four.delete().map(|request| written(&request, 10)),
        Some(record(delete, "session4", "", [key4, "", ""]))
    );
}

/// The identifier is the source port in `session6`, and the destination port in `session4`.
#[test]
fn a_session_of_echoes() {
    let echo = Session {
        protocol: 1,
        peer: (Ipv4Addr::new(198, 51, 100, 2), 0),
        ..tcp()
    };
    let [six, four] = session(&echo, PEER6.parse().expect("an address"), 8);
    let head = "6470 3401  0000 0000  0002 0000  0000 0000";
    let key6 = "2001 0db8 0006 0000 0000 0000 0000 0002  2001 0db8 0064 0000 0000 0000 c633 6402  3a c350 0000";
    let to4 = "c000 0201  c633 6402  0401  0000 0008";
    assert_eq!(
        written(&six.insert(), 0),
        record(head, "session6", "to4", [key6, "", to4])
    );
    let key4 = "c633 6402  c000 0201  01 0000 0401";
    let to6 = "2001 0db8 0064 0000 0000 0000 c633 6402  2001 0db8 0006 0000 0000 0000 0000 0002  c350  0000 0008";
    assert_eq!(
        written(&four.insert(), 0),
        record(head, "session4", "to6", [key4, "", to6])
    );
}

#[test]
fn settings_are_a_default_action() {
    let head = "6470 3401  0000 0001  0004 0000  0000 0000";
    let entry = settings(Mode::Sessions, true, 1280);
    assert_eq!(
        written(&entry.insert(), 1),
        record(
            head,
            "settings",
            "set",
            ["", "", "02 ff 0500 0000 0000 0000 0000"]
        )
    );
    assert_eq!(entry.delete(), None);
    let zero = settings(Mode::Stateless, false, 1400);
    assert_eq!(
        zero.insert().data.bytes(),
        hex("01 00 0578 0000 0000 0000 0000")
    );
    let without = settings(Mode::StatelessWithoutSyn, true, 1280);
    assert_eq!(
        without.insert().data.bytes(),
        hex("04 ff 0500 0000 0000 0000 0000")
    );
}

#[test]
fn hops_are_ternary_and_longer_ones_win() {
    let exit = Exit {
        port: 2,
        to: [2, 0, 0, 0, 0, 9],
        from: [2, 0, 0, 0, 0, 7],
        mtu: 1500,
    };
    let of = |net: &str, exit: Option<Exit>, first: bool| -> Entry {
        hop(net.parse().expect("a network"), exit, first)
    };
    let data = "0000 0002  0200 0000 0009  0200 0000 0007  05dc";
    // 33 is one more than the bits that are not compared.
    let head = "6470 3401  0000 0001  0002 0000  0000 0021";
    assert_eq!(
        written(&of("0.0.0.0/0", Some(exit), false).insert(), 1),
        record(head, "hop4", "forward", ["0000 0000", "0000 0000", data])
    );
    let head = "6470 3401  0000 0001  0002 0000  0000 0051";
    assert_eq!(
        written(&of("2001:db8:6::/48", None, false).insert(), 1),
        record(
            head,
            "hop6",
            "decline",
            [
                "2001 0db8 0006 0000 0000 0000 0000 0000",
                "ffff ffff ffff 0000 0000 0000 0000 0000",
                ""
            ]
        )
    );
    assert_eq!(of("192.0.2.0/24", None, true).insert().priority, 0);
    assert_eq!(of("192.0.2.1/32", None, false).insert().priority, 1);
}

#[test]
fn addresses_of_this_host() {
    let mac = [2, 0, 0, 0, 0, 7];
    let head = "6470 3401  0000 0001  0002 0000  0000 0000";
    assert_eq!(
        written(&local_mac(mac).insert(), 1),
        record(head, "local_mac", "mine", ["0200 0000 0007", "", ""])
    );
    let v4: IpAddr = "198.51.100.1".parse().expect("an address");
    assert_eq!(
        written(&own(v4, mac).insert(), 1),
        record(head, "own4", "own", ["c633 6401", "", "0200 0000 0007"])
    );
}

#[test]
fn mappings_without_state() {
    let prefix = "2001:db8:100::/40".parse().expect("a prefix");
    let by = Embedding::of_prefix(prefix).expect("a length");
    let head = "6470 3401  0000 0001  0002 0000  0000 0190";
    // base, hr, hl, hm, lr, lm
    let shifts = "00 08 ffff ff00 30 0000 00ff";
    assert_eq!(
        written(&from6(End::Source, 400, prefix, Some(&by)).insert(), 1),
        record(
            head,
            "src6",
            "from6",
            [
                "2001 0db8 0100 0000 0000 0000 0000 0000",
                "ffff ffff ff00 0000 0000 0000 0000 0000",
                &format!("0000 0000 {shifts}")
            ]
        )
    );
    let all = "0.0.0.0/0".parse().expect("a network");
    assert_eq!(
        written(&from4(End::Destination, 400, all, Some(&by)).insert(), 1),
        record(
            head,
            "dst4",
            "from4",
            [
                "0000 0000",
                "0000 0000",
                &format!("2001 0db8 0100 0000 0000 0000 0000 0000 {shifts}")
            ]
        )
    );
}

#[test]
fn a_part_of_an_array() {
    let head = "6470 3401  0000 0001  0007 0000  0000 0000";
    let used = Request::part(Op::Used, "used", 65536, 8);
    assert_eq!(
        written(&used, 1),
        record(head, "used", "", ["0001 0000 0000 0008", "", ""])
    );
    assert_eq!(used.extra(), 1);
    assert_eq!(Request::part(Op::Read, "counts", 0, 26).extra(), 208);
    assert_eq!(Request::of(Op::Flush, "").extra(), 0);
}

/// A reply to `HELLO`: boot, pairs, slots.
fn hello() -> Vec<u8> {
    let mut reply = hex("6470 3401  0000 0005  0001 0000  0000 0000");
    reply.extend(padded(&hex("0123 4567 89ab cdef  0000 0002  0001 0000")));
    reply
}

#[test]
fn a_reply_is_read() {
    let ask = [Request::of(Op::Hello, "")];
    let bytes = hello();
    let (read, extra) = replies(&bytes, &ask, 5).expect("a reply");
    assert_eq!((read.len(), extra.len()), (1, 0));
    assert_eq!(read[0].status, Status::Done);
    assert_eq!(read[0].u64_at(0), 0x0123_4567_89ab_cdef);
    assert_eq!((read[0].u32_at(8), read[0].u32_at(12)), (2, 65536));
    assert_eq!(read[0].u64_at(44), 0, "beyond the payload there is nothing");
}

#[test]
fn what_is_no_reply_is_refused() {
    let ask = [Request::of(Op::Hello, "")];
    let with = |at: usize, byte: u8| {
        let mut bytes = hello();
        bytes[at] = byte;
        replies(&bytes, &ask, 5).expect_err("it is refused")
    };
    assert_eq!(with(0, 0), Garbage::Version(0x0070_3401));
    assert_eq!(with(7, 6), Garbage::Cookie);
    assert_eq!(with(9, 2), Garbage::Cookie);
    assert_eq!(with(11, 10), Garbage::Status(10));
    assert_eq!(with(12, 1), Garbage::Padding);
    for length in (0..REPLY).chain([REPLY + 1, 2 * REPLY]) {
        let mut bytes = hello();
        bytes.resize(length, 0);
        let refused = replies(&bytes, &ask, 5).expect_err("it is refused");
        assert_eq!(refused, Garbage::Length(length));
    }
    // What follows has the length that was asked for, unless the request has failed.
    let ask = [Request::part(Op::Used, "used", 0, 16)];
    let mut used = hello();
    used[9] = 7;
    assert!(replies(&used, &ask, 5).is_err());
    used.extend([0b1, 0b10]);
    let (_, bits) = replies(&used, &ask, 5).expect("a reply");
    assert_eq!(bits, [1, 2]);
    used[11] = 6;
    assert!(replies(&used, &ask, 5).is_err());
    used.truncate(REPLY);
    assert!(replies(&used, &ask, 5).is_ok());
}

/// Bytes of a switch that has gone mad never cause a panic.
#[test]
fn random_bytes_are_survived() {
    let mut random = fastrand::Rng::with_seed(64);
    let asks = [
        vec![Request::part(Op::Used, "used", 0, 64)],
        vec![Request::of(Op::Flush, ""); 3],
    ];
    for _ in 0..20_000 {
        let mut bytes = vec![0; random.usize(0..300)];
        random.fill(&mut bytes);
        if random.bool() && bytes.len() >= 16 {
            bytes[..16].copy_from_slice(&hello()[..16]);
        }
        for ask in &asks {
            let _ = replies(&bytes, ask, 5);
        }
    }
}

/// The names of counters are those of the page, at their indices.
#[test]
fn counters_are_those_of_the_page() {
    for (at, name) in COUNTS.iter().enumerate() {
        let cell = format!("| {at} | {name} |");
        assert!(PROTOCOL.contains(&cell), "{cell}");
    }
    assert!(!PROTOCOL.contains(&format!("| {} | ", COUNTS.len())));
}
