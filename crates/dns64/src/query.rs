// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a client's query, and computes its cache key.

use domain::base::iana::Opcode;
use domain::base::Header;
use domain::dep::octseq::Parser;

use crate::wire::{header, record, Class, Malformed, Name, OptRcode, Question, Rtype, Section};

/// One OPT record and one signature. A resolver needs no other additional records, and each costs time.
const MOST_ADDITIONAL: u16 = 2;
/// Length in bytes of QTYPE and QCLASS.
const NUMBERS: usize = 4;
/// Bytes that a client without EDNS accepts (RFC 1035 section 4.2.1).
pub const CLASSIC_UDP: u16 = 512;

/// The fields of the OPT record of a query (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The longest datagram in bytes that the client accepts; at least 512.
    pub udp_size: u16,
    /// DO: the client wants DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
}

/// A query, with the fields that are copied to its answer.
#[derive(Clone, Debug)]
pub struct Query {
    /// Identification.
    pub id: u16,
    /// RD.
    pub recursion_desired: bool,
    /// CD: the client validates itself (RFC 4035 section 3.2.2).
    pub checking_disabled: bool,
    /// AD: the client requests the AD bit of the answer (RFC 6840 section 5.7).
    pub authentic_data: bool,
    /// The question section as received: a name without pointers, type and class. The client expects its upper and
    /// lower case back.
    question: Box<[u8]>,
    /// The OPT record, if present.
    pub edns: Option<Edns>,
}

/// Why a query is not answered normally.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// No answer: the message is a response, or too short.
    Silence,
    /// An answer with only this header, and the question if it could be parsed.
    Code(Header, OptRcode),
    /// The query has an unknown EDNS version (RFC 6891 section 6.1.3).
    BadVersion(Box<Query>),
}

impl Query {
    /// Parses a query.
    pub fn parse(bytes: &[u8]) -> Result<Query, Refusal> {
        let mut parser = Parser::from_ref(bytes);
        let (header, counts) = header(&mut parser).map_err(|Malformed| Refusal::Silence)?;
        if header.qr() {
            return Err(Refusal::Silence);
        }
        let refuse = |code| Refusal::Code(header, code);
        if header.opcode() != Opcode::QUERY {
            return Err(refuse(OptRcode::NOTIMP));
        }
        if (counts.qdcount(), counts.ancount(), counts.nscount()) != (1, 0, 0)
            || counts.arcount() > MOST_ADDITIONAL
        {
            return Err(refuse(OptRcode::FORMERR));
        }
        let format_error = |_: Malformed| refuse(OptRcode::FORMERR);
        let question = question(&mut parser).map_err(format_error)?;
        let mut edns = None;
        let mut version = 0;
        for _ in 0..counts.arcount() {
            let record = record(&mut parser, Section::Additional).map_err(format_error)?;
            if record.rtype == Rtype::OPT {
                if edns.is_some() || !record.name.is_root() {
                    return Err(refuse(OptRcode::FORMERR));
                }
                version = (record.ttl >> 16) as u8;
                edns = Some(Edns {
                    udp_size: record.class.to_int().max(CLASSIC_UDP),
                    dnssec_ok: record.ttl & DO != 0,
                });
            }
        }
        let query = Query {
            id: header.id(),
            recursion_desired: header.rd(),
            checking_disabled: header.cd(),
            authentic_data: header.ad(),
            question: question.into(),
            edns,
        };
        match version {
            0 => Ok(query),
            _ => Err(Refusal::BadVersion(Box::new(query))),
        }
    }

    /// Returns true if the client requests DNSSEC records.
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }

    /// The question.
    pub fn question(&self) -> Question {
        let (name, _) = self.name_and_numbers();
        // `parse` has checked the name.
        let name = Name::from_octets(name.to_vec()).unwrap_or_else(|_| Name::root_vec());
        Question::new(name, self.rtype(), self.class())
    }

    /// QTYPE.
    pub fn rtype(&self) -> Rtype {
        let (_, [high, low, ..]) = self.name_and_numbers();
        u16::from_be_bytes([high, low]).into()
    }

    /// QCLASS.
    pub fn class(&self) -> Class {
        let (_, [.., high, low]) = self.name_and_numbers();
        u16::from_be_bytes([high, low]).into()
    }

    /// The question section as received.
    pub fn question_bytes(&self) -> &[u8] {
        &self.question
    }

    fn name_and_numbers(&self) -> (&[u8], [u8; 4]) {
        let (name, numbers) = self.question.split_last_chunk().unwrap_or((&[0], &[0; 4]));
        (name, *numbers)
    }

    /// Writes the key that all clients with the same answer share: the question in lower case, DO and CD.
    pub fn key(&self, key: &mut Vec<u8>) {
        // Types and classes are numbers, whose bytes may look like letters.
        let (name, numbers) = self.name_and_numbers();
        key.clear();
        key.extend_from_slice(name);
        // Label lengths are below 64, so they do not look like letters.
        key.make_ascii_lowercase();
        key.extend_from_slice(&numbers);
        key.push(u8::from(self.dnssec_ok()) | u8::from(self.checking_disabled) << 1);
    }

    /// The longest answer in bytes that may be sent to the client over UDP; `most` is the server's own limit.
    pub fn udp_limit(&self, most: u16) -> usize {
        usize::from(
            self.edns
                .map_or(CLASSIC_UDP, |edns| edns.udp_size.min(most)),
        )
    }
}

