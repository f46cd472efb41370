// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Router advertisements from the link, against a second reader that goes through RFC 4861 section 6.1.2 and RFC 8781
//! section 4 one sentence after the other.
//!
//! how | packet, from its IPv6 header on. Unless `how` is 0, length and checksum are put right first: few inputs would
//! get past them.

use crate::common::ones_sum;
use crate::input::Input;
use crate::neighbour::{pseudo, put_right};
use diolkos_pref64::advertisement::read;
use std::net::Ipv6Addr;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let how = input.byte();
    let mut packet = input.0.to_vec();
    if how != 0 && (44..1500).contains(&packet.len()) {
        put_right(&mut packet);
    }
    let told = read(&packet).ok().map(|advertisement| {
        let prefixes = advertisement.pref64.iter();
        let row = |(prefix, lifetime): &(ipnet::Ipv6Net, std::time::Duration)| {
            (prefix.addr(), prefix.prefix_len(), lifetime.as_secs())
        };
        (advertisement.router, prefixes.map(row).collect())
    });
    assert_eq!(told, expect(&packet), "{packet:x?}");
}

/// Address and length of a prefix, and for how many seconds.
type Offer = (Ipv6Addr, u8, u64);

/// Router and offers of an advertisement that is valid.
fn expect(packet: &[u8]) -> Option<(Ipv6Addr, Vec<Offer>)> {
    if packet.len() < 40 || packet[0] >> 4 != 6 || packet[6] != 58 {
        return None;
    }
    let end = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let message = packet.get(40..end)?;
    // "IP Source Address is a link-local address", "The IP Hop Limit field has a value of 255".
    if packet[8] != 0xfe || packet[9] & 0xc0 != 0x80 || packet[7] != 255 {
        return None;
    }
    // "ICMP Checksum is valid", "ICMP Code is 0", "ICMP length (derived from the IP length) is 16 or more octets".
    let checksum = ones_sum(&[&pseudo(packet, message.len()), message].concat());
    if checksum != 0xffff || message.len() < 16 || message[0] != 134 || message[1] != 0 {
        return None;
    }
    let mut offers = Vec::new();
    let mut rest = &message[16..];
    // "All included options have a length that is greater than zero."
    while rest.len() >= 2 {
        let len = usize::from(rest[1]) * 8;
        if len == 0 || len > rest.len() {
            return None;
        }
        // "The receiver MUST ignore the PREF64 option if the Length field value is not 2."
        if rest[0] == 38 && len == 16 {
            offers.extend(offer(&rest[..16]));
        }
        rest = &rest[len..];
    }
    let router: [u8; 16] = packet[8..24].try_into().expect("16 bytes");
    Some((router.into(), offers))
}

fn offer(option: &[u8]) -> Option<Offer> {
    let scaled = u64::from(option[2]) << 5 | u64::from(option[3]) >> 3;
    let length = match option[3] & 7 {
        0 => 96,
        1 => 64,
        2 => 56,
        3 => 48,
        4 => 40,
        5 => 32,
        _ => return None,
    };
    let mut octets = [0; 16];
    let kept = usize::from(length) / 8;
    octets[..kept].copy_from_slice(&option[4..4 + kept]);
    // What RFC 4291 does not let a prefix be. (Bits 64 to 71 of 96 should be zero, and networks have others.)
    let reserved = octets[..2] == [0, 0];
    let multicast = octets[0] == 0xff;
    let link_local = octets[0] == 0xfe && octets[1] & 0xc0 == 0x80;
    let fit = !reserved && !multicast && !link_local;
    fit.then_some((octets.into(), length, scaled * 8))
}

/// Every length code, several options, and each rule broken once.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let option = |kind: u8, units: u8, word: u16, prefix: &str| {
        let prefix: Ipv6Addr = prefix.parse().expect("an address");
        let front = [&[kind, units][..], &word.to_be_bytes()].concat();
        [&front, &prefix.octets()[..12]].concat()
    };
    let advertisement = |source: &str, options: &[u8]| {
        let octets = |text: &str| text.parse::<Ipv6Addr>().expect("an address").octets();
        let mut packet = vec![1, 0x60, 0, 0, 0, 0, 0, 58, 255];
        packet.extend([octets(source), octets("ff02::1")].concat());
        packet.extend([134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend(options);
        packet
    };
    let mut seeds = Vec::new();
    for code in 0..8 {
        let options = option(38, 2, 600 | code, "2001:db8:1:2:3:4::");
        seeds.push((
            format!("length-code-{code}"),
            advertisement("fe80::1", &options),
        ));
    }
    let several = [
        option(38, 2, 0xfff8, "64:ff9b::"),
        vec![1, 1, 2, 0, 0, 0, 0, 1],
        option(38, 2, 0, "2001:db8:64::"),
        option(38, 2, 600, "ff0e::"),
        option(38, 2, 600, "::ffff:0:0"),
    ];
    let good = advertisement("fe80::1", &several.concat());
    for (name, at, value) in [
        ("several", 0, 0x60),
        ("forwarded", 7, 254),
        ("not-link-local", 8, 0x20),
        ("another-type", 40, 133),
        ("another-code", 41, 1),
        ("option-without-length", 57, 0),
        ("option-of-another-length", 57, 3),
        ("option-beyond-the-end", 57, 200),
    ] {
        let mut packet = good.clone();
        packet[1 + at] = value;
        seeds.push((name.to_owned(), packet));
    }
    seeds
}
