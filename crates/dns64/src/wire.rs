// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a DNS message (RFC 1035 section 4): its header, its question, and the positions of its records.
//!
//! The crate `domain` parses names and numbers; it follows compression pointers backwards only, and at most 255 of
//! them. The data of a record is parsed only when needed. A DNS64 passes on all data that it does not synthesise as
//! received, including unknown types (RFC 3597, RFC 6147 section 5.3.3).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use domain::base::name::ParsedName;
use domain::base::record::RecordHeader;
use domain::base::wire::ParseError;
use domain::base::{Header, HeaderCounts, HeaderSection, ToName, Ttl};
use domain::dep::octseq::Parser;

pub use domain::base::iana::{Class, OptRcode, Rtype};

/// Length of the header in bytes (RFC 1035 section 4.1.1).
pub const HEADER: usize = size_of::<HeaderSection>();

/// A name that owns its memory. Comparison ignores case.
pub type Name = domain::base::Name<Vec<u8>>;

/// A question.
pub type Question = domain::base::Question<Name>;

/// The error for a message with a format error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl From<ParseError> for Malformed {
    fn from(_: ParseError) -> Malformed {
        Malformed
    }
}

/// The section of a record (RFC 1035 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The answer to the question.
    Answer = 0,
    /// The authority, or an SOA record that denies existence.
    Authority = 1,
    /// Additional records.
    Additional = 2,
}

/// A record, and its position in its message.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its section.
    pub section: Section,
    /// Owner.
    pub name: Name,
    /// TYPE.
    pub rtype: Rtype,
    /// CLASS; for an OPT record, the sender's UDP payload size.
    pub class: Class,
    /// TTL in seconds (RFC 2181 section 8); for an OPT record, code, version and flags.
    pub ttl: u32,
    /// Offset of the TTL.
    pub ttl_at: usize,
    /// Position of the data.
    pub data: Range<usize>,
}

/// A parsed message.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// The whole message.
    pub bytes: &'a [u8],
    /// Identification, flags and the code.
    pub header: Header,
    /// The question. More than one question is malformed for every opcode that is answered here (RFC 9619).
    pub question: Option<Question>,
    /// Offset of the end of the question section.
    pub question_end: usize,
    /// All records, in order.
    pub records: Vec<Record>,
}

impl<'a> Message<'a> {
    /// Parses a whole message.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut parser = Parser::from_ref(bytes);
        let (header, counts) = header(&mut parser)?;
        let question = match counts.qdcount() {
            0 => None,
            1 => Some(question(&mut parser)?),
            _ => return Err(Malformed),
        };
        let question_end = parser.pos();
        let counts = [
            (Section::Answer, counts.ancount()),
            (Section::Authority, counts.nscount()),
            (Section::Additional, counts.arcount()),
        ];
        let mut records = Vec::new();
        for (section, count) in counts {
            for _ in 0..count {
                records.push(record(&mut parser, section)?);
            }
        }
        Ok(Message {
            bytes,
            header,
            question,
            question_end,
            records,
        })
    }

    /// The records of a section, without the OPT record, which belongs to a single hop (RFC 6891 section 6.1.1).
    pub fn section(&self, section: Section) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .filter(move |r| r.section == section && r.rtype != Rtype::OPT)
    }

    /// RCODE, with its upper bits from the OPT record (RFC 6891 section 6.1.3).
    pub fn rcode(&self) -> OptRcode {
        let opt = self.records.iter().find(|r| r.rtype == Rtype::OPT);
        let high = opt.map_or(0, |opt| (opt.ttl >> 24) as u8);
        OptRcode::from_parts(self.header.rcode(), high)
    }

    /// The name in the data of a CNAME, DNAME or PTR record.
    pub fn target(&self, record: &Record) -> Result<Name, Malformed> {
        self.name_at(record.data.start, record.data.end)
            .map(|(name, _)| name)
    }

    /// The name at an offset, which must end before `limit`, and the offset of its end.
    pub fn name_at(&self, at: usize, limit: usize) -> Result<(Name, usize), Malformed> {
        let mut parser = Parser::with_range(self.bytes, ..limit);
        parser.seek(at).map_err(|_| Malformed)?;
        let name = ParsedName::parse_ref(&mut parser)?.to_name();
        Ok((name, parser.pos()))
    }

    /// The address of an A record.
    pub fn v4(&self, record: &Record) -> Result<Ipv4Addr, Malformed> {
        let data: [u8; 4] = self.data(record).try_into().map_err(|_| Malformed)?;
        Ok(Ipv4Addr::from(data))
    }

    /// The address of an AAAA record.
    pub fn v6(&self, record: &Record) -> Result<Ipv6Addr, Malformed> {
        let data: [u8; 16] = self.data(record).try_into().map_err(|_| Malformed)?;
        Ok(Ipv6Addr::from(data))
    }

    /// The type that an RRSIG record signs (RFC 4034 section 3.1.1).
    pub fn covered(&self, record: &Record) -> Option<Rtype> {
        match (record.rtype, self.data(record)) {
            (Rtype::RRSIG, [high, low, ..]) => Some(u16::from_be_bytes([*high, *low]).into()),
            _ => None,
        }
    }

    /// Seconds for which a denial holds: the smaller of the SOA record's TTL and its MINIMUM (RFC 2308 section 5).
    /// None without an SOA record.
    pub fn negative_ttl(&self) -> Option<u32> {
        let soa = self
            .section(Section::Authority)
            .find(|r| r.rtype == Rtype::SOA)?;
        let minimum: [u8; 4] = *self.data(soa).last_chunk()?;
        Some(soa.ttl.min(ttl(u32::from_be_bytes(minimum))))
    }

    /// The raw data of a record; names in it may be pointers.
    pub fn data(&self, record: &Record) -> &'a [u8] {
        &self.bytes[record.data.clone()]
    }
}

/// Reads the header at the beginning of a message.
pub(crate) fn header(parser: &mut Parser<'_, [u8]>) -> Result<(Header, HeaderCounts), Malformed> {
    let message = domain::base::Message::from_slice(parser.octets_ref()).map_err(|_| Malformed)?;
    parser.advance(HEADER).map_err(|_| Malformed)?;
    Ok((message.header(), message.header_counts()))
}

/// Reads the next question.
fn question(parser: &mut Parser<'_, [u8]>) -> Result<Question, Malformed> {
    let name = ParsedName::parse_ref(parser)?.to_name();
    let (rtype, class) = (Rtype::parse(parser)?, Class::parse(parser)?);
    Ok(Question::new(name, rtype, class))
}

/// Reads the next record, without its data.
pub(crate) fn record(parser: &mut Parser<'_, [u8]>, section: Section) -> Result<Record, Malformed> {
    let head = RecordHeader::parse_ref(parser)?;
    let length = usize::from(head.rdlen());
    let data = parser.pos()..parser.pos() + length;
    parser.advance(length).map_err(|_| Malformed)?;
    let seconds = head.ttl().as_secs();
    Ok(Record {
        section,
        name: head.owner().to_name(),
        rtype: head.rtype(),
        class: head.class(),
        ttl: match head.rtype() {
            Rtype::OPT => seconds,
            _ => ttl(seconds),
        },
        ttl_at: data.start - size_of::<u16>() - usize::from(Ttl::COMPOSE_LEN),
        data,
    })
}

/// A TTL with the highest bit set counts as 0 (RFC 2181 section 8).
fn ttl(seconds: u32) -> u32 {
    if seconds >> 31 == 1 {
        0
    } else {
        seconds
    }
}
