// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the owner of a slice tells the other nodes of its bindings: one message of the stream, on the subject of that slice.
//!
//! ```text
//! format 1 | cluster 8 | slice 4 | node 2 | life 8 | revision 8 | kind 1 | number 4, part 2 (of a snapshot) | changes
//! opened: tag 1 | port 2 | the node's prefix 8 | its interface identifier 8 | its port 2
//! closed: tag 1 | port 2
//! ```
//!
//! Numbers are in network byte order, lengths in bytes. What an address has in common with the one before it in the message
//! is left out: both halves, or the first one. The IPv4 address is that of the slice. A writer may be a stranger, another
//! cluster or another version, so messages are read with care.

#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;

use diolkos_core::config::nat64::{Binding, Endpoint4, Endpoint6, Protocol};

use crate::entry::NodeId;
use crate::ownership::Title;
use crate::reader::Reader;
use crate::slice::{Slice, SliceId};

/// First byte of a message. Another format has another one.
const FORMAT: u8 = 1;

/// Longest message, bytes.
pub const MAX_BYTES: usize = 32 * 1024;

/// Most changes of a message, whatever their addresses have in common.
pub const MAX_CHANGES: usize = 1500;

/// Most parts of a snapshot: enough for every port of an address, with every protocol.
pub const MAX_PARTS: u16 = 256;

/// Bytes in front of the changes, of the longest kind.
pub const MAX_HEAD: usize = 38;

/// Bytes of the longest change.
pub const MAX_CHANGE: usize = 21;

const _: () = assert!(MAX_HEAD + MAX_CHANGES * MAX_CHANGE <= MAX_BYTES);
const _: () = assert!(MAX_PARTS as usize * MAX_CHANGES >= 3 * 65_536);

/// What became of a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is there.
    Opened(Binding),
    /// It is not there any more.
    Closed {
        /// Of which table.
        protocol: Protocol,
        /// Its port of the slice's address.
        port: u16,
    },
}

/// Why a node publishes the changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// They have just happened.
    Changes,
    /// They are a part of all its bindings, which it publishes again and again.
    Repetition,
    /// They are a part of all bindings of a slice in which nothing is opened any more.
    Snapshot {
        /// Which snapshot of the speaker.
        number: u32,
        /// Which part, from 0 on.
        part: u16,
        /// No part has a higher number.
        is_last: bool,
    },
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Of which slice.
    pub slice: SliceId,
    /// The speaker.
    pub node: NodeId,
    /// As what it speaks.
    pub title: Title,
    /// Why.
    pub kind: Kind,
    /// The changes, in the order in which they happened.
    pub changes: Vec<Change>,
}

/// Why a message is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It has another format: another version, or no node at all has written it.
    AnotherFormat,
    /// It is of another cluster.
    AnotherCluster,
    /// It is not of the slice of its subject.
    AnotherSlice,
    /// It names a port that the slice does not have.
    ForeignPort,
    /// It is too long, ends too early, or has what no message has.
    Malformed,
}

// A change's tag: the protocol's index, and these.
const PROTOCOL: u8 = 0b0011;
const OPENED: u8 = 0b0100;
const OPENED_IN_SAME_PREFIX: u8 = 0b0_1100;
const OPENED_AT_SAME_ADDRESS: u8 = 0b1_0100;
// The kind.
const CHANGES: u8 = 0;
const REPETITION: u8 = 1;
const SNAPSHOT: u8 = 2;
const LAST_OF_SNAPSHOT: u8 = 3;

impl Message {
    /// As the stream keeps it. The changes have to be of ports of the slice, and not more than [`MAX_CHANGES`].
    pub fn encode(&self, cluster: u64) -> Vec<u8> {
        debug_assert!(self.changes.len() <= MAX_CHANGES);
        let mut bytes = Vec::with_capacity(MAX_HEAD + self.changes.len() * MAX_CHANGE);
        bytes.push(FORMAT);
        bytes.extend(cluster.to_be_bytes());
        bytes.extend(self.slice.to_be_bytes());
        bytes.extend(self.node.0.to_be_bytes());
        bytes.extend(self.title.life.to_be_bytes());
        bytes.extend(self.title.revision.to_be_bytes());
        match self.kind {
            Kind::Changes => bytes.push(CHANGES),
            Kind::Repetition => bytes.push(REPETITION),
            Kind::Snapshot {
                number,
                part,
                is_last,
            } => {
                bytes.push(if is_last { LAST_OF_SNAPSHOT } else { SNAPSHOT });
                bytes.extend(number.to_be_bytes());
                bytes.extend(part.to_be_bytes());
            }
        }
        let mut before = Ipv6Addr::UNSPECIFIED;
        for change in &self.changes {
            match change {
                Change::Opened(binding) => before = write_opened(&mut bytes, binding, before),
                Change::Closed { protocol, port } => {
                    bytes.push(protocol.index() as u8);
                    bytes.extend(port.to_be_bytes());
                }
            }
        }
        bytes
    }

