// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answers of a translator, in safe Rust, from the text of the RFCs: a frame in, a frame or nothing out. The
//! program in `bpf/answer.bpf.c` may decline what this answers; its answers are the same as these.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::common::ones_sum;
use ipnet::{Ipv4Net, Ipv6Net};

pub const ETHERNET: usize = 14;
const ARP: [u8; 2] = [0x08, 0x06];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const BROADCAST: [u8; 6] = [0xff; 6];
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// An address or network, and whether echo requests are answered.
pub type Served<N> = (N, bool);

/// An interface that answers.
pub struct Reference {
    pub mac: [u8; 6],
    pub v4: Vec<Served<Ipv4Net>>,
    pub v6: Vec<Served<Ipv6Net>>,
}

impl Reference {
    /// Returns the answer to a frame.
    pub fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let (header, rest) = frame.split_at_checked(ETHERNET)?;
        let (to, from, kind) = (mac(&header[..6])?, mac(&header[6..12])?, &header[12..]);
        if from == self.mac {
            return None;
        }
        match kind {
            kind if kind == ARP => self.arp(to, rest),
            kind if kind == IPV4 => self.echo4(to, from, rest),
            kind if kind == IPV6 && rest.get(6) == Some(&ICMPV6) => match rest.get(40) {
                Some(135) => self.neighbour(to, from, rest),
                Some(128) => self.echo6(to, from, rest),
                _ => None,
            },
            _ => None,
        }
    }

    fn serves4(&self, address: Ipv4Addr) -> Option<bool> {
        let around = self.v4.iter().filter(|(net, _)| net.contains(&address));
        around
            .max_by_key(|(net, _)| net.prefix_len())
            .map(|(_, echo)| *echo)
    }

    fn serves6(&self, address: Ipv6Addr) -> Option<bool> {
        let around = self.v6.iter().filter(|(net, _)| net.contains(&address));
        around
            .max_by_key(|(net, _)| net.prefix_len())
            .map(|(_, echo)| *echo)
    }

    /// RFC 826, "Packet Reception"; RFC 5227 sections 1.1 and 2.4.
    fn arp(&self, to: [u8; 6], rest: &[u8]) -> Option<Vec<u8>> {
        let arp = rest.get(..28)?;
        if arp[..8] != [0, 1, 0x08, 0, 6, 4, 0, 1] {
            return None;
        }
        let (sender_mac, sender) = (mac(&arp[8..14])?, v4(&arp[14..18])?);
        let target = v4(&arp[24..28])?;
        self.serves4(target)?;
        let is_probe = sender.is_unspecified();
        let is_sound = (to == BROADCAST || to == self.mac)
            && is_of_one(sender_mac)
            && sender_mac != self.mac
            && (is_probe || is_of_host4(sender) && self.serves4(sender).is_none());
        if !is_sound {
            return None;
        }
        let mut reply = ethernet(sender_mac, self.mac, ARP);
        reply.extend([0, 1, 0x08, 0, 6, 4, 0, 2]);
        reply.extend(self.mac);
        reply.extend(target.octets());
        reply.extend(sender_mac);
        reply.extend(sender.octets());
        Some(reply)
    }

    /// RFC 4861 sections 7.1.1 and 7.2.4.
    fn neighbour(&self, to: [u8; 6], from: [u8; 6], rest: &[u8]) -> Option<Vec<u8>> {
        let (header, body) = sound6(rest)?;
        let (source, destination) = (v6(&header[8..24])?, v6(&header[24..40])?);
        let target = v6(body.get(8..24)?)?;
        self.serves6(target)?;
        let is_intact = sum6(source, destination, body) == 0xffff;
        if header[7] != 255 || body[1] != 0 || !is_intact {
            return None;
        }
        let group = solicited_node(target);
        let is_to_group = destination == group;
        let is_to_us = to == self.mac && (is_to_group || destination == target);
        let is_probe = source.is_unspecified();
        if !(is_to_us || is_to_group && to == group_mac(group))
            || !is_probe && (!is_of_host6(source) || self.serves6(source).is_some())
        {
            return None;
        }
        let named = source_address(&body[24..])?;
        match (is_probe, named) {
            (true, Some(_)) => return None,
            (true, None) if !is_to_group => return None,
            (false, None) if is_to_group => return None,
            _ => {}
        }
        let asker = named.unwrap_or(from);
        if !is_of_one(asker) || asker == self.mac {
            return None;
        }
        // It may be omitted only if the requester knows it, and is omitted where it would make the answer longer.
        let names_us = is_to_group || body.len() > 24;
        let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let (back, back_mac, solicited) = match is_probe {
            true => (all_nodes, group_mac(all_nodes), 0),
            false => (source, asker, 0x40),
        };
        let mut answer = vec![
            136,
            0,
            0,
            0,
            solicited | if names_us { 0x20 } else { 0 },
            0,
            0,
            0,
        ];
        answer.extend(target.octets());
        if names_us {
            answer.extend([2, 1]);
            answer.extend(self.mac);
        }
        let checksum = !sum6(target, back, &answer);
        answer[2..4].copy_from_slice(&checksum.to_be_bytes());

        let mut reply = ethernet(back_mac, self.mac, IPV6);
        reply.extend([0x60, 0, 0, 0]);
        reply.extend((answer.len() as u16).to_be_bytes());
        reply.extend([ICMPV6, 255]);
        reply.extend(target.octets());
        reply.extend(back.octets());
        reply.extend(answer);
        Some(reply)
    }

    /// RFC 792 "Echo or Echo Reply Message", RFC 1122 section 3.2.2.6.
    fn echo4(&self, to: [u8; 6], from: [u8; 6], rest: &[u8]) -> Option<Vec<u8>> {
        let header = rest.get(..20)?;
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let message = rest.get(20..len)?;
        let (source, destination) = (v4(&header[12..16])?, v4(&header[16..20])?);
        let is_whole = header[6] & 0x3f == 0 && header[7] == 0;
        let is_sound = header[0] == 0x45
            && header[9] == ICMP
            && header[8] > 0
            && is_whole
            && ones_sum(header) == 0xffff
            && message.len() >= 8
            && message[..2] == [8, 0]
            && is_of_host4(source)
            && self.serves4(source).is_none();
        if !is_sound || !self.serves4(destination)? || !self.is_for_us(to, from) {
            return None;
        }
        let mut ip = header.to_vec();
        ip[8] = 64;
        ip[10..12].fill(0);
        ip[12..16].copy_from_slice(&destination.octets());
        ip[16..20].copy_from_slice(&source.octets());
        let checksum = !ones_sum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        let mut reply = ethernet(from, self.mac, IPV4);
        reply.extend(ip);
        reply.extend(turned(message, 0));
        Some(reply)
    }

    /// RFC 4443 sections 4.1 and 4.2.
    fn echo6(&self, to: [u8; 6], from: [u8; 6], rest: &[u8]) -> Option<Vec<u8>> {
        let (header, message) = sound6(rest)?;
        let (source, destination) = (v6(&header[8..24])?, v6(&header[24..40])?);
        let is_sound = header[7] > 0
            && message.len() >= 8
            && message[..2] == [128, 0]
            && is_of_host6(source)
            && self.serves6(source).is_none();
        if !is_sound || !self.serves6(destination)? || !self.is_for_us(to, from) {
            return None;
        }
        let mut reply = ethernet(from, self.mac, IPV6);
        reply.extend([0x60 | header[0] & 0x0f, header[1] & 0xf0, 0, 0]);
        reply.extend(&header[4..7]);
        reply.push(64);
        reply.extend(destination.octets());
        reply.extend(source.octets());
        reply.extend(turned(message, 129));
        Some(reply)
    }

    fn is_for_us(&self, to: [u8; 6], from: [u8; 6]) -> bool {
        to == self.mac && is_of_one(from)
    }
}

