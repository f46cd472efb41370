// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DNS message as it came (RFC 1035 section 4): its header, its question, and where its records stand.
//!
//! Bytes become names and numbers by hickory-proto's decoder, which follows compression pointers backwards only. The
//! data of a record stays in its place until somebody needs it: what a DNS64 does not synthesise it passes on as it
//! came, types that nobody knows yet included (RFC 3597, RFC 6147 section 5.3.3).
//!
//! Messages are written by [`crate::build`] and not by hickory-proto's encoder, whose name compression compares every
//! name with every name before it (RUSTSEC-2026-0119; the version without it needs a newer Rust than ours).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use hickory_proto::op::{Header, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

/// Length of the header, bytes (RFC 1035 section 4.1.1).
pub const HEADER: usize = 12;

/// A message that breaks the rules of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// QNAME; names are equal without regard to case.
    pub name: Name,
    /// QTYPE.
    pub rtype: RecordType,
    /// QCLASS.
    pub class: DNSClass,
}

impl Question {
    /// A question of class IN.
    pub fn internet(name: Name, rtype: RecordType) -> Question {
        Question {
            name,
            rtype,
            class: DNSClass::IN,
        }
    }
}

/// The part of a message in which a record stands (RFC 1035 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What was asked for.
    Answer = 0,
    /// Who knows it, or (SOA) that there is nothing to know.
    Authority = 1,
    /// What may help.
    Additional = 2,
}

/// A record, and where it stands in its message.
#[derive(Clone, Debug)]
pub struct Record {
    /// The section.
    pub section: Section,
    /// Owner.
    pub name: Name,
    /// TYPE.
    pub rtype: RecordType,
    /// CLASS; of an OPT record, its sender's UDP payload size.
    pub class: u16,
    /// Seconds (RFC 2181 section 8); of an OPT record, code, version and flags.
    pub ttl: u32,
    /// Where in the message the record begins.
    pub start: usize,
    /// Where the TTL stands.
    pub ttl_at: usize,
    /// Where the data stands.
    pub data: Range<usize>,
}

/// A message, taken apart.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// The header.
    pub header: Header,
    /// The question. More than one is malformed for every opcode that is answered here (RFC 9619).
    pub question: Option<Question>,
    /// Where the question section ends.
    pub question_end: usize,
    /// All records, in order.
    pub records: Vec<Record>,
}

impl<'a> Message<'a> {
    /// Takes a whole message apart.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut decoder = BinDecoder::new(bytes);
        let header = Header::read(&mut decoder).map_err(|_| Malformed)?;
        let question = match header.query_count() {
            0 => None,
            1 => Some(question(&mut decoder)?),
            _ => return Err(Malformed),
        };
        let question_end = decoder.index();
        let counts = [
            (Section::Answer, header.answer_count()),
            (Section::Authority, header.name_server_count()),
            (Section::Additional, header.additional_count()),
        ];
        let mut records = Vec::new();
        for (section, count) in counts {
            for _ in 0..count {
                records.push(record(&mut decoder, section)?);
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

    /// The records of a section, without the OPT record, which belongs to one hop (RFC 6891 section 6.1.1).
    pub fn section(&self, section: Section) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .filter(move |r| r.section == section && r.rtype != RecordType::OPT)
    }

    /// RCODE, with its upper bits from the OPT record (RFC 6891 section 6.1.3).
    pub fn rcode(&self) -> ResponseCode {
        let opt = self.records.iter().find(|r| r.rtype == RecordType::OPT);
        let high = opt.map_or(0, |opt| (opt.ttl >> 24) as u8);
        ResponseCode::from(high, self.header.response_code().low())
    }

    /// The name that is the data of a CNAME, DNAME or PTR record.
    pub fn target(&self, record: &Record) -> Result<Name, Malformed> {
        self.name_at(record.data.start, record.data.end)
            .map(|(name, _)| name)
    }

    /// The name at an offset, which must end by `limit`; and where it ends.
    pub fn name_at(&self, at: usize, limit: usize) -> Result<(Name, usize), Malformed> {
        let mut decoder = BinDecoder::new(&self.bytes[..limit]);
        decoder.read_slice(at).map_err(|_| Malformed)?;
        let name = Name::read(&mut decoder).map_err(|_| Malformed)?;
        Ok((name, decoder.index()))
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
    pub fn covered(&self, record: &Record) -> Option<RecordType> {
        match (record.rtype, self.data(record)) {
            (RecordType::RRSIG, [high, low, ..]) => {
                Some(RecordType::from(u16::from_be_bytes([*high, *low])))
            }
            _ => None,
        }
    }

    /// For how long the answer "there is none" holds, seconds: the SOA record's TTL or its MINIMUM, whichever is less
    /// (RFC 2308 section 5). None without an SOA record.
    pub fn negative_ttl(&self) -> Option<u32> {
        let soa = self
            .section(Section::Authority)
            .find(|r| r.rtype == RecordType::SOA)?;
        let minimum: [u8; 4] = *self.data(soa).last_chunk()?;
        Some(soa.ttl.min(ttl(u32::from_be_bytes(minimum))))
    }

    /// The data of a record as it stands; names in it may be pointers.
    pub fn data(&self, record: &Record) -> &'a [u8] {
        &self.bytes[record.data.clone()]
    }
}

/// Reads the question that comes next.
pub(crate) fn question(decoder: &mut BinDecoder<'_>) -> Result<Question, Malformed> {
    let name = Name::read(decoder).map_err(|_| Malformed)?;
    let rtype = RecordType::from(number(decoder)?);
    let class = DNSClass::from(number(decoder)?);
    Ok(Question { name, rtype, class })
}

/// Reads the record that comes next, but not its data.
pub(crate) fn record(decoder: &mut BinDecoder<'_>, section: Section) -> Result<Record, Malformed> {
    let start = decoder.index();
    let name = Name::read(decoder).map_err(|_| Malformed)?;
    let rtype = RecordType::from(number(decoder)?);
    let class = number(decoder)?;
    let ttl_at = decoder.index();
    let seconds = decoder.read_u32().map_err(|_| Malformed)?.unverified();
    let length = usize::from(number(decoder)?);
    let data = decoder.index()..decoder.index() + length;
    decoder.read_slice(length).map_err(|_| Malformed)?;
    Ok(Record {
        section,
        name,
        rtype,
        class,
        ttl: match rtype {
            RecordType::OPT => seconds,
            _ => ttl(seconds),
        },
        start,
        ttl_at,
        data,
    })
}

fn number(decoder: &mut BinDecoder<'_>) -> Result<u16, Malformed> {
    Ok(decoder.read_u16().map_err(|_| Malformed)?.unverified())
}

/// A TTL with the highest bit set counts as 0 (RFC 2181 section 8).
fn ttl(seconds: u32) -> u32 {
    if seconds >> 31 == 1 {
        0
    } else {
        seconds
    }
}
