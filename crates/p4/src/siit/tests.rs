// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables against the mapping of `xlat`, by a plain model of ternary tables.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_xlat::addr::special::{is_global, kind_of_ipv4, kind_of_ipv6, AddressKind};
use diolkos_xlat::{Config, Eam};

use super::*;
use crate::wire::{Op, Request};

/// What the table says of an address: the arguments of its action; `None` declines.
fn look_up(all: &[Entry], table: &str, address: &[u8]) -> Option<Vec<u8>> {
    let matches = |request: &&Request| {
        let masked = request.mask.bytes().iter().zip(address);
        let masked: Vec<u8> = masked.map(|(mask, byte)| mask & byte).collect();
        request.table == table && request.op == Op::Insert && masked == request.key.bytes()
    };
    let requests: Vec<Request> = all.iter().map(Entry::insert).collect();
    let found: Vec<&Request> = requests.iter().filter(matches).collect();
    let best = found.iter().map(|request| request.priority).min()?;
    let mut best = found.iter().filter(|request| request.priority == best);
    let first = best.next()?;
    assert!(
        best.all(|other| other.action == first.action && other.data == first.data),
        "two entries of one priority contradict each other for {address:?} in {table}"
    );
    (first.action != "decline").then(|| first.data.bytes().to_vec())
}

fn shifts(data: &[u8]) -> (u8, u8, u32, u8, u32) {
    let u32_at =
        |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes are there"));
    (data[0], data[1], u32_at(2), data[6], u32_at(7))
}

/// `from6` as `p4/PROTOCOL.md` has it.
fn to4(data: &[u8], v6: Ipv6Addr) -> Ipv4Addr {
    let base = u32::from_be_bytes(data[..4].try_into().expect("an address"));
    let (hr, hl, hm, lr, lm) = shifts(&data[4..]);
    let (hi, lo) = ((v6.to_bits() >> 64) as u64, v6.to_bits() as u64);
    Ipv4Addr::from_bits(base | (((hi >> hr) << hl) as u32 & hm) | ((lo >> lr) as u32 & lm))
}

/// `from4` as `p4/PROTOCOL.md` has it.
fn to6(data: &[u8], v4: Ipv4Addr) -> Ipv6Addr {
    let base = u128::from_be_bytes(data[..16].try_into().expect("an address"));
    let (hr, hl, hm, lr, lm) = shifts(&data[16..]);
    let v4 = v4.to_bits();
    let hi = (base >> 64) as u64 | (u64::from(v4 & hm) >> hl) << hr;
    let lo = base as u64 | u64::from(v4 & lm) << lr;
    Ipv6Addr::from_bits(u128::from(hi) << 64 | u128::from(lo))
}

/// Explicit mappings, looked up one by one (RFC 7757 sections 3.3.1 and 3.3.2).
struct Eamt(Vec<Eam>);

impl Eamt {
    fn to_ipv6(&self, v4: Ipv4Addr) -> Option<Ipv6Addr> {
        let all = self.0.iter().filter(|eam| eam.v4.contains(&v4));
        let eam = all.max_by_key(|eam| eam.v4.prefix_len())?;
        let suffix = u128::from(v4.to_bits() & !eam.v4.netmask().to_bits());
        let up = 96 + u32::from(eam.v4.prefix_len()) - u32::from(eam.v6.prefix_len());
        let shifted = suffix.checked_shl(up).unwrap_or(0);
        Some(Ipv6Addr::from_bits(eam.v6.network().to_bits() | shifted))
    }

    fn to_ipv4(&self, v6: Ipv6Addr) -> Option<Ipv4Addr> {
        let all = self.0.iter().filter(|eam| eam.v6.contains(&v6));
        let eam = all.max_by_key(|eam| eam.v6.prefix_len())?;
        let suffix = v6.to_bits() & !eam.v6.netmask().to_bits();
        let up = 96 + u32::from(eam.v4.prefix_len()) - u32::from(eam.v6.prefix_len());
        let shifted = suffix.checked_shr(up).unwrap_or(0) as u32;
        Some(Ipv4Addr::from_bits(eam.v4.network().to_bits() | shifted))
    }

