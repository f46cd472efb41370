// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of packets, joined here and split again as the kernel does: the result must be the same.

use super::*;
use fastrand::Rng;

/// A stream of one flow.
struct Stream {
    ipv6: bool,
    udp: bool,
    /// Bytes of TCP options.
    options: usize,
    dont_fragment: bool,
}

impl Stream {
    fn random(rng: &mut Rng) -> Stream {
        Stream {
            ipv6: rng.bool(),
            udp: rng.bool(),
            options: rng.usize(0..4) * 4,
            dont_fragment: rng.bool(),
        }
    }

    fn l4_at(&self) -> usize {
        if self.ipv6 {
            40
        } else {
            20
        }
    }

    fn headers(&self) -> usize {
        self.l4_at() + if self.udp { 8 } else { 20 + self.options }
    }

    /// Returns a packet with a right checksum.
    fn packet(&self, seq: u32, id: u16, flags: u8, data: &[u8]) -> Vec<u8> {
        let l4_at = self.l4_at();
        let mut packet = vec![0; self.headers()];
        packet.extend(data);
        let (len, protocol) = (packet.len(), if self.udp { UDP } else { TCP });
        if self.ipv6 {
            packet[0] = 0x60;
            (packet[6], packet[7]) = (protocol, 63);
            packet[8..40].copy_from_slice(&std::array::from_fn::<u8, 32, _>(|i| i as u8));
        } else {
            packet[0] = 0x45;
            (packet[6], packet[8], packet[9]) =
                (if self.dont_fragment { 0x40 } else { 0 }, 63, protocol);
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            packet[12..20].copy_from_slice(&[192, 0, 2, 1, 198, 51, 100, 2]);
        }
        packet[l4_at..l4_at + 4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
        if !self.udp {
            packet[l4_at + 4..l4_at + 8].copy_from_slice(&seq.to_be_bytes());
            packet[l4_at + 12] = ((5 + self.options / 4) << 4) as u8;
            packet[l4_at + FLAGS_AT] = flags;
        }
        finish(&mut packet, l4_at, self.udp, len);
        packet
    }
}

/// Writes lengths and checksums (RFC 791, RFC 8200, RFC 768, RFC 9293).
fn finish(packet: &mut [u8], l4_at: usize, udp: bool, len: usize) {
    let l4_len = (len - l4_at) as u16;
    if l4_at == 40 {
        packet[4..6].copy_from_slice(&l4_len.to_be_bytes());
    } else {
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[10..12].fill(0);
        let sum = !ones_sum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let at = l4_at + if udp { 6 } else { 16 };
    if udp {
        packet[l4_at + 4..l4_at + 6].copy_from_slice(&l4_len.to_be_bytes());
    }
    packet[at..at + 2].fill(0);
    let addresses = if l4_at == 40 { 8..40 } else { 12..20 };
    let mut all = packet[addresses].to_vec();
    all.extend([0, if udp { UDP } else { TCP }]);
    all.extend(l4_len.to_be_bytes());
    all.extend(&packet[l4_at..]);
    let sum = match !ones_sum(&all) {
        0 if udp => 0xffff,
        sum => sum,
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// RFC 1071 section 1, word by word.
fn ones_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let total: u32 = words
        .map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into()))
        .sum();
    let folded = (total >> 16) + (total & 0xffff);
    ((folded >> 16) + folded) as u16
}

/// Returns the packets of a super-packet: sequence numbers and identifications count up, only the last one has PSH, and
/// each has its own checksums and lengths.
fn cut(train: &Train, data: &[u8]) -> Vec<Vec<u8>> {
    let (header, headers, offload) = train.headers();
    let gso = offload.gso.expect("a super-packet");
    assert_eq!(offload.checksum, Checksum::Partial);
    let l4_at = if header[0] >> 4 == 6 { 40 } else { 20 };
    let udp = gso.kind == GsoKind::Udp;
    let total = headers + data.len();
    let said = if l4_at == 40 {
        40 + usize::from(u16::from_be_bytes([header[4], header[5]]))
    } else {
        assert_eq!(ones_sum(&header[..20]), 0xffff, "a header with its own sum");
        usize::from(u16::from_be_bytes([header[2], header[3]]))
    };
    assert_eq!(said, total, "the length of all of it");
    let pieces: Vec<&[u8]> = data.chunks(gso.size.into()).collect();
    let mut packets = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let mut packet = header[..headers].to_vec();
        packet.extend(*piece);
        if l4_at == 20 {
            let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(number as u16);
            packet[4..6].copy_from_slice(&id.to_be_bytes());
        }
        if !udp {
            let at = l4_at + 4;
            let seq =
                u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let seq = seq.wrapping_add((number * usize::from(gso.size)) as u32);
            packet[at..at + 4].copy_from_slice(&seq.to_be_bytes());
            if number + 1 < pieces.len() {
                packet[l4_at + FLAGS_AT] &= !PSH;
            }
        }
        let len = packet.len();
        finish(&mut packet, l4_at, udp, len);
        packets.push(packet);
    }
    packets
}

/// Checks that the field of a checksum that is left to the device has the sum of the whole pseudo-header.
fn check_seed(train: &Train) {
    let (header, headers, _) = train.headers();
    let part = train.first;
    let len = headers - part.l4_at + train.data;
    let addresses = if part.l4_at == 40 { 8..40 } else { 12..20 };
    let mut all = header[addresses].to_vec();
    all.extend([0, if train.is_udp() { UDP } else { TCP }]);
    all.extend((len as u16).to_be_bytes());
    let at = part.l4_at + if train.is_udp() { 6 } else { 16 };
    assert_eq!(header[at..at + 2], ones_sum(&all).to_be_bytes());
}

