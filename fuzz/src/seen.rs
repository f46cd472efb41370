// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet as it stands on the wire, read a second time, without the translator's code: checksums are added up word by
//! word, lengths are taken from where the RFCs put them.

use crate::common::ones_sum;
use crate::headers::walk;
use diolkos_xlat::{Gso, GsoKind, Offload};

/// A packet as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The packet, without padding of the link.
    pub bytes: &'a [u8],
    /// 4 or 6.
    pub version: u8,
    /// Type of service or traffic class.
    pub class: u8,
    /// Time to live or hop limit.
    pub hops: u8,
    /// No router may fragment it: DF, and always in IPv6.
    pub dont_fragment: bool,
    /// Offset in bytes and whether more follows; None without a Fragment header, or without meaning in IPv4's.
    pub fragment: Option<(usize, bool)>,
    /// ICMP is the packet's own.
    pub protocol: u8,
    /// Where the transport header begins, in bytes.
    pub transport_at: usize,
}

impl<'a> Seen<'a> {
    /// None if it is no packet, or one that leads nowhere.
    pub fn of(bytes: &'a [u8]) -> Option<Seen<'a>> {
        match bytes.first()? >> 4 {
            4 => Seen::ipv4(bytes),
            6 => Seen::ipv6(bytes),
            _ => None,
        }
    }

    fn ipv4(bytes: &'a [u8]) -> Option<Seen<'a>> {
        let transport_at = usize::from(bytes[0] & 15) * 4;
        let bytes = bytes.get(..usize::from(word(bytes, 2)?))?;
        if transport_at < 20 || transport_at > bytes.len() {
            return None;
        }
        let flags_and_offset = word(bytes, 6)?;
        let more = flags_and_offset & 0x2000 != 0;
        let offset = usize::from(flags_and_offset & 0x1fff) * 8;
        Some(Seen {
            bytes,
            version: 4,
            class: bytes[1],
            hops: bytes[8],
            dont_fragment: flags_and_offset & 0x4000 != 0,
            fragment: (more || offset != 0).then_some((offset, more)),
            protocol: bytes[9],
            transport_at,
        })
    }

    fn ipv6(bytes: &'a [u8]) -> Option<Seen<'a>> {
        let bytes = bytes.get(..40 + usize::from(word(bytes, 4)?))?;
        let walked = walk(bytes)?;
        Some(Seen {
            bytes,
            version: 6,
            class: bytes[0] << 4 | bytes[1] >> 4,
            hops: bytes[7],
            dont_fragment: true,
            fragment: walked
                .fragment
                .map(|fragment| (usize::from(fragment.offset) * 8, fragment.more)),
            protocol: walked.protocol,
            transport_at: walked.at,
        })
    }

    /// Transport header and data, or the part of them that a fragment has.
    pub fn transport(&self) -> &'a [u8] {
        &self.bytes[self.transport_at..]
    }

    /// No part of a datagram is missing.
    pub fn is_whole(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment == (0, false))
    }

    fn is_icmp(&self) -> bool {
        self.protocol == if self.version == 4 { 1 } else { 58 }
    }

    /// RFC 792 and RFC 4443 section 2.1.
    pub fn is_icmp_error(&self) -> bool {
        let errors = match self.version {
            4 => [3, 4, 5, 11, 12].contains(self.transport().first().unwrap_or(&3)),
            _ => *self.transport().first().unwrap_or(&1) < 128,
        };
        self.is_icmp() && errors && self.fragment.is_none_or(|(offset, _)| offset == 0)
    }

    /// Source address, 4 or 16 bytes.
    pub fn source(&self) -> &'a [u8] {
        if self.version == 4 {
            &self.bytes[12..16]
        } else {
            &self.bytes[8..24]
        }
    }

