// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of the vectors with the addresses of a translator.
//!
//! A checksum moves with the addresses: a right one stays right, and a wrong one stays wrong by the same
//! difference.

use super::common::ones_sum;
use super::input::{Input, Way};
use super::setup::Setup;
use std::net::Ipv4Addr;

/// Returns the packet unchanged, in the direction of its IP version; None if it has no version.
pub fn as_it_is(packet: &[u8]) -> Option<Input> {
    let way = match packet.first()? >> 4 {
        4 => Way::FourToSix,
        6 => Way::SixToFour,
        _ => return None,
    };
    Some(Input {
        way,
        bytes: packet.to_vec(),
        gso_size: None,
    })
}

/// Returns the packet with the addresses of a node on our side and of `peer`.
pub fn between(packet: &[u8], setup: &Setup, peer: Ipv4Addr) -> Option<Input> {
    let mut given = as_it_is(packet)?;
    let (near, far) = (setup.near(0, 0), setup.far(peer, 0, 0));
    let (addresses_at, new) = match given.way {
        Way::FourToSix => (12, [near.0.octets(), far.0.octets()].concat()),
        Way::SixToFour => (8, [far.1.octets(), near.1.octets()].concat()),
    };
    let bytes = &mut given.bytes;
    let range = addresses_at..addresses_at + new.len();
    let old = bytes.get(range.clone())?.to_vec();
    bytes[range].copy_from_slice(&new);
    if given.way == Way::FourToSix {
        move_checksum(bytes, 10, &old, &new);
    }
    if let Some(at) = transport_checksum_at(&given) {
        move_checksum(&mut given.bytes, at, &old, &new);
    }
    Some(given)
}

/// Returns the offset of the checksum that covers the addresses; extension headers are not skipped.
fn transport_checksum_at(given: &Input) -> Option<usize> {
    let bytes = &given.bytes;
    let (protocol, header_len, is_first) = match given.way {
        Way::FourToSix => (
            bytes[9],
            usize::from(bytes[0] & 15) * 4,
            bytes[6] & 0x1f == 0 && bytes[7] == 0,
        ),
        Way::SixToFour => (bytes[6], 40, true),
    };
    let at = match protocol {
        6 => 16,
        17 | 33 | 136 => 6,
        58 if given.way == Way::SixToFour => 2,
        _ => return None,
    };
    let no_checksum = protocol == 17 && bytes.get(header_len + at..header_len + at + 2)? == [0, 0];
    (is_first && !no_checksum).then_some(header_len + at)
}

/// RFC 1624 section 3, equation 3.
fn move_checksum(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let Some(field) = bytes.get_mut(at..at + 2) else {
        return;
    };
    let words = [
        !u16::from_be_bytes([field[0], field[1]]),
        !ones_sum(old),
        ones_sum(new),
    ];
    let sum = ones_sum(&words.map(u16::to_be_bytes).concat());
    field.copy_from_slice(&(!sum).to_be_bytes());
}
