// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many connections that never complete their handshakes.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;

use diolkos_mesh::Refusal;

use crate::certificates::Authority;
use crate::gateway::{at, network, settings, Gateway};
use crate::raw::{frame, join, tcp};

/// Begins a handshake, and sends nothing more.
fn stalls(from: std::net::IpAddr, to: std::net::SocketAddr) -> TcpStream {
    let mut stream = tcp(from, to);
    // The head of a record. A connection that is closed at once cannot even send this.
    let _ = stream.write_all(&[22, 3, 1, 2, 0]);
    stream
}

#[test]
fn a_thousand_slow_handshakes_do_not_keep_a_node_out() {
    let (authority, address) = (Authority::new(), network());
    let settings = settings(&[address(0), address(1), address(2)]);
    let to = at(&settings, 2);
    let mut gateway = Gateway::start(&settings, 2, &authority.gateway(2));
    let nodes = [authority.gateway(0), authority.gateway(1)];
    let mut open = VecDeque::new();
    // From an address that is not a node's, from that of a node that is not connected, and from that of the node
    // that connects.
    for from in [9, 0, 1] {
        for _ in 0..1000 {
            open.push_back(stalls(address(from), to));
            if open.len() > 500 {
                open.pop_front();
            }
        }
        let mut client = join(&nodes[1], address(1), to, 2);
        gateway.connected(1);
        client.write_all(&frame(&[from])).expect("it is sent");
        assert_eq!(gateway.message().2, [from]);
    }
    assert_eq!(gateway.mesh.refused(Refusal::Stranger), 1000);
    assert!(gateway.mesh.refused(Refusal::Crowded) >= 1000);
    // The time of the others is over.
    let mut client = join(&nodes[0], address(0), to, 2);
    gateway.connected(0);
    client.write_all(&frame(b"x")).expect("it is sent");
    assert_eq!(gateway.message().2, b"x");
}