/// With DF the identification has no meaning (RFC 6864 section 4.1).
fn without_idle_id(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] == 0x45 && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

#[test]
fn what_is_joined_is_cut_into_the_same_packets() {
    let mut rng = Rng::with_seed(1);
    let (mut joined, mut alone) = (0, 0);
    for _ in 0..300 {
        let stream = Stream::random(&mut rng);
        let size = rng.usize(1..200);
        let (mut seq, mut id) = (rng.u32(..), rng.u16(..));
        let mut train: Option<(Train, Vec<Vec<u8>>)> = None;
        let mut done = Vec::new();
        for _ in 0..rng.usize(1..60) {
            let len = if rng.u8(..10) == 0 {
                rng.usize(0..200)
            } else {
                size
            };
            let data: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            let flags = [ACK, ACK, ACK, ACK, ACK, ACK, ACK | PSH, rng.u8(..)][rng.usize(..8)];
            let mut packet = stream.packet(seq, id, flags, &data);
            if rng.u8(..20) == 0 {
                let at = rng.usize(..packet.len());
                packet[at] ^= 1 << rng.u8(..8);
            }
            seq = seq.wrapping_add(len as u32 + u32::from(rng.u8(..30) == 0));
            id = id.wrapping_add(1 + u16::from(rng.u8(..30) == 0));

            let part = part(&packet, Offload::default(), false);
            if let (Some((open, members)), Some(part)) = (&mut train, part) {
                if flow(&packet) == Some(open.flow) && open.take(&packet, &part, &members[0]) {
                    members.push(packet);
                    continue;
                }
            }
            done.extend(train.take());
            let begin = part.and_then(|part| Some((flow(&packet)?, part)));
            match begin {
                Some((flow, part)) => {
                    train = Some((Train::new(flow, &packet, part), vec![packet]));
                }
                None => alone += 1,
            }
        }
        done.extend(train.take());
        for (train, members) in done {
            if !train.is_joined() {
                alone += 1;
                continue;
            }
            joined += members.len();
            check_seed(&train);
            let headers = stream.headers();
            let data: Vec<u8> = members.iter().flat_map(|m| m[headers..].to_vec()).collect();
            let again = cut(&train, &data);
            let without =
                |all: Vec<Vec<u8>>| all.into_iter().map(without_idle_id).collect::<Vec<_>>();
            assert!(without(again) == without(members), "{train:?}");
        }
    }
    assert!(
        joined > alone && alone > 500,
        "{joined} joined, {alone} alone"
    );
}

/// RFC 9293: a header of 20 bytes, sequence numbers 1000 and 1003, three bytes of data each.
#[test]
fn two_segments_by_hand() {
    let stream = Stream {
        ipv6: true,
        udp: false,
        options: 0,
        dont_fragment: true,
    };
    let first = stream.packet(1000, 0, ACK, b"abc");
    let second = stream.packet(1003, 0, ACK | PSH, b"def");
    let parts = [&first, &second].map(|p| part(p, Offload::default(), false).expect("plain"));
    let mut train = Train::new(flow(&first).expect("TCP"), &first, parts[0]);
    assert!(!train.is_closed, "more may follow");
    assert!(train.take(&second, &parts[1], &first));
    assert!(train.is_closed, "PSH");
    let (header, len, offload) = train.headers();
    assert_eq!((len, &header[4..6]), (60, &26u16.to_be_bytes()[..]));
    assert_eq!(header[44..48], 1000u32.to_be_bytes());
    assert_eq!(header[53], ACK | PSH);
    // The addresses are the words 0x0001, 0x0203 to 0x1e1f, which make 0xf100; 26 bytes of TCP, which is 6.
    assert_eq!(header[56..58], (0xf100u16 + 26 + 6).to_be_bytes());
    let gso = offload.gso.expect("a super-packet");
    assert_eq!((gso.kind, gso.size), (GsoKind::Tcp, 3));
}

/// Each of these would be lost or changed between two others.
#[test]
fn what_cannot_be_joined() {
    let stream = |udp| Stream {
        ipv6: false,
        udp,
        options: 0,
        dont_fragment: false,
    };
    let (tcp, udp) = (stream(false), stream(true));
    for flags in [0x02, 0x11, 0x14, 0x30, 0x50, 0x90, 0x00] {
        let packet = tcp.packet(1, 1, flags, b"data");
        assert_eq!(
            part(&packet, Offload::default(), false),
            None,
            "flags {flags:#x}"
        );
        assert!(flow(&packet).is_some(), "it keeps its place in the flow");
    }
    let empty = tcp.packet(1, 1, ACK, b"");
    assert_eq!(part(&empty, Offload::default(), false), None);
    let mut unsummed = udp.packet(0, 1, 0, b"data");
    unsummed[26..28].fill(0);
    assert_eq!(part(&unsummed, Offload::default(), false), None);
    let mut fragment = udp.packet(0, 1, 0, b"data");
    fragment[6] = 0x20;
    assert_eq!(
        flow(&fragment),
        None,
        "it has no ports, or half of a datagram"
    );
    let super_packet = Offload {
        checksum: Checksum::Partial,
        gso: Some(Gso {
            kind: GsoKind::Udp,
            size: 2,
        }),
        ..Offload::default()
    };
    let packet = udp.packet(0, 1, 0, b"data");
    assert_eq!(part(&packet, super_packet, false), None);
    for cut in 0..packet.len() {
        assert_eq!(part(&packet[..cut], Offload::default(), false), None);
        let _ = flow(&packet[..cut]);
    }
}
