// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool in slices, which several gateways share: whose ports they are, and where bindings may be opened.

use crate::common::*;
use crate::harness::*;
use crate::packets::*;
use diolkos_core::config::nat64::{Endpoint4, Endpoint6, Nat64Config, Protocol};
use diolkos_core::session::{Inward, Segment, SessionState, SessionView};
use diolkos_core::slice::{Slice, SliceId};
use diolkos_core::Reason;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
const ICMP: Protocol = Protocol::Icmp;
const OTHER: Segment = Segment::Other;
const SERVER: &str = "192.0.2.1:53";

/// Tables whose slices are open.
fn open(config: &Nat64Config) -> Tables {
    let mut t = Tables::new(config);
    for id in 0..t.state.slices().unwrap().len() as SliceId {
        t.state.open_slice(id);
    }
    t
}

fn node(source: u32, port: u16) -> Endpoint6 {
    e6(&format!("2001:db8:0:{source:x}::1"), port)
}

fn id_of(t: &Tables, node: Endpoint6) -> SliceId {
    t.state.slices().unwrap().of_source(node.addr)
}

fn slice_of(t: &Tables, node: Endpoint6) -> Slice {
    let id = id_of(t, node);
    t.state.slices().unwrap().get(id).unwrap().clone()
}

/// Two sources whose slices differ.
fn two_sources(t: &Tables) -> (Endpoint6, Endpoint6) {
    let first = node(0, 5000);
    let others = (1..100).map(|n| node(n, 5000));
    let mut others = others.filter(|other| id_of(t, *other) != id_of(t, first));
    (first, others.next().unwrap())
}

fn segment(protocol: Protocol) -> Segment {
    match protocol {
        TCP => Segment::Syn,
        _ => OTHER,
    }
}

#[test]
fn the_ports_of_a_source_lie_in_its_slice_and_keep_their_parity() {
    let mut t = open(&sliced_config());
    let mut used = HashMap::new();
    for n in 0..2000 {
        let node = node(n % 100, 1 + (n * 7) as u16);
        for protocol in Protocol::ALL {
            let v4 = t.out(protocol, node, SERVER, segment(protocol)).unwrap();
            let slice = slice_of(&t, node);
            assert!(slice.has(v4.addr, v4.port), "{v4} {slice:?}");
            if protocol != ICMP {
                assert_eq!(v4.port % 2, node.port % 2, "RFC 4787 REQ-4");
            }
            assert_eq!(used.insert((protocol, v4), node), None);
        }
        assert_eq!(t.state.address_of(node.addr), Some(slice_of(&t, node).addr));
    }
    let slices: std::collections::HashSet<_> = used.values().map(|n| id_of(&t, *n)).collect();
    assert_eq!(slices.len(), 8);
}

#[test]
fn every_port_of_a_slice_is_used_and_none_of_another_one() {
    let mut config = sliced_config();
    config.slices.as_mut().unwrap().ports = 64;
    config.pool4[0].ports = 1000..=1215;
    let mut t = open(&config);
    // 1024 to 1215 are three slices of each address; 1000 to 1023 are in none.
    assert_eq!(t.state.slices().unwrap().len(), 6);
    let one = node(0, 1);
    let slice = slice_of(&t, one);
    for protocol in Protocol::ALL {
        let mut ports: Vec<u16> = (0..64)
            .map(|n| node(0, 1 + n))
            .map(|node| {
                t.out(protocol, node, SERVER, segment(protocol))
                    .unwrap()
                    .port
            })
            .collect();
        ports.sort_unstable();
        assert_eq!(ports, slice.ports.clone().collect::<Vec<_>>());
        assert_eq!(
            t.out(protocol, node(0, 100), SERVER, segment(protocol)),
            Err(Reason::PoolExhausted)
        );
    }
    let (_, other) = two_sources(&t);
    assert!(t.out(UDP, other, SERVER, OTHER).is_ok());
}

#[test]
fn wishes_are_heard_within_the_slice() {
    let mut config = sliced_config();
    config.port_preservation = true;
    let mut t = open(&config);
    let of = node(0, 0);
    let slice = slice_of(&t, of);
    let (first, last) = (*slice.ports.start(), *slice.ports.end());
    let with = |port| Endpoint6 { port, ..of };
    let given = |t: &mut Tables, port| t.out(UDP, with(port), SERVER, OTHER).unwrap().port;
    assert_eq!(given(&mut t, first + 10), first + 10);
    let outside = if first > 1024 { first - 1 } else { last + 1 };
    assert_ne!(given(&mut t, outside), outside);

    // The port beside that of RTP is of no use in another slice.
    let elsewhere = if first > 1024 { 1024 } else { last + 1 };
    let rtp = binding(
        UDP,
        &format!("{}:{elsewhere}", slice.addr),
        with(first + 20),
    );
    t.state.bind(rtp, &mut ()).unwrap();
    assert_eq!(given(&mut t, first + 21), first + 21);

    // RTP and RTCP (RFC 3550 section 11): the next port, if the slice has it. A slice ends with an odd port.
    let mut t = open(&sliced_config());
    for n in 0..100 {
        let rtp = t.out(UDP, with(2000 + 2 * n), SERVER, OTHER).unwrap();
        let rtcp = t.out(UDP, with(2001 + 2 * n), SERVER, OTHER).unwrap();
        let beside = Endpoint4 {
            port: rtp.port + 1,
            ..rtp
        };
        assert_eq!(rtcp, beside);
    }
}

