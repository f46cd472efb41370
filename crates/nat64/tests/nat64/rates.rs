// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of new sessions (RFC 6888 REQ-5): of a host, a source, a site.

use std::net::Ipv6Addr;

use crate::harness::*;
use diolkos_nat64::config::{Endpoint4, Endpoint6, Limits, Protocol};
use diolkos_nat64::session::{Inward, Segment};
use diolkos_xlat::Reason;

const UDP: Protocol = Protocol::Udp;
const OTHER: Segment = Segment::Other;

fn tables(change: impl FnOnce(&mut Limits)) -> Tables {
    let mut config = config();
    change(&mut config.limits);
    Tables::new(&config)
}

/// Sessions that a node can open now, at most 1000, each with another peer; and what the next one was refused for.
fn opened(t: &mut Tables, node: Endpoint6, next: &mut u16) -> (usize, Option<Reason>) {
    for count in 0..1000 {
        *next += 1;
        if let Err(reason) = t.out(UDP, node, &format!("192.0.2.1:{next}"), OTHER) {
            return (count, Some(reason));
        }
    }
    (1000, None)
}

#[test]
fn a_host_has_a_burst_and_then_its_rate() {
    let mut t = tables(|limits| {
        limits.new_sessions_per_host = Some(2);
        limits.new_sessions_burst = 10;
    });
    let (node, mut next) = (e6("2001:db8::1", 1), 1);
    // 2 a second for 10 seconds; then one each half second.
    let refused = Some(Reason::HostRateLimit);
    assert_eq!(opened(&mut t, node, &mut next), (20, refused));
    t.wait(0.499);
    assert_eq!(opened(&mut t, node, &mut next), (0, refused));
    t.wait(0.001);
    assert_eq!(opened(&mut t, node, &mut next), (1, refused));
    t.wait(3.0);
    assert_eq!(opened(&mut t, node, &mut next), (6, refused));
    // What it has goes on, and others are not touched.
    assert!(t.out(UDP, node, "192.0.2.1:2", OTHER).is_ok());
    let other = e6("2001:db8::2", 1);
    assert_eq!(opened(&mut t, other, &mut next), (20, refused));
    // No more than the burst gathers.
    t.wait(250.0);
    assert_eq!(opened(&mut t, node, &mut next), (20, refused));
}

#[test]
fn a_refused_session_leaves_nothing() {
    let mut t = tables(|limits| {
        limits.new_sessions_per_host = Some(1);
        limits.new_sessions_burst = 1;
    });
    t.out(UDP, e6("2001:db8::1", 1), "192.0.2.1:1", OTHER)
        .unwrap();
    for port in 2..100 {
        let refused = t.out(UDP, e6("2001:db8::1", port), "192.0.2.1:1", OTHER);
        assert_eq!(refused, Err(Reason::HostRateLimit));
    }
    assert_eq!((t.sessions(), t.state.counts().bindings), (1, 1));
}

#[test]
fn a_source_and_a_site_have_a_rate_of_all_their_hosts() {
    let mut t = tables(|limits| {
        limits.new_sessions_per_source = Some(3);
        limits.new_sessions_per_site = Some(4);
        limits.new_sessions_burst = 2;
    });
    let mut next = 1;
    // 6 of a /64, 8 of a /56.
    let of = |address: &str| e6(address, 1);
    let source = Some(Reason::SourceRateLimit);
    assert_eq!(
        opened(&mut t, of("2001:db8::1"), &mut next).0,
        6,
        "the first host of its source"
    );
    assert_eq!(opened(&mut t, of("2001:db8::2"), &mut next), (0, source));
    let site = Some(Reason::SiteRateLimit);
    assert_eq!(opened(&mut t, of("2001:db8:0:1::1"), &mut next), (2, site));
    assert_eq!(opened(&mut t, of("2001:db8:0:2::1"), &mut next), (0, site));
    let elsewhere = of("2001:db9::1");
    assert_eq!(opened(&mut t, elsewhere, &mut next), (6, source));
}

#[test]
fn what_others_open_with_a_node_does_not_count() {
    let mut t = tables(|limits| {
        limits.new_sessions_per_host = Some(1);
        limits.new_sessions_burst = 2;
    });
    let node = e6("2001:db8::1", 1);
    let v4 = t.out(UDP, node, "192.0.2.1:1", OTHER).unwrap();
    for port in 2..50 {
        let inward = t.inward(UDP, v4, &format!("192.0.2.1:{port}"), OTHER);
        assert_eq!(inward, Ok(Inward::Node(node, 0)));
    }
    assert!(t.out(UDP, node, "192.0.2.2:1", OTHER).is_ok());
    assert_eq!(
        t.out(UDP, node, "192.0.2.2:2", OTHER),
        Err(Reason::HostRateLimit)
    );
}

