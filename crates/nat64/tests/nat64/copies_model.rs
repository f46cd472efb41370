// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies and own bindings, driven by random steps and compared with the reported events.

use crate::copies::{node, serving};
use crate::harness::*;
use crate::inherit::{OTHER, TCP, UDP};
use crate::rests::second;
use diolkos_nat64::config::Binding;
use diolkos_nat64::session::{Event, Inward, Segment, Way};
use diolkos_xlat::Reason;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Out(u8, u16, u8),
    In(u8, u16, u8),
    /// Another gateway opens or closes a binding.
    Opens(u8, u16, u16),
    Closes(u8, u16),
    Deadline(u8, u64),
    Clock(u64),
    Otherwise(u8),
    Forget(u8, u16, usize),
    ForgetAll(u8, usize),
    Wait(u32),
    Unbind(usize),
    Inherit(u16, u16),
    Reload(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let owner = || prop_oneof![Just(0u8), Just(2)];
    let wait = prop_oneof![1..5u32, 100..400u32];
    prop_oneof![
        8 => (0..2u8, 0..6u16, 0..3u8).prop_map(|(a, b, c)| Step::Out(a, b, c)),
        8 => (0..8u8, 0..6u16, 0..3u8).prop_map(|(a, b, c)| Step::In(a, b, c)),
        6 => (owner(), 0..6u16, 0..6u16).prop_map(|(a, b, c)| Step::Opens(a, b, c)),
        2 => (owner(), 0..6u16).prop_map(|(a, b)| Step::Closes(a, b)),
        3 => (owner(), 0..30u64).prop_map(|(a, b)| Step::Deadline(a, b)),
        3 => (0..8u64).prop_map(Step::Clock),
        3 => (0..4u8).prop_map(Step::Otherwise),
        1 => (owner(), 0..6u16, 0..3usize).prop_map(|(a, b, c)| Step::Forget(a, b, c)),
        1 => (owner(), 0..9usize).prop_map(|(a, b)| Step::ForgetAll(a, b)),
        1 => wait.prop_map(Step::Wait),
        1 => (0..100usize).prop_map(Step::Unbind),
        1 => (0..6u16, 0..6u16).prop_map(|(a, b)| Step::Inherit(a, b)),
        1 => (0..3u8).prop_map(Step::Reload),
    ]
}

