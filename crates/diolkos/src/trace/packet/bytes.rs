// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet → its bytes: IP header, the header of a fragment, the transport header, zeros for data. Of an ICMP error, the
//! packet that it quotes is made in the same way, and cut.

use std::net::IpAddr;

use diolkos_xlat::csum::{self, Sum};
use diolkos_xlat::wire::icmp::{ICMP_CHECKSUM_AT, ICMP_LEN};
use diolkos_xlat::wire::{protocol, Ipv4, Ipv6, FRAGMENT_LEN, IPV4_LEN, IPV6_LEN, UDP_CHECKSUM_AT};

use super::icmp::{self, Field};
use super::{Carried, Details, Fragment, Header, Imagined, Kind, Quoted, Transport};

const UDP_LEN: usize = 8;
const TCP_LEN: usize = 20;
const TCP_CHECKSUM_AT: usize = 16;
/// Bytes of the longest error that a router originates (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4(c)).
const LARGEST_ERROR_4: usize = 576;
const LARGEST_ERROR_6: usize = 1280;
/// What is said of a quoted packet nowhere.
const QUOTED_HOP_LIMIT: u8 = 64;
/// Only the last fragment of a packet is no multiple of it (RFC 791 section 3.2, RFC 8200 section 4.5).
const UNIT: usize = 8;

impl Imagined {
    /// Its bytes, with every checksum; an error if it cannot have its length.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        let header = &self.words.header;
        match &self.words.carried {
            Carried::Transport(transport) => {
                let text = self.words.to_string();
                whole(header, *transport, &self.details, &text)
            }
            Carried::Error(kind, quoted) => self.error(*kind, quoted),
        }
    }

    fn error(&self, kind: Kind, quoted: &Quoted) -> Result<Vec<u8>, String> {
        let header = &self.words.header;
        let is_v4 = header.src.is_ipv4();
        let details = Details {
            length: quoted.length,
            // Without it, a router cuts the packet instead.
            dont_fragment: is_v4 && icmp::field(true, kind.icmp_type, kind.code) == Field::Mtu,
            hop_limit: QUOTED_HOP_LIMIT,
        };
        let quote = whole(
            &quoted.header,
            quoted.transport,
            &details,
            &quoted.to_string(),
        )?;
        let head = header.len();
        let mut message = vec![0; ICMP_LEN];
        message[..2].copy_from_slice(&[kind.icmp_type, kind.code]);
        message[4..].copy_from_slice(&kind.rest.to_be_bytes());
        message.extend(&quote);
        let longest = head + message.len();
        let largest = if is_v4 {
            LARGEST_ERROR_4
        } else {
            LARGEST_ERROR_6
        };
        let fragment = header.fragment.unwrap_or(WHOLE);
        let length = match self.details.length.map(usize::from) {
            None if fragment.offset > 0 => head + UNIT,
            None if fragment.more => head + (longest.min(largest) - head) / UNIT * UNIT,
            None => longest.min(largest),
            Some(length) if length < head + ICMP_LEN => {
                return Err(too_few(length, &self.words.to_string(), head + ICMP_LEN));
            }
            Some(length) if length > longest => {
                return Err(format!(
                    "{length} bytes are too many: the quoted packet ends after {longest}; give it a `length` of its own"
                ));
            }
            Some(length) => length,
        };
        message.truncate(length - head);
        if fragment.offset > 0 {
            message.fill(0);
        } else {
            let pseudo = match is_v4 {
                true => Sum::default(),
                false => header.pseudo(protocol::ICMPV6, message.len()),
            };
            csum::fill_in(&mut message, ICMP_CHECKSUM_AT, pseudo);
        }
        let number = if is_v4 {
            protocol::ICMPV4
        } else {
            protocol::ICMPV6
        };
        header.packet(number, &message, &self.details)
    }
}

/// A packet that is no fragment.
const WHOLE: Fragment = Fragment {
    offset: 0,
    id: 0,
    more: false,
};

/// A packet that is no ICMP error. `text` is what an error calls it.
fn whole(
    header: &Header,
    transport: Transport,
    details: &Details,
    text: &str,
) -> Result<Vec<u8>, String> {
    let fragment = header.fragment.unwrap_or(WHOLE);
    let transport_len = match transport {
        _ if fragment.offset > 0 => 0,
        Transport::Udp(..) => UDP_LEN,
        Transport::Tcp(..) => TCP_LEN,
        Transport::Echo { .. } => ICMP_LEN,
        Transport::Other(_) => 0,
    };
    let least = header.len() + transport_len;
    let usual = match fragment {
        Fragment { more: true, .. } => {
            header.len() + transport_len.next_multiple_of(UNIT).max(UNIT)
        }
        Fragment { offset: 1.., .. } => header.len() + UNIT,
        _ => least,
    };
    let length = details.length.map_or(usual, usize::from);
    if length < least {
        return Err(too_few(length, text, least));
    }
    let mut payload = vec![0; length - header.len()];
    let number = transport.number(header.src.is_ipv4());
    if fragment.offset == 0 {
        transport.fill_in(header, fragment.more, &mut payload);
    }
    header.packet(number, &payload, details)
}

