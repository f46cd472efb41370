// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pools by source: what is lent to a node is of its pool, and leases of one pool do not end because another one is full.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use diolkos_nat64::config::{Nat64Config, Protocol};

use crate::controller::{arrive, config, node, peer, run, Controller};
use crate::crowd::{By, Gateway};
use crate::guide::Guide;
use crate::program::{Outcome, Packet};
use crate::twin::{self, Undone, V4};

/// Two addresses. The first or the second is that of node 1's link, the other one of all other nodes.
fn of_node_1(part: usize, ports: std::ops::RangeInclusive<u16>) -> Nat64Config {
    let mut config = config(2, ports);
    config.pool4[part].sources = vec!["2001:db8:0:1::/64".parse().expect("a prefix")];
    config.check().expect("it is right");
    config
}

fn address(part: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, part as u8 + 1)
}

/// Opens sessions until the node has a lease, all of them on its pool's address.
fn leased(controller: &mut Controller, number: u16, part: usize) -> Vec<V4> {
    let opened = (0..4).map(|n| {
        let v4 = controller.outbound(node(number, 2000), peer(n));
        assert_eq!(v4.map(|(addr, _)| addr), Some(address(part)));
        v4.expect("a port")
    });
    opened.collect()
}

/// The prefix of a node moves to another pool while programs open sessions by its lease, and reports wait.
fn moving(protocol: Protocol) -> usize {
    let mut guide = Guide::search();
    let mut orders = 0;
    loop {
        twin::begin(Undone::default(), guide);
        twin::with(|world| world.protocol = protocol);
        let mut controller = Controller::new(&of_node_1(0, 5000..=5011));
        leased(&mut controller, 1, 0);
        arrive(Packet::Out {
            node: node(1, 3000),
            peer: peer(9),
        });
        twin::with(|world| world.bursts = 1);
        controller.reload(&of_node_1(1, 5000..=5011));
        check(&controller);
        leased(&mut controller, 1, 1);
        // The other address has others now.
        leased(&mut controller, 2, 0);
        check(&controller);
        controller.finish();
        check(&controller);
        orders += 1;
        guide = twin::end().guide;
        if !guide.advance() {
            return orders;
        }
    }
}

fn check(controller: &Controller) {
    for view in controller.state.bindings() {
        let (v4, v6) = (view.binding.v4, view.binding.v6);
        let part = usize::from(v6.addr == node(1, 0).0);
        assert_eq!(v4.addr, address(part), "{v6:?}");
    }
}

#[test]
fn a_lease_never_crosses_pools() {
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let orders = moving(protocol);
        assert!(orders > 50, "{orders} orders are no search");
    }
}

/// After a reload, programs open what they open by a lease from the new pool.
#[test]
fn a_new_lease_is_of_the_new_pool() {
    twin::begin(Undone::default(), Guide::search());
    let mut controller = Controller::new(&of_node_1(0, 1024..=2047));
    leased(&mut controller, 1, 0);
    controller.reload(&of_node_1(1, 1024..=2047));
    leased(&mut controller, 1, 1);
    let packet = Packet::Out {
        node: node(1, 3000),
        peer: peer(1),
    };
    assert_eq!(run(packet), Outcome::Translated);
    let last = twin::with(|world| world.sent.last().copied());
    let (sender, ((addr, _), _)) = last.expect("it has been sent");
    assert_eq!((sender, addr), (node(1, 3000), address(1)));
    controller.finish();
    check(&controller);
    twin::end();
}

#[test]
fn a_full_pool_ends_no_leases_of_another() {
    let config = of_node_1(0, 1024..=5119);
    let mut gateway = Gateway::new(&config);
    let now = Duration::ZERO;
    let other: Ipv6Addr = node(2, 0).0;
    let mut open = |node, port| gateway.first_packet((node, port), now, false);
    for port in 0..8 {
        open(other, 2000 + port);
    }
    assert_eq!(open(other, 3000), By::Program);
    // Node 1 takes all that its pool has.
    let of_1 = node(1, 0).0;
    let mut taken = 0;
    while open(of_1, 2000 + taken) != By::Nobody {
        taken += 1;
        // The other node goes on by its lease.
        assert_eq!(open(other, 10_000 + taken % 64), By::Program, "{taken}");
    }
    assert_eq!(taken, 4096);
}
