// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Three nodes race for one record while members are killed, stopped and cut off. The nodes' observations must be
//! linearizable.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;

use diolkos_etcd::Settings;
use diolkos_node::record::{Outcome, Request};

use crate::cluster::{is_root, Cluster};
use crate::history::{check, End, Event, Operation, Value};
use crate::member::{installed, until};
use crate::node::Node;

/// The observations of all nodes, in order.
#[derive(Default)]
struct History {
    events: Mutex<Vec<Event>>,
    /// Writes and their revisions, from every answer.
    revisions: Mutex<BTreeMap<u64, Value>>,
    next: AtomicU64,
    /// Number of answers of each node.
    answers: [AtomicU64; 3],
    is_over: AtomicBool,
}

impl History {
    /// Returns a unique number for an operation.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn begin(&self, operation: Operation) -> usize {
        let number = self.number() as usize;
        self.events
            .lock()
            .unwrap()
            .push(Event::Begin(number, operation));
        number
    }

    fn end(&self, number: usize, end: End) {
        self.events.lock().unwrap().push(Event::End(number, end));
    }

    /// Checks that a revision has one value.
    fn has(&self, revision: u64, value: Value) {
        let before = self.revisions.lock().unwrap().insert(revision, value);
        assert!(
            before.is_none_or(|before| before == value),
            "revision {revision}"
        );
    }

    /// Reads, and replaces what it has read, until the end.
    fn race(&self, at: usize, mut node: Node) {
        let mut engine = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.begin(Operation::Read);
            let Some(answer) = node.ask(Request::Read(node.me)) else {
                continue;
            };
            let Outcome::Value(value) = answer.outcome else {
                panic!("no value");
            };
            let read = |(revision, bytes): (u64, Vec<u8>)| {
                let value = Value::from_be_bytes(bytes.try_into().unwrap());
                self.has(revision, value);
                (revision, value)
            };
            let (revision, value) = value.map_or((0, 0), read);
            self.end(number, End::Has(value));
            assert_eq!(*engine.get_or_insert(answer.engine), answer.engine);
            self.answers[at].fetch_add(1, Ordering::Relaxed);

            let new = self.number();
            let number = self.begin(Operation::Swap(value, new));
            let answer = node.write(revision, &new.to_be_bytes());
            match answer.map(|answer| answer.outcome) {
                Some(Outcome::Written(revision)) => {
                    self.has(revision, new);
                    self.end(number, End::Written);
                }
                Some(Outcome::Refused) => self.end(number, End::Refused),
                Some(Outcome::Value(_) | Outcome::All(_)) => {
                    panic!("a write is answered like a read")
                }
                None => {}
            }
        }
    }

    /// Waits until every node has got this many more answers.
    fn goes_on(&self, what: &str) {
        let answers = || self.answers.each_ref().map(|n| n.load(Ordering::Relaxed));
        let before = answers();
        until(what, || (0..3).all(|at| answers()[at] >= before[at] + 10));
    }
}

/// Runs `faults` while three nodes race; after that, all observations must be linearizable.
fn race(settings: [Settings; 3], faults: impl FnOnce(&History)) {
    let history = History::default();
    thread::scope(|scope| {
        for (at, settings) in settings.into_iter().enumerate() {
            let node = Node::start(settings);
            let history = &history;
            scope.spawn(move || history.race(at, node));
        }
        // A failure ends the others, too.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| faults(&history)));
        history.is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    let events = history.events.into_inner().unwrap();
    let mut count = HashMap::new();
    for event in &events {
        let kind = match event {
            Event::Begin(..) => "begun",
            Event::End(_, End::Has(_)) => "reads",
            Event::End(_, End::Written) => "written",
            Event::End(_, End::Refused) => "refused",
        };
        *count.entry(kind).or_insert(0) += 1;
    }
    println!("{count:?}");
    assert!(count["written"] > 0 && count["refused"] > 0, "{count:?}");
    if let Err(event) = check(&events) {
        panic!("not linearizable at {event:?}: {events:?}");
    }
    // Writes are in the order of their revisions, and each write replaces the one before it.
    let swaps = events.iter().filter_map(|event| match event {
        Event::Begin(_, Operation::Swap(from, to)) => Some((*to, *from)),
        _ => None,
    });
    let swaps: HashMap<Value, Value> = swaps.collect();
    let revisions = history.revisions.into_inner().unwrap();
    let values: Vec<Value> = revisions.into_values().collect();
    for pair in values.windows(2) {
        assert!(leads(&swaps, pair[0], pair[1]), "{pair:?}");
    }
}

/// Returns true if `to` replaces `from`, perhaps with writes in between whose revision no node knows.
fn leads(swaps: &HashMap<Value, Value>, from: Value, to: Value) -> bool {
    let mut at = to;
    while at != from && at != 0 {
        at = swaps[&at];
    }
    at == from
}

#[test]
fn what_nodes_see_is_linearizable_whatever_members_suffer() {
    if !installed() || !is_root() {
        return;
    }
    let mut cluster = Cluster::start();
    cluster.enter();
    let settings = [0, 1, 2].map(|first| cluster.settings(first));
    race(settings, |history| {
        history.goes_on("at the start");
        let leader = cluster.leader(None);

        cluster.members[leader].kill();
        history.goes_on("leader killed");
        cluster.leader(Some(leader));
        cluster.members[leader].start();
        history.goes_on("leader back");

        let leader = cluster.leader(None);
        cluster.members[leader].freeze();
        history.goes_on("leader frozen");
        cluster.leader(Some(leader));
        cluster.members[leader].thaw();
        history.goes_on("leader thawed");

        let follower = (cluster.leader(None) + 1) % 3;
        cluster.members[follower].freeze();
        history.goes_on("follower frozen");
        cluster.members[follower].thaw();

        for directions in [&["input", "output"][..], &["input"], &["output"]] {
            let leader = cluster.leader(None);
            cluster.cut(leader, directions);
            history.goes_on(&format!("leader cut off: {directions:?}"));
            cluster.leader(Some(leader));
            cluster.join(leader);
            history.goes_on("leader joined");
        }

        cluster.members.iter_mut().for_each(|member| member.kill());
        cluster.members.iter_mut().for_each(|member| member.start());
        history.goes_on("all restarted");
    });
}
