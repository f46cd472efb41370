// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual time may jump from one due moment to the next: nothing happens in between, and nothing
//! is missed.

use crate::harness::*;
use diolkos_nat64::config::Protocol;
use diolkos_nat64::session::Segment;
use std::time::Duration;

/// Sessions of every protocol and state, and held SYNs.
fn full() -> Tables {
    let mut t = Tables::new(&config());
    some_sessions(&mut t);
    for port in 10_000..10_020 {
        let v4 = e4(&format!("203.0.113.1:{port}"));
        let _ = t.inward(Protocol::Tcp, v4, "192.0.2.9:9", Segment::Syn);
        t.now += Duration::from_millis(137);
    }
    t
}

#[test]
fn only_due_moments_matter() {
    let (mut by_due, mut by_tick) = (full(), full());
    let end = by_due.now + Duration::from_secs(30_000);
    let (mut sent, mut steps) = (Vec::new(), 0);
    while let Some(due) = by_due.state.next_due() {
        assert!(due <= end, "sessions end");
        // A moment earlier, there is nothing to do.
        if let Some(before) = due.checked_sub(Duration::from_millis(1)) {
            let events = by_due.watch.events.len();
            by_due.now = by_due.now.max(before);
            assert_eq!(by_due.expire(usize::MAX), (true, vec![]));
            assert_eq!(by_due.watch.events.len(), events);
        }
        by_due.now = by_due.now.max(due);
        let (is_all, now_sent) = by_due.expire(usize::MAX);
        assert!(is_all);
        sent.extend(now_sent);
        steps += 1;
        assert!(steps < 5000, "time goes on");
    }
    let mut sent_by_tick = Vec::new();
    while by_tick.now < end {
        sent_by_tick.extend(by_tick.wait(0.05));
    }
    let counts = |t: &Tables| {
        (
            t.state.counts(),
            t.watch.events.len(),
            t.watch.dropped.len(),
        )
    };
    assert_eq!(counts(&by_due), counts(&by_tick));
    assert_eq!(by_due.state.counts().sessions, 0);
    assert_eq!(by_due.watch.dropped.len(), 20);
    assert_eq!(sent.len(), sent_by_tick.len());
    assert!(sent.len() > 20, "probes, too");
}

#[test]
fn nothing_is_due_where_nothing_waits() {
    let mut t = Tables::new(&config());
    assert_eq!(t.state.next_due(), None);
    let node = e6("2001:db8::1", 5);
    t.out(Protocol::Udp, node, "192.0.2.1:53", Segment::Other)
        .unwrap();
    let due = t.state.next_due().unwrap();
    assert!((300..302).contains(&(due - t.now).as_secs()), "{due:?}");
    t.now = due;
    t.expire(usize::MAX);
    assert!(t.is_empty());
    assert_eq!(t.state.next_due(), None);
}
