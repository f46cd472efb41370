// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the sections of an answer that does not come unchanged from an upstream message.
//!
//! The message builder of the crate `domain` finds compression targets with a hash table, so the time to write grows
//! only linearly with the length.

use domain::base::message_builder::{
    AdditionalBuilder, AnswerBuilder, AuthorityBuilder, HashCompressor, PushError,
};
use domain::base::rdata::ComposeRecordData;
use domain::base::record::ComposeRecord;
use domain::base::wire::Composer;
use domain::base::{MessageBuilder, ToName, UnknownRecordData};

use crate::answer::{Answer, Origin, LONGEST, OPT};
use crate::policy::{Policy, Says};
use crate::wire::{Class, Malformed, Message, OptRcode, Question, Record, Rtype, Section};

/// A message under construction, with the section that receives the next record.
#[derive(Debug)]
enum Open<Target> {
    Answer(AnswerBuilder<Target>),
    Authority(AuthorityBuilder<Target>),
    Additional(AdditionalBuilder<Target>),
}

/// Sections under construction; records must be added in section order.
#[derive(Debug)]
pub struct Builder {
    /// None once the message has become too long.
    open: Option<Open<HashCompressor<Vec<u8>>>>,
}

impl Builder {
    /// Starts the answer to a question.
    pub fn new(question: &Question) -> Builder {
        Builder {
            open: begin(question).map(Open::Answer).ok(),
        }
    }

    /// Adds a copy of a record from its message.
    pub fn copy(&mut self, message: &Message<'_>, record: &Record) -> Result<(), Malformed> {
        let data = whole_data(message, record)?;
        let data = UnknownRecordData::from_octets(record.rtype, data).map_err(|_| Malformed)?;
        self.push(
            record.section,
            (&record.name, record.class, record.ttl, data),
        );
        Ok(())
    }

    /// Adds all records of a section, without the OPT record.
    pub fn copy_section(
        &mut self,
        message: &Message<'_>,
        section: Section,
    ) -> Result<(), Malformed> {
        message
            .section(section)
            .try_for_each(|record| self.copy(message, record))
    }

    /// Adds a record of class IN to the answer section; its TTL is in seconds.
    pub fn answer(&mut self, owner: &impl ToName, ttl: u32, data: impl ComposeRecordData) {
        self.push(Section::Answer, (owner, Class::IN, ttl, data));
    }

    /// Adds a record of class IN to the authority section; its TTL is in seconds.
    pub fn authority(&mut self, owner: &impl ToName, ttl: u32, data: impl ComposeRecordData) {
        self.push(Section::Authority, (owner, Class::IN, ttl, data));
    }

    /// Returns true if there is no record yet.
    pub fn is_empty(&self) -> bool {
        matches!(&self.open, Some(Open::Answer(builder)) if builder.counts().ancount() == 0)
    }

    fn push(&mut self, section: Section, record: impl ComposeRecord) {
        // A record that does not fit makes `finish` return a failure.
        self.open = self
            .open
            .take()
            .and_then(|open| open.push(section, record).ok());
    }

    /// Returns the finished answer.
    pub fn finish(self, policy: &Policy, code: OptRcode, origin: Origin, says: Says) -> Answer {
        let Some(open) = self.open else {
            return Answer::failure();
        };
        let bytes = open.finish();
        Message::parse(&bytes)
            .ok()
            .and_then(|message| Answer::of(policy, &message, code, origin, says))
            .unwrap_or_else(Answer::failure)
    }
}

fn begin(question: &Question) -> Result<AnswerBuilder<HashCompressor<Vec<u8>>>, PushError> {
    let target = HashCompressor::new(Vec::with_capacity(512));
    let mut builder = MessageBuilder::from_target(target).map_err(|_| PushError::ShortBuf)?;
    // The first length that is refused.
    builder.set_push_limit(LONGEST - OPT + 1);
    let mut builder = builder.question();
    builder.push(question)?;
    Ok(builder.answer())
}

impl<Target: Composer> Open<Target> {
    fn push(self, section: Section, record: impl ComposeRecord) -> Result<Self, PushError> {
        let mut open = match (self, section) {
            (Open::Answer(builder), Section::Authority) => Open::Authority(builder.authority()),
            (Open::Answer(builder), Section::Additional) => Open::Additional(builder.additional()),
            (Open::Authority(builder), Section::Additional) => {
                Open::Additional(builder.additional())
            }
            (open, _) => open,
        };
        match &mut open {
            Open::Answer(builder) => builder.push(record)?,
            Open::Authority(builder) => builder.push(record)?,
            Open::Additional(builder) => builder.push(record)?,
        }
        Ok(open)
    }
}

