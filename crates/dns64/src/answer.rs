// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An answer as it is cached, and as it is sent to each client.
//!
//! The cached bytes exclude header, question and OPT record, which differ between clients. To send an answer, they are
//! copied and their TTLs are reduced by its age.

use domain::base::opt::OptHeader;
use domain::base::{Header, HeaderSection};

use crate::policy::{Policy, Says};
use crate::query::{Edns, Query, Refusal};
use crate::wire::{Message, OptRcode, Record, Rtype, HEADER};

/// Length in bytes of an OPT record without options (RFC 6891 section 6.1.2).
pub(crate) const OPT: usize = size_of::<OptHeader>() + size_of::<u16>();
/// Length in bytes of the longest message over TCP (RFC 1035 section 4.2.2).
pub const LONGEST: usize = 65535;

/// The origin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From upstream, unchanged.
    Passed,
    /// From upstream, without excluded AAAA records (RFC 6147 section 5.1.4).
    Filtered,
    /// AAAA records synthesised from A records (RFC 6147 section 5.1.7), or the CNAME record of a PTR query (section
    /// 5.3.1).
    Synthesised,
    /// From this server alone (RFC 8880).
    Local,
    /// There is no usable answer.
    Failed,
}

/// The age of an answer and the bound on its TTLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Seconds since the answer was made.
    pub seconds: u32,
    /// Maximum TTL of its records in seconds, from now.
    pub most_ttl: u32,
}

impl From<u32> for Age {
    fn from(seconds: u32) -> Age {
        Age {
            seconds,
            most_ttl: u32::MAX,
        }
    }
}

/// An answer to a question, for all clients.
#[derive(Clone, Debug)]
pub struct Answer {
    /// RCODE.
    pub code: OptRcode,
    /// Its origin.
    pub origin: Origin,
    /// Seconds for which it may be cached; 0: not at all.
    pub lifetime: u32,
    /// AA: this server is authoritative.
    pub(crate) authoritative: bool,
    /// AD: upstream has validated all of it, and nothing was changed here.
    pub(crate) authentic: bool,
    /// Number of records in each section.
    pub(crate) counts: [u16; 3],
    /// The bytes of the sections, after header and question.
    pub(crate) sections: Box<[u8]>,
    /// Offsets of the TTLs in `sections`.
    pub(crate) ttls: Box<[u16]>,
}

impl Answer {
    /// Creates an answer without records.
    pub fn empty(code: OptRcode, origin: Origin, lifetime: u32) -> Answer {
        Answer {
            code,
            origin,
            lifetime,
            authoritative: false,
            authentic: false,
            counts: [0; 3],
            sections: Box::default(),
            ttls: Box::default(),
        }
    }

    /// Copies the records of a message, which must be a reply to the same question. None if its OPT record stands
    /// before other records, so that they cannot be copied in one piece.
    pub(crate) fn copy(policy: &Policy, message: &Message<'_>, says: Says) -> Option<Answer> {
        let answer = Answer::of(policy, message, message.rcode(), Origin::Passed, says)?;
        Some(Answer {
            authentic: message.header.ad(),
            ..answer
        })
    }

    /// Like [`Answer::copy`], with another code and origin.
    pub(crate) fn of(
        policy: &Policy,
        message: &Message<'_>,
        code: OptRcode,
        origin: Origin,
        says: Says,
    ) -> Option<Answer> {
        let is_opt = |record: &Record| record.rtype == Rtype::OPT;
        let kept = message.records.iter().take_while(|r| !is_opt(r)).count();
        let (kept, rest) = message.records.split_at(kept);
        if !rest.iter().all(is_opt) {
            return None;
        }
        let from = message.question_end;
        let to = kept.last().map_or(from, |record| record.data.end);
        let mut counts = [0; 3];
        let mut ttls = Vec::with_capacity(kept.len());
        for record in kept {
            counts[record.section as usize] += 1;
            ttls.push(u16::try_from(record.ttl_at - from).ok()?);
        }
        let least = kept.iter().map(|record| record.ttl).min();
        Some(Answer {
            counts,
            sections: message.bytes[from..to].into(),
            ttls: ttls.into(),
            ..Answer::empty(code, origin, policy.lifetime(code, says, least))
        })
    }

    /// The answer if there is no usable one: SERVFAIL.
    pub fn failure() -> Answer {
        Answer::empty(
            OptRcode::SERVFAIL,
            Origin::Failed,
            crate::policy::FAILURE_LIFETIME,
        )
    }

