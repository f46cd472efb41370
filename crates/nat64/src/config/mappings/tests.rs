// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools that are divided between their sources: vectors by hand after RFC 7422 section 2, and a plain model.

use super::*;
use crate::config::{Pool4, PortBlocks, Protocol};
use diolkos_xlat::config::Config;
use proptest::prelude::*;
use std::collections::HashMap;

fn net(text: &str) -> Ipv6Net {
    text.parse().expect("a prefix")
}

fn config(sources: &[&str], pool4: &[(&str, &[&str])], ports: Option<u32>) -> Nat64Config {
    let part = |(addr, sources): &(&str, &[&str])| Pool4 {
        net: addr.parse().expect("a network"),
        ports: 1024..=65535,
        protocols: Protocol::ALL.to_vec(),
        sources: sources.iter().map(|text| net(text)).collect(),
        interface: None,
    };
    Nat64Config {
        translator: Config {
            pref64: vec!["64:ff9b::/96".parse().expect("a network")],
            ..Config::default()
        },
        pool4: pool4.iter().map(part).collect(),
        deterministic: Some(Deterministic {
            sources: sources.iter().map(|text| net(text)).collect(),
            ports_per_source: ports,
            overflow_share: 0,
        }),
        ..Nat64Config::default()
    }
}

fn mappings(config: &Nat64Config) -> Mappings {
    config.check().expect("it is right");
    let mappings = Mappings::of(config, &Arc::new(Pools::of(&config.pool4)));
    mappings.expect("it is right").expect("there are some")
}

/// A has four sources, B two, and the others one: 64512 / 4 = 16128 = 252 x 64, 64512 / 2 = 32256 = 504 x 64, 64512. A
/// part of A, its third source, has a pool of its own.
fn four() -> Nat64Config {
    config(
        &["2001:db8:c::/64"],
        &[
            ("192.0.2.1/32", &["2001:db8:a::/62"]),
            ("192.0.2.2/32", &["2001:db8:b::/63"]),
            ("192.0.2.3/32", &[]),
            ("192.0.2.4/32", &["2001:db8:a:2::/64"]),
        ],
        None,
    )
}

#[test]
fn each_pool_is_divided_between_its_own_sources() {
    let mappings = mappings(&four());
    for (source, addr, first, last) in [
        ("2001:db8:a:0::/64", "192.0.2.1", 1024, 17_151),
        ("2001:db8:a:1::/64", "192.0.2.1", 17_152, 33_279),
        ("2001:db8:a:3::/64", "192.0.2.1", 49_408, 65_535),
        ("2001:db8:b:0::/64", "192.0.2.2", 1024, 33_279),
        ("2001:db8:b:1::/64", "192.0.2.2", 33_280, 65_535),
        ("2001:db8:c:0::/64", "192.0.2.3", 1024, 65_535),
        ("2001:db8:a:2::/64", "192.0.2.4", 1024, 65_535),
    ] {
        let addr: Ipv4Addr = addr.parse().expect("an address");
        let host = Ipv6Addr::from_bits(net(source).addr().to_bits() | 0x77);
        let range = PortRange { addr, first, last };
        assert_eq!(mappings.ports_of(host), Some(range), "{source}");
        for port in [first, first + 1, last] {
            let v4 = Endpoint4 { addr, port };
            assert_eq!(mappings.source_of(v4), Some(net(source)), "{v4}");
            assert_eq!(mappings.source_elsewhere(v4), None);
            assert!(!mappings.is_overflow(v4));
        }
    }
    // The ports of the third source's number are nobody's, though it is a /64 of the prefix.
    for port in [33_280, 49_407] {
        let addr = "192.0.2.1".parse().expect("an address");
        let v4 = Endpoint4 { addr, port };
        assert_eq!(mappings.source_of(v4), None);
        assert_eq!(
            mappings.source_elsewhere(v4),
            Some(net("2001:db8:a:2::/64"))
        );
        assert_eq!(mappings.first_of(v4), Some(33_280));
    }
    for stranger in ["2001:db8:a:4::1", "2001:db8:c:1::1", "2001:db7::1"] {
        let stranger = stranger.parse().expect("an address");
        assert_eq!(mappings.ports_of(stranger), None);
    }
}

