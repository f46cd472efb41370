// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateway that receives a packet without a session here (`bpf/forward.bpf.c`), and the hosts for which the session
//! programs open bindings. The kernel runs the programs on synthetic packets.

mod bucket;
mod world;

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_fastpath::testrun::{Action, Verdict};
use diolkos_fastpath::{Gateway, HostPort, LeaseSize, NodePort, Owner};

use world::*;

#[test]
fn without_a_cluster_nothing_is_forwarded() {
    let programs = programs();
    programs.homes.set_cluster(None).expect("it fits");
    programs.set_home(host(), node(1));
    let packet = ipv6(host(), peer6(), UDP, &ports(4000, 53));
    assert_eq!(programs.ask(&packet), Verdict::Here);
    assert_eq!(
        programs.ask(&ipv4(OF_1, UDP, 0, &ports(53, 4000))),
        Verdict::Here
    );
}

#[test]
fn a_host_goes_to_its_home() {
    let programs = programs();
    let packet = ipv6(host(), peer6(), UDP, &ports(4000, 53));
    assert_eq!(programs.ask(&packet), Verdict::Here);
    programs.set_home(host(), node(1));
    for protocol in [TCP, UDP, 50, 47] {
        let packet = ipv6(host(), peer6(), protocol, &ports(4000, 53));
        assert_eq!(programs.ask(&packet), Verdict::To(node(1)), "{protocol}");
    }
    let packet = ipv6(host(), peer6(), ICMP6, &echo(128, 9));
    assert_eq!(programs.ask(&packet), Verdict::To(node(1)));
    // In any of the prefixes, and not outside them.
    let packet = ipv6(
        host(),
        address("2001:db8:ff:c633::1"),
        UDP,
        &ports(4000, 53),
    );
    assert_eq!(programs.ask(&packet), Verdict::To(node(1)));
    for to in ["2001:db8::2", "64:ff9b:1::1", "64:ff9a:ffff::1"] {
        let packet = ipv6(host(), address(to), UDP, &ports(4000, 53));
        assert_eq!(programs.ask(&packet), Verdict::Here, "{to}");
    }
    // Another host of the subscriber has the same home; another subscriber may have another one.
    let packet = ipv6(address("2001:db8:0:1::65"), peer6(), UDP, &ports(1, 2));
    assert_eq!(programs.ask(&packet), Verdict::To(node(1)));
    programs.set_home(host(), Owner::OURS);
    assert_eq!(programs.ask(&packet), Verdict::Here);
}

#[test]
fn a_binding_of_another_gateway_comes_before_the_home() {
    let programs = programs();
    for home in [Owner::OURS, node(1)] {
        let at_home = match home == Owner::OURS {
            true => Verdict::Here,
            false => Verdict::To(home),
        };
        programs.set_home(host(), home);
        programs.set_away(UDP, host(), 4000, node(0));
        programs.set_away(ICMP, host(), 9, node(0));
        let ask = |packet: Vec<u8>| programs.ask(&packet);
        let to_owner = Verdict::To(node(0));
        assert_eq!(ask(ipv6(host(), peer6(), UDP, &ports(4000, 53))), to_owner);
        // Another port, protocol or host is another binding.
        assert_eq!(ask(ipv6(host(), peer6(), UDP, &ports(53, 4000))), at_home);
        assert_eq!(ask(ipv6(host(), peer6(), TCP, &ports(4000, 53))), at_home);
        let other = address("2001:db8:0:1::65");
        assert_eq!(ask(ipv6(other, peer6(), UDP, &ports(4000, 53))), at_home);
        // RFC 6146 section 3.5.3: queries have an identifier, and so have a host's replies.
        assert_eq!(ask(ipv6(host(), peer6(), ICMP6, &echo(128, 9))), to_owner);
        assert_eq!(ask(ipv6(host(), peer6(), ICMP6, &echo(129, 9))), to_owner);
        assert_eq!(ask(ipv6(host(), peer6(), ICMP6, &echo(128, 10))), at_home);
        assert_eq!(ask(ipv6(host(), peer6(), ICMP6, &echo(130, 9))), at_home);
        // A packet truncated before its ports.
        assert_eq!(ask(ipv6(host(), peer6(), UDP, &[0x0f])), at_home);

        let port = HostPort {
            protocol: UDP,
            addr: host(),
            port: 4000,
        };
        programs.homes.clear_away(port).expect("it is there");
        programs.homes.clear_away(port).expect("it need not be");
        assert_eq!(ask(ipv6(host(), peer6(), UDP, &ports(4000, 53))), at_home);
    }
}

