// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that forwards packets of a cluster (`bpf/steer.bpf.c`) finds the slice that core's `Slices` has: the kernel
//! runs it on packets that never were on a wire.

#[path = "../../src/cluster/addresses.rs"]
mod addresses;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use diolkos_core::slice::{SliceId, Slices};
use diolkos_sys::fastpath::testrun::SteerRun;
use diolkos_sys::fastpath::SteerRules;

const KEY: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
const PREF64: &str = "64:ff9b::";
const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;

/// The program, in which each slice belongs to the node of its number, counted from 1.
fn program(slices: &Slices) -> SteerRun {
    let run = SteerRun::load(&SteerRules {
        key: KEY,
        slices: slices.len() as u32,
        source_prefix_len: slices.source_prefix_len(),
        pref64: vec![(PREF64.parse().expect("a prefix"), 96)],
        addresses: addresses::addresses(slices),
    });
    let run = run.expect("the program loads: run the test as root");
    for id in 0..slices.len() as SliceId {
        run.steering
            .give(id, Some(id + 1))
            .expect("the map takes it");
    }
    run
}

fn cut(pool: &str, ports: RangeInclusive<u16>, size: u16, len: u8) -> Slices {
    let pool = [(pool.parse().expect("a network"), ports)];
    Slices::cut(&pool, size, len, KEY).expect("it can be cut")
}

fn ipv6(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, UDP, 64];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend([0x10, 0, 0, 80, 0, 8, 0, 0]);
    packet
}

/// An IPv4 packet with this in it; `fragment`: its flags and offset.
fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, fragment: u16, inside: &[u8]) -> Vec<u8> {
    let length = (20 + inside.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(inside);
    packet
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    let mut header = source.to_be_bytes().to_vec();
    header.extend(destination.to_be_bytes());
    header.extend([0; 16]);
    header
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_source_has_the_slice_that_core_says() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let to = "64:ff9b::c633:6402".parse().expect("an address");
    for len in [0, 1, 48, 56, 64, 65, 96, 127, 128] {
        let slices = cut("192.0.2.0/28", 1024..=65_535, 4032, len);
        let program = program(&slices);
        for _ in 0..300 {
            let high = u128::from(random(&mut state));
            let from = Ipv6Addr::from_bits(high << 64 | u128::from(random(&mut state)));
            let node = program.node(&ipv6(from, to)).expect("it runs");
            assert_eq!(node, slices.of_source(from) + 1, "{from} of /{len}");
        }
    }
}

#[test]
fn what_is_not_for_the_translator_stays() {
    let slices = cut("192.0.2.0/28", 1024..=65_535, 64_512, 64);
    let program = program(&slices);
    let from: Ipv6Addr = "2001:db8::1".parse().expect("an address");
    for to in ["2001:db8::2", "64:ff9b:1::1", "64:ff9a:ffff::1"] {
        let to = to.parse().expect("an address");
        assert_eq!(program.node(&ipv6(from, to)).expect("it runs"), 0, "{to}");
    }
    let (peer, other) = (Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(192, 0, 2, 16));
    let packet = ipv4(peer, other, UDP, 0, &ports(53, 2000));
    assert_eq!(program.node(&packet).expect("it runs"), 0);
}

#[test]
fn a_port_has_the_slice_that_core_says() {
    let (first, size) = (1024, 4096);
    let slices = cut("192.0.2.0/30", first..=65_535, size, 64);
    let program = program(&slices);
    let peer = Ipv4Addr::new(198, 51, 100, 1);
    for address in 0..4 {
        let to = Ipv4Addr::new(192, 0, 2, address);
        for port in (0..=u16::MAX)
            .step_by(61)
            .chain([1023, 1024, 5119, 5120, 65_535])
        {
            let expected = slices.of_port(to, port).map_or(0, |id| id + 1);
            for protocol in [UDP, TCP] {
                let packet = ipv4(peer, to, protocol, 0, &ports(80, port));
                assert_eq!(
                    program.node(&packet).expect("it runs"),
                    expected,
                    "{to}:{port}"
                );
            }
            // An answer to an echo request of ours, by its identifier.
            let echo = [
                [0, 0, 0, 0],
                [port.to_be_bytes(), [0, 1]].concat().try_into().expect("4"),
            ];
            let packet = ipv4(peer, to, ICMP, 0, &echo.concat());
            assert_eq!(
                program.node(&packet).expect("it runs"),
                expected,
                "echo {port}"
            );
            // An error about a packet that left from here.
            let quoted = ipv4(to, peer, UDP, 0, &ports(port, 53));
            let error = [&[3, 1, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
            let packet = ipv4(Ipv4Addr::new(203, 0, 113, 9), to, ICMP, 0, &error);
            assert_eq!(
                program.node(&packet).expect("it runs"),
                expected,
                "error {port}"
            );
        }
    }
}

/// Behind the first fragment there is no port: only an address of one slice says whose it is.
#[test]
fn a_later_fragment_belongs_to_the_owner_of_the_whole_address() {
    let peer = Ipv4Addr::new(198, 51, 100, 1);
    let to = Ipv4Addr::new(192, 0, 2, 3);
    let fragment = ipv4(peer, to, UDP, 0x00b9, &ports(53, 2000));
    let whole = cut("192.0.2.0/30", 1024..=65_535, 64_512, 64);
    let run = program(&whole);
    assert_eq!(run.node(&fragment).expect("it runs"), 4);
    let parts = cut("192.0.2.0/30", 1024..=65_535, 4096, 64);
    let run = program(&parts);
    assert_eq!(run.node(&fragment).expect("it runs"), 0);
    let first = ipv4(peer, to, UDP, 0x2000, &ports(53, 2000));
    let owner = parts.of_port(to, 2000).expect("it is pooled");
    assert_eq!(run.node(&first).expect("it runs"), owner + 1);
}

#[test]
fn cut_off_packets_stay() {
    let slices = cut("192.0.2.0/30", 1024..=65_535, 64_512, 64);
    let program = program(&slices);
    let to = Ipv4Addr::new(192, 0, 2, 3);
    let quoted = ipv4(to, Ipv4Addr::new(198, 51, 100, 1), UDP, 0, &ports(2000, 53));
    let error = [&[3, 1, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
    let packet = ipv4(Ipv4Addr::new(203, 0, 113, 9), to, ICMP, 0, &error);
    for len in 20..packet.len() {
        // A whole address needs no port; what is cut within the quoted header names no address.
        let node = program.node(&packet[..len]).expect("it runs");
        let expected = if (28..48).contains(&len) { 0 } else { 4 };
        assert_eq!(node, expected, "{len} bytes");
    }
}