#[test]
fn a_closed_slice_opens_nothing_and_what_it_has_goes_on() {
    let mut t = Tables::new(&sliced_config());
    let one = node(0, 5000);
    let id = id_of(&t, one);
    for protocol in Protocol::ALL {
        let refused = t.out(protocol, one, SERVER, segment(protocol));
        assert_eq!(refused, Err(Reason::SliceClosed));
    }
    assert_eq!(t.out(TCP, one, SERVER, OTHER), Err(Reason::NoConnection));
    assert!(t.is_empty());
    t.state.open_slice(id);
    t.state.open_slice(SliceId::MAX);
    assert!(t.state.is_slice_open(id) && !t.state.is_slice_open(SliceId::MAX));
    let v4 = t.out(UDP, one, SERVER, OTHER).unwrap();
    let (_, other) = two_sources(&t);
    assert_eq!(t.out(UDP, other, SERVER, OTHER), Err(Reason::SliceClosed));

    for close in [
        |t: &mut Tables, id| t.state.close_slice(id),
        |t: &mut Tables, _| t.state.close_slices(),
    ] {
        close(&mut t, id);
        assert!(!t.state.is_slice_open(id));
        assert_eq!(t.out(UDP, one, SERVER, OTHER), Ok(v4), "its session");
        assert_eq!(t.out(UDP, one, "192.0.2.2:1", OTHER), Ok(v4), "a new one");
        let inward = t.inward(UDP, v4, "192.0.2.3:1", OTHER);
        assert_eq!(inward, Ok(Inward::Node(one, 0)));
        let next = Endpoint6 { port: 5001, ..one };
        assert_eq!(t.out(UDP, next, SERVER, OTHER), Err(Reason::SliceClosed));
        t.state.open_slice(id);
    }
    t.state.close_slices();
    t.wait(301.0);
    assert!(t.is_empty());
    assert_eq!(t.out(UDP, one, SERVER, OTHER), Err(Reason::SliceClosed));
}

/// What the fast path opens with this port.
fn opened(t: &Tables, v6: Endpoint6, port: u16) -> SessionView {
    let addr = slice_of(t, v6).addr;
    SessionView {
        binding: binding(UDP, &format!("{addr}:{port}"), v6),
        peer: e4(SERVER),
        prefix: 0,
        state: SessionState::Udp,
        remaining: Duration::from_secs(300),
    }
}

#[test]
fn loans_come_from_the_slice_and_none_from_a_closed_one() {
    let mut t = Tables::new(&sliced_config());
    let one = node(0, 5000);
    let (id, slice) = (id_of(&t, one), slice_of(&t, one));
    let lend = |t: &mut Tables, address, like| {
        t.state
            .lend(UDP, (one.addr, address), like, random(), &mut ())
    };
    assert_eq!(lend(&mut t, slice.addr, 0), None, "closed");
    t.state.open_slice(id);
    let other = t.state.slices().unwrap();
    let other = (0..8)
        .map(|id| other.get(id).unwrap().addr)
        .find(|addr| *addr != slice.addr);
    assert_eq!(lend(&mut t, other.unwrap(), 0), None, "not its address");
    let free = t.state.pool().free_ports(UDP);
    let mut ports = vec![];
    while let Some(port) = lend(&mut t, slice.addr, ports.len() as u16) {
        assert!(slice.ports.contains(&port));
        assert_eq!(usize::from(port % 2), ports.len() % 2);
        ports.push(port);
    }
    // Four are free for each one on loan: 12 903 and 3225 of 16 128, as with an address of a lone gateway.
    assert_eq!(ports.len(), 3225);
    assert!(!t.state.is_short(UDP, one.addr));

    let first = opened(&t, one, ports[0]);
    t.state.adopt(&first, t.now, &mut t.watch).unwrap();
    t.state.close_slice(id);
    // What the fast path opens after that is refused, and the port is nobody's.
    let late = opened(&t, Endpoint6 { port: 5001, ..one }, ports[1]);
    let refused = t.state.adopt(&late, t.now, &mut t.watch);
    assert_eq!(refused, Err(Reason::SliceClosed));
    // A further session of its binding is no binding.
    let again = SessionView {
        peer: e4("192.0.2.9:9"),
        ..first
    };
    t.state.adopt(&again, t.now, &mut t.watch).unwrap();
    assert_eq!((t.sessions(), t.state.counts().bindings), (2, 1));
    for port in ports {
        t.state.pool_mut().give_back(UDP, slice.addr, port);
    }
    assert_eq!(t.state.pool().free_ports(UDP), free - 1);
}

