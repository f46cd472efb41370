// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example of RFC 7422 section 2.3 with its numbers, and properties of every mapping.

use super::*;
use crate::config::{Limits, Mappings, PoolId, Pools, PortBlocks, DEFAULT_POOL};
use diolkos_xlat::config::Config;
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;

fn config(sources: &[&str], pool: &[&str], ports: Option<u32>, overflow: u8) -> Nat64Config {
    let part = |net: &&str| Pool4 {
        interface: None,
        net: net.parse().expect("a network"),
        ports: 1024..=65535,
        protocols: Protocol::ALL.to_vec(),
        sources: vec![],
    };
    let blocks = PortBlocks {
        ports: 64,
        per_source: 8,
        source_prefix_len: 64,
    };
    Nat64Config {
        translator: Config {
            pref64: vec!["64:ff9b::/96".parse().expect("a network")],
            ..Config::default()
        },
        pool4: pool.iter().map(part).collect(),
        blocks: (overflow > 0).then_some(blocks),
        deterministic: Some(Deterministic {
            sources: sources
                .iter()
                .map(|net| net.parse().expect("a network"))
                .collect(),
            ports_per_source: ports,
            overflow_share: overflow,
        }),
        ..Nat64Config::default()
    }
}

fn mapping(config: &Nat64Config) -> Mapping {
    config.check().expect("it is right");
    let mappings = mappings(config);
    let all: Vec<PoolId> = mappings.iter().map(|(pool, _)| pool).collect();
    assert_eq!(all, [DEFAULT_POOL]);
    mappings
        .of_pool(DEFAULT_POOL)
        .expect("there is one")
        .clone()
}

fn mappings(config: &Nat64Config) -> Mappings {
    let mappings = Mappings::of(config, &Arc::new(Pools::of(&config.pool4)));
    mappings.expect("it is right").expect("there are some")
}

fn refusal(config: &Nat64Config) -> String {
    config.check().expect_err("it is wrong").to_string()
}

fn at(addr: &str, port: u16) -> Endpoint4 {
    let addr = addr.parse().expect("an address");
    Endpoint4 { addr, port }
}

/// 14 subscribers behind 192.0.2.1, ports below 1024 reserved, the room of two more (D = 2, an eighth) dynamic: 64512 / 16 =
/// 4032 ports each, the first 1024-5055, the second 5056-9087, the last 53440-57471; 57472-65535 are dynamic.
#[test]
fn the_example_of_rfc_7422() {
    let fourteen = ["2001:db8::/61", "2001:db8:0:8::/62", "2001:db8:0:c::/63"];
    let mapping = mapping(&config(&fourteen, &["192.0.2.1/32"], None, 12));
    assert_eq!(mapping.source_count(), 14);
    let ranges = [(0, 1024, 5055), (1, 5056, 9087), (13, 53440, 57471)];
    for (number, first, last) in ranges {
        let node: Ipv6Addr = format!("2001:db8:0:{number:x}::77")
            .parse()
            .expect("an address");
        let addr = Ipv4Addr::new(192, 0, 2, 1);
        assert_eq!(
            mapping.ports_of(node),
            Some(PortRange { addr, first, last })
        );
        for port in [first, first + 1, last] {
            let source = mapping
                .source_of(at("192.0.2.1", port))
                .expect("somebody's");
            let expected = format!("2001:db8:0:{number:x}::/64").parse();
            assert_eq!(Ok(source), expected);
        }
    }
    // The abuse report in the RFC about port 2001 concerns the first subscriber; the one about 58204 needs the log.
    let first = mapping.source_of(at("192.0.2.1", 2001));
    assert_eq!(
        first.map(|net| net.to_string()).as_deref(),
        Some("2001:db8::/64")
    );
    for port in [57472, 58204, 65535] {
        assert_eq!(mapping.source_of(at("192.0.2.1", port)), None);
        assert!(mapping.is_overflow(at("192.0.2.1", port)));
    }
    for v4 in [at("192.0.2.1", 1023), at("192.0.2.2", 2001)] {
        assert!(mapping.source_of(v4).is_none() && !mapping.is_overflow(v4));
    }
    assert_eq!(
        mapping.ports_of("2001:db8:0:e::1".parse().expect("an address")),
        None
    );
}

#[test]
fn a_pool_that_is_too_small_is_refused_with_the_arithmetic() {
    // 65536 /64 in a /48; 64512 ports of an address are 1008 times 64.
    let said = refusal(&config(&["2001:db8::/48"], &["192.0.2.0/29"], None, 0));
    assert!(
        said.contains(
            "65536 sources (/64) / 8 pool addresses = 8192 for each address, which has 64512 ports"
        ) && said.contains("large enough for 8064 sources"),
        "{said}"
    );
    // 64512 - 12903 (a fifth, rounded up) = 51609; / 512 = 100.
    let said = refusal(&config(
        &["2001:db8::/56"],
        &["192.0.2.0/31"],
        Some(512),
        20,
    ));
    assert!(
        said.contains("256 sources (/64) x 512 ports do not fit: each of the 2 pool addresses has 64512 - 12903 \
                       (overflow) = 51609 ports / 512 = 100 sources, together 200"),
        "{said}"
    );
    assert!(config(&["2001:db8::/56"], &["192.0.2.0/30"], Some(512), 20)
        .check()
        .is_ok());
}

