// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS with certificates of both sides, users, and the sentence for each way in which they do not fit.

use diolkos_engine::{Identity, Login, Outcome, Settings, Tls};

use crate::certificates::{authority, issue, Pair};
use crate::node::{patient, plain, Node};
use crate::server::{installed, Folder, Server};

/// A server that wants certificates, and what a node of its cluster has.
struct World {
    folder: Folder,
    ca: Pair,
    node: Pair,
    server: Server,
}

/// `name` is what the server's certificate is for.
fn world(name: &str, more: &str) -> World {
    let folder = Folder::new();
    let ca = authority(&folder, "ca");
    let own = issue(&folder, &ca, "server", name);
    let node = issue(&folder, &ca, "node", "DNS:node");
    let tls = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n{more}",
        own.certificate.display(),
        own.key.display(),
        ca.certificate.display()
    );
    let server = Server::start(&folder, "s", &tls);
    World {
        folder,
        ca,
        node,
        server,
    }
}

fn settings(server: &Server, ca: &Pair, node: Option<&Pair>) -> Settings {
    let identity = node.map(|pair| Identity {
        certificate: pair.certificate.clone(),
        key: pair.key.clone(),
    });
    let tls = Some(Tls {
        ca: ca.certificate.clone(),
        identity,
    });
    Settings {
        tls,
        ..patient(&[server.address()])
    }
}

/// What is said when the server does not let the node in.
async fn refusal(settings: Settings) -> String {
    Node::start(settings).lost().await
}

#[tokio::test]
async fn a_node_with_a_certificate_is_let_in() {
    if !installed() {
        return;
    }
    let world = world("IP:127.0.0.1", "");
    let mut node = Node::ready(settings(&world.server, &world.ca, Some(&world.node))).await;
    assert_eq!(node.write("a", "1", 0).await, Outcome::Accepted(1));
}

#[tokio::test]
async fn another_authority_is_told() {
    if !installed() {
        return;
    }
    let world = world("IP:127.0.0.1", "");
    let other = authority(&world.folder, "other");
    let expected = format!(
        "{} shows a certificate that no authority in {} has issued",
        world.server.address(),
        other.certificate.display()
    );
    assert_eq!(
        refusal(settings(&world.server, &other, Some(&world.node))).await,
        expected
    );
}

#[tokio::test]
async fn a_certificate_for_another_name_is_told() {
    if !installed() {
        return;
    }
    let world = world("DNS:elsewhere.example", "");
    let expected = format!(
        "{} shows a certificate for another name",
        world.server.address()
    );
    assert_eq!(
        refusal(settings(&world.server, &world.ca, Some(&world.node))).await,
        expected
    );
}

#[tokio::test]
async fn a_node_without_a_certificate_is_told() {
    if !installed() {
        return;
    }
    let world = world("IP:127.0.0.1", "");
    let sentence = refusal(settings(&world.server, &world.ca, None)).await;
    assert!(sentence.starts_with(&world.server.address()), "{sentence}");
    assert!(
        sentence.ends_with("wants a certificate of this node, and none is set"),
        "{sentence}"
    );
}

#[tokio::test]
async fn a_certificate_that_the_server_refuses_is_told() {
    if !installed() {
        return;
    }
    let world = world("IP:127.0.0.1", "");
    let other = authority(&world.folder, "other");
    let forged = issue(&world.folder, &other, "forged", "DNS:node");
    let sentence = refusal(settings(&world.server, &world.ca, Some(&forged))).await;
    let end = format!(
        "refuses this node's certificate {}",
        forged.certificate.display()
    );
    assert!(
        sentence.starts_with(&world.server.address()) && sentence.ends_with(&end),
        "{sentence}"
    );
}

#[tokio::test]
async fn a_wrong_password_is_told() {
    if !installed() {
        return;
    }
    let users = "authorization { users: [ { user: gate, password: right } ] }";
    let world = world("IP:127.0.0.1", users);
    let with = |password: &str| {
        let login = Some(Login {
            user: "gate".into(),
            password: password.into(),
        });
        Settings {
            login,
            ..settings(&world.server, &world.ca, Some(&world.node))
        }
    };
    let address = world.server.address();
    let expected = format!("{address} refuses user \"gate\": unknown, or the password is wrong");
    assert_eq!(refusal(with("wrong")).await, expected);
    let expected = format!("{address} wants a user and a password, or another certificate");
    assert_eq!(
        refusal(settings(&world.server, &world.ca, Some(&world.node))).await,
        expected
    );
    let mut node = Node::ready(with("right")).await;
    assert_eq!(node.write("a", "1", 0).await, Outcome::Accepted(1));
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    if !installed() {
        return;
    }
    let users = r#"authorization { users: [ { user: gate, password: right,
        permissions: { publish: ["$JS.API.>"], subscribe: [">"] } } ] }"#;
    let world = world("IP:127.0.0.1", users);
    let login = Some(Login {
        user: "gate".into(),
        password: "right".into(),
    });
    let mut node = Node::ready(Settings {
        login,
        ..settings(&world.server, &world.ca, Some(&world.node))
    })
    .await;
    assert!(matches!(node.write("a", "1", 0).await, Outcome::Failed(_)));
    let sentence = node.lost().await;
    assert!(
        sentence.contains(r#"Permissions Violation for Publish to "$KV.DIOLKOS_test.a""#),
        "{sentence}"
    );
}

#[tokio::test]
async fn encryption_on_one_side_only_is_told() {
    if !installed() {
        return;
    }
    let world = world("IP:127.0.0.1", "");
    let expected = format!(
        "{} wants TLS, but the settings say plaintext",
        world.server.address()
    );
    assert_eq!(refusal(plain(&[world.server.address()])).await, expected);
    let open = Server::start(&world.folder, "open", "");
    let expected = format!("{} does not speak TLS", open.address());
    assert_eq!(
        refusal(settings(&open, &world.ca, Some(&world.node))).await,
        expected
    );
}

#[tokio::test]
async fn a_file_that_is_missing_is_named() {
    if !installed() {
        return;
    }
    let world = world("IP:127.0.0.1", "");
    std::fs::remove_file(&world.node.key).unwrap();
    let sentence = refusal(settings(&world.server, &world.ca, Some(&world.node))).await;
    let start = format!("{} cannot be read: ", world.node.key.display());
    assert!(sentence.starts_with(&start), "{sentence}");
}