/// A slice of 64 ports, of which a source has half (`source_share`) of what the others leave.
#[test]
fn a_source_has_its_share_of_a_slice() {
    let mut config = sliced_config();
    config.slices.as_mut().unwrap().ports = 64;
    config.limits.source_share = 50;
    let mut t = open(&config);
    let (one, _) = two_sources(&t);
    let neighbours = (1..100_000).map(|n| node(n, 1));
    let mut neighbours = neighbours.filter(|other| id_of(&t, *other) == id_of(&t, one));
    let neighbour = neighbours.next().unwrap();
    let fill = |t: &mut Tables, of: Endpoint6| {
        let mut given = 0;
        loop {
            let node = Endpoint6 {
                port: 1 + given,
                ..of
            };
            match t.out(UDP, node, SERVER, OTHER) {
                Ok(_) => given += 1,
                Err(reason) => return (given, reason),
            }
        }
    };
    // 32 of 64; then 16 of the 32 that are left.
    assert_eq!(fill(&mut t, one), (32, Reason::SourceBindingLimit));
    assert_eq!(fill(&mut t, neighbour), (16, Reason::SourceBindingLimit));
    let holdings = t.state.holdings_of(neighbour.addr);
    let of_source = holdings
        .iter()
        .find(|holding| holding.prefix_len == 64)
        .unwrap();
    let ports = of_source.ports[UDP.index()];
    assert_eq!((ports.has, ports.may), (16, 16));
}

/// A site has 75 % of what the others leave of each slice, and not of what all slices have.
#[test]
fn a_site_with_many_sources_has_its_share_of_each_slice() {
    let mut config = sliced_config();
    config.slices.as_mut().unwrap().ports = 64;
    config.pool4[0].ports = 1024..=1279;
    config.limits.site_share = 75;
    config.limits.site_prefix_lens = [48, 0];
    let mut t = open(&config);
    let slices = t.state.slices().unwrap().len();
    assert_eq!(slices, 8);
    let mut given = vec![0; slices];
    for n in 0..4000 {
        let node = node(n, 1);
        match t.out(UDP, node, SERVER, OTHER) {
            Ok(_) => given[id_of(&t, node) as usize] += 1,
            Err(reason) => assert_eq!(reason, Reason::SiteBindingLimit),
        }
    }
    // Three quarters of 64.
    assert_eq!(given, vec![48; slices]);
    // Other sites find something in each.
    for n in 1..=60 {
        let node = e6(&format!("2001:db8:{n:x}::1"), 1);
        assert!(t.out(UDP, node, SERVER, OTHER).is_ok());
    }
}

#[test]
fn gates_stay_over_a_reload_as_long_as_the_slices_do() {
    let mut t = Tables::new(&sliced_config());
    t.state.open_slice(3);
    let mut other = sliced_config();
    other.limits.sessions = 1000;
    t.state.reconfigure(&other, &mut ());
    assert!(t.state.is_slice_open(3) && !t.state.is_slice_open(2));
    other.slices.as_mut().unwrap().key = [5, 7];
    t.state.reconfigure(&other, &mut ());
    assert!(!t.state.is_slice_open(3));
    t.state.open_slice(3);
    other.pool4[0].net = "203.0.113.2/31".parse().unwrap();
    t.state.reconfigure(&other, &mut ());
    assert!(!t.state.is_slice_open(3));
    // Alone, it has the whole pool.
    other.slices = None;
    t.state.reconfigure(&other, &mut ());
    assert_eq!(t.state.slices(), None);
    assert!(t.out(UDP, node(0, 1), SERVER, OTHER).is_ok());
}

/// A packet that a closed slice refuses is not answered: the next one may find it open.
#[test]
fn a_closed_slice_drops_silently() {
    let mut r = Router::new(|config| config.slices = sliced_config().slices);
    let hello = udp_of(5000, 53, b"hello");
    let packet = packet6(NODE, PEER6, 17, hello).bytes();
    assert_eq!(r.refuse(&packet), (Reason::SliceClosed, None));
    for id in 0..r.nat64.state().slices().unwrap().len() as SliceId {
        r.nat64.state_mut().open_slice(id);
    }
    r.pass(&packet);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_bound_lies_in_the_slice_of_its_source(
        size in 1u16..=40,
        ports in (0u16..3000, 3200u16..6000),
        prefix_len in prop_oneof![Just(48u8), Just(56), Just(64), Just(128)],
        nodes in prop::collection::vec((any::<u64>(), any::<u16>(), 0usize..3), 1..200),
        preserve in any::<bool>(),
    ) {
        let mut config = sliced_config();
        let rules = config.slices.as_mut().unwrap();
        (rules.ports, rules.source_prefix_len) = (size * 64, prefix_len);
        config.pool4[0].ports = ports.0..=ports.1;
        config.port_preservation = preserve;
        let mut t = open(&config);
        for (host, port, protocol) in nodes {
            let protocol = Protocol::ALL[protocol];
            let addr = std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(host) << 8);
            let node = Endpoint6 { addr, port };
            let got = t.out(protocol, node, SERVER, segment(protocol));
            let slice = slice_of(&t, node);
            match got {
                Ok(v4) => prop_assert!(slice.has(v4.addr, v4.port)),
                Err(reason) => prop_assert_eq!(reason, Reason::PoolExhausted),
            }
        }
    }
}
