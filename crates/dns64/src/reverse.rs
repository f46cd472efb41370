// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PTR questions below ip6.arpa for synthetic addresses (RFC 6147 section 5.3.1, the second method).
//!
//! The name in ip6.arpa becomes an alias of the name in in-addr.arpa. If that is an alias too (RFC 2317), the answer
//! points to its end, so that the chain does not grow. If that has no PTR record, there is no alias.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use domain::rdata::{Cname, Ptr};

use crate::answer::{Answer, Origin};
use crate::build::Builder;
use crate::chain::Chain;
use crate::policy::{Policy, Says};
use crate::special;
use crate::wire::{Class, Malformed, Message, Name, OptRcode, Question, Rtype, Section};

/// The IPv4 node of a question about a synthetic address. None for other questions.
pub fn node(policy: &Policy, question: &Question) -> Option<Ipv4Addr> {
    if question.qtype() != Rtype::PTR || question.qclass() != Class::IN {
        return None;
    }
    policy.extract(address(question.qname())?)
}

/// The address with this name below ip6.arpa: 32 digits, the last one first (RFC 3596 section 2.5).
fn address(name: &Name) -> Option<Ipv6Addr> {
    const DIGITS: usize = 32;
    const ZONE: &[u8] = b"\x03ip6\x04arpa\0";
    let (digits, zone) = name.as_slice().split_first_chunk::<{ 2 * DIGITS }>()?;
    if !zone.eq_ignore_ascii_case(ZONE) {
        return None;
    }
    let mut bits = 0;
    for (place, label) in digits.chunks_exact(2).enumerate() {
        let &[1, digit] = label else { return None };
        bits |= u128::from(char::from(digit).to_digit(16)?) << (4 * place);
    }
    Some(Ipv6Addr::from_bits(bits))
}

/// The name of an IPv4 node below in-addr.arpa (RFC 1035 section 3.5).
pub fn in_addr(v4: Ipv4Addr) -> Name {
    // Four labels of at most three digits always make a valid name.
    Name::reverse_from_addr(IpAddr::V4(v4)).unwrap_or_else(|_| Name::root_vec())
}

/// The answer about an address of ipv4only.arpa, for which upstream is not queried.
pub fn known(policy: &Policy, question: &Question, v4: Ipv4Addr) -> Option<Answer> {
    let target = special::reverse(v4)?;
    let mut builder = Builder::new(question);
    let in_addr = in_addr(v4);
    let ttl = special::REVERSE_TTL;
    builder.answer(question.qname(), ttl, Cname::new(&in_addr));
    builder.answer(&in_addr, ttl, Ptr::new(target));
    Some(builder.finish(policy, OptRcode::NOERROR, Origin::Local, Says::There))
}

/// Builds the answer from upstream's reply about the name in in-addr.arpa.
pub fn answer(
    policy: &Policy,
    question: &Question,
    message: &Message<'_>,
    chain: &Chain<'_>,
    ttl_before: u32,
) -> Result<Answer, Malformed> {
    let mut builder = Builder::new(question);
    let pointers: Vec<_> = chain.at_end(Rtype::PTR).collect();
    // The SOA record of a denial belongs to in-addr.arpa and says nothing about the requested name.
    let code = message.rcode();
    let says = Says::Nothing(message.negative_ttl());
    let Some(ttl) = pointers.iter().map(|record| record.ttl).min() else {
        return Ok(builder.finish(policy, code, Origin::Synthesised, says));
    };
    let ttl = ttl.min(chain.ttl).min(ttl_before);
    builder.answer(question.qname(), ttl, Cname::new(&chain.end));
    for record in pointers {
        builder.copy(message, record)?;
    }
    let signatures = message
        .section(Section::Answer)
        .filter(|record| record.name == chain.end && message.covered(record) == Some(Rtype::PTR));
    for record in signatures {
        builder.copy(message, record)?;
    }
    Ok(builder.finish(policy, code, Origin::Synthesised, Says::There))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rules;
    use crate::testing::name;

    fn node_of(qname: &str) -> Option<Ipv4Addr> {
        let policy = Policy::new(Rules {
            pref64: vec!["2001:db8:122:344::/64".parse().expect("a prefix")],
            ..Rules::default()
        });
        node(&policy, &Question::new_in(name(qname), Rtype::PTR))
    }

    #[test]
    fn addresses_in_a_prefix_or_the_well_known_one() {
        let node = Some(Ipv4Addr::new(192, 0, 2, 33));
        let well_known = "1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa";
        assert_eq!(node_of(well_known), node);
        assert_eq!(node_of(&well_known.to_uppercase()), node);
        // 2001:db8:122:344:c0:2:2100:: of RFC 6052 section 2.4.
        let of_64 = "0.0.0.0.0.0.1.2.2.0.0.0.0.c.0.0.4.4.3.0.2.2.1.0.8.b.d.0.1.0.0.2.ip6.arpa";
        assert_eq!(node_of(of_64), node);
    }

    #[test]
    fn other_names_are_asked_as_they_are() {
        for other in [
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
            "2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa",
            "1.2.0.192.in-addr.arpa",
            "x.1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa",
            "www.example",
        ] {
            assert_eq!(node_of(other), None, "{other}");
        }
    }
}
