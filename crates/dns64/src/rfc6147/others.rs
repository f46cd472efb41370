// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PTR questions, other questions and other records (RFC 6147).

use super::*;

// --- 5.3.1: PTR

fn ptr(qname: &'static str) -> Case {
    Case {
        qtype: PTR,
        ..aaaa(qname)
    }
}

#[test]
fn ptr_of_a_synthetic_address_is_an_alias() {
    let found = rr("1.2.0.192.in-addr.arpa", PTR, 300, &wire_name("h1.example"));
    let outcome = ptr(H1_REVERSE).resolve(&[some("1.2.0.192.in-addr.arpa", PTR, &[found])]);
    assert_eq!(outcome.asked, ["1.2.0.192.in-addr.arpa. PTR"]);
    assert_eq!(
        outcome.answers(),
        [
            format!("{H1_REVERSE}. 300 5 1.2.0.192.in-addr.arpa."),
            "1.2.0.192.in-addr.arpa. 300 12 h1.example.".to_owned(),
        ]
    );
}

#[test]
fn ptr_without_data_is_no_alias() {
    let outcome = ptr(H1_REVERSE).resolve(&[none("1.2.0.192.in-addr.arpa", PTR)]);
    assert!(outcome.answers().is_empty());
    assert_eq!(outcome.code(), OptRcode::NOERROR);
    let outcome = ptr(H1_REVERSE).resolve(&[code("1.2.0.192.in-addr.arpa", PTR, 3)]);
    assert_eq!(outcome.code(), OptRcode::NXDOMAIN);
}

#[test]
fn ptr_does_not_make_a_chain_longer() {
    // RFC 2317 section 4.
    let records = [
        rr(
            "1.2.0.192.in-addr.arpa",
            CNAME,
            60,
            &wire_name("1.0-25.2.0.192.in-addr.arpa"),
        ),
        rr(
            "1.0-25.2.0.192.in-addr.arpa",
            PTR,
            300,
            &wire_name("h1.example"),
        ),
    ];
    let outcome = ptr(H1_REVERSE).resolve(&[some("1.2.0.192.in-addr.arpa", PTR, &records)]);
    assert_eq!(
        outcome.answers(),
        [
            format!("{H1_REVERSE}. 60 5 1.0-25.2.0.192.in-addr.arpa."),
            "1.0-25.2.0.192.in-addr.arpa. 300 12 h1.example.".to_owned(),
        ]
    );
}

#[test]
fn ptr_of_another_address_is_passed_on() {
    const OTHER: &str = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let found = rr(OTHER, PTR, 300, &wire_name("h2.example"));
    let outcome = ptr(OTHER).resolve(&[some(OTHER, PTR, &[found])]);
    assert_eq!(outcome.asked, [format!("{OTHER}. PTR")]);
    assert_eq!(outcome.answers().len(), 1);
    assert_eq!(outcome.answer.origin, Origin::Passed);
}

