// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mapping tables and translation prefixes: what the check of a configuration finds, and what an address becomes,
//! against a search through all entries (RFC 7757 section 3) and octets put one by one (RFC 6052 section 2.2).
//!
//! number of entries | entries | number of prefixes | prefixes | addresses, in turns IPv4 and IPv6

use crate::input::Input;
use diolkos_xlat::{Config, Eam, Translator};
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

const MOST_ENTRIES: u8 = 12;
const MOST_PREFIXES: u8 = 3;
const LENGTHS: [u8; 8] = [32, 40, 48, 56, 64, 96, 72, 128];
const MOST_ADDRESSES: usize = 16;

/// The target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let config = Config {
        eam: (0..input.byte() % (MOST_ENTRIES + 1))
            .map(|_| entry(&mut input))
            .collect(),
        pref64: (0..input.byte() % (MOST_PREFIXES + 1))
            .map(|_| prefix(&mut input))
            .collect(),
        allow_private_with_wkp: true,
        ..Config::default()
    };
    let problems = config
        .check()
        .map_err(|error| error.problems)
        .err()
        .unwrap_or_default();
    let found = problems
        .iter()
        .any(|problem| problem.message.contains("overlaps eam"));
    assert_eq!(found, are_identical(&config.eam), "{:?}", config.eam);
    let Ok(translator) = Translator::new(&config) else {
        return;
    };
    let warned = config
        .warnings()
        .iter()
        .any(|warning| warning.message.contains("overlaps eam"));
    assert_eq!(warned, overlap(&config.eam), "{:?}", config.eam);
    let mapper = translator.mapper();
    let ends = config
        .eam
        .iter()
        .flat_map(|eam| [eam.v4.network(), eam.v4.broadcast()]);
    let mut fours: Vec<Ipv4Addr> = ends.collect();
    let mut sixes: Vec<Ipv6Addr> = config
        .eam
        .iter()
        .flat_map(|eam| [eam.v6.network(), eam.v6.broadcast()])
        .collect();
    while !input.0.is_empty() && sixes.len() < MOST_ADDRESSES + 2 * config.eam.len() {
        fours.push(Ipv4Addr::from(input.array::<4>()));
        sixes.push(address(&mut input));
    }
    for addr in fours {
        let mapped = mapper.to_ipv6(addr).ok().map(|(addr, _)| addr);
        assert_eq!(mapped, to_ipv6(&config, addr), "{addr} under {config:?}");
        sixes.extend(mapped);
    }
    for addr in sixes {
        let mapped = mapper.to_ipv4(addr).ok().map(|(addr, _)| addr);
        assert_eq!(mapped, to_ipv4(&config, addr), "{addr} under {config:?}");
    }
}

fn entry(input: &mut Input<'_>) -> Eam {
    let len4 = input.byte() % 33;
    let v4 = Ipv4Net::new(input.array::<4>().into(), len4)
        .expect("at most 32")
        .trunc();
    // As long a suffix as IPv4's, or longer.
    let len6 = 128 - (32 - len4) - input.byte() % (97 + len4 - 32).max(1);
    let v6 = Ipv6Net::new(address(input), len6)
        .expect("at most 128")
        .trunc();
    Eam { v4, v6 }
}

fn prefix(input: &mut Input<'_>) -> Ipv6Net {
    let len = input.one_of(&LENGTHS);
    Ipv6Net::new(address(input), len)
        .expect("at most 128")
        .trunc()
}

/// Near 2001:db8::/32, so that networks meet: 2 bytes say where, 4 what the last bits are.
fn address(input: &mut Input<'_>) -> Ipv6Addr {
    let [a, b] = input.array::<2>();
    let low = u128::from(u32::from_be_bytes(input.array()));
    let middle = u128::from(a) << 88 | u128::from(b) << 60;
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | middle | low)
}

fn pairs(eam: &[Eam]) -> impl Iterator<Item = (&Eam, &Eam)> {
    let with_earlier = |(at, one)| eam[..at].iter().map(move |other| (one, other));
    eam.iter().enumerate().flat_map(with_earlier)
}

/// Have two entries the same network on either side?
fn are_identical(eam: &[Eam]) -> bool {
    pairs(eam).any(|(one, other)| one.v4 == other.v4 || one.v6 == other.v6)
}

/// Do two networks overlap on one side that do not do so alike on the other?
fn overlap(eam: &[Eam]) -> bool {
    pairs(eam).any(|(one, other)| {
        let v4 = (one.v4.contains(&other.v4), other.v4.contains(&one.v4));
        let v6 = (one.v6.contains(&other.v6), other.v6.contains(&one.v6));
        v4 != v6
    })
}

