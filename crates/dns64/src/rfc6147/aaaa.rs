// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which AAAA questions are synthesised, and how (RFC 6147).

use super::*;

// --- 5.1: which questions

#[test]
fn classes_other_than_in_are_passed_on() {
    let chaos = Case {
        class: 3,
        ..aaaa("h1.example")
    };
    let mut empty = reply("h1.example", AAAA, 0, [&[], &[], &[]]);
    let class_at = empty.len() - 1;
    empty[class_at] = 3;
    let outcome = chaos.resolve(&[Some(empty)]);
    assert_eq!(outcome.asked, ["h1.example. AAAA"], "and no A question");
    assert!(outcome.answers().is_empty());
}

// --- 5.1.1: there are AAAA records

#[test]
fn real_aaaa_records_are_untouched() {
    let records = [
        rr("h2.example", AAAA, 77, &v6("2001:db8::2")),
        rr("h2.example", AAAA, 77, &v6("2001:db8::3")),
    ];
    let outcome = aaaa("h2.example").resolve(&[some("h2.example", AAAA, &records)]);
    assert_eq!(outcome.asked, ["h2.example. AAAA"]);
    assert_eq!(
        outcome.answers(),
        [
            "h2.example. 77 28 2001:db8::2",
            "h2.example. 77 28 2001:db8::3"
        ]
    );
    assert_eq!(outcome.answer.origin, Origin::Passed);
}

// --- 5.1.2: the AAAA question ends in an error

#[test]
fn name_error_is_passed_on() {
    let denied = reply(
        "no.example",
        AAAA,
        3,
        [&[], &[soa("example", 3600, 900)], &[]],
    );
    let outcome = aaaa("no.example").resolve(&[Some(denied)]);
    assert_eq!(outcome.code(), OptRcode::NXDOMAIN);
    assert_eq!(outcome.section(Section::Authority).len(), 1);
    assert_eq!(outcome.answer.lifetime, 900);
}

#[test]
fn other_errors_count_as_empty() {
    for rcode in [1, 4, 5] {
        let outcome = aaaa("h1.example").resolve(&[code("h1.example", AAAA, rcode), h1_a()]);
        assert_eq!(outcome.asked, ["h1.example. AAAA", "h1.example. A"]);
        assert_eq!(outcome.answers(), [H1], "RCODE {rcode}");
    }
}

#[test]
fn server_failure_counts_as_empty_if_it_is_none_of_validation() {
    let outcome = aaaa("h1.example").resolve(&[
        code("h1.example", AAAA, 2),
        code("h1.example", AAAA, 2),
        h1_a(),
    ]);
    assert_eq!(
        outcome.asked,
        ["h1.example. AAAA", "h1.example. AAAA +cd", "h1.example. A"]
    );
    assert_eq!(outcome.answers(), [H1]);
}

/// The alternative that an operator may choose: an error is returned as an error, and a timeout as a server failure.
#[test]
fn errors_are_passed_on_where_the_operator_wants_it() {
    let case = Case {
        policy: Policy::new(Rules {
            pref64: vec!["2001:db8:64::/96".parse().expect("a prefix")],
            pass_errors: true,
            ..Rules::default()
        }),
        ..aaaa("h1.example")
    };
    for rcode in [1, 2, 4, 5] {
        let outcome = case.resolve(&[code("h1.example", AAAA, rcode)]);
        assert_eq!(outcome.asked, ["h1.example. AAAA"]);
        assert_eq!(outcome.code().to_int(), u16::from(rcode));
        assert!(outcome.answers().is_empty());
    }
    let outcome = case.resolve(&[None]);
    assert_eq!(outcome.code(), OptRcode::SERVFAIL);
    let outcome = case.resolve(&[none("h1.example", AAAA), h1_a()]);
    assert_eq!(outcome.answers(), [H1], "empty is no error");
    let outcome = case.resolve(&[code("h1.example", AAAA, 3)]);
    assert_eq!(outcome.code(), OptRcode::NXDOMAIN);
}

