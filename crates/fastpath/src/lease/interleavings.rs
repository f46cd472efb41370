// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the controller and programs at one lease in every order that the memory model allows. As on arm64 and unlike on
//! x86, the values that loads may see depend on barriers.
//!
//! The controller's code is the real one; `program` mirrors that of `bpf/open.h`.

use std::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{program, Lease, Memory, Word};

enum Loom {}

impl Memory for Loom {
    type U16 = AtomicU16;
    type U32 = AtomicU32;
    type U64 = AtomicU64;
}

word!(AtomicU16, u16);
word!(AtomicU32, u32);
word!(AtomicU64, u64);

/// Two ports instead of 16: the behaviour at the end of the queue is the same.
type Tiny = Lease<Loom, 2, 2>;

const A: [u64; 2] = [0x20, 0xa];
const B: [u64; 2] = [0x20, 0xb];
/// Every port of a node's address has this remainder modulo 100.
const OF_A: u16 = 2;
const OF_B: u16 = 4;

/// The parts of the protocol that a program omits.
#[derive(Clone, Copy, Default)]
struct Undone {
    order: bool,
    terms: bool,
}

/// Handles a node's packet that needs a port. Returns the port and the address, if it gets them. Gives up where a
/// program would retry.
fn open(lease: &Tiny, wide: &[AtomicU16], node: [u64; 2], undone: Undone) -> Option<(u16, u32)> {
    let v4 = || lease.v4.load(Ordering::Relaxed);
    if !program::has_sessions(lease) {
        return None;
    }
    let term = program::term_of(lease)?;
    if !program::is_of(lease, node) {
        return None;
    }
    let needed = (!undone.terms).then_some(term);
    if program::take_session(lease, needed, 1) != Some(true) {
        return None;
    }
    let early = v4();
    let wide = (lease.wide.load(Ordering::Relaxed) != 0).then_some(&wide[..]);
    let ports = program::ports(lease, 0, wide);
    let head = program::head(lease, 0);
    let tail = match undone.order {
        true => program::tail_out_of_order(lease, 0),
        false => program::tail(lease, 0),
    };
    if needed.is_some_and(|term| (head >> 32) as u32 != term)
        || !program::is_there(head, tail, ports.len())
    {
        return None;
    }
    let port = program::port(ports, head);
    if !program::take_port(lease, 0, head) {
        return None;
    }
    Some((port, if undone.terms { v4() } else { early }))
}

fn explore(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

/// Two programs take ports while the controller fills the queue across its end. Each port is taken once, and was lent
/// before.
fn fill(undone: Undone) {
    explore(move || {
        let lease = Arc::new(Tiny::default());
        let lent = [102, 202, 302];
        lease.assign(A, 1, 0);
        lease.add_port(0, lent[0], None);
        lease.add_sessions(2);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let programs = [0, 1].map(|_| {
            let (lease, taken) = (lease.clone(), taken.clone());
            thread::spawn(move || taken.lock().unwrap().extend(open(&lease, &[], A, undone)))
        });
        for port in &lent[1..] {
            if lease.ports(0) < 2 {
                lease.add_port(0, *port, None);
            }
        }
        for program in programs {
            program.join().unwrap();
        }
        let mut all: Vec<u16> = taken
            .lock()
            .unwrap()
            .iter()
            .map(|(port, _)| *port)
            .collect();
        all.extend(lease.end(1, |_| None).iter().map(|(_, port)| *port));
        let number = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), number, "a port was taken twice: {all:?}");
        assert!(all.iter().all(|port| lent.contains(port)), "{all:?}");
    });
}

/// A program serves one node while the place is assigned to another. Every port it takes is from its own node's lease.
fn reassign(undone: Undone) {
    explore(move || {
        let lease = Arc::new(Tiny::default());
        lease.assign(A, OF_A.into(), 0);
        lease.add_port(0, 100 + OF_A, None);
        lease.add_sessions(1);
        let program = {
            let lease = lease.clone();
            thread::spawn(move || open(&lease, &[], A, undone))
        };
        let back = lease.end(1, |_| None);
        lease.assign(B, OF_B.into(), 0);
        lease.add_port(0, 200 + OF_B, None);
        lease.add_sessions(1);
        let taken = program.join().unwrap();
        if let Some((port, v4)) = taken {
            assert_eq!((port % 100, v4), (OF_A, OF_A.into()), "another's port");
        }
        let lost = back.is_empty() && taken.is_none();
        assert!(!lost, "a port is neither taken nor given back");
        assert_eq!(lease.sessions() as usize, 1, "another's session");
        assert_eq!(lease.end(2, |_| None), [(0, 200 + OF_B)]);
    });
}

/// A program serves a node with a wide lease while that ends and its block goes to the lease of another node. Every port
/// it takes is from its own node's lease.
fn give_on(undone: Undone) {
    explore(move || {
        let leases = Arc::new([Tiny::default(), Tiny::default()]);
        let block: Arc<[AtomicU16; 2]> = Arc::default();
        let [first, second] = &*leases;
        first.assign(A, OF_A.into(), 1);
        first.add_port(0, 100 + OF_A, Some(&block[..]));
        first.add_sessions(1);
        let program = {
            let (leases, block) = (leases.clone(), block.clone());
            thread::spawn(move || open(&leases[0], &block[..], A, undone))
        };
        let back = first.end(4, |_| Some(&block[..]));
        first.assign([0; 2], 0, 0);
        second.assign(B, OF_B.into(), 1);
        second.add_port(0, 200 + OF_B, Some(&block[..]));
        second.add_sessions(1);
        // The place of the first is used again, without the block.
        first.assign(A, OF_A.into(), 0);
        first.add_port(0, 300 + OF_A, None);
        first.add_sessions(1);
        let taken = program.join().unwrap();
        if let Some((port, v4)) = taken {
            assert_eq!((port % 100, v4), (OF_A, OF_A.into()), "another's port");
        }
        let mut ports: Vec<u16> = back.iter().map(|(_, port)| *port).collect();
        ports.extend(taken.map(|(port, _)| port));
        ports.extend(first.end(8, |_| None).iter().map(|(_, port)| *port));
        ports.sort_unstable();
        assert_eq!(ports, [100 + OF_A, 300 + OF_A], "each once");
        let left = second.end(5, |_| Some(&block[..]));
        assert_eq!(left, [(0, 200 + OF_B)]);
    });
}

fn fails(run: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    std::panic::catch_unwind(run).is_err()
}

#[test]
fn every_port_is_taken_once() {
    fill(Undone::default());
}

#[test]
fn without_an_order_of_tail_and_port_a_port_is_taken_twice() {
    let order = true;
    assert!(fails(|| fill(Undone {
        order,
        ..Undone::default()
    })));
}

#[test]
fn a_lease_is_that_of_its_node() {
    reassign(Undone::default());
}

#[test]
fn a_block_is_that_of_one_lease() {
    give_on(Undone::default());
}

#[test]
fn without_terms_a_program_takes_from_the_next_lease_with_the_block() {
    let terms = true;
    assert!(fails(|| give_on(Undone {
        terms,
        ..Undone::default()
    })));
}

#[test]
fn without_terms_a_program_takes_from_another_lease() {
    let terms = true;
    assert!(fails(|| reassign(Undone {
        terms,
        ..Undone::default()
    })));
}
