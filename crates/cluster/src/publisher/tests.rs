// SPDX-License-Identifier: Apache-2.0 OR MIT
use diolkos_core::config::nat64::{Endpoint4, Endpoint6, Protocol};

use super::*;
use crate::slice::Slice;

const TITLE: Title = Title {
    life: 4,
    revision: 5,
};

fn at(millis: u64) -> Moment {
    Duration::from_millis(millis)
}

fn slice() -> Slice {
    Slice {
        addr: "192.0.2.1".parse().expect("an address"),
        ports: 1024..=65_535,
    }
}

fn binding(port: u16) -> Binding {
    Binding {
        protocol: Protocol::Udp,
        v4: Endpoint4 {
            addr: slice().addr,
            port,
        },
        v6: Endpoint6 {
            addr: "2001:db8::1".parse().expect("an address"),
            port,
        },
    }
}

fn opened(port: u16) -> Change {
    Change::Opened(binding(port))
}

fn closed(port: u16) -> Change {
    Change::Closed {
        protocol: Protocol::Udp,
        port,
    }
}

fn publisher(capacity: usize) -> Publisher {
    Publisher::new(Settings {
        cluster: 9,
        node: NodeId(3),
        slices: 4,
        capacity,
        delay: at(20),
        cycle: Duration::from_secs(60),
    })
}

fn read(messages: Vec<Outgoing>) -> Vec<(SliceId, Kind, Vec<Change>)> {
    let read = messages.into_iter().map(|Outgoing { slice: id, bytes }| {
        let message = Message::decode(9, (id, &slice()), &bytes).expect("what we wrote");
        assert_eq!((message.node, message.title), (NodeId(3), TITLE));
        (id, message.kind, message.changes)
    });
    read.collect()
}

fn poll(publisher: &mut Publisher, millis: u64, most: usize) -> Vec<(SliceId, Vec<Change>)> {
    let messages = read(publisher.poll(at(millis), most, |_| Some(TITLE)));
    let changes = messages.into_iter().map(|(slice, kind, changes)| {
        assert_eq!(kind, Kind::Changes);
        (slice, changes)
    });
    changes.collect()
}

#[test]
fn changes_wait_for_others_for_a_while() {
    let mut publisher = publisher(100);
    publisher.heard(at(100), 2, opened(2000));
    publisher.heard(at(110), 1, opened(3000));
    publisher.heard(at(115), 2, closed(4000));
    assert_eq!(poll(&mut publisher, 119, 10), []);
    assert_eq!(publisher.lag(at(119)), at(19));
    assert_eq!(publisher.next_due(), Some(at(120)));
    assert!(!publisher.is_flushed(1) && publisher.is_flushed(0));
    let expected = [
        (1, vec![opened(3000)]),
        (2, vec![opened(2000), closed(4000)]),
    ];
    assert_eq!(poll(&mut publisher, 120, 10), expected);
    assert!(publisher.is_flushed(1) && publisher.next_due().is_none());
    assert_eq!(publisher.lag(at(500)), Duration::ZERO);
}

#[test]
fn a_full_message_does_not_wait_and_no_call_says_too_much() {
    let mut publisher = publisher(10_000);
    for n in 0..MAX_CHANGES as u16 + 2 {
        publisher.heard(at(0), 0, opened(2000 + n));
    }
    publisher.heard(at(0), 1, opened(2000));
    let first = poll(&mut publisher, 0, 1);
    assert_eq!(
        (first.len(), first[0].0, first[0].1.len()),
        (1, 0, MAX_CHANGES)
    );
    assert_eq!(poll(&mut publisher, 0, 1), [], "the others may still wait");
    let rest = vec![
        opened(2000 + MAX_CHANGES as u16),
        opened(2001 + MAX_CHANGES as u16),
    ];
    assert_eq!(poll(&mut publisher, 20, 1), [(0, rest)]);
    assert_eq!(poll(&mut publisher, 20, 0), []);
    assert_eq!(poll(&mut publisher, 20, 1), [(1, vec![opened(2000)])]);
    let counters = publisher.counters();
    assert_eq!(
        (counters.changes, counters.messages),
        (MAX_CHANGES as u64 + 3, 3)
    );
}

#[test]
fn the_oldest_changes_make_room() {
    let mut publisher = publisher(3);
    for port in 2000..2005 {
        publisher.heard(at(0), 0, opened(port));
    }
    assert_eq!(publisher.counters().dropped, 2);
    let expected = [(0, vec![opened(2002), opened(2003), opened(2004)])];
    assert_eq!(poll(&mut publisher, 20, 10), expected);
    assert!(publisher.is_flushed(0));
}

#[test]
fn what_was_opened_and_closed_at_once_is_not_told() {
    let mut publisher = publisher(100);
    for change in [
        closed(2000),
        opened(2000),
        opened(2001),
        closed(2000),
        opened(2000),
    ] {
        publisher.heard(at(0), 0, change);
    }
    let expected = vec![closed(2000), opened(2001), opened(2000)];
    assert_eq!(poll(&mut publisher, 20, 10), [(0, expected)]);
    publisher.heard(at(30), 0, opened(2002));
    publisher.heard(at(31), 0, closed(2002));
    assert_eq!(poll(&mut publisher, 60, 10), [], "not even a message");
}

