// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbour Discovery from the link, against a second reader that goes through RFC 4861 sections 7.1.1 and 7.1.2 one
//! sentence after the other.
//!
//! how | packet, from its IPv6 header on. Unless `how` is 0, length and checksum are put right first: few inputs would
//! get past them.

use crate::common::ones_sum;
use crate::input::Input;
use diolkos_kernel::neighbour::parse as neighbour;
use std::net::Ipv6Addr;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let how = input.byte();
    let mut packet = input.0.to_vec();
    if how != 0 && (44..1500).contains(&packet.len()) {
        put_right(&mut packet);
    }
    let read = neighbour(&packet).map(|message| (message.kind, message.source, message.target));
    assert_eq!(read, expect(&packet), "{packet:x?}");
}

/// Sets length and checksum of an ICMPv6 packet.
pub(crate) fn put_right(packet: &mut [u8]) {
    let len = packet.len() - 40;
    packet[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    packet[42..44].fill(0);
    let checksum = !ones_sum(&[&pseudo(packet, len), &packet[40..]].concat());
    packet[42..44].copy_from_slice(&checksum.to_be_bytes());
}

/// RFC 8200 section 8.1.
pub(crate) fn pseudo(packet: &[u8], len: usize) -> Vec<u8> {
    [&packet[8..40], &(len as u32).to_be_bytes(), &[0, 0, 0, 58]].concat()
}

/// Type, source and target of a message that is valid.
fn expect(packet: &[u8]) -> Option<(u8, Ipv6Addr, Ipv6Addr)> {
    if packet.len() < 40 || packet[0] >> 4 != 6 || packet[6] != 58 {
        return None;
    }
    let end = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let message = packet.get(40..end)?;
    let address = |bytes: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(bytes).expect("16 bytes"));
    let (source, destination) = (address(&packet[8..24]), address(&packet[24..40]));
    let checksum = ones_sum(&[&pseudo(packet, message.len()), message].concat());
    // "The IP Hop Limit field has a value of 255", "ICMP Checksum is valid", "ICMP length (derived from the IP length)
    // is 24 or more octets", "ICMP Code is 0".
    if packet[7] != 255 || message.len() < 24 || checksum != 0xffff || message[1] != 0 {
        return None;
    }
    let target = address(&message[8..24]);
    if target.is_multicast() {
        return None;
    }
    let mut source_link_address = false;
    let mut rest = &message[24..];
    while rest.len() >= 2 {
        let len = usize::from(rest[1]) * 8;
        if len == 0 || len > rest.len() {
            return None;
        }
        source_link_address |= rest[0] == 1;
        rest = &rest[len..];
    }
    match message[0] {
        135 if source.is_unspecified() => {
            let group = destination.octets();
            let solicited_node = group[..13] == [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
            if !solicited_node || source_link_address {
                return None;
            }
        }
        135 => {}
        136 if destination.is_multicast() && message[4] & 0x40 != 0 => return None,
        136 => {}
        _ => return None,
    }
    Some((message[0], source, target))
}

/// A solicitation with its sender's address, a probe, advertisements for all and for one; and each rule broken once.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let us = "2001:db8::1234:5678:9abc:def0";
    let group = "ff02::1:ffbc:def0";
    let mac = [1, 1, 2, 0, 0, 0, 0, 1];
    let target_mac = [2, 1, 2, 0, 0, 0, 0, 1];
    let messages = [
        ("solicitation", 135, 0, "2001:db8::2", group, &mac[..]),
        ("probe", 135, 0, "::", group, &[]),
        ("probe-with-source", 135, 0, "::", group, &mac),
        ("probe-for-all", 135, 0, "::", "ff02::1", &[]),
        (
            "advertisement-for-all",
            136,
            0x20,
            us,
            "ff02::1",
            &target_mac,
        ),
        (
            "advertisement-solicited-by-all",
            136,
            0x60,
            us,
            "ff02::1",
            &target_mac,
        ),
        ("advertisement", 136, 0x60, us, "2001:db8::2", &target_mac),
        ("another-type", 137, 0, us, "ff02::1", &[]),
    ];
    let mut seeds = Vec::new();
    for (name, kind, flags, source, destination, option) in messages {
        let octets = |text: &str| text.parse::<Ipv6Addr>().expect("an address").octets();
        let mut packet = vec![1, 0x60, 0, 0, 0, 0, 0, 58, 255];
        packet.extend([octets(source), octets(destination)].concat());
        packet.extend([kind, 0, 0, 0, flags, 0, 0, 0]);
        packet.extend(octets(us));
        packet.extend(option);
        seeds.push((name.to_owned(), packet));
    }
    let solicitation = seeds[0].1.clone();
    for (name, at, value) in [
        ("forwarded", 7, 254),
        ("another-code", 41, 1),
        ("target-is-a-group", 48, 0xff),
        ("option-without-length", 65, 0),
        ("option-beyond-the-end", 65, 2),
    ] {
        let mut packet = solicitation.clone();
        packet[1 + at] = value;
        seeds.push((name.to_owned(), packet));
    }
    let mut wrong_checksum = [vec![0], solicitation[1..].to_vec()].concat();
    put_right(&mut wrong_checksum[1..]);
    wrong_checksum[1 + 43] ^= 1;
    seeds.push(("wrong-checksum".to_owned(), wrong_checksum));
    seeds
}
