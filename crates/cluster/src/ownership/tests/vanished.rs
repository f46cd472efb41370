// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries that vanish while the engine is out of reach: the feed of the next connection does not bring them again.

use super::*;

fn owned(owner: NodeId, life: u64) -> Value {
    Value::Slice(SliceEntry {
        owner,
        life,
        through: 0,
    })
}

/// The feed has brought all, and nothing followed.
fn missing(node: &mut Ownership, now: Moment) {
    node.synced(now);
    node.feed.due = Some(now);
    node.miss_entries(now);
}

/// Another node owns the only slice; revisions 2 and 3.
fn beside_an_owner() -> Ownership {
    let mut node = joined();
    node.observed(at(10), Key::Node(OTHER), 2, alive(5, 1));
    node.observed(at(10), Key::Slice(0), 3, owned(OTHER, 5));
    node
}

#[test]
fn what_the_feed_brings_again_changes_nothing() {
    let mut node = owner();
    let me = node.peers.get(ME).map(|seen| seen.entry);
    node.feed_begins();
    node.observed(
        at(30),
        Key::Node(ME),
        1,
        Value::Node(me.expect("it joined")),
    );
    node.observed(at(30), Key::Slice(0), 2, owned(ME, 77));
    missing(&mut node, at(30));
    assert!(node.may_open(at(30), 0));
}

#[test]
fn a_write_that_is_accepted_meanwhile_has_not_vanished() {
    let mut node = owner();
    node.feed_begins();
    let renewal = node.poll(at(1000), 0);
    assert_eq!(keys(&renewal), [Key::Node(ME)]);
    node.accepted(at(1010), renewal[0], 3);
    node.observed(at(1010), Key::Slice(0), 2, owned(ME, 77));
    missing(&mut node, at(1010));
    assert!(node.may_open(at(1010), 0));
}

/// A node that has never seen the entry may claim the slice at once.
#[test]
fn the_owner_of_a_slice_opens_nothing_before_it_has_written_the_entry_again() {
    let mut node = owner();
    node.feed_begins();
    node.observed(at(30), Key::Node(ME), 1, alive(77, 1));
    missing(&mut node, at(30));
    assert!(!node.may_open(at(30), 0) && node.title(at(30), 0).is_none());
    assert_eq!(node.acquiring(at(30)).count(), 0);
    let claim = node.poll(at(30), 0);
    assert_eq!(keys(&claim), [Key::Slice(0)]);
    assert_eq!(claim[0].expected, 0, "as for an absent entry");
    node.accepted(at(40), claim[0], 9);
    let acquiring: Vec<_> = node.acquiring(at(40)).collect();
    let expected = Acquisition {
        revision: 9,
        through: 0,
        had_others: true,
    };
    assert_eq!(acquiring, [(0, expected)]);
    assert!(node.ready(0, 9) && node.may_open(at(40), 0));
}

#[test]
fn the_owner_takes_back_a_slice_that_another_node_should_have() {
    let mut node = owner();
    for number in 2..40 {
        let revision = u64::from(number) + 1;
        node.observed(at(30), Key::Node(NodeId(number)), revision, alive(1, 1));
    }
    assert_ne!(node.heir(0), Some(ME));
    node.slices[0].vanish();
    let claim = node.poll(at(40), 0);
    assert_eq!(
        keys(&claim),
        [Key::Slice(0)],
        "others count it as this node's"
    );
}

#[test]
fn a_slice_stays_its_owners_as_long_as_that_lives() {
    let mut node = beside_an_owner();
    let dead_after = Timing::default().dead_after();
    node.feed_begins();
    node.observed(at(20), Key::Node(ME), 1, alive(77, 1));
    node.observed(at(20), Key::Node(OTHER), 2, alive(5, 1));
    missing(&mut node, at(20));
    assert_eq!(node.owner(0), Some(OTHER));
    assert_eq!(keys(&node.poll(at(20), 0)), [], "the owner's lease may run");
    // The owner has been silent since it was seen first, at 10 ms.
    let end = at(10) + dead_after;
    let renewal = node.poll(end - at(1), 0);
    assert_eq!(keys(&renewal), [Key::Node(ME)]);
    node.accepted(end - at(1), renewal[0], 4);
    let burial = node.poll(end, 0);
    assert_eq!(keys(&burial), [Key::Node(OTHER)]);
    node.accepted(end, burial[0], 5);
    // The entry vanished a moment later.
    let claim = node.poll(at(20) + dead_after, 0);
    assert_eq!(keys(&claim), [Key::Slice(0)]);
    assert_eq!(claim[0].expected, 0, "as for an absent entry");
}