    /// A message on the subject of the slice `id`.
    pub fn decode(
        cluster: u64,
        (id, slice): (SliceId, &Slice),
        bytes: &[u8],
    ) -> Result<Message, Refused> {
        if bytes.first() != Some(&FORMAT) {
            return Err(Refused::AnotherFormat);
        }
        if bytes.len() > MAX_BYTES {
            return Err(Refused::Malformed);
        }
        let mut rest = Reader(&bytes[1..]);
        let named = |rest: &mut Reader<'_>| Some((rest.take()?, rest.take()?));
        let (of_cluster, of_slice) = named(&mut rest).ok_or(Refused::Malformed)?;
        if u64::from_be_bytes(of_cluster) != cluster {
            return Err(Refused::AnotherCluster);
        }
        if u32::from_be_bytes(of_slice) != id {
            return Err(Refused::AnotherSlice);
        }
        let message = read_rest(id, slice, rest).ok_or(Refused::Malformed)?;
        let port = |change: &Change| match change {
            Change::Opened(binding) => binding.v4.port,
            Change::Closed { port, .. } => *port,
        };
        match message
            .changes
            .iter()
            .map(port)
            .all(|port| slice.ports.contains(&port))
        {
            true => Ok(message),
            false => Err(Refused::ForeignPort),
        }
    }
}

/// Writes what is there; returns the node's address, for the next one.
fn write_opened(bytes: &mut Vec<u8>, binding: &Binding, before: Ipv6Addr) -> Ipv6Addr {
    let addr = binding.v6.addr;
    let octets = addr.octets();
    let (what, told) = match octets[..8] == before.octets()[..8] {
        _ if addr == before => (OPENED_AT_SAME_ADDRESS, &[][..]),
        true => (OPENED_IN_SAME_PREFIX, &octets[8..]),
        false => (OPENED, &octets[..]),
    };
    bytes.push(binding.protocol.index() as u8 | what);
    bytes.extend(binding.v4.port.to_be_bytes());
    bytes.extend(told);
    bytes.extend(binding.v6.port.to_be_bytes());
    addr
}

fn read_rest(id: SliceId, slice: &Slice, mut rest: Reader<'_>) -> Option<Message> {
    let node = NodeId(u16::from_be_bytes(rest.take()?));
    let title = Title {
        life: u64::from_be_bytes(rest.take()?),
        revision: u64::from_be_bytes(rest.take()?),
    };
    let kind = match rest.take()? {
        [CHANGES] => Kind::Changes,
        [REPETITION] => Kind::Repetition,
        [kind @ (SNAPSHOT | LAST_OF_SNAPSHOT)] => Kind::Snapshot {
            number: u32::from_be_bytes(rest.take()?),
            part: Some(u16::from_be_bytes(rest.take()?)).filter(|&part| part < MAX_PARTS)?,
            is_last: kind == LAST_OF_SNAPSHOT,
        },
        _ => return None,
    };
    let (mut changes, mut before) = (Vec::new(), Ipv6Addr::UNSPECIFIED);
    while !rest.is_empty() {
        if changes.len() == MAX_CHANGES {
            return None;
        }
        changes.push(read_change(slice, &mut rest, &mut before)?);
    }
    Some(Message {
        slice: id,
        node,
        title,
        kind,
        changes,
    })
}

fn read_change(slice: &Slice, rest: &mut Reader<'_>, before: &mut Ipv6Addr) -> Option<Change> {
    let [tag] = rest.take()?;
    let protocol = *Protocol::ALL.get(usize::from(tag & PROTOCOL))?;
    let port = u16::from_be_bytes(rest.take()?);
    let prefix = before.octets().first_chunk::<8>().copied();
    *before = match tag & !PROTOCOL {
        0 => return Some(Change::Closed { protocol, port }),
        OPENED => Ipv6Addr::from(rest.take::<16>()?),
        OPENED_IN_SAME_PREFIX => join(prefix?, rest.take()?),
        OPENED_AT_SAME_ADDRESS => *before,
        _ => return None,
    };
    Some(Change::Opened(Binding {
        protocol,
        v4: Endpoint4 {
            addr: slice.addr,
            port,
        },
        v6: Endpoint6 {
            addr: *before,
            port: u16::from_be_bytes(rest.take()?),
        },
    }))
}

fn join(prefix: [u8; 8], identifier: [u8; 8]) -> Ipv6Addr {
    let (high, low) = (u64::from_be_bytes(prefix), u64::from_be_bytes(identifier));
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))
}
