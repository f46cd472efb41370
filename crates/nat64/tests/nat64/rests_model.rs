// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For every way to allocate ports: no resting port is given to another subscriber. Random steps are
//! compared with a map of the resting ports and their subscribers, built from events only, as another
//! gateway would.

use crate::harness::*;
use crate::rests::{host, out, second, v4_of, view, KINDS};
use diolkos_nat64::config::{Binding, Endpoint4, Endpoint6, Protocol};
use diolkos_nat64::pool::Subscriber;
use diolkos_nat64::session::{BindError, Event};
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

const UDP: Protocol = Protocol::Udp;
const TCP: Protocol = Protocol::Tcp;

fn subscriber(host: Ipv6Addr) -> u64 {
    (host.to_bits() >> 64) as u64
}

/// The subscriber for which a port rests; None: no subscriber.
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
    /// From a host: subnet, host, first port, count.
    Out(usize, u16, u16, u16, u16),
    Trace(u16, u16, u16),
    Wait(u32),
    Unbind(usize),
    Bind(usize, u8, u16, u16),
    Inherit(usize, u8, u16, u16),
    Restore(usize, u8, u16, u16),
    Lend(bool, u16, u16),
    GiveBack(usize),
    /// For the host's port.
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

/// Performs a step. The events since then are in `r.watch`.
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
            // A resting port that is leased is leased to the subscriber for which it rests.
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
            // The caller has taken back all leases.
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
        r.nat64.state_mut().serve(true, &mut ());
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
        // Finally all leases are returned.
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
        prop_assert_eq!(state.pool().blocks().free, state.pool().blocks().all);
        for protocol in Protocol::ALL {
            let bound = m.bound.keys().filter(|at| at.0 == protocol).count() as u64;
            let lent = m.lent.iter().filter(|at| at.0 == protocol).count() as u64;
            prop_assert_eq!(state.pool().free_ports(protocol) + bound + lent, state.pool().ports(protocol));
        }
    }
}