#[test]
fn ptr_of_ipv4only_arpa_asks_nobody() {
    let case = ptr("a.a.0.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
    let outcome = case.resolve(&[]);
    assert_eq!(
        outcome.answers()[1],
        "170.0.0.192.in-addr.arpa. 86400 12 ipv4only.arpa."
    );
}

// --- 5.3.2 and 5.3.3: other records

#[test]
fn other_questions_are_passed_on() {
    for (qtype, data) in [
        (A, v4("192.0.2.1")),
        (TXT, vec![1, 65]),
        (65280, vec![1, 2, 3]),
    ] {
        let case = Case {
            qtype,
            ..aaaa("h1.example")
        };
        let records = [rr("h1.example", qtype, 300, &data)];
        let outcome = case.resolve(&[some("h1.example", qtype, &records)]);
        assert_eq!(outcome.answers().len(), 1);
        assert_eq!(outcome.answer.sections[..], records[0][..], "byte for byte");
    }
}

#[test]
fn authority_and_additional_are_copied_and_not_synthesised() {
    let authority = rr("example", NS, 300, &wire_name("ns.example"));
    let additional = rr("ns.example", A, 300, &v4("192.0.2.53"));
    let address = rr("h1.example", A, 300, &v4("192.0.2.1"));
    let found = reply(
        "h1.example",
        A,
        0,
        [&[address], &[authority], &[additional]],
    );
    let outcome = aaaa("h1.example").resolve(&[none("h1.example", AAAA), Some(found)]);
    assert_eq!(outcome.answers(), [H1]);
    assert_eq!(
        outcome.section(Section::Authority),
        ["example. 300 2 ns.example."]
    );
    assert_eq!(
        outcome.section(Section::Additional),
        ["ns.example. 300 1 192.0.2.53"]
    );
}

#[test]
fn names_in_copied_records_are_written_in_full() {
    // An NS, an MX and an SOA record whose names are pointers within upstream's message.
    let mut found = reply("h1.example", A, 0, [&[], &[], &[]]);
    found[7] = 1; // one answer
    found[9] = 3; // three authorities
    found.extend(bytes("c00c 0001 0001 0000012c 0004 c0000201"));
    found.extend(bytes("c00f 0002 0001 0000012c 0005 02 6e73 c00f"));
    found.extend(bytes("c00f 000f 0001 0000012c 0004 000a c00c"));
    found.extend(bytes("c00f 0006 0001 0000012c 001b 02 6e73 c00f c00c"));
    found.extend(bytes("00000001 00000e10 00000258 00015180 00000e10"));
    let outcome = aaaa("h1.example").resolve(&[none("h1.example", AAAA), Some(found)]);
    let message = outcome.parsed();
    let mut authority = message.section(Section::Authority);
    let ns = authority.next().expect("the NS record");
    assert_eq!(message.data(ns), wire_name("ns.example"));
    let mx = authority.next().expect("the MX record");
    assert_eq!(u16::from(mx.rtype), MX);
    assert_eq!(
        message.data(mx),
        [&[0, 10][..], &wire_name("h1.example")].concat()
    );
    let soa = authority.next().expect("the SOA record");
    let names = [wire_name("ns.example"), wire_name("h1.example")].concat();
    assert_eq!(message.data(soa)[..names.len()], names);
    assert_eq!(message.data(soa).len(), names.len() + 20);
}

// --- 5.4: the response

#[test]
fn opt_records_belong_to_one_hop() {
    let opt = [
        &[0][..],
        &OPT.to_be_bytes(),
        &[4, 208, 0, 0, 0, 0, 0, 4, 0, 10, 0, 0],
    ]
    .concat();
    let real = rr("h2.example", AAAA, 77, &v6("2001:db8::2"));
    let after = rr("ns.example", A, 300, &v4("192.0.2.53"));
    for additional in [
        vec![opt.clone()],
        vec![opt.clone(), after.clone()],
        vec![after, opt],
    ] {
        let found = reply(
            "h2.example",
            AAAA,
            0,
            [std::slice::from_ref(&real), &[], &additional],
        );
        let outcome = aaaa("h2.example").resolve(&[Some(found)]);
        let message = outcome.parsed();
        let opts = message.records.iter().filter(|r| u16::from(r.rtype) == OPT);
        assert_eq!(opts.count(), 1, "our own");
        assert_eq!(outcome.answers(), ["h2.example. 77 28 2001:db8::2"]);
        assert_eq!(
            outcome.section(Section::Additional).len(),
            additional.len() - 1
        );
    }
}

#[test]
fn an_answer_too_long_for_any_message_fails() {
    let record = rr("h1.example", A, 300, &v4("192.0.2.1"));
    // As A records they fit in 65535 bytes, as AAAA records they do not.
    let outcome = aaaa("h1.example").resolve(&[
        none("h1.example", AAAA),
        some("h1.example", A, &vec![record; 2400]),
    ]);
    assert_eq!(outcome.code(), OptRcode::SERVFAIL);
}
