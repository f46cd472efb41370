// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What two nodes say to each other over their connection, as bytes.
//!
//! ```text
//! hello: kind 1 | digests 5 × 8 | status 1 | flag 1, tag 20 (copies of the hearer's bindings that the speaker has)
//! ask: kind 1 | give 1
//! told, given: kind 1 | through 8 (0 if given) | changes
//! end: kind 1 | serial 4 | through 8
//! given back: kind 1
//! beat: kind 1 | status 1 | confirms 1 | engine 8 | epoch 8 | echo 8 | clock 8 | applied 8 | armed 8
//! change, opened: tag 1 | IPv4 address 4 | port 2 | the host's prefix 8 | its interface identifier 8 | its port 2
//! change, closed: tag 1 | IPv4 address 4 | port 2
//! ```
//!
//! The first digest of a hello is the format. **In every format, a connection begins with this kind and these 8 bytes**; what follows them is
//! read only in the hearer's own format. So nodes of two versions can say why they share nothing.
//!
//! Numbers are in network byte order, clocks in nanoseconds. What an address has in common with the one before it in the
//! message is left out: the IPv4 address, both halves of the IPv6 address, or its first one. The glue frames messages. A
//! hearer checks the speaker's certificate, and still reads with care: a message that is not exactly of this form is refused whole.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};

use crate::config::{Digests, FORMAT, MESSAGES};
use crate::Moment;

/// Longest message, bytes.
pub const MAX_BYTES: usize = 32 * 1024;

/// Most changes of a message, whatever their addresses have in common.
pub const MAX_CHANGES: usize = 1000;

const MAX_CHANGE: usize = 25;

const _: () = assert!(9 + MAX_CHANGES * MAX_CHANGE <= MAX_BYTES);

/// Which copies of a node's bindings another node has: those of a snapshot, and all changes since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tag {
    /// The engine that had the owner's record; 0: none.
    pub engine: u64,
    /// Which incarnation of the owner told them.
    pub mark: Mark,
}

/// An incarnation of a node as the engine counts them, and one of the snapshots that it told to another node. Those of an
/// incarnation begin at 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Mark {
    /// The incarnation.
    pub epoch: u64,
    /// The snapshot.
    pub serial: u32,
}

/// What a node says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It does not know yet which of its ports are free.
    Starting,
    /// It opens bindings.
    Serving,
    /// It goes on with its bindings, and wants no new subscribers.
    Draining,
    /// It translates nothing any more.
    Left,
}

const STATUSES: [Status; 4] = [
    Status::Starting,
    Status::Serving,
    Status::Draining,
    Status::Left,
];

/// What became of a binding of the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is there.
    Opened(Binding),
    /// It is not there any more.
    Closed(Protocol, Endpoint4),
}

impl Change {
    /// The port.
    pub fn key(&self) -> (Protocol, Endpoint4) {
        match self {
            Change::Opened(binding) => (binding.protocol, binding.v4),
            Change::Closed(protocol, v4) => (*protocol, *v4),
        }
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The first one in each direction.
    Hello {
        /// Of the speaker's configuration. Of another format, only that is read, and the rest of the hello is as if it said nothing.
        digests: Digests,
        /// What the speaker says of itself.
        status: Status,
        /// The copies of the hearer's bindings that the speaker has.
        holds: Option<Tag>,
    },
    /// The owner, which has lost its state, asks for its bindings (true), or tells to forget them, because they are old.
    Ask(bool),
    /// Bindings and changes of the speaker, of a snapshot or new ones.
    Told {
        /// The last change of the owner that the hearer then knows.
        through: u64,
        /// In their order.
        changes: Vec<Change>,
    },
    /// All of the snapshot has been told.
    End {
        /// Which snapshot of the speaker's incarnation.
        serial: u32,
        /// The last change of the owner that the hearer then knows.
        through: u64,
    },
    /// Bindings of the hearer, of which the speaker has copies.
    Given(Vec<Binding>),
    /// There are no more such copies.
    GivenBack,
    /// Both go on.
    Beat(Beat),
}

/// What two nodes tell each other all the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// What the speaker says of itself.
    pub status: Status,
    /// The speaker has told all its changes.
    pub confirms: bool,
    /// Which engine has the speaker's record; 0: none.
    pub engine: u64,
    /// The speaker's incarnation in that engine.
    pub epoch: u64,
    /// The last reading of the hearer's clock that the speaker has heard.
    pub echo: Moment,
    /// The speaker's clock.
    pub clock: Moment,
    /// The last change of the hearer's bindings that the speaker has applied, after a complete snapshot; 0: none.
    pub applied: u64,
    /// The file for which the speaker is armed (`roll`); 0: none.
    pub armed: u64,
}

