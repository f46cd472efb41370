// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the bytes of a recipe, header by header, with its oddities at their places.
//!
//! ends → transport header and data, summed → IPv4 or IPv6 header → padding, cuts and changed bytes

use super::{Checksum, Fill, Oddity, Recipe, Transport};
use crate::common::ones_sum;
use crate::input::{Input, Way};
use crate::setup::Setup;
use fastrand::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Flags of a segment (RFC 9293 section 3.1).
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

impl Recipe {
    /// Returns the packet.
    pub fn given(&self, setup: &Setup) -> Input {
        let near = self.near(setup);
        let mut ends = self.ends(setup);
        for end in &mut ends {
            let (v4, v6) = *end;
            *end = if self.odd.contains(&Oddity::FromItself) {
                near
            } else if *end == near {
                (
                    Ipv4Addr::from_bits(v4.to_bits() ^ self.other_node()),
                    Ipv6Addr::from_bits(v6.to_bits() ^ u128::from(self.other_node())),
                )
            } else {
                (v4, Ipv6Addr::from_bits(v6.to_bits() ^ self.peer_bits()))
            };
        }
        let v4 = ends.map(|(v4, _)| v4.octets()).concat();
        let v6 = ends.map(|(_, v6)| v6.octets()).concat();
        let (here, there) = match self.way {
            Way::FourToSix => (v4, v6),
            Way::SixToFour => (v6, v4),
        };
        let l4 = self.transport_bytes(&here, &there);
        let mut bytes = match self.way {
            Way::FourToSix => self.ipv4(&here, l4),
            Way::SixToFour => self.ipv6(&here, l4),
        };
        for odd in &self.odd {
            match *odd {
                Oddity::Padding(len) => bytes.extend(vec![0x5a; len]),
                Oddity::Cut(len) => bytes.truncate(bytes.len().saturating_sub(len).max(1)),
                _ => {}
            }
        }
        for &(at, value) in &self.changed {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if self.summed_again && self.way == Way::FourToSix && !self.changed.is_empty() {
            sum_header(&mut bytes);
        }
        Input {
            way: self.way,
            bytes,
            gso_size: self.gso_size,
        }
    }

    fn other_node(&self) -> u32 {
        let bits = self.odd.iter().map(|odd| match odd {
            Oddity::OtherNode(bits) => *bits,
            _ => 0,
        });
        bits.fold(0, |a, b| a ^ b)
    }

    fn peer_bits(&self) -> u128 {
        let bits = self.odd.iter().map(|odd| match odd {
            Oddity::PeerBits(bits) => *bits,
            _ => 0,
        });
        bits.fold(0, |a, b| a ^ b)
    }

    /// Returns transport header and data. `here` has the addresses as they stand in the packet, `there` those of the
    /// other family.
    fn transport_bytes(&self, here: &[u8], there: &[u8]) -> Vec<u8> {
        let [first, second] = self.head.map(u16::to_be_bytes);
        let len = self.header_len() + self.data_len;
        let (types, protocols) = match self.transport {
            Transport::Tcp => ([0; 2], [6, 6]),
            Transport::Udp => ([0; 2], [17, 17]),
            Transport::EchoRequest => ([8, 128], [1, 58]),
            Transport::EchoReply => ([0, 129], [1, 58]),
        };
        let mut l4 = match self.transport {
            Transport::Tcp => [&first[..], &second, &[0, 0, 0, 1, 0, 0, 0, 2]].concat(),
            Transport::Udp => [first, second, (len as u16).to_be_bytes()].concat(),
            Transport::EchoRequest | Transport::EchoReply => {
                [[0, 0], [0, 0], first, second].concat()
            }
        };
        match self.transport {
            Transport::Tcp => {
                let (flags, options) = match &self.syn {
                    Some((flags, options)) => (flags | SYN, &options[..]),
                    None => (ACK | PSH, &[][..]),
                };
                let words = 5 + options.len() as u8 / 4;
                l4.extend([words << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
                l4.extend(options);
            }
            Transport::Udp => l4.extend([0, 0]),
            _ => {}
        }
        match self.fill {
            Fill::Zeros => l4.resize(len, 0),
            Fill::Random(seed) => {
                let mut rng = Rng::with_seed(seed);
                l4.extend((0..self.data_len).map(|_| rng.u8(..)));
            }
        }
        self.sum_transport(&mut l4, types, protocols, here, there);
        for odd in &self.odd {
            match (*odd, self.transport) {
                (Oddity::UdpLength(by), Transport::Udp) => {
                    let wrong = (len as u16).wrapping_add_signed(by);
                    l4[4..6].copy_from_slice(&wrong.to_be_bytes());
                }
                (Oddity::TcpDataOffset(words), Transport::Tcp) => l4[12] = words << 4,
                (Oddity::IcmpType(kind), _) if self.transport.is_echo() => l4[0] = kind,
                (Oddity::IcmpCode(code), _) if self.transport.is_echo() => l4[1] = code,
                _ => {}
            }
        }
        l4
    }

    /// Writes type and checksum; `types` and `protocols` are those of IPv4 and IPv6.
    fn sum_transport(
        &self,
        l4: &mut [u8],
        types: [u8; 2],
        protocols: [u8; 2],
        here: &[u8],
        there: &[u8],
    ) {
        let (own, other) = match self.way {
            Way::FourToSix => (0, 1),
            Way::SixToFour => (1, 0),
        };
        let (checksum_at, word_at) = match self.transport {
            Transport::Tcp => (16, 2),
            Transport::Udp => (6, 2),
            _ => (2, 6),
        };
        let pseudo = |addresses: &[u8], protocol: u8, len: usize| match (protocol, addresses.len())
        {
            (1, _) => Vec::new(),
            _ => [addresses, &[0, 0, 0, protocol], &(len as u32).to_be_bytes()].concat(),
        };
        let sum = |l4: &mut [u8], family: usize, addresses: &[u8]| {
            if self.transport.is_echo() {
                l4[0] = types[family];
            }
            let pseudo = pseudo(addresses, protocols[family], l4.len());
            ones_sum(&[&pseudo, &*l4].concat())
        };
        // One word is chosen so that the checksum is zero.
        let zero_in = match self.checksum {
            Checksum::RightAndZero => Some((own, here)),
            Checksum::BecomesZero => Some((other, there)),
            _ => None,
        };
        if let Some((family, addresses)) = zero_in {
            l4[word_at..word_at + 2].fill(0);
            let word = !sum(l4, family, addresses);
            l4[word_at..word_at + 2].copy_from_slice(&word.to_be_bytes());
        }
        let right = match (!sum(l4, own, here), self.transport) {
            (0, Transport::Udp) => 0xffff,
            (right, _) => right,
        };
        let checksum = match self.checksum {
            Checksum::Is(checksum) => checksum,
            _ => right,
        };
        l4[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    fn protocol(&self, icmp: u8) -> u8 {
        let odd = self.odd.iter().find_map(|odd| match odd {
            Oddity::Protocol(protocol) => Some(*protocol),
            _ => None,
        });
        odd.unwrap_or(match self.transport {
            Transport::Tcp => 6,
            Transport::Udp => 17,
            Transport::EchoRequest | Transport::EchoReply => icmp,
        })
    }

    fn ipv4(&self, addresses: &[u8], l4: Vec<u8>) -> Vec<u8> {
        let (mut flags, mut version) = (if self.dont_fragment { 0x4000 } else { 0 }, 4);
        let (mut options, mut len_by, mut sum_by) = (Vec::new(), 0, 0);
        for odd in &self.odd {
            match *odd {
                Oddity::Options(bytes) => options.extend(bytes),
                Oddity::Fragment { offset, more } => flags |= offset | u16::from(more) << 13,
                Oddity::ReservedFlag => flags |= 0x8000,
                Oddity::Length(by) => len_by = by,
                Oddity::HeaderChecksum(bits) => sum_by = bits,
                Oddity::Version(odd) => version = odd,
                _ => {}
            }
        }
        let header_len = 20 + options.len();
        let total_len = ((header_len + l4.len()) as u16).wrapping_add_signed(len_by);
        let mut bytes = vec![version << 4 | (header_len / 4) as u8, self.class];
        bytes.extend(total_len.to_be_bytes());
        bytes.extend((self.label as u16).to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend([self.hops, self.protocol(1), 0, 0]);
        bytes.extend(addresses);
        bytes.extend(options);
        sum_header(&mut bytes);
        let checksum = u16::from_be_bytes([bytes[10], bytes[11]]) ^ sum_by;
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend(l4);
        bytes
    }

    fn ipv6(&self, addresses: &[u8], l4: Vec<u8>) -> Vec<u8> {
        let (mut next_header, mut payload) = (self.protocol(58), l4);
        let (mut version, mut len_by) = (6, 0);
        for odd in &self.odd {
            let (kind, rest) = match *odd {
                Oddity::Extension(kind) => (kind, [0; 6]),
                Oddity::Fragment { offset, more } => {
                    let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
                    (44, [high, low, 0, 0, 0, 7])
                }
                Oddity::Length(by) => {
                    len_by = by;
                    continue;
                }
                Oddity::Version(odd) => {
                    version = odd;
                    continue;
                }
                _ => continue,
            };
            payload = [&[next_header, 0][..], &rest, &payload].concat();
            next_header = kind;
        }
        let first = u32::from(version) << 28 | u32::from(self.class) << 20 | self.label & 0xf_ffff;
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.extend(
            (payload.len() as u16)
                .wrapping_add_signed(len_by)
                .to_be_bytes(),
        );
        bytes.extend([next_header, self.hops]);
        bytes.extend(addresses);
        bytes.extend(payload);
        bytes
    }
}

/// Writes the checksum of the IPv4 header at the front, as far as the header is present.
fn sum_header(bytes: &mut [u8]) {
    let len = usize::from(bytes[0] & 15).max(5) * 4;
    if bytes.len() >= len {
        bytes[10..12].fill(0);
        let checksum = !ones_sum(&bytes[..len]);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}
