// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resting ports: only the same subscriber gets them before they are freed.

use crate::harness::*;
use diolkos_nat64::config::{
    Binding, Deterministic, Endpoint4, Endpoint6, Nat64Config, Owners, Pools, PortBlocks, Protocol,
};
use diolkos_nat64::pool::BlockCount;
use diolkos_nat64::session::{
    BindError, Event, Outbound, Segment, SessionState, SessionView, Watcher,
};
use diolkos_xlat::Reason;
use std::net::Ipv4Addr;
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
const PEER: &str = "192.0.2.1:53";
/// Number of ways in which [`second`] can allocate ports.
pub const KINDS: u8 = 6;

/// The second of three gateways. It has two addresses, and allocates their ports in one of several ways.
pub fn second(kind: u8) -> Nat64Config {
    let mut config = config();
    config.owners = Some(Owners {
        me: 1,
        addresses: vec![
            ("203.0.113.4/31".parse().unwrap(), 0),
            ("203.0.113.0/31".parse().unwrap(), 1),
            ("203.0.113.6/31".parse().unwrap(), 2),
        ],
        pools: Pools::default(),
    });
    config.pool4[0].net = "203.0.113.0/31".parse().unwrap();
    config.pool4[0].ports = 1024..=1151;
    let fixed = |overflow_share| {
        Some(Deterministic {
            sources: vec!["2001:db8::/62".parse().unwrap()],
            ports_per_source: Some(64),
            overflow_share,
        })
    };
    let blocks = |per_source| {
        Some(PortBlocks {
            ports: 64,
            per_source,
            source_prefix_len: 64,
        })
    };
    match kind {
        0 => {}
        1 => config.port_preservation = true,
        2 => config.blocks = blocks(2),
        3 => config.deterministic = fixed(0),
        4 => {
            config.pool4[0].ports = 1024..=1279;
            config.deterministic = fixed(50);
            config.blocks = blocks(1);
        }
        _ => config.bindings = vec![binding(UDP, "203.0.113.0:1030", host(3, 1, 1030))],
    }
    config.check().unwrap();
    config
}

pub fn host(subnet: u16, host: u16, port: u16) -> Endpoint6 {
    e6(&format!("2001:db8:0:{subnet:x}::{host:x}"), port)
}

pub fn v4_of(address: u8, port: u16) -> Endpoint4 {
    Endpoint4 {
        addr: Ipv4Addr::new(203, 0, 113, address),
        port,
    }
}

pub fn view(binding: Binding) -> SessionView {
    let (state, peer) = match binding.protocol {
        Protocol::Tcp => (SessionState::V6Init, PEER),
        Protocol::Udp => (SessionState::Udp, PEER),
        Protocol::Icmp => (SessionState::Icmp, "192.0.2.1:0"),
    };
    SessionView {
        binding,
        peer: e4(peer),
        prefix: 0,
        state,
        remaining: Duration::from_secs(60),
    }
}

pub fn out(
    r: &mut Router,
    protocol: Protocol,
    v6: Endpoint6,
    random: impl FnMut() -> u64,
    watch: &mut impl Watcher,
) -> Result<Endpoint4, Reason> {
    let is_icmp = protocol == Protocol::Icmp;
    let packet = Outbound {
        protocol,
        v6,
        peer: e4(if is_icmp { "192.0.2.1:0" } else { PEER }),
        prefix: 0,
        segment: match protocol {
            Protocol::Tcp => Segment::Syn,
            _ => Segment::Other,
        },
    };
    let now = r.now;
    r.nat64.state_mut().outbound(now, &packet, random, watch)
}

fn serving(kind: u8) -> Router {
    let mut r = Router::new(|config| *config = second(kind));
    r.nat64.state_mut().serve(true, &mut ());
    r
}

#[test]
fn bindings_of_the_operator_wait_until_it_serves_and_their_ports_have_rested() {
    let config = second(5);
    let [fixed] = config.bindings[..] else {
        panic!("there is one");
    };
    let mut r = Router::new(|other| *other = config.clone());
    let (now, state) = (r.now, r.nat64.state_mut());
    // Another gateway may still translate for another subscriber.
    state.reconfigure(&config, &mut ());
    assert_eq!(state.counts().bindings, 0);
    assert_eq!(state.bind(fixed, &mut ()), Err(BindError::Starting));
    let before = Binding {
        v6: host(1, 1, 2000),
        ..fixed
    };
    assert_eq!(state.inherit(before, now, &mut ()), Ok(()));
    state.serve(true, &mut ());
    assert_eq!((state.counts().bindings, state.resting()), (0, 1));
    state.free(fixed.protocol, fixed.v4, &mut ());
    let all: Vec<Binding> = state.bindings().map(|view| view.binding).collect();
    assert_eq!((all, state.resting()), (vec![fixed], 0));
    // A port that has never been bound.
    let mut r = Router::new(|other| *other = config.clone());
    r.nat64.state_mut().serve(true, &mut ());
    assert_eq!(r.nat64.state().counts().bindings, 1);
}

