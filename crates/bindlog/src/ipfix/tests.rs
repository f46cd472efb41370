// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The expected messages are written by hand from the RFCs: no known collector reads ranges of ports.

use super::*;
use diolkos_nat64::config::{Endpoint4, Endpoint6};
use diolkos_nat64::session::BlockView;
use std::net::Ipv4Addr;

fn created(port: u16) -> Record {
    let binding = Binding {
        protocol: Protocol::Udp,
        v4: Endpoint4 {
            addr: Ipv4Addr::new(192, 0, 2, 1),
            port,
        },
        v6: Endpoint6 {
            addr: "2001:db8::5".parse().expect("an address"),
            port: 0x1234,
        },
    };
    Record {
        at: 0x0102_0304_0506_0708,
        what: What::Binding(EntryChange::Created, binding),
    }
}

/// By hand from RFC 7011 sections 3.1, 3.3 and 3.4, and RFC 8158.
#[test]
fn a_message_is_laid_out_as_the_rfcs_say() {
    let mut exporter = Exporter::new(7);
    let records = [created(0x4321), created(0x4322)];
    let (message, taken) = exporter.message(&records, 1_251_002_515_456);
    assert_eq!(taken, 2);
    let mut expected = vec![0, 10, 0, 16 + 4 + 2 * 34];
    expected.extend(((1_251_002_515_456_u64 / 1000) as u32).to_be_bytes());
    expected.extend([0, 0, 0, 0, 0, 0, 0, 7]);
    expected.extend([1, 0, 0, 4 + 2 * 34]);
    for port in [0x21, 0x22] {
        expected.extend([1, 2, 3, 4, 5, 6, 7, 8, 10, 17]);
        expected.extend([
            0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x12, 0x34,
        ]);
        expected.extend([192, 0, 2, 1, 0x43, port]);
    }
    assert_eq!(message, expected);
    let (next, _) = exporter.message(&records[..1], 0);
    assert_eq!(next[8..12], [0, 0, 0, 2], "the records before it");
}

/// By hand from RFC 8158: event 16, and first and last port of the range.
#[test]
fn a_block_is_laid_out_as_the_rfcs_say() {
    let view = BlockView {
        source: "2001:db8:0:5::".parse().expect("an address"),
        source_prefix_len: 64,
        addr: Ipv4Addr::new(192, 0, 2, 1),
        first: 0x1200,
        last: 0x12ff,
    };
    let told = |change| {
        let record = Record {
            at: 0x0102_0304_0506_0708,
            what: What::Block(change, view),
        };
        Exporter::new(1).message(&[record], 0).0
    };
    let mut expected = vec![1, 2, 0, 38, 1, 2, 3, 4, 5, 6, 7, 8, 16];
    expected.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 64]);
    expected.extend([192, 0, 2, 1, 0x12, 0, 0x12, 0xff]);
    assert_eq!(told(EntryChange::Created)[16..], expected);
    expected[12] = 17;
    assert_eq!(told(EntryChange::Deleted)[16..], expected);
}

/// Written by hand: RFC 7011 sections 3.1 (message), 3.3.2 (set), 3.4.1 (template), with the information elements of IANA's
/// registry that RFC 8158 section 4 names.
#[test]
fn the_template_of_blocks_is_that_of_the_rfcs() {
    let message = Exporter::new(7).templates(1_251_002_515_456);
    let block = [
        0, 2, 0, 36, // a set of templates, 36 bytes
        1, 2, 0, 7, // template 258, 7 fields
        0x01, 0x43, 0, 8, // observationTimeMilliseconds (323), 8 bytes
        0x00, 0xe6, 0, 1, // natEvent (230)
        0x00, 0x1b, 0, 16, // sourceIPv6Address (27)
        0x00, 0x1d, 0, 1, // sourceIPv6PrefixLength (29)
        0x00, 0xe1, 0, 4, // postNATSourceIPv4Address (225)
        0x01, 0x69, 0, 2, // portRangeStart (361)
        0x01, 0x6a, 0, 2, // portRangeEnd (362)
    ];
    // After the header (16) and the templates of bindings (4 + 4 + 7 * 4) and sessions (4 + 4 + 11 * 4).
    assert_eq!(message[16 + 36 + 52..][..36], block);
}

