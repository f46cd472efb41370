// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The query for ipv4only.arpa, and the prefixes in its answer (RFC 7050 section 3).
//!
//! The name has two well-known IPv4 addresses and no IPv6 address. If a resolver returns IPv6 addresses, it has
//! synthesised them from the IPv4 addresses and the prefixes of the network.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_dns64::exchange::answers;
use diolkos_dns64::wire::{Name, OptRcode, Rtype, Section};
use diolkos_dns64::{Ask, Message, Question};
use diolkos_xlat::addr::rfc6052::{Pref64, PREFIX_LENGTHS};
use ipnet::Ipv6Net;

use crate::preference::is_usable;

/// The addresses of ipv4only.arpa (RFC 7050 section 8.2).
pub const WELL_KNOWN: [Ipv4Addr; 2] =
    [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// Maximum number of addresses read from an answer, and of prefixes taken from it.
const MOST: usize = 32;

/// The reply of a resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The prefixes of the network in the order of the answer, and their lifetime in seconds.
    Prefixes(Vec<Ipv6Net>, u32),
    /// No prefix can be derived: no such name, no address, or addresses that reveal no prefix. Holds for this number
    /// of seconds, if the resolver gives one.
    Nothing(Option<u32>),
    /// The resolver failed; another one may answer.
    Failed(OptRcode),
    /// The answer does not fit in a datagram.
    Truncated,
}

/// Builds the AAAA query for ipv4only.arpa. CD is not set, because with CD nothing is synthesised (RFC 7050 section
/// 3).
pub fn ask() -> Ask {
    let name = Name::from_octets(b"\x08ipv4only\x04arpa\0".to_vec());
    // Labels of letters always make a valid name.
    let name = name.unwrap_or_else(|_| Name::root_vec());
    Ask {
        question: Question::new_in(name, Rtype::AAAA),
        dnssec_ok: false,
        checking_disabled: false,
    }
}

/// Reads a datagram. None if it is not the answer to [`ask`]; the caller checks address, port and identification.
pub fn read(bytes: &[u8]) -> Option<Reply> {
    let message = Message::parse(bytes).ok()?;
    let ask = ask();
    if !answers(&ask, &message) {
        return None;
    }
    if message.header.tc() {
        return Some(Reply::Truncated);
    }
    match message.rcode() {
        OptRcode::NOERROR => {}
        OptRcode::NXDOMAIN => return Some(Reply::Nothing(message.negative_ttl())),
        failure => return Some(Reply::Failed(failure)),
    }
    let records = message
        .section(Section::Answer)
        .filter(|r| r.rtype == Rtype::AAAA && r.name == ask.question.qname())
        .take(MOST);
    let mut addresses = Vec::new();
    let mut ttl: Option<u32> = None;
    for record in records {
        addresses.extend(message.v6(record).ok());
        ttl = Some(ttl.map_or(record.ttl, |least| least.min(record.ttl)));
    }
    let prefixes = prefixes(&addresses);
    Some(match (prefixes.is_empty(), ttl) {
        (false, Some(ttl)) => Reply::Prefixes(prefixes, ttl),
        (_, ttl) => Reply::Nothing(ttl.or_else(|| message.negative_ttl())),
    })
}

/// Extracts the prefixes from synthesised addresses, in their order.
///
/// A prefix counts if both well-known addresses follow it, each in a separate address, as a DNS64 synthesises them
/// (RFC 6147 section 5.1.7). At least one of the two must occur only once in its address: if the value occurs twice,
/// the end of the prefix is ambiguous (RFC 7050 section 3).
pub fn prefixes(addresses: &[Ipv6Addr]) -> Vec<Ipv6Net> {
    let mut found: Vec<(Ipv6Net, [Evidence; 2])> = Vec::new();
    for &address in addresses {
        for (which, &well_known) in WELL_KNOWN.iter().enumerate() {
            let places = places(address, well_known);
            let evidence = match places.len() {
                1 => Evidence::Clear,
                _ => Evidence::Ambiguous,
            };
            for prefix in places {
                let at = found.iter().position(|(known, _)| *known == prefix);
                let at = at.unwrap_or_else(|| {
                    found.push((prefix, [Evidence::None; 2]));
                    found.len() - 1
                });
                let known = &mut found[at].1[which];
                *known = evidence.max(*known);
            }
        }
    }
    let believed = found.into_iter().filter(|(prefix, evidence)| {
        is_usable(*prefix)
            && !evidence.contains(&Evidence::None)
            && evidence.contains(&Evidence::Clear)
    });
    believed.map(|(prefix, _)| prefix).collect()
}

