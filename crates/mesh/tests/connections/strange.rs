// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node that violates the form of messages, does not read, or sends without end.

use std::io::Write;
use std::sync::mpsc::TryRecvError;

use diolkos_mesh::{Event, ROOM};
use diolkos_node::message::MAX_BYTES;
use diolkos_node::NodeId;

use crate::certificates::Authority;
use crate::gateway::{at, network, settings, Came, Gateway, LONG};
use crate::raw::{fill, frame, is_ended, join};

#[test]
fn lengths_that_are_not_allowed_end_the_connection() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let (own, files) = (authority.gateway(1), authority.gateway(0));
    let mut gateway = Gateway::start(&settings, 1, &own);
    let longest = vec![9; MAX_BYTES];
    for strange in [
        frame(&[]),
        frame(&[0; MAX_BYTES + 1]),
        vec![0xff; 100],
        b"\0\0\0\x05half".to_vec(),
    ] {
        let mut client = join(&files, address(0), at(&settings, 1), 1);
        let connection = gateway.connected(0);
        client.write_all(&frame(&longest)).expect("it is sent");
        client.write_all(&strange).expect("it is sent");
        if strange.ends_with(b"half") {
            drop(client);
        } else {
            assert!(is_ended(&mut client));
        }
        let message = (NodeId(0), connection, longest.clone());
        assert_eq!(gateway.message(), message);
        assert_eq!(gateway.next(), Came::Lost(NodeId(0), connection));
    }
}

#[test]
fn a_node_that_does_not_read_gets_no_more_than_the_room() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let mut gateway = Gateway::start(&settings, 1, &authority.gateway(1));
    let files = authority.gateway(0);
    let _silent = join(&files, address(0), at(&settings, 1), 1);
    let (peer, connection) = (NodeId(0), gateway.connected(0));
    // The kernel takes some; then no progress is made. What this node sends is bounded by the room that it knows.
    let (mut room, mut sent, mut least) = (ROOM, 0_usize, ROOM);
    loop {
        while room >= MAX_BYTES {
            gateway.mesh.send(peer, connection, vec![1; MAX_BYTES]);
            (room, sent) = (room - MAX_BYTES, sent + MAX_BYTES);
        }
        least = least.min(room);
        match gateway.next_within(LONG).expect("room, or the end") {
            Came::Room(_, _, now) => {
                assert!(now >= room, "{now} after {room}");
                room = now;
            }
            came => {
                assert_eq!(came, Came::Lost(peer, connection));
                break;
            }
        }
    }
    assert!(least < MAX_BYTES && sent > ROOM);
}

#[test]
fn whoever_sends_more_than_the_room_loses_the_connection() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let mut gateway = Gateway::start(&settings, 1, &authority.gateway(1));
    let files = authority.gateway(0);
    let send = [
        (ROOM / MAX_BYTES + 200, MAX_BYTES),
        (1, MAX_BYTES + 1),
        (1, 0),
    ];
    for (times, length) in send {
        let mut client = join(&files, address(0), at(&settings, 1), 1);
        let connection = gateway.connected(0);
        // The room is not updated: what the thread sends meanwhile is far less.
        for _ in 0..times {
            gateway.mesh.send(NodeId(0), connection, vec![1; length]);
        }
        // At once: otherwise its reader would get all of it.
        assert!(is_ended(&mut client));
        assert_eq!(gateway.lost(), (NodeId(0), connection));
    }
}

#[test]
fn one_that_floods_waits_and_the_others_do_not() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1), address(2)]);
    let mut gateway = Gateway::start(&settings, 2, &authority.gateway(2));
    let (loud, quiet) = (authority.gateway(0), authority.gateway(1));
    let to = at(&settings, 2);
    let mut loud = join(&loud, address(0), to, 2);
    let mut quiet = join(&quiet, address(1), to, 2);
    // No events are handled: it can send what the kernel and the credit take.
    let taken = fill(&mut loud, &frame(&[7; 100]).repeat(100));
    assert!(taken < 64 << 20, "{taken}");
    quiet.write_all(&frame(b"here")).expect("it is sent");
    let (mut flood, mut has_come) = (0, false);
    while !has_come {
        match gateway.events.recv_timeout(LONG).expect("an event") {
            // Neither is given back.
            event @ Event::Message { .. } => {
                if let Event::Message {
                    peer: NodeId(1),
                    bytes,
                    ..
                } = &event
                {
                    has_come = &**bytes == b"here";
                } else {
                    flood += 1;
                }
                std::mem::forget(event);
            }
            event => gateway.mesh.note(event, |_| {}),
        }
    }
    assert!((1..=256).contains(&flood), "{flood}");
    assert!(matches!(
        gateway.events.try_recv(),
        Err(TryRecvError::Empty)
    ));
}