/// The home of a host may change while it has bindings here, which another node would not have.
#[test]
fn packets_of_our_bindings_stay_here_whoever_is_the_home() {
    let programs = programs();
    programs.set_home(host(), node(1));
    let to_home = Verdict::To(node(1));
    for protocol in [TCP, UDP] {
        let port = NodePort {
            protocol,
            addr: host(),
            port: 4000,
        };
        let packet = ipv6(host(), peer6(), protocol, &ports(4000, 53));
        assert_eq!(programs.ask(&packet), to_home);
        for (owner, expected) in [(Owner::OURS, Verdict::Here), (node(0), to_home)] {
            let bound = programs.bindings.bind(port, (OURS, 2000), owner);
            bound.expect("there is room");
            assert_eq!(programs.ask(&packet), expected);
        }
        programs.set_away(protocol, host(), 4000, node(0));
        let bound = programs.bindings.bind(port, (OURS, 2000), Owner::OURS);
        bound.expect("it is there");
        assert_eq!(programs.ask(&packet), Verdict::Here);
        let other = ipv6(host(), peer6(), protocol, &ports(4001, 53));
        assert_eq!(programs.ask(&other), to_home);
        programs.bindings.unbind(port).expect("it is there");
        assert_eq!(programs.ask(&packet), Verdict::To(node(0)));
    }
}

/// RFC 4443 section 2.4 (c): an error quotes as much of the packet as fits. The quoted packet went from the translator
/// to the host, so its destination is the host (RFC 7915 section 5.2), regardless of the sender of the error.
#[test]
fn an_error_goes_where_the_packet_that_it_quotes_belongs() {
    let programs = programs();
    let router = address("2001:db8:9::1");
    programs.set_home(host(), node(1));
    programs.set_home(router, Owner::OURS);
    programs.set_away(TCP, host(), 4000, node(0));
    programs.set_away(ICMP, host(), 9, node(0));
    let error = |kind: u8, from: Ipv6Addr, quoted: &[u8]| {
        let inside = [&[kind, 0, 0, 0, 0, 0, 5, 0][..], quoted].concat();
        programs.ask(&ipv6(from, peer6(), ICMP6, &inside))
    };
    for kind in [1, 2, 3, 4, 127] {
        for from in [router, host()] {
            let quoted = ipv6(peer6(), host(), TCP, &ports(443, 4000));
            assert_eq!(error(kind, from, &quoted), Verdict::To(node(0)));
            // Eight bytes of transport header are enough; with fewer, the host's home decides.
            assert_eq!(error(kind, from, &quoted[..48]), Verdict::To(node(0)));
            assert_eq!(error(kind, from, &quoted[..43]), Verdict::To(node(1)));
            // The peer's port is not the host's.
            let quoted = ipv6(peer6(), host(), TCP, &ports(4000, 443));
            assert_eq!(error(kind, from, &quoted), Verdict::To(node(1)));
            let quoted = ipv6(peer6(), host(), ICMP6, &echo(129, 9));
            assert_eq!(error(kind, from, &quoted), Verdict::To(node(0)));
            // A later fragment.
            let quoted = ipv6(peer6(), host(), FRAGMENT, &[TCP, 0, 0, 8, 0, 0, 0, 1, 0, 0]);
            assert_eq!(error(kind, from, &quoted), Verdict::To(node(1)));
        }
    }
    // A packet that the translator has not sent, a truncated one, and one that is not IPv6: the slow path drops them.
    let foreign = ipv6(router, host(), TCP, &ports(443, 4000));
    assert_eq!(error(1, router, &foreign), Verdict::Here);
    let quoted = ipv6(peer6(), host(), TCP, &ports(443, 4000));
    assert_eq!(error(1, router, &quoted[..39]), Verdict::Here);
    assert_eq!(error(1, router, &[0x45; 60]), Verdict::Here);
}

/// A gateway that is not the home, and has bindings of such hosts, asks its daemon about packets that show no port, and about no others.
#[test]
fn fragments_of_bindings_here_stay_though_the_home_is_another_gateway() {
    let programs = programs();
    programs.set_home_with_port(host(), node(1));
    for (offset, more) in [(0, 1), (8, 1), (16, 0)] {
        let head = [UDP, 0, 0, offset | more, 0, 0, 0, 1];
        let inside = [&head[..], &ports(4000, 53)].concat();
        let packet = ipv6(host(), peer6(), FRAGMENT, &inside);
        assert_eq!(programs.ask(&packet), Verdict::Here);
    }
    let whole = ipv6(host(), peer6(), UDP, &ports(4000, 53));
    assert_eq!(programs.ask(&whole), Verdict::To(node(1)));
    programs.set_home(host(), node(1));
    let later = ipv6(host(), peer6(), FRAGMENT, &[UDP, 0, 0, 8, 0, 0, 0, 1]);
    assert_eq!(programs.ask(&later), Verdict::To(node(1)));
}

