// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records as messages of IPFIX (RFC 7011) with the information elements and events of RFC 8158.

use std::net::IpAddr;

use diolkos_nat64::config::{Binding, Protocol};

use super::record::{EntryChange, Record, What};

/// The longest message, bytes: with the headers of UDP and IPv6 it fits into the MTU of any link (RFC 7011 section 10.3.3).
pub const LONGEST: usize = 1232;
/// RFC 7011 section 3.1.
const VERSION: u16 = 10;
const HEADER: usize = 16;
const SET_HEADER: usize = 4;
const TEMPLATE_SET: u16 = 2;
const OPTIONS_TEMPLATE_SET: u16 = 3;

// Information elements: their numbers at IANA, and their lengths in bytes.
const PROTOCOL: Element = (4, 1);
const SOURCE_PORT: Element = (7, 2);
const DESTINATION_PORT: Element = (11, 2);
const SOURCE6: Element = (27, 16);
const DESTINATION6: Element = (28, 16);
const SOURCE6_PREFIX_LENGTH: Element = (29, 1);
const EXPORTING_PROCESS: Element = (144, 4);
const NOT_SENT: Element = (166, 8);
const POST_NAT_SOURCE4: Element = (225, 4);
const POST_NAT_DESTINATION4: Element = (226, 4);
const POST_NAPT_SOURCE_PORT: Element = (227, 2);
const POST_NAPT_DESTINATION_PORT: Element = (228, 2);
const NAT_EVENT: Element = (230, 1);
const OBSERVATION_TIME: Element = (323, 8);
const PORT_RANGE_START: Element = (361, 2);
const PORT_RANGE_END: Element = (362, 2);

/// Number, and length in bytes.
type Element = (u16, u16);

/// A template: the layout of records.
struct Template {
    id: u16,
    elements: &'static [Element],
    /// The number of scope elements, which tell what the record is about; 0 in a template without options.
    scopes: u16,
}

/// RFC 8158: creation and deletion of an entry of the NAT64 BIB.
const BINDING: Template = Template {
    id: 256,
    elements: &[
        OBSERVATION_TIME,
        NAT_EVENT,
        PROTOCOL,
        SOURCE6,
        SOURCE_PORT,
        POST_NAT_SOURCE4,
        POST_NAPT_SOURCE_PORT,
    ],
    scopes: 0,
};

/// RFC 8158: creation and deletion of a NAT64 session.
const SESSION: Template = Template {
    id: 257,
    elements: &[
        OBSERVATION_TIME,
        NAT_EVENT,
        PROTOCOL,
        SOURCE6,
        SOURCE_PORT,
        POST_NAT_SOURCE4,
        POST_NAPT_SOURCE_PORT,
        DESTINATION6,
        DESTINATION_PORT,
        POST_NAT_DESTINATION4,
        POST_NAPT_DESTINATION_PORT,
    ],
    scopes: 0,
};

/// RFC 8158: allocation and release of a block of ports.
const BLOCK: Template = Template {
    id: 258,
    elements: &[
        OBSERVATION_TIME,
        NAT_EVENT,
        SOURCE6,
        SOURCE6_PREFIX_LENGTH,
        POST_NAT_SOURCE4,
        PORT_RANGE_START,
        PORT_RANGE_END,
    ],
    scopes: 0,
};

/// RFC 7011 section 4.3, reliability of the exporting process: the number of all records that were not sent, and the times of
/// the first and the last record of the gap.
const RELIABILITY: Template = Template {
    id: 259,
    elements: &[
        EXPORTING_PROCESS,
        NOT_SENT,
        OBSERVATION_TIME,
        OBSERVATION_TIME,
    ],
    scopes: 1,
};

/// Makes the messages of one connection, or of one collector that receives datagrams.
#[derive(Debug)]
pub struct Exporter {
    domain: u32,
    /// Data records that were put into messages (RFC 7011 section 3.1).
    sequence: u32,
    /// All records that were not sent.
    not_sent: u64,
}

impl Exporter {
    /// An exporter with this observation domain.
    pub fn new(domain: u32) -> Exporter {
        Exporter {
            domain,
            sequence: 0,
            not_sent: 0,
        }
    }

    /// Starts a new connection, whose sequence numbers begin at 0.
    pub fn begin(&mut self) {
        self.sequence = 0;
    }

    /// The message that contains the templates.
    pub fn templates(&self, now: u64) -> Vec<u8> {
        let mut message = self.header();
        for template in [BINDING, SESSION, BLOCK] {
            let body = 4 + 4 * template.elements.len();
            put(&mut message, TEMPLATE_SET);
            put(&mut message, (SET_HEADER + body) as u16);
            template.lay(&mut message);
        }
        put(&mut message, OPTIONS_TEMPLATE_SET);
        put(
            &mut message,
            (SET_HEADER + 6 + 4 * RELIABILITY.elements.len()) as u16,
        );
        RELIABILITY.lay(&mut message);
        finish(message, now)
    }

