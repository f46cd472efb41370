// SPDX-License-Identifier: Apache-2.0 OR MIT
//! etcd's users and roles, according to docs/engine.md: a node can write only its own record.

use diolkos_etcd::{Login, Settings};
use diolkos_node::record::{Outcome, Request};
use diolkos_node::NodeId;

use crate::member::{installed, until, Folder, Member};
use crate::node::{plain, Node};

fn as_root(member: &Member, words: &[&str]) -> String {
    member.ctl(&[&["--user", "root:password of root"], words].concat())
}

/// Returns the commands of the documentation.
fn commands() -> Vec<String> {
    let page = include_str!("../../../../docs/engine.md");
    let block = page.split("<!-- users -->").nth(1).unwrap();
    let block = block.split("```").nth(1).unwrap().trim();
    block
        .lines()
        .map(|line| line.trim().replace("etcdctl ", ""))
        .collect()
}

fn settings(member: &Member, me: u8, user: &str) -> Settings {
    let login = Login {
        user: user.into(),
        password: format!("password of {user}"),
    };
    Settings {
        me: NodeId(me),
        login: Some(login),
        ..plain(&[&member.address])
    }
}

fn with_users(folder: &Folder) -> Member {
    let member = Member::alone(folder, &["--bcrypt-cost=4"]);
    until("a member", || {
        member
            .command(&["endpoint", "health"])
            .output()
            .unwrap()
            .status
            .success()
    });
    for command in commands() {
        let mut words: Vec<&str> = command.split(' ').collect();
        let with_password;
        if words[..2] == ["user", "add"] {
            with_password = format!("{0}:password of {0}", words[2]);
            words[2] = &with_password;
        }
        member.ctl(&words);
    }
    member
}

#[test]
fn a_node_cannot_write_the_record_of_another_one() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let member = with_users(&folder);
    let mut a = Node::start(settings(&member, 0, "gw-a"));
    let mut b = Node::start(settings(&member, 1, "gw-b"));
    let written = b.store(b"of b");
    let Outcome::Written(revision) = written.outcome else {
        panic!("{written:?}");
    };
    a.store(b"of a");
    let of_b = Outcome::Value(Some((revision, b"of b".into())));
    assert_eq!(a.insist(Request::Read(NodeId(1))).outcome, of_b);

    // The user of one node, the name of another: it cannot even read as that node, since reads go through the log.
    let mut liar = Node::start(settings(&member, 1, "gw-a"));
    let reason = liar.reason();
    assert!(
        reason.contains("refuses the user \"gw-a\" (") && reason.contains("permission denied"),
        "{reason}"
    );
    assert_eq!(liar.write(revision, b"of a"), None);
    for node in ["gw-b/record", "gw-ab/record", "gw-c/record"] {
        let key = format!("/diolkos/c1/node/{node}");
        let put = ["--user", "gw-a:password of gw-a", "put", &key, "x"];
        let put = member.command(&put).output().unwrap();
        assert!(!put.status.success(), "{key}");
        assert!(String::from_utf8_lossy(&put.stderr).contains("permission denied"));
    }
    assert_eq!(a.insist(Request::Read(NodeId(1))).outcome, of_b);
}

#[test]
fn who_is_no_user_is_told_so() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let member = with_users(&folder);
    let mut nobody = Node::start(plain(&[&member.address]));
    assert!(
        nobody.reason().contains("user name is empty"),
        "{:?}",
        nobody.status()
    );
    let mut stranger = Node::start(settings(&member, 0, "gw-x"));
    let reason = stranger.reason();
    assert!(reason.contains("authentication failed"), "{reason}");
    assert!(!reason.contains("password of"), "{reason}");
}

#[test]
fn a_token_that_is_no_longer_valid_is_renewed() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let member = with_users(&folder);
    let mut node = Node::start(settings(&member, 0, "gw-a"));
    node.store(b"one");
    let failures = node.status().failures;
    // All tokens are lost.
    as_root(&member, &["auth", "disable"]);
    member.ctl(&["auth", "enable"]);
    node.store(b"two");
    assert!(node.status().failures > failures);
}

#[test]
fn an_engine_that_went_back_does_not_count_until_somebody_names_it() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let mut member = with_users(&folder);
    let mut node = Node::start(settings(&member, 0, "gw-a"));
    let before = node.store(b"one");
    let permission = [
        "role",
        "grant-permission",
        "diolkos",
        "read",
        "/diolkos/c1/engine",
    ];
    as_root(&member, &permission);
    let snapshot = folder.path("snapshot").display().to_string();
    as_root(&member, &["snapshot", "save", &snapshot]);
    node.store(b"two");
    member.restore(&snapshot, "etcd-cluster");
    until("an engine that went back", || {
        assert_eq!(node.ask(Request::Read(NodeId(0))), None);
        let reason = node.status().reason.unwrap();
        reason.contains("went back to revision") && reason.contains("permission denied")
    });
    // Its revision grows, and it is refused nevertheless.
    for _ in 0..5 {
        as_root(&member, &["put", "other", "x"]);
    }
    assert!(node.reason().contains("went back"));
    let name = "diolkos 1 0123456789abcdef";
    as_root(&member, &["put", "/diolkos/c1/engine", name]);
    assert_ne!(node.read().engine, before.engine);
}