    fn covers_ipv4(&self, v4: Ipv4Addr) -> bool {
        self.0.iter().any(|eam| eam.v4.contains(&v4))
    }
}

/// The answers of `xlat`.
struct Oracle<'a> {
    config: &'a Config,
    eamt: Eamt,
}

impl Oracle<'_> {
    fn permits(&self, prefix: &Pref64, v4: Ipv4Addr) -> bool {
        !prefix.is_well_known() || self.config.allow_private_with_wkp || is_global(v4)
    }

    fn loops(&self, v4: Ipv4Addr) -> bool {
        self.config.loops4.iter().any(|net| net.contains(&v4))
    }

    fn to_ipv6(&self, v4: Ipv4Addr) -> Option<Ipv6Addr> {
        if kind_of_ipv4(v4) != AddressKind::Unicast {
            return None;
        }
        let embedded = || {
            let prefix = Pref64::new(*self.config.pref64.first()?);
            let fits = !self.loops(v4) && self.permits(&prefix, v4);
            fits.then(|| prefix.embed(v4))
        };
        self.eamt.to_ipv6(v4).or_else(embedded)
    }

    fn to_ipv4(&self, v6: Ipv6Addr, end: End) -> Option<Ipv4Addr> {
        if kind_of_ipv6(v6) != AddressKind::Unicast {
            return None;
        }
        let embedded = || {
            let prefixes = self.config.pref64.iter().map(|net| Pref64::new(*net));
            let found = prefixes.filter_map(|prefix| Some((prefix, prefix.extract(v6)?)));
            let (prefix, v4) = found.min_by_key(|_| 0)?;
            let explicit = self.eamt.covers_ipv4(v4);
            let turns = explicit && end == End::Destination;
            let fits = !turns && (explicit || !self.loops(v4)) && self.permits(&prefix, v4);
            fits.then_some(v4)
        };
        let v4 = self.eamt.to_ipv4(v6).or_else(embedded)?;
        (kind_of_ipv4(v4) == AddressKind::Unicast).then_some(v4)
    }
}

fn configs() -> Vec<Config> {
    let eam = |v4: &str, v6: &str| Eam {
        v4: v4.parse().expect("a network"),
        v6: v6.parse().expect("a network"),
    };
    let nets = |nets: &[&str]| -> Vec<Ipv6Net> {
        nets.iter()
            .map(|net| net.parse().expect("a network"))
            .collect()
    };
    let loops = |nets: &[&str]| -> Vec<Ipv4Net> {
        nets.iter()
            .map(|net| net.parse().expect("a network"))
            .collect()
    };
    vec![
        Config {
            pref64: nets(&["64:ff9b::/96", "2001:db8:100::/40"]),
            eam: vec![
                eam("192.0.2.0/24", "2001:db8:1::/120"),
                eam("192.0.2.8/29", "2001:db8:2::/125"),
                eam("192.0.2.9/32", "2001:db8:3::9/128"),
                eam("9.9.9.0/24", "64:ff9b::505:500/120"),
                eam("8.8.4.0/24", "2001:db8:4:8::/62"),
            ],
            loops4: loops(&["8.8.0.0/16"]),
            ..Config::default()
        },
        Config {
            pref64: nets(&["2001:db8:9:300::/56"]),
            allow_private_with_wkp: true,
            ..Config::default()
        },
        Config {
            pref64: nets(&["64:ff9b::/96"]),
            allow_private_with_wkp: true,
            loops4: loops(&["10.1.0.0/16"]),
            ..Config::default()
        },
    ]
}