const HELLO: u8 = 0;
const ASK: u8 = 1;
const TOLD: u8 = 2;
const END: u8 = 3;
const GIVEN: u8 = 4;
const GIVEN_BACK: u8 = 5;
const BEAT: u8 = 6;
// A change's tag: the protocol's index, and these.
const PROTOCOL: u8 = 0b0011;
const OPENED: u8 = 0b0100;
const SAME_V4: u8 = 0b1000;
const SAME_PREFIX: u8 = 0b1_0000;
const SAME_ADDRESS: u8 = 0b10_0000;

impl Message {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Message::Hello {
                digests,
                status,
                holds,
            } => {
                out.push(HELLO);
                digests
                    .iter()
                    .for_each(|digest| out.extend(digest.to_be_bytes()));
                out.push(*status as u8);
                out.push(holds.is_some().into());
                let tag = holds.unwrap_or_default();
                out.extend(tag.engine.to_be_bytes());
                out.extend(tag.mark.epoch.to_be_bytes());
                out.extend(tag.mark.serial.to_be_bytes());
            }
            Message::Ask(give) => out.extend([ASK, (*give).into()]),
            Message::Told { through, changes } => {
                out.push(TOLD);
                out.extend(through.to_be_bytes());
                write(&mut out, changes.iter().copied());
            }
            Message::End { serial, through } => {
                out.push(END);
                out.extend(serial.to_be_bytes());
                out.extend(through.to_be_bytes());
            }
            Message::Given(bindings) => {
                out.push(GIVEN);
                out.extend([0; 8]);
                write(&mut out, bindings.iter().map(|b| Change::Opened(*b)));
            }
            Message::GivenBack => out.push(GIVEN_BACK),
            Message::Beat(beat) => {
                out.extend([BEAT, beat.status as u8, beat.confirms.into()]);
                let clocks = [beat.echo, beat.clock].map(|clock| clock.as_nanos() as u64);
                let [echo, clock] = clocks;
                let (applied, armed) = (beat.applied, beat.armed);
                let numbers = [beat.engine, beat.epoch, echo, clock, applied, armed];
                numbers.iter().for_each(|n| out.extend(n.to_be_bytes()));
            }
        }
        debug_assert!(out.len() <= MAX_BYTES);
        out
    }

    /// A message of exactly this form; None if it has any other.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let mut rest = Reader(bytes);
        let [kind] = rest.take()?;
        let message = match kind {
            HELLO => {
                let mut digests = Digests::default();
                digests[MESSAGES] = rest.number()?;
                if digests[MESSAGES] != u64::from(FORMAT) {
                    return Some(Message::Hello {
                        digests,
                        status: Status::Starting,
                        holds: None,
                    });
                }
                for digest in &mut digests[MESSAGES + 1..] {
                    *digest = rest.number()?;
                }
                let status = rest.status()?;
                let holds = rest.flag()?;
                let engine = rest.number()?;
                let epoch = rest.number()?;
                let serial = u32::from_be_bytes(rest.take()?);
                let mark = Mark { epoch, serial };
                Message::Hello {
                    digests,
                    status,
                    holds: holds.then_some(Tag { engine, mark }),
                }
            }
            ASK => Message::Ask(rest.flag()?),
            TOLD => Message::Told {
                through: rest.number()?,
                changes: rest.changes()?,
            },
            END => Message::End {
                serial: u32::from_be_bytes(rest.take()?),
                through: rest.number()?,
            },
            GIVEN => {
                let _ = rest.take::<8>()?;
                let opened = |change| match change {
                    Change::Opened(binding) => Some(binding),
                    Change::Closed(..) => None,
                };
                let bindings = rest.changes()?.into_iter().map(opened);
                Message::Given(bindings.collect::<Option<_>>()?)
            }
            GIVEN_BACK => Message::GivenBack,
            BEAT => Message::Beat(Beat {
                status: rest.status()?,
                confirms: rest.flag()?,
                engine: rest.number()?,
                epoch: rest.number()?,
                echo: Duration::from_nanos(rest.number()?),
                clock: Duration::from_nanos(rest.number()?),
                applied: rest.number()?,
                armed: rest.number()?,
            }),
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

fn write(out: &mut Vec<u8>, changes: impl Iterator<Item = Change>) {
    let (mut v4_before, mut v6_before) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    for change in changes {
        let (protocol, v4) = change.key();
        let mut tag = protocol.index() as u8;
        tag |= if v4.addr == v4_before { SAME_V4 } else { 0 };
        // From which octet on the host's address is told.
        let mut from = 0;
        if let Change::Opened(binding) = change {
            let same_prefix = binding.v6.addr.octets()[..8] == v6_before.octets()[..8];
            let (same, octet) = match same_prefix {
                _ if binding.v6.addr == v6_before => (SAME_ADDRESS, 16),
                true => (SAME_PREFIX, 8),
                false => (0, 0),
            };
            tag |= OPENED | same;
            (from, v6_before) = (octet, binding.v6.addr);
        }
        out.push(tag);
        if v4.addr != v4_before {
            out.extend(v4.addr.octets());
            v4_before = v4.addr;
        }
        out.extend(v4.port.to_be_bytes());
        if let Change::Opened(binding) = change {
            out.extend(&binding.v6.addr.octets()[from..]);
            out.extend(binding.v6.port.to_be_bytes());
        }
    }
}

/// Bytes of others, read from the front.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    /// The next `N` bytes; `None` if there are fewer.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn number(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take()?))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn status(&mut self) -> Option<Status> {
        let [status] = self.take()?;
        STATUSES.get(usize::from(status)).copied()
    }

    fn changes(&mut self) -> Option<Vec<Change>> {
        let (mut v4_before, mut v6_before) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
        let mut changes = Vec::new();
        while !self.0.is_empty() {
            if changes.len() == MAX_CHANGES {
                return None;
            }
            let [tag] = self.take()?;
            let protocol = *Protocol::ALL.get(usize::from(tag & PROTOCOL))?;
            if tag & SAME_V4 == 0 {
                v4_before = self.take::<4>()?.into();
            }
            let port = u16::from_be_bytes(self.take()?);
            let v4 = Endpoint4 {
                addr: v4_before,
                port,
            };
            let octets = v6_before.octets();
            match tag & !(PROTOCOL | SAME_V4) {
                0 => {
                    changes.push(Change::Closed(protocol, v4));
                    continue;
                }
                OPENED => v6_before = self.take::<16>()?.into(),
                of if of == OPENED | SAME_PREFIX => {
                    let mut addr = octets;
                    addr[8..].copy_from_slice(&self.take::<8>()?);
                    v6_before = addr.into();
                }
                of if of == OPENED | SAME_ADDRESS => {}
                _ => return None,
            }
            let v6 = Endpoint6 {
                addr: v6_before,
                port: u16::from_be_bytes(self.take()?),
            };
            changes.push(Change::Opened(Binding { protocol, v4, v6 }));
        }
        Some(changes)
    }
}
