// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ipv4only.arpa, by which hosts find the prefixes (RFC 7050): for it and its two reverse names this server is the
//! authority, and never asks. RFC 8880 section 7.1 demands that for the name; section 7.2 leaves the reverse names to hosts'
//! libraries, and section 7.2.1 has servers answer those of synthetic addresses.

use std::net::Ipv4Addr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, Name, RecordType};

use crate::answer::{Answer, Origin};
use crate::build::Builder;
use crate::policy::{Policy, Says};
use crate::wire::Question;

/// RFC 7050 section 8.2.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// TTL of what is there, seconds, as in the public zone.
const TTL: u32 = 86400;
/// TTL of a denial, and with it of synthetic records, seconds (RFC 6303 section 3).
const DENIAL: u32 = 10800;

/// A name that this server is the authority for.
enum Zone {
    Ipv4only,
    Reverse,
}

/// The answer, if the question is about these names or what lies below them.
pub fn answer(policy: &Policy, question: &Question, synthesis: bool) -> Option<Answer> {
    if question.class != DNSClass::IN {
        return None;
    }
    let (zone, apex) = zone_of(&question.name)?;
    let mut builder = Builder::new(question);
    if question.name != apex {
        return Some(denial(builder, policy, &apex, ResponseCode::NXDomain));
    }
    match (zone, question.rtype) {
        // The parent zone's to say.
        (_, RecordType::DS) => return None,
        (Zone::Ipv4only, RecordType::A) => {
            for v4 in ADDRESSES {
                builder.address4(&apex, TTL, v4);
            }
        }
        (Zone::Ipv4only, RecordType::AAAA) if synthesis => {
            for v6 in ADDRESSES.iter().flat_map(|&v4| policy.synthesise(v4)) {
                builder.address(&apex, TTL.min(DENIAL), v6);
            }
        }
        (Zone::Reverse, RecordType::PTR) => {
            builder.name(&apex, RecordType::PTR, TTL, &ipv4only());
        }
        _ => {}
    }
    if builder.is_empty() {
        return Some(denial(builder, policy, &apex, ResponseCode::NoError));
    }
    let answer = builder.finish(policy, ResponseCode::NoError, Origin::Local, Says::There);
    Some(Answer {
        authoritative: true,
        ..answer
    })
}

/// An address of ipv4only.arpa has this name.
pub fn reverse(v4: Ipv4Addr) -> Option<Name> {
    ADDRESSES.contains(&v4).then(ipv4only)
}

/// TTL of the reverse records, seconds.
pub const REVERSE_TTL: u32 = TTL;

fn denial(mut builder: Builder, policy: &Policy, apex: &Name, code: ResponseCode) -> Answer {
    // As an empty zone of RFC 6303 section 3.
    let nobody = known(&[b"nobody", b"invalid"]);
    builder.authority(
        apex,
        DENIAL,
        apex,
        &nobody,
        [1, 3600, 1200, 604_800, DENIAL],
    );
    let answer = builder.finish(policy, code, Origin::Local, Says::Nothing(Some(DENIAL)));
    Answer {
        authoritative: true,
        ..answer
    }
}

fn zone_of(name: &Name) -> Option<(Zone, Name)> {
    let mut labels = name.iter().rev();
    if !labels.next()?.eq_ignore_ascii_case(b"arpa") {
        return None;
    }
    let below = labels.next()?;
    if below.eq_ignore_ascii_case(b"ipv4only") {
        return Some((Zone::Ipv4only, ipv4only()));
    }
    let reverse: Vec<&[u8]> = labels.take(4).collect();
    let host = match reverse.as_slice() {
        [b"192", b"0", b"0", host @ (b"170" | b"171")] => *host,
        _ => return None,
    };
    let apex: [&[u8]; 6] = [host, b"0", b"0", b"192", b"in-addr", b"arpa"];
    below
        .eq_ignore_ascii_case(b"in-addr")
        .then(|| (Zone::Reverse, known(&apex)))
}

fn ipv4only() -> Name {
    known(&[b"ipv4only", b"arpa"])
}

