// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Three servers that keep everything three times.

use std::time::Duration;

use async_nats::jetstream;
use diolkos_engine::{Event, Outcome, Settings};

use crate::node::{plain, Node};
use crate::server::{free_port, installed, Folder, Server};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

fn three(folder: &Folder) -> Vec<Server> {
    let routes: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let all: Vec<String> = routes
        .iter()
        .map(|port| format!("nats://127.0.0.1:{port}"))
        .collect();
    let start = |(number, port): (usize, &u16)| {
        let more = format!(
            "cluster {{ name: three, listen: 127.0.0.1:{port}, routes: [{}] }}",
            all.join(", ")
        );
        Server::start(folder, &format!("s{number}"), &more)
    };
    routes.iter().enumerate().map(start).collect()
}

/// The number of the server that leads the bucket.
async fn leader(servers: &[Server]) -> usize {
    let client = async_nats::connect(servers[0].address()).await.unwrap();
    let stream = jetstream::new(client)
        .get_stream("KV_DIOLKOS_test")
        .await
        .unwrap();
    let leader = stream
        .cached_info()
        .cluster
        .as_ref()
        .unwrap()
        .leader
        .as_ref()
        .unwrap();
    leader.strip_prefix('s').unwrap().parse().unwrap()
}

/// Writes until it is accepted, as a caller would: the entry that was told last has the revision.
async fn write(node: &mut Node, key: &str, value: &str) -> u64 {
    loop {
        let entries = node.entries();
        let newest = entries
            .iter()
            .filter(|(of, _, _)| of == key)
            .map(|(_, _, revision)| *revision)
            .max();
        match node.write(key, value, newest.unwrap_or(0)).await {
            Outcome::Accepted(revision) => return revision,
            // What failed may have been stored. Then the entry comes.
            Outcome::Refused => _ = node.next().await,
            Outcome::Failed(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

#[tokio::test]
async fn writes_go_on_after_the_leader_was_killed() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let mut servers = three(&folder);
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let settings = || Settings {
        replicas: 3,
        ..plain(&addresses)
    };
    let mut node = Node::ready(settings()).await;
    let before = write(&mut node, "a", "1").await;
    assert!(matches!(
        node.publish("1", "before").await,
        Outcome::Accepted(1)
    ));
    node.hears("before").await;
    let leader = leader(&servers).await;
    servers[leader].kill();
    let after = write(&mut node, "a", "2").await;
    assert!(after > before);
    while !matches!(node.publish("1", "after").await, Outcome::Accepted(_)) {
        tokio::time::sleep(PAUSE).await;
    }
    node.hears("after").await;
    // Nothing was lost, and nothing is new: the other two had it all.
    assert!(
        !node
            .told
            .iter()
            .any(|event| matches!(event, Event::Reset(_))),
        "{:?}",
        node.told
    );
    let texts: Vec<String> = node.messages().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts.first().map(String::as_str), Some("before"));
    let late = Node::ready(settings()).await;
    assert_eq!(
        late.entries().last(),
        Some(&("a".into(), "2".into(), after))
    );
}
