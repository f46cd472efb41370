// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP and ICMP query sessions (RFC 6146 sections 3.5.1 and 3.5.3), filtering, and the clock.

use crate::harness::*;
use diolkos_nat64::config::{Filtering, Protocol};
use diolkos_nat64::session::{Inward, Segment};
use diolkos_xlat::Reason;
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
const OTHER: Segment = Segment::Other;

fn node() -> diolkos_nat64::config::Endpoint6 {
    e6("2001:db8::1", 5000)
}

#[test]
fn one_binding_for_all_peers() {
    let mut t = Tables::new(&config());
    let v4 = t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    assert_eq!(t.out(UDP, node(), "192.0.2.1:54", OTHER), Ok(v4));
    assert_eq!(t.out(UDP, node(), "192.0.2.2:53", OTHER), Ok(v4));
    assert_ne!(
        t.out(UDP, e6("2001:db8::1", 5001), "192.0.2.1:53", OTHER),
        Ok(v4)
    );
    assert_ne!(
        t.out(UDP, e6("2001:db8::2", 5000), "192.0.2.1:53", OTHER),
        Ok(v4)
    );
    assert_eq!(t.state.counts().bindings, 3);
    assert_eq!(t.sessions(), 5);
}

#[test]
fn endpoint_independent_filtering_lets_everybody_in() {
    let mut t = Tables::new(&config());
    let v4 = t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    for peer in ["192.0.2.1:53", "192.0.2.1:99", "198.51.100.7:1"] {
        assert_eq!(t.inward(UDP, v4, peer, OTHER), Ok(Inward::Node(node(), 0)));
    }
    assert_eq!(t.sessions(), 3);
    assert_eq!(
        t.inward(UDP, e4("203.0.113.1:1"), "192.0.2.1:53", OTHER),
        Err(Reason::NoBinding)
    );
    assert_eq!(
        t.inward(Protocol::Icmp, v4, "192.0.2.1:0", OTHER),
        Err(Reason::NoBinding),
        "every protocol has bindings of its own"
    );
}

#[test]
fn address_dependent_filtering_lets_in_whom_the_node_has_sent_to() {
    let mut config = config();
    config.filtering = Filtering::AddressDependent;
    let mut t = Tables::new(&config);
    let v4 = t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    for (peer, expected) in [
        ("192.0.2.1:53", Ok(Inward::Node(node(), 0))),
        ("192.0.2.1:99", Ok(Inward::Node(node(), 0))),
        ("192.0.2.2:53", Err(Reason::Filtered)),
    ] {
        assert_eq!(t.inward(UDP, v4, peer, OTHER), expected, "{peer}");
    }
    // When its last session ends, a peer loses its permission.
    t.wait(301.0);
    t.out(UDP, node(), "192.0.2.2:53", OTHER).unwrap();
    let v4 = t.out(UDP, node(), "192.0.2.2:53", OTHER).unwrap();
    assert_eq!(
        t.inward(UDP, v4, "192.0.2.1:53", OTHER),
        Err(Reason::Filtered)
    );
    t.wait(301.0);
    assert!(t.is_empty());
}

/// The session lives for this number of seconds, and no longer.
fn lives(protocol: Protocol, seconds: f64) {
    let mut t = Tables::new(&config());
    t.out(protocol, node(), "192.0.2.1:0", OTHER).unwrap();
    t.wait(seconds - 0.001);
    assert_eq!(t.sessions(), 1);
    t.wait(1.001);
    assert!(t.is_empty());
    // The timeout restarts with every packet from either side.
    let v4 = t.out(protocol, node(), "192.0.2.1:0", OTHER).unwrap();
    t.wait(seconds - 1.0);
    t.out(protocol, node(), "192.0.2.1:0", OTHER).unwrap();
    t.wait(seconds - 1.0);
    t.inward(protocol, v4, "192.0.2.1:0", OTHER).unwrap();
    t.wait(seconds - 1.0);
    assert_eq!(t.sessions(), 1);
    t.wait(2.001);
    assert!(t.is_empty());
}

#[test]
fn a_udp_session_lives_five_minutes() {
    lives(UDP, 300.0);
}

#[test]
fn an_icmp_query_session_lives_one_minute() {
    lives(Protocol::Icmp, 60.0);
}