/// Only the first fragment has ports. All other fragments have to go to the same gateway.
#[test]
fn all_fragments_go_to_the_home() {
    let programs = programs();
    programs.set_home(host(), node(1));
    programs.set_away(UDP, host(), 4000, node(0));
    for offset in [[0, 1], [0, 8], [0x05, 0xa8]] {
        let mut inside = vec![UDP, 0, offset[0], offset[1], 0, 0, 0, 1];
        inside.extend(ports(4000, 53));
        let packet = ipv6(host(), peer6(), FRAGMENT, &inside);
        assert_eq!(programs.ask(&packet), Verdict::To(node(1)), "{offset:?}");
    }
    // On the IPv4 side, the address alone decides.
    for fragment in [0x2000, 0x20b9, 0x00b9] {
        let packet = ipv4(OF_0, UDP, fragment, &ports(53, 4000));
        assert_eq!(programs.ask(&packet), Verdict::To(node(0)));
    }
}

#[test]
fn an_address_goes_to_its_owner() {
    let programs = programs();
    // A home and a binding of the IPv6 side do not matter here.
    programs.set_home(host(), node(1));
    for (to, verdict) in [
        (OURS, Verdict::Here),
        (OF_0, Verdict::To(node(0))),
        (OF_1, Verdict::To(node(1))),
        (Ipv4Addr::new(192, 0, 2, 9), Verdict::Here),
    ] {
        for protocol in [TCP, UDP, 132] {
            assert_eq!(
                programs.ask(&ipv4(to, protocol, 0, &ports(53, 4000))),
                verdict
            );
        }
        assert_eq!(programs.ask(&ipv4(to, ICMP, 0, &echo(8, 9))), verdict);
        // An error: the packet that it quotes was sent from this address.
        let quoted = ipv4(Ipv4Addr::new(203, 0, 113, 1), TCP, 0, &ports(4000, 53));
        let inside = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
        assert_eq!(programs.ask(&ipv4(to, ICMP, 0, &inside)), verdict);
        // IPv4 options change nothing.
        let mut packet = ipv4(to, UDP, 0, &ports(53, 4000));
        packet[0] = 0x46;
        assert_eq!(programs.ask(&packet), verdict);
    }
}

#[test]
fn what_cannot_be_sent_stays_here() {
    let programs = programs();
    programs.set_home(host(), node(1));
    let packet6 = ipv6(host(), peer6(), UDP, &ports(4000, 53));
    let packet4 = ipv4(OF_1, UDP, 0, &ports(53, 4000));
    for (packet, hops_at) in [(packet6, 7), (packet4, 8)] {
        let mut packet = packet;
        for (hops, verdict) in [
            (255, Verdict::To(node(1))),
            (2, Verdict::To(node(1))),
            (1, Verdict::Hops(node(1))),
            (0, Verdict::Hops(node(1))),
        ] {
            packet[hops_at] = hops;
            assert_eq!(programs.ask(&packet), verdict);
        }
        packet[hops_at] = 64;
        programs
            .forward
            .forwarding
            .lead(node(1), None)
            .expect("the map takes it");
        assert_eq!(programs.ask(&packet), Verdict::NoWay(node(1)));
        let way = Gateway {
            ifindex: LINK,
            next_hop: address("fe80::11"),
            mtu: MTU,
        };
        let led = programs.forward.forwarding.lead(node(1), Some(way));
        led.expect("the map takes it");
    }
    // An unknown node.
    programs.set_home(host(), node(63));
    let packet = ipv6(host(), peer6(), UDP, &ports(4000, 53));
    assert_eq!(programs.ask(&packet), Verdict::NoWay(node(63)));
}

#[test]
fn a_packet_is_as_long_as_the_way_takes() {
    let programs = programs();
    programs.set_home(host(), node(1));
    let ask = |packet: &[u8], gso_size| {
        let verdict = programs.forward.verdict(packet, gso_size, FROM_HOSTS);
        verdict.expect("it runs")
    };
    let too_big = Verdict::TooBig(node(1));
    let fits = Verdict::To(node(1));
    let long = |len: usize| [&ports(4000, 53)[..], &vec![0; len]].concat();
    for (more, verdict) in [(0, fits), (1, too_big)] {
        let packet = ipv6(host(), peer6(), UDP, &long(1500 - 60 + more));
        assert_eq!(ask(&packet, 0), verdict);
        let packet = ipv4(OF_1, UDP, 0, &long(1500 - 40 + more));
        assert_eq!(ask(&packet, 0), verdict);
    }
    // A super-packet counts by the packets into which it is cut: 40 + 20, 20 + 20 (TCP), 8 (UDP).
    let packet6 = |protocol| ipv6(host(), peer6(), protocol, &long(3000));
    let packet4 = ipv4(OF_1, TCP, 0, &long(3000));
    assert_eq!(ask(&packet6(TCP), 1440), fits);
    assert_eq!(ask(&packet6(TCP), 1441), too_big);
    assert_eq!(ask(&packet4, 1460), fits);
    assert_eq!(ask(&packet4, 1461), too_big);
    assert_eq!(ask(&packet6(UDP), 1452), fits);
    assert_eq!(ask(&packet6(UDP), 1453), too_big);
    // The length of a header that is not parsed is unknown.
    assert_eq!(ask(&packet6(60), 100), too_big);
}

