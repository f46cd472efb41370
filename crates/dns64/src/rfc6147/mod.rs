// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requirements of RFC 6147 (and of RFC 2308, 4035, 6672 and 6840 where it refers to them), one test each, in
//! section order. The expected results come from the RFCs, not from running the code. `CONFORMANCE.md` names the
//! tests.

mod aaaa;
mod chains;
mod dnssec;
mod lists;
mod others;

use crate::answer::{Answer, Origin, LONGEST};
use crate::policy::{Policy, Rules};
use crate::query::Query;
use crate::resolution::{Ask, Resolution, ResolutionStep};
use crate::testing::{bytes, query, reply, rr, soa, wire_name};
use crate::wire::{Message, OptRcode, Rtype, Section};

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

/// A client's question and its resolution; upstream gives these replies, one to each question, None for no reply.
struct Case {
    policy: Policy,
    qname: &'static str,
    qtype: u16,
    class: u16,
    dnssec_ok: bool,
    checking_disabled: bool,
}

/// The result of a case.
struct Outcome {
    /// The questions to upstream: name, type, and `+cd` if CD was set.
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
            asking.question(),
            asking.dnssec_ok(),
            asking.checking_disabled,
        );
        let mut asked = Vec::new();
        let mut replies = replies.iter();
        let answer = loop {
            match step {
                ResolutionStep::Done(answer) => break answer,
                ResolutionStep::Ask(ask) => {
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
    let (name, rtype) = (ask.question.qname(), ask.question.qtype());
    let cd = if ask.checking_disabled { " +cd" } else { "" };
    format!("{} {rtype}{cd}", name.fmt_with_dot())
}

impl Outcome {
    fn parsed(&self) -> Message<'_> {
        Message::parse(&self.message).expect("what is answered can be read")
    }

    fn code(&self) -> OptRcode {
        self.parsed().rcode()
    }

    /// Owner, TTL, type and data of every record of a section.
    fn section(&self, section: Section) -> Vec<String> {
        let message = self.parsed();
        let text = |record: &crate::wire::Record| {
            let data = match record.rtype {
                Rtype::A => message.v4(record).expect("an address").to_string(),
                Rtype::AAAA => message.v6(record).expect("an address").to_string(),
                Rtype::CNAME | Rtype::PTR | Rtype::NS | Rtype::DNAME => message
                    .target(record)
                    .expect("a name")
                    .fmt_with_dot()
                    .to_string(),
                _ => format!("{} bytes", record.data.len()),
            };
            let (name, ttl, rtype) = (
                record.name.fmt_with_dot(),
                record.ttl,
                record.rtype.to_int(),
            );
            format!("{name} {ttl} {rtype} {data}")
        };
        message.section(section).map(text).collect()
    }

    fn answers(&self) -> Vec<String> {
        self.section(Section::Answer)
    }

    fn ad(&self) -> bool {
        self.parsed().header.ad()
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

/// A reply whose only record is the SOA record of the denial.
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
/// The reverse name of the address in H1, below ip6.arpa.
const H1_REVERSE: &str = "1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