/// The ports of all others stay when a customer gets a pool.
#[test]
fn a_pool_for_one_moves_nobody_else() {
    let before = config(&["2001:db8::/60"], &[("192.0.2.0/31", &[])], None);
    let mut after = before.clone();
    after.pool4.push(four().pool4[3].clone());
    after.pool4[1].sources = vec![net("2001:db8:0:5::/64")];
    let (before, after) = (mappings(&before), mappings(&after));
    for number in 0..16u32 {
        let host = format!("2001:db8:0:{number:x}::1").parse();
        let host = host.expect("an address");
        let its = after.ports_of(host).expect("each has some");
        match number {
            5 => assert_eq!(its.addr, Ipv4Addr::new(192, 0, 2, 4)),
            _ => assert_eq!(before.ports_of(host), Some(its)),
        }
    }
}

/// Sources of an overflow: blocks begin behind the fixed ports of their own pool.
#[test]
fn the_overflow_is_that_of_the_pool() {
    let mut config = four();
    config.blocks = Some(PortBlocks {
        ports: 256,
        per_source: 1,
        source_prefix_len: 64,
    });
    let fixed = config.deterministic.as_mut().expect("there are some");
    (fixed.ports_per_source, fixed.overflow_share) = (Some(1024), 10);
    let mappings = mappings(&config);
    // 64512 - 6452 = 58060; / 1024 = 56 sources: 1024 + 56 x 1024 = 58368 is the first port behind them, at each address.
    for addr in 1..=4 {
        let addr = Ipv4Addr::new(192, 0, 2, addr);
        let is = |port| mappings.is_overflow(Endpoint4 { addr, port });
        assert_eq!([58_367, 58_368, 65_535].map(is), [false, true, true]);
    }
    let addr = Ipv4Addr::new(192, 0, 2, 5);
    assert!(!mappings.is_overflow(Endpoint4 { addr, port: 60_000 }));
}

fn refusal(change: impl FnOnce(&mut Nat64Config)) -> String {
    let mut config = four();
    change(&mut config);
    config.check().expect_err("it is wrong").to_string()
}

fn fixed(config: &mut Nat64Config) -> &mut Deterministic {
    config.deterministic.as_mut().expect("there are some")
}

