// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes as entries, if they are what somebody has written.

use std::hash::Hasher;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_core::session::{SessionState, SessionView};
use ipnet::Ipv6Net;
use siphasher::sip::SipHasher13;

use super::{Entry, Head, Malformed, BINDING, END, MAGIC, NAT64, SESSION, VERSION};
use crate::nat64::store::Moment;

/// Reads a state. What it gives is only to be believed once [`Reader::entry`] has said that this was all: a state is read
/// twice, and nothing is done with it the first time ([`verify`]).
pub struct Reader<R: Read> {
    input: R,
    sum: SipHasher13,
    prefixes: usize,
    bindings: u32,
    sessions: u32,
}

impl<R: Read> Reader<R> {
    /// Reads the head. `input` should have a buffer.
    pub fn new(input: R) -> Result<(Reader<R>, Head), Malformed> {
        let mut reader = Reader {
            input,
            sum: SipHasher13::new(),
            prefixes: 0,
            bindings: 0,
            sessions: 0,
        };
        match reader.array() {
            Ok(magic) if magic == *MAGIC => {}
            Ok(_) | Err(Malformed::Truncated) => return Err(Malformed::Foreign),
            Err(error) => return Err(error),
        }
        match reader.u32()? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        if reader.u32()? != NAT64 {
            return Err(Malformed::Corrupted("it is not that of a NAT64"));
        }
        let boot = u128::from_le_bytes(reader.array()?);
        let mut time = || Ok(Duration::from_nanos(u64::from_le_bytes(reader.array()?)));
        let (since_boot, wall) = (time()?, time()?);
        let clean = match reader.array()? {
            [clean @ (0 | 1)] => clean == 1,
            _ => return Err(Malformed::Corrupted("neither clean nor not")),
        };
        let mut secret = [0; 4];
        for word in &mut secret {
            *word = u64::from_le_bytes(reader.array()?);
        }
        let prefixes = u16::from_le_bytes(reader.array()?);
        let mut pref64 = Vec::new();
        for _ in 0..prefixes {
            let network = Ipv6Addr::from(reader.array::<16>()?);
            let [bits] = reader.array()?;
            let prefix = Ipv6Net::new(network, bits).ok();
            let prefix = prefix.filter(|prefix| prefix.network() == network);
            pref64.push(prefix.ok_or(Malformed::Corrupted("a prefix that is none"))?);
        }
        reader.prefixes = pref64.len();
        let moment = Moment {
            boot,
            since_boot,
            wall,
        };
        let head = Head {
            moment,
            clean,
            secret,
            pref64,
        };
        Ok((reader, head))
    }

    /// The next entry; None if that was all, and all of it is as it was written.
    pub fn entry(&mut self) -> Result<Option<Entry>, Malformed> {
        let [kind] = self.array()?;
        match kind {
            BINDING => {
                let [protocol] = self.array()?;
                let protocol = Protocol::ALL.get(usize::from(protocol));
                let protocol = *protocol.ok_or(Malformed::Corrupted("an unknown protocol"))?;
                let (v6, v4) = (self.v6()?, self.v4()?);
                self.bindings = self.bindings.saturating_add(1);
                Ok(Some(Entry::Binding(Binding { protocol, v4, v6 })))
            }
            SESSION => {
                let [state, prefix] = self.array()?;
                let state = SessionState::ALL.get(usize::from(state));
                let state = *state.ok_or(Malformed::Corrupted("an unknown state"))?;
                if usize::from(prefix) >= self.prefixes {
                    return Err(Malformed::Corrupted("a session with an unknown prefix"));
                }
                let protocol = match state {
                    SessionState::Udp => Protocol::Udp,
                    SessionState::Icmp => Protocol::Icmp,
                    _ => Protocol::Tcp,
                };
                let (v6, v4, peer) = (self.v6()?, self.v4()?, self.v4()?);
                let remaining = Duration::from_millis(u64::from(self.u32()?));
                self.sessions = self.sessions.saturating_add(1);
                Ok(Some(Entry::Session(SessionView {
                    binding: Binding { protocol, v4, v6 },
                    peer,
                    prefix,
                    state,
                    remaining,
                })))
            }
            END => self.end().map(|()| None),
            _ => Err(Malformed::Corrupted("an unknown kind of entry")),
        }
    }

    fn end(&mut self) -> Result<(), Malformed> {
        if [self.u32()?, self.u32()?] != [self.bindings, self.sessions] {
            return Err(Malformed::Corrupted("entries are missing"));
        }
        let sum = self.sum.finish();
        if u64::from_le_bytes(self.array()?) != sum {
            return Err(Malformed::Corrupted("its checksum is wrong"));
        }
        match self.array::<1>() {
            Err(Malformed::Truncated) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Malformed::Corrupted("something follows its end")),
        }
    }

    fn v6(&mut self) -> Result<Endpoint6, Malformed> {
        Ok(Endpoint6 {
            addr: Ipv6Addr::from(self.array::<16>()?),
            port: u16::from_be_bytes(self.array()?),
        })
    }

    fn v4(&mut self) -> Result<Endpoint4, Malformed> {
        Ok(Endpoint4 {
            addr: Ipv4Addr::from(self.array::<4>()?),
            port: u16::from_be_bytes(self.array()?),
        })
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut bytes = [0; N];
        match self.input.read_exact(&mut bytes) {
            Ok(()) => {
                self.sum.write(&bytes);
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Malformed::Truncated),
            Err(error) => Err(Malformed::Unreadable(error)),
        }
    }
}

/// Reads a state to its end; fails unless it is whole.
pub fn verify(input: impl Read) -> Result<Head, Malformed> {
    let (mut reader, head) = Reader::new(input)?;
    while reader.entry()?.is_some() {}
    Ok(head)
}
