// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CLAT (RFC 6877): only its own addresses are translated.

use crate::common::*;
use diolkos_xlat::{Eam, Offload, Reason, Translator, Verdict};

const OURS4: &str = "192.0.0.1";
const OURS6: &str = "2001:db8:1::1";
const PEER4: &str = "198.51.100.2";
const PEER6: &str = "2001:db8:64::198.51.100.2";

fn clat() -> Translator {
    translator(|config| {
        config.clat = true;
        config.eam = vec![Eam {
            v4: "192.0.0.1/32".parse().unwrap(),
            v6: "2001:db8:1::1/128".parse().unwrap(),
        }];
    })
}

#[test]
fn its_own_address_is_translated_both_ways() {
    let four = packet4(OURS4, PEER4, 17, udp(b"out")).bytes();
    assert_eq!(
        run(&clat(), &four, Offload::default()).verdict,
        Verdict::Forward
    );
    let six = packet6(PEER6, OURS6, 17, udp(b"in")).bytes();
    assert_eq!(
        run(&clat(), &six, Offload::default()).verdict,
        Verdict::Forward
    );
}

#[test]
fn another_ipv4_source_does_not_become_an_address_of_the_ipv4_internet() {
    let four = packet4("203.0.113.9", PEER4, 17, udp(b"out")).bytes();
    let outcome = run(&clat(), &four, Offload::default());
    assert_eq!(outcome.verdict, Verdict::Drop(Reason::SourceUnmapped));
}

#[test]
fn another_ipv6_destination_is_not_ours() {
    for destination in ["2001:db8:1::2", "2001:db8:64::203.0.113.9"] {
        let six = packet6(PEER6, destination, 17, udp(b"in")).bytes();
        let outcome = run(&clat(), &six, Offload::default());
        assert_eq!(outcome.verdict, Verdict::Drop(Reason::DestinationUnmapped));
    }
}