#[test]
fn what_a_repetition_told_before_the_change_did_is_closed_too() {
    let mut publisher = publisher(100);
    publisher.heard(at(0), 0, opened(2000));
    let repeated = publisher.repeat([(0, binding(2000))], |_| Some(TITLE));
    assert_eq!(read(repeated), [(0, Kind::Repetition, vec![opened(2000)])]);
    publisher.heard(at(1), 0, closed(2000));
    let expected = vec![opened(2000), closed(2000)];
    assert_eq!(poll(&mut publisher, 20, 10), [(0, expected)]);
}

#[test]
fn what_waited_while_others_were_told_stays_told() {
    let mut publisher = publisher(100);
    for (slice, port) in [(0, 2000), (1, 3000), (0, 2001)] {
        publisher.heard(at(0), slice, opened(port));
    }
    publisher.repeat([(1, binding(3000))], |_| Some(TITLE));
    let first = [(0, vec![opened(2000), opened(2001)])];
    assert_eq!(poll(&mut publisher, 20, 1), first);
    publisher.heard(at(21), 1, closed(3000));
    let second = [(1, vec![opened(3000), closed(3000)])];
    assert_eq!(poll(&mut publisher, 21, 1), second);
}

#[test]
fn without_a_title_nothing_is_said() {
    let mut publisher = publisher(100);
    publisher.heard(at(0), 0, opened(2000));
    assert_eq!(publisher.poll(at(20), 10, |_| None), []);
    assert_eq!(publisher.repeat([(0, binding(2000))], |_| None), []);
    publisher.begin_snapshot(0);
    assert_eq!(publisher.snapshot(0, [binding(2000)], true, None), []);
    assert_eq!(publisher.counters().untitled, 3);
    assert_eq!(publisher.snapshot(0, [], true, Some(TITLE)), []);
    assert!(
        !publisher.is_flushed(0),
        "a snapshot without its first part does not end"
    );
    publisher.begin_snapshot(0);
    assert_eq!(publisher.snapshot(0, [], true, Some(TITLE)).len(), 1);
    assert!(publisher.is_flushed(0));
    publisher.heard(at(0), 4, opened(2000));
    assert_eq!(publisher.next_due(), None, "there is no such slice");
}

#[test]
fn repetition_is_even_over_the_cycle() {
    let mut publisher = publisher(100);
    assert_eq!(publisher.wants(at(0), 90), 0);
    assert_eq!(publisher.wants(at(999), 90), 0);
    let wanted: Vec<usize> = (1..=60)
        .map(|n| publisher.wants(at(n * 1000), 90))
        .collect();
    assert_eq!(wanted.iter().sum::<usize>(), 90);
    assert!(wanted.iter().all(|n| (1..=2).contains(n)), "{wanted:?}");
    assert_eq!(
        publisher.wants(at(1_000_000), 90),
        90,
        "not more after a pause"
    );
}

#[test]
fn a_snapshot_has_parts_and_an_end() {
    let mut publisher = publisher(100);
    assert_eq!(publisher.snapshot(0, [binding(1)], true, Some(TITLE)), []);
    publisher.begin_snapshot(0);
    assert!(!publisher.is_flushed(0));
    let many = (2000..2002 + MAX_CHANGES as u16).map(binding);
    let mut messages = publisher.snapshot(0, many, false, Some(TITLE));
    messages.extend(publisher.snapshot(0, [], true, Some(TITLE)));
    assert!(publisher.is_flushed(0));
    let parts = read(messages).into_iter();
    let parts: Vec<_> = parts
        .map(|(_, kind, changes)| (kind, changes.len()))
        .collect();
    let part = |part, is_last| Kind::Snapshot {
        number: 0,
        part,
        is_last,
    };
    let expected = [
        (part(0, false), MAX_CHANGES),
        (part(1, false), 2),
        (part(2, true), 0),
    ];
    assert_eq!(parts, expected);
    publisher.begin_snapshot(0);
    let again = read(publisher.snapshot(0, [], true, Some(TITLE)));
    let kind = Kind::Snapshot {
        number: 1,
        part: 0,
        is_last: true,
    };
    assert_eq!(again, [(0, kind, vec![])]);
}

/// They would be published behind it, and some of them perhaps no more before the slice is another node's: a binding that was
/// closed and opened again would be lost.
#[test]
fn a_snapshot_takes_the_place_of_changes_that_wait() {
    let mut publisher = publisher(100);
    for slice in [0, 1] {
        publisher.heard(at(0), slice, closed(2000));
        publisher.heard(at(0), slice, opened(2000));
    }
    publisher.begin_snapshot(0);
    let told = publisher.snapshot(0, [binding(2000)], true, Some(TITLE));
    assert_eq!(read(told)[0].2, [opened(2000)]);
    assert!(publisher.is_flushed(0) && !publisher.is_flushed(1));
    publisher.heard(at(1), 0, closed(2000));
    let both = [
        (0, vec![closed(2000)]),
        (1, vec![closed(2000), opened(2000)]),
    ];
    assert_eq!(poll(&mut publisher, 40, 9), both);
}

#[test]
fn changes_of_an_earlier_ownership_are_forgotten() {
    let mut publisher = publisher(100);
    publisher.heard(at(0), 0, closed(2000));
    publisher.heard(at(5), 1, closed(2001));
    publisher.forget(0);
    assert_eq!(publisher.next_due(), Some(at(25)));
    assert_eq!(poll(&mut publisher, 30, 9), [(1, vec![closed(2001)])]);
    publisher.forget(77);
}