/// A name that stands in this file.
fn known(labels: &[&[u8]]) -> Name {
    Name::from_labels(labels.iter().copied()).unwrap_or_else(|_| Name::root())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rules;
    use crate::testing::{bytes, name, soa};

    fn ask(qname: &str, rtype: RecordType) -> Option<Answer> {
        let policy = Policy::new(Rules {
            pref64: vec![
                "64:ff9b::/96".parse().expect("a prefix"),
                "2001:db8:64::/96".parse().expect("a prefix"),
            ],
            ..Rules::default()
        });
        answer(&policy, &Question::internet(name(qname), rtype), true)
    }

    #[test]
    fn ipv4only_arpa_a() {
        let answer = ask("IPv4only.ARPA", RecordType::A).expect("it is ours");
        assert!(answer.authoritative);
        assert_eq!(answer.counts, [2, 0, 0]);
        let expected =
            "c00c 0001 0001 00015180 0004 c00000aa c00c 0001 0001 00015180 0004 c00000ab";
        assert_eq!(*answer.sections, bytes(expected));
    }

    #[test]
    fn ipv4only_arpa_aaaa_of_every_prefix() {
        let answer = ask("ipv4only.arpa", RecordType::AAAA).expect("it is ours");
        assert_eq!(answer.counts, [4, 0, 0]);
        // A synthetic record is kept no longer than a denial (RFC 6147 section 5.1.7).
        assert_eq!(answer.lifetime, 10800);
        assert_eq!(answer.sections[6..10], bytes("00002a30"));
        let addresses: Vec<&[u8]> = answer.sections.chunks(28).map(|rr| &rr[12..]).collect();
        assert_eq!(
            addresses,
            [
                bytes("0064ff9b 00000000 00000000 c00000aa"),
                bytes("20010db8 00640000 00000000 c00000aa"),
                bytes("0064ff9b 00000000 00000000 c00000ab"),
                bytes("20010db8 00640000 00000000 c00000ab"),
            ]
        );
    }

    #[test]
    fn ipv4only_arpa_without_synthesis_has_no_aaaa() {
        let policy = Policy::new(Rules::default());
        let question = Question::internet(name("ipv4only.arpa"), RecordType::AAAA);
        let answer = answer(&policy, &question, false).expect("it is ours");
        assert_eq!(
            (answer.code, answer.counts),
            (ResponseCode::NoError, [0, 1, 0])
        );
    }

    #[test]
    fn ipv4only_arpa_other_types_are_empty() {
        let answer = ask("ipv4only.arpa", RecordType::MX).expect("it is ours");
        assert_eq!(
            (answer.code, answer.counts),
            (ResponseCode::NoError, [0, 1, 0])
        );
        assert_eq!(answer.lifetime, DENIAL);
        let mut soa = soa("ipv4only.arpa", DENIAL, DENIAL);
        soa.truncate(crate::testing::wire_name("ipv4only.arpa").len() + 8);
        // The owner is a pointer to the question; type, class and TTL follow.
        assert_eq!(answer.sections[..2], bytes("c00c"));
        assert_eq!(answer.sections[2..10], soa[soa.len() - 8..]);
    }

    #[test]
    fn below_ipv4only_arpa_is_nothing() {
        for below in ["x.ipv4only.arpa", "x.170.0.0.192.in-addr.arpa"] {
            let answer = ask(below, RecordType::A).expect("it is ours");
            assert_eq!(answer.code, ResponseCode::NXDomain, "{below}");
            assert_eq!(answer.counts, [0, 1, 0]);
        }
    }

    #[test]
    fn ipv4only_arpa_reverse() {
        for host in ["170", "171"] {
            let answer =
                ask(&format!("{host}.0.0.192.in-addr.arpa"), RecordType::PTR).expect("it is ours");
            let expected = "c00c 000c 0001 00015180 000f 08 697076346f6e6c79 04 61727061 00";
            assert_eq!(*answer.sections, bytes(expected));
        }
    }

    #[test]
    fn other_names_are_not_ours() {
        for other in [
            "arpa",
            "ipv4only.arpa.example",
            "172.0.0.192.in-addr.arpa",
            "0.0.192.in-addr.arpa",
            "170.0.0.192.ip6.arpa",
            "",
        ] {
            assert!(ask(other, RecordType::PTR).is_none(), "{other}");
        }
        assert!(ask("ipv4only.arpa", RecordType::DS).is_none());
    }
}