    /// Memory for caching it, in bytes.
    pub fn weight(&self) -> usize {
        size_of::<Answer>() + self.sections.len() + size_of_val::<[u16]>(&self.ttls)
    }

    /// Writes the answer for a client. An answer longer than `limit` bytes is left out entirely, and TC tells the
    /// client to retry over TCP (RFC 2181 section 9). `udp_size` is the longest datagram in bytes that this server
    /// accepts.
    pub fn write(
        &self,
        query: &Query,
        age: impl Into<Age>,
        limit: usize,
        udp_size: u16,
        out: &mut Vec<u8>,
    ) {
        let age = age.into();
        let opt = if query.edns.is_some() { OPT } else { 0 };
        let whole = HEADER + query.question_bytes().len() + self.sections.len() + opt;
        let fits = whole <= limit;
        let counts = if fits { self.counts } else { [0; 3] };
        // Without an OPT record, there is no room for the upper bits of a code.
        let code = match query.edns {
            None if self.code.is_ext() => OptRcode::SERVFAIL,
            _ => self.code,
        };
        let wants_ad = query.dnssec_ok() || query.authentic_data; // RFC 6840 section 5.8
        let mut head = HeaderSection::new();
        let header = head.header_mut();
        header.set_id(query.id);
        header.set_qr(true);
        header.set_aa(self.authoritative);
        header.set_tc(!fits);
        // RD and CD are copied from the query (RFC 1035 section 4.1.1, RFC 4035 section 3.2).
        header.set_rd(query.recursion_desired);
        header.set_ra(true);
        header.set_ad(self.authentic && wants_ad && fits);
        header.set_cd(query.checking_disabled);
        header.set_rcode(code.rcode());
        let [answer, authority, additional] = counts;
        head.counts_mut().set_qdcount(1);
        head.counts_mut().set_ancount(answer);
        head.counts_mut().set_nscount(authority);
        head.counts_mut()
            .set_arcount(additional + u16::from(query.edns.is_some()));
        out.clear();
        out.extend_from_slice(head.as_slice());
        out.extend_from_slice(query.question_bytes());
        if fits {
            let base = out.len();
            out.extend_from_slice(&self.sections);
            for &at in &self.ttls {
                age_ttl(&mut out[base + usize::from(at)..], age);
            }
        }
        if let Some(Edns { dnssec_ok, .. }) = query.edns {
            let mut header = OptHeader::default();
            header.set_udp_payload_size(udp_size);
            header.set_rcode(code);
            header.set_dnssec_ok(dnssec_ok);
            put_opt(out, header);
        }
    }
}

/// Writes the answer to a query that is refused. Returns false if there is none.
pub fn write_refusal(refusal: &Refusal, udp_size: u16, out: &mut Vec<u8>) -> bool {
    match refusal {
        Refusal::Silence => false,
        Refusal::Code(header, code) => {
            out.clear();
            out.extend_from_slice(bare_header(*header, *code).as_slice());
            true
        }
        Refusal::BadVersion(query) => {
            let answer = Answer::empty(OptRcode::BADVERS, Origin::Failed, 0);
            answer.write(query, 0, LONGEST, udp_size, out);
            true
        }
    }
}

fn age_ttl(bytes: &mut [u8], age: Age) {
    if let Some(ttl) = bytes.first_chunk_mut::<4>() {
        let left = u32::from_be_bytes(*ttl).saturating_sub(age.seconds);
        *ttl = left.min(age.most_ttl).to_be_bytes();
    }
}

/// A header only, for a query that cannot be parsed further.
fn bare_header(query: Header, code: OptRcode) -> HeaderSection {
    let mut head = HeaderSection::new();
    let header = head.header_mut();
    header.set_id(query.id());
    header.set_qr(true);
    header.set_opcode(query.opcode());
    header.set_rd(query.rd());
    header.set_rcode(code.rcode());
    head
}