fn udp(r: &mut Router, v6: Endpoint6) -> Result<Endpoint4, Reason> {
    out(r, UDP, v6, random(), &mut ())
}

#[test]
fn nothing_is_opened_or_lent_before_it_serves() {
    let mut r = Router::new(|config| *config = second(0));
    assert_eq!(udp(&mut r, host(1, 1, 2000)), Err(Reason::NotServing));
    let node = host(1, 1, 2000).addr;
    let state = r.nat64.state_mut();
    let address = state.address_of(node).unwrap();
    assert_eq!(state.lend(UDP, (node, address), 0, random(), &mut ()), None);
    state.serve(true, &mut ());
    assert!(state
        .lend(UDP, (node, address), 0, random(), &mut ())
        .is_some());
    assert!(udp(&mut r, host(1, 1, 2000)).is_ok());
}

/// With port preservation, the same subscriber gets the same port again.
#[test]
fn the_same_subscriber_gets_it_again() {
    let mut r = serving(1);
    let v4 = udp(&mut r, host(1, 1, 1100)).unwrap();
    assert_eq!(v4.port, 1100);
    r.wait(301.0);
    assert_eq!(r.nat64.state().resting(), 1);
    let other = udp(&mut r, host(2, 1, 1100)).unwrap();
    assert!(other.addr != v4.addr || other.port != 1100);
    // Another host that starts at the same address.
    let state = r.nat64.state();
    let begins_there = |n: &u16| state.address_of(host(1, *n, 0).addr) == Some(v4.addr);
    let neighbour = (2..).find(begins_there).unwrap();
    assert_eq!(udp(&mut r, host(1, neighbour, 1100)), Ok(v4));
    assert_eq!(r.nat64.state().resting(), 0);
    // An outdated release of the port does not affect the binding.
    r.nat64.state_mut().free(UDP, v4, &mut ());
    assert_eq!(udp(&mut r, host(1, neighbour, 1100)), Ok(v4));
}

#[test]
fn a_subscriber_goes_on_in_its_block_and_the_block_stays_with_it() {
    let mut r = serving(2);
    for round in 0..10 {
        for port in 0..64 {
            assert!(
                udp(&mut r, host(1, 1, 2000 + port)).is_ok(),
                "{round} {port}"
            );
        }
        r.wait(301.0);
    }
    // Two blocks whose 64 ports have all been used several times.
    let state = r.nat64.state();
    assert!(state.resting() >= 64 && state.counts().bindings == 0);
    assert!(state.pool().blocks().free >= 2);
    for _ in 0..10 {
        r.wait(1000.0);
    }
    let BlockCount { free, all } = r.nat64.state().pool().blocks();
    assert!(free < all, "something rests in it");
    // Other subscribers get the remaining blocks.
    for subnet in 2..6 {
        let _ = udp(&mut r, host(subnet, 1, 2000));
    }
    assert_eq!(r.nat64.state().pool().blocks().free, 0);
    assert!(udp(&mut r, host(9, 1, 2000)).is_err());
    assert!(udp(&mut r, host(1, 1, 2000)).is_ok());
}

#[test]
fn ports_are_short_when_they_rest() {
    let mut r = serving(0);
    let mut got = Vec::new();
    for port in 0..240 {
        got.push(udp(&mut r, host(port % 16, 1, 2000 + port)).unwrap());
    }
    // No port rests, so there is nothing to release.
    assert!(!r.nat64.state().lacks_ports());
    r.wait(301.0);
    assert!(r.nat64.state().lacks_ports());
    for v4 in &got[..100] {
        r.nat64.state_mut().free(UDP, *v4, &mut ());
    }
    assert!(!r.nat64.state().lacks_ports());
    assert_eq!(r.nat64.state().resting(), 140);
}

