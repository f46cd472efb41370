// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 extension headers, IPv4 options and unknown transports: RFC 7915 sections 4.1 and 5.1.

use crate::common::*;
use diolkos_xlat::{Offload, Reason, Verdict};

const A4: &str = "192.0.2.1";
const B4: &str = "198.51.100.2";
const A6: &str = "2001:db8:64::192.0.2.1";
const B6: &str = "2001:db8:64::198.51.100.2";

fn drop(packet: &[u8]) -> Reason {
    match run(&translator(|_| ()), packet, Offload::default()).verdict {
        Verdict::Drop(reason) => reason,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn extension_headers_are_skipped() {
    let l4 = packet6(A6, B6, 6, tcp(b"x")).payload;
    let chain = [
        vec![60, 0, 0, 0, 0, 0, 0, 0],
        vec![43, 1],
        vec![0; 14],
        vec![6, 0, 4, 0, 0, 0, 0, 0],
        l4,
    ]
    .concat();
    let mut expected = packet4(A4, B4, 6, tcp(b"x"));
    (expected.ttl, expected.flags_and_offset, expected.id) = (63, 0, 0x1001);
    let outcome = run(
        &translator(|_| ()),
        &V6::new(A6, B6, 0, chain).bytes(),
        Offload::default(),
    );
    assert_eq!(outcome.packet, expected.bytes());
}

#[test]
fn options_are_ignored() {
    let mut sent = packet4(A4, B4, 6, tcp(b"x"));
    sent.options = vec![7, 7, 4, 0, 0, 0, 0, 1, 131, 3, 4, 0];
    let mut expected = packet6(A6, B6, 6, tcp(b"x"));
    expected.hop_limit = 63;
    assert_eq!(
        run(&translator(|_| ()), &sent.bytes(), Offload::default()).packet,
        expected.bytes()
    );
}

#[test]
fn unknown_transports_pass() {
    for protocol in [47, 50, 51, 59, 132, 253] {
        let four = V4::new(A4, B4, protocol, pattern(30));
        let mut expected = V6::new(A6, B6, protocol, pattern(30));
        expected.hop_limit = 63;
        assert_eq!(
            run(&translator(|_| ()), &four.bytes(), Offload::default()).packet,
            expected.bytes()
        );
        let mut expected = V4::new(A4, B4, protocol, pattern(30));
        (expected.ttl, expected.flags_and_offset, expected.id) = (63, 0, 0x1001);
        let six = V6::new(A6, B6, protocol, pattern(30));
        assert_eq!(
            run(&translator(|_| ()), &six.bytes(), Offload::default()).packet,
            expected.bytes()
        );
    }
    for (protocol, reason) in [
        (0, Reason::Protocol),
        (43, Reason::Protocol),
        (44, Reason::Protocol),
        (60, Reason::Protocol),
        (58, Reason::Protocol),
        (2, Reason::Igmp),
    ] {
        assert_eq!(
            drop(&V4::new(A4, B4, protocol, pattern(30)).bytes()),
            reason
        );
    }
    for (protocol, reason) in [(1, Reason::Protocol), (2, Reason::Igmp)] {
        assert_eq!(
            drop(&V6::new(A6, B6, protocol, pattern(30)).bytes()),
            reason
        );
    }
}
