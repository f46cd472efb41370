// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A test environment for the translator: fixed time, counted identifications, and an outbox that
//! keeps everything. Also a packet builder that shares no code with the translator: it adds
//! checksums word by word.
#![allow(
    dead_code,
    reason = "each test that includes this file uses another part of it"
)]

use diolkos_xlat::{Config, Env, Offload, Outbox, Packet, Translator, Verdict, HEADROOM};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Time stands still until the test advances it; identifications count up.
pub struct World {
    pub now: Duration,
    pub next_ipv4_id: u16,
    pub sent: Vec<(Vec<u8>, Offload)>,
}

pub struct Clock<'a>(&'a mut World);

impl Env for Clock<'_> {
    fn now(&mut self) -> Duration {
        self.0.now
    }
    fn ipv4_id(&mut self) -> u16 {
        self.0.next_ipv4_id = self.0.next_ipv4_id.wrapping_add(1);
        self.0.next_ipv4_id
    }
}

pub struct Sink<'a>(&'a mut Vec<(Vec<u8>, Offload)>);

impl Outbox for Sink<'_> {
    fn emit(&mut self, packet: &[u8], offload: Offload) {
        self.0.push((packet.to_vec(), offload));
    }
}

impl World {
    pub fn new() -> World {
        World {
            now: Duration::ZERO,
            next_ipv4_id: 0x1000,
            sent: Vec::new(),
        }
    }

    pub fn clock(&mut self) -> Clock<'_> {
        Clock(self)
    }
}

/// The result for one packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// The translated packet, if the verdict is `Forward`.
    pub packet: Vec<u8>,
    pub offload: Offload,
    /// The packets in the outbox.
    pub sent: Vec<(Vec<u8>, Offload)>,
}

/// Translates one packet in a new environment.
pub fn run(translator: &Translator, bytes: &[u8], offload: Offload) -> Outcome {
    run_in(&mut World::new(), translator, bytes, offload)
}

pub fn run_in(
    world: &mut World,
    translator: &Translator,
    bytes: &[u8],
    offload: Offload,
) -> Outcome {
    let mut buffer = vec![0xaa; HEADROOM];
    buffer.extend_from_slice(bytes);
    let mut packet = Packet::new(&mut buffer, HEADROOM, HEADROOM + bytes.len(), offload);
    let mut sent = Vec::new();
    let verdict = translator.translate(&mut packet, &mut Clock(world), &mut Sink(&mut sent));
    let offload = packet.offload;
    let packet = if verdict == Verdict::Forward {
        packet.bytes().to_vec()
    } else {
        Vec::new()
    };
    Outcome {
        verdict,
        packet,
        offload,
        sent,
    }
}

pub fn translator(change: impl FnOnce(&mut Config)) -> Translator {
    let mut config = Config {
        pref64: vec!["2001:db8:64::/96".parse().unwrap()],
        ..Config::default()
    };
    change(&mut config);
    Translator::new(&config).unwrap()
}

pub fn v4(addr: &str) -> Ipv4Addr {
    addr.parse().unwrap()
}

pub fn v6(addr: &str) -> Ipv6Addr {
    addr.parse().unwrap()
}

/// The one's complement sum, word by word with end-around carry (RFC 1071 section 1).
pub fn ones_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u16;
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
        let (added, carry) = sum.overflowing_add(word);
        sum = added + u16::from(carry);
    }
    sum
}

/// An IPv4 packet; `l4` is its payload.
#[derive(Clone, Debug)]
pub struct V4 {
    pub tos: u8,
    pub id: u16,
    pub flags_and_offset: u16,
    pub ttl: u8,
    pub protocol: u8,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub options: Vec<u8>,
    pub l4: Vec<u8>,
}

pub const DF: u16 = 0x4000;
pub const MF: u16 = 0x2000;

