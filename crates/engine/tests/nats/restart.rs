// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers that end, freeze, or come back with or without what they knew.

use diolkos_engine::{Event, Outcome, Store};

use crate::node::{plain, Node};
use crate::server::{installed, Folder, Server};

/// A server that keeps its store in the folder, and a node that has read all of it; none where nats-server is not installed.
async fn beside_a_server() -> Option<(Folder, Server, Node)> {
    if !installed() {
        return None;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let node = Node::ready(plain(&[server.address()])).await;
    Some((folder, server, node))
}

#[tokio::test]
async fn revisions_go_on_after_a_restart() {
    let Some((_folder, mut server, mut node)) = beside_a_server().await else {
        return;
    };
    assert_eq!(node.write("a", "1", 0).await, Outcome::Accepted(1));
    assert_eq!(node.publish("1", "before").await, Outcome::Accepted(1));
    node.hears("before").await;
    server.kill();
    let sentence = node.lost().await;
    assert!(sentence.starts_with(&server.address()), "{sentence}");
    server.start_again();
    let start = node.told.len();
    node.caught_up().await;
    let since = &node.told[start..];
    // The bucket is on disk; the stream was in memory only.
    assert!(!since.contains(&Event::Reset(Store::Bucket)), "{since:?}");
    assert!(since.contains(&Event::Reset(Store::Bindings)), "{since:?}");
    assert!(since.contains(&Event::Entry {
        key: "a".into(),
        value: Some("1".into()),
        revision: 1
    }));
    assert_eq!(node.write("a", "2", 0).await, Outcome::Refused);
    assert_eq!(node.write("a", "2", 1).await, Outcome::Accepted(2));
    assert_eq!(node.publish("1", "after").await, Outcome::Accepted(1));
    node.hears("after").await;
}

/// Nothing tells of a purge while it happens.
#[tokio::test]
async fn an_entry_that_was_purged_is_not_brought_again() {
    let Some((_folder, mut server, mut node)) = beside_a_server().await else {
        return;
    };
    for (revision, key) in (1..).zip(["a", "b", "c"]) {
        assert_eq!(node.write(key, "1", 0).await, Outcome::Accepted(revision));
    }
    let operator = async_nats::connect(server.address()).await.unwrap();
    let operator = async_nats::jetstream::new(operator);
    let bucket = operator.get_stream("KV_DIOLKOS_test").await.unwrap();
    // The last one, too: the stream's last sequence is then that of no entry.
    for key in ["a", "c"] {
        let subject = format!("$KV.DIOLKOS_test.{key}");
        bucket.purge().filter(subject).await.unwrap();
    }
    server.kill();
    node.lost().await;
    server.start_again();
    let start = node.told.len();
    node.caught_up().await;
    let again: Vec<_> = node.told[start..]
        .iter()
        .filter(|event| matches!(event, Event::Entry { .. } | Event::Reset(Store::Bucket)))
        .collect();
    let expected = Event::Entry {
        key: "b".into(),
        value: Some("1".into()),
        revision: 2,
    };
    assert_eq!(again, [&expected]);
    assert_eq!(node.write("a", "2", 1).await, Outcome::Refused);
    assert_eq!(node.write("a", "2", 0).await, Outcome::Accepted(4));
}

#[tokio::test]
async fn a_server_that_lost_its_store_is_another_one() {
    let Some((folder, mut server, mut node)) = beside_a_server().await else {
        return;
    };
    assert_eq!(node.write("a", "1", 0).await, Outcome::Accepted(1));
    assert_eq!(node.write("a", "2", 1).await, Outcome::Accepted(2));
    server.kill();
    std::fs::remove_dir_all(folder.path("s")).unwrap();
    server.start_again();
    node.until(|event| matches!(event, Event::Connected { .. }).then_some(()))
        .await;
    // The caller does not know yet. In the new bucket, this revision would be another entry's.
    node.client.write(500, "b", "x", 0).unwrap();
    assert_eq!(node.next().await, Event::Reset(Store::Bucket));
    let stale = node.until(|event| match event {
        Event::Answer {
            token: 500,
            outcome,
        } => Some(outcome.clone()),
        _ => None,
    });
    let Outcome::Failed(why) = stale.await else {
        panic!("a stale write was sent")
    };
    assert!(why.contains("another"), "{why}");
    assert_eq!(node.write("a", "3", 0).await, Outcome::Accepted(1));
}

#[tokio::test]
async fn reading_goes_on_where_it_ended() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let mut node = Node::ready(plain(&[server.address()])).await;
    assert_eq!(node.publish("1", "one").await, Outcome::Accepted(1));
    node.hears("one").await;
    server.freeze();
    let sentence = node.lost().await;
    assert!(
        sentence.starts_with(&server.address()) && sentence.contains("not answer"),
        "{sentence}"
    );
    assert_eq!(
        node.write("a", "1", 0).await,
        Outcome::Failed("not connected".into())
    );
    server.thaw();
    node.caught_up().await;
    let mut other = Node::ready(plain(&[server.address()])).await;
    assert_eq!(other.messages(), [(1, "one".into())]);
    assert_eq!(other.publish("1", "two").await, Outcome::Accepted(2));
    node.hears("two").await;
    assert_eq!(node.messages(), [(1, "one".into()), (2, "two".into())]);
    assert!(!node
        .told
        .iter()
        .any(|event| matches!(event, Event::Reset(_))));
}

#[tokio::test]
async fn a_request_to_a_frozen_server_fails_and_the_connection_is_lost() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let mut node = Node::ready(plain(&[server.address()])).await;
    server.freeze();
    let outcome = node.write("a", "1", 0).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    node.lost().await;
    server.thaw();
    node.caught_up().await;
    // What the frozen server had in its buffers it may have stored or not: the entry tells.
    let revision = node
        .entries()
        .last()
        .map_or(0, |(_, _, revision)| *revision);
    assert_eq!(
        node.write("a", "2", revision).await,
        Outcome::Accepted(revision + 1)
    );
}

#[tokio::test]
async fn the_next_server_is_tried() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let servers = ["127.0.0.1:1".into(), "127.0.0.1:2".into(), server.address()];
    let node = Node::ready(plain(&servers)).await;
    assert!(node.told.contains(&Event::Connected {
        server: server.address()
    }));
}
