// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that a history of one record is linearizable. (Wing and Gong's search, by the events in order: Lowe, "Testing
//! for linearizability".)

use std::collections::{BTreeSet, HashSet};

/// The value of a record: the number of the write that wrote it; 0: nothing.
pub type Value = u64;

/// An operation that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Read,
    /// Writes the second value if the record has the first one.
    Swap(Value, Value),
}

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    Has(Value),
    Written,
    Refused,
}

/// An event, with the number of its operation. An operation without an end may take effect at any time after it was
/// begun, or never.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Begin(usize, Operation),
    End(usize, End),
}

/// One possible state so far.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    value: Value,
    /// Operations that have taken effect and have not ended, with their results.
    done: BTreeSet<(usize, End)>,
}

fn outcome(value: Value, operation: Operation) -> (Value, End) {
    match operation {
        Operation::Read => (value, End::Has(value)),
        Operation::Swap(from, to) if from == value => (to, End::Written),
        Operation::Swap(..) => (value, End::Refused),
    }
}

/// A running operation.
struct Open {
    number: usize,
    operation: Operation,
    /// True if it has an end, which may depend on a value that is gone by then.
    ends: bool,
}

/// Searches for an order of all operations that explains every end. The error is the event that none explains.
pub fn check(events: &[Event]) -> Result<(), Event> {
    let start = World {
        value: 0,
        done: BTreeSet::new(),
    };
    let ended = events.iter().filter_map(|event| match event {
        Event::End(number, _) => Some(*number),
        Event::Begin(..) => None,
    });
    let ended: HashSet<usize> = ended.collect();
    let (mut worlds, mut open) = (HashSet::from([start]), Vec::new());
    for event in events {
        match *event {
            Event::Begin(number, operation) => open.push(Open {
                number,
                operation,
                ends: ended.contains(&number),
            }),
            Event::End(number, end) => {
                worlds = explain(worlds, &open, number, end);
                open.retain(|other| other.number != number);
            }
        }
        if worlds.is_empty() {
            return Err(*event);
        }
    }
    Ok(())
}

/// Returns the worlds in which an operation ends so, after any other running operations.
fn explain(worlds: HashSet<World>, open: &[Open], number: usize, end: End) -> HashSet<World> {
    let (mut seen, mut rest) = (worlds.clone(), Vec::from_iter(worlds));
    let mut found = HashSet::new();
    while let Some(mut world) = rest.pop() {
        let done = world.done.iter().find(|(other, _)| *other == number);
        if let Some(&(_, came)) = done {
            if came == end {
                world.done.remove(&(number, came));
                found.insert(world);
            }
            continue;
        }
        for other in open {
            let (value, came) = outcome(world.value, other.operation);
            let is_done = world.done.iter().any(|(which, _)| *which == other.number);
            if is_done || (!other.ends && value == world.value) {
                continue;
            }
            let mut next = world.clone();
            next.value = value;
            next.done.insert((other.number, came));
            if seen.insert(next.clone()) {
                rest.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Event::{Begin, End as Ends};
    use super::Operation::{Read, Swap};
    use super::*;

    #[test]
    fn histories_that_are_linearizable_pass() {
        // Two that overlap, each before the other.
        let both = |end| {
            [
                Begin(0, Swap(0, 1)),
                Begin(1, Read),
                Ends(1, end),
                Ends(0, End::Written),
            ]
        };
        assert!(check(&both(End::Has(0))).is_ok() && check(&both(End::Has(1))).is_ok());
        // A read that ends after a write that it has not seen.
        let late = [
            Begin(0, Swap(0, 1)),
            Begin(1, Read),
            Ends(0, End::Written),
            Ends(1, End::Has(0)),
        ];
        assert!(check(&late).is_ok());
        // A write without an end takes effect late, or never.
        let open = |end| {
            [
                Begin(0, Swap(0, 1)),
                Begin(1, Read),
                Ends(1, End::Has(0)),
                Begin(2, Read),
                Ends(2, end),
            ]
        };
        assert!(check(&open(End::Has(0))).is_ok() && check(&open(End::Has(1))).is_ok());
        // Refused, since another one was first.
        let race = [
            Begin(0, Swap(0, 1)),
            Begin(1, Swap(0, 2)),
            Ends(1, End::Refused),
            Ends(0, End::Written),
        ];
        assert!(check(&race).is_ok());
        // Two steps of others explain a read.
        let steps = [
            Begin(0, Swap(0, 1)),
            Begin(1, Swap(1, 2)),
            Begin(2, Read),
            Ends(2, End::Has(2)),
            Ends(1, End::Written),
        ];
        assert!(check(&steps).is_ok());
    }

    #[test]
    fn histories_that_are_not_linearizable_are_found() {
        let write = [Begin(0, Swap(0, 1)), Ends(0, End::Written)];
        let after = |more: &[Event]| check(&[&write, more].concat());
        // An old value.
        assert!(after(&[Begin(1, Read), Ends(1, End::Has(0))]).is_err());
        // A value that was never written.
        assert!(after(&[Begin(1, Read), Ends(1, End::Has(7))]).is_err());
        // Two that won.
        assert!(after(&[Begin(1, Swap(0, 2)), Ends(1, End::Written)]).is_err());
        let both = [
            Begin(0, Swap(0, 1)),
            Begin(1, Swap(0, 2)),
            Ends(1, End::Written),
            Ends(0, End::Written),
        ];
        assert!(check(&both).is_err());
        // Refused without a reason.
        assert!(after(&[Begin(1, Swap(1, 2)), Ends(1, End::Refused)]).is_err());
        // A value that goes back during a read and after it.
        let back = [
            Begin(0, Swap(0, 1)),
            Begin(1, Read),
            Ends(1, End::Has(1)),
            Begin(2, Read),
            Ends(2, End::Has(0)),
            Ends(0, End::Written),
        ];
        assert!(check(&back).is_err());
        // A refused write has no effect.
        let ghost = [Begin(0, Swap(0, 1)), Ends(0, End::Refused)];
        assert!(check(&ghost).is_err());
    }
}
