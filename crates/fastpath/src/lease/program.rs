// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations of programs on a lease, for tests that run them against the controller. This mirrors `bpf/open.h`
//! function by function, with the same accesses in the same order. An access that is `volatile` there is relaxed here.
//! BPF uses an addition of 0 as its only barrier; here it is an acquire load, which guarantees less.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::{of_term, Lease, Memory, Word};

/// The first check of `lease_of`, without a barrier.
pub fn has_sessions<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
) -> bool {
    lease.sessions.load(Relaxed) as u32 != 0
}

/// The barrier of `lease_of`: returns the term if there are sessions.
pub fn term_of<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
) -> Option<u32> {
    let sessions = lease.sessions.load(Acquire);
    (sessions as u32 != 0).then_some((sessions >> 32) as u32)
}

/// The last check of `lease_of`.
pub fn is_of<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    node: [u64; 2],
) -> bool {
    [0, 1].map(|half| lease.node[half].load(Relaxed)) == node
}

/// One attempt of `lease_take_session`. None: retry. If no term is given, any term matches.
pub fn take_session<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    term: Option<u32>,
    number: i64,
) -> Option<bool> {
    let now = lease.sessions.load(Relaxed);
    if term.is_some_and(|term| (now >> 32) as u32 != term) || number > 0 && now as u32 == 0 {
        return Some(false);
    }
    let then = now.wrapping_sub(number as u64);
    lease.sessions.compare_exchange(now, then).then_some(true)
}

/// Begins an attempt of `lease_take_port`.
pub fn head<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    queue: usize,
) -> u64 {
    lease.queues[queue].head.load(Relaxed)
}

/// The barrier between head and port.
pub fn tail<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    queue: usize,
) -> u32 {
    lease.queues[queue].tail.load(Acquire)
}

/// Reads the tail without a barrier.
pub fn tail_out_of_order<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    queue: usize,
) -> u32 {
    lease.queues[queue].tail.load(Relaxed)
}

/// The ports of a queue: `wide`, or those in the lease.
pub fn ports<'a, M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &'a Lease<M, PORTS, QUEUES>,
    queue: usize,
    wide: Option<&'a [M::U16]>,
) -> &'a [M::U16] {
    wide.unwrap_or(&lease.queues[queue].ports)
}

/// Returns true if a port is available, given head and tail and the room of the queue.
pub fn is_there(head: u64, tail: u32, most: usize) -> bool {
    (tail.wrapping_sub(head as u32).wrapping_sub(1) as usize) < most
}

/// The next port to take of a queue's.
pub fn port<W: Word<u16>>(ports: &[W], head: u64) -> u16 {
    ports[head as u32 as usize % ports.len()].load(Relaxed)
}

/// Ends the attempt: returns true if the port was taken.
pub fn take_port<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    queue: usize,
    head: u64,
) -> bool {
    let next = of_term((head >> 32) as u32, (head as u32).wrapping_add(1));
    lease.queues[queue].head.compare_exchange(head, next)
}
