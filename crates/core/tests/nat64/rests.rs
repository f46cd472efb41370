// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports that rest: whatever gives out ports, none goes to another subscriber before it is freed. Driven at random, against a map of
//! what rests for whom, which hears of bindings as another gateway does: by events alone.

use crate::harness::*;
use diolkos_core::config::nat64::{
    Binding, Deterministic, Endpoint4, Endpoint6, Nat64Config, Owners, PortBlocks, Protocol,
};
use diolkos_core::pool::Subscriber;
use diolkos_core::session::{
    BindError, Event, Outbound, Segment, SessionState, SessionView, Watcher,
};
use diolkos_core::Reason;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;
const PEER: &str = "192.0.2.1:53";
const KINDS: u8 = 6;

/// The second of three gateways. It has two addresses, and gives ports of them out in one of several ways.
pub fn second(kind: u8) -> Nat64Config {
    let mut config = config();
    config.owners = Some(Owners {
        me: 1,
        addresses: vec![
            ("203.0.113.4/31".parse().unwrap(), 0),
            ("203.0.113.0/31".parse().unwrap(), 1),
            ("203.0.113.6/31".parse().unwrap(), 2),
        ],
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

fn host(subnet: u16, host: u16, port: u16) -> Endpoint6 {
    e6(&format!("2001:db8:0:{subnet:x}::{host:x}"), port)
}

fn subscriber(host: Ipv6Addr) -> u64 {
    (host.to_bits() >> 64) as u64
}

/// For whom a port rests; None: for nobody.
type Rests = HashMap<(Protocol, Endpoint4), Option<u64>>;

#[derive(Default)]
struct Model {
    rests: Rests,
    bound: HashMap<(Protocol, Endpoint4), Binding>,
    lent: Vec<(Protocol, Ipv4Addr, u16, Ipv6Addr)>,
}

impl Model {
    fn hear(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::BindingOpened(b) => {
                    let at = (b.protocol, b.v4);
                    let rested = self.rests.remove(&at);
                    let its = subscriber(b.v6.addr);
                    assert!(rested.is_none_or(|of| of == Some(its)), "{b:?} {rested:?}");
                    assert_eq!(self.bound.insert(at, b), None);
                    assert!(b.v4.addr.octets()[3] < 2, "an address of another gateway");
                }
                Event::BindingClosed(b) => {
                    let at = (b.protocol, b.v4);
                    assert_eq!(self.bound.remove(&at), Some(b));
                    self.rests.insert(at, Some(subscriber(b.v6.addr)));
                }
                Event::BlockAllocated(view) => {
                    let its = subscriber(view.source);
                    for (&(_, v4), of) in &self.rests {
                        let is_in =
                            v4.addr == view.addr && (view.first..=view.last).contains(&v4.port);
                        assert!(!is_in || *of == Some(its), "{view:?} {v4} {of:?}");
                    }
                }
                _ => {}
            }
        }
    }

    fn check(&self, r: &Router, kind: u8) {
        let state = r.nat64.state();
        assert_eq!(state.resting(), self.rests.len() as u64);
        for (&(protocol, v4), of) in &self.rests {
            let found = state.pool().rests_for(protocol, v4);
            let wanted = of.map_or(Subscriber::NOBODY, |prefix| {
                let host = Ipv6Addr::from_bits(u128::from(prefix) << 64 | 1);
                state.pool().subscriber(host)
            });
            assert_eq!(found, Some(wanted), "{v4}");
        }
        let real: HashMap<_, _> = state
            .bindings()
            .map(|view| ((view.binding.protocol, view.binding.v4), view.binding))
            .collect();
        assert_eq!(real, self.bound);
        for protocol in Protocol::ALL {
            let is_pooled = |at: &&(Protocol, Endpoint4)| {
                at.0 == protocol && state.pool().covers(protocol, at.1)
            };
            let lent = self.lent.iter().filter(|lent| lent.0 == protocol).count();
            let bound = self.bound.keys().filter(is_pooled).count();
            let is_lent = |at: &&(Protocol, Endpoint4)| {
                let mut lent = self.lent.iter();
                lent.any(|lent| (lent.0, lent.1, lent.2) == (at.0, at.1.addr, at.1.port))
            };
            let rests = self.rests.keys().filter(is_pooled);
            let rests = rests.filter(|at| !is_lent(at)).count();
            let (free, all) = (
                state.pool().free_ports(protocol),
                state.pool().ports(protocol),
            );
            let taken = (bound + lent) as u64;
            match kind {
                2..=4 => assert!(free + taken <= all && free + taken + rests as u64 >= all),
                _ => assert_eq!(free + taken + rests as u64, all),
            }
        }
    }

    fn nth(&self, n: usize) -> Option<(Protocol, Endpoint4)> {
        let mut all: Vec<_> = self.rests.keys().copied().collect();
        all.sort_unstable();
        all.get(n % all.len().max(1)).copied()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Of a host: subnet, host, first port, how many.
    Out(usize, u16, u16, u16, u16),
    Trace(u16, u16, u16),
    Wait(u32),
    Unbind(usize),
    Bind(usize, u8, u16, u16),
    Inherit(usize, u8, u16, u16),
    Restore(usize, u8, u16, u16),
    Lend(bool, u16, u16),
    GiveBack(usize),
    /// The host's port.
    Adopt(usize, u16),
    Hold(usize, u8, u16),
    Free(usize),
    FreeMany,
    Reload(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let protocol = || prop_oneof![3 => Just(0usize), 2 => Just(1), 1 => Just(2)];
    let port = || 1020..1160u16;
    let at = move || (protocol(), 0..2u8, port(), 0..5u16);
    prop_oneof![
        6 => (protocol(), 0..5u16, 1..3u16, port(), 1..60u16)
            .prop_map(|(a, b, c, d, e)| Step::Out(a, b, c, d, e)),
        1 => (0..5u16, 1..3u16, port()).prop_map(|(a, b, c)| Step::Trace(a, b, c)),
        2 => prop_oneof![1..5u32, 100..400u32, 7000..9000u32].prop_map(Step::Wait),
        4 => (0..1000usize).prop_map(Step::Unbind),
        2 => at().prop_map(|(a, b, c, d)| Step::Bind(a, b, c, d)),
        1 => at().prop_map(|(a, b, c, d)| Step::Inherit(a, b, c, d)),
        1 => at().prop_map(|(a, b, c, d)| Step::Restore(a, b, c, d)),
        3 => (any::<bool>(), 0..4u16, port()).prop_map(|(a, b, c)| Step::Lend(a, b, c)),
        1 => (0..100usize).prop_map(Step::GiveBack),
        2 => (0..100usize, port()).prop_map(|(a, b)| Step::Adopt(a, b)),
        1 => (protocol(), 0..2u8, port()).prop_map(|(a, b, c)| Step::Hold(a, b, c)),
        3 => (0..1000usize).prop_map(Step::Free),
        1 => Just(Step::FreeMany),
        1 => (0..KINDS).prop_map(Step::Reload),
    ]
}

fn v4_of(address: u8, port: u16) -> Endpoint4 {
    Endpoint4 {
        addr: Ipv4Addr::new(203, 0, 113, address),
        port,
    }
}

fn view(binding: Binding) -> SessionView {
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

fn out(
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

/// Does a step. What was told meanwhile is in `r.watch`.
fn take(r: &mut Router, m: &mut Model, step: &Step, random: &mut impl FnMut() -> u64) {
    let mut watch = std::mem::take(&mut r.watch);
    let now = r.now;
    match *step {
        Step::Out(protocol, subnet, number, first, count) => {
            for port in first..first + count {
                let v6 = host(subnet, number, port);
                let _ = out(r, Protocol::ALL[protocol], v6, &mut *random, &mut watch);
            }
        }
        Step::Trace(subnet, number, port) => {
            use crate::common::packet6;
            let src = host(subnet, number, 1).addr.to_string();
            let data = crate::packets::udp_of(port, 53, b"data");
            let packet = packet6(&src, crate::packets::PEER6, 17, data).bytes();
            let before = r.nat64.state().counts();
            r.trace(&packet);
            assert_eq!(r.nat64.state().counts(), before);
        }
        Step::Wait(seconds) => {
            r.watch = std::mem::take(&mut watch);
            r.wait(seconds.into());
            watch = std::mem::take(&mut r.watch);
        }
        Step::Unbind(n) => {
            let mut all: Vec<_> = m.bound.keys().copied().collect();
            all.sort_unstable();
            if let Some(&(protocol, v4)) = all.get(n % all.len().max(1)) {
                r.nat64
                    .state_mut()
                    .unbind(protocol, v4, &mut watch)
                    .unwrap();
            }
        }
        Step::Bind(protocol, address, port, subnet) => {
            let binding = Binding {
                protocol: Protocol::ALL[protocol],
                v4: v4_of(address, port),
                v6: host(subnet, 7, port),
            };
            let done = r.nat64.state_mut().bind(binding, &mut watch);
            let its = subscriber(binding.v6.addr);
            let rested = m.rests.get(&(binding.protocol, binding.v4));
            let of_other = rested.is_some_and(|of| *of != Some(its));
            // What is on loan and rests is on loan to the subscriber for whom it rests.
            assert!(!of_other || done == Err(BindError::Resting), "{done:?}");
        }
        Step::Inherit(protocol, address, port, subnet) => {
            let binding = Binding {
                protocol: Protocol::ALL[protocol],
                v4: v4_of(address, port),
                v6: host(subnet, 8, port),
            };
            let _ = r.nat64.state_mut().inherit(binding, now, &mut watch);
        }
        Step::Restore(protocol, address, port, subnet) => {
            let binding = Binding {
                protocol: Protocol::ALL[protocol],
                v4: v4_of(address, port),
                v6: host(subnet, 9, port),
            };
            let state = r.nat64.state_mut();
            let _ = state.restore_session(&view(binding), now, &mut watch);
        }
        Step::Lend(is_tcp, subnet, like) => {
            let protocol = if is_tcp { TCP } else { UDP };
            let node = host(subnet, 1, 0).addr;
            let state = r.nat64.state_mut();
            let Some(address) = state.address_of(node) else {
                r.watch = watch;
                return;
            };
            let of = (node, address);
            if let Some(port) = state.lend(protocol, of, like, &mut *random, &mut watch) {
                let addr = address;
                let rested = m.rests.get(&(protocol, Endpoint4 { addr, port }));
                let its = Some(subscriber(node));
                assert!(rested.is_none_or(|of| *of == its), "{rested:?} to {node}");
                m.lent.push((protocol, address, port, node));
            }
        }
        Step::GiveBack(n) if !m.lent.is_empty() => {
            let (protocol, address, port, _) = m.lent.swap_remove(n % m.lent.len());
            let pool = r.nat64.state_mut().pool_mut();
            pool.give_back(protocol, address, port);
        }
        Step::Adopt(n, own) if !m.lent.is_empty() => {
            let (protocol, addr, port, node) = m.lent.swap_remove(n % m.lent.len());
            let binding = Binding {
                protocol,
                v4: Endpoint4 { addr, port },
                v6: Endpoint6 {
                    addr: node,
                    port: own,
                },
            };
            let state = r.nat64.state_mut();
            let _ = state.adopt(&view(binding), now, &mut watch);
        }
        Step::GiveBack(_) | Step::Adopt(..) => {}
        Step::Hold(protocol, address, port) => {
            let (protocol, v4) = (Protocol::ALL[protocol], v4_of(address, port));
            let mut lent = m.lent.iter();
            // The caller has taken back what is on loan.
            if !lent.any(|lent| (lent.0, lent.1, lent.2) == (protocol, v4.addr, v4.port)) {
                let is_held = r.nat64.state_mut().hold(protocol, v4);
                assert_eq!(is_held, !m.bound.contains_key(&(protocol, v4)));
                if is_held {
                    m.rests.insert((protocol, v4), None);
                }
            }
        }
        Step::Free(n) => {
            if let Some((protocol, v4)) = m.nth(n) {
                m.rests.remove(&(protocol, v4));
                r.nat64.state_mut().free(protocol, v4, &mut watch);
            }
        }
        Step::FreeMany => {
            let mut all: Vec<_> = m.rests.drain().map(|(at, _)| at).collect();
            all.sort_unstable();
            for (protocol, v4) in all {
                r.nat64.state_mut().free(protocol, v4, &mut watch);
            }
        }
        Step::Reload(kind) => {
            for (protocol, address, port, _) in m.lent.drain(..) {
                let pool = r.nat64.state_mut().pool_mut();
                pool.give_back(protocol, address, port);
            }
            r.nat64.reconfigure(&second(kind), &mut watch).unwrap();
        }
    }
    r.watch = watch;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_port_that_rests_goes_to_nobody_else(
        kind in 0..KINDS,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut kind = kind;
        let mut r = Router::new(|config| *config = second(kind));
        r.nat64.state_mut().serve(true);
        let (mut m, mut random) = (Model::default(), random());
        let there = r.nat64.state().bindings();
        m.bound = there.map(|view| ((view.binding.protocol, view.binding.v4), view.binding)).collect();
        for step in &steps {
            take(&mut r, &mut m, step, &mut random);
            m.hear(std::mem::take(&mut r.watch.events));
            if let Step::Reload(to) = step {
                kind = *to;
            }
            m.check(&r, kind);
        }
        // In the end everything comes back.
        for step in [0; 100].map(Step::GiveBack) {
            take(&mut r, &mut m, &step, &mut random);
        }
        for n in (0..m.bound.len()).rev() {
            take(&mut r, &mut m, &Step::Unbind(n), &mut random);
            m.hear(std::mem::take(&mut r.watch.events));
        }
        for step in [Step::FreeMany, Step::Wait(1), Step::Wait(200), Step::Wait(200)] {
            take(&mut r, &mut m, &step, &mut random);
            m.hear(std::mem::take(&mut r.watch.events));
            m.check(&r, kind);
        }
        let state = r.nat64.state();
        prop_assert_eq!(state.resting(), 0);
        prop_assert_eq!(state.pool().blocks().0, state.pool().blocks().1);
        for protocol in Protocol::ALL {
            let bound = m.bound.keys().filter(|at| at.0 == protocol).count() as u64;
            let lent = m.lent.iter().filter(|at| at.0 == protocol).count() as u64;
            prop_assert_eq!(state.pool().free_ports(protocol) + bound + lent, state.pool().ports(protocol));
        }
    }
}

fn serving(kind: u8) -> Router {
    let mut r = Router::new(|config| *config = second(kind));
    r.nat64.state_mut().serve(true);
    r
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
    state.serve(true);
    assert!(state
        .lend(UDP, (node, address), 0, random(), &mut ())
        .is_some());
    assert!(udp(&mut r, host(1, 1, 2000)).is_ok());
}

/// With preserved ports, the same subscriber gets the very port again.
#[test]
fn the_same_subscriber_gets_it_again() {
    let mut r = serving(1);
    let v4 = udp(&mut r, host(1, 1, 1100)).unwrap();
    assert_eq!(v4.port, 1100);
    r.wait(301.0);
    assert_eq!(r.nat64.state().resting(), 1);
    let other = udp(&mut r, host(2, 1, 1100)).unwrap();
    assert!(other.addr != v4.addr || other.port != 1100);
    // Another host, which begins at the same address.
    let state = r.nat64.state();
    let begins_there = |n: &u16| state.address_of(host(1, *n, 0).addr) == Some(v4.addr);
    let neighbour = (2..).find(begins_there).unwrap();
    assert_eq!(udp(&mut r, host(1, neighbour, 1100)), Ok(v4));
    assert_eq!(r.nat64.state().resting(), 0);
    // What was said of the rest before does no harm to the binding.
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
    // Two blocks, of which all 64 ports have been used again and again.
    let state = r.nat64.state();
    assert!(state.resting() >= 64 && state.counts().bindings == 0);
    assert!(state.pool().blocks().0 >= 2);
    for _ in 0..10 {
        r.wait(1000.0);
    }
    let (free, all) = r.nat64.state().pool().blocks();
    assert!(free < all, "something rests in it");
    // Strangers get the others.
    for subnet in 2..6 {
        let _ = udp(&mut r, host(subnet, 1, 2000));
    }
    assert_eq!(r.nat64.state().pool().blocks().0, 0);
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
    // None rests: there is nothing to be won.
    assert!(!r.nat64.state().lacks_ports());
    r.wait(301.0);
    assert!(r.nat64.state().lacks_ports());
    for v4 in &got[..100] {
        r.nat64.state_mut().free(UDP, *v4, &mut ());
    }
    assert!(!r.nat64.state().lacks_ports());
    assert_eq!(r.nat64.state().resting(), 140);
}

/// The file gives a port to a host while it still rests for another one.
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

/// A port that leaves the pool and comes back has not been forgotten.
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

/// The fast path has translated a packet by a port on loan, and the tables refuse the session: the port has had a subscriber.
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