/// Written by hand, from the first to the last byte: a source gets ports 4608 to 4863 of 192.0.2.1, and returns them a second
/// later. Events 16 and 17 are RFC 8158's "port block allocation" and "de-allocation"; RFC 7011 sections 3.1 and 3.3.2.
#[test]
fn a_message_of_blocks_is_that_of_the_rfcs() {
    let block = BlockView {
        source: "2001:db8:0:5::".parse().expect("an address"),
        source_prefix_len: 64,
        addr: Ipv4Addr::new(192, 0, 2, 1),
        first: 4608,
        last: 4863,
    };
    let record = |at, change| Record {
        at,
        what: What::Block(change, block),
    };
    // 2026-11-23 12:00:00 UTC is 1 795 435 200 s, 0x6b04_2ac0; in milliseconds 0x1a2_0846_fe00.
    let noon = 1_795_435_200_000;
    let records = [
        record(noon, EntryChange::Created),
        record(noon + 1000, EntryChange::Deleted),
    ];
    let (message, taken) = Exporter::new(0x0102_0304).message(&records, noon + 2000);
    let expected = [
        0x00, 0x0a, // version 10
        0x00, 0x58, // 88 bytes: 16 + 4 + 2 * 34
        0x6b, 0x04, 0x2a, 0xc2, // export time
        0x00, 0x00, 0x00, 0x00, // sequence number
        0x01, 0x02, 0x03, 0x04, // observation domain
        0x01, 0x02, 0x00, 0x48, // a set of records of template 258, 72 bytes
        0x00, 0x00, 0x01, 0xa2, 0x08, 0x46, 0xfe, 0x00, // when
        0x10, // allocated
        0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00, 0x00, 0x05, 0, 0, 0, 0, 0, 0, 0, 0,    // whose
        0x40, // its prefix length
        0xc0, 0x00, 0x02, 0x01, // of which address
        0x12, 0x00, 0x12, 0xff, // from, to
        0x00, 0x00, 0x01, 0xa2, 0x08, 0x47, 0x01, 0xe8, // a second later
        0x11, // released
        0x20, 0x01, 0x0d, 0xb8, 0x00, 0x00, 0x00, 0x05, 0, 0, 0, 0, 0, 0, 0, 0,    // whose
        0x40, // its prefix length
        0xc0, 0x00, 0x02, 0x01, // of which address
        0x12, 0x00, 0x12, 0xff, // from, to
    ];
    assert_eq!((message.as_slice(), taken), (&expected[..], 2));
}

#[test]
fn templates_say_the_length_of_each_record() {
    assert_eq!(BLOCK.length(), 34);
    let message = Exporter::new(1).templates(0);
    assert_eq!(
        usize::from(u16::from_be_bytes([message[2], message[3]])),
        message.len()
    );
    assert_eq!(
        (BINDING.length(), SESSION.length(), RELIABILITY.length()),
        (34, 58, 28)
    );
    // The set of the first template: 2, its length, its number, seven elements, the first of which is 323 of 8 bytes.
    assert_eq!(message[16..28], [0, 2, 0, 36, 1, 0, 0, 7, 1, 0x43, 0, 8]);
    let lost = Record {
        at: 9,
        what: What::Lost(3, 8),
    };
    let (message, _) = Exporter::new(1).message(&[lost], 0);
    assert_eq!(message[16..20], [1, 3, 0, 32]);
    assert_eq!(message[24..32], [0, 0, 0, 0, 0, 0, 0, 3]);
}

#[test]
fn no_message_is_too_long_and_no_record_is_left_out() {
    let mut exporter = Exporter::new(1);
    let mut records: Vec<Record> = (0..200).map(created).collect();
    records.insert(
        9,
        Record {
            at: 1,
            what: What::Lost(1, 1),
        },
    );
    records.insert(
        3,
        Record {
            at: 1,
            what: What::Started,
        },
    );
    let mut rest = &records[..];
    while !rest.is_empty() {
        let (message, taken) = exporter.message(rest, 0);
        assert!(taken > 0 && message.len() <= LONGEST);
        rest = &rest[taken..];
    }
    assert_eq!(exporter.sequence, 201);
}