/// Addresses at the borders of everything, and random ones in the same networks.
fn addresses4(config: &Config, random: &mut fastrand::Rng) -> Vec<Ipv4Addr> {
    let nets = UNROUTABLE4.into_iter().chain(NOT_GLOBAL);
    let nets = nets.chain(config.eam.iter().map(|eam| eam.v4));
    let nets: Vec<Ipv4Net> = nets.chain(config.loops4.iter().copied()).collect();
    let mut all = Vec::new();
    for net in nets {
        let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
        all.extend([first, last, first.wrapping_sub(1), last.wrapping_add(1)]);
        all.extend((0..8).map(|_| random.u32(first..=last)));
    }
    all.extend((0..64).map(|_| random.u32(..)));
    all.into_iter().map(Ipv4Addr::from_bits).collect()
}

#[test]
fn the_switch_maps_as_the_slow_path_or_declines() {
    let seed = 33;
    let mut random = fastrand::Rng::with_seed(seed);
    for config in configs() {
        config.check().expect("it is a configuration");
        let all = entries(&config).expect("its prefixes are known");
        let oracle = Oracle {
            config: &config,
            eamt: Eamt(config.eam.clone()),
        };
        let (mut translated, mut declined) = (0, 0);
        let mut count = |is_translated: bool, is_plain: bool, what: String| {
            match is_translated {
                true => translated += 1,
                false => declined += 1,
            }
            assert!(
                is_translated || !is_plain,
                "{what} is declined without need"
            );
        };
        for v4 in addresses4(&config, &mut random) {
            let expected = oracle.to_ipv6(v4);
            for table in ["src4", "dst4"] {
                let found = look_up(&all, table, &v4.octets()).map(|data| to6(&data, v4));
                assert!(
                    found.is_none() || found == expected,
                    "{table} {v4}: {found:?}"
                );
                let plain = expected.is_some() && is_global(v4);
                count(found.is_some(), plain && !odd(v4), format!("{table} {v4}"));
            }
            // The same address as IPv6 nodes have it, with any bits where they do not count.
            let mapped = config.eam.iter().filter_map(|eam| {
                let by = Embedding::of_mapping(eam.v4, eam.v6)?;
                let inside = eam.v4.contains(&v4);
                inside.then(|| by.embed(v4.to_bits() & !eam.v4.netmask().to_bits()))
            });
            let embedded = config
                .pref64
                .iter()
                .map(|net| Pref64::new(*net).embed(v4).to_bits());
            for v6 in mapped.chain(embedded).collect::<Vec<_>>() {
                let v6 = Ipv6Addr::from_bits(v6);
                for (table, end) in [("src6", End::Source), ("dst6", End::Destination)] {
                    let expected = oracle.to_ipv4(v6, end);
                    let found = look_up(&all, table, &v6.octets()).map(|data| to4(&data, v6));
                    assert!(
                        found.is_none() || found == expected,
                        "{table} {v6}: {found:?} and not {expected:?} (seed {seed})"
                    );
                    let loops = oracle.loops(v4) && oracle.eamt.covers_ipv4(v4);
                    let plain = expected.is_some_and(is_global) && !odd(v4) && !loops;
                    count(found.is_some(), plain, format!("{table} {v6}"));
                }
            }
        }
        assert!(translated > 100 && declined > 10, "{translated} {declined}");
    }
}

/// Globally reachable addresses inside of networks that are not.
fn odd(v4: Ipv4Addr) -> bool {
    matches!(v4.octets(), [192, 0, 0..=3, _])
}

#[test]
fn unroutable_addresses_of_ipv6_are_declined() {
    let all = entries(&configs()[0]).expect("its prefixes are known");
    for v6 in ["::", "::1", "::ffff:8.8.8.8", "fe80::1", "ff02::1"] {
        let v6: Ipv6Addr = v6.parse().expect("an address");
        for table in ["src6", "dst6"] {
            assert_eq!(look_up(&all, table, &v6.octets()), None, "{v6}");
        }
    }
}
