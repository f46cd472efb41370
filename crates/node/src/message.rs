// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages that two nodes exchange over their connection, as bytes.
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
//! The first digest of a hello is the format. **In every format, a connection begins with this kind and these 8
//! bytes**; the receiver reads the rest only if it has the same format. So nodes of two versions can report why they
//! share nothing.
//!
//! Numbers are in network byte order, clocks in nanoseconds. What an address has in common with the one before it in
//! the message is omitted: the IPv4 address, both halves of the IPv6 address, or its first half. The connection frames
//! messages. A receiver checks the sender's certificate, and still treats messages as untrusted: one that is not
//! exactly of this form is refused as a whole.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};

use crate::config::{Digests, FORMAT, MESSAGES};
use crate::Moment;

/// Maximum length of a message in bytes.
pub const MAX_BYTES: usize = 32 * 1024;

/// Maximum number of changes in a message, whatever their addresses have in common.
pub const MAX_CHANGES: usize = 1000;

const MAX_CHANGE: usize = 25;

const _: () = assert!(9 + MAX_CHANGES * MAX_CHANGE <= MAX_BYTES);

/// Identifies the copies of a node's bindings that another node has: those of a snapshot, and all changes since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tag {
    /// The engine that had the owner's record; 0: none.
    pub engine: u64,
    /// The incarnation of the owner, and its snapshot.
    pub mark: Mark,
}

/// An incarnation of a node as the engine counts them, and one of the snapshots that it sent to another node. Snapshots
/// of an incarnation are numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Mark {
    /// The incarnation.
    pub epoch: u64,
    /// The snapshot.
    pub serial: u32,
}

/// The state that a node reports of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It does not know yet which of its ports are free.
    Starting,
    /// It opens bindings.
    Serving,
    /// It continues with its bindings, and wants no new subscribers.
    Draining,
    /// It no longer translates.
    Left,
}

const STATUSES: [Status; 4] = [
    Status::Starting,
    Status::Serving,
    Status::Draining,
    Status::Left,
];

/// A change of a binding of the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindingChange {
    /// The binding exists.
    Opened(Binding),
    /// The binding no longer exists.
    Closed(Protocol, Endpoint4),
}

impl BindingChange {
    /// Returns the port.
    pub fn key(&self) -> (Protocol, Endpoint4) {
        match self {
            BindingChange::Opened(binding) => (binding.protocol, binding.v4),
            BindingChange::Closed(protocol, v4) => (*protocol, *v4),
        }
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The first message in each direction.
    Hello {
        /// Digests of the sender's configuration. If the format differs, only that is read, and the rest of the hello
        /// counts as empty.
        digests: Digests,
        /// The sender's state.
        status: Status,
        /// The copies of the receiver's bindings that the sender has.
        holds: Option<Tag>,
    },
    /// The owner, which has lost its state, asks for its bindings (true), or tells the receiver to forget them, because
    /// they are old.
    Ask(bool),
    /// Bindings and changes of the sender, from a snapshot or new ones.
    Told {
        /// The last change of the owner that the receiver then knows.
        through: u64,
        /// The bindings and changes, in order.
        changes: Vec<BindingChange>,
    },
    /// The end of a snapshot.
    End {
        /// The number of the snapshot in the sender's incarnation.
        serial: u32,
        /// The last change of the owner that the receiver then knows.
        through: u64,
    },
    /// Bindings of the receiver of which the sender has copies.
    Given(Vec<Binding>),
    /// The end of such copies.
    GivenBack,
    /// The regular exchange of state.
    Beat(Beat),
}

/// The state that two nodes regularly send to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// The sender's state.
    pub status: Status,
    /// True if the sender has sent all its changes.
    pub confirms: bool,
    /// The engine that has the sender's record; 0: none.
    pub engine: u64,
    /// The sender's incarnation in that engine.
    pub epoch: u64,
    /// The last reading of the receiver's clock that the sender has received.
    pub echo: Moment,
    /// The sender's clock.
    pub clock: Moment,
    /// The last change of the receiver's bindings that the sender has applied, after a complete snapshot; 0: none.
    pub applied: u64,
    /// The file for which the sender is armed (`roll`); 0: none.
    pub armed: u64,
}

const HELLO: u8 = 0;
const ASK: u8 = 1;
const TOLD: u8 = 2;
const END: u8 = 3;
const GIVEN: u8 = 4;
const GIVEN_BACK: u8 = 5;
const BEAT: u8 = 6;
// The tag of a change: the protocol's index, and these.
const PROTOCOL: u8 = 0b0011;
const OPENED: u8 = 0b0100;
const SAME_V4: u8 = 0b1000;
const SAME_PREFIX: u8 = 0b1_0000;
const SAME_ADDRESS: u8 = 0b10_0000;

impl Message {
    /// Encodes the message.
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
                write(&mut out, bindings.iter().map(|b| BindingChange::Opened(*b)));
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

    /// Decodes a message of exactly this form; None if it has any other.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let mut rest = WireReader(bytes);
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
                    BindingChange::Opened(binding) => Some(binding),
                    BindingChange::Closed(..) => None,
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

fn write(out: &mut Vec<u8>, changes: impl Iterator<Item = BindingChange>) {
    let (mut v4_before, mut v6_before) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    for change in changes {
        let (protocol, v4) = change.key();
        let mut tag = protocol.index() as u8;
        tag |= if v4.addr == v4_before { SAME_V4 } else { 0 };
        // The first octet of the host's address that is included.
        let mut from = 0;
        if let BindingChange::Opened(binding) = change {
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
        if let BindingChange::Opened(binding) = change {
            out.extend(&binding.v6.addr.octets()[from..]);
            out.extend(binding.v6.port.to_be_bytes());
        }
    }
}

/// Untrusted bytes, read from the front.
pub(crate) struct WireReader<'a>(pub &'a [u8]);

impl WireReader<'_> {
    /// Returns the next `N` bytes; `None` if there are fewer.
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

    fn changes(&mut self) -> Option<Vec<BindingChange>> {
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
                    changes.push(BindingChange::Closed(protocol, v4));
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
            changes.push(BindingChange::Opened(Binding { protocol, v4, v6 }));
        }
        Some(changes)
    }
}
