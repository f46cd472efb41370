// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DNSSEC, and the cache lifetime of answers (RFC 6147).

use super::*;

// --- 5.5: DNSSEC

fn dnssec(dnssec_ok: bool, checking_disabled: bool) -> Case {
    Case {
        dnssec_ok,
        checking_disabled,
        ..aaaa("h1.example")
    }
}

/// Sets AD in a reply.
fn validated(reply: Option<Vec<u8>>) -> Option<Vec<u8>> {
    reply.map(|mut bytes| {
        bytes[3] |= 0x20;
        bytes
    })
}

#[test]
fn cd_and_do_mean_no_synthesis() {
    let outcome = dnssec(DO, CD).resolve(&[none("h1.example", AAAA)]);
    assert_eq!(outcome.asked, ["h1.example. AAAA +cd"]);
    assert!(outcome.answers().is_empty());
    let reverse = Case {
        qtype: PTR,
        qname: H1_REVERSE,
        ..dnssec(DO, CD)
    };
    let outcome = reverse.resolve(&[code(H1_REVERSE, PTR, 3)]);
    assert_eq!(outcome.asked, [format!("{H1_REVERSE}. PTR +cd")]);
}

#[test]
fn cd_or_do_alone_allow_synthesis() {
    let outcome = dnssec(DO, false).resolve(&[none("h1.example", AAAA), h1_a()]);
    assert_eq!(outcome.answers(), [H1]);
    let outcome = dnssec(false, CD).resolve(&[none("h1.example", AAAA), h1_a()]);
    assert_eq!(outcome.answers(), [H1]);
    assert_eq!(outcome.asked, ["h1.example. AAAA +cd", "h1.example. A +cd"]);
}

#[test]
fn synthetic_records_are_not_authentic() {
    let outcome =
        dnssec(DO, false).resolve(&[validated(none("h1.example", AAAA)), validated(h1_a())]);
    assert!(!outcome.ad());
    let real = some(
        "h1.example",
        AAAA,
        &[rr("h1.example", AAAA, 77, &v6("2001:db8::2"))],
    );
    let outcome = dnssec(DO, false).resolve(&[validated(real)]);
    assert!(outcome.ad(), "what is passed on stays so");
}

#[test]
fn ad_is_not_set_for_who_does_not_understand_it() {
    let real = some(
        "h1.example",
        AAAA,
        &[rr("h1.example", AAAA, 77, &v6("2001:db8::2"))],
    );
    let outcome = dnssec(false, false).resolve(&[validated(real)]);
    assert!(!outcome.ad());
}

#[test]
fn signatures_of_what_is_gone_are_gone() {
    let signature = |covered: u16| {
        let data = [&covered.to_be_bytes()[..], &[8, 2, 0, 0, 0, 60, 1, 2, 3]].concat();
        rr("h1.example", RRSIG, 300, &data)
    };
    let chain = rr("www.example", CNAME, 60, &wire_name("h1.example"));
    let mut over_chain = signature(CNAME);
    over_chain.splice(0..wire_name("h1.example").len(), wire_name("www.example"));
    let found = [chain, over_chain, h1_record(), signature(A)];
    let case = Case {
        qname: "www.example",
        ..dnssec(DO, false)
    };
    let outcome = case.resolve(&[none("www.example", AAAA), some("www.example", A, &found)]);
    let answers = outcome.answers();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(
        answers[1].starts_with("www.example. 300 46 "),
        "that of the CNAME record stays"
    );
    assert_eq!(answers[2], H1);
}

fn h1_record() -> Vec<u8> {
    rr("h1.example", A, 300, &v4("192.0.2.1"))
}

#[test]
fn a_denial_that_does_not_validate_is_a_failure() {
    for dnssec_ok in [false, DO] {
        let outcome = dnssec(dnssec_ok, false)
            .resolve(&[code("h1.example", AAAA, 2), none("h1.example", AAAA)]);
        assert_eq!(outcome.asked, ["h1.example. AAAA", "h1.example. AAAA +cd"]);
        assert_eq!(outcome.code(), OptRcode::SERVFAIL, "and no A question");
    }
}

// --- RFC 2308: for how long an answer is kept

#[test]
fn synthetic_answers_are_kept_for_their_ttl() {
    let outcome = aaaa("h1.example").resolve(&[none("h1.example", AAAA), h1_a()]);
    assert_eq!(outcome.answer.lifetime, 300);
}

#[test]
fn denials_without_soa_are_not_kept() {
    let empty = || some("h3.example", AAAA, &[]);
    let outcome = aaaa("h3.example").resolve(&[empty(), some("h3.example", A, &[])]);
    assert_eq!(outcome.answer.lifetime, 0);
}

#[test]
fn failures_are_kept_for_seconds() {
    let outcome = aaaa("h1.example").resolve(&[None, None]);
    assert_eq!(outcome.answer.lifetime, 5, "RFC 9520 section 3.2");
}
