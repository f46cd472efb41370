// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of a gateway between two others, and the packets that they are given.

use std::net::{Ipv4Addr, Ipv6Addr};

use diolkos_fastpath::testrun::{ForwardRun, TestRun, Verdict};
use diolkos_fastpath::{
    Cluster, Gateway, Homes, HostPort, Lending, Media, Nat64Rules, Owner, Pref64, Rules, Sessions,
};
use diolkos_node::config::{Bounds, Config, Member, Timing};
use diolkos_node::order::Order;
use diolkos_node::NodeId;

pub const KEY: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP6: u8 = 58;
pub const FRAGMENT: u8 = 44;

/// Interfaces: one to hosts, and the link to other gateways.
pub const FROM_HOSTS: u32 = 1;
pub const LINK: u32 = 7;

pub const MTU: u32 = 1500;

/// Node 0 has 192.0.2.7, node 1 192.0.2.8; this gateway has 192.0.2.6.
pub const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 6);
pub const OF_0: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
pub const OF_1: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 8);

pub fn host() -> Ipv6Addr {
    address("2001:db8:0:1::64")
}

pub fn peer6() -> Ipv6Addr {
    address("64:ff9b::c633:6402")
}

pub fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

pub fn node(number: u8) -> Owner {
    Owner::node(number).expect("there is one")
}

pub struct Programs {
    pub sessions: TestRun,
    pub bindings: Sessions,
    pub lending: Lending,
    pub homes: Homes,
    pub forward: ForwardRun,
}

pub fn cluster(source_prefix_len: u8, key: [u64; 2]) -> Cluster {
    Cluster {
        key,
        source_prefix_len,
        pref64: vec![(address("2001:db8:ff::"), 48), (address("64:ff9b::"), 96)],
        links: vec![LINK],
    }
}

/// The programs of a cluster in which both other nodes are reachable.
pub fn programs() -> Programs {
    let (sessions, bindings, lending, homes) = TestRun::of_gateway(&Nat64Rules {
        rules: Rules {
            tun_ifindex: 1,
            mtu4: 1500,
            mtu6: 1500,
            lowest_ipv6_mtu: 1280,
            traffic_class_zero: false,
            takes_hop: true,
            tcp_mss: None,
        },
        pref64: vec![Pref64 {
            network: address("64:ff9b::"),
            bits: 96,
            only_global: false,
        }],
        max_sessions: 100,
        exits: vec![],
        media: Media::of(&[]),
        drivers: None,
        max_bindings: 100,
        own: vec![],
        max_away: 1000,
        heard: 0,
    })
    .expect("the programs load: run the test as root");
    let owners = [(OURS, Owner::OURS), (OF_0, node(0)), (OF_1, node(1))];
    let forward = ForwardRun::load(&owners, &homes).expect("the programs load");
    homes.set_cluster(Some(&cluster(64, KEY))).expect("it fits");
    for (number, hop) in [(0, "fe80::10"), (1, "fe80::11")] {
        let way = Gateway {
            ifindex: LINK,
            next_hop: address(hop),
            mtu: MTU,
        };
        let led = forward.forwarding.lead(node(number), Some(way));
        led.expect("the map takes it");
    }
    Programs {
        sessions,
        bindings,
        lending,
        homes,
        forward,
    }
}

impl Programs {
    pub fn ask(&self, packet: &[u8]) -> Verdict {
        let verdict = self.forward.verdict(packet, 0, FROM_HOSTS);
        verdict.expect("it runs")
    }

    pub fn set_home(&self, host: Ipv6Addr, home: Owner) {
        self.homes.set_home(
            order(64, KEY).0.bucket(order(64, KEY).1.subscriber(host)),
            home,
            false,
        );
    }

    /// Sets the home of a host's bucket, whose packets without a port stay here.
    pub fn set_home_with_port(&self, host: Ipv6Addr, home: Owner) {
        let (order, file) = order(64, KEY);
        self.homes
            .set_home(order.bucket(file.subscriber(host)), home, true);
    }

    pub fn set_away(&self, protocol: u8, addr: Ipv6Addr, port: u16, owner: Owner) {
        let port = HostPort {
            protocol,
            addr,
            port,
        };
        self.homes.set_away(port, owner).expect("there is room");
    }
}

/// The same settings for crates/node, which decides about homes.
pub fn order(source_prefix_len: u8, key: [u64; 2]) -> (Order, Config) {
    let config = Config {
        me: NodeId(0),
        members: vec![Member {
            name: "gw0".into(),
            pool4: vec!["192.0.2.6/32".parse().expect("a network")],
        }],
        source_prefix_len,
        key,
        pools: vec![],
        pref64: vec![],
        lifetimes_s: vec![],
        timing: Timing::default(),
        defer: false,
        bounds: Bounds {
            changes: 1,
            resting: 1,
        },
    };
    (Order::new(&config), config)
}

pub fn ipv6(from: Ipv6Addr, to: Ipv6Addr, next: u8, inside: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((inside.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(inside);
    packet
}

pub fn ipv4(to: Ipv4Addr, protocol: u8, fragment: u16, inside: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((20 + inside.len()) as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(Ipv4Addr::new(198, 51, 100, 2).octets());
    packet.extend(to.octets());
    packet.extend(inside);
    packet
}

pub fn ports(from: u16, to: u16) -> Vec<u8> {
    let mut header = [from.to_be_bytes(), to.to_be_bytes()].concat();
    header.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    header
}

pub fn echo(kind: u8, id: u16) -> Vec<u8> {
    [&[kind, 0, 0, 0][..], &id.to_be_bytes(), &[0, 1]].concat()
}
