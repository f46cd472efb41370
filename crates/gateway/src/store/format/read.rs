// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a state from bytes, and checks that they are one.

use std::io::Read;
use std::net::Ipv6Addr;
use std::time::Duration;

use diolkos_nat64::config::{Binding, Protocol};
use diolkos_nat64::session::{SessionState, SessionView};
use ipnet::Ipv6Net;

use super::super::moment::Moment;
use super::fields::{Fields, BINDING};
use super::head::{Head, CLEAN, NAT64, OUTDATED, SESSION};
use super::malformed::{Malformed, VERSION};
use super::section::{self, Section, END, MOMENT, OPERATOR, POOL, SESSIONS};

/// Reads a state: first the bindings, then the sessions. Do not rely on its entries before [`StateReader::session`] has
/// returned the end of the state: read a state twice, and use nothing the first time ([`verify`]).
pub struct StateReader<R: Read> {
    input: R,
    /// The section that is being read.
    section: Section,
    at: usize,
    prefixes: usize,
    bindings: u32,
    sessions: u32,
}

impl<R: Read> StateReader<R> {
    /// Reads the head. `input` should be buffered.
    pub fn new(mut input: R) -> Result<(StateReader<R>, Head), Malformed> {
        let beginning = section::beginning(&mut input)?;
        if beginning.version != VERSION {
            return Err(Malformed::Version(beginning.version));
        }
        if beginning.kind != NAT64 {
            return Err(Malformed::Corrupted("it is not that of a NAT64"));
        }
        let clean = match section::array(&mut input)? {
            [CLEAN] => true,
            [OUTDATED] => false,
            _ => return Err(Malformed::Corrupted("it is neither clean nor outdated")),
        };
        let secret = secret(&expect(&mut input, POOL)?)?;
        let (moment, pref64) = moment(&expect(&mut input, MOMENT)?)?;
        let mut reader = StateReader {
            section: next(&mut input)?,
            input,
            at: 0,
            prefixes: pref64.len(),
            bindings: 0,
            sessions: 0,
        };
        if reader.section.name == OPERATOR {
            reader.at = size_of_entry(&reader.section.body)?;
        }
        let head = Head {
            moment,
            clean,
            secret,
            pref64,
        };
        Ok((reader, head))
    }

    /// Returns the next binding that the operator made at run time; None after the last.
    pub fn binding(&mut self) -> Result<Option<Binding>, Malformed> {
        while self.section.name == OPERATOR {
            if let Some(bytes) = self.section.body.get(self.at..).filter(|b| !b.is_empty()) {
                let mut fields = Fields(bytes);
                let binding = fields.binding()?;
                self.at += BINDING;
                self.bindings = self.bindings.saturating_add(1);
                return Ok(Some(binding));
            }
            self.section = next(&mut self.input)?;
            self.at = match self.section.name {
                OPERATOR => size_of_entry(&self.section.body)?,
                _ => 0,
            };
        }
        Ok(None)
    }

    /// Returns the next session, with its binding; None after the last, if the state is as it was written. Read the
    /// bindings first.
    pub fn session(&mut self) -> Result<Option<SessionView>, Malformed> {
        while self.section.name == SESSIONS {
            if let Some(bytes) = self.section.body.get(self.at..).filter(|b| !b.is_empty()) {
                let view = session(&mut Fields(bytes), self.prefixes)?;
                self.at += SESSION;
                self.sessions = self.sessions.saturating_add(1);
                return Ok(Some(view));
            }
            (self.section, self.at) = (next(&mut self.input)?, 0);
        }
        self.end().map(|()| None)
    }

    fn end(&mut self) -> Result<(), Malformed> {
        if self.section.name != END {
            return Err(Malformed::Corrupted("a section is out of place"));
        }
        let mut counts = Fields(&self.section.body);
        if [counts.u32()?, counts.u32()?] != [self.bindings, self.sessions] {
            return Err(Malformed::Corrupted("entries are missing"));
        }
        counts.end()?;
        match section::array::<1>(&mut self.input) {
            Err(Malformed::Truncated) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Malformed::Corrupted("something follows its end")),
        }
    }
}

/// Reads a state to its end; fails unless it is whole.
pub fn verify(input: impl Read) -> Result<Head, Malformed> {
    let (mut reader, head) = StateReader::new(input)?;
    while reader.binding()?.is_some() {}
    while reader.session()?.is_some() {}
    Ok(head)
}

/// Returns the pool's secret, in every version.
pub(super) fn secret(section: &Section) -> Result<[u64; 2], Malformed> {
    let mut fields = Fields(&section.body);
    let secret = [fields.u64()?, fields.u64()?];
    fields.end()?;
    Ok(secret)
}

fn moment(section: &Section) -> Result<(Moment, Vec<Ipv6Net>), Malformed> {
    let mut fields = Fields(&section.body);
    let moment = Moment {
        boot: u128::from_le_bytes(fields.array()?),
        since_boot: Duration::from_nanos(fields.u64()?),
        wall: Duration::from_nanos(fields.u64()?),
    };
    let mut pref64 = Vec::new();
    for _ in 0..fields.u16()? {
        let network = Ipv6Addr::from(fields.array::<16>()?);
        let [bits] = fields.array()?;
        let prefix = Ipv6Net::new(network, bits).ok();
        let prefix = prefix.filter(|prefix| prefix.network() == network);
        pref64.push(prefix.ok_or(Malformed::Corrupted("a prefix that is none"))?);
    }
    fields.end()?;
    Ok((moment, pref64))
}

fn session(fields: &mut Fields<'_>, prefixes: usize) -> Result<SessionView, Malformed> {
    let [state, prefix] = fields.array()?;
    let state = SessionState::ALL.get(usize::from(state));
    let state = *state.ok_or(Malformed::Corrupted("an unknown state"))?;
    if usize::from(prefix) >= prefixes {
        return Err(Malformed::Corrupted("a session with an unknown prefix"));
    }
    let protocol = match state {
        SessionState::Udp => Protocol::Udp,
        SessionState::Icmp => Protocol::Icmp,
        _ => Protocol::Tcp,
    };
    let (v6, v4, peer) = (fields.v6()?, fields.v4()?, fields.v4()?);
    Ok(SessionView {
        binding: Binding { protocol, v4, v6 },
        peer,
        prefix,
        state,
        remaining: Duration::from_millis(u64::from(fields.u32()?)),
    })
}

/// Returns the offset at which the entries begin, from the size of an entry.
fn size_of_entry(body: &[u8]) -> Result<usize, Malformed> {
    match usize::from(Fields(body).u16()?) {
        BINDING => Ok(2),
        _ => Err(Malformed::Corrupted("a binding of another size")),
    }
}

fn next(input: &mut impl Read) -> Result<Section, Malformed> {
    let section = section::take(input)?;
    match section.is_whole {
        true => Ok(section),
        false => Err(Malformed::Corrupted("a section has a wrong checksum")),
    }
}

fn expect(input: &mut impl Read, name: section::Name) -> Result<Section, Malformed> {
    let section = next(input)?;
    match section.name == name {
        true => Ok(section),
        false => Err(Malformed::Corrupted("a section is out of place")),
    }
}
