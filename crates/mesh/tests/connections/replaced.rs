// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection for each pair, however often nodes start.

use std::io::Write;
use std::net::IpAddr;

use diolkos_node::NodeId;

use crate::certificates::Authority;
use crate::gateway::{at, network, settings, Gateway};
use crate::raw::{frame, is_ended, join, read, tcp, How};

#[test]
fn the_newest_connection_counts() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let mut gateway = Gateway::start(&settings, 1, &authority.gateway(1));
    let files = authority.gateway(0);
    let open = || join(&files, address(0), at(&settings, 1), 1);
    // The first one sends nothing more, as after a power failure.
    let mut first = open();
    let one = gateway.connected(0);
    let mut second = open();
    let two = gateway.follows(0, one);
    assert!(is_ended(&mut first));
    second.write_all(&frame(b"hello")).expect("it is sent");
    assert_eq!(gateway.message(), (NodeId(0), two, b"hello".to_vec()));
    // Nothing is sent to the old one any more.
    gateway.mesh.send(NodeId(0), one, b"old".to_vec());
    gateway.mesh.send(NodeId(0), two, b"new".to_vec());
    assert_eq!(read(&mut second), b"new");
    gateway.mesh.close(NodeId(0), two);
    assert!(is_ended(&mut second));
}

#[test]
fn one_that_connects_without_end_makes_few_events() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let mut gateway = Gateway::start(&settings, 1, &authority.gateway(1));
    let files = authority.gateway(0);
    // The worker is stopped.
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = How::good(&files).client(tcp(address(0), at(&settings, 1)), 1);
        let _ = client.flush();
        while client.conn.is_handshaking() {
            client
                .conn
                .complete_io(&mut client.sock)
                .expect("a handshake");
        }
        clients.push(client);
    }
    // Two of them may wait for the worker to handle their ends; only the newest is kept beside them.
    assert!(clients[2..39].iter_mut().all(is_ended));
    let waiting: Vec<_> = gateway.events.try_iter().collect();
    assert!(waiting.len() <= 4, "{waiting:?}");
    for event in waiting {
        gateway.mesh.note(event, |_| {});
    }
    // It handles events again, and a connection counts.
    let to = at(&settings, 1);
    let last = std::thread::spawn(move || {
        let mut last = join(&files, address(0), to, 1);
        last.write_all(&frame(b"hello")).expect("it is sent");
        last
    });
    assert_eq!(gateway.message().2, b"hello");
    last.join().expect("it was let in");
}

fn restarts(addresses: &[IpAddr], who: u8) {
    let authority = Authority::new();
    let settings = settings(addresses);
    let files = [authority.gateway(0), authority.gateway(1)];
    let start = |number: u8| Gateway::start(&settings, number, &files[usize::from(number)]);
    let stays = 1 - who;
    let (mut other, mut gateway) = (Some(start(who)), start(stays));
    let mut before = gateway.connected(who);
    for _ in 0..3 {
        drop(other.take());
        let mut restarted = start(who);
        before = gateway.follows(who, before);
        let there = restarted.connected(stays);
        gateway.mesh.send(NodeId(who), before, b"again".to_vec());
        assert_eq!(
            restarted.message(),
            (NodeId(stays), there, b"again".to_vec())
        );
        // Its node ends the connection, and gets another one.
        restarted.mesh.close(NodeId(stays), there);
        before = gateway.follows(who, before);
        restarted.follows(stays, there);
        other = Some(restarted);
    }
}

#[test]
fn a_node_that_dials_comes_back() {
    let address = network();
    restarts(&[address(0), address(1)], 0);
}

#[test]
fn a_node_that_is_dialled_comes_back() {
    let address = network();
    restarts(&[address(0), address(1)], 1);
}

#[test]
fn ipv6_serves_as_well() {
    let address: IpAddr = "::1".parse().expect("an address");
    restarts(&[address, address], 1);
}

#[test]
fn a_node_that_starts_does_not_wait_for_the_patience_of_others() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let files = [authority.gateway(0), authority.gateway(1)];
    let mut gateway = Gateway::start(&settings, 0, &files[0]);
    // It tries once a second by now.
    assert_eq!(gateway.next_within(std::time::Duration::from_secs(2)), None);
    let mut other = Gateway::start(&settings, 1, &files[1]);
    other.connected(0);
    gateway.connected(1);
    let knocks = gateway.mesh.refused(diolkos_mesh::Refusal::Broken);
    assert_eq!(knocks, 0);
}