proptest! {
    /// For all steps: no packet uses a copy after the deadline, every packet that uses a copy uses the current binding
    /// of its owner, own bindings have own addresses, and counts and events of both are separate.
    #[test]
    fn copies_and_what_is_ones_own_are_apart(steps in prop::collection::vec(step(), 1..150)) {
        let mut t = serving(&second(0));
        let mut deadlines = [Duration::ZERO; 3];
        let (mut own, mut copies) = (HashSet::new(), HashMap::new());
        for step in &steps {
            match *step {
                Step::Out(tcp, host, peer) => {
                    let (protocol, segment) = [(UDP, OTHER), (TCP, Segment::Syn)][usize::from(tcp)];
                    let v6 = e6("2001:db8:0:1::1", 6000 + host);
                    let got = t.out(protocol, v6, &format!("192.0.2.{peer}:53"), segment);
                    if let Ok(v4) = got {
                        check(&t, &deadlines, Binding { protocol, v4, v6 })?;
                    }
                }
                Step::In(address, port, peer) => {
                    let v4 = e4(&format!("203.0.113.{address}:{}", 1024 + port));
                    let got = t.inward(UDP, v4, &format!("192.0.2.{peer}:53"), OTHER);
                    if let Ok(Inward::Node(v6, _)) = got {
                        check(&t, &deadlines, Binding { protocol: UDP, v4, v6 })?;
                    }
                }
                Step::Opens(owner, port, host) => {
                    let v4 = format!("203.0.113.{}:{}", 4 + owner, 1024 + port);
                    let new = binding(UDP, &v4, e6("2001:db8:0:1::1", 6000 + host));
                    t.watch.standby.retain(|b| b.v4 != new.v4 && b.v6 != new.v6);
                    t.watch.standby.push(new);
                }
                Step::Closes(owner, port) => {
                    let v4 = e4(&format!("203.0.113.{}:{}", 4 + owner, 1024 + port));
                    t.watch.standby.retain(|b| b.v4 != v4);
                }
                Step::Deadline(owner, seconds) => {
                    let until = t.watch.boottime + Duration::from_secs(seconds);
                    deadlines[usize::from(owner)] = until;
                    t.state.set_deadline(owner, until);
                }
                Step::Clock(seconds) => t.watch.boottime += Duration::from_secs(seconds),
                Step::Otherwise(way) => {
                    t.watch.otherwise = match way {
                        0 => Way::Open,
                        1 => Way::Drop(Reason::NotServing),
                        n => Way::Forward(n),
                    };
                }
                Step::Forget(owner, port, budget) => {
                    let v4 = e4(&format!("203.0.113.{}:{}", 4 + owner, 1024 + port));
                    t.state.forget(UDP, v4, budget, &mut t.watch);
                }
                Step::ForgetAll(owner, budget) => {
                    t.state.forget_all(owner, budget, &mut t.watch);
                }
                Step::Wait(seconds) => drop(t.wait(seconds.into())),
                Step::Unbind(n) => {
                    let all: Vec<_> = t.state.bindings().collect();
                    if let Some(view) = all.get(n % all.len().max(1)) {
                        t.state.unbind(view.binding.protocol, view.binding.v4, &mut t.watch).unwrap();
                    }
                }
                Step::Inherit(port, host) => {
                    let v4 = format!("203.0.113.0:{}", 1024 + port);
                    let new = binding(UDP, &v4, e6("2001:db8:0:1::1", 6000 + host));
                    let _ = t.state.inherit(new, t.now, &mut t.watch);
                }
                Step::Reload(kind) => t.state.reconfigure(&second(kind), &mut t.watch),
            }
            for event in std::mem::take(&mut t.watch.events) {
                match event {
                    Event::BindingOpened(b) => {
                        prop_assert_eq!(t.state.owner_of(b.v4.addr), Some(1));
                        prop_assert!(own.insert(b));
                    }
                    Event::BindingClosed(b) => prop_assert!(own.remove(&b)),
                    Event::CopyMade(b, owner) => {
                        prop_assert_eq!(t.state.owner_of(b.v4.addr), Some(owner));
                        prop_assert_ne!(owner, 1);
                        prop_assert_eq!(copies.insert(b, 0u32), None);
                    }
                    Event::CopyEnded(b, _) => prop_assert_eq!(copies.remove(&b), Some(0)),
                    Event::SessionOpened(view) => {
                        if let Some(sessions) = copies.get_mut(&view.binding) {
                            *sessions += 1;
                        }
                    }
                    Event::SessionClosed(view) => {
                        if let Some(sessions) = copies.get_mut(&view.binding) {
                            *sessions -= 1;
                        }
                    }
                    _ => {}
                }
            }
            let sessions: u32 = copies.values().sum();
            prop_assert_eq!(t.state.copies(), (copies.len() as u32, sessions));
            let counts = t.state.counts();
            prop_assert_eq!(counts.bindings, own.len() as u32);
            let of_own = t.state.sessions().filter(|view| own.contains(&view.binding));
            prop_assert_eq!(counts.sessions, of_own.count() as u32);
            let usage = t.state.usage(node().addr);
            prop_assert_eq!(usage.of_level[0], (counts.sessions, counts.bindings));
            let free = t.state.pool().free_ports(UDP);
            let bound = own.iter().filter(|b| b.protocol == UDP).count() as u64;
            prop_assert!(free + bound <= t.state.pool().ports(UDP));
        }
        // After copies are forgotten, none is left; the first call may end an earlier one.
        for owner in [0, 0, 2, 2] {
            prop_assert!(t.state.forget_all(owner, usize::MAX, &mut t.watch));
        }
        prop_assert_eq!(t.state.copies(), (0, 0));
    }
}

/// Checks the binding that a packet has used.
fn check(t: &Tables, deadlines: &[Duration; 3], by: Binding) -> Result<(), TestCaseError> {
    let owner = t
        .state
        .owner_of(by.v4.addr)
        .expect("an address of the cluster");
    if owner != 1 {
        prop_assert!(t.watch.boottime < deadlines[usize::from(owner)]);
        prop_assert!(t.watch.standby.contains(&by));
    }
    Ok(())
}
