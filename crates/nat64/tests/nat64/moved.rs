// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An address becomes another one beyond the router: what belongs to it ends, and nothing else does.

use crate::harness::*;
use diolkos_nat64::config::{Binding, Endpoint6, Protocol};
use diolkos_nat64::session::{Event, Origin, Segment};
use std::collections::HashSet;

const UDP: Protocol = Protocol::Udp;
const PEER: &str = "192.0.2.1:53";

fn node(host: u16, port: u16) -> Endpoint6 {
    Endpoint6 {
        addr: format!("2001:db8::{host:x}").parse().unwrap(),
        port,
    }
}

#[test]
fn what_belongs_to_the_address_ends_and_static_bindings_begin_again() {
    let mut config = config();
    let mut other = config.pool4[0].clone();
    other.net = "203.0.113.2/32".parse().unwrap();
    config.pool4.push(other);
    let static_binding = Binding {
        protocol: UDP,
        v4: e4("203.0.113.1:40443"),
        v6: node(1, 443),
    };
    config.bindings = vec![static_binding];
    let mut tables = Tables::new(&config);
    let operators = Binding {
        v4: e4("203.0.113.1:40444"),
        v6: node(2, 443),
        ..static_binding
    };
    tables.state.bind(operators, &mut tables.watch).unwrap();
    for host in 1..200 {
        for port in [443, 4711] {
            tables
                .out(UDP, node(host, port), PEER, Segment::Other)
                .unwrap();
        }
    }
    let moved = "203.0.113.1".parse().unwrap();
    let before = tables.state.bindings().collect::<Vec<_>>();
    let is_of_it = |binding: &Binding| binding.v4.addr == moved;
    let stays: HashSet<Binding> = before
        .iter()
        .map(|view| view.binding)
        .filter(|binding| !is_of_it(binding))
        .collect();
    assert!(
        !stays.is_empty() && stays.len() < 300,
        "both addresses are in use"
    );
    let sessions = tables.state.counts().sessions;

    tables.watch.events.clear();
    let ended = tables.state.leave_address(moved, &mut tables.watch);
    assert_eq!(ended.again.len(), 2);
    for expected in [
        (static_binding, Origin::Configured),
        (operators, Origin::Operator),
    ] {
        assert!(ended.again.contains(&expected));
    }
    assert_eq!(ended.bindings as usize, before.len() - stays.len() - 2);
    assert_eq!(tables.state.counts().sessions, sessions - ended.sessions);
    let after: HashSet<Binding> = tables.state.bindings().map(|view| view.binding).collect();
    assert_eq!(after, stays);
    let closed = |event: &Event| match event {
        Event::SessionClosed(view) => is_of_it(&view.binding),
        Event::BindingClosed(binding) => is_of_it(binding),
        _ => false,
    };
    assert!(tables.watch.events.iter().all(closed));

    tables.state.bind_again(&ended.again, &mut tables.watch);
    let after: HashSet<Binding> = tables.state.bindings().map(|view| view.binding).collect();
    assert_eq!(after.len(), stays.len() + 2);
    assert!(after.contains(&static_binding) && after.contains(&operators));
    // A second end finds nothing of packets.
    let again = tables.state.leave_address(moved, &mut tables.watch);
    assert_eq!(
        (again.bindings, again.sessions, again.again.len()),
        (0, 0, 2)
    );
}
