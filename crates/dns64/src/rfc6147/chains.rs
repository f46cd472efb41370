// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chains of CNAME and DNAME records (RFC 6147).

use super::*;

// --- 5.1.5: chains

#[test]
fn cname_chain_is_part_of_the_answer() {
    let alias = rr("www.example", CNAME, 60, &wire_name("h1.example"));
    let denied = reply(
        "www.example",
        AAAA,
        0,
        [
            std::slice::from_ref(&alias),
            &[soa("example", 3600, 3600)],
            &[],
        ],
    );
    let found = some(
        "www.example",
        A,
        &[alias, rr("h1.example", A, 300, &v4("192.0.2.1"))],
    );
    let outcome = aaaa("www.example").resolve(&[Some(denied), found]);
    assert_eq!(outcome.asked, ["www.example. AAAA", "www.example. A"]);
    assert_eq!(outcome.answers(), ["www.example. 60 5 h1.example.", H1]);
}

#[test]
fn cname_chain_that_breaks_off_is_followed() {
    let alias = || rr("www.example", CNAME, 60, &wire_name("h1.example"));
    let outcome = aaaa("www.example").resolve(&[
        some("www.example", AAAA, &[alias()]),
        none("h1.example", AAAA),
        some("www.example", A, &[alias()]),
        h1_a(),
    ]);
    assert_eq!(
        outcome.asked,
        [
            "www.example. AAAA",
            "h1.example. AAAA",
            "www.example. A",
            "h1.example. A"
        ]
    );
    assert_eq!(outcome.answers(), ["www.example. 60 5 h1.example.", H1]);
}

#[test]
fn cname_chain_to_a_real_aaaa_record_is_followed() {
    let alias = rr("www.example", CNAME, 60, &wire_name("h2.example"));
    let real = rr("h2.example", AAAA, 77, &v6("2001:db8::2"));
    let outcome = aaaa("www.example").resolve(&[
        some("www.example", AAAA, &[alias]),
        some("h2.example", AAAA, &[real]),
    ]);
    assert_eq!(
        outcome.answers(),
        [
            "www.example. 60 5 h2.example.",
            "h2.example. 77 28 2001:db8::2"
        ]
    );
}

#[test]
fn cname_chain_without_end_fails() {
    let circle = [
        rr("a.example", CNAME, 60, &wire_name("b.example")),
        rr("b.example", CNAME, 60, &wire_name("a.example")),
    ];
    let outcome = aaaa("a.example").resolve(&[some("a.example", AAAA, &circle)]);
    assert_eq!(outcome.code(), OptRcode::SERVFAIL);
    assert_eq!(outcome.answer.origin, Origin::Failed);
}

#[test]
fn cname_chain_without_end_over_many_replies_fails() {
    let name = |n: usize| format!("{n}.example");
    let step = |n: usize| {
        let alias = rr(&name(n), CNAME, 60, &wire_name(&name(n + 1)));
        some(&name(n), AAAA, &[alias])
    };
    // The seventeenth step exceeds the limit.
    let outcome = aaaa("0.example").resolve(&(0..17).map(step).collect::<Vec<_>>());
    assert_eq!(outcome.code(), OptRcode::SERVFAIL);
}

#[test]
fn dname_chain_is_part_of_the_answer() {
    let chain = [
        rr("old.example", DNAME, 60, &wire_name("new.example")),
        rr("h1.old.example", CNAME, 60, &wire_name("h1.new.example")),
    ];
    let denied = reply(
        "h1.old.example",
        AAAA,
        0,
        [&chain, &[soa("example", 3600, 3600)], &[]],
    );
    let address = rr("h1.new.example", A, 300, &v4("192.0.2.1"));
    let found = [&chain[..], &[address]].concat();
    let outcome =
        aaaa("h1.old.example").resolve(&[Some(denied), some("h1.old.example", A, &found)]);
    assert_eq!(
        outcome.answers(),
        [
            "old.example. 60 39 new.example.",
            "h1.old.example. 60 5 h1.new.example.",
            "h1.new.example. 300 28 2001:db8:64::c000:201",
        ]
    );
}

#[test]
fn dname_without_its_cname_gets_one() {
    let dname = rr("old.example", DNAME, 60, &wire_name("new.example"));
    let address = rr("h1.new.example", A, 300, &v4("192.0.2.1"));
    let outcome = aaaa("h1.old.example").resolve(&[
        none("h1.old.example", AAAA),
        some("h1.old.example", A, &[dname, address]),
    ]);
    assert_eq!(outcome.answers()[1], "h1.old.example. 60 5 h1.new.example.");
    assert_eq!(outcome.answers().len(), 3);
}

#[test]
fn cname_chain_to_nothing_is_part_of_the_denial() {
    let alias = rr("www.example", CNAME, 60, &wire_name("h3.example"));
    let outcome = aaaa("www.example").resolve(&[
        code("www.example", AAAA, 4),
        some("www.example", A, &[alias]),
        none("h3.example", A),
    ]);
    assert_eq!(outcome.answers(), ["www.example. 60 5 h3.example."]);
    assert_eq!(outcome.section(Section::Authority).len(), 1);
    assert_eq!(outcome.code(), OptRcode::NOERROR);
}

#[test]
fn cname_chain_is_there_once_after_a_timeout() {
    let alias = || rr("www.example", CNAME, 60, &wire_name("h1.example"));
    let outcome = aaaa("www.example").resolve(&[
        some("www.example", AAAA, &[alias()]),
        None,
        some("www.example", A, &[alias()]),
        h1_a(),
    ]);
    assert_eq!(outcome.answers(), ["www.example. 60 5 h1.example.", H1]);
}
