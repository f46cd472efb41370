// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The headers, read a second time as their RFCs describe them, and both readings compared.

use crate::seeds;
use diolkos_xlat::wire::{source_route, Chain, Fragment, Ipv4, Ipv6, SourceRoute, MAX_EXTENSIONS};

/// The target: a packet, from its IP header on.
pub fn run(packet: &[u8]) {
    ipv4(packet);
    ipv6(packet);
    options(packet);
}

fn ipv4(packet: &[u8]) {
    let Ok(header) = Ipv4::parse(packet) else {
        return;
    };
    assert_eq!(packet[0] >> 4, 4);
    assert_eq!(header.header_len, usize::from(packet[0] & 15) * 4);
    assert!((20..=60).contains(&header.header_len) && header.header_len <= packet.len());
    assert!(header.header_len <= header.total_len);
    if let Ok(whole) = Ipv4::parse_packet(packet) {
        assert_eq!(whole, header);
        assert!(whole.total_len <= packet.len());
        assert_eq!(crate::common::ones_sum(&packet[..whole.header_len]), 0xffff);
        let mut again = [0; 20];
        whole.emit(&mut again);
        if whole.header_len == 20 && packet[6] & 0x80 == 0 {
            // 0 and 0xFFFF are one number in the sum, and `emit` writes one of them.
            let same = again[..10] == packet[..10] && again[12..] == packet[12..20];
            assert!(same, "{again:x?}");
        }
    }
}

fn ipv6(packet: &[u8]) {
    let Ok(header) = Ipv6::parse(packet) else {
        return;
    };
    let mut again = [0; 40];
    header.emit(&mut again);
    assert_eq!(again, packet[..40]);
    assert_eq!(
        Ipv6::parse_packet(packet).is_ok(),
        40 + header.payload_len <= packet.len()
    );

    let chain = Chain::walk(packet, header.next_header);
    let walked = walk(packet);
    assert_eq!(
        chain.map(|chain| (chain.protocol, chain.payload_at)),
        walked.map(|walked| (walked.protocol, walked.at))
    );
    if let (Some(chain), Some(walked)) = (chain, walked) {
        assert_eq!(chain.fragment, walked.fragment);
        assert_eq!(chain.segments_left_at, walked.segments_left_at);
        let plain = walked.at == 40;
        assert_eq!(Chain::empty(header.next_header).is_some(), plain);
    }
}

/// A chain of extension headers, as RFC 8200 section 4 has it.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    /// What follows the chain.
    pub protocol: u8,
    /// Where that begins, bytes from the beginning of the packet.
    pub at: usize,
    /// The first Fragment header.
    pub fragment: Option<Fragment>,
    /// Where the first number of segments left stands that is not zero.
    pub segments_left_at: Option<u32>,
}

/// Walks it; None if it is cut off or too long. The packet has an IPv6 header.
pub fn walk(packet: &[u8]) -> Option<Walked> {
    let mut walked = Walked {
        protocol: packet[6],
        at: 40,
        fragment: None,
        segments_left_at: None,
    };
    let mut headers = 0;
    while [0, 43, 44, 60].contains(&walked.protocol) {
        headers += 1;
        if headers > MAX_EXTENSIONS {
            return None;
        }
        let rest = &packet[walked.at..];
        if rest.len() < 8 {
            return None;
        }
        let len = if walked.protocol == 44 {
            8
        } else {
            (usize::from(rest[1]) + 1) * 8
        };
        if len > rest.len() {
            return None;
        }
        if walked.protocol == 43 && rest[3] != 0 && walked.segments_left_at.is_none() {
            walked.segments_left_at = Some(walked.at as u32 + 3);
        }
        if walked.protocol == 44 && walked.fragment.is_none() {
            walked.fragment = Some(Fragment {
                next_header: rest[0],
                offset: u16::from_be_bytes([rest[2], rest[3]]) / 8,
                more: rest[3] % 2 == 1,
                id: u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]),
            });
        }
        walked.protocol = rest[0];
        walked.at += len;
        if walked.fragment.is_some_and(|fragment| fragment.offset != 0) {
            break; // the middle of something
        }
    }
    Some(walked)
}

/// Options are read from the whole input: as far as these rules go, a header may be of any length.
fn options(bytes: &[u8]) {
    let expected = expect_options(bytes);
    assert_eq!(source_route(bytes).ok(), expected, "{bytes:x?}");
}

/// RFC 791 section 3.1, by index; None for an option whose length cannot be.
fn expect_options(bytes: &[u8]) -> Option<SourceRoute> {
    let (mut at, mut found) = (0, SourceRoute::None);
    while at < bytes.len() && bytes[at] != 0 {
        if bytes[at] == 1 {
            at += 1;
            continue;
        }
        let end = at + usize::from(*bytes.get(at + 1)?);
        if end < at + 2 || end > bytes.len() {
            return None;
        }
        let is_source_route = [0x83, 0x89].contains(&bytes[at]);
        if is_source_route && end < at + 3 {
            return None; // no room for its pointer
        }
        if is_source_route && bytes[at + 2] <= bytes[at + 1] {
            found = SourceRoute::Unexpired;
        }
        at = end;
    }
    Some(found)
}

/// Every vector's packet, and of those with options, the options; and options that are almost something else.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds: Vec<(String, Vec<u8>)> = [
        (
            "source-route-last-byte-left",
            &[131, 7, 7, 192, 0, 2, 9, 0][..],
        ),
        ("source-route-at-its-end", &[131, 7, 8, 192, 0, 2, 9, 0]),
        ("source-route-after-the-end-of-the-list", &[0, 131, 7, 4]),
        ("source-route-without-pointer", &[1, 1, 137, 2]),
        ("option-of-one-byte-too-many", &[1, 7, 8, 4, 0, 0, 0, 0]),
    ]
    .map(|(name, options)| (name.to_owned(), options.to_vec()))
    .to_vec();
    for (name, _, mut packet) in seeds::packets() {
        packet.truncate(256);
        let header_len = usize::from(packet[0] & 15) * 4;
        if packet[0] >> 4 == 4 && header_len > 20 && header_len <= packet.len() {
            seeds.push((format!("{name}-options"), packet[20..header_len].to_vec()));
        }
        seeds.push((name, packet));
    }
    seeds
}