/// The configuration gives a port to a host while it still rests for another one.
#[test]
fn a_binding_of_the_configuration_waits_until_its_port_is_free() {
    let mut r = serving(0);
    let v4 = v4_of(0, 1030);
    let of_other = Binding {
        protocol: UDP,
        v4,
        v6: host(1, 1, 2000),
    };
    r.nat64.state_mut().bind(of_other, &mut ()).unwrap();
    let now = r.now;
    r.nat64.reconfigure(&second(5), &mut ()).unwrap();
    let state = r.nat64.state_mut();
    assert_eq!(state.counts().bindings, 0);
    assert_eq!(
        state.inherit(
            Binding {
                v6: host(3, 1, 1030),
                ..of_other
            },
            now,
            &mut ()
        ),
        Err(Reason::PoolExhausted)
    );
    let mut watch = Watch::default();
    state.free(UDP, v4, &mut watch);
    let wanted = binding(UDP, "203.0.113.0:1030", host(3, 1, 1030));
    assert_eq!(watch.events, [Event::BindingOpened(wanted)]);
    assert_eq!(state.v4_of(UDP, host(3, 1, 1030)), Some(v4));
}

/// A port that leaves the pool and returns is still remembered.
#[test]
fn another_configuration_frees_nothing() {
    let mut r = serving(0);
    let v4 = udp(&mut r, host(1, 1, 2000)).unwrap();
    let mut narrow = second(0);
    narrow.pool4[0].ports = 60_000..=60_001;
    r.nat64.reconfigure(&narrow, &mut ()).unwrap();
    assert_eq!(r.nat64.state().counts().bindings, 0);
    assert_eq!(r.nat64.state().resting(), 1);
    r.nat64.reconfigure(&second(0), &mut ()).unwrap();
    let mut taken = Vec::new();
    for port in 0..255 {
        taken.push(udp(&mut r, host(2, 1, 2000 + port)).unwrap());
    }
    assert_eq!(udp(&mut r, host(2, 1, 3000)), Err(Reason::PoolExhausted));
    assert!(!taken.contains(&v4));
    r.nat64.state_mut().free(UDP, v4, &mut ());
    assert_eq!(udp(&mut r, host(2, 1, 3000)), Ok(v4));
}

/// The fast path has translated a packet with a leased port, and the tables refuse the session: the port has had a
/// subscriber.
#[test]
fn what_the_fast_path_has_used_rests_even_if_it_is_refused() {
    let mut r = serving(0);
    let node = host(1, 1, 2000);
    let state = r.nat64.state_mut();
    let address = state.address_of(node.addr).unwrap();
    let lent = state.lend(UDP, (node.addr, address), 0, random(), &mut ());
    let v4 = Endpoint4 {
        addr: address,
        port: lent.unwrap(),
    };
    let mut watch = Watch::default();
    let binding = Binding {
        protocol: UDP,
        v4,
        v6: node,
    };
    let no_prefix = SessionView {
        state: SessionState::V6Init,
        ..view(binding)
    };
    let now = r.now;
    let refused = r.nat64.state_mut().adopt(&no_prefix, now, &mut watch);
    assert_eq!(refused, Err(Reason::TransportUnknown));
    assert_eq!(
        watch.events,
        [Event::BindingOpened(binding), Event::BindingClosed(binding)]
    );
    assert_eq!(r.nat64.state().resting(), 1);
}

/// In a block of the subscriber, a resting port can be lent, and no other subscriber gets it until it is returned.
#[test]
fn a_port_on_loan_that_rested_before_rests_again() {
    let mut r = serving(2);
    let node = host(1, 1, 2000);
    let v4 = udp(&mut r, node).unwrap();
    r.wait(301.0);
    let of_block = (node.addr, v4.addr);
    let (mut random, now) = (random(), r.now);
    let state = r.nat64.state_mut();
    let lent: Vec<u16> = (0..32)
        .map_while(|_| state.lend(UDP, of_block, v4.port, &mut random, &mut ()))
        .collect();
    assert!(lent.contains(&v4.port), "{lent:?}");
    let own = Binding {
        protocol: UDP,
        v4,
        v6: host(1, 1, 3000),
    };
    assert!(state.bind(own, &mut ()).is_err());
    let refused = state.inherit(own, now, &mut ());
    assert_eq!(refused, Err(Reason::PoolExhausted));
    assert_eq!(state.resting(), 1);
    state.pool_mut().give_back(UDP, v4.addr, v4.port);
    assert_eq!(state.resting(), 1);
    let stranger = Binding {
        v6: host(2, 1, 3000),
        ..own
    };
    assert_eq!(state.bind(stranger, &mut ()), Err(BindError::Resting));
    assert_eq!(state.bind(own, &mut ()), Ok(()));
    assert_eq!(state.resting(), 0);
}