/// The QTYPE in a key.
pub(crate) fn rtype_of(key: &[u8]) -> Rtype {
    match key {
        [.., high, low, _, _, _] => u16::from_be_bytes([*high, *low]).into(),
        _ => u16::MAX.into(),
    }
}

/// The DO bit in the TTL of an OPT record (RFC 6891 section 6.1.4).
pub(crate) const DO: u32 = 1 << 15;

/// Reads the next question. No name stands before it to which its name could point.
fn question<'a>(parser: &mut Parser<'a, [u8]>) -> Result<&'a [u8], Malformed> {
    let start = parser.pos();
    // This type has no compression, so its parser refuses pointers.
    domain::base::Name::<&[u8]>::parse(parser)?;
    parser.advance(NUMBERS).map_err(|_| Malformed)?;
    Ok(&parser.octets_ref()[start..parser.pos()])
}

/// Length in bytes of a question without compression.
pub(crate) fn written_length(question: &Question) -> usize {
    question.qname().len() + NUMBERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, query};

    #[test]
    fn a_query_is_read() {
        let query = Query::parse(&query("wWw.example.COM", 28, 0x0110, Some((1400, true))))
            .expect("it is a query");
        assert_eq!((query.id, query.recursion_desired), (0x1234, true));
        assert!(query.checking_disabled && query.dnssec_ok());
        assert_eq!(query.rtype(), Rtype::AAAA);
        assert_eq!(query.class(), Class::IN);
        assert_eq!(query.udp_limit(1232), 1232);
        let mut key = Vec::new();
        query.key(&mut key);
        assert_eq!(key, b"\x03www\x07example\x03com\x00\x00\x1c\x00\x01\x03");
    }

    #[test]
    fn case_is_for_the_name_only() {
        // Type 65, the letter A, is HTTPS (RFC 9460); type 97 is another one.
        let (mut upper, mut lower) = (Vec::new(), Vec::new());
        Query::parse(&query("a", 65, 0x0100, None))
            .expect("a query")
            .key(&mut upper);
        Query::parse(&query("A", 97, 0x0100, None))
            .expect("a query")
            .key(&mut lower);
        assert_ne!(upper, lower);
    }

    #[test]
    fn sizes_below_512_are_512() {
        let query = Query::parse(&query("a", 28, 0x0100, Some((100, false)))).expect("a query");
        assert_eq!(query.udp_limit(1232), 512);
    }

    fn code(bytes: &[u8]) -> Option<OptRcode> {
        match Query::parse(bytes) {
            Err(Refusal::Code(_, code)) => Some(code),
            Err(Refusal::BadVersion(_)) => Some(OptRcode::BADVERS),
            Err(Refusal::Silence) => None,
            Ok(_) => Some(OptRcode::NOERROR),
        }
    }

    #[test]
    fn what_is_no_query_is_refused() {
        let good = query("a", 28, 0x0100, None);
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            bad
        };
        assert_eq!(code(&good), Some(OptRcode::NOERROR));
        assert_eq!(code(&good[..11]), None, "too short for a header");
        assert_eq!(code(&with(2, 0x81)), None, "a response");
        assert_eq!(
            code(&with(2, 0x11)),
            Some(OptRcode::NOTIMP),
            "opcode STATUS"
        );
        for (at, byte, why) in [
            (5, 0, "no question"),
            (5, 2, "two questions"),
            (7, 1, "an answer"),
            (9, 1, "an authority"),
            (11, 1, "an additional record that is not there"),
            (11, 9, "many additional records"),
            (12, 0xc0, "a pointer without a goal"),
            (12, 40, "a label beyond the end"),
        ] {
            assert_eq!(code(&with(at, byte)), Some(OptRcode::FORMERR), "{why}");
        }
        let pointing = bytes("1234 0100 0001 0000 0000 0000 c004 001c 0001");
        assert_eq!(
            code(&pointing),
            Some(OptRcode::FORMERR),
            "a name in the header"
        );
    }

    #[test]
    fn one_opt_record_of_version_0() {
        let mut later = query("a", 28, 0x0100, Some((1232, false)));
        let version = later.len() - 5;
        later[version] = 1;
        assert_eq!(code(&later), Some(OptRcode::BADVERS));
        let mut two = query("a", 28, 0x0100, Some((1232, false)));
        two.extend(bytes("00 0029 04d0 00000000 0000"));
        two[11] = 2;
        assert_eq!(code(&two), Some(OptRcode::FORMERR));
    }
}