/// An OPT record without options (RFC 6891 section 6.1.2).
fn put_opt(out: &mut Vec<u8>, header: OptHeader) {
    // Writing to memory does not fail.
    let Ok(()) = header.compose(out);
    out.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, query};

    fn asked(flags: u16, edns: Option<(u16, bool)>) -> Query {
        Query::parse(&query("a.Example", 28, flags, edns)).expect("it is a query")
    }

    fn one_record() -> Answer {
        Answer {
            counts: [1, 0, 0],
            sections: bytes("c00c 001c 0001 0000012c 0010 0064ff9b0000000000000000c0000221").into(),
            ttls: [6].into(),
            authentic: true,
            ..Answer::empty(OptRcode::NOERROR, Origin::Passed, 300)
        }
    }

    #[test]
    fn each_client_gets_its_own_case_and_the_age() {
        let mut out = Vec::new();
        one_record().write(&asked(0x0110, None), 100, 512, 1232, &mut out);
        let expected = "1234 8190 0001 0001 0000 0000 01 61 07 4578616d706c65 00 001c 0001 \
             c00c 001c 0001 000000c8 0010 0064ff9b0000000000000000c0000221";
        assert_eq!(out, bytes(expected));
    }

    #[test]
    fn records_hold_no_longer_than_what_they_were_made_with() {
        let ttl = |seconds, most_ttl| {
            let age = Age { seconds, most_ttl };
            let mut out = Vec::new();
            one_record().write(&asked(0x0110, None), age, 512, 1232, &mut out);
            u32::from_be_bytes(out[33..37].try_into().expect("four bytes"))
        };
        assert_eq!([ttl(100, 50), ttl(100, 250), ttl(0, 0)], [50, 200, 0]);
    }

    #[test]
    fn a_client_with_edns_gets_edns_and_with_do_ad() {
        let mut out = Vec::new();
        one_record().write(&asked(0x0100, Some((4096, true))), 0, 1232, 1232, &mut out);
        assert_eq!(out[2..4], bytes("81a0"), "AD");
        assert_eq!(out[10..12], bytes("0001"));
        assert_eq!(out[out.len() - 11..], bytes("00 0029 04d0 00008000 0000"));
    }

    #[test]
    fn ad_is_for_those_who_ask_for_it() {
        let mut out = Vec::new();
        one_record().write(&asked(0x0100, None), 0, 512, 1232, &mut out);
        assert_eq!(out[3] & 0x20, 0);
        one_record().write(&asked(0x0120, None), 0, 512, 1232, &mut out);
        assert_eq!(out[3] & 0x20, 0x20);
    }

    #[test]
    fn what_is_too_long_is_cut_off_whole() {
        let mut out = Vec::new();
        let query = asked(0x0100, Some((512, false)));
        one_record().write(&query, 0, 60, 1232, &mut out);
        assert_eq!(out[2..12], bytes("8380 0001 0000 0000 0001"), "TC, no AD");
        assert_eq!(out.len(), 12 + query.question_bytes().len() + 11);
        one_record().write(&query, 0, 12 + 15 + 28 + 11, 1232, &mut out);
        assert_eq!(out[2], 0x81, "what just fits is sent");
    }

    #[test]
    fn a_code_that_needs_edns_is_a_failure_without() {
        let answer = Answer::empty(OptRcode::masked_from_int(0x13), Origin::Passed, 0);
        let mut out = Vec::new();
        answer.write(&asked(0x0100, None), 0, 512, 1232, &mut out);
        assert_eq!(out[3] & 0xf, 2);
        answer.write(&asked(0x0100, Some((1232, false))), 0, 1232, 1232, &mut out);
        assert_eq!(out[3] & 0xf, 3);
        assert_eq!(out[out.len() - 6], 1);
    }

    #[test]
    fn refusals_have_a_header_or_nothing() {
        let mut out = Vec::new();
        let refused = |bytes: &[u8]| Query::parse(bytes).expect_err("it is none");
        assert!(write_refusal(
            &refused(&bytes("abcd 1100 0000 0000 0000 0000")),
            1232,
            &mut out
        ));
        assert_eq!(
            out,
            bytes("abcd 9104 0000 0000 0000 0000"),
            "opcode 2 is not implemented"
        );
        assert!(!write_refusal(
            &refused(&bytes("abcd 8000 0000 0000 0000 0000")),
            1232,
            &mut out
        ));
        let mut later = query("a", 28, 0x0100, Some((1232, false)));
        let version = later.len() - 5;
        later[version] = 1;
        assert!(write_refusal(&refused(&later), 1232, &mut out));
        assert_eq!(out[3] & 0xf, 0);
        assert_eq!(
            out[out.len() - 6..],
            bytes("01 00 0000 0000"),
            "BADVERS is 16"
        );
    }
}