/// Until the network has announced its prefix, a DNS64 is a plain resolver, for which ipv4only.arpa is not special
/// (RFC 8880 section 7.1).
#[test]
fn without_a_prefix_answers_pass() {
    let case = |qname, qtype| Case {
        policy: Policy::new(Rules {
            pref64: Vec::new(),
            ..Rules::default()
        }),
        qtype,
        ..aaaa(qname)
    };
    let outcome = case("h1.example", AAAA).resolve(&[none("h1.example", AAAA)]);
    assert_eq!(outcome.asked, ["h1.example. AAAA"]);
    assert!(outcome.answers().is_empty());
    for (qname, qtype) in [("ipv4only.arpa", AAAA), (H1_REVERSE, PTR)] {
        let outcome = case(qname, qtype).resolve(&[code(qname, qtype, 3)]);
        assert_eq!(outcome.code(), OptRcode::NXDOMAIN, "{qname}");
    }
}

// --- 5.1.3: no answer

#[test]
fn a_timeout_counts_as_server_failure() {
    let outcome = aaaa("h1.example").resolve(&[None, h1_a()]);
    assert_eq!(outcome.answers(), [H1]);
    let outcome = aaaa("h1.example").resolve(&[None, None]);
    assert_eq!(outcome.code(), OptRcode::SERVFAIL);
}

// --- 5.1.4: excluded addresses

#[test]
fn mapped_addresses_count_as_absent() {
    let records = [rr("h1.example", AAAA, 77, &v6("::ffff:192.0.2.1"))];
    let outcome = aaaa("h1.example").resolve(&[some("h1.example", AAAA, &records), h1_a()]);
    assert_eq!(outcome.answers(), [H1]);
}

#[test]
fn configured_ranges_count_as_absent() {
    let case = Case {
        policy: Policy::new(Rules {
            pref64: vec!["2001:db8:64::/96".parse().expect("a prefix")],
            exclude6: vec!["2001:db8:bad::/48".parse().expect("a prefix")],
            ..Rules::default()
        }),
        ..aaaa("h1.example")
    };
    let records = [rr("h1.example", AAAA, 77, &v6("2001:db8:bad::1"))];
    let outcome = case.resolve(&[some("h1.example", AAAA, &records), h1_a()]);
    assert_eq!(outcome.answers(), [H1]);
}

#[test]
fn excluded_records_are_left_out_beside_others() {
    let records = [
        rr("h2.example", AAAA, 77, &v6("::ffff:192.0.2.1")),
        rr("h2.example", AAAA, 77, &v6("2001:db8::2")),
    ];
    let outcome = aaaa("h2.example").resolve(&[some("h2.example", AAAA, &records)]);
    assert_eq!(outcome.answers(), ["h2.example. 77 28 2001:db8::2"]);
    assert_eq!(outcome.answer.origin, Origin::Filtered);
}

#[test]
fn excluded_records_are_never_returned() {
    let records = [rr("h2.example", AAAA, 77, &v6("::ffff:192.0.2.1"))];
    let outcome =
        aaaa("h2.example").resolve(&[some("h2.example", AAAA, &records), none("h2.example", A)]);
    assert!(outcome.answers().is_empty());
    assert_eq!(outcome.code(), OptRcode::NOERROR);
}

// --- 5.1.6: there are no AAAA records

#[test]
fn a_records_become_aaaa_records() {
    let outcome = aaaa("h1.example").resolve(&[none("h1.example", AAAA), h1_a()]);
    assert_eq!(outcome.asked, ["h1.example. AAAA", "h1.example. A"]);
    assert_eq!(outcome.answers(), [H1], "and no A record");
    assert_eq!(outcome.answer.origin, Origin::Synthesised);
}

#[test]
fn without_a_records_the_answer_is_the_first_one() {
    let denied = reply(
        "h3.example",
        AAAA,
        0,
        [&[], &[soa("example", 3600, 111)], &[]],
    );
    let outcome = aaaa("h3.example").resolve(&[Some(denied), none("h3.example", A)]);
    assert_eq!(outcome.code(), OptRcode::NOERROR);
    assert_eq!(outcome.answers().len(), 0);
    assert_eq!(outcome.answer.lifetime, 111, "of the AAAA question");
}