/// Returns the same message with another type; a wrong checksum stays wrong by the same difference (RFC 1624 equation
/// 3).
fn turned(message: &[u8], kind: u8) -> Vec<u8> {
    let mut turned = message.to_vec();
    let old = u16::from_be_bytes([message[2], message[3]]);
    let from = u16::from_be_bytes([message[0], message[1]]);
    let words = [!old, !from, u16::from_be_bytes([kind, 0])];
    let checksum = !ones_sum(&words.map(u16::to_be_bytes).concat());
    turned[0] = kind;
    turned[2..4].copy_from_slice(&checksum.to_be_bytes());
    turned
}

/// RFC 4443 section 2.3: returns the sum of a message with its pseudo-header.
fn sum6(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let mut all = [source.octets(), destination.octets()].concat();
    all.extend((message.len() as u32).to_be_bytes());
    all.extend([0, 0, 0, ICMPV6]);
    all.extend(message);
    ones_sum(&all)
}

fn ethernet(to: [u8; 6], from: [u8; 6], kind: [u8; 2]) -> Vec<u8> {
    [&to[..], &from[..], &kind[..]].concat()
}

/// Returns header and payload of an IPv6 packet.
fn sound6(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = rest.split_at_checked(40)?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    (header[0] >> 4 == 6).then_some((header, rest.get(..len)?))
}

/// Returns `None` if the options are malformed; otherwise the link-layer address in the first option of the kind, if
/// there is one.
fn source_address(mut options: &[u8]) -> Option<Option<[u8; 6]>> {
    let mut found = None;
    while !options.is_empty() {
        let len = usize::from(*options.get(1)?) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if options[0] == 1 && found.is_none() {
            if len != 8 {
                return None;
            }
            found = mac(&options[2..8]);
        }
        options = &options[len..];
    }
    Some(found)
}

pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

pub fn group_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

fn is_of_one(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

fn is_of_host4(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first != 0 && first != 127 && first < 224
}

fn is_of_host6(address: Ipv6Addr) -> bool {
    !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && address.to_ipv4_mapped().is_none()
}

fn mac(bytes: &[u8]) -> Option<[u8; 6]> {
    bytes.try_into().ok()
}

fn v4(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

fn v6(bytes: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(bytes).ok().map(Ipv6Addr::from)
}
