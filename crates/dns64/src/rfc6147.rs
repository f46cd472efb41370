// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The demands of RFC 6147 (and of RFC 2308, 4035, 6672 and 6840 where it leans on them), one test each, in the order
//! of its sections. What is expected stands here as the RFC says it, before any code ran; `CONFORMANCE.md` names the
//! tests.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;

use crate::answer::{Answer, Origin, LONGEST};
use crate::policy::{Policy, Rules};
use crate::query::Query;
use crate::resolution::{Ask, Resolution, Step};
use crate::testing::{bytes, query, reply, rr, soa, wire_name};
use crate::wire::{Message, Question, Section};

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const DNAME: u16 = 39;
const RRSIG: u16 = 46;
const OPT: u16 = 41;

const DO: bool = true;
const CD: bool = true;

fn policy() -> Policy {
    Policy::new(Rules {
        pref64: vec!["2001:db8:64::/96".parse().expect("a prefix")],
        ..Rules::default()
    })
}

/// A client's question through to its answer; upstream gives these replies, one to each question, None for no reply.
struct Case {
    policy: Policy,
    qname: &'static str,
    qtype: u16,
    class: u16,
    dnssec_ok: bool,
    checking_disabled: bool,
}

/// What came out.
struct Outcome {
    /// What upstream was asked: name, type, and `+cd` if CD was set.
    asked: Vec<String>,
    answer: Answer,
    message: Vec<u8>,
}

fn aaaa(qname: &'static str) -> Case {
    Case {
        policy: policy(),
        qname,
        qtype: AAAA,
        class: 1,
        dnssec_ok: false,
        checking_disabled: false,
    }
}

impl Case {
    fn resolve(&self, replies: &[Option<Vec<u8>>]) -> Outcome {
        let flags = if self.checking_disabled {
            0x0110
        } else {
            0x0100
        };
        let mut asking = query(self.qname, self.qtype, flags, Some((4096, self.dnssec_ok)));
        let class_at = 12 + wire_name(self.qname).len() + 2;
        asking[class_at..class_at + 2].copy_from_slice(&self.class.to_be_bytes());
        let asking = Query::parse(&asking).expect("it is a query");
        let (mut resolution, mut step) = Resolution::begin(
            &self.policy,
            asking.question.clone(),
            asking.dnssec_ok(),
            asking.checking_disabled,
        );
        let mut asked = Vec::new();
        let mut replies = replies.iter();
        let answer = loop {
            match step {
                Step::Done(answer) => break answer,
                Step::Ask(ask) => {
                    assert_eq!(ask.dnssec_ok, self.dnssec_ok, "DO goes upstream");
                    asked.push(text_of(&ask));
                    let reply = replies
                        .next()
                        .unwrap_or_else(|| panic!("more is asked than {asked:?}"));
                    let message = reply
                        .as_ref()
                        .map(|bytes| Message::parse(bytes).expect("a message"));
                    step = resolution.reply(&self.policy, message.as_ref());
                }
            }
        };
        assert_eq!(replies.next(), None, "less is asked than expected");
        let mut message = Vec::new();
        answer.write(&asking, 0, LONGEST, 1232, &mut message);
        Outcome {
            asked,
            answer,
            message,
        }
    }
}

fn text_of(ask: &Ask) -> String {
    let Question { name, rtype, .. } = &ask.question;
    let cd = if ask.checking_disabled { " +cd" } else { "" };
    format!("{} {rtype}{cd}", name.to_ascii())
}

impl Outcome {
    fn parsed(&self) -> Message<'_> {
        Message::parse(&self.message).expect("what is answered can be read")
    }

    fn code(&self) -> ResponseCode {
        self.parsed().rcode()
    }

    /// Owner, TTL, type and data of every record of a section.
    fn section(&self, section: Section) -> Vec<String> {
        let message = self.parsed();
        let text = |record: &crate::wire::Record| {
            let data = match record.rtype {
                RecordType::A => message.v4(record).expect("an address").to_string(),
                RecordType::AAAA => message.v6(record).expect("an address").to_string(),
                RecordType::CNAME | RecordType::PTR | RecordType::NS | RecordType::Unknown(39) => {
                    message.target(record).expect("a name").to_ascii()
                }
                _ => format!("{} bytes", record.data.len()),
            };
            let (name, ttl, rtype) = (record.name.to_ascii(), record.ttl, u16::from(record.rtype));
            format!("{name} {ttl} {rtype} {data}")
        };
        message.section(section).map(text).collect()
    }

    fn answers(&self) -> Vec<String> {
        self.section(Section::Answer)
    }

    fn ad(&self) -> bool {
        self.parsed().header.authentic_data()
    }
}

