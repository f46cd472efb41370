// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of docs/engine.md: `cargo test -p diolkos-etcd --test etcd -- --ignored --nocapture figures`.

use std::thread;
use std::time::{Duration, Instant};

use diolkos_node::record::{Outcome, Request};

use crate::cluster::Cluster;
use crate::member::until;
use crate::node::Node;

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
    println!(
        "{what}: median {:.1} ms, p99 {:.1} ms, n {}",
        at(50),
        at(99),
        times.len()
    );
}

/// Returns how long a node that asks all the time has no answer, from a fault until it has had answers for a
/// while.
fn silence(node: &mut Node, fault: impl FnOnce()) -> Duration {
    fault();
    let (mut last, mut longest, mut since) = (Instant::now(), Duration::ZERO, Instant::now());
    until("answers", || {
        if node.ask(Request::Read(node.me)).is_some() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        } else {
            since = Instant::now();
        }
        since.elapsed() > Duration::from_secs(4) && longest > Duration::ZERO
    });
    longest
}

#[test]
#[ignore = "figures, not a test"]
fn figures() {
    let mut cluster = Cluster::start();
    cluster.enter();
    let mut node = Node::start(cluster.settings(0));
    let mut answer = node.store(b"0");
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let begun = Instant::now();
        node.read();
        reads.push(begun.elapsed());
        let Outcome::Written(revision) = answer.outcome else {
            panic!("{answer:?}");
        };
        let begun = Instant::now();
        answer = node.write(revision, &[7; 100]).unwrap();
        writes.push(begun.elapsed());
    }
    show("read", reads);
    show("write", writes);

    let mut nodes = [0, 1, 2].map(|first| Node::start(cluster.settings(first)));
    let (mut rounds, mut several) = (0, 0);
    for _ in 0..500 {
        let Outcome::Value(Some((revision, _))) = nodes[0].read().outcome else {
            panic!("no record");
        };
        let written = thread::scope(|scope| {
            let write = |node| scope.spawn(move || Node::write(node, revision, b"race"));
            let threads: Vec<_> = nodes.iter_mut().map(write).collect();
            let answers = threads.into_iter().map(|thread| thread.join().unwrap());
            let is_written = |a: &Option<_>| {
                matches!(
                    a,
                    Some(diolkos_node::record::Answer {
                        outcome: Outcome::Written(_),
                        ..
                    })
                )
            };
            answers.filter(is_written).count()
        });
        (rounds, several) = (rounds + 1, several + usize::from(written > 1));
    }
    println!("rounds of three writers with more than one winner: {several} of {rounds}");

    for first in ["the leader", "a follower"] {
        for round in 0..3 {
            let leader = cluster.leader(None);
            let asked = if first == "the leader" {
                leader
            } else {
                (leader + 1) % 3
            };
            let mut node = Node::start(cluster.settings(asked));
            node.read();
            let members = &mut cluster.members;
            let killed = silence(&mut node, || members[leader].kill());
            cluster.members[leader].start();
            node.store(b"1");
            let leader = cluster.leader(None);
            let asked = if first == "the leader" {
                leader
            } else {
                (leader + 1) % 3
            };
            let mut node = Node::start(cluster.settings(asked));
            node.read();
            let frozen = silence(&mut node, || cluster.members[leader].freeze());
            cluster.members[leader].thaw();
            thread::sleep(Duration::from_secs(3));
            let leader = cluster.leader(None);
            let asked = if first == "the leader" {
                leader
            } else {
                (leader + 1) % 3
            };
            let mut node = Node::start(cluster.settings(asked));
            node.read();
            let cut = silence(&mut node, || cluster.cut(leader, &["input", "output"]));
            cluster.join(leader);
            thread::sleep(Duration::from_secs(3));
            println!("{first} is asked, round {round}: leader killed {killed:?}, frozen {frozen:?}, cut off {cut:?}");
        }
    }
}