/// What cannot be divided is refused, with the places of both.
#[test]
fn what_cannot_be_divided_is_refused() {
    // 64512 / 2048 = 31 ports each.
    let said = refusal(|c| c.pool4[1].sources = vec![net("2001:db8:b::/53")]);
    assert!(
        said.contains(
            "nat64.pool4[1].sources: with [nat64.deterministic], of nat64.pool4[1]: 2048 sources (/64) / 1 pool addresses = \
             2048 for each address, which has 64512 ports: less than 64 for each source. The pool is large enough for 1008"
        ),
        "{said}"
    );
    // 64512 / 16192 = 3.98.
    let said = refusal(|c| fixed(c).ports_per_source = Some(16_192));
    assert!(
        said.contains(
            "nat64.deterministic.ports_per_source: with [nat64.deterministic], of nat64.pool4[0]: 4 sources (/64) x 16192 ports \
             do not fit: each of the 1 pool addresses has 64512 ports / 16192 = 3 sources, together 3"
        ),
        "{said}"
    );
    let said = refusal(|c| fixed(c).sources.clear());
    assert!(
        said.contains(
            "nat64.deterministic.sources: nat64.pool4[2] has no sources: name the prefixes"
        ),
        "{said}"
    );
    let said = refusal(|c| {
        c.pool4.remove(2);
    });
    assert!(
        said.contains("nat64.deterministic.sources: these nodes use entries of nat64.pool4 without sources, and there is none"),
        "{said}"
    );
    for sources in ["2001:db8:a::/62", "2001:db8:a:1::/64"] {
        let said = refusal(|c| fixed(c).sources.push(net(sources)));
        let expected = format!(
            "nat64.deterministic.sources[1]: {sources} is in nat64.pool4[0].sources: its nodes have that pool"
        );
        assert!(said.contains(&expected), "{said}");
    }
    // Also if the source at its beginning has a pool of its own.
    let said = refusal(|c| {
        c.pool4[3].sources = vec![net("2001:db8:a::/64")];
        fixed(c).sources.push(net("2001:db8:a::/63"));
    });
    assert!(
        said.contains("sources[1]: 2001:db8:a::/63 is in nat64.pool4[0].sources"),
        "{said}"
    );
    let two = |c: &mut Nat64Config| {
        c.pool4[0].sources.push(net("2001:db8:d::/64"));
        let mut other = c.pool4[0].clone();
        other.net = "192.0.2.9/32".parse().expect("a network");
        c.pool4.push(other);
    };
    let mut good = four();
    two(&mut good);
    good.check().expect("it is right");
    let said = refusal(|c| {
        two(c);
        c.pool4[4].sources.reverse();
    });
    assert!(
        said.contains("nat64.pool4[4].sources: with [nat64.deterministic], the order of sources decides on their ports: write them in that of nat64.pool4[0]"),
        "{said}"
    );
    let said = refusal(|c| {
        two(c);
        c.pool4[4].ports = 2048..=4095;
    });
    assert!(
        said.contains("nat64.pool4[4].ports: all addresses of a fixed mapping have the same ports, as nat64.pool4[0]"),
        "{said}"
    );
    let said = refusal(|c| c.pool4[1].ports = 1000..=1086);
    assert!(
        said.contains("nat64.pool4[1].ports: 1000-1086 has no 64 ports"),
        "{said}"
    );
    let said = refusal(|c| c.pool4[0].sources.push(net("2001:db8:a:1::/64")));
    assert!(
        said.contains("nat64.pool4[0].sources: 2001:db8:a::/62 and 2001:db8:a:1::/64 overlap"),
        "{said}"
    );
    let said = refusal(|c| c.pool4[1].protocols = vec![Protocol::Udp]);
    assert!(said.contains("nat64.pool4[1].protocols: "), "{said}");
}

/// Without entries for all other nodes, no section names any.
#[test]
fn the_section_needs_no_sources_where_all_pools_have_some() {
    let mut config = four();
    config.pool4.remove(2);
    fixed(&mut config).sources.clear();
    let mappings = mappings(&config);
    let pools: Vec<PoolId> = mappings.iter().map(|(pool, _)| pool).collect();
    assert_eq!(pools, [1, 2, 3]);
    let stranger = "2001:db8:c::1".parse().expect("an address");
    assert_eq!(mappings.ports_of(stranger), None);
    // Entries need not have the same ports in different pools.
    config.pool4[1].ports = 2048..=4095;
    config.check().expect("it is right");
}

/// A plain model: every /64 of every pool is written down in order, and those of other pools are struck out.
fn model(config: &Nat64Config) -> HashMap<Ipv6Net, PortRange> {
    let wanted = config.deterministic.as_ref().expect("there are some");
    let pool_of = |node: Ipv6Addr| {
        let all = config.pool4.iter().flat_map(|part| {
            let its = part.sources.iter().filter(|net| net.contains(&node));
            its.map(|net| (net.prefix_len(), part.sources.clone()))
        });
        all.max_by_key(|(len, _)| *len)
            .map_or(Vec::new(), |(_, sources)| sources)
    };
    let mut all = HashMap::new();
    let mut lists: Vec<Vec<Ipv6Net>> = config.pool4.iter().map(|p| p.sources.clone()).collect();
    lists.sort();
    lists.dedup();
    for list in lists {
        let inside = if list.is_empty() {
            &wanted.sources
        } else {
            &list
        };
        let inside: Vec<Ipv6Net> = inside
            .iter()
            .flat_map(|net| net.subnets(64).expect("shorter"))
            .collect();
        let parts = || config.pool4.iter().filter(|part| part.sources == list);
        let outside: Vec<Ipv4Addr> = parts()
            .flat_map(|part| {
                let first = part.net.network().to_bits();
                (first..=part.net.broadcast().to_bits()).map(Ipv4Addr::from_bits)
            })
            .collect();
        let low = (1024..=65_535u32)
            .find(|port| {
                port % 64 == 0 && *port >= u32::from(*parts().next().unwrap().ports.start())
            })
            .expect("there is one");
        let high = u32::from(*parts().next().unwrap().ports.end()) + 1;
        let ports = (high - low) / 64 * 64;
        let (size, per_address) = match wanted.ports_per_source {
            Some(size) => (size, ports / size),
            None => {
                let each = inside.len().div_ceil(outside.len()) as u32;
                (ports / each / 64 * 64, each)
            }
        };
        for (number, source) in inside.iter().enumerate() {
            if pool_of(source.addr()) != list {
                continue;
            }
            let first = low + number as u32 % per_address * size;
            let range = PortRange {
                addr: outside[number / per_address as usize],
                first: first as u16,
                last: (first + size - 1) as u16,
            };
            all.insert(*source, range);
        }
    }
    all
}