    /// Destination address, 4 or 16 bytes.
    pub fn destination(&self) -> &'a [u8] {
        if self.version == 4 {
            &self.bytes[16..20]
        } else {
            &self.bytes[24..40]
        }
    }

    /// The pseudo-header of a transport of `len` bytes; ICMPv4 has none.
    fn pseudo(&self, len: usize) -> Vec<u8> {
        if self.version == 4 && self.is_icmp() {
            return Vec::new();
        }
        let addresses = [self.source(), self.destination()].concat();
        [
            &addresses[..],
            &(len as u32).to_be_bytes(),
            &[0, self.protocol],
        ]
        .concat()
    }

    /// Where the transport has its checksum, if it has one and is long enough.
    fn checksum_at(&self, transport: &[u8]) -> Option<usize> {
        let (at, least) = match self.protocol {
            6 => (16, 20),
            17 | 136 => (6, 8),
            33 => (6, 12),
            _ if self.is_icmp() => (2, 8),
            _ => return None,
        };
        (transport.len() >= least).then_some(at)
    }

    /// Is the transport checksum of `transport` right? None where there is none, or none to be known.
    pub fn checksum_of(&self, transport: &[u8]) -> Option<bool> {
        let at = self.checksum_at(transport)?;
        let covered = match self.protocol {
            17 => {
                let len = usize::from(word(transport, 4)?);
                if len < 8 || word(transport, at)? == 0 {
                    return None;
                }
                transport.get(..len)?
            }
            // RFC 3828 section 3.1: 0 covers all.
            136 => match usize::from(word(transport, 4)?) {
                0 => transport,
                1..8 => return None,
                len => transport.get(..len)?,
            },
            // RFC 4340 section 9.2: only a coverage of 0 covers all.
            33 if transport[5] & 15 != 0 => return None,
            _ => transport,
        };
        let len = if self.protocol == 17 {
            covered.len()
        } else {
            transport.len()
        };
        // Every pseudo-header is of whole words.
        Some(ones_sum(&[&self.pseudo(len), covered].concat()) == 0xffff)
    }

    /// Is its own transport checksum right? None of a part of a datagram, too.
    pub fn checksum(&self) -> Option<bool> {
        self.is_whole()
            .then(|| self.checksum_of(self.transport()))?
    }

    /// By difference, zeros that sum to zero cannot be told from words that sum to 0xFFFF (RFC 1624 section 3).
    pub fn is_all_zero(&self) -> bool {
        self.is_icmp() && ones_sum(self.transport()) == 0
    }

    /// Is its checksum the sum of the pseudo-header alone, as it is where the rest is left to the device?
    pub fn is_seed(&self) -> bool {
        let at = self
            .checksum_at(self.transport())
            .expect("a seed stands somewhere");
        let field = word(self.transport(), at).expect("within the header");
        let len = match self.protocol {
            17 => usize::from(word(self.transport(), 4).expect("within the header")),
            _ => self.transport().len(),
        };
        // 0 and 0xFFFF are one number.
        field % 0xffff == ones_sum(&self.pseudo(len)) % 0xffff
    }

    /// The transport with what translation may change taken out: the checksum, and the type of an echo message.
    pub fn unchanged(&self, transport: &[u8]) -> Vec<u8> {
        let mut bytes = transport.to_vec();
        if self.fragment.is_none_or(|(offset, _)| offset == 0) {
            if let Some(at) = self.checksum_at(transport) {
                bytes[at..at + 2].fill(0);
            }
            if self.is_icmp() && !bytes.is_empty() {
                bytes[0] = 0;
            }
        }
        bytes
    }

    /// Bytes of the largest packet that it stands for.
    pub fn largest(&self, offload: Offload) -> usize {
        let Some(Gso { kind, size }) = offload.gso else {
            return self.bytes.len();
        };
        let header = match kind {
            GsoKind::Tcp => usize::from(self.transport()[12] >> 4) * 4,
            GsoKind::Udp => 8,
        };
        self.bytes
            .len()
            .min(self.transport_at + header + usize::from(size))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
