// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Members without room.

use std::fs::{self, File};
use std::io::Write;

use diolkos_node::record::{Outcome, Request};

use crate::cluster::is_root;
use crate::member::{free_port, installed, until, urls, Folder, Member};
use crate::node::{plain, Node};

#[test]
fn a_full_store_is_read_and_refuses_writes_without_an_answer() {
    if !installed() {
        return;
    }
    let folder = Folder::new();
    let member = Member::alone(&folder, &["--quota-backend-bytes=100000"]);
    let mut node = Node::start(plain(&[&member.address]));
    let before = node.store(b"one");
    let big = "x".repeat(50_000);
    until("a store that is full", || {
        let put = member.command(&["put", "big", &big]).output().unwrap();
        String::from_utf8_lossy(&put.stderr).contains("database space exceeded")
    });
    let Outcome::Value(Some((revision, bytes))) = node.read().outcome else {
        panic!("no record");
    };
    assert_eq!(bytes, b"one");
    assert_eq!(node.write(revision, b"two"), None);
    let reason = node.status().reason.unwrap();
    assert!(reason.contains("space exceeded"), "{reason}");
    assert_eq!(node.read().engine, before.engine);
    assert_eq!(
        node.ask(Request::Read(node.me)).unwrap().outcome,
        Outcome::Value(Some((revision, bytes)))
    );
}

/// Returns true if `/` is a mount, which it is not in a chroot: a private mount needs that. Prints a message if not.
fn may_mount() -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_mount = mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == Some("/"));
    if !is_mount {
        eprintln!("SKIPPED: a mount cannot be made in a chroot");
    }
    is_mount
}

#[test]
fn a_full_disk_loses_no_record() {
    if !installed() || !is_root() || !may_mount() {
        return;
    }
    let folder = Folder::new();
    let disk = folder.path("disk").display().to_string();
    fs::create_dir(&disk).unwrap();
    let (client, peer) = (
        format!("127.0.0.1:{}", free_port()),
        format!("http://127.0.0.1:{}", free_port()),
    );
    let mut words = urls("m0", "http", &client, &peer);
    words.push(format!("--initial-cluster=m0={peer}"));
    // The mount is private, so it ends with the member. The log has two files of 64 MiB from the start. When the member
    // has ended, room is freed, and it is started again.
    let script = r#"mount -t tmpfs -o size=150m none "$0" && { "$@"; rm "$0/rest"; exec "$@"; }"#;
    let own = ["unshare", "--mount", "--pid", "--fork", "--kill-child"];
    let wrapper = [&own[..], &["sh", "-c", script, &disk]].concat();
    let mut member = Member::new(&folder, "m0", &client, words).behind(&wrapper);
    member.data = folder.path("disk").join("data");
    member.start();
    let mut node = Node::start(plain(&[&client]));
    node.store(b"one");
    let rest = format!("/proc/{}/root{disk}/rest", member.pid().as_raw_nonzero());
    let mut rest = File::create(rest).unwrap();
    let mut is_full = false;
    while !is_full {
        is_full = rest.write_all(&[1; 4096]).is_err();
    }
    drop(rest);
    // A write that was acknowledged is not lost; one without an answer may be.
    let (mut last, mut value) = (b"one".to_vec(), b"one".to_vec());
    let unanswered = node.status().unanswered;
    for number in 0..1_000_u32 {
        let Outcome::Value(Some((revision, bytes))) = node.read().outcome else {
            panic!("no record");
        };
        assert!(bytes == last || bytes == value);
        if node.status().unanswered > unanswered {
            return;
        }
        value = vec![0; 40_000];
        value[..4].copy_from_slice(&number.to_be_bytes());
        match node.write(revision, &value).map(|answer| answer.outcome) {
            Some(Outcome::Written(_)) => last.clone_from(&value),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
    panic!("the disk is not full");
}
