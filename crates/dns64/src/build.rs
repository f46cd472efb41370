// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing the sections of an answer that does not stand in a message of upstream's as it is.
//!
//! An owner name that the question or the record before it has is written as a pointer; all other names in full. So
//! writing takes a time that grows with the length alone.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RecordType};

use crate::answer::{Answer, Origin, LONGEST};
use crate::policy::{Policy, Says};
use crate::query::written_length;
use crate::wire::{Malformed, Message, Question, Record, Section, HEADER};

/// Room for the OPT record, bytes.
const OPT: usize = 11;
/// Where a pointer can lead, which has 14 bits (RFC 1035 section 4.1.4).
const FARTHEST: u16 = 0x3fff;
/// Class IN.
const IN: u16 = 1;

/// Sections in the making; records come in the order of the sections.
#[derive(Debug)]
pub struct Builder {
    base: usize,
    /// Owner names that may be pointed to, with their offsets in the message: the question's, the last one's.
    question: Name,
    last: Option<(Name, u16)>,
    sections: Vec<u8>,
    ttls: Vec<u16>,
    counts: [u16; 3],
    least_ttl: Option<u32>,
}

impl Builder {
    /// Begins the answer to a question.
    pub fn new(question: &Question) -> Builder {
        Builder {
            base: HEADER + written_length(question),
            question: question.name.clone(),
            last: None,
            sections: Vec::with_capacity(512),
            ttls: Vec::new(),
            counts: [0; 3],
            least_ttl: None,
        }
    }

    /// A record as it is, from the message in which it stands.
    pub fn copy(&mut self, message: &Message<'_>, record: &Record) -> Result<(), Malformed> {
        let at = self.begin(
            record.section,
            &record.name,
            record.rtype,
            record.class,
            record.ttl,
        );
        let data = message.data(record);
        let (fixed, names) = names_in(record.rtype);
        if names == 0 {
            self.sections.extend_from_slice(data);
        } else {
            self.sections
                .extend_from_slice(data.get(..fixed).ok_or(Malformed)?);
            let mut from = record.data.start + fixed;
            for _ in 0..names {
                let (name, end) = message.name_at(from, record.data.end)?;
                put_name(&mut self.sections, &name);
                from = end;
            }
            self.sections
                .extend_from_slice(&message.bytes[from..record.data.end]);
        }
        self.end(at);
        Ok(())
    }

    /// All records of a section, without the OPT record.
    pub fn copy_section(
        &mut self,
        message: &Message<'_>,
        section: Section,
    ) -> Result<(), Malformed> {
        message
            .section(section)
            .try_for_each(|record| self.copy(message, record))
    }

    /// An AAAA record in the answer section.
    pub fn address(&mut self, owner: &Name, ttl: u32, address: Ipv6Addr) {
        let at = self.begin(Section::Answer, owner, RecordType::AAAA, IN, ttl);
        self.sections.extend_from_slice(&address.octets());
        self.end(at);
    }

    /// An A record in the answer section.
    pub fn address4(&mut self, owner: &Name, ttl: u32, address: Ipv4Addr) {
        let at = self.begin(Section::Answer, owner, RecordType::A, IN, ttl);
        self.sections.extend_from_slice(&address.octets());
        self.end(at);
    }

    /// A CNAME or PTR record in the answer section.
    pub fn name(&mut self, owner: &Name, rtype: RecordType, ttl: u32, target: &Name) {
        let at = self.begin(Section::Answer, owner, rtype, IN, ttl);
        put_name(&mut self.sections, target);
        self.end(at);
    }

    /// An SOA record in the authority section, with the five numbers of RFC 1035 section 3.3.13.
    pub fn authority(
        &mut self,
        owner: &Name,
        ttl: u32,
        mname: &Name,
        rname: &Name,
        numbers: [u32; 5],
    ) {
        let at = self.begin(Section::Authority, owner, RecordType::SOA, IN, ttl);
        put_name(&mut self.sections, mname);
        put_name(&mut self.sections, rname);
        for number in numbers {
            self.sections.extend_from_slice(&number.to_be_bytes());
        }
        self.end(at);
    }