/// The other's entry was missed then: no claim before its longest lease has ended, and one of its slice after the burial.
/// `revision`: the next of the bucket.
fn claims_after_the_longest_lease(node: &mut Ownership, missed: Moment, revision: Revision) {
    let end = missed + Timing::default().dead_after();
    let renewal = node.poll(end - at(1), 0);
    assert_eq!(keys(&renewal), [Key::Node(ME)], "and no slice is claimed");
    node.accepted(end - at(1), renewal[0], revision);
    let burial = node.poll(end, 0);
    assert_eq!(keys(&burial), [Key::Node(OTHER)]);
    assert_eq!(burial[0].expected, 0, "as for an absent entry");
    node.accepted(end, burial[0], revision + 1);
    assert_eq!(keys(&node.poll(end, 0)), [Key::Slice(0)]);
}

/// Its last renewal may have been accepted just before the entry vanished.
#[test]
fn a_node_whose_entry_vanishes_is_dead_only_after_its_longest_lease() {
    let mut node = beside_an_owner();
    node.feed_begins();
    node.observed(at(2000), Key::Node(ME), 1, alive(77, 1));
    node.observed(at(2000), Key::Slice(0), 3, owned(OTHER, 5));
    missing(&mut node, at(2000));
    assert!(node.is_alive(OTHER) && node.owner(0) == Some(OTHER));
    claims_after_the_longest_lease(&mut node, at(2000), 4);
}

/// A renewal of the connection before was late, or the first one of this connection was early: the entry moves to the end of
/// the feed, behind what was there when it began.
#[test]
fn an_entry_that_is_written_while_the_feed_is_read_has_not_vanished() {
    let mut node = owner();
    node.feed_begins();
    node.observed(at(30), Key::Slice(0), 2, owned(ME, 77));
    node.synced(at(30));
    node.poll(at(30), 78);
    assert!(node.may_open(at(30), 0));
    node.observed(at(90), Key::Node(ME), 3, alive(77, 1));
    let later = at(40) + Timing::default().answer_within;
    node.poll(later, 79);
    assert!(node.may_open(later, 0), "its life goes on");
}

#[test]
fn what_does_not_follow_has_vanished() {
    let mut node = owner();
    node.feed_begins();
    node.observed(at(30), Key::Slice(0), 2, owned(ME, 77));
    node.synced(at(30));
    let due = at(30) + Timing::default().answer_within;
    assert!(node.next_due(at(30)) <= due);
    node.poll(due, 78);
    assert!(!node.may_open(due, 0));
}

/// Somebody has purged the entry, which the feed does not tell.
#[test]
fn a_refused_write_is_not_repeated_at_once() {
    let mut node = joined();
    let claim = node.poll(at(10), 0);
    assert_eq!(keys(&claim), [Key::Slice(0)]);
    let again = at(10) + Timing::default().answer_within;
    assert_eq!(keys(&node.poll(again - at(1), 0)), []);
    assert_eq!(keys(&node.poll(again, 0)), [Key::Slice(0)]);
}

/// Its owner is cut off, and its lease may run.
#[test]
fn a_slice_of_a_node_whose_entry_was_removed_is_not_claimed_before_its_longest_lease() {
    let mut node = joined();
    node.observed(at(10), Key::Slice(0), 3, owned(OTHER, 6));
    node.unreadable(at(10), Key::Node(OTHER), 9);
    assert_eq!(keys(&node.poll(at(20), 0)), []);
    let end = at(10) + Timing::default().dead_after();
    let burial = node.poll(end, 0);
    assert!(keys(&burial).contains(&Key::Node(OTHER)));
}

/// The feed brings slices of a node's new life before the entry of that life.
#[test]
fn nobody_is_buried_and_nothing_claimed_before_the_feed_has_brought_all() {
    let mut node = joined();
    let dead = NodeEntry {
        life: 5,
        renewal: 1,
        is_alive: false,
    };
    node.observed(at(10), Key::Node(OTHER), 2, Value::Node(dead));
    node.feed_begins();
    node.observed(at(20), Key::Node(ME), 1, alive(77, 1));
    node.observed(at(20), Key::Slice(0), 4, owned(OTHER, 6));
    assert_eq!(keys(&node.poll(at(20), 0)), []);
    node.observed(at(30), Key::Node(OTHER), 5, alive(6, 1));
    node.synced(at(30));
    assert_eq!(keys(&node.poll(at(30), 0)), []);
}