fn v4(text: &str) -> Vec<u8> {
    let address: std::net::Ipv4Addr = text.parse().expect("an address");
    address.octets().to_vec()
}

fn v6(text: &str) -> Vec<u8> {
    let address: std::net::Ipv6Addr = text.parse().expect("an address");
    address.octets().to_vec()
}

/// A reply without records but the SOA record that denies them.
fn none(qname: &str, qtype: u16) -> Option<Vec<u8>> {
    Some(reply(
        qname,
        qtype,
        0,
        [&[], &[soa("example", 3600, 3600)], &[]],
    ))
}

fn some(qname: &str, qtype: u16, answer: &[Vec<u8>]) -> Option<Vec<u8>> {
    Some(reply(qname, qtype, 0, [answer, &[], &[]]))
}

fn code(qname: &str, qtype: u16, code: u8) -> Option<Vec<u8>> {
    Some(reply(qname, qtype, code, [&[], &[], &[]]))
}

fn h1_a() -> Option<Vec<u8>> {
    some(
        "h1.example",
        A,
        &[rr("h1.example", A, 300, &v4("192.0.2.1"))],
    )
}

const H1: &str = "h1.example. 300 28 2001:db8:64::c000:201";

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
    assert_eq!(outcome.code(), ResponseCode::NXDomain);
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

// --- 5.1.3: no answer

#[test]
fn a_timeout_counts_as_server_failure() {
    let outcome = aaaa("h1.example").resolve(&[None, h1_a()]);
    assert_eq!(outcome.answers(), [H1]);
    let outcome = aaaa("h1.example").resolve(&[None, None]);
    assert_eq!(outcome.code(), ResponseCode::ServFail);
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
    assert_eq!(outcome.code(), ResponseCode::NoError);
}

// --- 5.1.5: chains

#[test]
fn cname_chain_is_part_of_the_answer() {
    let alias = rr("www.example", CNAME, 60, &wire_name("h1.example"));
    let denied = reply(
        "www.example",
        AAAA,
        0,
        [&[alias.clone()], &[soa("example", 3600, 3600)], &[]],
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
    assert_eq!(outcome.code(), ResponseCode::ServFail);
    assert_eq!(outcome.answer.origin, Origin::Failed);
}

#[test]
fn cname_chain_without_end_over_many_replies_fails() {
    let name = |n: usize| format!("{n}.example");
    let step = |n: usize| {
        let alias = rr(&name(n), CNAME, 60, &wire_name(&name(n + 1)));
        some(&name(n), AAAA, &[alias])
    };
    // The seventeenth step is one too many.
    let outcome = aaaa("0.example").resolve(&(0..17).map(step).collect::<Vec<_>>());
    assert_eq!(outcome.code(), ResponseCode::ServFail);
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
    assert_eq!(outcome.code(), ResponseCode::NoError);
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
    assert_eq!(outcome.code(), ResponseCode::NoError);
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
    assert_eq!(outcome.code(), ResponseCode::NoError);
}

// --- 5.3.1: PTR

const H1_REVERSE: &str = "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";

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
    assert_eq!(outcome.code(), ResponseCode::NoError);
    let outcome = ptr(H1_REVERSE).resolve(&[code("1.2.0.192.in-addr.arpa", PTR, 3)]);
    assert_eq!(outcome.code(), ResponseCode::NXDomain);
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
    // `example NS ns.example` and an MX record whose names point into the message of upstream.
    let mut found = reply("h1.example", A, 0, [&[], &[], &[]]);
    found[7] = 1; // one answer
    found[9] = 2; // two authorities
    found.extend(bytes("c00c 0001 0001 0000012c 0004 c0000201"));
    found.extend(bytes("c00f 0002 0001 0000012c 0005 02 6e73 c00f"));
    found.extend(bytes("c00f 000f 0001 0000012c 0004 000a c00c"));
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
        let found = reply("h2.example", AAAA, 0, [&[real.clone()], &[], &additional]);
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
    // As A records they fit into 65535 bytes, as AAAA records they do not.
    let outcome = aaaa("h1.example").resolve(&[
        none("h1.example", AAAA),
        some("h1.example", A, &vec![record; 2400]),
    ]);
    assert_eq!(outcome.code(), ResponseCode::ServFail);
}

// --- 5.5: DNSSEC

fn dnssec(dnssec_ok: bool, checking_disabled: bool) -> Case {
    Case {
        dnssec_ok,
        checking_disabled,
        ..aaaa("h1.example")
    }
}

/// The same reply, with AD.
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
        assert_eq!(outcome.code(), ResponseCode::ServFail, "and no A question");
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