/// Where a /56 and a /48 are sites, the rate is that of the /56: otherwise one could use up that of all others in its /48.
#[test]
fn a_site_takes_nothing_of_its_neighbours() {
    let mut t = tables(|limits| {
        limits.new_sessions_per_site = Some(4);
        limits.new_sessions_burst = 2;
    });
    let mut next = 1;
    let of = |address: &str| e6(address, 1);
    let site = Some(Reason::SiteRateLimit);
    for address in ["2001:db8::1", "2001:db8:0:100::1", "2001:db8:0:200::1"] {
        assert_eq!(
            opened(&mut t, of(address), &mut next),
            (8, site),
            "{address}"
        );
    }
}

#[test]
fn what_is_lent_counts_until_it_is_opened_or_taken_back() {
    let mut t = tables(|limits| {
        limits.new_sessions_per_host = Some(10);
        limits.new_sessions_per_source = Some(20);
        limits.new_sessions_burst = 2;
    });
    let (node, mut next) = (e6("2001:db8::1", 1), 1);
    assert_eq!(
        t.state.lendable_sessions(node.addr),
        0,
        "a node without state has no lease"
    );
    t.out(UDP, node, "192.0.2.9:1", OTHER).unwrap();
    // Half of the burst of 20, so that the controller can open some for others.
    assert_eq!(t.state.lendable_sessions(node.addr), 10);
    t.state.note_lent(node.addr, 8);
    assert_eq!(t.state.lendable_sessions(node.addr), 2);
    let refused = Some(Reason::HostRateLimit);
    assert_eq!(opened(&mut t, node, &mut next), (11, refused));
    assert_eq!(t.state.lendable_sessions(node.addr), 0);
    t.state.note_lent(node.addr, -8);
    assert_eq!(opened(&mut t, node, &mut next), (8, refused));
    // A neighbour finds what the source has left: 40, of which 20 are opened.
    let other = e6("2001:db8::2", 1);
    assert_eq!(
        opened(&mut t, other, &mut next),
        (20, Some(Reason::HostRateLimit))
    );
    let third = e6("2001:db8::3", 1);
    assert_eq!(
        opened(&mut t, third, &mut next),
        (0, Some(Reason::SourceRateLimit))
    );
}

#[test]
fn nobody_opens_more_than_burst_and_rate_in_any_time() {
    const RATE: u32 = 7;
    const BURST: u8 = 3;
    let mut chance = random();
    let mut chance = move |below: u64| chance() % below;
    let mut t = tables(|limits| {
        limits.new_sessions_per_host = Some(RATE);
        limits.new_sessions_burst = BURST;
    });
    let nodes: Vec<Ipv6Addr> = (1..=3)
        .map(|n| Ipv6Addr::from_bits(0x2001_0db8 << 96 | n))
        .collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); nodes.len()];
    let (mut now, mut refused) = (0.0, 0);
    for n in 0..6000u32 {
        let wait = chance(60) as f64 / 1000.0;
        t.wait(wait);
        now += wait;
        let at = chance(nodes.len() as u64) as usize;
        let peer = Endpoint4 {
            addr: std::net::Ipv4Addr::from_bits(0xc633_6400 + n / 60_000),
            port: (n % 60_000) as u16 + 1,
        };
        let node = Endpoint6 {
            addr: nodes[at],
            port: 5,
        };
        // A window that ends now, and is as long as fits the sessions in it.
        let most = |since: f64| f64::from(RATE) * (f64::from(BURST) + now - since);
        let its = &times[at];
        let counts = its.iter().rev().enumerate();
        let is_full = counts
            .clone()
            .any(|(n, &since)| (n + 2) as f64 > most(since) + 1e-6);
        let passed = t.out(UDP, node, &format!("{}:{}", peer.addr, peer.port), OTHER);
        assert_eq!(passed.is_err(), is_full, "at {now}, node {at}");
        if passed.is_ok() {
            times[at].push(now);
        } else {
            refused += 1;
        }
    }
    assert!(refused > 500, "{refused}: it is tried");
}
