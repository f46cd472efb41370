// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine's name: when it changes, and when it does not.

use diolkos_etcd::{inspect, reset};
use diolkos_node::record::{Outcome, Request};
use diolkos_node::NodeId;

use crate::member::{installed, Folder, Member};
use crate::node::{plain, Node};

/// etcd's default token.
const TOKEN: &str = "etcd-cluster";

/// Returns etcd's cluster ID.
fn cluster_id(member: &Member) -> String {
    let text = member.ctl(&["endpoint", "status", "-w", "json"]);
    let from = text.split("\"cluster_id\":").nth(1).unwrap();
    from.split(',').next().unwrap().to_owned()
}

#[test]
fn records_and_the_name_survive_a_restart() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let mut member = Member::alone(&folder, &[]);
    let mut node = Node::start(plain(&[&member.address]));
    let empty = node.read();
    assert_eq!(empty.outcome, Outcome::Value(None));
    let written = node.store(b"one");
    let Outcome::Written(revision) = written.outcome else {
        panic!("{written:?}");
    };
    assert_eq!(node.write(0, b"two").unwrap().outcome, Outcome::Refused);
    assert_eq!(
        node.write(revision + 1, b"two").unwrap().outcome,
        Outcome::Refused
    );
    member.kill();
    member.start();
    let read = node.read();
    assert_eq!(
        read.outcome,
        Outcome::Value(Some((revision, b"one".into())))
    );
    assert_eq!([empty.engine, written.engine], [read.engine; 2]);
    // Reads change nothing.
    assert_eq!(node.read().revision, revision);
    assert_eq!(
        node.insist(Request::Read(NodeId(1))).outcome,
        Outcome::Value(None)
    );
    // Another node knows it by the same name.
    assert_eq!(
        Node::start(plain(&[&member.address])).read().engine,
        read.engine
    );
}

#[test]
fn a_wiped_engine_has_another_name_though_its_cluster_id_is_the_same() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let mut member = Member::alone(&folder, &[]);
    let mut node = Node::start(plain(&[&member.address]));
    let before = node.store(b"one");
    let id = cluster_id(&member);
    member.wipe();
    member.start();
    // A write that was meant for the old engine does not happen, even if the record does not exist
    // in the new one.
    let other = Node::start(plain(&[&member.address])).read();
    assert_eq!(cluster_id(&member), id);
    assert_ne!(other.engine, before.engine);
    let mut late = None;
    crate::member::until("an answer", || {
        late = node.write(0, b"two");
        late.is_some()
    });
    let late = late.unwrap();
    assert_eq!(
        (late.engine, late.outcome),
        (other.engine, Outcome::Refused)
    );
    assert_eq!(node.read().outcome, Outcome::Value(None));
}

#[test]
fn a_restored_engine_has_another_name_if_a_node_sees_that_it_went_back() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let mut member = Member::alone(&folder, &[]);
    let mut node = Node::start(plain(&[&member.address]));
    let before = node.store(b"one");
    let snapshot = folder.path("snapshot").display().to_string();
    member.ctl(&["snapshot", "save", &snapshot]);
    node.store(b"two");
    let id = cluster_id(&member);

    member.restore(&snapshot, TOKEN);
    let after = node.read();
    assert_eq!(cluster_id(&member), id);
    assert_ne!(after.engine, before.engine);
    assert!(node
        .status()
        .reason
        .unwrap()
        .contains("went back to revision"));
    let Outcome::Value(Some((_, bytes))) = after.outcome else {
        panic!("{after:?}");
    };
    assert_eq!(bytes, b"one");
    // All nodes see the new name.
    assert_eq!(
        Node::start(plain(&[&member.address])).read().engine,
        after.engine
    );
}

#[test]
fn a_restore_that_no_node_can_see_needs_another_token() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let mut member = Member::alone(&folder, &[]);
    let mut node = Node::start(plain(&[&member.address]));
    let before = node.store(b"one");
    let snapshot = folder.path("snapshot").display().to_string();
    member.ctl(&["snapshot", "save", &snapshot]);
    node.store(b"two");

    // Written to until the revision is as before: the documentation says that this is not detected.
    member.restore(&snapshot, TOKEN);
    crate::member::until("a write", || {
        let put = member.command(&["put", "other", "x"]).output().unwrap();
        put.status.success()
    });
    assert_eq!(node.read().engine, before.engine);

    // With another token, even a node that has seen nothing before does not take it for the old one.
    member.restore(&snapshot, "another");
    let after = Node::start(plain(&[&member.address])).read();
    assert_ne!(after.engine, before.engine);
    assert_eq!(node.read().engine, after.engine);
    let id = cluster_id(&member);

    // The documentation's advice for a cluster that was already restored.
    member.ctl(&["del", "/diolkos/c1/engine"]);
    assert_ne!(node.read().engine, after.engine);
    assert_eq!(cluster_id(&member), id);
}

#[test]
fn data_is_inspected_and_reset_whatever_its_format() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let member = Member::alone(&folder, &[]);
    let settings = plain(&[&member.address]);
    let mut node = Node::start(settings.clone());
    let before = node.store(b"one");
    member.ctl(&["put", "/diolkos/c11/engine", "of another cluster"]);
    let found = inspect(&settings).unwrap();
    assert!(found.version.starts_with("3."), "{found:?}");
    assert_eq!(found.name.unwrap().len(), 16);
    let [(key, revision, value)] = &found.entries[..] else {
        panic!("{:?}", found.entries);
    };
    assert_eq!(
        (&**key, &**value),
        ("/diolkos/c1/node/gw-a/record", &b"one"[..])
    );
    assert_eq!(Outcome::Written(*revision), before.outcome);

    member.ctl(&["put", "/diolkos/c1/engine", "diolkos 2 of tomorrow"]);
    let newer = "the engine's data is of format 2, this program has 1";
    assert_eq!(node.reason(), newer);
    assert_eq!(node.write(1, b"two"), None);
    assert_eq!(inspect(&settings).unwrap().name.unwrap_err(), newer);
    assert_eq!(reset(&settings), Ok(2));
    let after = node.read();
    assert_ne!(after.engine, before.engine);
    assert_eq!(after.outcome, Outcome::Value(None));
    let other = member.ctl(&["get", "/diolkos/c11/engine", "--print-value-only"]);
    assert_eq!(other.trim(), "of another cluster");
}
