// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources with fixed ports: each gets all of its own before it gets a block of the overflow, or nothing, whatever is
//! lent (RFC 7422 section 2, step 3).
use diolkos_nat64::config::{Deterministic, Nat64Config, PortBlocks, Protocol};

use crate::controller::{config, peer, run, Controller};
use crate::guide::Guide;
use crate::program::{Outcome, Packet};
use crate::twin::{self, NodePort, Undone};

/// Number of ports of each source.
const FIXED: u16 = 64;

/// Returns four sources, a /64 each, and blocks of 64 for those that need more.
fn with_blocks(per_source: u16) -> Nat64Config {
    let mut fixed = Nat64Config {
        blocks: (per_source > 0).then_some(PortBlocks {
            ports: 64,
            per_source,
            source_prefix_len: 64,
        }),
        deterministic: Some(Deterministic {
            sources: vec!["2001:db8::/62".parse().expect("a network")],
            ports_per_source: Some(FIXED.into()),
            overflow_share: if per_source > 0 { 50 } else { 0 },
        }),
        ..config(1, 1024..=1535)
    };
    // A mapping has all protocols.
    fixed.pool4[0].protocols = Protocol::ALL.to_vec();
    fixed.check().expect("it is right");
    fixed
}

/// Returns a host of the second source, which has ports 1088 to 1151.
fn host(number: u16, port: u16) -> NodePort {
    let addr = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, number);
    (addr, port)
}

/// Has one host open bindings by a lease; then another one, without a lease, needs all that the source has left.
fn exhaust(config: &Nat64Config) -> Controller {
    twin::begin(Undone::default(), Guide::search());
    let mut controller = Controller::new(config);
    for n in 0..4 {
        let opened = controller.outbound(host(1, 2000 + n), peer(1));
        assert!(opened.is_some());
    }
    let [_, ports] = controller.lent();
    assert!(ports >= 8, "{ports} ports are lent");
    for n in 4..10 {
        let packet = Packet::Out {
            node: host(1, 2000 + n),
            peer: peer(1),
        };
        assert_eq!(run(packet), Outcome::Translated);
    }
    for n in 10..FIXED {
        let (_, port) = controller
            .outbound(host(2, 2000 + n), peer(1))
            .expect("a port");
        assert!((1088..=1151).contains(&port), "binding {n} has port {port}");
    }
    assert_eq!(controller.state.bindings().count(), usize::from(FIXED));
    assert_eq!(controller.state.blocks_from(0, usize::MAX), []);
    controller
}

#[test]
fn a_block_is_opened_when_every_fixed_port_is_bound() {
    let mut controller = exhaust(&with_blocks(2));
    let over = controller.outbound(host(2, 3000), peer(1));
    assert!(over.is_some_and(|(_, port)| port >= 1024 + 4 * FIXED));
    assert_eq!(controller.state.blocks_from(0, usize::MAX).len(), 1);
    controller.finish();
    twin::end();
}

#[test]
fn nothing_is_refused_before_every_fixed_port_is_bound() {
    let mut controller = exhaust(&with_blocks(0));
    assert_eq!(controller.outbound(host(2, 3000), peer(1)), None);
    controller.finish();
    twin::end();
}