fn too_few(length: usize, text: &str, least: usize) -> String {
    format!("{length} bytes are too few: `{text}` has at least {least}")
}

impl Header {
    /// Bytes, with the Fragment header of IPv6.
    fn len(&self) -> usize {
        match (self.src, self.fragment) {
            (IpAddr::V4(_), _) => IPV4_LEN,
            (IpAddr::V6(_), None) => IPV6_LEN,
            (IpAddr::V6(_), Some(_)) => IPV6_LEN + FRAGMENT_LEN,
        }
    }

    /// The pseudo-header of a transport part of `len` bytes.
    fn pseudo(&self, number: u8, len: usize) -> Sum {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => csum::pseudo_ipv4(src, dst, number, len),
            (IpAddr::V6(src), IpAddr::V6(dst)) => csum::pseudo_ipv6(src, dst, number, len),
            _ => Sum::default(),
        }
    }

    /// The header, and the payload behind it.
    fn packet(&self, number: u8, payload: &[u8], details: &Details) -> Result<Vec<u8>, String> {
        let head = self.len();
        let mut bytes = vec![0; head];
        bytes.extend(payload);
        let fragment = self.fragment.unwrap_or(WHOLE);
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4 {
                tos: 0,
                header_len: IPV4_LEN,
                total_len: bytes.len(),
                id: fragment.id as u16,
                dont_fragment: details.dont_fragment,
                more_fragments: fragment.more,
                fragment_offset: fragment.offset,
                ttl: details.hop_limit,
                protocol: number,
                src,
                dst,
            }
            .emit(&mut bytes),
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Ipv6 {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_len: bytes.len() - IPV6_LEN,
                    next_header: self.fragment.map_or(number, |_| protocol::FRAGMENT),
                    hop_limit: details.hop_limit,
                    src,
                    dst,
                }
                .emit(&mut bytes);
                if self.fragment.is_some() {
                    diolkos_xlat::wire::Fragment {
                        next_header: number,
                        offset: fragment.offset,
                        more: fragment.more,
                        id: fragment.id,
                    }
                    .emit(&mut bytes[IPV6_LEN..]);
                }
            }
            _ => return Err("source and destination are of different families".to_owned()),
        }
        Ok(bytes)
    }
}

impl Transport {
    /// As the IP header has it.
    fn number(self, is_v4: bool) -> u8 {
        match self {
            Transport::Udp(..) => protocol::UDP,
            Transport::Tcp(..) => protocol::TCP,
            Transport::Echo { .. } if is_v4 => protocol::ICMPV4,
            Transport::Echo { .. } => protocol::ICMPV6,
            Transport::Other(number) => number,
        }
    }

    /// Writes its header in front of the zeros of `bytes`. Of a first fragment, the checksum is that of what is there.
    fn fill_in(self, header: &Header, more: bool, bytes: &mut [u8]) {
        let len = bytes.len();
        let is_v4 = header.src.is_ipv4();
        let number = self.number(is_v4);
        let mut put =
            |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let at = match self {
            Transport::Udp(from, to) => {
                put(0, from);
                put(2, to);
                // Something follows in another fragment.
                put(4, (len + if more { UNIT } else { 0 }) as u16);
                UDP_CHECKSUM_AT
            }
            Transport::Tcp(from, to, flags) => {
                put(0, from);
                put(2, to);
                // The length of the header, in words, and the flags; a window.
                put(12, 5 << 12 | u16::from(flags));
                put(14, u16::MAX);
                TCP_CHECKSUM_AT
            }
            Transport::Echo { id, is_reply } => {
                let kind: u8 = match (is_v4, is_reply) {
                    (true, false) => 8,
                    (true, true) => 0,
                    (false, false) => 128,
                    (false, true) => 129,
                };
                put(0, u16::from(kind) << 8);
                put(4, id);
                ICMP_CHECKSUM_AT
            }
            Transport::Other(_) => return,
        };
        // ICMP, unlike ICMPv6, has no pseudo-header.
        let pseudo = match number {
            protocol::ICMPV4 => Sum::default(),
            number => header.pseudo(number, len),
        };
        csum::fill_in(bytes, at, pseudo);
        if number == protocol::UDP {
            let checksum = csum::never_zero(csum::field(bytes, at));
            csum::set_field(bytes, at, checksum);
        }
    }
}