/// How clearly a well-known address follows a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    None,
    /// The well-known address also occurs elsewhere in the same address.
    Ambiguous,
    Clear,
}

/// The prefixes before each position of RFC 6052 section 2.2 at which an address embeds the IPv4 address.
fn places(address: Ipv6Addr, v4: Ipv4Addr) -> Vec<Ipv6Net> {
    let prefix = |len: &u8| Ipv6Net::new(address, *len).map(|net| net.trunc()).ok();
    PREFIX_LENGTHS
        .iter()
        .filter_map(prefix)
        .filter(|&prefix| Pref64::new(prefix).extract(address) == Some(v4))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(addresses: &[&str]) -> Vec<String> {
        let addresses: Vec<Ipv6Addr> = addresses
            .iter()
            .map(|a| a.parse().expect("an address"))
            .collect();
        let found = prefixes(&addresses);
        found.iter().map(ToString::to_string).collect()
    }

    /// The answer of a DNS64 with these prefixes.
    fn synthesised(prefixes: &[&str]) -> Vec<Ipv6Addr> {
        let embed = |v4: Ipv4Addr| {
            prefixes
                .iter()
                .map(move |p| Pref64::new(p.parse().expect("a prefix")).embed(v4))
        };
        WELL_KNOWN.iter().flat_map(|&v4| embed(v4)).collect()
    }

    #[test]
    fn every_length_is_found() {
        for prefix in [
            "2001:db8::/32",
            "2001:db8:100::/40",
            "2001:db8:122::/48",
            "2001:db8:122:300::/56",
            "2001:db8:122:344::/64",
            "2001:db8:122:344::/96",
            "64:ff9b::/96",
        ] {
            let found = prefixes(&synthesised(&[prefix]));
            assert_eq!(found, [prefix.parse::<Ipv6Net>().expect("a prefix")]);
        }
    }

    #[test]
    fn several_prefixes_in_their_order() {
        let several = ["2001:db8:2::/48", "64:ff9b::/96", "2001:db8:1::/96"];
        let found = prefixes(&synthesised(&several));
        assert_eq!(
            found.iter().map(Ipv6Net::to_string).collect::<Vec<_>>(),
            several
        );
    }

    #[test]
    fn both_well_known_addresses_have_to_be_there() {
        assert_eq!(found(&["64:ff9b::c000:aa"]), [""; 0]);
        assert_eq!(found(&["64:ff9b::c000:ab"]), [""; 0]);
        assert_eq!(found(&["64:ff9b::c000:aa", "64:ff9b::c000:aa"]), [""; 0]);
        let halves = ["64:ff9b::c000:aa", "2001:db8::c000:ab"];
        assert_eq!(found(&halves), [""; 0], "each of another prefix");
        let both = ["64:ff9b::c000:ab", "64:ff9b::c000:aa"];
        assert_eq!(found(&both), ["64:ff9b::/96"], "in any order");
    }

    #[test]
    fn other_addresses_are_no_evidence() {
        assert_eq!(found(&[]), [""; 0]);
        assert_eq!(found(&["2001:db8::1", "2001:db8::2"]), [""; 0]);
        let captive = ["2001:db8::1", "64:ff9b::c000:aa", "64:ff9b::c000:ab"];
        assert_eq!(found(&captive), ["64:ff9b::/96"]);
        // Not at an octet boundary of RFC 6052, and not an address of ipv4only.arpa.
        assert_eq!(
            found(&["64:ff9b::c0:0:aa00", "64:ff9b::c0:0:ab00"]),
            [""; 0]
        );
        assert_eq!(found(&["64:ff9b::c000:ac", "64:ff9b::c000:ad"]), [""; 0]);
    }

    /// RFC 7050 section 3: where one address is ambiguous, the other one decides.
    #[test]
    fn a_prefix_that_looks_like_a_well_known_address() {
        let prefix = "2001:db8:c000:aa::/96";
        let addresses = synthesised(&[prefix]);
        assert_eq!(addresses[0].to_string(), "2001:db8:c000:aa::c000:aa");
        assert_eq!(
            prefixes(&addresses),
            [prefix.parse::<Ipv6Net>().expect("one")]
        );
    }

    #[test]
    fn addresses_that_allow_two_prefixes_are_discarded() {
        // /32 and /96 are both possible, or /64 and /32.
        let two = ["2001:db8:c000:aa::c000:aa", "2001:db8:c000:ab::c000:ab"];
        assert_eq!(found(&two), [""; 0]);
        let two = [
            "2001:db8:c000:aa:c0:0:aa00:0",
            "2001:db8:c000:ab:c0:0:ab00:0",
        ];
        assert_eq!(found(&two), [""; 0]);
        // Ambiguous addresses beside clear ones are ignored.
        let clear = [two[0], "64:ff9b::c000:aa", two[1], "64:ff9b::c000:ab"];
        assert_eq!(found(&clear), ["64:ff9b::/96"]);
    }

    #[test]
    fn prefixes_that_cannot_be_are_no_prefixes() {
        assert_eq!(
            found(&["::ffff:192.0.0.170", "::ffff:192.0.0.171"]),
            [""; 0]
        );
        assert_eq!(found(&["::192.0.0.170", "::192.0.0.171"]), [""; 0]);
        assert_eq!(found(&["ff0e::192.0.0.170", "ff0e::192.0.0.171"]), [""; 0]);
    }

    #[test]
    fn bits_64_to_71_of_a_96_belong_to_the_prefix() {
        let u_octet = ["2001:db8::ff00:0:c000:aa", "2001:db8::ff00:0:c000:ab"];
        assert_eq!(found(&u_octet), ["2001:db8:0:0:ff00::/96"]);
    }

    fn reply(flags: u16, answers: &[(&str, u32)], soa: Option<(u32, u32)>) -> Vec<u8> {
        let name = b"\x08IPV4only\x04arpa\x00";
        let mut out = vec![0x12, 0x34];
        out.extend(flags.to_be_bytes());
        let counts = [1, answers.len() as u16, u16::from(soa.is_some()), 0];
        out.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
        out.extend(name);
        out.extend([0, 28, 0, 1]);
        for (address, ttl) in answers {
            out.extend([0xc0, 12, 0, 28, 0, 1]);
            out.extend(ttl.to_be_bytes());
            out.extend([0, 16]);
            out.extend(address.parse::<Ipv6Addr>().expect("one").octets());
        }
        if let Some((ttl, minimum)) = soa {
            out.extend([0xc0, 12, 0, 6, 0, 1]);
            out.extend(ttl.to_be_bytes());
            out.extend([0, 22, 0, 0]);
            for number in [1, 2, 3, 4, minimum] {
                out.extend(u32::to_be_bytes(number));
            }
        }
        out
    }

    const BOTH: [(&str, u32); 2] = [("64:ff9b::c000:aa", 300), ("64:ff9b::c000:ab", 200)];

    #[test]
    fn the_question_has_cd_cleared() {
        let mut out = Vec::new();
        diolkos_dns64::exchange::write(&ask(), 7, 1232, &mut out);
        assert_eq!(out[3] & 0x10, 0);
        assert_eq!(&out[12..31], b"\x08ipv4only\x04arpa\x00\x00\x1c\x00\x01");
    }

    #[test]
    fn an_answer_reveals_prefixes_for_its_shortest_ttl() {
        let prefix = "64:ff9b::/96".parse().expect("a prefix");
        let expected = Reply::Prefixes(vec![prefix], 200);
        assert_eq!(read(&reply(0x8180, &BOTH, None)), Some(expected));
    }

    #[test]
    fn denials_say_for_how_long() {
        let nothing = |flags, soa| read(&reply(flags, &[], soa));
        assert_eq!(
            nothing(0x8180, Some((600, 120))),
            Some(Reply::Nothing(Some(120)))
        );
        assert_eq!(
            nothing(0x8183, Some((60, 120))),
            Some(Reply::Nothing(Some(60)))
        );
        assert_eq!(nothing(0x8180, None), Some(Reply::Nothing(None)));
        let foreign = read(&reply(0x8180, &[("2001:db8::1", 30)], None));
        assert_eq!(foreign, Some(Reply::Nothing(Some(30))), "a captive portal");
    }

    #[test]
    fn failures_are_no_denials() {
        for (flags, code) in [(0x8182, OptRcode::SERVFAIL), (0x8185, OptRcode::REFUSED)] {
            assert_eq!(read(&reply(flags, &[], None)), Some(Reply::Failed(code)));
        }
        assert_eq!(read(&reply(0x8380, &BOTH, None)), Some(Reply::Truncated));
    }

    #[test]
    fn what_is_not_the_answer_is_nothing() {
        let good = reply(0x8180, &BOTH, None);
        assert_eq!(read(&reply(0x0100, &BOTH, None)), None, "a question");
        for (at, why) in [(13, "another name"), (27, "another type")] {
            let mut other = good.clone();
            other[at] ^= 1;
            assert_eq!(read(&other), None, "{why}");
        }
        for len in 0..good.len() {
            assert_eq!(read(&good[..len]), None, "cut after {len} bytes");
        }
        let mut alias = good.clone();
        alias[33] = 5;
        assert_eq!(
            read(&alias),
            Some(Reply::Nothing(Some(200))),
            "one address is left"
        );
    }
}
