// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compare-and-set, publications, and what is refused before it is sent.

use diolkos_engine::{Event, Outcome, Unsent};

use crate::node::{plain, Node};
use crate::server::{installed, Folder, Server};

#[tokio::test]
async fn a_write_is_accepted_for_the_revision_that_is_there_only() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let mut node = Node::ready(plain(&[server.address()])).await;
    assert_eq!(
        node.told[0],
        Event::Connected {
            server: server.address()
        }
    );
    assert_eq!(node.write("node.a", "1", 0).await, Outcome::Accepted(1));
    assert_eq!(node.write("node.a", "2", 0).await, Outcome::Refused);
    assert_eq!(node.write("node.a", "2", 1).await, Outcome::Accepted(2));
    assert_eq!(node.write("node.a", "3", 1).await, Outcome::Refused);
    // Another key has a history of its own.
    assert_eq!(node.write("slice.1", "x", 2).await, Outcome::Refused);
    assert_eq!(node.write("slice.1", "x", 0).await, Outcome::Accepted(3));
    let mut other = Node::ready(plain(&[server.address()])).await;
    let expected = [
        ("node.a".into(), "2".into(), 2),
        ("slice.1".into(), "x".into(), 3),
    ];
    assert_eq!(other.entries(), expected);
    assert_eq!(other.write("node.a", "4", 2).await, Outcome::Accepted(4));
}

#[tokio::test]
async fn a_publication_has_its_sequence() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let mut node = Node::ready(plain(&[server.address()])).await;
    assert_eq!(last_sequence(&mut node).await, 0);
    assert_eq!(node.publish("7", "one").await, Outcome::Accepted(1));
    assert_eq!(node.publish("8", "two").await, Outcome::Accepted(2));
    assert_eq!(last_sequence(&mut node).await, 2);
    node.hears("two").await;
    let message = node
        .told
        .iter()
        .find(|event| matches!(event, Event::Message { sequence: 2, .. }));
    let Some(Event::Message { subject_tail, .. }) = message else {
        panic!("{message:?}")
    };
    assert_eq!(subject_tail, "8");
}

async fn last_sequence(node: &mut Node) -> u64 {
    node.client.last_sequence(99).unwrap();
    node.until(|event| match event {
        Event::LastSequence {
            token: 99,
            outcome: Outcome::Accepted(sequence),
        } => Some(*sequence),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_taken() {
    // Nothing listens there: a reserved port of the loopback interface.
    let mut node = Node::start(plain(&["127.0.0.1:1".into()]));
    assert_eq!(node.client.write(1, "a b", "x", 0), Err(Unsent::Name));
    assert_eq!(node.client.publish(1, "1.2", "x"), Err(Unsent::Name));
    assert_eq!(node.client.publish(1, "*", "x"), Err(Unsent::Name));
    assert_eq!(
        node.client.write(1, "a", vec![0; 65_537], 0),
        Err(Unsent::TooBig)
    );
    assert_eq!(
        node.lost().await,
        "127.0.0.1:1 cannot be reached: nothing listens there"
    );
    assert_eq!(
        node.write("a", "x", 0).await,
        Outcome::Failed("not connected".into())
    );
    assert_eq!(
        node.publish("1", "x").await,
        Outcome::Failed("not connected".into())
    );
}

#[tokio::test]
async fn a_caller_that_takes_no_events_is_told_that_the_queue_is_full() {
    let mut node = Node::start(plain(&["127.0.0.1:1".into()]));
    let mut taken = 0;
    // At most what the queue holds and the events that wait for the caller.
    let refusal = loop {
        match node.client.write(taken, "a", "x", 0) {
            Ok(()) => taken += 1,
            Err(refusal) => break refusal,
        }
        assert!(taken <= 64 + 256 + 1, "the queue has no bound");
        tokio::task::yield_now().await;
    };
    assert_eq!(refusal, Unsent::Busy);
    // Each one that was taken gets its answer, once.
    for token in 0..taken {
        let answered = node.until(|event| match event {
            Event::Answer { token, .. } => Some(*token),
            _ => None,
        });
        assert_eq!(answered.await, token);
    }
}