fn to_ipv6(config: &Config, addr: Ipv4Addr) -> Option<Ipv6Addr> {
    let covering = config.eam.iter().filter(|eam| eam.v4.contains(&addr));
    match covering.max_by_key(|eam| eam.v4.prefix_len()) {
        Some(eam) => {
            let mut bits: Vec<bool> = bits6(eam.v6.network());
            let suffix = &bits4(addr)[usize::from(eam.v4.prefix_len())..];
            let at = usize::from(eam.v6.prefix_len());
            bits[at..at + suffix.len()].copy_from_slice(suffix);
            Some(Ipv6Addr::from_bits(number(&bits)))
        }
        None => config.pref64.first().map(|prefix| embed(prefix, addr)),
    }
}

fn to_ipv4(config: &Config, addr: Ipv6Addr) -> Option<Ipv4Addr> {
    let covering = config.eam.iter().filter(|eam| eam.v6.contains(&addr));
    match covering.max_by_key(|eam| eam.v6.prefix_len()) {
        Some(eam) => {
            let mut bits: Vec<bool> = bits4(eam.v4.network());
            let at = usize::from(eam.v4.prefix_len());
            let suffix = bits6(addr)
                .into_iter()
                .skip(usize::from(eam.v6.prefix_len()));
            bits[at..]
                .iter_mut()
                .zip(suffix)
                .for_each(|(bit, new)| *bit = new);
            Some(Ipv4Addr::from_bits(number(&bits) as u32))
        }
        None => config
            .pref64
            .iter()
            .find(|prefix| prefix.contains(&addr))
            .map(|prefix| extract(prefix, addr)),
    }
}

fn bits4(addr: Ipv4Addr) -> Vec<bool> {
    (0..32)
        .map(|at| addr.to_bits() >> (31 - at) & 1 == 1)
        .collect()
}

fn bits6(addr: Ipv6Addr) -> Vec<bool> {
    (0..128)
        .map(|at| addr.to_bits() >> (127 - at) & 1 == 1)
        .collect()
}

fn number(bits: &[bool]) -> u128 {
    bits.iter()
        .fold(0, |number, &bit| number << 1 | u128::from(bit))
}

/// The octets of an IPv6 address that hold those of the IPv4 address: after the prefix, over the u octet.
fn places(prefix: &Ipv6Net) -> impl Iterator<Item = usize> {
    let begin = usize::from(prefix.prefix_len() / 8);
    (begin..16)
        .filter(move |&at| at != 8 || begin == 12)
        .take(4)
}

fn embed(prefix: &Ipv6Net, addr: Ipv4Addr) -> Ipv6Addr {
    let mut octets = prefix.network().octets();
    places(prefix)
        .zip(addr.octets())
        .for_each(|(at, octet)| octets[at] = octet);
    octets.into()
}

fn extract(prefix: &Ipv6Net, addr: Ipv6Addr) -> Ipv4Addr {
    let mut octets = [0; 4];
    octets
        .iter_mut()
        .zip(places(prefix))
        .for_each(|(octet, at)| *octet = addr.octets()[at]);
    octets.into()
}

/// Nested entries, a default, prefixes of every length.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let address = |where_: [u8; 2], low: u32| [&where_[..], &low.to_be_bytes()].concat();
    let entry =
        |len: u8, v4: [u8; 4], longer: u8, v6: Vec<u8>| [&[len][..], &v4, &[longer], &v6].concat();
    let asked = [&[192, 0, 2, 33][..], &address([1, 0], 33)].concat();
    let nested = [
        &[2][..],
        &entry(24, [192, 0, 2, 0], 0, address([0, 0], 0)),
        &entry(32, [192, 0, 2, 33], 0, address([0, 0], 99)),
        &[1, 5],
        &address([1, 0], 0),
        &asked,
    ];
    let mut seeds = vec![
        ("nested".to_owned(), nested.concat()),
        (
            "default-and-other-suffix-length".to_owned(),
            [
                &[1][..],
                &entry(0, [0; 4], 32, address([2, 1], 0)),
                &[0],
                &asked,
            ]
            .concat(),
        ),
    ];
    for (at, len) in LENGTHS.iter().enumerate() {
        let prefix = [&[0, 1, at as u8][..], &address([1, 0], 0), &asked].concat();
        seeds.push((format!("prefix-{len}"), prefix));
    }
    seeds
}
