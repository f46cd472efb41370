// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Somebody removes entries while the feed is read: it brings a mark of the removal, or nothing if the stream itself was purged.

use super::*;

/// A node that has never seen the entry may claim the slice later.
#[test]
fn the_owner_opens_nothing_before_it_has_written_a_removed_entry_again() {
    let mut node = owner();
    node.unreadable(at(30), Key::Slice(0), 7);
    assert!(!node.may_open(at(30), 0) && node.title(at(30), 0).is_none());
    let claim = node.poll(at(30), 0);
    assert_eq!(keys(&claim), [Key::Slice(0)]);
    assert_eq!(claim[0].expected, 7, "over the mark");
    node.accepted(at(40), claim[0], 8);
    assert!(node.ready(0, 8) && node.may_open(at(40), 0));
}

/// Its owner may be cut off, and its lease may run.
#[test]
fn a_slice_without_an_entry_is_claimed_after_the_longest_lease() {
    let wait = Timing::default().dead_after();
    let removal = at(1000);
    for is_removed in [false, true] {
        let mut node = Ownership::new(ME, 1, Timing::default());
        node.observed(at(0), Key::Node(OTHER), 1, alive(5, 0));
        node.synced(at(0));
        let mut end = wait;
        if is_removed {
            node.unreadable(removal, Key::Slice(0), 2);
            end += removal;
        }
        let (mut now, mut revision) = (at(0), 10);
        // The other node would be the heir.
        while now < end {
            node.observed(now, Key::Node(OTHER), revision, dies(5, revision));
            for write in node.poll(now, 77) {
                assert!(matches!(write.key, Key::Node(_)), "{write:?} at {now:?}");
                revision += 1;
                node.accepted(now, write, revision);
            }
            revision += 1;
            now += at(100);
        }
        let due = node.next_due(end - at(1));
        assert!(due <= end, "{due:?}");
        assert!(keys(&node.poll(now, 77)).contains(&Key::Slice(0)));
    }
}

/// The feed brings the last change of each entry, so an owner after the one that is known may never be heard of.
#[test]
fn a_removed_entry_may_have_been_of_a_later_owner() {
    let mut node = joined();
    let owned = SliceEntry {
        owner: OTHER,
        life: 5,
        through: 0,
    };
    node.observed(at(10), Key::Slice(0), 2, Value::Slice(owned));
    node.observed(at(10), Key::Node(OTHER), 3, dies(5, 0));
    node.unreadable(at(20), Key::Slice(0), 9);
    assert_eq!(keys(&node.poll(at(20), 0)), []);
    let end = at(20) + Timing::default().dead_after();
    let renewal = node.poll(end - at(1), 0);
    assert_eq!(keys(&renewal), [Key::Node(ME)]);
    node.accepted(end - at(1), renewal[0], 10);
    let claim = node.poll(end, 0);
    assert_eq!(keys(&claim), [Key::Slice(0)]);
    assert_eq!(claim[0].expected, 9, "over the mark");
}

/// It may have joined again, and its lease may run.
#[test]
fn a_dead_node_whose_entry_is_removed_may_have_another_life() {
    let mut node = joined();
    node.observed(at(10), Key::Node(OTHER), 2, dies(5, 0));
    let owned = SliceEntry {
        owner: OTHER,
        life: 6,
        through: 0,
    };
    node.observed(at(20), Key::Slice(0), 4, Value::Slice(owned));
    node.unreadable(at(20), Key::Node(OTHER), 9);
    assert_eq!(keys(&node.poll(at(20), 0)), []);
    let end = at(20) + Timing::default().dead_after();
    let renewal = node.poll(end - at(1), 0);
    assert_eq!(keys(&renewal), [Key::Node(ME)]);
    node.accepted(end - at(1), renewal[0], 10);
    let burial = node.poll(end, 0);
    assert_eq!(keys(&burial), [Key::Node(OTHER)]);
    assert_eq!(burial[0].expected, 9, "over the mark");
}

fn dies(life: u64, renewal: u64) -> Value {
    Value::Node(NodeEntry {
        life,
        renewal,
        is_alive: false,
    })
}

/// Nothing tells of it, so every renewal would be refused for ever.
#[test]
fn a_node_whose_own_entry_was_purged_joins_again() {
    let mut node = owner();
    for now in [at(1000), at(2000)] {
        let renewal = node.poll(now, 0);
        assert_eq!(keys(&renewal), [Key::Node(ME)]);
        assert_eq!(renewal[0].expected, 1);
        node.refused(renewal[0]);
    }
    let now = at(2000) + Timing::default().answer_within;
    assert!(node.may_open(now, 0), "the lease runs still");
    assert_eq!(keys(&node.poll(now, 0)), []);
    assert!(!node.may_open(now, 0), "its life has ended");
    let end = now + Timing::default().dead_after();
    let join = node.poll(end, 79);
    assert_eq!(keys(&join), [Key::Node(ME)]);
    assert_eq!(join[0].expected, 0, "as for an absent entry");
}

/// The feed was only late.
#[test]
fn a_refused_write_whose_entry_the_feed_brings_shows_no_removal() {
    let mut node = owner();
    let mut now = at(1000);
    for revision in [3, 4, 5] {
        let renewal = node.poll(now, 0);
        assert_eq!(keys(&renewal), [Key::Node(ME)]);
        node.refused(renewal[0]);
        // An earlier renewal was accepted, and the answer to it was lost.
        node.observed(now, Key::Node(ME), revision, alive(77, revision));
        now += Timing::default().renew_every;
        assert_eq!(node.life, Some(77));
    }
}
