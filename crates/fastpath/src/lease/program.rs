// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs do with a lease, for tests that let it meet what the controller does: `bpf/open.h` again, function by
//! function, with the same accesses in the same order. An access that is `volatile` there is relaxed here. Where there an
//! addition of 0 is a barrier, for want of another one in BPF, here is a load that acquires, which promises less.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::{of_term, Lease, Memory, Word};

/// The first test of `lease_of`, which asks for no barrier.
pub fn has_sessions<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
) -> bool {
    lease.sessions.load(Relaxed) as u32 != 0
}

/// Its barrier: the term, if there are sessions.
pub fn term_of<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
) -> Option<u32> {
    let sessions = lease.sessions.load(Acquire);
    (sessions as u32 != 0).then_some((sessions >> 32) as u32)
}

/// Its last test.
pub fn is_of<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    node: [u64; 2],
) -> bool {
    [0, 1].map(|half| lease.node[half].load(Relaxed)) == node
}

/// One attempt of `lease_take_session`. None: another one. Any term is right if none is given.
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

/// An attempt of `lease_take_port` begins.
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

/// The same without a barrier.
pub fn tail_out_of_order<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    queue: usize,
) -> u32 {
    lease.queues[queue].tail.load(Relaxed)
}

/// Whether there is a port, by what was read of head and tail.
pub fn is_there<M: Memory, const PORTS: usize, const QUEUES: usize>(
    _: &Lease<M, PORTS, QUEUES>,
    head: u64,
    tail: u32,
) -> bool {
    (tail.wrapping_sub(head as u32).wrapping_sub(1) as usize) < PORTS
}

/// The port that goes next.
pub fn port<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    queue: usize,
    head: u64,
) -> u16 {
    lease.queues[queue].ports[head as u32 as usize % PORTS].load(Relaxed)
}

/// Its end: whether the port was taken.
pub fn take_port<M: Memory, const PORTS: usize, const QUEUES: usize>(
    lease: &Lease<M, PORTS, QUEUES>,
    queue: usize,
    head: u64,
) -> bool {
    let next = of_term((head >> 32) as u32, (head as u32).wrapping_add(1));
    lease.queues[queue].head.compare_exchange(head, next)
}
