// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for the stateful law: of few nodes and few peers, so that they meet again, and some with odd
//! properties.
//!
//! seed, and what the tables say ─► flow, direction, flags ─► bytes

use super::common::ones_sum;
use super::grammar::options;
use super::input::{Input, Way};
use super::setup::Setup;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::Nat64;
use diolkos_xlat::addr::rfc6052::Pref64;
use fastrand::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

/// The flags of a segment to choose from, with the usual ones more often.
const FLAGS: [u8; 16] = [
    ACK,
    ACK,
    ACK | 0x08,
    ACK,
    ACK,
    ACK,
    ACK,
    ACK,
    ACK,
    SYN,
    SYN,
    SYN | ACK,
    SYN | ACK,
    FIN | ACK,
    RST,
    0,
];

/// Returns the next packet.
pub fn next(setup: &Setup, nat64: &Nat64, rng: &mut Rng) -> Input {
    let protocol = Protocol::ALL[rng.usize(..3)];
    // Mostly of a few, so that they meet again.
    let ports = [2, 2, 2, 400][rng.usize(..4)];
    let node = Endpoint6 {
        addr: Ipv6Addr::from_bits(0x2001_0db8_0001 << 80 | u128::from(rng.u8(..6)) << 64 | 0x1234),
        port: 4000 + rng.u16(..ports),
    };
    let peer = Endpoint4 {
        addr: Ipv4Addr::new(8, 8, 4, rng.u8(1..4)),
        port: [53, 443][rng.usize(..2)],
    };
    let stranger = Endpoint4 {
        addr: Ipv4Addr::new(192, 0, 2, rng.u8(..8)),
        port: rng.u16(1024..),
    };
    // Another node, for the packet that turns back.
    let other = Endpoint6 {
        addr: Ipv6Addr::from_bits(node.addr.to_bits() ^ 1 << 64),
        ..node
    };
    let bound = |of: Endpoint6| nat64.state().v4_of(protocol, of).unwrap_or(stranger);
    let mut bytes = if rng.bool() {
        let to = match rng.u8(..12) {
            0 => bound(other),
            _ => peer,
        };
        let prefix = match rng.u8(..8) {
            0 => setup.config.pref64[rng.usize(..setup.config.pref64.len())],
            _ => setup.config.pref64[0],
        };
        from_ipv6(
            protocol,
            node,
            (Pref64::new(prefix).embed(to.addr), to.port),
            rng,
        )
    } else {
        let from = match rng.u8(..12) {
            0 => bound(other), // Who says to be a node.
            _ => peer,
        };
        from_ipv4(protocol, from, bound(node), rng)
    };
    if rng.u8(..20) == 0 {
        let at = rng.usize(..bytes.len().min(70));
        bytes[at] = rng.u8(..);
    }
    Input {
        way: match bytes[0] >> 4 {
            6 => Way::SixToFour,
            _ => Way::FourToSix,
        },
        bytes,
        gso_size: None,
    }
}

fn from_ipv6(protocol: Protocol, src: Endpoint6, dst: (Ipv6Addr, u16), rng: &mut Rng) -> Vec<u8> {
    let number = [6, 17, 58][protocol.index()];
    let echo = [128, 129][rng.usize(..2)];
    let mut l4 = transport(protocol, (src.port, dst.1), echo, rng);
    let mut addresses = src.addr.octets().to_vec();
    addresses.extend(dst.0.octets());
    sum(protocol, &mut l4, Some((&addresses, number)));
    let mut bytes = vec![0x60, rng.u8(..), 0, 0];
    bytes.extend((l4.len() as u16).to_be_bytes());
    bytes.extend([number, hops(rng)]);
    bytes.extend(addresses);
    bytes.extend(l4);
    bytes
}

fn from_ipv4(protocol: Protocol, src: Endpoint4, dst: Endpoint4, rng: &mut Rng) -> Vec<u8> {
    let number = [6, 17, 1][protocol.index()];
    let echo = [8, 0][rng.usize(..2)];
    // An ICMP query has one identifier, which is that of the binding.
    let mut l4 = transport(protocol, (src.port, dst.port), echo, rng);
    if protocol == Protocol::Icmp {
        l4[4..6].copy_from_slice(&dst.port.to_be_bytes());
    }
    let addresses = [src.addr.octets(), dst.addr.octets()].concat();
    let pseudo = (protocol != Protocol::Icmp).then_some((&addresses[..], number));
    sum(protocol, &mut l4, pseudo);
    let mut bytes = vec![0x45, rng.u8(..)];
    bytes.extend((20 + l4.len() as u16).to_be_bytes());
    bytes.extend([0, 1, rng.u8(..2) << 6, 0, hops(rng), number, 0, 0]);
    bytes.extend(addresses);
    let checksum = !ones_sum(&bytes);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(l4);
    bytes
}

fn hops(rng: &mut Rng) -> u8 {
    match rng.u8(..30) {
        0 => rng.u8(..2),
        _ => 64,
    }
}

/// Returns header and data, without checksum. `echo` is the type of an ICMP message.
fn transport(protocol: Protocol, ports: (u16, u16), echo: u8, rng: &mut Rng) -> Vec<u8> {
    let data: Vec<u8> = match rng.u8(..10) {
        0 => vec![0; rng.usize(..1500)],
        1 => (0..rng.usize(1180..1500)).map(|_| rng.u8(..)).collect(),
        _ => (0..rng.usize(..64)).map(|_| rng.u8(..)).collect(),
    };
    let (first, second) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    let mut l4 = match protocol {
        Protocol::Tcp => {
            let flags = FLAGS[rng.usize(..FLAGS.len())];
            let options = match (flags & SYN != 0, rng.u8(..16)) {
                (true, 0) => options::of_syn(None, rng),
                // MSS 1460, as most systems send it.
                (true, 1..10) => vec![2, 4, 0x05, 0xb4, 1, 3, 3, 7],
                _ => Vec::new(),
            };
            let words = 5 + options.len() as u8 / 4;
            [
                &first[..],
                &second,
                &[
                    0,
                    0,
                    0,
                    1,
                    0,
                    0,
                    0,
                    2,
                    words << 4,
                    flags,
                    255,
                    255,
                    0,
                    0,
                    0,
                    0,
                ],
                &options,
            ]
            .concat()
        }
        Protocol::Udp => {
            let len = (8 + data.len() as u16).to_be_bytes();
            [&first[..], &second, &len, &[0, 0]].concat()
        }
        Protocol::Icmp => {
            let sequence = [0, 1, rng.u16(..)][rng.usize(..3)].to_be_bytes();
            [&[echo, 0, 0, 0][..], &first, &sequence].concat()
        }
    };
    l4.extend(data);
    l4
}

/// Writes the checksum. `pseudo` has the addresses and the protocol of the pseudo-header.
fn sum(protocol: Protocol, l4: &mut [u8], pseudo: Option<(&[u8], u8)>) {
    let at = [16, 6, 2][protocol.index()];
    let mut summed = l4.to_vec();
    if let Some((addresses, number)) = pseudo {
        summed = [
            addresses,
            &[0, 0, 0, number],
            &(l4.len() as u32).to_be_bytes(),
            l4,
        ]
        .concat();
    }
    let checksum = match !ones_sum(&summed) {
        0 if protocol == Protocol::Udp => 0xffff,
        checksum => checksum,
    };
    l4[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}