#[test]
fn contradictions() {
    let good = || config(&["2001:db8::/56"], &["192.0.2.0/30"], None, 10);
    assert!(good().check().is_ok());
    let mut cases: Vec<(Nat64Config, &str)> = Vec::new();
    let mut case = |change: &dyn Fn(&mut Nat64Config), key| {
        let mut bad = good();
        change(&mut bad);
        cases.push((bad, key));
    };
    fn its(config: &mut Nat64Config) -> &mut Deterministic {
        config.deterministic.as_mut().expect("there is one")
    }
    let net = |text: &str| -> Ipv6Net { text.parse().expect("a network") };
    case(&|c| its(c).sources.clear(), "nat64.deterministic.sources:");
    case(
        &|c| its(c).sources[0] = net("2001:db8::1/56"),
        "nat64.deterministic.sources[0]: 2001:db8::1/56 has host bits",
    );
    case(
        &|c| its(c).sources[0] = net("2001:db8::/65"),
        "is a part of one source",
    );
    case(
        &|c| its(c).sources.push(net("2001:db8:0:1::/64")),
        "2001:db8::/56 and 2001:db8:0:1::/64 overlap",
    );
    case(
        &|c| its(c).sources.push(net("ff00::/56")),
        "nat64.deterministic.sources[1]: ff00::/56 is multicast",
    );
    case(&|c| its(c).sources.push(net("2a00::/12")), "2^48");
    case(
        &|c| its(c).ports_per_source = Some(100),
        "nat64.deterministic.ports_per_source: 100 is neither",
    );
    case(
        &|c| its(c).ports_per_source = Some(0),
        "nat64.deterministic.ports_per_source: 0 is neither",
    );
    case(&|c| its(c).ports_per_source = Some(65536), "do not fit");
    case(
        &|c| its(c).overflow_share = 91,
        "91 is not between 0 and 90",
    );
    case(&|c| its(c).overflow_share = 0, "nat64.ports_per_block: ");
    case(
        &|c| c.blocks = None,
        "nat64.deterministic.overflow_share: 10 %",
    );
    case(
        &|c| c.pool4.push(c.pool4[0].clone()),
        "192.0.2.0/30 overlaps nat64.pool4[0], 192.0.2.0/30",
    );
    case(
        &|c| c.pool4[0].ports = 1000..=1086,
        "has no 64 ports above 1023",
    );
    case(
        &|c| c.pool4[0].protocols = vec![Protocol::Udp],
        "nat64.pool4[0].protocols",
    );
    for (bad, expected) in &cases {
        let said = refusal(bad);
        assert!(said.contains(expected), "{said} lacks {expected}");
    }
}

/// Sources and addresses appended to the lists change no other source, if the ports of a source are configured.
#[test]
fn whoever_comes_last_moves_nobody() {
    let small = mapping(&config(
        &["2001:db8:2::/56"],
        &["203.0.113.0/30"],
        Some(512),
        0,
    ));
    let (sources, pool) = (
        ["2001:db8:2::/56", "2001:db8:1::/56"],
        ["203.0.113.0/30", "192.0.2.0/30"],
    );
    let large = mapping(&config(&sources, &pool, Some(512), 0));
    for number in 0..256 {
        let node: Ipv6Addr = format!("2001:db8:2:{number:x}::1")
            .parse()
            .expect("an address");
        assert_eq!(small.ports_of(node), large.ports_of(node));
    }
    assert_eq!(large.source_count(), 512);
}

proptest! {
    /// Each source has ports of its own, and they map back to that source. An independent computation gives the same
    /// mapping.
    #[test]
    fn a_mapping_is_one_to_one(
        lens in prop::collection::vec(56u8..=64, 1..5),
        pool in prop::collection::vec(28u8..=32, 1..4),
        ports in prop_oneof![Just(None), (1u32..64).prop_map(|n| Some(n * 64))],
        overflow in prop_oneof![Just(0u8), 1u8..=50],
        (low, high) in (0u16..3000, 30_000u16..=65535),
        probes in prop::collection::vec((any::<u8>(), any::<u16>()), 50),
    ) {
        let sources: Vec<String> = lens.iter().enumerate().rev().map(|(at, len)| format!("2001:db8:{at}::/{len}")).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let pool: Vec<String> = pool.iter().enumerate().rev().map(|(at, len)| format!("198.51.{at}.0/{len}")).collect();
        let pool: Vec<&str> = pool.iter().map(String::as_str).collect();
        let mut config = config(&sources, &pool, ports, overflow);
        config.pool4.iter_mut().for_each(|part| part.ports = low..=high);
        config.limits = Limits { source_prefix_len: 64, ..Limits::default() };
        prop_assume!(config.check().is_ok());
        let mapping = mapping(&config);
        let mut seen = HashSet::new();
        for net in mapping.sources() {
            for source in net.subnets(64).expect("shorter") {
                let node = Ipv6Addr::from_bits(source.addr().to_bits() | 0x1234);
                let range = mapping.ports_of(node).expect("each has some");
                prop_assert!(seen.insert((range.addr, range.first)));
                prop_assert!(config.pool4.iter().any(|part| part.net.contains(&range.addr)));
                prop_assert!(range.first >= 1024.max(low) && range.last <= high && range.first < range.last);
                for port in [range.first, range.last, range.first + (range.last - range.first) / 3] {
                    let v4 = Endpoint4 { addr: range.addr, port };
                    prop_assert_eq!(mapping.source_of(v4), Some(source));
                    prop_assert!(!mapping.is_overflow(v4));
                }
            }
        }
        prop_assert_eq!(seen.len() as u64, mapping.source_count());
        for (host, port) in probes {
            let v4 = Endpoint4 { addr: Ipv4Addr::new(198, 51, 0, host % 20), port };
            if let Some(source) = mapping.source_of(v4) {
                let range = mapping.ports_of(source.addr()).expect("each has some");
                prop_assert!(range.addr == v4.addr && (range.first..=range.last).contains(&port));
                prop_assert!(!mapping.is_overflow(v4));
            }
        }
    }
}
