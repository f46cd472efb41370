// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a lease, shared by the controller and the programs (`struct diolkos_lease` in `bpf/abi.h`), and the
//! operations of the controller. `bpf/open.h` has those of the programs.
//!
//! The word types are parameters, so that a model checker can replace them.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A word that both sides change; the operations are those of [`std::sync::atomic`].
pub trait Word<T> {
    /// Loads the value.
    fn load(&self, order: Ordering) -> T;
    /// Stores a value.
    fn store(&self, value: T, order: Ordering);
    /// Swaps the value.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Adds to the value and returns the old one.
    fn fetch_add(&self, more: T, order: Ordering) -> T;
    /// Compares and exchanges with sequential consistency. The controller does not need it.
    #[cfg(any(test, feature = "testrun"))]
    fn compare_exchange(&self, from: T, to: T) -> bool;
}

/// The word types of all sizes.
pub trait Memory {
    /// 2 bytes.
    type U16: Word<u16>;
    /// 4 bytes.
    type U32: Word<u32>;
    /// 8 bytes.
    type U64: Word<u64>;
}

/// Shared memory.
#[derive(Debug)]
pub enum Shared {}

impl Memory for Shared {
    type U16 = AtomicU16;
    type U32 = AtomicU32;
    type U64 = AtomicU64;
}

macro_rules! word {
    ($atomic:ty, $number:ty) => {
        impl Word<$number> for $atomic {
            fn load(&self, order: Ordering) -> $number {
                self.load(order)
            }

            fn store(&self, value: $number, order: Ordering) {
                self.store(value, order);
            }

            fn swap(&self, value: $number, order: Ordering) -> $number {
                self.swap(value, order)
            }

            fn fetch_add(&self, more: $number, order: Ordering) -> $number {
                self.fetch_add(more, order)
            }

            #[cfg(any(test, feature = "testrun"))]
            fn compare_exchange(&self, from: $number, to: $number) -> bool {
                self.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
            }
        }
    };
}

word!(AtomicU16, u16);
word!(AtomicU32, u32);
word!(AtomicU64, u64);

// After the macro, because the module uses it too.
#[cfg(test)]
mod interleavings;
#[cfg(any(test, feature = "testrun"))]
pub mod program;

/// `struct diolkos_lease_ports`, with room for `PORTS` ports.
#[repr(C)]
pub struct Queue<M: Memory, const PORTS: usize> {
    /// The term, and the number of the next port to take.
    pub head: M::U64,
    /// The number of the next port to add.
    pub tail: M::U32,
    /// Must be 0.
    pub pad: M::U32,
    /// Port n is at index n modulo the number of ports.
    pub ports: [M::U16; PORTS],
}

/// `struct diolkos_lease`.
#[repr(C)]
pub struct Lease<M: Memory, const PORTS: usize, const QUEUES: usize = 4> {
    /// The address of the node, in two halves.
    pub node: [M::U64; 2],
    /// The IPv4 address of its new bindings.
    pub v4: M::U32,
    /// 0, or 1 and the place of the ports in the memory of wide leases.
    pub wide: M::U32,
    /// The term, and the number of sessions that may still be opened.
    pub sessions: M::U64,
    /// Even and odd ports of UDP, then of TCP.
    pub queues: [Queue<M, PORTS>; QUEUES],
}

/// The queue of a port: even ports of UDP, odd ports of UDP, even ports of TCP, odd ports of TCP.
pub fn queue_of(is_tcp: bool, port: u16) -> usize {
    2 * usize::from(is_tcp) + usize::from(port % 2)
}

/// Combines a term and a number.
fn of_term(term: u32, number: u32) -> u64 {
    u64::from(term) << 32 | u64::from(number)
}

impl<M: Memory, const PORTS: usize, const QUEUES: usize> Default for Lease<M, PORTS, QUEUES>
where
    M::U16: Default,
    M::U32: Default,
    M::U64: Default,
{
    fn default() -> Self {
        let queue = || Queue {
            head: M::U64::default(),
            tail: M::U32::default(),
            pad: M::U32::default(),
            ports: std::array::from_fn(|_| M::U16::default()),
        };
        Lease {
            node: Default::default(),
            v4: M::U32::default(),
            wide: M::U32::default(),
            sessions: M::U64::default(),
            queues: std::array::from_fn(|_| queue()),
        }
    }
}

impl<M: Memory, const PORTS: usize, const QUEUES: usize> Lease<M, PORTS, QUEUES> {
    /// Assigns an empty lease to a node; its new bindings get this address. `wide` is 0, or 1 and the place of its
    /// ports in the memory of wide leases. Programs ignore the lease until sessions are added.
    pub fn assign(&self, node: [u64; 2], v4: u32, wide: u32) {
        self.v4.store(v4, Ordering::Relaxed);
        self.wide.store(wide, Ordering::Relaxed);
        for (word, half) in self.node.iter().zip(node) {
            word.store(half, Ordering::Relaxed);
        }
    }

    /// The current term.
    pub fn term(&self) -> u32 {
        (self.sessions.load(Ordering::Relaxed) >> 32) as u32
    }

    /// 0, or 1 and the place of the ports in the memory of wide leases.
    pub fn wide(&self) -> u32 {
        self.wide.load(Ordering::Relaxed)
    }

    /// Number of sessions that may still be opened.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Acquire) as u32
    }

    /// Allows this many more sessions.
    pub fn add_sessions(&self, more: u32) {
        self.sessions.fetch_add(more.into(), Ordering::AcqRel);
    }

    /// Number of ports left in a queue.
    pub fn ports(&self, queue: usize) -> u32 {
        let queue = &self.queues[queue];
        let tail = queue.tail.load(Ordering::Relaxed);
        tail.wrapping_sub(queue.head.load(Ordering::Acquire) as u32)
    }

    /// Lends a port. Its queue must have room. `wide`: the ports of the queue, where they are not in the lease; their
    /// number is a power of two.
    pub fn add_port(&self, queue: usize, port: u16, wide: Option<&[M::U16]>) {
        let queue = &self.queues[queue];
        let ports = wide.unwrap_or(&queue.ports);
        let tail = queue.tail.load(Ordering::Relaxed);
        ports[tail as usize % ports.len()].store(port, Ordering::Relaxed);
        queue.tail.store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Ends the lease and the term; `next` is a term that the lease has not had. Returns the ports that no program has
    /// taken, with their queues; programs report the taken ones. `wide` gives the ports of a queue, where they are not
    /// in the lease.
    pub fn end<'a>(
        &'a self,
        next: u32,
        wide: impl Fn(usize) -> Option<&'a [M::U16]>,
    ) -> Vec<(usize, u16)> {
        // First of all, no program can begin to use the lease any more.
        self.sessions.swap(of_term(next, 0), Ordering::AcqRel);
        for word in &self.node {
            word.store(0, Ordering::Relaxed);
        }
        let mut left = Vec::new();
        for (number, queue) in self.queues.iter().enumerate() {
            let ports = wide(number).unwrap_or(&queue.ports);
            let tail = queue.tail.load(Ordering::Relaxed);
            let head = queue.head.swap(of_term(next, tail), Ordering::AcqRel) as u32;
            left.extend((0..tail.wrapping_sub(head)).map(|n| {
                let at = head.wrapping_add(n) as usize % ports.len();
                (number, ports[at].load(Ordering::Relaxed))
            }));
        }
        left
    }
}