impl V4 {
    pub fn new(src: &str, dst: &str, protocol: u8, l4: Vec<u8>) -> V4 {
        V4 {
            tos: 0,
            id: 0,
            flags_and_offset: DF,
            ttl: 64,
            protocol,
            src: v4(src),
            dst: v4(dst),
            options: vec![],
            l4,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let header_len = 20 + self.options.len();
        let mut bytes = vec![0x40 | (header_len / 4) as u8, self.tos];
        bytes.extend(((header_len + self.l4.len()) as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.flags_and_offset.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.src.octets());
        bytes.extend(self.dst.octets());
        bytes.extend(&self.options);
        let checksum = !ones_sum(&bytes);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend(&self.l4);
        bytes
    }

    pub fn pseudo(&self) -> Vec<u8> {
        let mut bytes = self.src.octets().to_vec();
        bytes.extend(self.dst.octets());
        bytes.extend([0, self.protocol]);
        bytes.extend((self.l4.len() as u16).to_be_bytes());
        bytes
    }
}

/// An IPv6 packet; `payload` is the part after the header.
#[derive(Clone, Debug)]
pub struct V6 {
    pub class: u8,
    pub flow: u32,
    pub next_header: u8,
    pub hop_limit: u8,
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub payload: Vec<u8>,
}

impl V6 {
    pub fn new(src: &str, dst: &str, next_header: u8, payload: Vec<u8>) -> V6 {
        V6 {
            class: 0,
            flow: 0,
            next_header,
            hop_limit: 64,
            src: v6(src),
            dst: v6(dst),
            payload,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = (6 << 28 | u32::from(self.class) << 20 | self.flow)
            .to_be_bytes()
            .to_vec();
        bytes.extend((self.payload.len() as u16).to_be_bytes());
        bytes.extend([self.next_header, self.hop_limit]);
        bytes.extend(self.src.octets());
        bytes.extend(self.dst.octets());
        bytes.extend(&self.payload);
        bytes
    }

    pub fn pseudo(&self, protocol: u8, l4_len: usize) -> Vec<u8> {
        let mut bytes = self.src.octets().to_vec();
        bytes.extend(self.dst.octets());
        bytes.extend((l4_len as u32).to_be_bytes());
        bytes.extend([0, 0, 0, protocol]);
        bytes
    }
}

/// Fills in the checksum of `l4` at byte `at`, over `pseudo` and `l4`.
pub fn with_checksum(mut l4: Vec<u8>, at: usize, pseudo: &[u8]) -> Vec<u8> {
    l4[at..at + 2].fill(0);
    let checksum = !ones_sum(&[pseudo, &l4].concat());
    l4[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    l4
}

/// A UDP datagram without its checksum.
pub fn udp(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0x13, 0x89];
    bytes.extend((8 + data.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    bytes
}

/// A TCP segment without its checksum.
pub fn tcp(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![
        0x13, 0x88, 0x13, 0x89, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0,
    ];
    bytes.extend(data);
    bytes
}

/// An ICMP echo message without its checksum.
pub fn echo(icmp_type: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![icmp_type, 0, 0, 0, 0x12, 0x34, 0, 1];
    bytes.extend(data);
    bytes
}

/// Adds the checksum of a protocol. UDP and UDP-Lite never send zero (RFC 768, RFC 3828).
fn checksummed(protocol: u8, l4: Vec<u8>, pseudo: &[u8]) -> Vec<u8> {
    let at = checksum_at(protocol);
    let mut l4 = with_checksum(l4, at, pseudo);
    if [17, 136].contains(&protocol) && l4[at..at + 2] == [0, 0] {
        l4[at..at + 2].fill(0xff);
    }
    l4
}

/// Offset of a transport checksum.
pub fn checksum_at(protocol: u8) -> usize {
    match protocol {
        6 => 16,
        1 | 58 => 2,
        _ => 6,
    }
}

/// A whole IPv4 packet with a correct transport checksum.
pub fn packet4(src: &str, dst: &str, protocol: u8, l4: Vec<u8>) -> V4 {
    let mut packet = V4::new(src, dst, protocol, l4);
    let pseudo = if protocol == 1 {
        vec![]
    } else {
        packet.pseudo()
    };
    packet.l4 = checksummed(protocol, packet.l4, &pseudo);
    packet
}

/// A whole IPv6 packet with a correct transport checksum.
pub fn packet6(src: &str, dst: &str, protocol: u8, l4: Vec<u8>) -> V6 {
    let mut packet = V6::new(src, dst, protocol, l4);
    let pseudo = packet.pseudo(protocol, packet.payload.len());
    packet.payload = checksummed(protocol, packet.payload, &pseudo);
    packet
}

/// A whole ICMPv4 error that ends with `quote`, which may include extensions.
pub fn error4(src: &str, dst: &str, icmp_type: u8, code: u8, rest: [u8; 4], quote: &[u8]) -> V4 {
    let mut message = vec![icmp_type, code, 0, 0];
    message.extend(rest);
    message.extend(quote);
    packet4(src, dst, 1, message)
}

/// A whole ICMPv6 error that ends with `quote`, which may include extensions.
pub fn error6(src: &str, dst: &str, icmp_type: u8, code: u8, rest: [u8; 4], quote: &[u8]) -> V6 {
    let mut message = vec![icmp_type, code, 0, 0];
    message.extend(rest);
    message.extend(quote);
    packet6(src, dst, 58, message)
}

/// A Fragment header.
pub fn fragment_header(next_header: u8, offset: u16, more: bool, id: u32) -> Vec<u8> {
    let mut bytes = vec![next_header, 0];
    bytes.extend((offset << 3 | u16::from(more)).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes
}

/// Bytes that differ from each other.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}