#[test]
fn an_error_of_the_a_question_is_the_answer() {
    for rcode in [2, 3, 5] {
        let outcome =
            aaaa("h1.example").resolve(&[none("h1.example", AAAA), code("h1.example", A, rcode)]);
        assert_eq!(u16::from(outcome.code()), u16::from(rcode));
    }
}

#[test]
fn an_error_then_no_a_records_is_empty() {
    let outcome = aaaa("h3.example").resolve(&[code("h3.example", AAAA, 4), none("h3.example", A)]);
    assert_eq!(outcome.code(), OptRcode::NOERROR);
    assert_eq!(outcome.section(Section::Authority).len(), 1);
}

// --- 5.1.7: the synthesis

#[test]
fn every_record_and_every_prefix_gives_one() {
    let case = Case {
        policy: Policy::new(Rules {
            pref64: vec![
                "2001:db8:64::/96".parse().expect("a prefix"),
                "2001:db8:122::/48".parse().expect("a prefix"),
            ],
            ..Rules::default()
        }),
        ..aaaa("h1.example")
    };
    let records = [
        rr("h1.example", A, 300, &v4("192.0.2.1")),
        rr("h1.example", A, 300, &v4("192.0.2.33")),
    ];
    let outcome = case.resolve(&[none("h1.example", AAAA), some("h1.example", A, &records)]);
    assert_eq!(
        outcome.answers(),
        [
            "h1.example. 300 28 2001:db8:64::c000:201",
            "h1.example. 300 28 2001:db8:122:c000:2:100::",
            "h1.example. 300 28 2001:db8:64::c000:221",
            "h1.example. 300 28 2001:db8:122:c000:2:2100::",
        ]
    );
}

fn ttl_with(authority: &[Vec<u8>], a_ttl: u32) -> u32 {
    let denied = reply("h1.example", AAAA, 0, [&[], authority, &[]]);
    let found = some(
        "h1.example",
        A,
        &[rr("h1.example", A, a_ttl, &v4("192.0.2.1"))],
    );
    let outcome = aaaa("h1.example").resolve(&[Some(denied), found]);
    let line = outcome.answers().remove(0);
    let ttl = line.split(' ').nth(1).map(str::parse);
    ttl.expect("a TTL").expect("a number")
}

#[test]
fn ttl_is_the_lesser_of_a_and_soa() {
    assert_eq!(ttl_with(&[soa("example", 3600, 3600)], 300), 300);
    assert_eq!(ttl_with(&[soa("example", 120, 3600)], 300), 120);
    assert_eq!(
        ttl_with(&[soa("example", 3600, 60)], 300),
        60,
        "MINIMUM, RFC 2308"
    );
}

#[test]
fn ttl_without_soa_is_at_most_600() {
    assert_eq!(ttl_with(&[], 300), 300);
    assert_eq!(ttl_with(&[], 86400), 600);
}

#[test]
fn ttl_with_the_highest_bit_is_0() {
    assert_eq!(ttl_with(&[], 1 << 31), 0, "RFC 2181 section 8");
}

#[test]
fn the_well_known_prefix_carries_no_private_address() {
    let case = Case {
        policy: Policy::new(Rules::default()),
        ..aaaa("h1.example")
    };
    let private = [rr("h1.example", A, 300, &v4("10.0.0.1"))];
    let outcome = case.resolve(&[none("h1.example", AAAA), some("h1.example", A, &private)]);
    assert!(outcome.answers().is_empty());
    assert_eq!(outcome.code(), OptRcode::NOERROR);
}

#[test]
fn an_error_then_excluded_a_records_is_empty() {
    let case = Case {
        policy: Policy::new(Rules::default()),
        ..aaaa("h1.example")
    };
    let private = [rr("h1.example", A, 300, &v4("10.0.0.1"))];
    let outcome = case.resolve(&[None, some("h1.example", A, &private)]);
    assert_eq!(outcome.code(), OptRcode::NOERROR);
    assert!(outcome.answers().is_empty());
}