/// It may have joined again and have claimed the slice before the entry vanished, and its lease may run.
#[test]
fn a_dead_node_whose_entry_vanishes_may_have_another_life() {
    let mut node = joined();
    let dead = NodeEntry {
        life: 5,
        renewal: 1,
        is_alive: false,
    };
    node.observed(at(10), Key::Node(OTHER), 2, Value::Node(dead));
    node.feed_begins();
    node.observed(at(20), Key::Node(ME), 1, alive(77, 1));
    node.observed(at(20), Key::Slice(0), 4, owned(OTHER, 6));
    missing(&mut node, at(20));
    claims_after_the_longest_lease(&mut node, at(20), 5);
}

/// The feed brings entries in the order of their last changes: that of a slice before the latest renewal of its owner.
#[test]
fn a_slice_is_not_claimed_before_the_new_life_of_its_owner_is_seen() {
    let mut node = beside_an_owner();
    node.observed(at(20), Key::Slice(0), 4, owned(OTHER, 6));
    assert_eq!(keys(&node.poll(at(20), 0)), [], "the owner has a new life");
    node.observed(at(30), Key::Node(OTHER), 9, alive(6, 3));
    assert_eq!(node.owner(0), Some(OTHER));
    node.observed(at(40), Key::Node(OTHER), 10, alive(7, 0));
    assert_eq!(
        keys(&node.poll(at(50), 0)).len(),
        usize::from(node.heir(0) == Some(ME))
    );
}

/// The owner before has handed over the slice to a life that had ended, without knowing that.
#[test]
fn a_slice_that_was_handed_over_to_a_former_life_of_a_dead_node_is_claimed() {
    let mut node = joined();
    let dead = NodeEntry {
        life: 6,
        renewal: 1,
        is_alive: false,
    };
    node.observed(at(10), Key::Node(OTHER), 2, Value::Node(dead));
    node.observed(at(10), Key::Slice(0), 3, owned(OTHER, 5));
    let again = node.poll(at(10), 0);
    assert_eq!(keys(&again), [Key::Node(OTHER)]);
    assert_eq!((again[0].value, again[0].expected), (Value::Node(dead), 2));
    node.accepted(at(20), again[0], 4);
    assert_eq!(keys(&node.poll(at(20), 0)), [Key::Slice(0)]);
}

/// A node that starts never saw the entry, and may be the one that lost it.
#[test]
fn a_node_that_starts_waits_for_owners_without_an_entry() {
    for owner in [OTHER, ME] {
        let mut node = Ownership::new(ME, 1, Timing::default());
        node.feed_begins();
        node.observed(at(10), Key::Slice(0), 4, owned(owner, 6));
        missing(&mut node, at(10));
        let dead_after = Timing::default().dead_after();
        let first = node.poll(at(10), 77);
        assert_eq!(keys(&first).contains(&Key::Node(ME)), owner == OTHER);
        first.iter().for_each(|w| node.accepted(at(10), *w, 5));
        for ms in (20..dead_after.as_millis() as u64).step_by(500) {
            for write in node.poll(at(ms), 78) {
                assert_eq!(write.key, Key::Node(ME), "at {ms} ms, {owner:?}");
                node.accepted(at(ms), write, 10 + ms);
            }
        }
        let mut now = at(10) + dead_after;
        let mut written = Vec::new();
        for revision in 10_000..10_004 {
            for write in node.poll(now, 79) {
                written.push(write.key);
                node.accepted(now, write, revision);
            }
            now += at(1);
        }
        assert!(written.contains(&Key::Slice(0)), "{owner:?}: {written:?}");
    }
}

/// Others may write the entry that says that this node is dead only after the wait, and so may this node join.
#[test]
fn a_node_whose_own_entry_vanishes_stops_and_joins_again() {
    let mut node = owner();
    node.feed_begins();
    node.observed(at(30), Key::Slice(0), 2, owned(ME, 77));
    missing(&mut node, at(30));
    assert!(!node.may_open(at(30), 0) && node.lease_ends().is_none());
    let end = at(30) + Timing::default().dead_after();
    assert_eq!(keys(&node.poll(end - at(1), 78)), []);
    let join = node.poll(end, 79);
    assert_eq!(keys(&join), [Key::Node(ME)]);
    assert_eq!(join[0].expected, 0, "as for an absent entry");
}

#[test]
fn nodes_are_those_of_the_feed_that_is_read() {
    let mut node = beside_an_owner();
    assert!(node.has_nodes());
    node.feed_begins();
    assert!(!node.has_nodes());
    node.observed(at(20), Key::Slice(0), 3, owned(OTHER, 5));
    assert!(!node.has_nodes());
    node.observed(at(20), Key::Node(OTHER), 2, alive(5, 1));
    assert!(node.has_nodes());
}
