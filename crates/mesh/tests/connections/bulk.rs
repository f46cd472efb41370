// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many messages in both directions, as fast as there is room.

use diolkos_node::message::MAX_BYTES;
use diolkos_node::NodeId;

use crate::certificates::Authority;
use crate::gateway::{network, settings, Came, Gateway, LONG};

const MESSAGES: usize = 3000;

/// Returns the message with a number, which determines its bytes and length.
fn message(number: usize) -> Vec<u8> {
    vec![number as u8; 1 + number * number % MAX_BYTES]
}

fn exchange(mut gateway: Gateway, with: u8) {
    let (peer, connection) = (NodeId(with), gateway.connected(with));
    let (mut room, mut sent, mut heard) = (diolkos_mesh::ROOM, 0, 0);
    while sent < MESSAGES || heard < MESSAGES {
        while sent < MESSAGES && message(sent).len() <= room {
            room -= message(sent).len();
            gateway.mesh.send(peer, connection, message(sent));
            sent += 1;
        }
        match gateway.next_within(LONG).expect("an event") {
            Came::Room(_, _, now) => {
                assert!(now >= room);
                room = now;
            }
            Came::Message(from, on, bytes) => {
                assert_eq!((from, on), (peer, connection));
                assert!(bytes == message(heard), "{heard}");
                heard += 1;
            }
            came => panic!("{came:?}"),
        }
    }
    // The other one may still have to read.
    while room < diolkos_mesh::ROOM {
        match gateway.next_within(LONG) {
            Some(Came::Room(_, _, now)) => room = now,
            _ => break,
        }
    }
}

#[test]
fn all_messages_come_in_their_order() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1)]);
    let one = Gateway::start(&settings, 0, &authority.gateway(0));
    let other = Gateway::start(&settings, 1, &authority.gateway(1));
    let far = std::thread::spawn(move || exchange(other, 0));
    exchange(one, 1);
    far.join().expect("it got all");
}
