// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ipv4only.arpa, with which hosts discover the prefixes (RFC 7050). This server is authoritative for it and its two
//! reverse names, and never queries upstream for them. RFC 8880 section 7.1 demands this for the name; section 7.2
//! leaves the reverse names to the libraries of hosts, and section 7.2.1 has servers answer those of synthetic
//! addresses.

use std::net::Ipv4Addr;

use domain::base::{Serial, Ttl};
use domain::rdata::{Aaaa, Ptr, Soa, A};

use crate::answer::{Answer, Origin};
use crate::build::Builder;
use crate::policy::{Policy, Says};
use crate::wire::{Class, OptRcode, Question, Rtype};

/// The addresses of ipv4only.arpa (RFC 7050 section 8.2).
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// TTL of existing records in seconds, as in the public zone.
const TTL: u32 = 86400;
/// TTL of a denial, and thus of synthetic records, in seconds (RFC 6303 section 3).
const DENIAL: u32 = 10800;

/// A name in this file, in wire format.
type Known = domain::base::Name<&'static [u8]>;

/// A zone for which this server is authoritative.
#[derive(Clone, Copy)]
enum Zone {
    Ipv4only,
    Reverse,
}

/// Each zone and its apex.
const ZONES: [(Zone, &[u8]); 3] = [
    (Zone::Ipv4only, IPV4ONLY),
    (
        Zone::Reverse,
        b"\x03170\x010\x010\x03192\x07in-addr\x04arpa\0",
    ),
    (
        Zone::Reverse,
        b"\x03171\x010\x010\x03192\x07in-addr\x04arpa\0",
    ),
];
const IPV4ONLY: &[u8] = b"\x08ipv4only\x04arpa\0";

/// Returns the answer if the question is about these names or names below them.
pub fn answer(policy: &Policy, question: &Question, synthesis: bool) -> Option<Answer> {
    if question.qclass() != Class::IN {
        return None;
    }
    let (zone, apex) = zone_of(question)?;
    let mut builder = Builder::new(question);
    if question.qname() != &apex {
        return Some(denial(builder, policy, &apex, OptRcode::NXDOMAIN));
    }
    match (zone, question.qtype()) {
        // The parent zone has to answer this.
        (_, Rtype::DS) => return None,
        (Zone::Ipv4only, Rtype::A) => {
            for v4 in ADDRESSES {
                builder.answer(&apex, TTL, A::new(v4));
            }
        }
        (Zone::Ipv4only, Rtype::AAAA) if synthesis => {
            for v6 in ADDRESSES.iter().flat_map(|&v4| policy.synthesise(v4)) {
                builder.answer(&apex, TTL.min(DENIAL), Aaaa::new(v6));
            }
        }
        (Zone::Reverse, Rtype::PTR) => {
            builder.answer(&apex, TTL, Ptr::new(known(IPV4ONLY)));
        }
        _ => {}
    }
    if builder.is_empty() {
        return Some(denial(builder, policy, &apex, OptRcode::NOERROR));
    }
    let answer = builder.finish(policy, OptRcode::NOERROR, Origin::Local, Says::There);
    Some(Answer {
        authoritative: true,
        ..answer
    })
}

/// The name of an address of ipv4only.arpa.
pub fn reverse(v4: Ipv4Addr) -> Option<Known> {
    ADDRESSES.contains(&v4).then(|| known(IPV4ONLY))
}

/// TTL of the reverse records in seconds.
pub const REVERSE_TTL: u32 = TTL;

fn denial(mut builder: Builder, policy: &Policy, apex: &Known, code: OptRcode) -> Answer {
    // Like an empty zone of RFC 6303 section 3.
    let soa = Soa::new(
        apex.clone(),
        known(b"\x06nobody\x07invalid\0"),
        Serial(1),
        Ttl::from_hours(1),
        Ttl::from_mins(20),
        Ttl::from_days(7),
        Ttl::from_secs(DENIAL),
    );
    builder.authority(apex, DENIAL, soa);
    let answer = builder.finish(policy, code, Origin::Local, Says::Nothing(Some(DENIAL)));
    Answer {
        authoritative: true,
        ..answer
    }
}

/// The zone that contains a name.
fn zone_of(question: &Question) -> Option<(Zone, Known)> {
    let zones = ZONES.map(|(zone, apex)| (zone, known(apex)));
    zones
        .into_iter()
        .find(|(_, apex)| question.qname().ends_with(apex))
}

fn known(name: &'static [u8]) -> Known {
    Known::from_octets(name).unwrap_or_else(|_| Known::root_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rules;
    use crate::testing::{bytes, name, soa};

    fn ask(qname: &str, rtype: Rtype) -> Option<Answer> {
        let policy = Policy::new(Rules {
            pref64: vec![
                "64:ff9b::/96".parse().expect("a prefix"),
                "2001:db8:64::/96".parse().expect("a prefix"),
            ],
            ..Rules::default()
        });
        answer(&policy, &Question::new_in(name(qname), rtype), true)
    }

    #[test]
    fn ipv4only_arpa_a() {
        let answer = ask("IPv4only.ARPA", Rtype::A).expect("it is ours");
        assert!(answer.authoritative);
        assert_eq!(answer.counts, [2, 0, 0]);
        let expected =
            "c00c 0001 0001 00015180 0004 c00000aa c00c 0001 0001 00015180 0004 c00000ab";
        assert_eq!(*answer.sections, bytes(expected));
    }

    #[test]
    fn ipv4only_arpa_aaaa_of_every_prefix() {
        let answer = ask("ipv4only.arpa", Rtype::AAAA).expect("it is ours");
        assert_eq!(answer.counts, [4, 0, 0]);
        // A synthetic record is cached no longer than a denial (RFC 6147 section 5.1.7).
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
        let question = Question::new_in(name("ipv4only.arpa"), Rtype::AAAA);
        let answer = answer(&policy, &question, false).expect("it is ours");
        assert_eq!((answer.code, answer.counts), (OptRcode::NOERROR, [0, 1, 0]));
    }

    #[test]
    fn ipv4only_arpa_other_types_are_empty() {
        let answer = ask("ipv4only.arpa", Rtype::MX).expect("it is ours");
        assert_eq!((answer.code, answer.counts), (OptRcode::NOERROR, [0, 1, 0]));
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
            let answer = ask(below, Rtype::A).expect("it is ours");
            assert_eq!(answer.code, OptRcode::NXDOMAIN, "{below}");
            assert_eq!(answer.counts, [0, 1, 0]);
        }
    }

    #[test]
    fn ipv4only_arpa_reverse() {
        for host in ["170", "171"] {
            let answer =
                ask(&format!("{host}.0.0.192.in-addr.arpa"), Rtype::PTR).expect("it is ours");
            // "arpa" stands in the question, at offset 12 + 4 + 2 + 2 + 4 + 8.
            let expected = "c00c 000c 0001 00015180 000b 08 697076346f6e6c79 c020";
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
            assert!(ask(other, Rtype::PTR).is_none(), "{other}");
        }
        assert!(ask("ipv4only.arpa", Rtype::DS).is_none());
    }
}