    /// Is there no record yet?
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// The finished answer.
    pub fn finish(self, policy: &Policy, code: ResponseCode, origin: Origin, says: Says) -> Answer {
        if self.base + self.sections.len() + OPT > LONGEST {
            return Answer::failure();
        }
        Answer {
            counts: self.counts,
            sections: self.sections.into(),
            ttls: self.ttls.into(),
            ..Answer::empty(code, origin, policy.lifetime(code, says, self.least_ttl))
        }
    }

    /// Writes what stands in front of the data; the length follows with [`Builder::end`].
    fn begin(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: RecordType,
        class: u16,
        ttl: u32,
    ) -> usize {
        self.counts[section as usize] = self.counts[section as usize].saturating_add(1);
        self.least_ttl = Some(self.least_ttl.map_or(ttl, |least| least.min(ttl)));
        self.owner(owner);
        self.sections
            .extend_from_slice(&u16::from(rtype).to_be_bytes());
        self.sections.extend_from_slice(&class.to_be_bytes());
        // What lies beyond the longest message is never read; `finish` refuses it.
        self.ttls
            .push(u16::try_from(self.sections.len()).unwrap_or(0));
        self.sections.extend_from_slice(&ttl.to_be_bytes());
        self.sections.extend_from_slice(&[0, 0]);
        self.sections.len()
    }

    fn owner(&mut self, owner: &Name) {
        const POINTER: u16 = 0xc000;
        let known = match &self.last {
            _ if *owner == self.question && !owner.is_root() => Some(HEADER as u16),
            Some((name, at)) if name == owner => Some(*at),
            _ => None,
        };
        if let Some(at) = known {
            self.sections
                .extend_from_slice(&(POINTER | at).to_be_bytes());
            return;
        }
        let at = self.base + self.sections.len();
        // To the root a pointer is longer than the name.
        self.last = match u16::try_from(at) {
            Ok(at) if at <= FARTHEST && !owner.is_root() => Some((owner.clone(), at)),
            _ => None,
        };
        put_name(&mut self.sections, owner);
    }

    fn end(&mut self, data_at: usize) {
        let length = self.sections.len() - data_at;
        // Data that grows beyond 65535 bytes makes the message too long, which `finish` refuses.
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        self.sections[data_at - 2..data_at].copy_from_slice(&length.to_be_bytes());
    }
}

/// Names that a message may hold compressed in the data of a record: how many bytes stand before them, and how many
/// they are (RFC 1035 section 3.3, and RFC 3597 section 4 for types that early software compressed).
fn names_in(rtype: RecordType) -> (usize, usize) {
    match u16::from(rtype) {
        2..=5 | 7..=9 | 12 | 39 => (0, 1), // NS MD MF CNAME MB MG MR PTR DNAME
        6 | 14 | 17 => (0, 2),             // SOA MINFO RP
        15 | 18 | 21 | 36 => (2, 1),       // MX AFSDB RT KX
        33 => (6, 1),                      // SRV
        26 => (2, 2),                      // PX
        _ => (0, 0),
    }
}

/// Writes a name in full.
fn put_name(out: &mut Vec<u8>, name: &Name) {
    for label in name.iter() {
        out.push(label.len() as u8); // at most 63
        out.extend_from_slice(label);
    }
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rules;
    use crate::query::Query;
    use crate::testing::{name, query};

    #[test]
    fn names_beyond_the_reach_of_a_pointer_are_written_in_full() {
        let asking = query("h.example", 28, 0x0100, None);
        let asking = Query::parse(&asking).expect("it is a query");
        let mut builder = Builder::new(&asking.question);
        let owners = |number: usize| name(&format!("h{}.example", number / 2));
        for number in 0..1200 {
            builder.address(&owners(number), 60, Ipv6Addr::LOCALHOST);
        }
        let policy = Policy::new(Rules::default());
        let answer = builder.finish(&policy, ResponseCode::NoError, Origin::Local, Says::There);
        let mut out = Vec::new();
        answer.write(&asking, 0, LONGEST, 1232, &mut out);
        assert!(out.len() > 2 * usize::from(FARTHEST));
        let message = Message::parse(&out).expect("it can be read");
        assert_eq!(message.records.len(), 1200);
        for (number, record) in message.records.iter().enumerate() {
            assert_eq!(record.name, owners(number));
        }
    }
}