    /// A message of the first of `records`, and the number of records that it consumed. It is empty if it consumed only records
    /// that IPFIX cannot express.
    pub fn message(&mut self, records: &[Record], now: u64) -> (Vec<u8>, usize) {
        let mut message = self.header();
        // The open set: its start, and the number of its template.
        let mut open: Option<(usize, u16)> = None;
        let (mut taken, mut appended) = (0, 0);
        for record in records {
            let Some(template) = template_of(record) else {
                taken += 1;
                continue;
            };
            let begins = open.is_none_or(|(_, id)| id != template.id);
            let needed = template.length() + if begins { SET_HEADER } else { 0 };
            if message.len() + needed > LONGEST {
                break;
            }
            if begins {
                close(&mut message, open);
                open = Some((message.len(), template.id));
                put(&mut message, template.id);
                put(&mut message, 0);
            }
            self.append(record, &mut message);
            taken += 1;
            appended += 1;
        }
        close(&mut message, open);
        if appended == 0 {
            return (Vec::new(), taken);
        }
        self.sequence = self.sequence.wrapping_add(appended);
        (finish(message, now), taken)
    }

    fn header(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(LONGEST);
        put(&mut message, VERSION);
        put(&mut message, 0);
        message.extend([0; 4]);
        message.extend(self.sequence.to_be_bytes());
        message.extend(self.domain.to_be_bytes());
        message
    }

    fn append(&mut self, record: &Record, message: &mut Vec<u8>) {
        match &record.what {
            What::Binding(change, binding) => {
                head(record.at, nat_event(*change, false), binding, message);
            }
            What::Session(change, binding, peer, peer6) => {
                head(record.at, nat_event(*change, true), binding, message);
                address(message, *peer6);
                put(message, peer.port);
                address(message, peer.addr);
                put(message, peer.port);
            }
            What::Block(change, block) => {
                // Port blocks have event numbers of their own (RFC 8158).
                let event = if *change == EntryChange::Deleted {
                    17
                } else {
                    16
                };
                message.extend(record.at.to_be_bytes());
                message.push(event);
                address(message, block.source);
                message.push(block.source_prefix_len);
                address(message, block.addr);
                put(message, block.first);
                put(message, block.last);
            }
            What::Lost(count, since) => {
                self.not_sent += count;
                message.extend(std::process::id().to_be_bytes());
                message.extend(self.not_sent.to_be_bytes());
                message.extend(since.to_be_bytes());
                message.extend(record.at.to_be_bytes());
            }
            What::Started | What::Stopped | What::Listed(_) => {}
            // RFC 8158 has no element for these records.
            What::Mapping(..) | What::MappedSources(..) | What::MappedAddresses(..) => {}
        }
    }
}

/// The fields that bindings and sessions have in common.
fn head(at: u64, event: u8, binding: &Binding, message: &mut Vec<u8>) {
    // The protocol as the node sends it (protocolIdentifier of an IPv6 packet).
    let protocol = match binding.protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Icmp => 58,
    };
    message.extend(at.to_be_bytes());
    message.extend([event, protocol]);
    address(message, binding.v6.addr);
    put(message, binding.v6.port);
    address(message, binding.v4.addr);
    put(message, binding.v4.port);
}

/// Values of natEvent (RFC 8158). It has no value for existing entries: they are written as if they were created.
fn nat_event(change: EntryChange, is_session: bool) -> u8 {
    match (change, is_session) {
        (EntryChange::Created | EntryChange::InForce, true) => 6,
        (EntryChange::Deleted, true) => 7,
        (EntryChange::Created | EntryChange::InForce, false) => 10,
        (EntryChange::Deleted, false) => 11,
    }
}

fn template_of(record: &Record) -> Option<&'static Template> {
    match record.what {
        What::Binding(..) => Some(&BINDING),
        What::Session(..) => Some(&SESSION),
        What::Block(..) => Some(&BLOCK),
        What::Lost(..) => Some(&RELIABILITY),
        What::Started | What::Stopped | What::Listed(_) => None,
        What::Mapping(..) | What::MappedSources(..) | What::MappedAddresses(..) => None,
    }
}

impl Template {
    fn length(&self) -> usize {
        let bytes = self.elements.iter().map(|(_, bytes)| usize::from(*bytes));
        bytes.sum()
    }

    fn lay(&self, message: &mut Vec<u8>) {
        put(message, self.id);
        put(message, self.elements.len() as u16);
        if self.scopes > 0 {
            put(message, self.scopes);
        }
        for (number, bytes) in self.elements {
            put(message, *number);
            put(message, *bytes);
        }
    }
}

fn put(message: &mut Vec<u8>, number: u16) {
    message.extend(number.to_be_bytes());
}

fn address(message: &mut Vec<u8>, address: impl Into<IpAddr>) {
    match address.into() {
        IpAddr::V4(address) => message.extend(address.octets()),
        IpAddr::V6(address) => message.extend(address.octets()),
    }
}

/// Writes the length of the set.
fn close(message: &mut [u8], open: Option<(usize, u16)>) {
    if let Some((begin, _)) = open {
        let length = (message.len() - begin) as u16;
        message[begin + 2..begin + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes the length and the export time of the message.
fn finish(mut message: Vec<u8>, now: u64) -> Vec<u8> {
    debug_assert!(message.len() > HEADER && message.len() <= LONGEST);
    let length = (message.len() as u16).to_be_bytes();
    message[2..4].copy_from_slice(&length);
    message[4..8].copy_from_slice(&((now / 1000) as u32).to_be_bytes());
    message
}

#[cfg(test)]
mod tests;
