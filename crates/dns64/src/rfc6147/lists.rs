// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operator's lists of names: which names are never synthesised, and which always.

use super::*;
use crate::testing::name;

fn listed(never: &[&str], always: &[&str], qname: &'static str) -> Case {
    let names = |list: &[&str]| list.iter().map(|text| name(text)).collect();
    Case {
        policy: Policy::new(Rules {
            pref64: vec!["2001:db8:64::/96".parse().expect("a prefix")],
            never: names(never),
            always: names(always),
            ..Rules::default()
        }),
        ..aaaa(qname)
    }
}

fn real(qname: &str) -> Option<Vec<u8>> {
    some(qname, AAAA, &[rr(qname, AAAA, 77, &v6("2001:db8::2"))])
}

#[test]
fn an_exception_gets_what_upstream_says() {
    let case = listed(&["example"], &[], "h1.example");
    for reply in [none("h1.example", AAAA), code("h1.example", AAAA, 5)] {
        let outcome = case.resolve(&[reply]);
        assert_eq!(outcome.asked, ["h1.example. AAAA"], "and no A question");
        assert!(outcome.answers().is_empty());
        assert_eq!(outcome.answer.origin, Origin::Passed);
    }
    let mapped = [rr("h1.example", AAAA, 77, &v6("::ffff:192.0.2.1"))];
    let outcome = case.resolve(&[some("h1.example", AAAA, &mapped)]);
    assert_eq!(outcome.answers(), ["h1.example. 77 28 ::ffff:192.0.2.1"]);
    let outcome = case.resolve(&[None]);
    assert_eq!(outcome.code(), OptRcode::SERVFAIL);
}

#[test]
fn a_longer_name_is_an_exception_from_the_exception() {
    let case = listed(&["example"], &["h1.example"], "h1.example");
    let outcome = case.resolve(&[real("h1.example"), h1_a()]);
    assert_eq!(outcome.answers(), [H1]);
    let case = listed(&["h1.example"], &["example"], "x.h1.example");
    let outcome = case.resolve(&[none("x.h1.example", AAAA)]);
    assert_eq!(outcome.asked, ["x.h1.example. AAAA"]);
}

#[test]
fn always_is_in_spite_of_real_aaaa_records() {
    let case = listed(&[], &["example"], "h1.example");
    let outcome = case.resolve(&[real("h1.example"), h1_a()]);
    assert_eq!(outcome.asked, ["h1.example. AAAA", "h1.example. A"]);
    assert_eq!(outcome.answers(), [H1]);
    assert_eq!(outcome.answer.origin, Origin::Synthesised);
}

#[test]
fn without_a_records_the_real_ones_count() {
    let case = listed(&[], &["example"], "h1.example");
    let outcome = case.resolve(&[real("h1.example"), none("h1.example", A)]);
    assert_eq!(outcome.answers(), ["h1.example. 77 28 2001:db8::2"]);
    assert_eq!(outcome.answer.origin, Origin::Passed);
    // As everywhere, only those that are not excluded.
    let both = [
        rr("h1.example", AAAA, 77, &v6("::ffff:192.0.2.1")),
        rr("h1.example", AAAA, 77, &v6("2001:db8::2")),
    ];
    let outcome = case.resolve(&[some("h1.example", AAAA, &both), none("h1.example", A)]);
    assert_eq!(outcome.answers(), ["h1.example. 77 28 2001:db8::2"]);
    assert_eq!(outcome.answer.origin, Origin::Filtered);
}

/// RFC 6147 section 5.1.6, as for all other names: nothing is kept that would hide the A records for the life of the AAAA.
#[test]
fn an_error_about_a_records_is_the_answer() {
    let case = listed(&[], &["example"], "h1.example");
    let outcome = case.resolve(&[real("h1.example"), code("h1.example", A, 2)]);
    assert_eq!(outcome.code(), OptRcode::SERVFAIL);
}

/// RFC 6147 section 5.5: the lists do not weaken it.
#[test]
fn a_client_that_validates_gets_no_synthetic_record() {
    let case = Case {
        dnssec_ok: DO,
        checking_disabled: CD,
        ..listed(&[], &["example"], "h1.example")
    };
    let outcome = case.resolve(&[real("h1.example")]);
    assert_eq!(outcome.asked, ["h1.example. AAAA +cd"]);
    assert_eq!(outcome.answers(), ["h1.example. 77 28 2001:db8::2"]);
    let case = listed(&[], &["example"], "h1.example");
    let bogus = [code("h1.example", AAAA, 2), real("h1.example")];
    assert_eq!(case.resolve(&bogus).code(), OptRcode::SERVFAIL);
}

#[test]
fn the_name_that_is_asked_for_decides() {
    let alias = || rr("www.example", CNAME, 60, &wire_name("h1.example.net"));
    let found = [alias(), rr("h1.example.net", A, 300, &v4("192.0.2.1"))];
    let case = listed(&["example.net"], &[], "www.example");
    let outcome = case.resolve(&[none("www.example", AAAA), some("www.example", A, &found)]);
    assert_eq!(outcome.answers().len(), 2, "{:?}", outcome.answers());
    let real = [alias(), rr("h1.example.net", AAAA, 77, &v6("2001:db8::2"))];
    let case = listed(&[], &["example"], "www.example");
    let outcome = case.resolve(&[
        some("www.example", AAAA, &real),
        some("www.example", A, &found),
    ]);
    assert_eq!(outcome.answer.origin, Origin::Synthesised);
}

/// RFC 8880: hosts look for the prefix by this name, whatever the lists say.
#[test]
fn ipv4only_arpa_is_in_no_list() {
    let outcome = listed(&[""], &[], "ipv4only.arpa").resolve(&[]);
    assert_eq!(outcome.answers().len(), 2);
}
