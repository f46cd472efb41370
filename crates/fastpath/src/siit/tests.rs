// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The destinations of a stateless router, and whether they form one network.

use std::cell::Cell;

use super::*;
use crate::Sends;

fn hosts(number: u32, apart: u32) -> Vec<(Ipv4Addr, u8)> {
    let host = |at| (Ipv4Addr::from_bits(0x0a00_0000 + apart * at), 32);
    (0..number).map(host).collect()
}

#[test]
fn networks_lie_within_wider_ones_and_themselves() {
    let net = |text: &str, len| (text.parse().expect("an address"), len);
    let others = [net("192.0.2.0", 24), net("198.51.100.8", 32)];
    let lies = |network| lie_within([network].into_iter(), &others, masked4);
    assert!(lies(net("192.0.2.0", 24)) && lies(net("192.0.2.9", 32)));
    assert!(lies(net("198.51.100.8", 32)));
    assert!(!lies(net("192.0.0.0", 16)) && !lies(net("198.51.100.9", 32)));
    assert!(!lie_within(
        [net("192.0.2.9", 32)].into_iter(),
        &[],
        masked4
    ));
    let all = net("0.0.0.0", 0);
    assert!(lie_within([all].into_iter(), &[all], masked4));
}

/// As many routes as mappings, without neighbours: the number of lookups does not grow quadratically.
#[test]
fn a_mapping_is_looked_up_once_for_each_length_of_a_route() {
    let (mappings, looks) = (hosts(2000, 2), Cell::new(0));
    let counted = |network, bits| {
        looks.set(looks.get() + 1);
        masked4(network, bits)
    };
    let mut routes = mappings.clone();
    routes.push((Ipv4Addr::new(192, 0, 2, 0), 24));
    assert!(lie_within(mappings.iter().copied(), &routes, counted));
    assert!(looks.get() <= 2 * mappings.len(), "{}", looks.get());
}

fn common(networks: &[([u8; 4], u8)]) -> (Ipv4Addr, u8) {
    common4(networks.iter().map(|&(a, len)| (a.into(), len)))
}

#[test]
fn every_mapping_lies_in_the_common_network() {
    assert_eq!(common(&[]), (Ipv4Addr::UNSPECIFIED, 0));
    let one = ([192, 0, 2, 1], 32);
    assert_eq!(common(&[one]), (one.0.into(), 32));
    let near = ([192, 0, 2, 128], 25);
    assert_eq!(common(&[one, near]), (Ipv4Addr::new(192, 0, 2, 0), 24));
    assert_eq!(
        common(&[([10, 0, 0, 0], 8), one]),
        (Ipv4Addr::UNSPECIFIED, 0)
    );
    assert_eq!(
        common(&[one, ([192, 0, 0, 0], 16)]),
        (Ipv4Addr::new(192, 0, 0, 0), 16)
    );
}

/// The verifier takes some tenths of a second for each: only programs that have a place are loaded.
#[test]
fn programs_without_a_place_are_not_loaded() {
    let mut rules = rules_of_two_ports();
    let all = rules.drivers.take();
    for (ethernet, bare_ip, has_driver) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (true, true, true),
    ] {
        rules.media = Media { ethernet, bare_ip };
        rules.drivers = all.clone().filter(|_| has_driver);
        let mut storage = MaybeUninit::uninit();
        let open = open(&mut storage, &rules).expect("it opens");
        let loaded = [
            open.progs.siit_egress.autoload(),
            open.progs.siit_ingress.autoload(),
            open.progs.siit_ingress_raw.autoload(),
            open.progs.siit_xdp.autoload(),
        ];
        assert_eq!(loaded, [true, ethernet, bare_ip, has_driver]);
        let others = open.open_object().progs();
        let all_loaded = others.filter(|program| program.autoload()).count();
        assert_eq!(all_loaded, loaded.iter().filter(|is| **is).count());
    }
}

/// Without exits, the verifier does not check the code with which a driver sends.
#[test]
fn the_xdp_program_loads_with_exits() {
    let rules = rules_of_two_ports();
    let mut storage = MaybeUninit::uninit();
    let open = open(&mut storage, &rules).expect("it opens");
    let loaded = load(open, &rules).expect("it loads (as root)");
    assert!(prepared(&loaded, &rules).is_ok());
}

fn rules_of_two_ports() -> SiitRules {
    let port = |ifindex, vlan, sends, turns| Port {
        ifindex,
        card: 1,
        vlan,
        address: [2, 0, 0, 0, 0, 1],
        takes: true,
        sends,
        turns,
        hides_tags: false,
    };
    SiitRules {
        rules: Rules {
            tun_ifindex: 7,
            mtu4: 1500,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            traffic_class_zero: false,
            takes_hop: true,
            tcp_mss: None,
        },
        pref64: vec![Pref64 {
            network: Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
            bits: 96,
            only_global: true,
        }],
        eam: Vec::new(),
        routes: Destinations {
            v4: vec![(Ipv4Addr::new(192, 0, 2, 0), 24)],
            v6: vec![(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96)],
        },
        loops: Vec::new(),
        exits: vec![1, 2],
        media: Media {
            ethernet: true,
            bare_ip: true,
        },
        drivers: Some(vec![
            port(1, None, Sends::Nothing, false),
            port(2, Some(5), Sends::Buffers, true),
        ]),
    }
}
