// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits: in total, and for one source.

use crate::harness::*;
use diolkos_nat64::config::{Filtering, Limits, Protocol};
use diolkos_nat64::session::{Inward, Segment};
use diolkos_xlat::Reason;

const UDP: Protocol = Protocol::Udp;
const OTHER: Segment = Segment::Other;

fn tables(change: impl FnOnce(&mut Limits)) -> Tables {
    let mut config = config();
    change(&mut config.limits);
    Tables::new(&config)
}

#[test]
fn sessions_in_total() {
    let mut t = tables(|limits| limits.sessions = 3);
    let node = e6("2001:db8::1", 1);
    for port in 1..=3 {
        t.out(UDP, node, &format!("192.0.2.1:{port}"), OTHER)
            .unwrap();
    }
    assert_eq!(
        t.out(UDP, node, "192.0.2.1:4", OTHER),
        Err(Reason::SessionLimit)
    );
    assert_eq!(
        t.out(UDP, e6("2001:db8::2", 1), "192.0.2.1:4", OTHER),
        Err(Reason::SessionLimit)
    );
    assert!(
        t.out(UDP, node, "192.0.2.1:2", OTHER).is_ok(),
        "it is there"
    );
    assert_eq!((t.sessions(), t.state.counts().bindings), (3, 1));
    t.wait(301.0);
    assert!(t.out(UDP, node, "192.0.2.1:4", OTHER).is_ok());
}

#[test]
fn bindings_in_total() {
    let mut t = tables(|limits| limits.bindings = 2);
    for port in 1..=2 {
        t.out(UDP, e6("2001:db8::1", port), "192.0.2.1:1", OTHER)
            .unwrap();
    }
    assert_eq!(
        t.out(UDP, e6("2001:db8::1", 3), "192.0.2.1:1", OTHER),
        Err(Reason::BindingLimit)
    );
    assert_eq!(t.state.counts().sources, 1);
}

#[test]
fn a_source_is_a_prefix() {
    let mut t = tables(|limits| {
        limits.bindings_per_source = 2;
        limits.source_prefix_len = 64;
    });
    t.out(UDP, e6("2001:db8::1", 1), "192.0.2.1:1", OTHER)
        .unwrap();
    t.out(UDP, e6("2001:db8::ffff:0:0:1", 1), "192.0.2.1:1", OTHER)
        .unwrap();
    assert_eq!(
        t.out(UDP, e6("2001:db8::3", 1), "192.0.2.1:1", OTHER),
        Err(Reason::SourceBindingLimit)
    );
    assert!(t
        .out(UDP, e6("2001:db8:0:1::1", 1), "192.0.2.1:1", OTHER)
        .is_ok());
    assert_eq!(t.state.counts().sources, 2);
    t.wait(301.0);
    assert!(t.is_empty());
}

#[test]
fn sessions_of_a_source() {
    let mut t = tables(|limits| limits.sessions_per_source = 4);
    let node = e6("2001:db8::1", 1);
    for port in 1..=4 {
        t.out(UDP, node, &format!("192.0.2.1:{port}"), OTHER)
            .unwrap();
    }
    assert_eq!(
        t.out(UDP, node, "192.0.2.1:5", OTHER),
        Err(Reason::SourceSessionLimit)
    );
    assert_eq!(
        t.out(UDP, e6("2001:db8::2", 1), "192.0.2.1:5", OTHER),
        Err(Reason::SourceSessionLimit)
    );
    assert!(t
        .out(UDP, e6("2001:db8:0:1::1", 1), "192.0.2.1:5", OTHER)
        .is_ok());
}

#[test]
fn a_source_cannot_be_filled_up_from_outside() {
    let mut t = tables(|limits| limits.sessions_per_source = 10);
    let node = e6("2001:db8::1", 1);
    let v4 = t.out(UDP, node, "192.0.2.1:1", OTHER).unwrap();
    for port in 2..=5 {
        let inward = t.inward(UDP, v4, &format!("192.0.2.1:{port}"), OTHER);
        assert_eq!(inward, Ok(Inward::Node(node, 0)));
    }
    assert_eq!(
        t.inward(UDP, v4, "192.0.2.1:6", OTHER),
        Err(Reason::SourceSessionLimit)
    );
    for port in 7..=11 {
        t.out(UDP, node, &format!("192.0.2.1:{port}"), OTHER)
            .unwrap();
    }
    assert_eq!(
        t.out(UDP, node, "192.0.2.1:12", OTHER),
        Err(Reason::SourceSessionLimit)
    );
}

/// A flood of SYNs leaves state within the limits, and none after it has expired.
#[test]
fn a_flood_from_many_sources() {
    let mut t = tables(|limits| {
        limits.sessions = 5000;
        limits.sessions_per_source = 100;
    });
    let mut refused = 0;
    for n in 0..20_000u32 {
        let node = diolkos_nat64::config::Endpoint6 {
            addr: std::net::Ipv6Addr::from_bits(
                (0x2001_0db8 << 96) + (u128::from(n % 97) << 64) + u128::from(n / 97),
            ),
            port: n as u16,
        };
        refused += u32::from(
            t.out(Protocol::Tcp, node, "192.0.2.1:80", Segment::Syn)
                .is_err(),
        );
    }
    let counts = t.state.counts();
    assert_eq!(counts.sessions, 5000);
    assert_eq!(refused, 15_000);
    assert!(counts.sources <= 97);
    t.wait(241.0);
    assert!(t.is_empty());
    let pool = t.state.pool();
    assert_eq!(pool.free_ports(Protocol::Tcp), 64512);
}

/// Bytes of a session with its binding. The hash tables are as full as with four million sessions,
/// at a 64th of their size.
fn bytes_of_a_session(
    change: impl FnOnce(&mut Limits, &mut Filtering),
    sources: u32,
    of_each_node: u32,
) -> usize {
    let mut config = config();
    config.pool4[0].net = "203.0.113.0/29".parse().unwrap();
    change(&mut config.limits, &mut config.filtering);
    let mut t = Tables::new(&config);
    let nothing = t.state.memory();
    let sessions = 4_000_000 / 64;
    for n in 0..sessions {
        let node = diolkos_nat64::config::Endpoint6 {
            addr: std::net::Ipv6Addr::from_bits(
                (0x2001_0db8 << 96)
                    + (u128::from(n / of_each_node % sources) << 64)
                    + u128::from(n / of_each_node),
            ),
            port: 5000 + (n % of_each_node) as u16,
        };
        t.out(UDP, node, "192.0.2.1:53", OTHER).unwrap();
        t.watch.events.clear();
    }
    (t.state.memory() - nothing) / sessions as usize
}

#[test]
fn memory_of_a_session() {
    let few = bytes_of_a_session(|_, _| {}, 1000, 16);
    assert!(few <= 150, "{few}");
    let each_its_own = bytes_of_a_session(|_, _| {}, u32::MAX, 1);
    assert!(each_its_own <= 290, "{each_its_own}");
    let filtered = bytes_of_a_session(|_, f| *f = Filtering::AddressDependent, 1000, 16);
    assert!(filtered <= 190, "{filtered}");
}
