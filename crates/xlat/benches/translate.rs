// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nanoseconds per packet on one core: sizes, transports, both directions, and a table with one
//! mapping or 100 000.
//!
//! Every iteration copies 64 header bytes of the next of 1024 flows into the buffer, and this copy
//! is included in the time. Both tables use the same flows; with the large table, each flow has a
//! different, randomly chosen mapping.

#![allow(missing_docs)] // criterion_group! makes a function without.

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use diolkos_xlat::{Config, Eam, Env, Offload, Outbox, Packet, Translator, Verdict, HEADROOM};
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const FLOWS: usize = 1024;
const MAPPINGS: u32 = 100_000;
const HEADERS: usize = 64;

struct Count(u16);

impl Env for Count {
    fn now(&mut self) -> Duration {
        Duration::ZERO
    }
    fn ipv4_id(&mut self) -> u16 {
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

struct Nothing;

impl Outbox for Nothing {
    fn emit(&mut self, _packet: &[u8], _offload: Offload) {}
}

/// Nodes behind the translator are in 198.18.0.0/15, or 2001:db8::/111.
fn node4(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc612_0000 + number)
}

fn node6(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(number))
}

fn translator(mappings: u32) -> Translator {
    let eam = match mappings {
        1 => vec![Eam {
            v4: "198.18.0.0/15".parse().unwrap(),
            v6: "2001:db8::/111".parse().unwrap(),
        }],
        many => (0..many)
            .map(|n| Eam {
                v4: node4(n).into(),
                v6: node6(n).into(),
            })
            .collect(),
    };
    let config = Config {
        pref64: vec!["64:ff9b::/96".parse().unwrap()],
        eam,
        ..Config::default()
    };
    Translator::new(&config).unwrap()
}

fn transport(protocol: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0x13, 0x89];
    match protocol {
        6 => bytes.extend([
            0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0xff, 0xff, 0x12, 0x34, 0, 0,
        ]),
        _ => bytes.extend([(len as u16).to_be_bytes(), [0x12, 0x34]].concat()),
    }
    bytes.resize(len, 0);
    bytes
}

/// A packet from a node behind the translator to a peer on the IPv4 side.
fn from_ipv6(protocol: u8, len: usize, number: u32) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((len as u16 - 40).to_be_bytes());
    bytes.extend([protocol, 64]);
    bytes.extend(node6(number).octets());
    bytes.extend("64:ff9b::8.8.8.8".parse::<Ipv6Addr>().unwrap().octets());
    bytes.extend(transport(protocol, len - 40));
    bytes
}

/// A packet from the peer to a node behind the translator.
fn from_ipv4(protocol: u8, len: usize, number: u32) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((len as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 8, 8, 8, 8]);
    bytes.extend(node4(number).octets());
    let sum = bytes
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum::<u32>();
    let checksum = !((sum >> 16) + (sum & 0xffff)) as u16;
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(transport(protocol, len - 20));
    bytes
}

fn translate(c: &mut Criterion) {
    let tables = [1, MAPPINGS].map(|mappings| (mappings, translator(mappings)));
    // A fixed sequence that is unrelated to the order of the table.
    let numbers: Vec<u32> = (1..=FLOWS as u32)
        .map(|n| n.wrapping_mul(2_654_435_761) % MAPPINGS)
        .collect();
    let mut group = c.benchmark_group("translate");
    group.throughput(Throughput::Elements(1));
    for (direction, build) in [
        ("6to4", from_ipv6 as fn(u8, usize, u32) -> Vec<u8>),
        ("4to6", from_ipv4),
    ] {
        for (name, protocol) in [("tcp", 6), ("udp", 17)] {
            for len in [64, 1480] {
                let flows: Vec<[u8; HEADERS]> = numbers
                    .iter()
                    .map(|&n| build(protocol, len, n)[..HEADERS].try_into().unwrap())
                    .collect();
                for (mappings, translator) in &tables {
                    let mut buffer = vec![0; HEADROOM];
                    buffer.extend(build(protocol, len, 0));
                    let mut env = Count(0);
                    let mut next = 0;
                    group.bench_function(format!("{direction}/{name}/{len}/eam{mappings}"), |b| {
                        b.iter(|| {
                            next = (next + 1) % FLOWS;
                            buffer[HEADROOM..HEADROOM + HEADERS].copy_from_slice(&flows[next]);
                            let mut packet = Packet::new(
                                &mut buffer,
                                HEADROOM,
                                HEADROOM + len,
                                Offload::default(),
                            );
                            let verdict = translator.translate(&mut packet, &mut env, &mut Nothing);
                            assert_eq!(black_box(verdict), Verdict::Forward);
                        });
                    });
                }
            }
        }
    }
}

criterion_group!(benches, translate);
criterion_main!(benches);