/// For any content of the maps, so that programs forward a packet at most once.
#[test]
fn what_comes_from_another_gateway_is_never_forwarded() {
    let programs = programs();
    programs.set_home(host(), node(1));
    programs.set_away(UDP, host(), 4000, node(0));
    let packets = [
        ipv6(host(), peer6(), UDP, &ports(4000, 53)),
        ipv6(host(), peer6(), TCP, &ports(4000, 53)),
        ipv4(OF_0, TCP, 0, &ports(53, 4000)),
    ];
    for packet in &packets {
        assert!(matches!(programs.ask(packet), Verdict::To(_)));
        let verdict = programs.forward.verdict(packet, 0, LINK);
        assert_eq!(verdict.expect("it runs"), Verdict::Returned);

        let at_device = programs.forward.at_device(packet, LINK, [0x1234, 5]);
        let (action, behind) = at_device.expect("it runs");
        assert_eq!(action, Action::Next);
        assert_eq!(behind[..4], 0xd101_c05f_u32.to_be_bytes());
        assert_eq!(behind[4..8], 0x1234_u32.to_ne_bytes());
        assert_eq!(behind[8..12], 5_u32.to_ne_bytes());
        assert_eq!(behind[12..16], LINK.to_ne_bytes());
        assert_eq!(behind[16 + 14..], packet[..]);
    }
    let count = programs.forward.at_device.count(Owner::OURS);
    let count = count.expect("it is read");
    assert_eq!((count.returned, count.packets), (packets.len() as u64, 0));
}

/// The daemon decides about hosts with another home, and about bindings of another gateway.
#[test]
fn programs_open_only_bindings_of_hosts_at_home() {
    let mut programs = programs();
    let place = programs.lending.set_of(host()).start;
    programs
        .lending
        .assign(place, host(), OURS, LeaseSize::Usual);
    programs.lending.add_sessions(place, 100);
    for queue in 0..4 {
        for port in 0..10 {
            // Even and odd ports have separate queues.
            let port = 2000 + 2 * port + (queue % 2) as u16;
            programs.lending.add_port(place, queue, port);
        }
    }
    let packet = |port: u16| {
        let udp = [
            &port.to_be_bytes()[..],
            &[0, 53, 0, 12, 0x12, 0x34],
            b"data",
        ]
        .concat();
        ipv6(host(), peer6(), UDP, &udp)
    };
    let mut opens = |port: u16| {
        let run = programs
            .sessions
            .from_ipv6(&packet(port), 0)
            .expect("it runs");
        let opened = programs.lending.drain().len();
        match run.fates[0].0 {
            "translated_6to4" => assert_eq!(opened, 1),
            fate => assert_eq!((fate, opened), ("decline_state", 0)),
        }
        opened == 1
    };
    let (order, config) = order(64, KEY);
    let bucket = order.bucket(config.subscriber(host()));
    let homes = &programs.homes;
    let away = HostPort {
        protocol: UDP,
        addr: host(),
        port: 4002,
    };
    assert!(opens(4000));
    homes.set_home(bucket, node(1), false);
    assert!(!opens(4002));
    homes.set_home(bucket, Owner::OURS, false);
    homes.set_away(away, node(0)).expect("there is room");
    assert!(!opens(4002));
    assert!(opens(4004));
    homes.clear_away(away).expect("it is there");
    assert!(opens(4002));
    homes.set_home(bucket, node(1), false);
    assert!(!opens(4006));
    homes.set_cluster(None).expect("it fits");
    assert!(opens(4006));
}

#[test]
fn more_links_than_fit_are_refused() {
    let programs = programs();
    let mut cluster = cluster(64, KEY);
    cluster.links = (1..=16).collect();
    programs.homes.set_cluster(Some(&cluster)).expect("it fits");
    let packet = ipv4(OF_0, UDP, 0, &ports(53, 4000));
    for link in 1..=17 {
        let verdict = programs.forward.verdict(&packet, 0, link).expect("it runs");
        let is_link = link <= 16;
        assert_eq!(verdict == Verdict::Returned, is_link, "{link}");
    }
    cluster.links.push(17);
    assert!(programs.homes.set_cluster(Some(&cluster)).is_err());
}