impl Open<HashCompressor<Vec<u8>>> {
    fn finish(self) -> Vec<u8> {
        match self {
            Open::Answer(builder) => builder.finish(),
            Open::Authority(builder) => builder.finish(),
            Open::Additional(builder) => builder.finish(),
        }
        .into_target()
    }
}

/// The data of a record, with full names instead of compression pointers.
fn whole_data(message: &Message<'_>, record: &Record) -> Result<Vec<u8>, Malformed> {
    let data = message.data(record);
    let (fixed, names) = names_in(record.rtype);
    if names == 0 {
        return Ok(data.to_vec());
    }
    let mut whole = data.get(..fixed).ok_or(Malformed)?.to_vec();
    let mut from = record.data.start + fixed;
    for _ in 0..names {
        let (name, end) = message.name_at(from, record.data.end)?;
        whole.extend_from_slice(name.as_slice());
        from = end;
    }
    whole.extend_from_slice(&message.bytes[from..record.data.end]);
    Ok(whole)
}

/// The position of names that may be compressed in the data of a record: the number of bytes before them, and their
/// number (RFC 1035 section 3.3, and RFC 3597 section 4 for types that early software compressed).
fn names_in(rtype: Rtype) -> (usize, usize) {
    match rtype.to_int() {
        2..=5 | 7..=9 | 12 | 39 => (0, 1), // NS MD MF CNAME MB MG MR PTR DNAME
        6 | 14 | 17 => (0, 2),             // SOA MINFO RP
        15 | 18 | 21 | 36 => (2, 1),       // MX AFSDB RT KX
        33 => (6, 1),                      // SRV
        26 => (2, 2),                      // PX
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rules;
    use crate::query::Query;
    use crate::testing::{name, query, reply, rr};
    use domain::rdata::Aaaa;
    use std::net::Ipv6Addr;

    #[test]
    fn names_beyond_the_reach_of_a_pointer_can_be_read() {
        let asking = query("h.example", 28, 0x0100, None);
        let asking = Query::parse(&asking).expect("it is a query");
        let mut builder = Builder::new(&asking.question());
        let owners = |number: usize| name(&format!("h{}.example", number / 2));
        for number in 0..1600 {
            builder.answer(&owners(number), 60, Aaaa::new(Ipv6Addr::LOCALHOST));
        }
        let policy = Policy::new(Rules::default());
        let answer = builder.finish(&policy, OptRcode::NOERROR, Origin::Local, Says::There);
        let mut out = Vec::new();
        answer.write(&asking, 0, LONGEST, 1232, &mut out);
        assert!(out.len() > 3 << 14, "a pointer has 14 bits");
        let message = Message::parse(&out).expect("it can be read");
        assert_eq!(message.records.len(), 1600);
        for (number, record) in message.records.iter().enumerate() {
            assert_eq!(record.name, owners(number));
        }
    }

    /// A message of 65535 bytes with compressed names can exceed the longest message once the names are written in
    /// full.
    #[test]
    fn what_grows_too_long_is_a_failure() {
        let long = "x".repeat(60) + "." + &"y".repeat(60) + "." + &"z".repeat(60);
        // An SOA record whose two names point to the name in the question.
        let mut data = vec![0xc0, 12, 0xc0, 12];
        data.extend(vec![0; 65_000]);
        let bytes = reply(&long, 28, 0, [&[], &[rr(".", 6, 60, &data)], &[]]);
        let message = Message::parse(&bytes).expect("it is a message");
        let mut builder = Builder::new(message.question.as_ref().expect("a question"));
        builder
            .copy_section(&message, Section::Authority)
            .expect("its names can be read");
        let policy = Policy::new(Rules::default());
        let says = Says::Nothing(None);
        let answer = builder.finish(&policy, OptRcode::NOERROR, Origin::Passed, says);
        assert_eq!(answer.code, OptRcode::SERVFAIL);

        data.extend(vec![0; 300]);
        let bytes = reply(&long, 28, 0, [&[], &[rr(".", 6, 60, &data)], &[]]);
        assert!(bytes.len() <= LONGEST);
        let message = Message::parse(&bytes).expect("it is a message");
        let mut builder = Builder::new(message.question.as_ref().expect("a question"));
        let copied = builder.copy_section(&message, Section::Authority);
        assert_eq!(copied, Err(Malformed), "longer than any data");
    }
}