#[test]
fn a_binding_ends_with_its_last_session_and_frees_its_port() {
    let mut config = config();
    config.pool4[0].ports = 2000..=2000;
    let mut t = Tables::new(&config);
    t.out(UDP, node(), "192.0.2.1:1", OTHER).unwrap();
    t.wait(200.0);
    t.out(UDP, node(), "192.0.2.1:2", OTHER).unwrap();
    t.wait(150.0);
    assert_eq!((t.sessions(), t.state.counts().bindings), (1, 1));
    let other = e6("2001:db8::2", 1);
    assert_eq!(
        t.out(UDP, other, "192.0.2.1:1", OTHER),
        Err(Reason::PoolExhausted)
    );
    t.wait(151.0);
    assert!(t.is_empty());
    assert_eq!(
        t.out(UDP, other, "192.0.2.1:1", OTHER),
        Ok(e4("203.0.113.1:2000"))
    );
}

#[test]
fn a_refused_packet_leaves_nothing_behind() {
    let mut config = config();
    config.pool4[0].protocols = vec![Protocol::Tcp];
    let mut t = Tables::new(&config);
    assert_eq!(
        t.out(UDP, node(), "192.0.2.1:1", OTHER),
        Err(Reason::PoolExhausted)
    );
    assert!(t.is_empty());
    assert!(t.watch.events.is_empty());
}

#[test]
fn the_clock_may_jump() {
    let mut t = Tables::new(&config());
    t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    // The clock jumps back by a day: nothing expires, and time continues from there.
    t.now -= Duration::from_secs(86_400);
    t.wait(0.0);
    t.wait(299.0);
    assert_eq!(t.sessions(), 1);
    t.wait(2.0);
    assert!(t.is_empty());
    // The clock jumps forward by a century: existing sessions expire, and new ones live for their
    // full time.
    t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    t.wait(100.0 * 365.0 * 86_400.0);
    assert!(t.is_empty());
    t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    t.wait(299.0);
    assert_eq!(t.sessions(), 1);
    t.wait(2.0);
    assert!(t.is_empty());
    t.now = Duration::MAX;
    t.wait(0.0);
    t.now = Duration::ZERO;
    t.wait(0.0);
    t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    t.wait(301.0);
    assert!(t.is_empty());
}

#[test]
fn a_long_timeout_goes_round_the_wheel() {
    let mut config = config();
    config.timeouts.udp = Duration::from_secs(6 * 24 * 3600);
    let mut t = Tables::new(&config);
    t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    for _ in 0..6 * 24 {
        t.wait(3599.0);
    }
    assert_eq!(t.sessions(), 1);
    t.wait(145.0);
    assert!(t.is_empty());
}

#[test]
fn expiry_stops_at_its_budget_and_goes_on() {
    let mut t = Tables::new(&config());
    for port in 0..1000 {
        t.out(UDP, e6("2001:db8::1", port), "192.0.2.1:53", OTHER)
            .unwrap();
    }
    t.now += Duration::from_secs(302);
    for left in (0..10).rev() {
        assert_eq!(t.expire(100), (left == u32::MAX, vec![]));
        assert_eq!(t.sessions(), left * 100);
    }
    assert!(t.expire(100).0);
    assert!(t.is_empty());
}

#[test]
fn the_fast_path_is_asked_before_a_session_ends() {
    let mut t = Tables::new(&config());
    let v4 = t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    let key = (
        diolkos_nat64::config::Binding {
            protocol: UDP,
            v4,
            v6: node(),
        },
        e4("192.0.2.1:53"),
    );
    let seen = t.now + Duration::from_secs(299);
    t.watch.stamps.insert(key, seen);
    t.wait(302.0);
    assert_eq!(t.sessions(), 1);
    t.wait(296.0);
    assert_eq!(t.sessions(), 1, "five minutes after the stamp");
    t.wait(3.0);
    assert!(t.is_empty());
}

#[test]
fn a_stamp_in_the_future_counts_as_now() {
    let mut t = Tables::new(&config());
    let v4 = t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    let binding = binding(UDP, &v4.to_string(), node());
    t.watch
        .stamps
        .insert((binding, e4("192.0.2.1:53")), Duration::MAX);
    t.wait(302.0);
    assert_eq!(t.sessions(), 1);
    t.watch.stamps.clear();
    t.wait(302.0);
    assert!(t.is_empty());
}

#[test]
fn what_the_fast_path_has_seen_outlives_its_copy() {
    let mut t = Tables::new(&config());
    let v4 = t.out(UDP, node(), "192.0.2.1:53", OTHER).unwrap();
    let binding = binding(UDP, &v4.to_string(), node());
    t.wait(290.0);
    t.watch.stamps.insert((binding, e4("192.0.2.1:53")), t.now);
    t.state.catch_up(0, usize::MAX, &mut t.watch);
    t.watch.stamps.clear();
    let view = t.state.sessions().next().unwrap();
    assert_eq!(view.remaining, Duration::from_secs(300));
    t.wait(299.0);
    assert_eq!(t.sessions(), 1);
    t.wait(3.0);
    assert!(t.is_empty());
}
