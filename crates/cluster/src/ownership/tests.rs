// SPDX-License-Identifier: Apache-2.0 OR MIT
mod removed;
mod vanished;

use std::time::Duration;

use super::*;

const ME: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn at(millis: u64) -> Moment {
    Duration::from_millis(millis)
}

/// A node of a pool of one slice, alone in its cluster, has joined at 0 ms with revision 1. It has waited for owners that it does
/// not know.
fn joined() -> Ownership {
    let mut node = Ownership::new(ME, 1, Timing::default());
    node.synced(at(0));
    node.unknown_until = Some(at(0));
    let join = node.poll(at(0), 77);
    assert_eq!(join.len(), 1);
    node.accepted(at(0), join[0], 1);
    node
}

/// This node owns the only slice and opens bindings in it; revisions 1 and 2.
fn owner() -> Ownership {
    let mut node = joined();
    let claim = node.poll(at(10), 0);
    node.accepted(at(20), claim[0], 2);
    assert!(node.ready(0, 2) && node.may_open(at(20), 0));
    node
}

fn alive(life: u64, renewal: u64) -> Value {
    Value::Node(NodeEntry {
        life,
        renewal,
        is_alive: true,
    })
}

fn keys(writes: &[Write]) -> Vec<Key> {
    writes.iter().map(|write| write.key).collect()
}

#[test]
fn a_slice_is_opened_once_its_bindings_are_installed() {
    let mut node = joined();
    let claim = node.poll(at(10), 0);
    assert_eq!(keys(&claim), [Key::Slice(0)]);
    node.accepted(at(20), claim[0], 2);
    let acquiring: Vec<_> = node.acquiring(at(20)).collect();
    let expected = Acquisition {
        revision: 2,
        through: 0,
        had_others: true,
    };
    assert_eq!(acquiring, [(0, expected)]);
    assert!(!node.may_open(at(20), 0) && node.title(at(20), 0).is_none());
    assert!(!node.ready(0, 1), "an earlier entry");
    assert!(!node.may_open(at(20), 0));
    assert!(node.ready(0, 2));
    let title = Title {
        life: 77,
        revision: 2,
    };
    assert!(node.may_open(at(20), 0) && node.title(at(20), 0) == Some(title));
    assert_eq!(node.acquiring(at(20)).count(), 0);
    // Somebody writes the same entry anew: there may have been another owner in between.
    let again = Value::Slice(SliceEntry {
        owner: ME,
        life: 77,
        through: 9,
    });
    node.observed(at(30), Key::Slice(0), 5, again);
    assert!(!node.may_open(at(30), 0));
    let expected = Acquisition {
        revision: 5,
        through: 9,
        had_others: true,
    };
    assert_eq!(node.acquiring(at(30)).collect::<Vec<_>>(), [(0, expected)]);
    // Without a lease the slice may be another node's.
    assert_eq!(node.acquiring(at(3000)).count(), 0);
}

/// It was not another node's if this node has written over an entry of its own.
#[test]
fn a_slice_that_a_node_keeps_is_not_released() {
    let mut node = joined();
    let claim = node.poll(at(10), 0);
    node.accepted(at(20), claim[0], 2);
    node.ready(0, 2);
    let other = |life| {
        Value::Node(NodeEntry {
            life,
            renewal: 0,
            is_alive: life > 0,
        })
    };
    // Every other node should have the slice, and all go before this one has handed it over.
    for number in 2..40 {
        node.observed(
            at(30),
            Key::Node(NodeId(number)),
            u64::from(number) + 1,
            other(1),
        );
    }
    node.leave();
    node.poll(at(40), 0);
    assert_eq!(node.closing().collect::<Vec<_>>(), [0]);
    node.stay();
    for number in 2..40 {
        node.observed(
            at(50),
            Key::Node(NodeId(number)),
            u64::from(number) + 50,
            other(0),
        );
    }
    let keep = node.hand_over(at(60), 0, 9).expect("it goes to itself");
    node.accepted(at(70), keep, 100);
    let acquiring: Vec<_> = node.acquiring(at(70)).collect();
    let expected = Acquisition {
        revision: 100,
        through: 9,
        had_others: false,
    };
    assert_eq!(acquiring, [(0, expected)]);
}

#[test]
fn messages_count_for_what_their_entry_says() {
    let mut node = joined();
    let other = NodeId(2);
    let title = |life, revision| Title { life, revision };
    let entry = Value::Slice(SliceEntry {
        owner: other,
        life: 5,
        through: 0,
    });
    node.observed(at(10), Key::Slice(0), 4, entry);
    assert_eq!(node.standing(0, other, title(5, 4)), Standing::Owner);
    assert_eq!(node.standing(0, other, title(6, 4)), Standing::Stranger);
    assert_eq!(node.standing(0, NodeId(3), title(5, 4)), Standing::Stranger);
    assert_eq!(
        node.standing(0, NodeId(3), title(5, 3)),
        Standing::OtherOwner
    );
    assert_eq!(
        node.standing(0, NodeId(3), title(5, 9)),
        Standing::OtherOwner
    );
    assert_eq!(node.standing(0, ME, title(77, 3)), Standing::Myself);
    assert_eq!(node.standing(0, ME, title(76, 3)), Standing::OtherOwner);
    assert_eq!(node.standing(1, other, title(5, 4)), Standing::Stranger);
}

/// The write that ends a life cannot be recalled, and others take over at once when it is accepted.
#[test]
fn a_node_that_stays_takes_nothing_while_its_farewell_is_on_its_way() {
    let mut node = joined();
    node.leave();
    let farewell = node.poll(at(10), 0);
    assert_eq!(keys(&farewell), [Key::Node(ME)]);
    node.stay();
    // No answer has come for so long that the next renewal is written.
    let renewal = node.poll(at(1100), 0);
    assert_eq!(keys(&renewal), [Key::Node(ME)], "and no slice is claimed");
    node.accepted(at(1110), renewal[0], 2);
    let claim = node.poll(at(1120), 0);
    assert_eq!(
        keys(&claim),
        [Key::Slice(0)],
        "the farewell will be refused"
    );
}
