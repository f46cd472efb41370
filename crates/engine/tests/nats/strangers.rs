// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Others on the same server.

use async_nats::jetstream::{self, stream};
use diolkos_engine::{Client, Event, Outcome};

use crate::node::{plain, Node};
use crate::server::{installed, Folder, Server};

async fn stranger(server: &Server) -> async_nats::Client {
    async_nats::ConnectOptions::new()
        .retry_on_initial_connect()
        .connect(server.address())
        .await
        .unwrap()
}

#[tokio::test]
async fn messages_that_are_too_big_are_skipped_and_counted() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let stranger = stranger(&server).await;
    // Made by somebody else, without a limit of messages.
    let config = stream::Config {
        name: "DIOLKOS_test_BINDINGS".into(),
        subjects: vec!["diolkos.test.bindings.*".into()],
        storage: stream::StorageType::Memory,
        ..stream::Config::default()
    };
    let context = jetstream::new(stranger.clone());
    while context.create_stream(config.clone()).await.is_err() {}
    let mut node = Node::ready(plain(&[server.address()])).await;
    for (text, size) in [
        ("a", 1),
        ("b", 65_536),
        ("c", 65_537),
        ("d", 500_000),
        ("e", 1),
    ] {
        let ack = context
            .publish("diolkos.test.bindings.1", text.repeat(size).into())
            .await
            .unwrap();
        ack.await.unwrap();
    }
    node.hears("e").await;
    let sequences: Vec<u64> = node
        .messages()
        .iter()
        .map(|(sequence, _)| *sequence)
        .collect();
    assert_eq!(sequences, [1, 2, 5]);
    assert_eq!(node.client.counters().skipped, 2);
    assert_eq!(node.client.counters().missed, 0);
}

#[tokio::test]
async fn the_stream_that_a_node_makes_takes_no_message_that_is_too_big() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let mut node = Node::ready(plain(&[server.address()])).await;
    let context = jetstream::new(stranger(&server).await);
    let ack = context
        .publish("diolkos.test.bindings.1", "x".repeat(70_000).into())
        .await
        .unwrap();
    assert!(ack.await.is_err());
    assert_eq!(
        node.publish("1", &"y".repeat(65_536)).await,
        Outcome::Accepted(1)
    );
}

#[tokio::test]
async fn a_removed_entry_is_told_and_a_lost_consumer_is_made_anew() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let mut node = Node::ready(plain(&[server.address()])).await;
    assert_eq!(node.write("a", "1", 0).await, Outcome::Accepted(1));
    let stranger = stranger(&server).await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    stranger
        .publish_with_headers("$KV.DIOLKOS_test.a", headers, "".into())
        .await
        .unwrap();
    let removed = Event::Entry {
        key: "a".into(),
        value: None,
        revision: 2,
    };
    node.until(|event| (*event == removed).then_some(())).await;
    assert_eq!(node.write("a", "2", 0).await, Outcome::Refused);
    assert_eq!(node.write("a", "2", 2).await, Outcome::Accepted(3));
    // Both readers lose their consumers, and go on without a gap.
    let context = jetstream::new(stranger);
    for name in ["KV_DIOLKOS_test", "DIOLKOS_test_BINDINGS"] {
        let stream = context.get_stream(name).await.unwrap();
        let mut names = stream.consumer_names();
        let mut consumers = Vec::new();
        while let Some(consumer) = futures_util::StreamExt::next(&mut names).await {
            consumers.push(consumer.unwrap());
        }
        assert_eq!(consumers.len(), 1);
        stream.delete_consumer(&consumers[0]).await.unwrap();
    }
    assert_eq!(node.publish("1", "after").await, Outcome::Accepted(1));
    node.hears("after").await;
    assert_eq!(node.write("b", "3", 0).await, Outcome::Accepted(4));
    if !node.entries().contains(&("b".into(), "3".into(), 4)) {
        node.until(|event| matches!(event, Event::Entry { revision: 4, .. }).then_some(()))
            .await;
    }
    assert!(
        !node
            .told
            .iter()
            .any(|event| matches!(event, Event::Lost(_))),
        "{:?}",
        node.told
    );
}

#[tokio::test]
async fn a_stream_of_that_name_with_other_subjects_is_not_used() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let server = Server::start(&folder, "s", "");
    let context = jetstream::new(stranger(&server).await);
    let config = stream::Config {
        name: "DIOLKOS_test_BINDINGS".into(),
        subjects: vec!["something.else".into()],
        ..stream::Config::default()
    };
    while context.create_stream(config.clone()).await.is_err() {}
    let mut node = Node::start(plain(&[server.address()]));
    let expected = format!(
        "{} has a stream DIOLKOS_test_BINDINGS with other subjects; it was not made by diolkos",
        server.address()
    );
    assert_eq!(node.lost().await, expected);
}

#[tokio::test]
async fn a_server_without_jetstream_and_something_else_are_told() {
    if !installed() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"220 mail.example ESMTP\r\n").unwrap();
    });
    let mut node = Node::start(plain(std::slice::from_ref(&address)));
    let sentence = node.lost().await;
    assert!(sentence.starts_with(&format!("{address} ")), "{sentence}");
    assert!(sentence.contains("220 mail.example"), "{sentence}");
    thread.join().unwrap();
}

#[tokio::test]
async fn the_thread_ends_with_the_client() {
    let (client, mut events) = Client::start(plain(&["127.0.0.1:1".into()])).unwrap();
    drop(client);
    while let Some(event) = events.recv().await {
        assert!(matches!(event, Event::Lost(_)), "{event:?}");
    }
}
