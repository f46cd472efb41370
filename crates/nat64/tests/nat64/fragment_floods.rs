// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Floods of fragments and of packets that are too big, while other packets have to be served.

use crate::common::*;
use crate::fragments::{pieces4, pieces6};
use crate::harness::*;
use crate::packets::*;
use diolkos_nat64::config::{Limits, Protocol};
use diolkos_xlat::{Reason, Verdict};

/// A router with the default limits, and a port that is bound to a node.
fn router() -> (Router, u16) {
    let mut w = Router::new(|config| config.limits = Limits::default());
    let port = ends4(&w.pass(&packet6(NODE, PEER6, 17, udp_of(5000, 53, &[])).bytes())).1;
    (w, port)
}

/// A datagram in fragments, with `noise` between them.
fn arrives(w: &mut Router, pieces: &[Vec<u8>], mut noise: impl FnMut(&mut Router)) -> bool {
    let mut left = 0;
    for piece in pieces {
        left += w.give(piece).1.len();
        noise(w);
    }
    left == pieces.len()
}

/// 40 000 a second, to unbound ports: they are not remembered, and no other source loses anything.
#[test]
fn first_fragments_to_nobody_leave_nothing() {
    let (mut w, port) = router();
    let mut id = 0u16;
    let mut flood = |w: &mut Router| {
        for _ in 0..6000 {
            id = id.wrapping_add(1);
            let unbound = port ^ 1;
            let (verdict, _) = w.give(&pieces4("198.51.100.1", unbound, id)[0]);
            assert_eq!(verdict, Verdict::Drop(Reason::NoBinding));
            w.watch.dropped.clear();
        }
        w.wait(0.15);
        assert!(w.nat64.fragmented_packets() <= 3);
    };
    for n in 0..3 {
        assert!(arrives(&mut w, &pieces4(PEER, port, n), &mut flood), "{n}");
    }
}

/// 40 000 a second from one attacker to a bound port: the attacker evicts its own packets only.
#[test]
fn first_fragments_of_one_stranger_cost_others_nothing() {
    for pieces in [
        |port: u16, n: u16| pieces4(PEER, port, n),
        |_: u16, n: u16| pieces6(NODE, n.into()),
    ] {
        let (mut w, port) = router();
        let mut id = 0u16;
        let mut flood = |w: &mut Router| {
            for _ in 0..400 {
                id = id.wrapping_add(1);
                w.give(&pieces4("198.51.100.1", port, id)[0]);
            }
            w.wait(0.01);
        };
        for n in 0..60 {
            assert!(arrives(&mut w, &pieces(port, n), &mut flood), "{n}");
        }
        assert!(w.nat64.fragmented_packets() <= 1024 + 60);
    }
}

/// Each from another source to a bound port: spoofed sources evict each other, and a packet whose fragments
/// arrive within a hundredth of a second passes.
#[test]
fn first_fragments_of_many_strangers_leave_time_to_others() {
    let (mut w, port) = router();
    let mut n = 0u32;
    let mut flood = |w: &mut Router| {
        for _ in 0..400 {
            n = n.wrapping_add(1);
            let from = format!("198.{}.{}.{}", 18 + (n >> 16 & 1), n >> 8 & 255, n & 255);
            w.give(&pieces4(&from, port, 1)[0]);
            w.watch.events.clear();
        }
        w.wait(0.01);
    };
    for id in 0..60 {
        assert!(
            arrives(&mut w, &pieces4(PEER, port, id), &mut flood),
            "{id}"
        );
        assert!(w.nat64.fragmented_packets() <= 8192);
    }
}

/// Fragments whose first one never arrives, each from another source: a fragment that waits briefly for its
/// first one still gets it.
#[test]
fn later_fragments_of_many_strangers_leave_time_to_others() {
    let (mut w, port) = router();
    let mut n = 0u32;
    let mut flood = |w: &mut Router| {
        for _ in 0..40 {
            n = n.wrapping_add(1);
            let from = format!("198.18.{}.{}", n >> 8 & 255, n & 255);
            w.give(&pieces4(&from, port, 1)[1]);
        }
        w.wait(0.001);
    };
    for id in 0..60 {
        let mut pieces = pieces4(PEER, port, id);
        pieces.rotate_left(1);
        assert!(arrives(&mut w, &pieces, &mut flood), "{id}");
        assert!(w.nat64.held_fragments() <= 512);
    }
    assert!(w.watch.dropped.contains(&Reason::FragmentLimit));
}

/// A scan of the pool is answered within the rate limit; path MTU errors to others are always sent.
#[test]
fn a_scan_does_not_silence_fragmentation_needed() {
    let (mut w, port) = router();
    let mut silent = 0;
    for n in 0..2000u16 {
        let probe = packet4("198.51.100.1", POOL, 17, udp_of(n, port ^ 1, &[]));
        silent += usize::from(w.refuse(&probe.bytes()).1.is_none());
    }
    assert!(silent > 1900, "{silent}");
    let dont_fragment = V4 {
        flags_and_offset: DF,
        ..packet4(PEER, POOL, 17, udp_of(53, port, &pattern(1472)))
    };
    let (reason, error) = w.refuse(&dont_fragment.bytes());
    assert_eq!(reason, Reason::TooBig);
    let error = error.expect("an answer");
    assert_eq!((error[20], error[21]), (3, 4));
    assert_eq!(w.nat64.state().pool().free_ports(Protocol::Udp), 64_511);
}