fn prefix() -> impl Strategy<Value = Ipv6Net> {
    // Neighbours that contain each other often.
    (0u128..16, 60u8..=64).prop_map(|(number, len)| {
        let bits = 0x2001_0db8_u128 << 96 | number << 64;
        Ipv6Net::new(Ipv6Addr::from_bits(bits), len)
            .expect("a length")
            .trunc()
    })
}

/// Removes prefixes that overlap earlier ones.
fn apart(list: &mut Vec<Ipv6Net>) {
    let mut kept: Vec<Ipv6Net> = Vec::new();
    for net in list.drain(..) {
        if !kept
            .iter()
            .any(|other| other.contains(&net) || net.contains(other))
        {
            kept.push(net);
        }
    }
    *list = kept;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No port has two sources, none has a source of another pool, and both directions say the same.
    #[test]
    fn mappings_are_what_a_plain_model_says(
        lists in prop::collection::vec(prop::collection::vec(prefix(), 0..4), 1..5),
        order in prop::collection::vec(0usize..5, 1..8),
        sources in prop::collection::vec(prefix(), 0..4),
        ports in prop_oneof![Just(None), (1u32..40).prop_map(|n| Some(n * 64))],
        lows in prop::collection::vec(0u16..3000, 5),
        high in 4000u16..=65535,
    ) {
        let mut config = config(&[], &[], ports);
        let mut lists = lists;
        let mut seen: Vec<Ipv6Net> = Vec::new();
        for list in &mut lists {
            list.retain(|net| !seen.contains(net));
            apart(list);
            seen.extend(list.iter());
        }
        for (at, list) in order.iter().enumerate() {
            let list = list % lists.len();
            config.pool4.push(Pool4 {
                net: format!("198.51.100.{}/31", 2 * (7 - at)).parse().expect("a network"),
                ports: if lists[list].is_empty() { lows[0] } else { lows[list] }..=high,
                protocols: Protocol::ALL.to_vec(),
                sources: lists[list].clone(),
                interface: None,
            });
        }
        if config.pool4.iter().any(|part| part.sources.is_empty()) {
            let mut sources = sources;
            let used = || config.pool4.iter().flat_map(|part| &part.sources);
            sources.retain(|net| !used().any(|other| other.contains(net)));
            apart(&mut sources);
            fixed(&mut config).sources = sources;
        }
        prop_assume!(config.check().is_ok());
        let expected = model(&config);
        let mappings = mappings(&config);
        let mut owners = HashMap::new();
        for number in 0..16u128 {
            let source = Ipv6Net::new(Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | number << 64), 64).expect("a length");
            let host = Ipv6Addr::from_bits(source.addr().to_bits() | 0x1234);
            let range = mappings.ports_of(host);
            prop_assert_eq!(range, expected.get(&source).copied());
            let Some(PortRange { addr, first, last }) = range else { continue };
            let pools = mappings.pools();
            prop_assert_eq!(pools.of_address(addr), Some(pools.of_node(host)));
            for port in first..=last {
                prop_assert_eq!(owners.insert((addr, port), source), None);
            }
        }
        for addr in (0..16).map(|last| Ipv4Addr::new(198, 51, 100, last)) {
            for port in (0..=65_535).step_by(61) {
                let v4 = Endpoint4 { addr, port };
                prop_assert_eq!(mappings.source_of(v4), owners.get(&(addr, port)).copied());
            }
        }
    }
}
