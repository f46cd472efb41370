// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the TUN device says of a packet, on its way through the slow path: read, obeyed, written again.
//!
//! setting | the device's header | packet

use crate::common::Outcome;
use crate::input::Input;
use crate::{judge, seeds, setting};
use diolkos::readers::{flow, offload, offload_header, part, Train};
use diolkos_xlat::{Checksum, Offload, Translator, Verdict};

/// Bytes of the header (`struct virtio_net_hdr`).
const LEN: usize = 10;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = setting::config(&mut input);
    let front: [u8; LEN] = input.array();
    let mut packet = input.0.to_vec();
    if packet.is_empty() {
        return; // The slow path never sees one.
    }
    let Some(received) = offload(&front, &mut packet) else {
        let word = |at: usize| usize::from(u16::from_ne_bytes([front[at], front[at + 1]]));
        assert!(
            ![0, 1, 4, 5].contains(&(front[1] & 0x7f))
                || (front[0] & 1 != 0 && word(6) + word(8) + 2 > packet.len()),
            "a kind that was asked for, and a checksum in the packet"
        );
        return;
    };
    let changed = packet
        .iter()
        .zip(input.0)
        .filter(|(new, old)| new != old)
        .count();
    assert!(changed <= 2, "nothing but one checksum is written");
    let left = received.offload.checksum == Checksum::Partial;
    assert!(!left || front[0] & 1 != 0, "a checksum that nobody left");
    assert!(changed == 0 || !left, "either finished or left");
    assert_eq!(received.offload.gso.is_some(), front[1] & 0x7f != 0);

    let Ok(translator) = Translator::new(&config) else {
        return;
    };
    let Outcome {
        verdict,
        packet,
        offload: after,
        ..
    } = judge::judge(&config, &translator, &packet, received.offload);
    if verdict == Verdict::Forward {
        let front = offload_header(after, received.ecn, &packet);
        let mut again = packet.clone();
        let read = offload(&front, &mut again).expect("a kind that we write");
        assert_eq!(
            (read.offload, &again),
            (after, &packet),
            "it reads its own print"
        );
        sensible(&front, after, &packet);
        joined(&packet, after, received.checked);
    }
}

/// A translated packet and the one that would follow it, as one super-packet.
fn joined(packet: &[u8], offload: Offload, checked: bool) {
    let (Some(of), Some(first)) = (flow(packet), part(packet, offload, checked)) else {
        return;
    };
    let l4_at = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let mut next = packet.to_vec();
    if !first.is_udp() {
        // By so many bytes the sequence number goes on, and its checksum is left to the device.
        let at = l4_at + 4;
        let number = u32::from_be_bytes([next[at], next[at + 1], next[at + 2], next[at + 3]]);
        let number = number.wrapping_add(first.data().len() as u32);
        next[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    let Some(second) = part(&next, offload, true) else {
        return; // Its own header has a sum that counts.
    };
    let mut train = Train::new(of, packet, first);
    if train.take(&next, &second, packet) {
        let (header, len, offload) = train.headers();
        let whole = [&header[..len], &packet[first.data()], &next[second.data()]].concat();
        let front = offload_header(offload, false, &whole);
        sensible(&front, offload, &whole);
        assert_eq!(flow(&whole), Some(of), "the flow of its packets");
        assert_eq!(part(&whole, offload, true), None, "it is joined once");
    }
}

/// What the kernel demands of a header (virtio 1.2 section 5.1.6.2): places within the packet, behind its IP header.
fn sensible(front: &[u8; LEN], offload: Offload, packet: &[u8]) {
    let word = |at: usize| usize::from(u16::from_ne_bytes([front[at], front[at + 1]]));
    let ip_len = if packet[0] >> 4 == 4 { 20 } else { 40 };
    if offload.checksum == Checksum::Partial {
        assert_eq!(word(6), ip_len, "the sum begins behind the IP header");
        assert!(
            word(6) + word(8) + 2 <= packet.len(),
            "its field is in the packet"
        );
    }
    if let Some(gso) = offload.gso {
        assert_eq!(word(4), usize::from(gso.size));
        assert!(
            word(2) > ip_len && word(2) <= packet.len(),
            "headers of {} bytes",
            word(2)
        );
        let six = front[1] & 0x7f == 4;
        assert!(
            front[1] & 0x7f == 5 || six == (ip_len == 40),
            "segmentation of the packet's family"
        );
    }
}

/// The TCP, UDP and echo packets of the vectors: as they are, with a checksum left to the device, as super-packets.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, config, packet) in seeds::packets() {
        let six = packet[0] >> 4 == 6;
        let (Some(&protocol), start) = (
            packet.get(if six { 6 } else { 9 }),
            if six { 40u16 } else { 20 },
        ) else {
            continue;
        };
        let (kind, offset) = match protocol {
            6 => (if six { 4 } else { 1 }, 16u16),
            17 => (5, 6),
            1 | 58 => (0, 2),
            _ => continue,
        };
        let setting = setting::bytes(&config);
        let [[a, b], [c, d]] = [start.to_ne_bytes(), offset.to_ne_bytes()];
        let [e, f] = 500u16.to_ne_bytes();
        let partial = [1, 0, 0, 0, 0, 0, a, b, c, d];
        let whole = [1, kind, 0, 0, e, f, a, b, c, d];
        seeds.push((
            format!("{name}-plain"),
            [&setting[..], &[0; LEN], &packet].concat(),
        ));
        seeds.push((
            format!("{name}-partial"),
            [&setting[..], &partial, &packet].concat(),
        ));
        if kind != 0 && packet.len() > 600 {
            seeds.push((
                format!("{name}-super"),
                [&setting[..], &whole, &packet].concat(),
            ));
        }
    }
    seeds
}
