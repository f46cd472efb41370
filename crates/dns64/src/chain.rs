// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows chains of CNAME and DNAME records (RFC 6147 section 5.1.5).

use domain::base::{RelativeName, ToName};
use domain::rdata::Cname;

use crate::build::Builder;
use crate::wire::{Class, Malformed, Message, Name, Record, Rtype, Section};

/// Maximum length of a chain; a longer one counts as a loop.
pub const LONGEST_CHAIN: usize = 16;

/// The error for a chain that is a loop or cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endless;

impl From<Malformed> for Endless {
    fn from(_: Malformed) -> Endless {
        Endless
    }
}

/// One step of a chain, with the records that go into the answer.
#[derive(Debug)]
enum Link<'m> {
    Record(&'m Record),
    /// The CNAME record that a DNAME implies, if upstream has left it out (RFC 6672 section 3.1).
    Implied {
        owner: Name,
        ttl: u32,
        target: Name,
    },
}

/// The steps within one message, and their end.
#[derive(Debug)]
pub struct Chain<'m> {
    message: &'m Message<'m>,
    links: Vec<Link<'m>>,
    /// The name after the last step, or the first name if there is no step.
    pub end: Name,
    /// Number of steps taken.
    pub length: usize,
    /// The smallest TTL of the records of the chain, in seconds.
    pub ttl: u32,
}

impl<'m> Chain<'m> {
    /// Follows the answer section from a name, after `taken` steps in earlier messages.
    pub fn follow(message: &'m Message<'m>, from: &Name, taken: usize) -> Result<Self, Endless> {
        let mut chain = Chain {
            message,
            links: Vec::new(),
            end: from.clone(),
            length: 0,
            ttl: u32::MAX,
        };
        while let Some(target) = chain.step()? {
            chain.length += 1;
            if taken + chain.length > LONGEST_CHAIN {
                return Err(Endless);
            }
            chain.end = target;
        }
        Ok(chain)
    }

    fn step(&mut self) -> Result<Option<Name>, Endless> {
        let here = self.end.clone();
        let answers = || self.message.section(Section::Answer);
        let dname = answers()
            .find(|r| r.rtype == Rtype::DNAME && r.name != here && here.ends_with(&r.name));
        let cname = answers().find(|r| r.rtype == Rtype::CNAME && r.name == here);
        if let Some(dname) = dname {
            self.take(dname);
        }
        match (cname, dname) {
            (Some(cname), _) => {
                self.take(cname);
                Ok(Some(self.message.target(cname)?))
            }
            (None, Some(dname)) => {
                let target = substitute(&here, &dname.name, &self.message.target(dname)?)?;
                self.links.push(Link::Implied {
                    owner: here,
                    ttl: dname.ttl,
                    target: target.clone(),
                });
                Ok(Some(target))
            }
            (None, None) => Ok(None),
        }
    }

    /// Adds a record, and its signatures if the client requested DNSSEC.
    fn take(&mut self, record: &'m Record) {
        let signs =
            |r: &&Record| r.name == record.name && self.message.covered(r) == Some(record.rtype);
        self.ttl = self.ttl.min(record.ttl);
        self.links.push(Link::Record(record));
        let signatures = self.message.section(Section::Answer).filter(signs);
        self.links.extend(signatures.map(Link::Record));
    }

    /// The records of a type at the end of the chain.
    pub fn at_end(&self, rtype: Rtype) -> impl Iterator<Item = &'m Record> + '_ {
        self.message
            .section(Section::Answer)
            .filter(move |r| r.rtype == rtype && r.class == Class::IN && r.name == self.end)
    }

    /// Adds the records of the chain to an answer.
    pub fn put(&self, builder: &mut Builder) -> Result<(), Malformed> {
        for link in &self.links {
            match link {
                Link::Record(record) => builder.copy(self.message, record)?,
                Link::Implied { owner, ttl, target } => {
                    builder.answer(owner, *ttl, Cname::new(target));
                }
            }
        }
        Ok(())
    }

    /// Returns true if the chain is incomplete, so that its last name has to be queried: there is neither a record of
    /// the requested type nor a denial.
    pub fn is_broken_off(&self, rtype: Rtype) -> bool {
        self.length > 0
            && self.message.negative_ttl().is_none()
            && self.at_end(rtype).next().is_none()
    }
}

/// Replaces the suffix `owner` of a name by `target` (RFC 6672 section 2.2).
fn substitute(name: &Name, owner: &Name, target: &Name) -> Result<Name, Endless> {
    let kept: RelativeName<_> = name.clone().strip_suffix(owner).map_err(|_| Endless)?;
    let replaced = kept.chain(target).map_err(|_| Endless)?;
    Ok(replaced.to_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{name, reply, rr};

    fn follow(records: &[Vec<u8>], from: &str) -> Result<(String, usize), Endless> {
        let bytes = reply("a.example", 28, 0, [records, &[], &[]]);
        let message = Message::parse(&bytes).expect("it is a message");
        let chain = Chain::follow(&message, &name(from), 0)?;
        let end = chain.end.fmt_with_dot().to_string();
        Ok((end, chain.length))
    }

    #[test]
    fn records_are_followed_in_any_order() {
        let records = [
            rr("b.example", 5, 60, &name_data("c.example")),
            rr("A.example", 5, 60, &name_data("B.example")),
        ];
        assert_eq!(
            follow(&records, "a.example"),
            Ok(("c.example.".to_owned(), 2))
        );
    }

    #[test]
    fn a_circle_is_endless() {
        let records = [
            rr("a.example", 5, 60, &name_data("b.example")),
            rr("b.example", 5, 60, &name_data("a.example")),
        ];
        assert_eq!(follow(&records, "a.example"), Err(Endless));
    }

    #[test]
    fn a_dname_replaces_the_suffix() {
        let records = [rr("example", 39, 60, &name_data("example.net"))];
        assert_eq!(
            follow(&records, "x.a.example"),
            Ok(("x.a.example.net.".to_owned(), 1))
        );
        // A DNAME does not apply to its own name (RFC 6672 section 2.3).
        assert_eq!(follow(&records, "example"), Ok(("example.".to_owned(), 0)));
    }

    #[test]
    fn a_name_that_grows_too_long_is_endless() {
        let long = [&"x".repeat(60) as &str; 4].join(".");
        let records = [rr("example", 39, 60, &name_data(&long))];
        assert_eq!(
            follow(&records, &format!("{}.example", "y".repeat(60))),
            Err(Endless)
        );
    }

    fn name_data(text: &str) -> Vec<u8> {
        crate::testing::wire_name(text)
    }
}
