// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the arithmetic of this crate against the descriptions in `proofs/`; a solver has proven that they meet the
//! RFCs.
//!
//! `vectors/arithmetic.txt` lists the results of the descriptions for several thousand inputs.

use crate::addr::rfc6052::Pref64;
use crate::csum::{self, Sum};
use crate::packet::{Checksum, Offload};
use crate::translate::payload::carry_over;
use ipnet::Ipv6Net;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns arguments and result of each line about `function`.
pub(crate) fn rows(function: &str) -> Vec<(Vec<u128>, u128)> {
    let number = |text: &str| u128::from_str_radix(text, 16).expect("hexadecimal");
    let rows: Vec<_> = include_str!("../../../vectors/arithmetic.txt")
        .lines()
        .filter_map(|line| line.strip_prefix(function)?.strip_prefix(' '))
        .map(|line| {
            let (numbers, result) = line.split_once(" = ").expect("arguments = result");
            (numbers.split(' ').map(number).collect(), number(result))
        })
        .collect();
    assert!(rows.len() > 100, "{function} is described");
    rows
}

fn total(number: u128) -> Sum {
    Sum::of(number as u64)
}

#[test]
fn fold() {
    for (numbers, result) in rows("fold") {
        assert_eq!(u128::from(total(numbers[0]).fold()), result, "{numbers:x?}");
    }
}

#[test]
fn update() {
    for (numbers, result) in rows("update") {
        let (field, old, new) = (numbers[0] as u16, total(numbers[1]), total(numbers[2]));
        let updated = csum::update(field, old, new);
        assert_eq!(u128::from(updated), result, "{numbers:x?}");
    }
}

#[test]
fn carried_over() {
    let cases = [
        ("carry", Checksum::Complete, false),
        ("carry_udp", Checksum::Complete, true),
        ("seed", Checksum::Partial, false),
    ];
    for (function, checksum, never_zero) in cases {
        for (numbers, result) in rows(function) {
            let mut bytes = (numbers[0] as u16).to_be_bytes();
            let (old, new) = (total(numbers[1]), total(numbers[2]));
            let offload = Offload {
                checksum,
                ..Offload::default()
            };
            carry_over(&mut bytes, 0, never_zero, offload, old, new);
            let written = u128::from(u16::from_be_bytes(bytes));
            assert_eq!(written, result, "{function} {numbers:x?}");
        }
    }
}

fn prefix(length: u128, prefix: u128) -> Pref64 {
    Pref64::new(Ipv6Net::new(Ipv6Addr::from_bits(prefix), length as u8).expect("a length"))
}

#[test]
fn embedded_and_extracted() {
    for (numbers, result) in rows("embed") {
        let v4 = Ipv4Addr::from_bits(numbers[2] as u32);
        let embedded = prefix(numbers[0], numbers[1]).embed(v4);
        assert_eq!(embedded.to_bits(), result, "{numbers:x?}");
    }
    for (numbers, result) in rows("extract") {
        let pref64 = prefix(numbers[0], numbers[1]);
        let extracted = pref64.extract(Ipv6Addr::from_bits(numbers[2]));
        assert_eq!(extracted, Some(Ipv4Addr::from_bits(result as u32)));
        let outside = numbers[2] ^ 1 << (128 - numbers[0]);
        assert_eq!(pref64.extract(Ipv6Addr::from_bits(outside)), None);
    }
}
