// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All nodes are told the same, in the same order, however slow they are.

use diolkos_engine::{Outcome, Settings};

use crate::node::{plain, Node};
use crate::server::{installed, Folder, Server};

#[tokio::test]
async fn two_nodes_see_the_same_order() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let (mut a, mut b) = (
        Node::ready(plain(&[server.address()])).await,
        Node::ready(plain(&[server.address()])).await,
    );
    for round in 0..50u64 {
        for (name, node) in [("a", &a), ("b", &b)] {
            node.client
                .write(round, &format!("{name}.{round}"), "x", 0)
                .unwrap();
            node.client
                .publish(round, name, format!("{name}{round}"))
                .unwrap();
        }
        tokio::task::yield_now().await;
    }
    for node in [&mut a, &mut b] {
        while node.entries().len() < 100 || node.messages().len() < 100 {
            node.next().await;
        }
    }
    assert_eq!(a.entries(), b.entries());
    assert_eq!(a.messages(), b.messages());
    let revisions: Vec<u64> = a
        .entries()
        .iter()
        .map(|(_, _, revision)| *revision)
        .collect();
    assert_eq!(revisions, (1..=100).collect::<Vec<_>>());
    let sequences: Vec<u64> = a.messages().iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, (1..=100).collect::<Vec<_>>());
    // One node's publications have the order of its calls.
    let own: Vec<String> = b
        .messages()
        .into_iter()
        .map(|(_, text)| text)
        .filter(|text| text.starts_with('a'))
        .collect();
    assert_eq!(
        own,
        (0..50).map(|round| format!("a{round}")).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_node_that_comes_late_is_told_everything_and_that_it_was_everything() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let mut early = Node::ready(plain(&[server.address()])).await;
    for number in 0..1000u32 {
        while early.client.publish(1, "1", number.to_string()).is_err() {
            early.next().await;
        }
    }
    early.hears("999").await;
    // A channel of one event: the reader waits for the caller again and again.
    let mut late = Node::ready(Settings {
        events: 1,
        ..plain(&[server.address()])
    })
    .await;
    let texts: Vec<String> = late.messages().into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        texts,
        (0..1000)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
    );
    let caught_up = late
        .told
        .iter()
        .position(|event| matches!(event, diolkos_engine::Event::CaughtUp { sequence: 1000 }));
    let last = late
        .told
        .iter()
        .position(|event| matches!(event, diolkos_engine::Event::Message { sequence: 1000, .. }));
    assert!(last.unwrap() < caught_up.unwrap());
    assert_eq!(late.publish("1", "more").await, Outcome::Accepted(1001));
    assert_eq!(late.client.counters(), diolkos_engine::Counters::default());
}
